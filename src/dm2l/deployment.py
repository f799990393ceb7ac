"""Export of fitted models as ONNX graphs, which run without Python and without dm2l."""

import json
from math import pi
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dm2l import __version__
from dm2l._auto._stack import SURE
from dm2l._base import MissingLabelClassifier
from dm2l._utils import require
from dm2l._utils.arrays import float64, to_numpy
from dm2l.pu import PUCompleter

__all__ = ["to_onnx"]

_OPSET, _IR = 17, 8  # versions from 2022, which all current runtimes support
_KERNELS = ("rbf", "poly", "polynomial", "sigmoid", "cosine", "tanimoto")


def to_onnx(model: Any, *, max_bytes: int = 2**28) -> Any:
    """Convert a fitted model to an ONNX graph.

    The input of the graph is ``X`` (float32). The outputs ``scores``, ``probabilities`` (float32)
    and ``labels`` (int64) equal the results of ``decision_function``, ``predict_proba`` and
    ``predict``. The graph computes in float64, and contains the names of labels and columns as
    metadata.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted linear or kernel model of dm2l, a :class:`dm2l.ScoreClassifier`, or a pipeline of
        StandardScaler or MaxAbsScaler and one of these models.
    max_bytes : int, default=2**28
        Maximum size of the graph in bytes, at most ``2**31``. Graphs of exact kernels contain the
        training rows.

    Returns
    -------
    onnx.ModelProto
        The graph, which ``onnx.save(graph, path)`` writes to a file.

    Examples
    --------
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.deployment import to_onnx
    >>> X, Y = make_missing_multilabel(n_samples=100, random_state=0)
    >>> graph = to_onnx(DM2LClassifier(kernel="rbf").fit(X, Y))
    >>> [output.name for output in graph.graph.output]
    ['scores', 'probabilities', 'labels']
    """
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    *before, last = steps
    _check(last)
    graph = _Graph()
    X = graph("Cast", "X", to=graph.double)
    for step in before:
        X = _prepare(graph, X, step)
    odds = _log_odds(graph, X, last) if hasattr(last, "_rate") else ""
    if odds:
        scores = graph("Tanh", graph("Mul", odds, 0.5))
        scores = graph("Where", last._learnable, scores, last._constant)
    else:
        scores = _scores(graph, X, last)
    if isinstance(last._completer, PUCompleter) and last._learnable.any():
        # As in dm2l.pu.correct_scores.
        prior = np.where(last.class_prior_ > 0, last.class_prior_, 1.0)
        p = graph("Div", graph("Add", scores, 1.0), 2 * prior)
        small = graph("Exp", graph("Sub", graph("Min", p, 1.0), 1.0))
        small = graph("Sub", graph("Mul", small, 2 * prior), 1.0)
        below = graph("And", graph("Less", p, 1.0), last.class_prior_ > 0)
        scores = graph("Where", below, small, scores)
    completer = last._completer
    curves = completer.calibrator or completer.curves
    probabilities = graph("Sigmoid", odds) if odds else _probabilities(graph, scores, curves)
    by_probability = completer.calibrator is not None and last.threshold is None
    decided = (probabilities, 0.5) if by_probability else (scores, last.thresholds_)
    codes = np.int64(1), np.int64(last._labels.negative)
    labels = graph("Where", graph("Greater", *decided), *codes)
    if graph.n_bytes > max_bytes:
        raise ValueError(
            f"{type(last).__name__} cannot be exported: its graph has {graph.n_bytes} bytes, more "
            f"than max_bytes={max_bytes}. Fit it with approximation='nystroem' or 'fourier', or "
            "raise max_bytes to at most 2**31."
        )
    names = getattr(steps[0], "feature_names_in_", None)
    about = {"label_names": list(map(str, last.label_names_))}
    about |= {} if names is None else {"feature_names": list(map(str, names))}
    return graph.model((scores, probabilities, labels), steps[0].n_features_in_, about)


