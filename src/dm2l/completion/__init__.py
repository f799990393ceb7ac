"""Completion: probabilities, imputed labels and label errors from the scores of any model.

Differences ``t - f`` between signs and scores are modelled as Gaussian residuals. The covariance of
residuals is estimated from known entries. Conditioning on the other known labels of a row gives the
mean and the variance of every entry.
"""

from dm2l.completion._errors import CompletionSummary, ErrorRateBound, LabelErrors

__all__ = ["CompletionSummary", "ErrorRateBound", "LabelErrors"]
