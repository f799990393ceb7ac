"""The label contract: 0/1 or -1/+1 with holes, dense, sparse or in blocks, read in one place."""

from dm2l.labels._form import LabelForm
from dm2l.labels._labels import (
    ConstantLabelWarning,
    Labels,
    Signs,
    observed_classes,
    parse_labels,
    refuse_shuffled,
    signs,
)
from dm2l.labels._stored import StoredLabels, stored_labels

__all__ = [
    "ConstantLabelWarning",
    "LabelForm",
    "Labels",
    "Signs",
    "StoredLabels",
    "observed_classes",
    "parse_labels",
    "refuse_shuffled",
    "signs",
    "stored_labels",
]
