"""Checks of estimators that learn from missing labels, your own included.

An estimator needs ``fit(X, Y)`` and ``predict(X)``, has to be clonable, and takes NaN for a missing
label. Its ``decision_function``, ``predict_proba``, ``complete``, ``label_mask`` and sparse ``X``
are checked too if it has them, and skipped otherwise. Checks work on clones with every
``random_state`` set to 0.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, Literal
from unittest import SkipTest

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from dm2l.simulate import simulate_uniform

__all__ = ["CheckResult", "check_missing_label_estimator", "parametrize_with_missing_label_checks"]

# Another container, or rows that carry no weight, may change the order of sums and no more.
_CLOSE = 1e-8
# A sparse X is multiplied by other routines, and iterative solvers amplify that to their tolerance.
_SPARSE = 1e-4


@dataclass(frozen=True)
class CheckResult:
    """Result of one check: its name, the status, and the reason for skipping or failing it."""

    name: str
    status: Literal["passed", "skipped", "failed"]
    reason: str = ""


@dataclass(frozen=True)
class MissingLabelCheck:
    """One requirement on estimators, checked by a call."""

    name: str
    requirement: str
    _run: Callable[[_Trial], None] = field(repr=False)

    def __call__(self, estimator: Any) -> None:
        """Raise AssertionError if ``estimator`` breaks it, SkipTest if it lacks what it needs."""
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise TypeError(f"An estimator with a fit method is needed, got {estimator!r}.")
        try:
            self._run(_Trial(estimator))
        except SkipTest:
            raise
        # Any other exception of a foreign estimator breaks the requirement too.
        except Exception as error:
            unexpected = not isinstance(error, AssertionError)
            kind = f"Unexpected {type(error).__name__}: " if unexpected else ""
            raise AssertionError(f"{self.name}: {self.requirement} {kind}{error}") from error


def check_missing_label_estimator(
    estimator: Any, *, on_fail: Literal["raise", "return"] = "raise"
) -> list[CheckResult]:
    """Check that an estimator handles missing labels and reads no hidden label.

    Parameters
    ----------
    estimator : estimator
        Anything clonable with ``fit(X, Y)`` and ``predict(X)``. It is not fitted itself.
    on_fail : {"raise", "return"}, default="raise"
        Raise AssertionError at the first check that fails, with the expected and the actual value;
        or run all checks and report.

    Returns
    -------
    list of CheckResult
        One for each check.

    Notes
    -----
    A semi-supervised method breaks ``check_unlabelled_rows_change_nothing`` on purpose; so does a
    pipeline that scales by rows without labels. Models of precomputed kernels cannot be checked.

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
    """Decorate a test of ``(estimator, check)`` to run every check on every estimator.

    The decorator is a ``pytest.mark.parametrize`` whose ids are the same in every process.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.testing import parametrize_with_missing_label_checks
    >>> @parametrize_with_missing_label_checks([MaskedRidgeClassifier()])
    ... def test_label_contract(estimator, check):
    ...     check(estimator)
    """
    # By name: pytest is absent where the library only runs, and where its types are checked.
    pytest: Any = import_module("pytest")
    cases = []
    for estimator in estimators:
        # Addresses of functions and objects among the parameters differ between processes.
        name = re.sub(r" at 0x[0-9A-Fa-f]+", "", " ".join(repr(estimator).split()))
        cases += [pytest.param(estimator, check, id=f"{name}-{check.name}") for check in _CHECKS]
    return pytest.mark.parametrize(("estimator", "check"), cases)


def _outputs(model: Any, X: Any) -> dict[str, NDArray[Any]]:
    """Outputs of a fitted model, scores first."""
    methods = ("decision_function", "predict_proba", "predict")
    # Each gets a copy: one that writes into X must not spoil what is checked next.
    found = {name: getattr(model, name)(X.copy()) for name in methods if hasattr(model, name)}
    return {
        name: values.toarray() if sp.issparse(values) else np.asarray(values)
        for name, values in found.items()
    }


