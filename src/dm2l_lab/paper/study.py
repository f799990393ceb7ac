"""The paper's figures that no store has the numbers for: ranks, convergence, sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dm2l._classifier import DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l_lab import Method, Protocol, UnitVarianceScaler
from dm2l_lab._cell import draw
from dm2l_lab.paper._convergence import Convergence, convergence
from dm2l_lab.paper._figures import convergence_figure, label_rank_figure, sensitivity_figure
from dm2l_lab.paper._label_ranks import LabelRanks, label_ranks
from dm2l_lab.paper._methods import KERNEL
from dm2l_lab.paper._sensitivity import Sensitivity, sensitivity
from dm2l_lab.report._svg import Figure, to_svg

__all__ = ["Study", "study", "study_figures"]

RATE = 0.3
LAMBDA_DS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SIGMAS = tuple(sorted(1 / np.sqrt(2 * gamma) for gamma in KERNEL["gammas"]))
# What searches mostly choose on the smaller sets, and what stays fixed while the other varies.
LINEAR_RIDGE, KERNEL_RIDGE = 3.0, 1.0
SIGMA, LAMBDA_D = 1 / np.sqrt(2), 0.3
WEIGHT = 0.1  # of the solvers; with the 1e-5 of DM2L-l our first step is the minimum
LARGE = 6000  # rows from which on kernels are approximated


@dataclass(frozen=True, eq=False)
class Study:
    """What the figures of one data set show.

    Parameters
    ----------
    dataset : str
        Its name.
    ranks : LabelRanks
        Of the complete labels of all rows.
    course : Convergence
        Of solvers on the training rows of the first repetition, nothing hidden.
    lambda_ds : dict of str to Sensitivity
        By model, on repetitions with labels hidden per row.
    sigmas : Sensitivity
        Of the kernel model, on the same.
    """

    dataset: str
    ranks: LabelRanks
    course: Convergence
    lambda_ds: dict[str, Sensitivity]
    sigmas: Sensitivity


def study(
    dataset: str, *, repetitions: int = 3, progress: Callable[[str], Any] | None = None
) -> Study:
    """Compute what the paper shows of one data set beside its tables.

    Splits and masks are those of the protocols. The solvers minimise the objective of DM2L-l, which
    has no ridge; the sensitivity is that of DM2L with ridge and intercept, run to convergence.

    Parameters
    ----------
    dataset : str
        A name for :func:`dm2l.datasets.load_dataset`.
    repetitions : int, default=3
        Splits for the sensitivity.
    progress : callable, default=None
        Told what is computed next.

    Returns
    -------
    Study
        For :func:`study_figures`.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from unittest import mock
    >>> import numpy as np
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l_lab.paper.study import study
    >>> X, Y = make_missing_multilabel(n_samples=100, rho=1.0, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "tiny.npz"), X=X, Y=Y)
    ...     with mock.patch.dict(os.environ, DM2L_DATA=folder):
    ...         found = study("tiny", repetitions=1)
    >>> found.ranks.whole.shape, list(found.course.courses)
    ((100, 8), ['lbfgs', 'cccp', 'published'])
    """
    say = progress or (lambda text: None)
    one = (Method("DM2L", DM2LClassifier()),)
    protocol = Protocol("study", (dataset,), one, rates=(1.0, RATE), repetitions=repetitions)
    say(f"{dataset}: ranks of labels")
    bunch = load_dataset(dataset)
    ranks = label_ranks(bunch.target, label_names=bunch.target_names)
    say(f"{dataset}: convergence")
    sample = draw(protocol, next(protocol.cells(rates=[1.0])))
    # Of rows without a positive the published solver has another objective.
    rows = np.flatnonzero((sample.Y_train == 1).any(axis=1))
    model = DM2LClassifier.published(lambda_d=WEIGHT)
    course = convergence(sample.X_train[rows], sample.Y_train[rows], model)
    parts: dict[str, list[Sensitivity]] = {"linear": [], "kernel": [], "width": []}
    for cell in protocol.cells(rates=[RATE]):
        say(f"{dataset}: sensitivity, repetition {cell.repetition + 1} of {repetitions}")
        sample = draw(protocol, cell)
        scaler = UnitVarianceScaler().fit(sample.X_train)
        X, X_test = (scaler.transform(part) for part in (sample.X_train, sample.X_test))
        data = (X, sample.Y_train, X_test, sample.Y_test)
        kernel: dict[str, Any] = {"alpha": KERNEL_RIDGE}
        if len(sample.Y_train) > LARGE:
            kernel |= {"approximation": "nystroem", "random_state": cell.estimator_seed}
        parts["linear"].append(sensitivity(*data, LAMBDA_DS, alpha=LINEAR_RIDGE))
        parts["kernel"].append(sensitivity(*data, LAMBDA_DS, [SIGMA], **kernel))
        parts["width"].append(sensitivity(*data, [LAMBDA_D], SIGMAS, **kernel))
    joined = {name: Sensitivity.join(part) for name, part in parts.items()}
    sigmas = joined.pop("width")
    models = {f"DM2L {name}": part for name, part in joined.items()}
    return Study(dataset, ranks, course, models, sigmas)


def study_figures(study: Study) -> list[Figure]:
    """Draw a study.

    Parameters
    ----------
    study : Study
        From :func:`study`.

    Returns
    -------
    list of Figure
        For :func:`~dm2l_lab.report.report`: ranks of label matrices, convergence, sensitivity to
        the weight of the nuclear norms and to the width of the kernel.
    """
    name = study.dataset
    hidden = f"{100 * RATE:g} % of the labels observed, per-row masks, ridge and intercept"
    return [
        Figure(
            f"{name}: ranks of the labels",
            "The label matrix of rows that share a label, against as many random rows and all "
            "rows: what local shrinking and global expanding rest on.",
            to_svg(label_rank_figure(study.ranks)),
        ),
        Figure(
            f"{name}: convergence",
            f"The objective of DM2L-l with lambda_d {WEIGHT:g}, all labels observed: rounds of the "
            "published solver and of the concave-convex one (cccp), iterations of ours (lbfgs).",
            to_svg(convergence_figure(study.course)),
        ),
        Figure(
            f"{name}: sensitivity to lambda_d",
            f"Weight of the nuclear norms; {hidden}, kernel width {SIGMA:.2g}.",
            to_svg(sensitivity_figure(study.lambda_ds)),
        ),
        Figure(
            f"{name}: sensitivity to sigma",
            "Width of the Gaussian kernel, on features whose variances add up to 1; "
            f"{hidden}, lambda_d {LAMBDA_D:g}.",
            to_svg(sensitivity_figure({"DM2L kernel": study.sigmas}, parameter="sigma")),
        ),
    ]
