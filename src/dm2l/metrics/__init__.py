"""Metrics of labels with holes: what complete labels would give, or what observed ones do.

Every function takes the same ``Y`` as the estimators. Where entries are missing, the value that
complete labels would give is estimated from those that are observed; ``holes="observed"`` judges
these alone. Where the literature disagrees, ``convention`` chooses: ``"paper"`` (the text of the
DM2L paper), ``"published"`` (what its released code computes) or ``"sklearn"``. Those that look at
the first ``k`` places take a list of the best labels as well as all scores.
"""

from dm2l.metrics._at_k import (
    ndcg_at_k,
    precision_at_k,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
)
from dm2l.metrics._calibrated import calibrated_log_loss
from dm2l.metrics._decisions import f1_macro, f1_micro, hamming_loss
from dm2l.metrics._evaluate import evaluate, label_table
from dm2l.metrics._propensities import observation_weights, propensities
from dm2l.metrics._ranking import (
    average_precision,
    coverage,
    instance_auc,
    label_auc,
    one_error,
    ranking_loss,
)
from dm2l.metrics._skill import label_skill, two_way_ranking
from dm2l.metrics._ticks import evaluate_ticks
from dm2l.metrics._units import MetricValue

__all__ = [
    "MetricValue",
    "average_precision",
    "calibrated_log_loss",
    "coverage",
    "evaluate",
    "evaluate_ticks",
    "f1_macro",
    "f1_micro",
    "hamming_loss",
    "instance_auc",
    "label_auc",
    "label_skill",
    "label_table",
    "ndcg_at_k",
    "observation_weights",
    "one_error",
    "precision_at_k",
    "propensities",
    "propensity_scored_ndcg_at_k",
    "propensity_scored_precision_at_k",
    "ranking_loss",
    "two_way_ranking",
]
