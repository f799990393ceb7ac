"""Search for ``lambda_d``, ``alpha`` and ``gamma`` by cross-validation on shared factorisations."""

from dm2l._search._search import DM2LClassifierCV

__all__ = ["DM2LClassifierCV"]
