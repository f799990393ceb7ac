"""The label contract: 0/1 or -1/+1 with holes, dense, sparse or in blocks, read in one place."""

from dm2l.labels._containers import refuse_shuffled
from dm2l.labels._entries import Entries, checked_weights, weigh
from dm2l.labels._entries import Signs as Signs  # a type for annotations
from dm2l.labels._form import LabelForm
from dm2l.labels._labels import ConstantLabelWarning as ConstantLabelWarning  # shown by dm2l
from dm2l.labels._labels import Labels
from dm2l.labels._parsing import observed_classes, parse_labels, signs, stored_labels
from dm2l.labels._sparse import StoredLabels
from dm2l.labels._structure import Cooccurrence, Implication, Spectrum

__all__ = [
    "Cooccurrence",
    "Entries",
    "Implication",
    "LabelForm",
    "Labels",
    "Spectrum",
    "StoredLabels",
    "checked_weights",
    "observed_classes",
    "parse_labels",
    "refuse_shuffled",
    "signs",
    "stored_labels",
    "weigh",
]
