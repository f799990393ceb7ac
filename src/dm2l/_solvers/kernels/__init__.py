"""Kernels, factors of their matrices, and the feature maps that they give.

With ``K = Phi Phi'`` the kernel model is the linear model on ``Phi``, so one core serves all:

* :class:`LinearMap`: ``Phi = X``, or a factor of ``XX'`` where ``X`` has more columns than rows;
* :class:`KernelMap`: an exact factor of the kernel matrix, which costs ``n^2`` memory;
* :class:`NystroemMap`: ``r`` columns of any kernel, interpolated from ``r`` rows;
* :class:`FourierMap`: ``r/2`` random waves for the rbf kernel, an error that falls like
  ``1/sqrt(r)``, and a model that keeps no training row;
* :class:`KernelColumns`: ``Phi = K``, the variables of the published solver.
"""

from dm2l._solvers.kernels._factor import KernelFactor, kernel_factor
from dm2l._solvers.kernels._fourier import FourierMap
from dm2l._solvers.kernels._kernel import Kernel, tanimoto_kernel
from dm2l._solvers.kernels._linear import LinearMap
from dm2l._solvers.kernels._map import FeatureMap
from dm2l._solvers.kernels._nystroem import NystroemMap, pivoted_cholesky
from dm2l._solvers.kernels._rows import KernelColumns, KernelMap, LandmarkMap

__all__ = [
    "FeatureMap",
    "FourierMap",
    "Kernel",
    "KernelColumns",
    "KernelFactor",
    "KernelMap",
    "LandmarkMap",
    "LinearMap",
    "NystroemMap",
    "kernel_factor",
    "pivoted_cholesky",
    "tanimoto_kernel",
]
