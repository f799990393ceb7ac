"""Metrics for label matrices with missing entries.

Every metric takes ``(y_true, y_score)``. ``y_true`` is an array with NaN for missing labels, or a
:class:`~dm2l.labels.LabelMatrix`. If labels are missing, metrics estimate the value that the
complete labels would give; ``estimate=False`` evaluates only the observed labels. Definitions
differ in the literature: ``convention`` selects ``"paper"`` (the text of the DM2L paper),
``"published"`` (its released code) or ``"sklearn"``.
"""

from dm2l.metrics._at_k import (
    ndcg_at_k,
    precision_at_k,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
)
from dm2l.metrics._complete import observation_weights, propensities
from dm2l.metrics._decisions import calibrated_log_loss, f1_macro, f1_micro, hamming_loss
from dm2l.metrics._evaluate import evaluate, evaluate_positive_unlabelled, label_table
from dm2l.metrics._ranking import (
    coverage_error,
    instance_auc,
    label_auc,
    label_ranking_average_precision,
    one_error,
    ranking_loss,
)
from dm2l.metrics._reading import MetricValue

__all__ = [
    "MetricValue",
    "calibrated_log_loss",
    "coverage_error",
    "evaluate",
    "evaluate_positive_unlabelled",
    "f1_macro",
    "f1_micro",
    "hamming_loss",
    "instance_auc",
    "label_auc",
    "label_ranking_average_precision",
    "label_table",
    "ndcg_at_k",
    "observation_weights",
    "one_error",
    "precision_at_k",
    "propensities",
    "propensity_scored_ndcg_at_k",
    "propensity_scored_precision_at_k",
    "ranking_loss",
]
