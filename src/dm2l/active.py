"""Active learning: a query strategy for missing labels, with the API of scikit-activeml."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from dm2l._classifier import DM2LClassifier
from dm2l._utils.inputs import check_counts
from dm2l.labels import ConstantLabelWarning, LabelMatrix
from dm2l.tables._suggestion import answer_values, choose_batch

__all__ = ["EntrySampling"]


class EntrySampling(BaseEstimator):
    """Query strategy for missing entries of a label matrix, by expected information gain.

    The utility of an entry is the expected number of imputation errors that are avoided if its
    label becomes known, as in ``dm2l suggest``. Each entry of a batch is chosen given the entries
    before it, so a batch rarely contains similar rows or several labels of one row.

    Parameters
    ----------
    missing_label : scalar, default=np.nan
        Value that marks a missing label. The default is the same as in scikit-activeml.

    See Also
    --------
    dm2l.tables.suggest_entries : Utilities of single entries of a table.

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
            Labels 1, 0 and ``missing_label``.
        clf : DM2LClassifier or AutoClassifier, default=None
            Classifier that predicts the labels. By default, a :class:`dm2l.DM2LClassifier` with
            calibration and label correlation.
        fit_clf : bool, default=True
            Whether a clone of ``clf`` is fitted to ``X`` and ``Y``. If False, ``clf`` must be
            fitted.
        candidates : array of shape (n_candidates, 2) of int, or mask of ``Y``'s shape, default=None
            Entries that may be queried, as pairs of row and label or as a mask. None means all
            missing entries.
        batch_size : int, default=1
            Maximum number of entries to choose.
        return_utilities : bool, default=False
            Whether to also return the utilities.

        Returns
        -------
        query_indices : ndarray of int of shape (batch_size, 2)
            Pairs of row and label, in descending order of utility.
        utilities : ndarray of shape (batch_size, n_rows, n_labels)
            For each step, the utilities given the entries chosen before; NaN for entries that
            cannot be queried. Returned only if ``return_utilities=True``.
        """
        check_counts(batch_size=batch_size)
        read = LabelMatrix.from_array(Y, missing_label=self.missing_label)
        if read.kind != "multilabel":
            raise ValueError(
                "Y must have one column per label, got a 1-D array. Use Y.reshape(-1, 1)."
            )
        missing = read.signs == 0
        labels = np.where(missing, np.nan, read.signs > 0)
        asked = missing if candidates is None else _mask(candidates, missing)
        if not asked.any():
            text = "Y has no missing entry to query. Set unknown labels to missing_label."
            if candidates is not None:
                text = "candidates has no entry to query. Pass missing entries, or candidates=None."
            raise ValueError(text)
        model = DM2LClassifier(calibration="sigmoid", coupling="residual") if clf is None else clf
        if fit_clf:
            # In the first iterations of active learning, labels often lack an observed class.
            with warnings.catch_warnings(action="ignore", category=ConstantLabelWarning):
                model = clone(model).fit(X, labels)
        elif hasattr(model, "fit"):
            check_is_fitted(model)
        if not hasattr(model, "_learnable") or not hasattr(model, "predict_proba"):
            raise ValueError(f"clf must be a DM2LClassifier or an AutoClassifier, got {model!r}.")
        values = answer_values(model, X, labels)
        pairs, utilities = choose_batch(values, missing, asked, int(batch_size))
        return (pairs, np.stack(utilities)) if return_utilities else pairs


def _mask(candidates: Any, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the entries that may be queried."""
    given = np.asarray(candidates)
    if given.dtype == bool and given.shape == missing.shape:
        mask = given
    elif given.ndim == 2 and given.shape[1] == 2 and np.issubdtype(given.dtype, np.integer):
        mask = np.zeros(missing.shape, dtype=bool)
        try:
            mask[tuple(given.T)] = True
        except IndexError as error:
            raise ValueError(f"candidates has a pair (row, label) outside Y: {error}.") from error
    else:
        raise ValueError(
            "candidates must be integer pairs (row, label) or a boolean mask of shape "
            f"{missing.shape}, got an array of {given.dtype} with shape {given.shape}."
        )
    if (mask & ~missing).any():
        i, k = np.argwhere(mask & ~missing)[0]
        what = f"candidates contains the pair ({i}, {k}), which is observed in Y."
        raise ValueError(f"{what} Pass missing entries only.")
    return mask
