"""Coupling: what a row's known labels say about its holes.

Residuals ``t - f`` of scores are taken to be Gaussian with a covariance between labels,
estimated with holes (:func:`fit_covariance`); :func:`condition` gives mean and variance of every
entry given the other known labels of its row.
"""

from dm2l.completion._error_rate import CompletionSummary, ErrorRateBound
from dm2l.completion._label_errors import LabelErrors

__all__ = ["CompletionSummary", "ErrorRateBound", "LabelErrors"]
