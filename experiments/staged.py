"""The search of the paper's protocols: ridge and kernel width first, then the norms near them."""

from collections.abc import Iterator
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone

from dm2l._search._search import search_stage
from dm2l.model_selection import MultilabelKFold


class StagedSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Choose ``gamma`` and ``alpha`` in one stage, ``lambda_d`` and a neighbouring ``alpha`` next.

    The first stage scores one fold after the other until it has scored ``enough`` rows: all of a
    small set, one fold of a large one.
    """

    def __init__(self, search: Any, enough: int = 3000) -> None:
        self.search = search
        self.enough = enough

    def fit(self, X: Any, Y: Any) -> Self:
        """Search twice, then fit the best setting to all rows."""
        first = clone(self.search).set_params(cv=_FirstFolds(self.search.cv, self.enough))
        ridge = search_stage(first).fit(X, Y)
        self.first_stage_ = ridge.best_params_
        near = _around(self.search.alphas, ridge.alpha_)
        self.search_ = search_stage(self.search, ridge, near).fit(X, Y)
        self.best_params_ = self.search_.best_params_
        return self

    def decision_function(self, X: Any) -> Any:
        """Scores of the best setting."""
        return self.search_.decision_function(X)

    def predict(self, X: Any) -> Any:
        """Labels of the best setting."""
        return self.search_.predict(X)


class _FirstFolds:
    """As many of the folds of :class:`MultilabelKFold` as score enough rows."""

    def __init__(self, n_splits: int, enough: int) -> None:
        self.n_splits = n_splits
        self.enough = enough

    def split(self, X: Any, Y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Training and test rows, fold by fold."""
        scored = 0
        for train, test in MultilabelKFold(self.n_splits, random_state=0).split(X, Y):
            yield train, test
            scored += len(test)
            if scored >= self.enough:
                return


def _around(values: Any, chosen: float) -> tuple[float, ...]:
    """A value of a grid and its neighbours."""
    grid = sorted(float(value) for value in values)
    place = grid.index(float(chosen))
    return tuple(grid[max(0, place - 1) : place + 2])
