"""Adapters for scikit-learn estimators: one clone per label, or missing labels as negatives."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from itertools import starmap
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter, validate_data

from dm2l._base import CompletionClassifier, FitResult
from dm2l._utils.arrays import check_magnitude, is_non_numpy, to_numpy
from dm2l._utils.inputs import check_rows, explain_unsuitable
from dm2l.completion._errors import plain_probability
from dm2l.labels._matrix import LabelMatrix, LearnableMask


@dataclass(eq=False, repr=False)
class MaskedOneVsRestClassifier(MetaEstimatorMixin, CompletionClassifier):
    """Fit one clone of a scikit-learn estimator per label, on the rows where the label is observed.

    A classifier is fitted to labels 0/1. Scores come from the first available of its methods:
    ``decision_function``, ``2 p - 1`` with ``p`` from ``predict_proba``, or -1/+1 from ``predict``.
    A regressor is fitted to -1/+1, and predicts the scores. ``X`` is passed on unchanged, so it may
    contain NaN and text, and may also be a list of documents or a kernel matrix.

    Parameters
    ----------
    estimator : estimator
        Classifier, regressor, pipeline or search that is cloned for each label.
    n_jobs : int or None, default=None
        Number of labels to fit in parallel; None means 1, -1 means one per core.
    threshold, calibration, coupling, rules, cv, missing_label, missing_as
        As in :class:`dm2l.DM2LClassifier`, but ``coupling`` is None by default, and "residual" fits
        ``cv`` additional models. Without ``calibration``, probabilities come from the
        ``predict_proba`` of the estimator if it has one.
    verbose : int, default=0
        Verbosity of joblib, which prints how many labels have been fitted.

    Attributes
    ----------
    estimators_ : list
        One fitted estimator per label; None for a constant label.
    classes_, label_names_, thresholds_, n_features_in_, feature_names_in_
        As in :class:`dm2l.DM2LClassifier`. The last two exist if ``X`` has columns and names.

    See Also
    --------
    dm2l.baselines.MaskedRidgeClassifier : Ridge regression of each label, with shared computations.
    sklearn.multioutput.MultiOutputClassifier : One classifier per label for complete labels.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from dm2l.baselines import MaskedOneVsRestClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> MaskedOneVsRestClassifier(LogisticRegression()).fit(X, Y).predict(X[1:2])
    array([[0, 0, 1, 1, 0]])
    """

    _explains_numbers = False  # the estimator raises its own errors

    estimator: Any
    _: KW_ONLY
    n_jobs: int | None = None
    calibration: str | None = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Tags:
        """Estimator tags of scikit-learn, with the input tags of the wrapped estimator."""
        tags = super().__sklearn_tags__()
        inner = _tags_of(self.estimator)
        if inner is not None:
            tags.input_tags = inner.input_tags
            tags.non_deterministic = inner.non_deterministic
            if inner.classifier_tags is not None:
                tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        estimator = self.estimator
        if isinstance(estimator, type):
            name = estimator.__name__
            raise TypeError(f"estimator must be an instance, got the class {name}. Pass {name}().")
        kind = _estimator_type(estimator)
        # Some estimators, such as stacking, have no method ``predict`` before they are fitted.
        usable = kind in ("classifier", "regressor") if kind else hasattr(estimator, "predict")
        if not (usable and hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
            raise TypeError(
                "estimator must be a classifier or regressor with scikit-learn's fit, predict and "
                f"get_params, got {estimator!r}."
            )

    def _learn(self, X: Any, labels: LabelMatrix, after_label: Any = None) -> FitResult:
        """Fit all labels; call ``after_label`` with the numbers of fitted and of all labels."""
        mask = LearnableMask.of(labels.signs, labels.entries)
        self._learnable, self._constant, self._keep = mask
        self.estimators_: list[Any] = [None] * len(mask.learnable)
        if mask.learnable.any():
            with explained(self.estimator, X):
                kept, labels = mask.apply(np.arange(len(labels)), labels)
                self._fit_estimators(X, kept, labels, after_label)
        return FitResult()

    def _fit_estimators(self, X: Any, kept: Any, labels: LabelMatrix, after_label: Any) -> None:
        """Fit the estimators of all learnable labels to the ``kept`` rows of ``X``."""
        T, entries = labels.signs, labels.entries
        weights = None if entries is None else entries.weights
        if weights is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            what = f"{type(self.estimator).__name__} does not accept sample_weight in fit."
            raise ValueError(f"{what} Use another estimator, or fit without weights.")
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        regressor = _estimator_type(self.estimator) == "regressor"
        targets = T.astype(np.float64) if regressor else (T > 0).astype(np.int64)
        observed = T != 0
        rows = [kept[use] for use in observed.T]
        columns: list[Any] = rows if pairwise else [None] * len(rows)
        learnable = np.flatnonzero(self._learnable)
        jobs = min(effective_n_jobs(self.n_jobs), max(1, len(learnable)))

        def task(j: int, k: int) -> Any:
            seen, name = observed[:, j], self.label_names_[k]
            y, w = targets[seen, j], None if weights is None else weights[seen, j]
            return delayed(_fit_label)(clone(self.estimator), X, y, rows[j], columns[j], name, w)

        parallel = Parallel(n_jobs=jobs, verbose=self.verbose, return_as="generator")
        found = parallel(starmap(task, enumerate(learnable)))
        for done, (k, model) in enumerate(zip(learnable, found, strict=True), 1):
            self.estimators_[k] = model
            if after_label is not None:
                after_label(done, len(learnable))
        # For each learnable label, the columns of a kernel matrix that its model needs.
        self._columns = columns

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        """Check the number and names of columns of ``X``; the estimator checks the values."""
        if not reset:
            check_is_fitted(self)
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        with explained(self.estimator, X, whole=True):
            if is_non_numpy(X):
                X = to_numpy(X)
            if sp.issparse(X):
                X = X.tocsr()  # some formats cannot select rows
            elif not hasattr(X, "shape") and (pairwise or not hasattr(X, "__len__")):
                X = np.asarray(X)
            if _num_samples(X) == 0:
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            if reset and hasattr(self, "n_features_in_"):
                del self.n_features_in_  # a list of texts has no number of features
            table = len(getattr(X, "shape", (0, 0))) == 2
            validate_data(self, X, skip_check_array=True, ensure_2d=table, reset=reset)
            if reset and table and (sp.issparse(X) or isinstance(X, np.ndarray)):
                check_magnitude(X)
        if pairwise and reset and not (table and X.shape[0] == X.shape[1]):
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        return X

    def _models_with_inputs(self, X: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the model and the inputs of each learnable label."""
        models = [model for model in self.estimators_ if model is not None]
        for model, columns in zip(models, self._columns, strict=True):
            yield model, _safe_indexing(X, columns, axis=1)

    def _score_labels(self, X: Any) -> NDArray[Any]:
        with explained(self.estimator, X):
            return np.stack([_score(*one) for one in self._models_with_inputs(X)], axis=-1)

    def _on_own_scale(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        # If the estimator has probabilities, its scores are log-odds or 2 p - 1.
        if _estimator_type(self.estimator) == "regressor":
            return scores
        if not hasattr(self.estimator, "predict_proba"):
            return scores
        return 2 * scores if hasattr(self.estimator, "decision_function") else np.tanh(scores)

    def _label_answers(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        with explained(self.estimator, X):
            answers = [_score_and_probability(*one) for one in self._models_with_inputs(X)]
        scores, p = np.stack(answers, axis=-1)
        return scores, p


def _tags_of(estimator: Any) -> Tags | None:
    known = hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)
    return get_tags(estimator) if known else None


def explained(estimator: Any, X: Any, *, whole: bool = False) -> AbstractContextManager[None]:
    """Return a context that adds explanations to errors about non-numeric or invalid inputs."""
    # Estimators of other libraries, or with a transformer inside, may accept any input.
    if type(estimator).__module__.partition(".")[0] not in ("sklearn", "dm2l"):
        return nullcontext()
    tags = get_tags(estimator).input_tags
    parts = [estimator, *estimator.get_params().values()]
    if tags.string or any(hasattr(part, "transform") for part in parts):
        return nullcontext()
    if whole:
        check_rows(X)
    return explain_unsuitable(X, nan_allowed=tags.allow_nan)


def _estimator_type(estimator: Any) -> str | None:
    tags = _tags_of(estimator)
    return getattr(estimator, "_estimator_type", None) if tags is None else tags.estimator_type


def _fit_label(model: Any, X: Any, y: Any, rows: Any, columns: Any, name: Any, weights: Any) -> Any:
    # Rows are always copied, because an estimator may overwrite X.
    mine = _safe_indexing(_safe_indexing(X, rows), columns, axis=1)
    try:
        model.fit(mine, y, **({} if weights is None else {"sample_weight": weights}))
    except Exception as error:
        error.add_note(f"while fitting label {name!r} on {len(y)} observed rows")
        raise
    return model


def _score(model: Any, X: Any) -> NDArray[Any]:
    if _estimator_type(model) == "regressor":
        return np.ravel(model.predict(X))
    if hasattr(model, "decision_function"):
        return np.ravel(model.decision_function(X))
    if hasattr(model, "predict_proba"):
        return 2 * np.asarray(model.predict_proba(X))[:, 1] - 1
    return np.where(np.ravel(model.predict(X)) == 1, 1.0, -1.0)


def _score_and_probability(model: Any, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scores, and probabilities from ``predict_proba`` or computed from the scores."""
    if _estimator_type(model) == "regressor" or not hasattr(model, "predict_proba"):
        scores = _score(model, X)
        return scores, plain_probability(scores)
    p = np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return _score(model, X) if hasattr(model, "decision_function") else 2 * p - 1, p


class ZeroFillClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Replace every missing label by a negative and fit an estimator.

    Gradient boosting libraries may treat missing labels in this way without a warning.

    Parameters
    ----------
    estimator : estimator
        Estimator whose clone ``estimator_`` is fitted to the filled labels.

    Examples
    --------
    >>> from dm2l.baselines import ZeroFillClassifier, MaskedRidgeClassifier
    >>> X, Y = [[0.0], [1.0], [2.0]], [[float("nan"), 1], [1, 1], [1, 0]]
    >>> ZeroFillClassifier(MaskedRidgeClassifier(alpha=1.0)).fit(X, Y).predict([[0.0]])
    array([[0, 1]])
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, Y: Any) -> Self:
        """Replace NaN in ``Y`` by 0 and fit the estimator."""
        with explained(self.estimator, X, whole=True):
            Y = np.nan_to_num(np.asarray(Y, dtype=float))
            self.estimator_ = clone(self.estimator).fit(X, Y)
        return self

    def decision_function(self, X: Any) -> Any:
        """Return the scores of the fitted estimator."""
        check_is_fitted(self)
        with explained(self.estimator, X, whole=True):
            return self.estimator_.decision_function(X)

    def predict(self, X: Any) -> Any:
        """Return the labels that the fitted estimator predicts."""
        check_is_fitted(self)
        with explained(self.estimator, X, whole=True):
            return self.estimator_.predict(X)
