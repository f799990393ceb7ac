"""Label matrices with missing entries: conversion of all accepted formats to a common form."""

from dm2l.labels._matrix import ConstantLabelWarning, LabelMatrix
from dm2l.labels._parsing import SparseLabelMatrix
from dm2l.labels._rules import LabelRules

__all__ = ["ConstantLabelWarning", "LabelMatrix", "LabelRules", "SparseLabelMatrix"]
