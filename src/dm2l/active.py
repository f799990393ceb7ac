"""Active learning: which missing entries to query next, in the manner of scikit-activeml."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from dm2l._classifier import DM2LClassifier
from dm2l.labels import ConstantLabelWarning, LabelMatrix
from dm2l.tables._suggestion import answer_values, choose_batch

__all__ = ["EntrySampling"]


class EntrySampling(BaseEstimator):
    """Query strategy for pairs of a row and a label, by expected information gain.

    The value of an entry is the number of mistakes that its label is expected to avoid in imputing,
    as in ``dm2l suggest``. Entries of a batch are chosen one after the other, given those before,
    so that similar rows, and labels of one row, are not queried together.

    Parameters
    ----------
    missing_label : scalar, default=np.nan
        Value that marks a missing label. ``MISSING_LABEL`` of scikit-activeml is NaN.

    See Also
    --------
    dm2l.tables.suggest_entries : The same values for a table, each entry by itself.

    Examples
    --------
    >>> from dm2l.active import EntrySampling
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y, truth = make_missing_multilabel(rho=0.2, random_state=0, return_truth=True)
    >>> pairs = EntrySampling().query(X, Y, batch_size=20)
    >>> Y[tuple(pairs.T)] = truth[tuple(pairs.T)]
    >>> pairs.shape
    (20, 2)
    """

    def __init__(self, missing_label: Any = np.nan) -> None:
        self.missing_label = missing_label

    def query(
        self,
        X: Any,
        Y: Any,
        clf: Any = None,
        *,
        fit_clf: bool = True,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Choose the missing entries to query.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Features of all rows.
        Y : array of shape (n_rows, n_labels)
            1, 0, and ``missing_label``.
        clf : DM2LClassifier or AutoClassifier, default=None
            None for a :class:`dm2l.DM2LClassifier` with probabilities and label correlation.
        fit_clf : bool, default=True
            Whether a copy of it is fitted to ``X`` and ``Y`` first; otherwise it is fitted.
        candidates : array of shape (n_candidates, 2) of int, or mask of ``Y``'s shape, default=None
            Entries that may be queried, as pairs or as a mask; None for all that are missing.
        batch_size : int, default=1
            Number of entries; fewer if fewer may be queried.
        return_utilities : bool, default=False
            Whether to return the values, too.

        Returns
        -------
        query_indices : ndarray of int of shape (batch_size, 2)
            Pairs of row and label, the most valuable first.
        utilities : ndarray of shape (batch_size, n_rows, n_labels)
            Values of the entries given those chosen before; NaN for what may not be queried. Only
            with ``return_utilities=True``.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, Integral):
            raise TypeError(f"batch_size must be an integer, got {batch_size!r}.")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        read = LabelMatrix.from_array(Y, missing_label=self.missing_label)
        if read.kind != "multilabel":
            raise ValueError("Y must have a row for each of X and a column a label, got 1-D.")
        missing = read.signs == 0
        labels = np.where(missing, np.nan, read.signs > 0)
        asked = missing if candidates is None else _mask(candidates, missing)
        if not asked.any():
            raise ValueError("There is nothing to ask for: no entry of Y is missing.")
        model = DM2LClassifier(calibration="sigmoid", coupling="residual") if clf is None else clf
        if fit_clf:
            with warnings.catch_warnings():
                # Few labels are known at the beginning of a loop; its queries change that.
                warnings.simplefilter("ignore", ConstantLabelWarning)
                model = clone(model).fit(X, labels)
        if not hasattr(model, "_learnable") or not hasattr(model, "predict_proba"):
            raise ValueError(
                f"clf must be a DM2LClassifier with calibration or an AutoClassifier, got {model}."
            )
        values = answer_values(model, X, labels)
        pairs, utilities = choose_batch(values, missing, asked, int(batch_size))
        return (pairs, np.stack(utilities)) if return_utilities else pairs


def _mask(candidates: Any, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the entries that may be queried, all of them missing."""
    given = np.asarray(candidates)
    if given.dtype == bool and given.shape == missing.shape:
        mask = given
    elif given.ndim == 2 and given.shape[1] == 2 and np.issubdtype(given.dtype, np.integer):
        mask = np.zeros(missing.shape, dtype=bool)
        try:
            mask[tuple(given.T)] = True
        except IndexError as error:
            raise ValueError(f"candidates has a pair that is not in Y: {error}.") from error
    else:
        raise ValueError("candidates must be pairs of row and label, or a mask of the shape of Y.")
    if (mask & ~missing).any():
        i, k = np.argwhere(mask & ~missing)[0]
        raise ValueError(f"candidates has row {i}, label {k}, which is known in Y.")
    return mask
