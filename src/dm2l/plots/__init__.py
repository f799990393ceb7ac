"""Displays of labels with missing entries, of models and of searches.

Displays follow scikit-learn: a ``from_...`` method computes what is drawn and draws it, the
constructor takes the numbers themselves, and ``plot`` draws them again. ``ax`` is where to draw;
None for a new figure of pyplot. Each of these methods returns the display, whose ``ax_`` and
``figure_`` are where it was drawn. Nothing is shown until ``pyplot.show()``.

Labels are NaN-coded arrays, data frames, or a :class:`dm2l.labels.LabelMatrix` where missing
labels are marked otherwise. Displays need the extra ``plot``.
"""

from dm2l.plots._labels import CooccurrenceDisplay, CouplingDisplay, MissingnessDisplay
from dm2l.plots._models import ConvergenceDisplay, PathDisplay, ReliabilityDisplay
from dm2l.plots._singular_values import SingularValuesDisplay

__all__ = [
    "ConvergenceDisplay",
    "CooccurrenceDisplay",
    "CouplingDisplay",
    "MissingnessDisplay",
    "PathDisplay",
    "ReliabilityDisplay",
    "SingularValuesDisplay",
]
