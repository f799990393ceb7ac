r"""Nuclear norms: the exact value, a subgradient, and a smooth stand-in that needs no tall SVD.

For any ``Z`` with Gram matrix ``S = Z'Z`` (or ``ZZ'``, whichever is smaller) and ``mu > 0``

.. math:: \|Z\|_\mu = \operatorname{tr}\bigl((S + \mu^2 I)^{1/2}\bigr) - \mu r,
          \qquad \nabla \|Z\|_\mu = Z (S + \mu^2 I)^{-1/2},

with ``r = min(Z.shape)``, is smooth and lies between ``||Z||_* - mu r`` and ``||Z||_*``.
All functions take arrays of any array-API library. The norms take stacks of matrices too and then
give the sum; zero rows that fill a stack up to a common height change nothing.
"""

from dm2l._solvers.nuclear._norms import (
    SmoothNorm,
    nuclear_norm,
    smooth_nuclear_norm,
    subgradient,
    thresholded_nuclear_norm,
)
from dm2l._solvers.nuclear._products import Norm, NormValue

__all__ = [
    "Norm",
    "NormValue",
    "SmoothNorm",
    "nuclear_norm",
    "smooth_nuclear_norm",
    "subgradient",
    "thresholded_nuclear_norm",
]
