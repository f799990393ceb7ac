"""Build objects from checked records, and select which attributes of an object are stored.

Attributes are stored and restored unchanged, except for the classes in ``SPECIAL``.
"""

import inspect
import math
from collections.abc import Callable
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import get_routing_for_object

from dm2l._utils.arrays import asarray_like, device_name
from dm2l.labels._logic import RuleText
from dm2l.persistence._archive import ModelFileError
from dm2l.persistence._checks import METHODS
from dm2l.persistence._reading import OTHER_VERSION, Trusted
from dm2l.persistence._schema import Entry, Record

State = dict[str, Any]
_signature = cache(inspect.signature)  # needed for every tree of a forest


class Builder:
    """Builds the objects of a file; arrays in ``foreign`` become arrays like ``target``."""

    def __init__(self, target: Any, foreign: set[int]) -> None:
        self._target = target
        self._foreign = foreign if target is not None else set()
        self._made: dict[int, tuple[Any, Any]] = {}

    def build(self, value: Any) -> Any:
        """Return a value in which every record is replaced by the object it describes."""
        if type(value) is list:
            return [self.build(item) for item in value]
        if type(value) is tuple:
            return tuple(self.build(item) for item in value)
        if type(value) is dict:
            return {key: self.build(item) for key, item in value.items()}
        if type(value) is np.ndarray and value.dtype == object:
            for place, item in np.ndenumerate(value):
                value[place] = self.build(item)
        if not isinstance(value, (Record, Trusted)) and id(value) not in self._foreign:
            return value
        if id(value) not in self._made:
            self._made[id(value)] = value, self._make(value)
        return self._made[id(value)][1]

    def _make(self, value: Any) -> Any:
        if isinstance(value, Trusted):
            return _trusted(value.name, self.build(value.parts))
        if not isinstance(value, Record):
            return asarray_like(value, self._target)
        state = {name: self.build(part) for name, part in value.state.items()}
        cls = class_of(value.entry)
        parameters = _signature(cls).parameters if value.entry.groups else {}
        # Versions of scikit-learn differ in parameters, and old files of dm2l lack ``rules``.
        later = {"rules"} if value.entry.module.startswith("dm2l.") else parameters.keys()
        for name in value.entry.optional & later & (parameters.keys() - state.keys()):
            state[name] = parameters[name].default
        for name in sorted(parameters.keys() - state.keys()):
            lacks = f"the file has no value for the parameter {name!r} of {cls.__name__}"
            raise ModelFileError(f"{lacks}. {OTHER_VERSION}")
        if state.get("_home", "numpy") != "numpy":
            state["_home"] = device_name(self._target)
        requests = state.pop("_metadata_request", None)  # of set_fit_request and similar methods
        made = SPECIAL.get(value.entry.name, (_attributes, _plain))[1](cls, state)
        if requests is not None:
            made._metadata_request = get_routing_for_object(made)
            for method, wanted in requests.items():
                for name, alias in wanted.items():
                    getattr(made._metadata_request, method).add_request(param=name, alias=alias)
        return made


def class_of(entry: Entry) -> Any:
    """Import and return the class of an entry in the table of allowed classes."""
    return getattr(import_module(entry.module), entry.name)


def _plain(cls: Any, state: State) -> Any:
    return _set(cls.__new__(cls), state)


def _set(made: Any, state: State) -> Any:
    """Set attributes without ``__setattr__``, so that frozen objects can be restored, too."""
    for name, part in state.items():
        object.__setattr__(made, name, part)
    return made


def _trusted(name: str, parts: dict[str, Any]) -> Any:
    """Create an object of a class that the caller trusts, in the same way as pickle."""
    made = named(name)
    arguments = parts.get("arguments")
    if "new" in parts:
        made = made.__new__(made, *(arguments or ()))
    elif arguments is not None:
        made = made(*arguments)
    if "items" in parts:
        made.update(parts["items"])
    if "state" in parts:
        getattr(made, "__setstate__", partial(_set, made))(parts["state"])
    return made


def named(name: str) -> Any:
    """Import and return the class or function with a qualified name."""
    module, *rest = name.rpartition(".")
    try:
        return getattr(import_module(module), rest[-1])
    except (ImportError, AttributeError) as error:
        raise ModelFileError(f"{name!r} cannot be imported ({error}).") from error


# ---------------------------------------------------- classes whose stored state is not __dict__


def _tree(cls: Any, state: State) -> Any:
    made = cls(state.pop("n_features"), np.array([state.pop("n_classes")], dtype=np.intp), 1)
    values = np.ascontiguousarray(state["values"])
    made.__setstate__(state | {"node_count": len(state["nodes"]), "values": values})
    return made


