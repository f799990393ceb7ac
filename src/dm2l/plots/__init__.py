"""Displays of labels with missing entries, of models and of searches.

Displays follow scikit-learn: a ``from_...`` method computes the numbers and draws them, the
constructor takes the numbers themselves, and ``plot`` draws them again. These methods return the
display. They draw into the axes ``ax``, or into a new pyplot figure if ``ax`` is None; the
attributes ``ax_`` and ``figure_`` are the axes and the figure.

Labels are NaN-coded arrays or data frames. Use a :class:`dm2l.labels.LabelMatrix` for labels with
other marks of missing entries. Displays need the extra ``plot``.
"""

from dm2l.plots._labels import CooccurrenceDisplay, MissingnessDisplay, SingularValuesDisplay
from dm2l.plots._models import ConvergenceDisplay, CouplingDisplay, PathDisplay, ReliabilityDisplay

__all__ = [
    "ConvergenceDisplay",
    "CooccurrenceDisplay",
    "CouplingDisplay",
    "MissingnessDisplay",
    "PathDisplay",
    "ReliabilityDisplay",
    "SingularValuesDisplay",
]
