"""Detection of scores by a model that was fitted to the known labels of the same rows."""

import warnings

import numpy as np

from dm2l.completion._covariance import Floats
from dm2l.labels._entries import Signs

# Ratio from which scores are reported, if its logarithm is above so many standard errors
# (benchmarks/in_sample.py).
RATIO, ERRORS = 1.6, 2.5
FEWEST = 20  # known entries, and missing entries, of a label


def uncertainty_ratio(T: Signs, P: Floats) -> tuple[float, float]:
    r"""Ratio of the mean :math:`p(1-p)` of missing to that of known entries.

    The second result is the standard error of its logarithm, with rows as units.
    Calibrated out-of-fold probabilities are as uncertain for missing entries as for known ones if
    labels are missing at random. A model that was fitted to the known entries separates their
    classes, so that their calibrated probabilities are near 0 and 1, and those of missing entries
    are not. The ratio is 1, and the error infinite, if too few entries are known or missing.
    """
    parts = [(T == 0) & np.isfinite(P), (T != 0) & np.isfinite(P)]
    enough = np.all([part.sum(axis=0) >= FEWEST for part in parts], axis=0)
    if not enough.any():
        return 1.0, np.inf
    means, pulls = [], []
    for part in parts:
        values, counted = (P * (1 - P))[:, enough], part[:, enough]
        mean = np.mean(values, axis=0, where=counted)
        by_row = np.where(counted, values - mean, 0.0) / counted.sum(axis=0)
        means.append(float(mean.sum()))
        pulls.append(by_row.sum(axis=1) / mean.sum())
    ratio = means[0] / means[1]
    return ratio, float(np.linalg.norm(pulls[0] - pulls[1]))


def warn_in_sample(T: Signs, P: Floats) -> None:
    """Warn about calibrated probabilities that are much more certain for known entries."""
    ratio, error = uncertainty_ratio(T, P)
    if ratio > max(RATIO, np.exp(ERRORS * error)):
        warnings.warn(
            f"The scores look in-sample: they are {ratio:.1f} times as uncertain for missing "
            "labels as for known ones, and out-of-fold scores about equally. With in-sample "
            "scores, imputed labels and error rates are wrong. Pass out-of-fold scores, for "
            "example from dm2l.model_selection.cross_val_decision.",
            UserWarning,
            stacklevel=5,
        )
