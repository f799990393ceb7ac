"""Search for ``lambda_d``, ``alpha`` and ``gamma`` by cross-validation on shared factorisations."""

from dm2l.search._search import DM2LClassifierCV, usual_scoring
from dm2l.search._staging import StagedSearch

__all__ = ["DM2LClassifierCV", "StagedSearch", "usual_scoring"]
