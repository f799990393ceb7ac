"""What fits and searches on a GPU cost, point by point, and where the time goes: lines of JSON.

    python benchmarks/device_points.py --data FOLDER [--device cuda] [--parts further profile ...]
    python benchmarks/device_points.py --data FOLDER --device cpu --rows 400      # a trial

60 % of the rows, 30 % of the labels observed, as in device.py. ``further``: a path over lambda_d
with tol=1e-5 on Tmc2007-500-old, exact rbf; ``precise``: what it is measured against. ``linear``: a
linear fit of Corel16k001 (alpha=1, lambda_d=1), and how far its objective is from that of numpy.
``search`` and ``search-corel``: 4 gamma x 5 alpha x 11 lambda_d on one split. ``profile``:
operators of a path and of a linear fit by their time on device and host. ``norms``: one stack of
groups, and its pieces. Stored lines of ``norms`` with "products" are of a second way to compute
norms, by matrix products alone, that dm2l no longer has.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from device import FURTHER, Clock, about, load, rbf, search

from dm2l import ConstantLabelWarning, DM2LClassifier, DM2LClassifierCV
from dm2l._search import _path
from dm2l._solvers.nuclear import SmoothNorm

TMC, COREL = "Tmc2007-500-old", "Corel16k001"
# Groups in a stack, rows, labels: of Corel16k001, of its global norm, of Tmc2007-500-old.
STACKS = ((60, 64, 153), (40, 128, 153), (20, 300, 153), (1, 8259, 153), (22, 1500, 22))


def say(part: str, **found: Any) -> None:
    rounded = {
        name: float(f"{value:.4g}") if isinstance(value, float) and name != "objective" else value
        for name, value in found.items()
    }
    print(json.dumps({"part": part} | rounded), flush=True)


@contextmanager
def watched(clock: Clock, note: Callable[..., None]) -> Iterator[None]:
    """Calls ``note`` with every solution of a path and the seconds it took."""
    solve = _path.solve_lbfgs

    def timed(problem: Any, *given: Any, **options: Any) -> Any:
        found: list[Any] = []
        seconds = clock(lambda: found.append(solve(problem, *given, **options)))
        note(problem.lambda_d, found[0], seconds)
        return found[0]

    _path.solve_lbfgs = timed
    try:
        yield
    finally:
        _path.solve_lbfgs = solve


class Data:
    """A data set on the device, with the kernel matrix of its training rows when asked for."""

    def __init__(self, folder: Path, name: str, rows: int | None, device: str) -> None:
        self.parts = load(folder / f"{name}.npz", rows, 0)
        self.Y = self.parts["Y"]
        self.X = torch.asarray(self.parts["X"], device=device)
        self.gamma = 1.0 / (self.X.shape[1] * float(self.X.var()))

    def kernel(self) -> tuple[Any, float]:
        K = rbf(self.X, self.X, self.gamma)
        return K, float(K.diagonal().mean() - K.mean())

    def path(self, lambdas: tuple[float, ...], max_iter: int = 1000) -> None:
        K, alpha = self.kernel()
        rows = np.arange(len(self.Y))
        DM2LClassifierCV(
            lambdas,
            [alpha],
            kernel="precomputed",
            search_tol=1e-5,
            search_iter=max_iter,
            cv=[(rows, rows[:100])],
            refit=False,
        ).fit(K, self.Y)


def further(clock: Clock, data: Data) -> None:
    data.path(FURTHER[:3])  # warm up

    def note(lambda_d: float, solution: Any, seconds: float) -> None:
        say(
            "further",
            lambda_d=lambda_d,
            seconds=seconds,
            evaluations=solution.n_evaluations,
            iterations=solution.n_iter,
            ms=1e3 * seconds / solution.n_evaluations,
            converged=solution.converged,
            objective=solution.objective,
        )

    with watched(clock, note):
        data.path(FURTHER)


def precise(clock: Clock, data: Data) -> None:
    """What a path is measured against."""
    K, alpha = data.kernel()
    for lambda_d in (1.0, 3.0, 10.0):
        model = DM2LClassifier(lambda_d, kernel="precomputed", alpha=alpha, tol=1e-7, coupling=None)
        seconds = clock(lambda model=model: model.fit(K, data.Y))
        say("precise", lambda_d=lambda_d, seconds=seconds, objective=model.objective_)


def linear(clock: Clock, data: Data) -> None:
    models = [DM2LClassifier(1.0, alpha=1.0, coupling=None) for _ in range(3)]
    times = [clock(lambda model=model: model.fit(data.X, data.Y)) for model in models]
    model = models[-1]
    host = DM2LClassifier(1.0, alpha=1.0, coupling=None)
    host_seconds = clock(lambda: host.fit(data.parts["X"], data.Y))
    say(
        "linear",
        seconds=min(times),
        all=[round(seconds, 3) for seconds in times],
        evaluations=model.n_evaluations_,
        ms=1e3 * min(times) / model.n_evaluations_,
        objective=model.objective_,
        above_host=model.objective_ / host.objective_ - 1.0,
        host_seconds=host_seconds,
        host_evaluations=host.n_evaluations_,
    )


def searches(clock: Clock, part: str, data: Data, device: str, quick: bool) -> None:
    spent: dict[str, float] = {"solving": 0.0, "evaluations": 0, "solutions": 0}

    def note(lambda_d: float, solution: Any, seconds: float) -> None:
        spent["solving"] += seconds
        spent["evaluations"] += solution.n_evaluations
        spent["solutions"] += 1

    with watched(clock, note):
        found = search(clock, data.parts, data.gamma, device, quick)
    say(part, seconds=found["seconds"], rows=found["train_rows"], **spent)


def fitted(data: Data) -> DM2LClassifier:
    return DM2LClassifier(1.0, alpha=1.0, coupling=None, tol=1e-4).fit(data.X, data.Y)


def profile(clock: Clock, name: str, work: Callable[[], Any], device: str) -> None:
    """Operators by their own time on device and on host."""
    from torch.profiler import ProfilerActivity

    kinds = [ProfilerActivity.CPU]
    kinds += [ProfilerActivity.CUDA] if device.startswith("cuda") else []
    work()
    plain = clock(work)
    with torch.profiler.profile(activities=kinds) as watch:
        seconds = clock(work)
    rows = watch.key_averages()
    for where in ("self_device_time_total", "self_cpu_time_total"):
        top = sorted(rows, key=lambda row: -getattr(row, where))[:14]
        say(
            f"profile-{name}",
            where=where,
            seconds=plain,
            profiled=seconds,
            total_ms=sum(getattr(row, where) for row in rows) / 1e3,
            launches=sum(row.count for row in rows if "LaunchKernel" in row.key),
            top=[[row.key[:60], row.count, round(getattr(row, where) / 1e3, 2)] for row in top],
        )


def norms(clock: Clock, device: str) -> None:
    for k, n, c in STACKS:
        Z = torch.rand(k, n, c, device=device, dtype=torch.float64) - 0.5
        S = Z.mT @ Z if n >= c else Z @ Z.mT
        S = S + torch.eye(S.shape[-1], device=device, dtype=S.dtype)
        tasks: dict[str, Callable[[], Any]] = {
            "norm": lambda Z=Z: SmoothNorm(1e-2)(Z),
            "norm_curved": lambda Z=Z: SmoothNorm(1e-2)(Z, curvature=True),
            "eigh": lambda S=S: torch.linalg.eigh(S),
            "gram": lambda Z=Z: Z.mT @ Z,
            "square": lambda S=S: S @ S,
            "inv": lambda S=S: torch.linalg.inv(S),
            "cholesky": lambda S=S: torch.linalg.cholesky_ex(S),
        }
        found = {}
        for name, task in tasks.items():
            task()
            found[name] = round(1e3 * clock.median(task, 3), 3)
        say("norms", groups=k, rows=n, labels=c, ms=found)


def products(clock: Clock, n: int, c: int, device: str) -> None:
    """Factors of a kernel's size and products with them."""
    for dtype in (torch.float64, torch.float32):
        M = torch.eye(n, device=device, dtype=dtype)
        D = torch.rand(n, c, device=device, dtype=dtype)
        tasks: dict[str, Callable[[], Any]] = {
            "cholesky": lambda M=M: torch.linalg.cholesky_ex(M),
            "product": lambda M=M, D=D: M @ D,
            "transposed": lambda M=M, D=D: M.mT @ D,
            "from_right": lambda M=M, D=D: (D.mT @ M).mT,
        }
        found = {}
        for name, task in tasks.items():
            task()
            found[name] = round(1e3 * clock.median(task, 3), 3)
        say("products", n=n, columns=c, dtype=str(dtype), ms=found)
        del M, tasks


PARTS = ("linear", "further", "search", "search-corel", "profile", "norms", "products", "precise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the archives")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="most training rows (default: all)")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)
    device, rows = arguments.device, arguments.rows
    clock, start = Clock(device), time.perf_counter()
    say("about", **about(device))
    tmc, corel = (Data(arguments.data, name, rows, device) for name in (TMC, COREL))
    for part in arguments.parts:
        if part == "norms":
            norms(clock, device)
        elif part == "products":
            products(clock, len(tmc.Y), tmc.Y.shape[1], device)
        elif part == "linear":
            linear(clock, corel)
        elif part == "further":
            further(clock, tmc)
        elif part == "precise":
            precise(clock, tmc)
        elif part == "profile":
            profile(clock, "path", lambda: tmc.path((0.3, 1.0, 3.0), max_iter=20), device)
            profile(clock, "linear", lambda: fitted(corel), device)
        elif part == "search":
            searches(clock, part, tmc, device, rows is not None)
        else:
            searches(clock, part, corel, device, rows is not None)
        say("done", what=part, passed=time.perf_counter() - start)
    if device.startswith("cuda"):
        say("memory", peak_gb=torch.cuda.max_memory_allocated(device) / 1e9)


if __name__ == "__main__":
    main()
