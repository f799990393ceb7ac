"""Checks for estimators that learn from labels with missing entries, including your own.

An estimator needs ``fit(X, Y)`` and ``predict(X)``, must support :func:`sklearn.base.clone`, and
must accept NaN as a missing label. ``decision_function``, ``predict_proba``, ``complete`` and
``label_mask`` are checked if the estimator has them. Each check fits clones with random_state=0.
General requirements, such as pickling and unchanged parameters, are tested by
:func:`sklearn.utils.estimator_checks.check_estimator`.
"""

import inspect
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, Literal
from unittest import SkipTest

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from dm2l.simulate import simulate_uniform

__all__ = ["CheckResult", "check_missing_label_estimator", "parametrize_with_missing_label_checks"]

# Tolerance for other label containers and unlabelled rows, which may change the order of sums.
_CLOSE = 1e-8


@dataclass(frozen=True)
class CheckResult:
    """Name and status of one check, and the reason why it was skipped or failed."""

    name: str
    status: Literal["passed", "skipped", "failed"]
    reason: str = ""


@dataclass(frozen=True)
class MissingLabelCheck:
    """One requirement on estimators; calling it with an estimator checks the requirement."""

    name: str
    requirement: str
    _run: Callable[[Any], None] = field(repr=False)

    def __call__(self, estimator: Any) -> None:
        """Check an estimator; raise AssertionError on failure, SkipTest if not applicable."""
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise TypeError(f"estimator must be an instance with fit, got {estimator!r}.")
        try:
            self._run(_Trial(estimator))
        except SkipTest:
            raise
        except Exception as error:  # any exception of the estimator fails the check
            unexpected = not isinstance(error, AssertionError)
            kind = f"Unexpected {type(error).__name__}: " if unexpected else ""
            raise AssertionError(f"{self.name}: {self.requirement} {kind}{error}") from error


def check_missing_label_estimator(
    estimator: Any, *, on_fail: Literal["raise", "return"] = "raise"
) -> list[CheckResult]:
    """Check that an estimator handles missing labels and never reads hidden labels.

    Parameters
    ----------
    estimator : estimator
        Estimator with ``fit(X, Y)`` and ``predict(X)``. Only clones of the estimator are fitted.
    on_fail : {"raise", "return"}, default="raise"
        "raise" stops at the first failed check with an AssertionError that contains the expected
        and the actual value. "return" runs all checks and returns their results.

    Returns
    -------
    list of CheckResult
        One result for each check.

    Notes
    -----
    Semi-supervised methods, and pipelines that also use rows without labels to scale features,
    necessarily fail ``check_unlabelled_rows_change_nothing``. Estimators that require a precomputed
    kernel matrix cannot be checked.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.testing import check_missing_label_estimator
    >>> results = check_missing_label_estimator(MaskedRidgeClassifier())
    >>> {result.status for result in results} <= {"passed", "skipped"}
    True
    """
    if on_fail not in ("raise", "return"):
        raise ValueError(f"on_fail must be 'raise' or 'return', got {on_fail!r}.")
    results = []
    for check in _CHECKS:
        result = CheckResult(check.name, "passed")
        try:
            check(estimator)
        except SkipTest as skip:
            result = CheckResult(check.name, "skipped", str(skip))
        except AssertionError as error:
            if on_fail == "raise":
                raise
            result = CheckResult(check.name, "failed", str(error))
        results.append(result)
    return results


def parametrize_with_missing_label_checks(estimators: Iterable[Any]) -> Any:
    """Decorate a pytest test of ``(estimator, check)`` to run every check on every estimator.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.testing import parametrize_with_missing_label_checks
    >>> @parametrize_with_missing_label_checks([MaskedRidgeClassifier()])
    ... def test_label_contract(estimator, check):
    ...     check(estimator)
    """
    pytest: Any = import_module("pytest")  # an optional dependency, also for type checking
    cases = []
    for estimator in estimators:
        # Memory addresses are removed from test ids, because they differ between processes.
        name = re.sub(r" at 0x[0-9A-Fa-f]+", "", " ".join(repr(estimator).split()))
        cases += [pytest.param(estimator, check, id=f"{name}-{check.name}") for check in _CHECKS]
    return pytest.mark.parametrize(("estimator", "check"), cases)


def _outputs(model: Any, X: Any) -> dict[str, NDArray[Any]]:
    """Return the outputs of a fitted model by method, scores first."""
    methods = ("decision_function", "predict_proba", "predict")
    # Every method gets a copy of X, because a method that changes X would affect other checks.
    found = {name: getattr(model, name)(X.copy()) for name in methods if hasattr(model, name)}
    dense = (v.toarray() if sp.issparse(v) else np.asarray(v) for v in found.values())
    return dict(zip(found, dense, strict=True))


