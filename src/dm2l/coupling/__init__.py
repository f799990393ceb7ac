"""Coupling: what a row's known labels say about its holes.

Residuals ``t - f`` of scores are taken to be Gaussian with a covariance between labels,
estimated with holes (:func:`fit_covariance`); :func:`condition` gives mean and variance of every
entry given the other known labels of its row.
"""

from dm2l.coupling._combine import Combiner
from dm2l.coupling._condition import condition, residuals
from dm2l.coupling._covariance import DenseCovariance, FactorCovariance, LabelCovariance
from dm2l.coupling._doubts import Doubts, suspects
from dm2l.coupling._em import em_dense, em_factor
from dm2l.coupling._estimator import Coupling
from dm2l.coupling._fit import fit_covariance, quick_covariance
from dm2l.coupling._joint import learn_jointly
from dm2l.coupling._later import Later
from dm2l.coupling._leave_out import (
    fitted_leverages,
    honest_scores,
    leave_row_out,
    unseen_scores,
)
from dm2l.coupling._moments import pairwise_covariance
from dm2l.coupling._promise import Filling, Promise, check_max_wrong
from dm2l.coupling._rows import TrainingRows, row_digests, row_keys, row_order
from dm2l.coupling._value import row_gains, trust

__all__ = [
    "Combiner",
    "Coupling",
    "DenseCovariance",
    "Doubts",
    "FactorCovariance",
    "Filling",
    "LabelCovariance",
    "Later",
    "Promise",
    "TrainingRows",
    "check_max_wrong",
    "condition",
    "em_dense",
    "em_factor",
    "fit_covariance",
    "fitted_leverages",
    "honest_scores",
    "learn_jointly",
    "leave_row_out",
    "pairwise_covariance",
    "quick_covariance",
    "residuals",
    "row_digests",
    "row_gains",
    "row_keys",
    "row_order",
    "suspects",
    "trust",
    "unseen_scores",
]
