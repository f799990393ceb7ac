"""The exact kernel model on a GPU: a fit, further lambda_d, a search, agreement with numpy.

    python benchmarks/device.py --data Tmc2007-500-old.npz [--device cuda] [--out FILE.json]
    python benchmarks/device.py --data Arts.npz --device cpu --rows 500      # a trial without one

60 % of the rows, rbf with gamma="scale", 30 % of the labels observed. The kernel matrix is computed
on the device and timed apart; a fit then gets it as kernel="precomputed". Fits have the default
tolerance, except where scores are compared with those of numpy on this machine's processor, where
both run to tol=1e-10. The device is synchronized before and after whatever is timed; the first fit
of each dtype is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from record import write

from dm2l import ConstantLabelWarning, DM2LClassifier, DM2LClassifierCV
from dm2l.datasets import load_dataset
from dm2l.metrics import label_ranking_average_precision
from dm2l.simulate import simulate_per_row

RHO = 0.3
FIRST = 0.3  # lambda_d of the first fit
FURTHER = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SEARCH = {
    "gammas": (0.25, 0.5, 1.0, 2.0),  # times gamma="scale"
    "alphas": (0.1, 0.3, 1.0, 3.0, 10.0),
    "lambda_ds": tuple(10.0**power for power in range(-5, 6)),
}
TEST_ROWS = 2000
EIGH_SIZES = (22, 32, 53, 100, 153)


class Clock:
    """Seconds of a task, with everything queued on the device done before and after."""

    def __init__(self, device: str) -> None:
        self._wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None

    def __call__(self, task: Callable[[], Any]) -> float:
        self._wait()
        start = time.perf_counter()
        task()
        self._wait()
        return time.perf_counter() - start

    def median(self, task: Callable[[], Any], repeats: int) -> float:
        return statistics.median(self(task) for _ in range(repeats))


def about(device: str) -> dict[str, Any]:
    """What the figures belong to."""
    found: dict[str, Any] = {"device": device, "torch": torch.__version__}
    found |= {"host_cores": os.cpu_count(), "host_threads": torch.get_num_threads()}
    if device.startswith("cuda"):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, check=False, capture_output=True, text=True).stdout
        found |= {"name": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
        found |= {"driver": driver.split("\n")[0].strip()}
    return found


def load(path: Path, rows: int | None, seed: int) -> dict[str, Any]:
    os.environ["DM2L_DATA"] = str(path.parent)
    data = load_dataset(path.stem)
    X = data.data.toarray() if sp.issparse(data.data) else data.data
    order = np.random.RandomState(seed).permutation(len(X))
    cut = int(0.6 * len(order))
    train, test = order[:cut][:rows], order[cut:][:rows]
    Y = simulate_per_row(data.target[train], RHO, random_state=seed)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    return {
        "X": X[train],
        "Y": Y[:, both],
        "X_test": X[test],
        "Y_test": data.target[test][:, both].astype(np.float64),
    }


def rbf(A: Any, B: Any, gamma: float) -> Any:
    """Kernel matrix between rows of tensors."""
    K = (A * A).sum(1)[:, None] + (B * B).sum(1)[None, :]
    K.addmm_(A, B.T, alpha=-2.0).clamp_(min=0.0)
    return K.mul_(-gamma).exp_()


def host(scores: Any) -> Any:
    return torch.as_tensor(scores).cpu().numpy()


def fits(clock: Clock, K: Any, K_test: Any, data: Any, alpha: float, repeats: int) -> Any:
    """Seconds of the first fit and of every further lambda_d, and what the scores are worth."""
    Y = data["Y"]
    settings: dict[str, Any] = {"kernel": "precomputed", "alpha": alpha}
    model = DM2LClassifier(FIRST, **settings)
    model.fit(K, Y)  # warm up
    first = clock.median(lambda: DM2LClassifier(FIRST, **settings).fit(K, Y), repeats)
    # Further lambda_d share the factors: a path at the tolerance of a fit, on these rows alone.
    rows = np.arange(len(Y))
    path = DM2LClassifierCV(
        FURTHER,
        [alpha],
        kernel="precomputed",
        search_tol=model.tol,
        search_iter=model.max_iter,
        cv=[(rows, rows[:100])],
        refit=False,
    ).fit(K, Y)
    spent = path.cv_results_["mean_fit_time"]
    further = [
        {"lambda_d": lambda_d, "seconds": float(seconds)}
        for lambda_d, seconds in zip(FURTHER[1:], spent[1:], strict=True)
    ]
    scores = host(model.decision_function(K_test))
    return {
        "first": first,
        "iterations": model.n_iter_,
        "evaluations": model.n_evaluations_,
        "objective": float(model.objective_),
        "average_precision": float(
            label_ranking_average_precision(data["Y_test"][: len(scores)], scores)
        ),
        "further": further,
    }


def agreement(clock: Clock, K: Any, K_test: Any, Y: Any, alpha: float) -> dict[str, Any]:
    """Largest difference of decision values between the device and numpy on the host."""
    settings = {"kernel": "precomputed", "alpha": alpha, "tol": 1e-10, "max_iter": 5000}
    there, here = DM2LClassifier(FIRST, **settings), DM2LClassifier(FIRST, **settings)
    K_host, K_test_host = K.cpu().numpy(), K_test.cpu().numpy()
    spent = {
        "device": clock(lambda: there.fit(K, Y)),
        "host": clock(lambda: here.fit(K_host, Y)),
    }
    default = DM2LClassifier(FIRST, kernel="precomputed", alpha=alpha)
    spent["host_default_tol"] = clock(lambda: default.fit(K_host, Y))
    difference = host(there.decision_function(K_test)) - here.decision_function(K_test_host)
    objectives = float(there.objective_), float(here.objective_)
    return {
        "largest_difference": float(np.abs(difference).max()),
        "objective_difference": abs(objectives[0] - objectives[1]) / objectives[1],
        "seconds": spent,
    }


def search(clock: Clock, data: Any, gamma: float, device: str, quick: bool) -> dict[str, Any]:
    """The grid on one split: fitted on the training rows, scored on the test rows."""
    grid = {name: list(values[: 2 if quick else None]) for name, values in SEARCH.items()}
    grid["gammas"] = [gamma * factor for factor in grid["gammas"]]
    X = torch.asarray(np.vstack([data["X"], data["X_test"]]), device=device)
    Y = np.vstack([data["Y"], data["Y_test"]])
    rows = np.arange(len(Y))
    split = [(rows[: len(data["X"])], rows[len(data["X"]) :])]
    model = DM2LClassifierCV(kernel="rbf", cv=split, refit=False, **grid)
    spent = clock(lambda: model.fit(X, Y))
    found = {"grid": grid, "seconds": spent, "train_rows": len(data["X"])}
    return found | {"search_tol": model.search_tol}


def eigh(clock: Clock, device: str, repeats: int) -> list[dict[str, Any]]:
    """Batched ``eigh``, as many matrices as rows: on the device, and on the host with copies."""
    rows = []
    for size in EIGH_SIZES:
        half = torch.rand(size, 4 * size, size, device=device, dtype=torch.float64)
        S = half.transpose(1, 2) @ half
        tasks = {
            "device": lambda S=S: torch.linalg.eigh(S),
            "host": lambda S=S: [part.to(device) for part in torch.linalg.eigh(S.cpu())],
        }
        for task in tasks.values():
            task()
        spent = {name: clock.median(task, repeats) for name, task in tasks.items()}
        rows.append({"size": size, "seconds": spent})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="an archive of dm2l.datasets")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="most training rows (default: all)")
    parser.add_argument("--skip", nargs="+", default=[], choices=("agreement", "search", "eigh"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="500 rows, 2 x 2 x 2 values")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    device, clock = arguments.device, Clock(arguments.device)
    facts = about(device)
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)

    data = load(arguments.data, 500 if arguments.quick else arguments.rows, arguments.seed)
    gamma = 1.0 / (data["X"].shape[1] * float(data["X"].var()))
    X = torch.asarray(data["X"], device=device)
    X_test = torch.asarray(data["X_test"][:TEST_ROWS], device=device)
    rbf(X, X, gamma)
    kernel_seconds = clock.median(lambda: rbf(X, X, gamma), arguments.repeats)
    K, K_test = rbf(X, X, gamma), rbf(X_test, X, gamma)
    alpha = float(K.diagonal().mean() - K.mean())  # what alpha="scale" means
    print(f"{arguments.data.stem}: {len(X)} rows; kernel matrix {kernel_seconds:.3f} s", flush=True)

    results: dict[str, Any] = {"kernel_seconds": kernel_seconds, "dtypes": {}}

    def save() -> None:
        """After every part: a run that is cut short keeps what it has."""
        if arguments.out:
            record = {"data": arguments.data.stem, "seed": arguments.seed, "rho": RHO}
            record |= {"gamma": gamma, "alpha": alpha, "lambda_d": FIRST, "rows": len(X)}
            record |= {"quick": arguments.quick, "about": facts, "results": results}
            write(arguments.out, record)

    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        parts = K.to(dtype), K_test.to(dtype)
        found = fits(clock, *parts, data, alpha, arguments.repeats)
        results["dtypes"][name] = found
        times = [row["seconds"] for row in found["further"]]
        print(
            f"{name}: first fit {found['first']:.3f} s ({found['iterations']} iterations), further "
            f"lambda_d {statistics.median(times):.3f} s, at most {max(times):.3f} s; "
            f"J {found['objective']:.6g}, Ap {found['average_precision']:.4f}",
            flush=True,
        )
        save()
    if "eigh" not in arguments.skip and device.startswith("cuda"):
        results["eigh"] = eigh(clock, device, arguments.repeats)
        for row in results["eigh"]:
            ours, theirs = (1e3 * row["seconds"][place] for place in ("device", "host"))
            size = row["size"]
            print(f"{size} eigh of {size} x {size}: device {ours:.1f} ms, host {theirs:.1f} ms")
        save()
    if "search" not in arguments.skip:
        results["search"] = found = search(clock, data, gamma, device, arguments.quick)
        sizes = " x ".join(f"{len(values)} {name[:-1]}" for name, values in found["grid"].items())
        print(f"search {sizes}: {found['seconds']:.2f} s", flush=True)
        save()
    if "agreement" not in arguments.skip:
        sys.stderr.write("fitting on the host\n")
        results["agreement"] = found = agreement(clock, K, K_test, data["Y"], alpha)
        print(
            f"scores of device and host differ by at most {found['largest_difference']:.1e}; "
            + ", ".join(f"{name} {value:.2f} s" for name, value in found["seconds"].items())
        )
    if device.startswith("cuda"):
        results["peak_bytes"] = torch.cuda.max_memory_allocated(device)
        print(f"peak memory of the device {results['peak_bytes'] / 1e9:.1f} GB")
    save()


if __name__ == "__main__":
    main()
