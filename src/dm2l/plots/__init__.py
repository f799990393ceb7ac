"""Displays of labels with missing entries, of models and of hyperparameter searches.

Displays follow scikit-learn: a ``from_...`` method computes the numbers and draws them, the
constructor takes computed numbers, and ``plot`` draws them again. All methods that draw return the
display. A display uses the axes ``ax``, or a new pyplot figure if ``ax`` is None. The attributes
``ax_`` and ``figure_`` are the axes and the figure.

Labels are arrays or data frames in which NaN is a missing label. If another value marks missing
labels, pass a :class:`dm2l.labels.LabelMatrix`. Displays need the extra ``plot``.
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
