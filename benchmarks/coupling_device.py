"""Coupling on a GPU against numpy: fits and completed tables.

    python benchmarks/coupling_device.py [--device cuda] [--out FILE.json]
    python benchmarks/coupling_device.py --device cpu --quick          # a trial without one

Made-up labels that features explain a part of and factors another. The estimator is fitted to
numpy arrays and to tensors, to tol=1e-10 both, and completes its own rows and new ones; of every
method the largest difference of an answer is given. The first run of each is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import write

from dm2l import DM2LClassifier

METHODS = ("decision_function", "predict_proba", "predict")
# Rows, features, labels.
ESTIMATOR, QUICK_ESTIMATOR = (6_000, 200, 60), (600, 20, 10)


def made_up(n: int, d: int, c: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X, common = rng.standard_normal((n, d)), rng.standard_normal((n, 4))
    explained = X @ rng.standard_normal((d, c)) / d**0.5
    scores = explained + common @ rng.standard_normal((4, c)) / 2 + rng.standard_normal((n, c))
    truth = (scores > rng.uniform(0, 2, size=c)).astype(np.float64)
    return X, np.where(rng.random((n, c)) < 0.5, truth, np.nan)


def seconds(task: Callable[[], Any], device: str) -> tuple[Any, float]:
    """What a task gives, and how long it took the second time."""
    spent = 0.0
    for _ in range(2):
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        start = time.perf_counter()
        found = task()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        spent = time.perf_counter() - start
    return found, spent


def host(values: Any) -> Any:
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def apart(one: Any, other: Any) -> float:
    return float(np.abs(host(one) - host(other)).max())


def estimators(device: str, kernel: str, quick: bool) -> dict[str, Any]:
    """Fits of numpy arrays and of tensors, and what they fill into holes."""
    X, Y = made_up(*(QUICK_ESTIMATOR if quick else ESTIMATOR))
    new = len(Y) // 5
    settings: dict[str, Any] = {"kernel": kernel, "tol": 1e-10, "max_iter": 5000}
    spent, answers, covariances = {}, {}, {}
    for place in ("numpy", device):
        rows = X if place == "numpy" else torch.asarray(X, device=device)
        model, fit = seconds(lambda r=rows: DM2LClassifier(**settings).fit(r[new:], Y[new:]), place)
        filled, complete = seconds(
            lambda m=model, r=rows: [m.complete(r, Y, method=method) for method in METHODS], place
        )
        spent[place] = {"fit": fit, "complete": complete / len(METHODS)}
        answers[place] = filled
        covariances[place] = model.label_covariance_.matrix()
    gaps = [apart(a, b) for a, b in zip(answers["numpy"], answers[device], strict=True)]
    return {
        "shape": [*X.shape, Y.shape[1]],
        "seconds": spent,
        "largest_difference": dict(zip(METHODS, gaps, strict=True)),
        "covariance_difference": apart(covariances["numpy"], covariances[device]),
    }


def show(title: str, found: dict[str, Any]) -> None:
    print(f"{title} {' x '.join(map(str, found['shape']))}")
    for place, spent in found["seconds"].items():
        print(f"  {place}: " + ", ".join(f"{name} {s:.3f} s" for name, s in spent.items()))
    gaps = {k: v for k, v in found.items() if k.endswith("_difference")}
    flat = gaps.pop("largest_difference") | gaps
    print("  apart: " + ", ".join(f"{name} {gap:.1e}" for name, gap in flat.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device, quick = arguments.device, arguments.quick
    record: dict[str, Any] = {"device": device, "torch": torch.__version__, "quick": quick}
    if device.startswith("cuda"):
        record["name"] = torch.cuda.get_device_name(device)
    for kernel in ("linear", "rbf"):
        record[kernel] = estimators(device, kernel, quick)
        show(f"DM2LClassifier, {kernel},", record[kernel])
    if arguments.out:
        write(arguments.out, record)


if __name__ == "__main__":
    main()
