"""Displays of labels with missing entries, of models and of searches.

Displays follow scikit-learn: a ``from_...`` method computes what is drawn and draws it, the
constructor takes the numbers themselves, and ``plot`` draws them again. ``ax`` is where to draw;
None for a new figure of pyplot. Each of these methods returns the display, whose ``ax_`` and
``figure_`` are where it was drawn. Nothing is shown until ``pyplot.show()``.

Labels are NaN-coded arrays, data frames, or a :class:`dm2l.labels.LabelMatrix` where missing
labels are marked otherwise. Displays need the extra ``plot``.
"""

from dm2l.plots._convergence import ConvergenceDisplay
from dm2l.plots._cooccurrence import CooccurrenceDisplay
from dm2l.plots._coupling import CouplingDisplay
from dm2l.plots._missingness import MissingnessDisplay
from dm2l.plots._path import PathDisplay
from dm2l.plots._reliability import ReliabilityDisplay
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