def _frame(Y: NDArray[Any]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise SkipTest("pandas is not installed") from None
    return pd.DataFrame(Y).rename(index="row {}".format, columns="label {}".format)


def _require(holds: bool, message: str) -> None:
    if not holds:  # python -O would remove an assert
        raise AssertionError(message)


def _require_all(good: NDArray[np.bool_], found: Any, expected: Any, what: str) -> None:
    """Raise an error with the place and the expected and actual value of the first bad entry."""
    if not good.all():
        at = tuple(np.argwhere(~good)[0].tolist())
        wanted = expected if isinstance(expected, str) else expected[at]
        got = repr(str(found[at])) if isinstance(found[at], str) else found[at]
        text = f"{what}: expected {wanted} at {list(at)},"
        raise AssertionError(f"{text} got {got} ({(~good).sum()} of {good.size} entries differ).")


def _require_shape(found: NDArray[Any], shape: tuple[int, ...], what: str) -> None:
    _require(found.shape == shape, f"{what}: expected shape {shape}, got {found.shape}.")


def _require_same(found: Any, expected: Any, what: str, tolerance: float = 0.0) -> None:
    """Raise an error unless entries differ by at most ``tolerance`` times the largest entry."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    _require_shape(found, expected.shape, what)
    atol = tolerance * np.nanmax(np.abs(expected), initial=1.0)
    good = np.isclose(found, expected, rtol=0, atol=atol, equal_nan=True)
    _require_all(good, found, expected, what)


def _require_same_outputs(found: Any, expected: Any, what: str, tolerance: float = 0.0) -> None:
    for method, values in expected.items():
        _require_same(found[method], values, f"{method} {what}", tolerance)


def _require_valid(found: NDArray[Any], method: str, shape: tuple[int, ...], what: str) -> None:
    _require_shape(found, shape, what)
    if method == "predict":
        _require_all(np.isin(found, (0, 1)), found, "0 or 1", what)
    elif method == "predict_proba":
        _require_all((found >= 0) & (found <= 1), found, "a number in [0, 1]", what)
    else:
        _require_all(np.isfinite(found), found, "a finite number", what)


def _require_kept(call: Callable[..., Any], X: Any, Y: Any, **masks: Any) -> None:
    arguments = {"X": X, "Y": Y, **masks}
    before = {name: value.copy() for name, value in arguments.items()}
    call(X, Y, **masks)
    for name, value in before.items():
        _require_same(arguments[name], value, f"{name} after the call")


class _Trial:
    """An estimator and a small data set to fit, in which 30 % of the labels are missing."""

    def __init__(self, estimator: Any, d: int = 6, c: int = 5, seed: int = 0) -> None:
        self.estimator = estimator
        self.takes_mask = has_fit_parameter(estimator, "label_mask")
        # 40 % of the labels are positive, because a good method may never predict rare labels.
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((80, 3))
        signal = Z @ rng.standard_normal((3, d))
        self.X = signal + 0.1 * rng.standard_normal((80, d))
        F = Z @ rng.standard_normal((3, c))
        if getattr(estimator, "_takes_scores", False):
            self.X = F + 0.1 * rng.standard_normal(F.shape)
        self.truth = (np.quantile(F, 0.6, axis=0) < F).astype(np.float64)
        self.Y = simulate_uniform(self.truth, 0.7, random_state=seed)
        self.observed = ~np.isnan(self.Y)

    def unfitted(self) -> Any:
        model = clone(self.estimator)
        seeds = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        return model.set_params(**dict.fromkeys(seeds, 0))

    def fitted(self, Y: Any = None, *, X: Any = None, **masks: Any) -> Any:
        model = self.unfitted()
        # Arguments are copied, so that estimators that change them only fail the check for this.
        X, Y = (self.X if X is None else X).copy(), (self.Y if Y is None else Y).copy()
        model.fit(X, Y, **{name: mask.copy() for name, mask in masks.items()})
        return model

    def outputs(self, Y: Any = None, *, X: Any = None, **masks: Any) -> dict[str, NDArray[Any]]:
        """Fit a model to ``X`` and ``Y``, and return its outputs for the features of the trial."""
        return _outputs(self.fitted(Y, X=X, **masks), self.X)

    def method(self, name: str, Y: Any = None) -> Any:
        """Fit a model to ``Y`` and return its method ``name``; skip the check if it is missing."""
        model = self.fitted(Y)
        if not hasattr(model, name):
            raise SkipTest(f"the estimator has no {name}")
        return getattr(model, name)

    def need_mask(self) -> None:
        if not self.takes_mask:
            raise SkipTest("fit takes no label_mask")

    def _require_method(self, method: str) -> None:
        _require_valid(np.asarray(self.method(method)(self.X)), method, self.Y.shape, method)

    def _require_constant(self, value: float, what: str) -> None:
        self.Y[self.observed[:, 2], 2] = value
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outputs = self.outputs()
        kinds = {w.category for w in caught if not issubclass(w.category, ConvergenceWarning)}
        _require(
            any(issubclass(kind, UserWarning) for kind in kinds),
            f"Label 2 has {what}: expected a UserWarning such as ConstantLabelWarning from fit, "
            f"got {sorted(kind.__name__ for kind in kinds) or 'none'}.",
        )
        for method, values in outputs.items():
            column, where = values[:, 2], f"{method} of label 2, which has {what}"
            _require_all(column == column[0], column, f"{column[0]} as in the first row", where)
            if method == "predict" and not np.isnan(value):
                _require_same(column, np.full(column.shape, value), where)
        for j in (0, 1, 3, 4):
            classes = np.unique(outputs["predict"][:, j])
            text = f"expected predictions of both classes for label {j}, got only {classes}."
            _require(len(classes) > 1, f"Label 2 has {what}: {text}")

    def _require_refusal(self, Y: Any, named: str = "") -> None:
        try:
            self.fitted(Y)
        except ValueError as error:
            _require(named in str(error), f"Expected a message that contains {named}, got: {error}")
        else:
            what = f"fit must raise a ValueError{named and f' that contains {named}'},"
            raise AssertionError(f"{what} but raised no error.")

    def _require_coding(self, recode: Callable[[Any], Any], negative: int) -> None:
        labels, expected = recode(self.Y), self.outputs()
        masks = {}
        if boolean := getattr(labels, "dtype", None) == np.bool_:
            self.need_mask()
            masks["label_mask"] = self.observed
        model = self.fitted(labels, **masks)
        found = _outputs(model, self.X)
        predicted, positive = found.pop("predict"), expected.pop("predict") == 1
        _require_same_outputs(found, expected, "instead of 0/1 with NaN", _CLOSE)
        if sp.issparse(model.predict(self.X.copy())):
            negative = 0  # sparse predictions store positives only
        _require_same(predicted, np.where(positive, 1, negative), "predict in the coding of Y")
        if boolean:
            _require(predicted.dtype == bool, f"Expected bool from predict, got {predicted.dtype}.")

    def _require_completed(self, filled: Any) -> None:
        filled = np.asarray(filled)
        _require_valid(filled, "predict", self.Y.shape, "complete")
        good = ~self.observed | (filled == self.Y)
        _require_all(good, filled, self.Y, "Observed labels after complete")

    def check_fit(self) -> None:
        """Fitting accepts NaN among the labels and returns the estimator."""
        model = self.unfitted()
        got = model.fit(self.X, self.Y)
        _require(got is model, f"Expected the estimator itself, got {type(got).__name__}.")

    def check_better_than_chance(self) -> None:
        """Hidden labels of an easy problem are predicted better than by constants."""
        hidden = ~self.observed
        got = (self.outputs()["predict"] == self.truth)[hidden].mean()
        positives, total = (hidden * self.truth).sum(axis=0), hidden.sum(axis=0)
        chance = np.maximum(positives, total - positives).sum() / total.sum()
        _require(got > chance, f"Expected an accuracy above {chance:.3f}, got {got:.3f}.")

    def check_unlabelled_rows_are_predicted(self) -> None:
        """Training rows without observed labels get valid outputs."""
        self.Y[:10] = np.nan
        for method, values in _outputs(self.fitted(), self.X[:10]).items():
            _require_valid(values, method, (10, 5), f"{method} of unlabelled rows")

    def check_unlabelled_rows_change_nothing(self) -> None:
        """Training rows without observed labels do not change the model."""
        places = [0, 40, 80]
        far = 5 * np.random.default_rng(1).standard_normal((len(places), self.X.shape[1]))
        more = np.insert(self.X, places, far, axis=0)
        found = self.outputs(np.insert(self.Y, places, np.nan, axis=0), X=more)
        _require_same_outputs(found, self.outputs(), "with three unlabelled rows added", _CLOSE)

    def check_label_with_nothing_observed(self) -> None:
        """A label without observed entries causes a warning and constant predictions."""
        self._require_constant(float("nan"), "nothing observed")

    def check_label_with_one_class_observed(self) -> None:
        """A label with one observed class causes a warning and predictions of this class."""
        for value, what in ((1.0, "only positives observed"), (0.0, "only negatives observed")):
            self._require_constant(value, what)

    def check_nothing_observed_is_refused(self) -> None:
        """A fit without any observed label raises ValueError."""
        self._require_refusal(np.full_like(self.Y, np.nan))

    def check_other_values_are_refused(self) -> None:
        """Values that are not labels raise a ValueError that contains the value."""
        for value in (3.25, np.inf):
            self.Y[3, 1] = value
            self._require_refusal(self.Y, str(value))

    def check_hidden_labels_are_not_read(self) -> None:
        """Labels where label_mask is False do not change any output."""
        self.need_mask()
        expected = self.outputs()
        truths = {"the truth": self.truth, "the opposite of the truth": 1 - self.truth}
        others = {"-1 (another coding)": -1.0, "7 (not a label)": 7.0, "NaN": np.nan}
        for kind, under in (("float64", truths | others), ("int64", truths), ("bool", truths)):
            for what, hidden in under.items():
                labels = np.where(self.observed, self.Y, hidden).astype(kind)
                found = self.outputs(labels, label_mask=self.observed)
                where = f"of {kind} labels with {what} under the mask"
                _require_same_outputs(found, expected, where)

    def check_observed_labels_are_read(self) -> None:
        """Inverting all observed labels changes the outputs of every label."""
        outputs = self.outputs()
        for method, values in self.outputs(1 - self.Y).items():
            same = np.flatnonzero((values == outputs[method]).all(axis=0))
            _require(not len(same), f"{method}: expected a change, got none for labels {same}.")

    def check_fit_keeps_its_arguments(self) -> None:
        """Fitting does not change its arguments."""
        masks = [{}, {"label_mask": self.observed}] if self.takes_mask else [{}]
        for mask in masks:
            _require_kept(self.unfitted().fit, self.X, self.Y, **mask)

    def check_complete(self) -> None:
        """Completion imputes all missing labels and keeps all observed labels."""
        self._require_completed(self.method("complete")(self.X, self.Y.copy()))

    def check_complete_keeps_its_arguments(self) -> None:
        """Completion does not change its arguments."""
        _require_kept(self.method("complete"), self.X, self.Y)

    def check_complete_reads_label_mask(self) -> None:
        """Completion treats labels where label_mask is False as missing."""
        complete = self.method("complete")
        parameters = signature(complete).parameters.values()
        if not any(p.name == "label_mask" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise SkipTest("complete takes no label_mask")
        filled = complete(self.X, 1 - self.truth, label_mask=~self.observed)
        expected = complete(self.X, np.where(self.observed, np.nan, 1 - self.truth))
        _require_same(filled, expected, "complete with label_mask instead of NaN")

    def check_complete_of_frame(self) -> None:
        """Completing a data frame returns a data frame with the same index and columns."""
        frame = _frame(self.Y.copy())
        filled = self.method("complete", frame)(self.X, frame)
        kind = type(filled)
        _require(issubclass(kind, type(frame)), f"Expected DataFrame, got {kind.__name__}.")
        for axis in ("index", "columns"):
            found, expected = (list(getattr(table, axis)) for table in (filled, frame))
            _require(found == expected, f"Expected {axis} {expected}, got {found}.")
        self._require_completed(filled)

    def check_refit_forgets(self) -> None:
        """An earlier fit to other features, labels and coding does not affect a later fit."""
        other = _Trial(self.estimator, d=4, c=3, seed=1)
        model, expected = self.fitted(2 * self.Y - 1), other.outputs()
        model.fit(other.X.copy(), other.Y)
        _require_same_outputs(_outputs(model, other.X), expected, "of a refitted model", _CLOSE)


_CHECKS = [
    MissingLabelCheck(name, check.__doc__ or "", check)
    for name, check in inspect.getmembers(_Trial, inspect.isfunction)
    if name.startswith("check_")
]
_CHECKS.sort(key=lambda check: check._run.__code__.co_firstlineno)  # order of definition
for name, what in {
    "predict": "one of the two codes",
    "decision_function": "a finite score",
    "predict_proba": "a probability",
}.items():
    check = partial(_Trial._require_method, method=name)
    _CHECKS.append(MissingLabelCheck(f"check_{name}", f"Every row and label gets {what}.", check))
for name, recode, negative in (
    ("signs", lambda Y: 2 * Y - 1, -1),
    ("bool_with_label_mask", lambda Y: Y == 1, 0),
    ("object_with_none", lambda Y: np.where(np.isnan(Y), None, Y), 0),
    ("nullable_frame", lambda Y: _frame(Y).astype("Int8"), 0),
    # Masked entries contain valid labels, so a model that ignores the mask gives other results.
    ("masked_array", lambda Y: np.ma.array(np.nan_to_num(Y, nan=1.0), mask=np.isnan(Y)), 0),
    ("signed_csr", lambda Y: sp.csr_array(np.nan_to_num(2 * Y - 1).astype(np.int8)), -1),
):
    check = partial(_Trial._require_coding, recode=recode, negative=negative)
    what = "Labels in this coding give the same model, which predicts labels in this coding."
    _CHECKS.append(MissingLabelCheck(f"check_coding_{name}", what, check))