def _frame(Y: NDArray[Any]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise SkipTest("pandas is not installed") from None
    return pd.DataFrame(Y).rename(index="row {}".format, columns="label {}".format)


def _require(holds: bool, message: str) -> None:
    # Not a bare assert, which python -O removes.
    if not holds:
        raise AssertionError(message)


def _require_all(good: NDArray[np.bool_], found: Any, expected: Any, what: str) -> None:
    """Raise with the first bad entry: its place, the expected and the actual value."""
    if not good.all():
        at = tuple(np.argwhere(~good)[0].tolist())
        wanted = expected if isinstance(expected, str) else expected[at]
        got = repr(str(found[at])) if isinstance(found[at], str) else found[at]
        raise AssertionError(
            f"{what}: expected {wanted} at {list(at)}, got {got} "
            f"({(~good).sum()} of {good.size} entries are off)."
        )


def _require_shape(found: NDArray[Any], shape: tuple[int, ...], what: str) -> None:
    _require(found.shape == shape, f"{what}: expected shape {shape}, got {found.shape}.")


def _require_same(found: Any, expected: Any, what: str, tolerance: float = 0.0) -> None:
    """Raise unless entries are equal, up to ``tolerance`` times the largest."""
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
    """An estimator, and a problem to fit: 30 % of its labels are missing."""

    def __init__(
        self, estimator: Any, n_features: int = 6, n_labels: int = 5, seed: int = 0
    ) -> None:
        self.estimator = estimator
        self.takes_mask = has_fit_parameter(estimator, "label_mask")
        # Labels are half-spaces of three factors with 40 % positives each: a sound method may never
        # predict rare labels.
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((80, 3))
        signal = Z @ rng.standard_normal((3, n_features))
        self.X = signal + 0.1 * rng.standard_normal((80, n_features))
        F = Z @ rng.standard_normal((3, n_labels))
        self.truth = (np.quantile(F, 0.6, axis=0) < F).astype(np.float64)
        self.Y = simulate_uniform(self.truth, 0.7, random_state=seed)
        self.observed = ~np.isnan(self.Y)

    def unfitted(self) -> Any:
        model = clone(self.estimator)
        seeds = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        return model.set_params(**dict.fromkeys(seeds, 0))

    def fitted(self, Y: Any = None, *, X: Any = None, **masks: Any) -> Any:
        model = self.unfitted()
        # Copies: an estimator that writes into its arguments fails the check of that, and no other.
        X, Y = (self.X if X is None else X).copy(), (self.Y if Y is None else Y).copy()
        model.fit(X, Y, **{name: mask.copy() for name, mask in masks.items()})
        return model

    def outputs(self, Y: Any = None, *, X: Any = None, **masks: Any) -> dict[str, NDArray[Any]]:
        """Outputs of a model fitted to ``X`` and ``Y``, for the features of the problem."""
        return _outputs(self.fitted(Y, X=X, **masks), self.X)

    def method(self, name: str, Y: Any = None) -> Any:
        """Method of a fitted model."""
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
            text = f"expected both classes predicted for label {j}, got {classes}."
            _require(len(classes) > 1, f"Label 2 has {what}: {text}")

    def _require_refusal(self, Y: Any, named: str = "") -> None:
        try:
            self.fitted(Y)
        except ValueError as error:
            _require(named in str(error), f"Expected a message that names {named}, got: {error}")
        else:
            raise AssertionError(
                f"Expected ValueError{named and f' for {named}'}, but fit accepted it."
            )

    def _require_coding(self, recode: Callable[[Any], Any], negative: int) -> None:
        labels, expected = recode(self.Y), self.outputs()
        masks = {}
        if boolean := getattr(labels, "dtype", None) == np.bool_:
            self.need_mask()
            masks["label_mask"] = self.observed
        model = self.fitted(labels, **masks)
        found = _outputs(model, self.X)
        predicted, positive = found.pop("predict"), expected.pop("predict") == 1
        _require_same_outputs(found, expected, "against 0/1 with NaN", _CLOSE)
        if sp.issparse(model.predict(self.X.copy())):
            negative = 0  # a sparse answer stores positives only
        _require_same(predicted, np.where(positive, 1, negative), "predict in the coding of Y")
        if boolean:
            _require(predicted.dtype == bool, f"Expected bool from predict, got {predicted.dtype}.")

    def _require_completed(self, filled: Any) -> None:
        filled = np.asarray(filled)
        _require_valid(filled, "predict", self.Y.shape, "complete")
        good = ~self.observed | (filled == self.Y)
        _require_all(good, filled, self.Y, "Observed labels after complete")

    def check_fit(self) -> None:
        """Fitting takes NaN among the labels and returns the estimator."""
        model = self.unfitted()
        got = model.fit(self.X, self.Y)
        _require(got is model, f"Expected the estimator itself, got {type(got).__name__}.")

    def check_better_than_chance(self) -> None:
        """Hidden labels of an easy problem are predicted better than by any constant."""
        hidden = ~self.observed
        got = (self.outputs()["predict"] == self.truth)[hidden].mean()
        positives, total = (hidden * self.truth).sum(axis=0), hidden.sum(axis=0)
        chance = np.maximum(positives, total - positives).sum() / total.sum()
        _require(got > chance, f"Expected a share above {chance:.3f} to be right, got {got:.3f}.")

    def check_rows_stand_alone(self) -> None:
        """The outputs of a row do not depend on other rows."""
        model = self.fitted()
        expected = {name: values[:7] for name, values in _outputs(model, self.X).items()}
        _require_same_outputs(_outputs(model, self.X[:7]), expected, "of seven rows alone", _CLOSE)

    def check_unlabelled_rows_are_predicted(self) -> None:
        """Training rows with nothing observed get outputs like any other."""
        self.Y[:10] = np.nan
        for method, values in _outputs(self.fitted(), self.X[:10]).items():
            _require_valid(values, method, (10, 5), f"{method} of unlabelled rows")

    def check_unlabelled_rows_change_nothing(self) -> None:
        """Training rows with nothing observed leave the model as it is."""
        places = [0, 40, 80]
        far = 5 * np.random.default_rng(1).standard_normal((len(places), self.X.shape[1]))
        more = np.insert(self.X, places, far, axis=0)
        found = self.outputs(np.insert(self.Y, places, np.nan, axis=0), X=more)
        _require_same_outputs(found, self.outputs(), "with three such rows added", _CLOSE)

    def check_label_with_nothing_observed(self) -> None:
        """A label with nothing observed is warned about and constant; the others are learnt."""
        self._require_constant(float("nan"), "nothing observed")

    def check_label_with_one_class_observed(self) -> None:
        """A label with one class observed is warned about and predicted so, others are learnt."""
        for value, what in ((1.0, "only positives observed"), (0.0, "only negatives observed")):
            self._require_constant(value, what)

    def check_nothing_observed_is_refused(self) -> None:
        """Labels of which none is observed raise ValueError."""
        self._require_refusal(np.full_like(self.Y, np.nan))

    def check_other_values_are_refused(self) -> None:
        """A value that is not a label raises ValueError, which names it."""
        for value in (3.25, np.inf):
            self.Y[3, 1] = value
            self._require_refusal(self.Y, str(value))

    def check_sparse_features(self) -> None:
        """A sparse X gives about the scores of the same X stored densely."""
        tags = getattr(self.estimator, "__sklearn_tags__", None)
        if tags is None or not tags().input_tags.sparse:
            raise SkipTest("the estimator's tags do not declare sparse input")
        self.X[np.abs(self.X) < 0.5] = 0
        sparse = sp.csr_array(self.X)
        found = _outputs(self.fitted(X=sparse), sparse)
        # Only the finest output: a score close to the border may fall to either side of it.
        method, values = next(iter(self.outputs().items()))
        _require_same(found[method], values, f"{method} of a sparse X", _SPARSE)

    def check_hidden_labels_are_not_read(self) -> None:
        """Labels where label_mask is False change no bit of any output."""
        self.need_mask()
        expected = self.outputs()
        truths = {"the truth": self.truth, "the opposite of the truth": 1 - self.truth}
        others = {"-1, of another coding,": -1.0, "7, which is not a label,": 7.0, "NaN": np.nan}
        for kind, under in (("float64", truths | others), ("int64", truths), ("bool", truths)):
            for what, hidden in under.items():
                labels = np.where(self.observed, self.Y, hidden).astype(kind)
                found = self.outputs(labels, label_mask=self.observed)
                where = f"of {kind} labels with {what} under the mask"
                _require_same_outputs(found, expected, where)

    def check_observed_labels_are_read(self) -> None:
        """The opposite of every observed label changes the outputs of every label."""
        outputs = self.outputs()
        for method, values in self.outputs(1 - self.Y).items():
            same = np.flatnonzero((values == outputs[method]).all(axis=0))
            _require(not len(same), f"{method}: expected a change, got none for labels {same}.")

    def check_fit_keeps_its_arguments(self) -> None:
        """Fitting writes into none of its arguments."""
        masks = [{}, {"label_mask": self.observed}] if self.takes_mask else [{}]
        for mask in masks:
            _require_kept(self.unfitted().fit, self.X, self.Y, **mask)

    def check_complete(self) -> None:
        """Completion fills every missing label and keeps every observed one."""
        self._require_completed(self.method("complete")(self.X, self.Y.copy()))

    def check_complete_keeps_its_arguments(self) -> None:
        """Completion writes into none of its arguments."""
        _require_kept(self.method("complete"), self.X, self.Y)

    def check_complete_reads_label_mask(self) -> None:
        """Completion takes labels where label_mask is False as missing."""
        complete = self.method("complete")
        parameters = signature(complete).parameters.values()
        if not any(p.name == "label_mask" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise SkipTest("complete takes no label_mask")
        filled = complete(self.X, 1 - self.truth, label_mask=~self.observed)
        expected = complete(self.X, np.where(self.observed, np.nan, 1 - self.truth))
        _require_same(filled, expected, "complete with label_mask against NaN")

    def check_complete_of_frame(self) -> None:
        """Completion of a data frame is a data frame of the same index and columns."""
        frame = _frame(self.Y.copy())
        filled = self.method("complete", frame)(self.X, frame)
        kind = type(filled)
        _require(issubclass(kind, type(frame)), f"Expected DataFrame, got {kind.__name__}.")
        for axis in ("index", "columns"):
            found, expected = (list(getattr(table, axis)) for table in (filled, frame))
            _require(found == expected, f"Expected {axis} {expected}, got {found}.")
        self._require_completed(filled)

    def check_fit_is_deterministic(self) -> None:
        """Two clones with the same random_state, fitted to the same data, agree to the last bit."""
        _require_same_outputs(self.outputs(), self.outputs(), "of the second fit")

    def check_refit_forgets(self) -> None:
        """A fit to other features, labels and coding leaves no trace in a later one."""
        other = _Trial(self.estimator, n_features=4, n_labels=3, seed=1)
        model, expected = self.fitted(2 * self.Y - 1), other.outputs()
        model.fit(other.X.copy(), other.Y)
        _require_same_outputs(_outputs(model, other.X), expected, "of a refitted model", _CLOSE)

    def check_pickle(self) -> None:
        """A fitted model that was pickled and loaded gives the same outputs to the last bit."""
        model = self.fitted()
        found = _outputs(pickle.loads(pickle.dumps(model)), self.X)
        _require_same_outputs(found, _outputs(model, self.X), "of the loaded model")

    def check_parameters(self) -> None:
        """Cloning keeps every parameter and fitting changes none."""

        def digests(model: Any) -> dict[str, Any]:
            # As clones: a composite such as Pipeline may fit the estimators it was given.
            parameters = model.get_params().items()
            return {name: joblib.hash(clone(value, safe=False)) for name, value in parameters}

        model, given = self.unfitted(), digests(self.estimator)
        cloned, unfitted = digests(clone(self.estimator)), digests(model)
        model.fit(self.X, self.Y)
        for what, before, after in (("clone", given, cloned), ("fit", unfitted, digests(model))):
            changed = [name for name in before if after.get(name) != before[name]]
            _require(not changed, f"Expected parameters to survive {what}, got other {changed}.")


_CHECKS = [
    MissingLabelCheck(name, getattr(_Trial, name).__doc__, getattr(_Trial, name))
    for name in sorted(
        (name for name in dir(_Trial) if name.startswith("check_")),
        key=lambda name: getattr(_Trial, name).__code__.co_firstlineno,  # as they stand above
    )
]
_CHECKS += [
    MissingLabelCheck(
        f"check_{method}",
        f"Every row and label gets {what}.",
        partial(_Trial._require_method, method=method),
    )
    for method, what in {
        "predict": "one of the two codes",
        "decision_function": "a finite score",
        "predict_proba": "a probability",
    }.items()
]
_CHECKS += [
    MissingLabelCheck(
        f"check_coding_{name}",
        "The same labels in this coding give the same model, and predictions in this coding.",
        partial(_Trial._require_coding, recode=recode, negative=negative),
    )
    for name, recode, negative in (
        ("signs", lambda Y: 2 * Y - 1, -1),
        ("bool_with_label_mask", lambda Y: Y == 1, 0),
        ("object_with_none", lambda Y: np.where(np.isnan(Y), None, Y), 0),
        ("nullable_frame", lambda Y: _frame(Y).astype("Int8"), 0),
        # Under the mask stand labels like any other, so that a dropped mask shows.
        ("masked_array", lambda Y: np.ma.array(np.nan_to_num(Y, nan=1.0), mask=np.isnan(Y)), 0),
        ("signed_csr", lambda Y: sp.csr_array(np.nan_to_num(2 * Y - 1).astype(np.int8)), -1),
    )
]