class _Graph:
    """A graph under construction; inputs of its nodes are arrays or names of other nodes."""

    def __init__(self) -> None:
        self._onnx = require("onnx", "onnx")
        self.double = self._onnx.TensorProto.DOUBLE
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.n_bytes = 0

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node and return its name."""
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        name = f"{operator.lower()}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, names, [name], **attributes)
        self._nodes.append(node)
        return name

    def _constant(self, value: Any) -> str:
        array = np.asarray(to_numpy(value))
        self.n_bytes += array.nbytes
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def squares(self, X: str) -> str:
        """Add nodes for the sum of squares of each row, as a column."""
        return self("ReduceSum", self("Mul", X, X), np.array([1]), keepdims=1)

    def model(self, found: tuple[str, str, str], n_features: int, about: dict[str, Any]) -> Any:
        """Return the ONNX model with its inputs, outputs and metadata."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        outputs = {"scores": kinds.FLOAT, "probabilities": kinds.FLOAT, "labels": kinds.INT64}
        for name, result in zip(outputs, found, strict=True):
            self._nodes.append(helper.make_node("Cast", [result], [name], to=outputs[name]))
        n_labels = len(about["label_names"])
        value = helper.make_tensor_value_info
        inputs = [value("X", kinds.FLOAT, ["n", n_features])]
        results = [value(name, kind, ["n", n_labels]) for name, kind in outputs.items()]
        graph = helper.make_graph(self._nodes, "dm2l", inputs, results, self._constants)
        made_by = {"producer_name": "dm2l", "producer_version": __version__}
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, ir_version=_IR, opset_imports=opsets, **made_by)
        helper.set_model_props(model, {name: json.dumps(value) for name, value in about.items()})
        return model


def _check(model: Any) -> None:
    """Raise an error with the reason if a model cannot be exported."""
    why, ours = "", isinstance(model, MissingLabelClassifier)
    if ours:
        check_is_fitted(model)
    if not ours:
        why = "only linear and kernel models of dm2l are supported, such as DM2LClassifier"
    elif hasattr(model, "label_vectors_"):
        why = "ONNX does not support sparse predictions. Use DM2LClassifier"
    elif getattr(model, "scale_", None) == "rank":
        why = "scale='rank' is not supported. Fit the model to probabilities or logits"
    elif not any(hasattr(model, name) for name in ("coef_", "dual_coef_", "_rate")):
        why = "combinations of estimators are not supported. Use DM2LClassifier"
    elif model._labels.kind != "multilabel":
        why = "it was fitted to a 1-D y. Fit it to a label matrix, such as y.reshape(-1, 1)"
    elif model._completer.rules is not None:
        why = "label rules are not supported. Fit the model with rules=None"
    elif hasattr(model, "dual_coef_") and model._kernel.kernel not in _KERNELS:
        why = f"kernel={model._kernel.kernel!r} is not one of {', '.join(_KERNELS)}"
    if why:
        raise ValueError(f"{type(model).__name__} cannot be exported: {why}.")


def _prepare(graph: _Graph, X: str, step: Any) -> str:
    if step in (None, "passthrough"):
        return X
    if not isinstance(step, StandardScaler | MaxAbsScaler):
        raise ValueError(
            f"The pipeline cannot be exported: {type(step).__name__} is neither StandardScaler nor "
            "MaxAbsScaler. Export only the last step, and apply the other steps before you call "
            "the exported model."
        )
    check_is_fitted(step)
    if getattr(step, "with_mean", False):
        X = graph("Sub", X, step.mean_)
    return X if step.scale_ is None else graph("Div", X, step.scale_)


def _scores(graph: _Graph, X: str, model: Any) -> str:
    intercept = float64(to_numpy(model.intercept_))
    if hasattr(model, "coef_"):
        features, weights = X, to_numpy(model.coef_).T
    else:
        weights = to_numpy(model.dual_coef_)
        found = getattr(model, "_fourier_map", None)
        features = _kernel(graph, X, model) if found is None else _fourier_features(graph, X, found)
    return graph("Add", graph("MatMul", features, float64(weights)), intercept)


def _log_odds(graph: _Graph, X: str, model: Any) -> str:
    """Add nodes for the log-odds of a ScoreClassifier; missing scores give the base rate."""
    learnt, stack, c = model._learnable, model.stack_, len(model._learnable)
    places = np.arange(c) if model.columns is None else np.asarray(model.columns)
    S = graph("Gather", X, places.astype(np.int64), axis=1)
    absent = graph("IsNaN", S)
    S = graph("Where", absent, 0.0, S)
    if model.scale_ == "probability":
        p = graph("Add", graph("Mul", S, 1 - 2 * SURE), SURE)
        S = graph("Log", graph("Div", p, graph("Sub", 1.0, p)))
    level, rate = 2 * model._constant, 2 * model._constant
    centre, scale, slope, bend = np.zeros((4, c))
    centre[learnt], scale[learnt] = stack.centre[0], 1 / stack.scale[0]
    slope[learnt] = (stack.weights * stack.slope)[0]
    bend[learnt] = np.pi / 8 * np.broadcast_to(stack.variance, stack.slope.shape)[0]
    level[learnt] = stack.intercept + (stack.weights * stack.offset)[0]
    rate[learnt] = model._rate
    Z = graph("Mul", graph("Sub", S, centre), scale)
    root = graph("Sqrt", graph("Add", graph("Mul", graph("Mul", Z, Z), bend), 1.0))
    eta = graph("Add", graph("Div", graph("Mul", Z, slope), root), level)
    eta = graph("Where", absent, rate, eta)
    eta = graph("Min", graph("Max", eta, -30.0), 30.0)
    mean, cross = np.zeros(c), np.zeros((c, c))
    mean[learnt], cross[np.ix_(learnt, learnt)] = model._mean, model._cross
    others = graph("Sub", graph("Tanh", graph("Mul", eta, 0.5)), mean)
    eta = graph("Add", eta, graph("MatMul", others, cross))
    return graph("Min", graph("Max", eta, -30.0), 30.0)


