"""Objects that a model file may hold: which classes, and what each is made of.

The state of an object is named values in groups; the classes are those listed here and no others,
so that a file names a class but never says where code is to be found.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metadata_routing import get_routing_for_object

from dm2l._auto._classifier import AutoClassifier
from dm2l._auto._columns import CategoryEncoder
from dm2l._auto._features import FeatureEncoder
from dm2l._auto._stack import Stack
from dm2l._classifier import DM2LClassifier
from dm2l._search._search import DM2LClassifierCV
from dm2l._solvers.kernels._fourier import FourierMap
from dm2l._solvers.kernels._kernel import Kernel
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.chemistry import MorganFingerprints
from dm2l.completion import ErrorRateBound
from dm2l.completion._calibration import Calibrator
from dm2l.completion._combine import Combiner
from dm2l.completion._completer import LabelCompleter
from dm2l.completion._correlation import LabelCorrelation
from dm2l.completion._covariance import DenseCovariance, FactorCovariance
from dm2l.completion._training_rows import TrainingRows
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.labels._matrix import LabelMatrix
from dm2l.model_selection import Interval, MultilabelKFold, MultilabelShuffleSplit
from dm2l.persistence._archive import ModelFileError, brief
from dm2l.pu._completer import PUCompleter

State = dict[str, dict[str, Any]]

ESTIMATORS: tuple[type, ...] = (
    DM2LClassifier,
    DM2LClassifierCV,
    ExtremeDM2LClassifier,
    AutoClassifier,
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MLLRCClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
)
_OTHERS: tuple[type, ...] = (
    CategoryEncoder,
    Combiner,
    DenseCovariance,
    FactorCovariance,
    FeatureEncoder,
    FourierMap,
    Interval,
    Kernel,
    LabelMatrix,
    LabelCorrelation,
    MorganFingerprints,
    MultilabelKFold,
    MultilabelShuffleSplit,
    ErrorRateBound,
    Stack,
    TrainingRows,
)
_MT19937_WORDS = 624


class Codec(NamedTuple):
    """How objects of a class are taken apart and put together again."""

    cls: type
    state: Callable[[Any], State]
    build: Callable[[State], Any]


# --------------------------------------------------------------- what has constructor parameters


def _parameter_names(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)


def _state(value: Any) -> State:
    cls, names = type(value), _parameter_names(type(value))
    # What a class works out itself, once, is not stored.
    held = getattr(value, "__dict__", {})  # a named tuple has none
    attributes = {k: v for k, v in held.items() if k not in names and not hasattr(cls, k)}
    routing = attributes.pop("_metadata_request", None)
    state: State = {"parameters": {name: getattr(value, name) for name in names}}
    if attributes:
        state["attributes"] = attributes
    if routing is not None:
        methods = {name: getattr(part, "requests", None) for name, part in vars(routing).items()}
        state["requests"] = {name: dict(part) for name, part in methods.items() if part}
    return state


def _builder(cls: type) -> Callable[[State], Any]:
    names = frozenset(_parameter_names(cls))  # once: it takes longer than all the rest

    def build(state: State) -> Any:
        unknown = sorted(state["parameters"].keys() - names)
        if unknown:
            raise ModelFileError(
                f"{cls.__name__} has no parameter {brief(unknown[0])} in this dm2l."
            )
        value = cls(**state["parameters"])
        attributes = state.get("attributes", {})
        for name in attributes:
            # What a class provides itself (methods, properties) is not to be hidden.
            if not name.isidentifier() or name.startswith("__") or hasattr(cls, name):
                raise ModelFileError(f"{cls.__name__} cannot have an attribute {brief(name)}.")
        if attributes:
            vars(value).update(attributes)
        _set_requests(value, state.get("requests", {}))
        return value

    return build


def _set_requests(value: Any, requests: dict[str, Any]) -> None:
    """What ``set_fit_request`` and its kin had asked for."""
    if not requests:
        return
    routing = get_routing_for_object(value)
    for method, wanted in requests.items():
        for name, alias in wanted.items():
            vars(routing)[method].add_request(param=name, alias=alias)
    value._metadata_request = routing


# ------------------------------------------------------------------------------- the calibrator


def _calibrator_state(value: Calibrator) -> State:
    """Curves of all labels in a few arrays: thousands of labels are no more members."""
    maps = value._maps
    curves = [curve for curve in maps if curve is not None]
    found: dict[str, Any] = {
        "rates": value._rates,
        "fitted": np.array([curve is not None for curve in maps], dtype=bool),
    }
    if value.method == "sigmoid":
        found["slopes"] = np.array([curve.coef_[0, 0] for curve in curves], dtype=np.float64)
        found["offsets"] = np.array([curve.intercept_[0] for curve in curves], dtype=np.float64)
    else:
        found["lengths"] = np.array([len(curve.X_thresholds_) for curve in curves], dtype=np.int64)
        for name, part in (("scores", "X_thresholds_"), ("probabilities", "y_thresholds_")):
            found[name] = np.concatenate([np.zeros(0), *(getattr(curve, part) for curve in curves)])
    return {"parameters": {"method": value.method}, "attributes": found}


def _build_calibrator(state: State) -> Calibrator:
    value = Calibrator(**state["parameters"])
    found = state["attributes"]
    curves: list[Any]
    if value.method == "sigmoid":
        parts = zip(found["slopes"].tolist(), found["offsets"].tolist(), strict=True)
        curves = [_sigmoid(slope, offset) for slope, offset in parts]
    else:
        lengths = found["lengths"].tolist()
        # Lengths that fall back would have curves share their numbers, and each be copied.
        total = {len(found["scores"]), len(found["probabilities"])}
        if not all(type(n) is int and n > 0 for n in lengths) or total != {sum(lengths)}:
            raise ModelFileError("its calibrator has curves of wrong lengths.")
        ends = np.cumsum(found["lengths"])[:-1]
        scores, p = (np.split(found[name], ends) for name in ("scores", "probabilities"))
        curves = [_isotonic(*curve) for curve in zip(scores, p, strict=True) if len(curve[0])]
    fitted, rates = found["fitted"], found["rates"]
    if fitted.sum() != len(curves) or fitted.shape != rates.shape:
        raise ModelFileError("its calibrator has a wrong number of curves.")
    left = iter(curves)
    value._maps = [next(left) if known else None for known in fitted.tolist()]
    value._rates = rates
    return value


def _sigmoid(slope: float, offset: float) -> LogisticRegression:
    curve = LogisticRegression(C=1e6, max_iter=1000)
    curve.coef_, curve.intercept_ = np.array([[slope]]), np.array([offset])
    curve.classes_, curve.n_features_in_ = np.array([0, 1]), 1
    return curve


def _isotonic(scores: Any, probabilities: Any) -> IsotonicRegression:
    if scores.shape != probabilities.shape or not (np.diff(scores) >= 0).all():
        raise ModelFileError("its calibrator has a curve that is not a function.")
    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    fitted = {
        "X_thresholds_": scores.copy(),
        "y_thresholds_": probabilities.copy(),
        "X_min_": scores[0],
        "X_max_": scores[-1],
        "increasing_": True,
    }
    # The way that pickle takes too: it makes the interpolation from the thresholds.
    curve.__setstate__(vars(curve) | fitted | {"_sklearn_version": sklearn.__version__})
    return curve


# ------------------------------------------------------------------------------- the completer


def _completer_state(value: LabelCompleter) -> State:
    return {"parameters": value.state()}


def _completer_builder(cls: type[LabelCompleter]) -> Callable[[State], Any]:
    kinds = {"calibrator": Calibrator, "curves": Calibrator, "correlation": LabelCorrelation}

    def build(state: State) -> LabelCompleter:
        for name, kind in kinds.items():
            if not isinstance(state["parameters"].get(name), kind | None):
                raise ModelFileError(f"its {name} is not a {kind.__name__}.")
        return cls(**state["parameters"])

    return build


# ------------------------------------------------------------------------------------ the rest


def _random_state(value: np.random.RandomState) -> State:
    found = value.get_state(legacy=False)
    if found["bit_generator"] != "MT19937":
        raise TypeError(f"a RandomState on {found['bit_generator']} cannot be saved")
    parts = {"has_gauss": found["has_gauss"], "gauss": found["gauss"]}
    return {"attributes": {"key": found["state"]["key"], "position": found["state"]["pos"]} | parts}


def _build_random_state(state: State) -> np.random.RandomState:
    found = state["attributes"]
    key, position = found["key"], found["position"]
    # numpy takes any position and then reads there.
    words = key.dtype == np.uint32 and key.shape == (_MT19937_WORDS,)
    if not words or not 0 <= position <= _MT19937_WORDS:
        raise ModelFileError("a random state is not one of MT19937.")
    value = np.random.RandomState()
    value.set_state(("MT19937", key, position, found["has_gauss"], found["gauss"]))
    return value


CODECS = {
    **{cls.__name__: Codec(cls, _state, _builder(cls)) for cls in (*ESTIMATORS, *_OTHERS)},
    "Calibrator": Codec(Calibrator, _calibrator_state, _build_calibrator),
    "LabelCompleter": Codec(LabelCompleter, _completer_state, _completer_builder(LabelCompleter)),
    "PUCompleter": Codec(PUCompleter, _completer_state, _completer_builder(PUCompleter)),
    "RandomState": Codec(np.random.RandomState, _random_state, _build_random_state),
}
NAMES = {codec.cls: name for name, codec in CODECS.items()}
