"""Detection of scores by a model that was fitted to the known labels of the same rows."""

import warnings

import numpy as np

from dm2l.completion._covariance import Floats
from dm2l.labels._entries import Signs

# Ratio from which scores are reported, if its logarithm is above so many standard errors; and
# fewest known and missing entries of a label (benchmarks/in_sample.py).
RATIO, ERRORS, FEWEST = 1.6, 2.5, 20


def uncertainty_ratio(T: Signs, P: Floats) -> tuple[float, float]:
    r"""Ratio of the mean :math:`p(1-p)` of missing to known entries, and the error of its log.

    Out-of-fold probabilities are as uncertain for missing entries as for known ones. In-sample
    scores separate the known classes, so that calibration makes known entries certain only.
    """
    parts = [(T == 0) & np.isfinite(P), (T != 0) & np.isfinite(P)]
    enough = np.all([part.sum(axis=0) >= FEWEST for part in parts], axis=0)
    if not enough.any():
        return 1.0, np.inf
    values, means, pulls = (P * (1 - P))[:, enough], [], []
    for part in (part[:, enough] for part in parts):
        mean = np.mean(values, axis=0, where=part)
        by_row = np.where(part, values - mean, 0.0) / part.sum(axis=0)
        means.append(float(mean.sum()))
        pulls.append(by_row.sum(axis=1) / mean.sum())
    return means[0] / means[1], float(np.linalg.norm(pulls[0] - pulls[1]))


def warn_in_sample(T: Signs, P: Floats) -> None:
    """Warn about calibrated probabilities that are much more certain for known entries."""
    ratio, error = uncertainty_ratio(T, P)
    if ratio > max(RATIO, np.exp(ERRORS * error)):
        warnings.warn(
            "The scores look in-sample: they are much more certain for known labels than for "
            "missing ones. With in-sample scores, imputed labels and error rates are wrong. Pass "
            "out-of-fold scores, for example from dm2l.model_selection.cross_val_decision.",
            UserWarning,
            stacklevel=5,
        )
