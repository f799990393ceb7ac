"""A search in two stages: first everything but the nuclear terms, then their weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from dm2l.model_selection import MultilabelKFold


class StagedSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Choose ``gamma`` and ``alpha`` without the nuclear terms, then ``lambda_d`` near them.

    Masked ridge costs a small part of DM2L, so the first stage can afford the whole grid of
    ``gamma`` and ``alpha``. It scores one fold after the other until it has scored ``enough``
    rows: all of a small set, one fold of a large one. The second stage has all folds, the chosen
    ``gamma``, the chosen ``alpha`` and its two neighbours in the grid, and all of ``lambda_d``, 0
    included if the search has it.

    Parameters
    ----------
    search : DM2LClassifierCV
        Its ``alphas`` and, for a kernel, ``gammas`` are the grid of the first stage, its
        ``lambda_ds`` those of the second. ``cv`` must be a number of folds.
    enough : int, default=3000
        Rows that the first stage has to score.

    Attributes
    ----------
    first_stage_ : dict
        What the first stage chose.
    search_ : DM2LClassifierCV
        The second stage, fitted.
    best_params_ : dict
        What the second stage chose.

    Examples
    --------
    >>> from dm2l import DM2LClassifierCV
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l._search._staging import StagedSearch
    >>> X, Y = make_missing_multilabel(random_state=0)
    >>> search = DM2LClassifierCV((0.0, 0.1, 1.0), alphas=(0.1, 1.0, 10.0, 100.0), cv=3)
    >>> model = StagedSearch(search).fit(X, Y)
    >>> model.first_stage_["lambda_d"], len(model.search_.cv_results_["params"])
    (0.0, 9)
    """

    def __init__(self, search: Any, enough: int = 3000) -> None:
        self.search = search
        self.enough = enough

    def fit(self, X: Any, Y: Any) -> Self:
        """Search twice, then fit the best setting to all rows.

        Parameters
        ----------
        X, Y : array of shape (n, d) and (n, c)
            Rows, and their labels 0/1, NaN where missing.

        Returns
        -------
        self
            The fitted estimator.
        """
        folds = _FirstFolds(self.search.cv, self.enough)
        plain = clone(self.search).set_params(lambda_ds=(0.0,), cv=folds, refit=False).fit(X, Y)
        self.first_stage_ = plain.best_params_
        near: dict[str, Any] = {"alphas": _around(self.search.alphas, plain.alpha_)}
        if plain.gamma_ is not None:
            near["gammas"] = (plain.gamma_,)
        self.search_ = clone(self.search).set_params(**near).fit(X, Y)
        self.best_params_ = self.search_.best_params_
        return self

    def decision_function(self, X: Any) -> Any:
        """Scores of the best setting.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, c)
            Larger where a label is more likely.
        """
        check_is_fitted(self)
        return self.search_.decision_function(X)

    def predict(self, X: Any) -> Any:
        """Labels of the best setting.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, c)
            Labels.
        """
        check_is_fitted(self)
        return self.search_.predict(X)


class _FirstFolds:
    """As many of the folds of :class:`MultilabelKFold` as score enough rows."""

    def __init__(self, n_splits: int, enough: int) -> None:
        self.n_splits = n_splits
        self.enough = enough

    def split(self, X: Any, Y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Training and test rows, fold by fold."""
        scored = 0
        for train, test in MultilabelKFold(self.n_splits, random_state=0).split(X, Y, groups):
            yield train, test
            scored += len(test)
            if scored >= self.enough:
                return


def _around(values: Any, chosen: float) -> tuple[float, ...]:
    """A value of a grid and its neighbours."""
    grid = sorted(float(value) for value in values)
    place = grid.index(float(chosen))
    return tuple(grid[max(0, place - 1) : place + 2])