def _tree_state(value: Any) -> State:
    found = value.__getstate__()
    nodes = {"n_features": int(value.n_features), "n_classes": int(value.n_classes[0])}
    return nodes | _node_state(found["nodes"]) | {"values": found["values"]}


def _node_state(nodes: Any) -> State:
    """Return the nodes of a tree as bytes with zero padding; equal trees have equal bytes."""
    clean = np.zeros(nodes.shape, dtype=nodes.dtype)
    for name in nodes.dtype.names:
        clean[name] = nodes[name]
    return {"fields": str(nodes.dtype.descr), "nodes": clean.view(np.uint8).reshape(len(nodes), -1)}


def _boosting(cls: Any, state: State) -> Any:
    made = _plain(cls, state)
    if "classes_" in state:
        made._loss = made._get_loss(sample_weight=None)
    return made


def _vectorizer(cls: Any, state: State) -> Any:
    if "vocabulary_" in state:
        state["vocabulary_"] = {word: place for place, word in enumerate(state["vocabulary_"])}
    return _plain(cls, state)


def _vectoriser_state(value: Any) -> State:
    """Return the attributes of a vectorizer; its vocabulary is a list of terms in column order."""
    state = _attributes(value)
    if "vocabulary_" in state:
        words = sorted(state["vocabulary_"], key=state["vocabulary_"].__getitem__)
        if [state["vocabulary_"][word] for word in words] != list(range(len(words))):
            raise TypeError("its vocabulary must map the n terms to the indices 0 to n - 1")
        state["vocabulary_"] = words
    return state


def _random_state_state(value: Any) -> State:
    found = value.get_state(legacy=False)
    if found["bit_generator"] != "MT19937":
        raise TypeError(f"its random generator must be MT19937, got {found['bit_generator']}")
    parts = {"has_gauss": int(found["has_gauss"]), "gauss": float(found["gauss"])}
    return {"key": found["state"]["key"], "position": int(found["state"]["pos"])} | parts


def _random_state(cls: Any, state: State) -> Any:
    made = cls()
    made.set_state(("MT19937", state["key"], state["position"], state["has_gauss"], state["gauss"]))
    return made


def _attributes(value: Any) -> State:
    # BaseEstimator.__getstate__ would add the version of scikit-learn.
    found: Any = object.__getstate__(value)
    return dict(found or {})


def state_of(value: Any, entry: Entry) -> State:
    """Return the attributes of an object that a model file stores."""
    state = SPECIAL.get(entry.name, (_attributes, _plain))[0](value)
    requests = state.pop("_metadata_request", None)
    if requests is not None:
        wanted = {method: dict(getattr(requests, method).requests) for method in METHODS}
        state["_metadata_request"] = {method: part for method, part in wanted.items() if part}
    return {
        name: part
        for name, part in state.items()
        # Cached properties are not stored, because they are computed again on demand.
        if name not in entry.dropped
        and not isinstance(getattr(type(value), name, None), cached_property)
    }


def _rules(cls: Any, state: State) -> Any:
    try:
        return cls._of([RuleText(*rule) for rule in state["rules"]], state["label_names"])
    except ValueError as error:
        raise ModelFileError(f"the label rules are not valid: {error}") from error


def _rules_state(value: Any) -> State:
    rules = [(rule.field, list(rule.names), rule.place) for rule in value._rules()]
    names = value.label_names
    return {"rules": rules, "label_names": None if names is None else list(names)}


def _without_times(value: Any) -> State:
    """Return attributes with measured times set to NaN, so that equal fits give equal files."""
    state = _attributes(value)
    for name, column in (("leaderboard_", "seconds"), ("cv_results_", "mean_fit_time")):
        if name in state:
            times = state[name][column]
            unknown = [math.nan] * len(times) if isinstance(times, list) else times * math.nan
            state[name] = state[name] | {column: unknown}
    return state


# For each class, two functions: one returns its stored state, one restores an object from it.
SPECIAL: dict[str, tuple[Callable[[Any], State], Callable[[Any, State], Any]]] = {
    "AutoClassifier": (_without_times, _plain),
    "CountVectorizer": (_vectoriser_state, _vectorizer),
    "DM2LClassifierCV": (_without_times, _plain),
    "HistGradientBoostingClassifier": (_attributes, _boosting),
    "Interval": (lambda value: value._asdict(), lambda cls, state: cls(**state)),
    "LabelCompleter": (lambda value: value.state(), lambda cls, state: cls(**state)),
    "LabelRules": (_rules_state, _rules),
    "PUCompleter": (lambda value: value.state(), lambda cls, state: cls(**state)),
    "RandomState": (_random_state_state, _random_state),
    "TfidfVectorizer": (_vectoriser_state, _vectorizer),
    "Tree": (_tree_state, _tree),
    "TreePredictor": (lambda value: _attributes(value) | _node_state(value.nodes), _plain),
}
