"""Plots as objects: look at labels with holes, at models and at comparisons.

Every display follows scikit-learn: a ``from_...`` method computes what is drawn and draws it, the
constructor takes the numbers themselves, ``plot`` draws them once more, on axes of the caller's or
on new ones of pyplot. Nothing is shown until ``pyplot.show()``. They need the extra ``plot``.
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