def _fourier_features(graph: _Graph, X: str, fourier: Any) -> str:
    frequencies = to_numpy(fourier.frequencies)
    m = frequencies.shape[1]
    # cos(x) = sin(x + pi/2). If the number of features is odd, the last sine is omitted.
    both = np.hstack([frequencies, frequencies[:, : fourier.n_components - m]])
    ahead = np.where(np.arange(both.shape[1]) < m, pi / 2, 0.0)
    return graph("Div", graph("Sin", graph("Add", graph("MatMul", X, both), ahead)), m**0.5)


def _kernel(graph: _Graph, X: str, model: Any) -> str:
    """Add nodes for the kernel matrix between ``X`` and the training rows of the model."""
    kernel, P = model._kernel, model.X_fit_
    P = float64(P.toarray() if sp.issparse(P) else to_numpy(P))
    gamma, squares = float(kernel.gamma), (P * P).sum(axis=1)
    if kernel.kernel == "cosine":
        P = P / np.maximum(np.sqrt(squares), 1e-300)[:, None]
        X = graph("Div", X, graph("Max", graph("Sqrt", graph.squares(X)), 1e-300))
        return graph("MatMul", X, np.ascontiguousarray(P.T))
    inner = graph("MatMul", X, np.ascontiguousarray(P.T))
    if kernel.kernel == "rbf":
        apart = graph("Sub", graph("Add", graph.squares(X), squares), graph("Add", inner, inner))
        return graph("Exp", graph("Mul", graph("Max", apart, 0.0), -gamma))
    if kernel.kernel == "tanimoto":
        union = graph("Sub", graph("Add", graph.squares(X), squares), inner)
        nothing = graph("LessOrEqual", union, 0.0)
        union = graph("Where", nothing, 1.0, union)
        alike = graph("Where", nothing, 1.0, graph("Div", inner, union))
        return graph("Exp", graph("Mul", graph("Sub", alike, 1.0), gamma))
    affine = graph("Add", graph("Mul", inner, gamma), float(kernel.coef0))
    if kernel.kernel == "sigmoid":
        return graph("Tanh", affine)
    if kernel.kernel in ("poly", "polynomial"):
        return graph("Pow", affine, float(kernel.degree))
    raise NotImplementedError(f"kernel={kernel.kernel!r} cannot be converted to ONNX.")


def _probabilities(graph: _Graph, scores: str, calibrator: Any) -> str:
    # (1 + tanh(f)) / 2 is the sigmoid of 2f.
    plain = graph("Sigmoid", graph("Mul", scores, 2.0))
    if calibrator is None or np.isnan(calibrator.rates).all():
        return plain
    rates, fitted = calibrator.rates, calibrator.fitted_labels
    if calibrator.method == "isotonic":
        curve = _polygons(graph, scores, calibrator)
    else:
        slope, level = np.zeros(len(rates)), np.log(rates / (1 - rates))
        slope[fitted], level[fitted] = calibrator.slopes, calibrator.offsets
        line = graph("Mul", scores, slope)
        curve = graph("Sigmoid", graph("Add", line, np.nan_to_num(level)))
    # Labels without observed entries have no base rate.
    return graph("Where", np.isnan(rates), plain, curve)


def _polygons(graph: _Graph, scores: str, calibrator: Any) -> str:
    """Add nodes for isotonic maps: the first value plus all increases up to the score."""
    first = np.nan_to_num(calibrator.rates)
    start = np.zeros((len(first), max(1, calibrator.lengths.max(initial=1) - 1)))
    width, rise = np.ones_like(start), np.zeros_like(start)
    for k, knots, values in calibrator.polygons():
        use = slice(len(knots) - 1)
        start[k, use], width[k, use], rise[k, use] = knots[:-1], np.diff(knots), np.diff(values)
        first[k] = values[0]
    far = graph("Div", graph("Sub", graph("Unsqueeze", scores, np.array([2])), start), width)
    far = graph("Min", graph("Max", far, 0.0), 1.0)
    risen = graph("ReduceSum", graph("Mul", far, rise), np.array([2]), keepdims=0)
    return graph("Add", risen, first)
