"""Label matrices with missing entries, which are read from arrays, data frames and lists."""

from typing import TYPE_CHECKING, Any

from dm2l.labels._matrix import ConstantLabelWarning, LabelMatrix
from dm2l.labels._parsing import SparseLabelMatrix

if TYPE_CHECKING:
    from dm2l.labels._rules import LabelRules

__all__ = ["ConstantLabelWarning", "LabelMatrix", "LabelRules", "SparseLabelMatrix"]


def __getattr__(name: str) -> Any:
    if name != "LabelRules":
        raise AttributeError(f"module 'dm2l.labels' has no attribute {name!r}")
    from dm2l.labels._rules import LabelRules  # loaded on first use

    return LabelRules
