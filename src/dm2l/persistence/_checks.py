"""Checks that the attributes of an object are consistent, apart from their sizes.

Compiled code of scikit-learn reads child nodes and feature columns of a tree without checking that
they exist, so inconsistent indices could crash Python.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from dm2l.labels._logic import FIELDS
from dm2l.persistence._schema import Record

METHODS = (
    *("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("score", "split", "transform", "inverse_transform"),
)
_NO_TREE = "has nodes that do not form a tree"
_NO_FEATURE = "splits on a feature that does not exist"
_CATEGORICAL = "has categorical features"
_INFREQUENT = {"_default_to_infrequent_mappings", "_infrequent_indices"}
_Check = Callable[[Record], None]
CHECKS: dict[str, list[_Check]] = {}


class Wrong(Exception):  # noqa: N818 - its text is the predicate of a longer message
    """Error for a record whose attributes are inconsistent."""


def _check(*names: str) -> Callable[[_Check], _Check]:
    """Register a function that checks records of the named classes and raises :class:`Wrong`."""

    def register(function: _Check) -> _Check:
        for name in names:
            CHECKS.setdefault(name, []).append(function)
        return function

    return register


def _refuse(wrong: Any, reason: str) -> None:
    """Raise :class:`Wrong` if ``wrong`` is true; ``reason`` is text such as "has no trees"."""
    if wrong:
        raise Wrong(reason)


def _inside(places: Any, size: int) -> bool:
    """Return whether all positions are between 0 and ``size - 1``."""
    return bool(((places >= 0) & (places < size)).all())


def depth_of(left: NDArray[Any], right: NDArray[Any], leaf: NDArray[np.bool_]) -> int | None:
    """Return the depth of a tree given its child nodes; None if the nodes do not form a tree."""
    n, places = len(leaf), np.flatnonzero(~leaf)
    children = np.concatenate([left[~leaf], right[~leaf]]).astype(np.int64)
    if len(children) != n - 1 or not _inside(children, n):
        return None
    ends = np.stack([np.tile(places, 2), children]).astype(np.int32)
    edges = sp.csr_array((np.ones(n - 1), tuple(ends)), shape=(n, n))
    depth = dijkstra(edges, unweighted=True, indices=0)
    return int(depth.max()) if np.isfinite(depth).all() else None


@_check("Tree")
def _tree(record: Record) -> None:
    state, nodes = record.state, _nodes(record, "sklearn.tree._tree", "NODE_DTYPE")
    left, right, feature = (nodes[k] for k in ("left_child", "right_child", "feature"))
    leaf = left == -1
    state["max_depth"] = depth_of(left, right, leaf)
    _refuse(state["max_depth"] is None or (right[leaf] != -1).any(), _NO_TREE)
    _refuse(not _inside(feature[~leaf], record.sizes["d"]), _NO_FEATURE)
    _refuse(not np.isfinite(state["values"]).all(), "contains values that are not finite")


@_check("TreePredictor")
def _predictor(record: Record) -> None:
    module = "sklearn.ensemble._hist_gradient_boosting.common"
    nodes = _nodes(record, module, "PREDICTOR_RECORD_DTYPE")
    leaf = nodes["is_leaf"] != 0
    _refuse(depth_of(nodes["left"], nodes["right"], leaf) is None, _NO_TREE)
    _refuse(nodes["is_categorical"].any(), _CATEGORICAL)
    _refuse(not np.isfinite(nodes["value"]).all(), "contains values that are not finite")
    features = nodes["feature_idx"].astype(np.int64)[~leaf]
    _refuse((features < 0).any(), _NO_FEATURE)
    record.sizes["features"] = int(features.max(initial=-1)) + 1


def _nodes(record: Record, module: str, name: str) -> NDArray[Any]:
    """Convert the nodes of a tree from bytes to an array of scikit-learn's node type."""
    dtype = getattr(import_module(module), name)
    fields, raw = record.state.pop("fields"), record.state["nodes"]
    other = fields != str(dtype.descr) or raw.shape[1] != dtype.itemsize
    _refuse(other, "was saved with another version of scikit-learn; fit the model again")
    record.state["nodes"] = np.ascontiguousarray(raw).view(dtype)[:, 0]
    return record.state["nodes"]


@_check("HistGradientBoostingClassifier")
def _boosting(record: Record) -> None:
    d, k, t = (record.sizes[name] for name in "dkt")
    _refuse(k < 2 or t != (1 if k == 2 else k), f"has {t} trees per iteration for {k} classes")
    for tree in (tree for row in record.state["_predictors"] for tree in row):
        _refuse(tree.sizes["features"] > d, f"has a tree that {_NO_FEATURE}")


_check("_BinMapper")(lambda r: _refuse(r.state["is_categorical_"].any(), _CATEGORICAL))
_check("RandomForestClassifier", "ExtraTreesClassifier")(
    lambda r: _refuse(not r.state["estimators_"], "has no trees")
)


@_check("LogisticRegression")
def _logistic(record: Record) -> None:
    k, r = record.sizes["k"], record.sizes["r"]
    _refuse(k < 2 or r != (1 if k == 2 else k), f"has {r} rows of coefficients for {k} classes")


# ------------------------------------------------------------------------------ columns of tables


@_check("CountVectorizer", "TfidfVectorizer")
def _vectorizer(record: Record) -> None:
    words, (low, high) = record.state["vocabulary_"], record.state["ngram_range"]
    _refuse(len(set(words)) != len(words), "has a vocabulary that contains a term twice")
    _refuse(low > high, f"has ngram_range={(low, high)}, which is not ascending")
    tfidf = record.state.get("_tfidf")
    if tfidf is not None and tfidf.state["use_idf"]:
        w = tfidf.sizes.get("w")
        _refuse(w != len(words), f"has {w} weights for {len(words)} terms")


@_check("OneHotEncoder", "OrdinalEncoder")
def _encoder(record: Record) -> None:
    state, enabled = record.state, record.state["_infrequent_enabled"]
    widths = [len(values) for values in state["categories_"]]
    stored = len(_INFREQUENT & state.keys())
    _refuse(stored != 2 * enabled, "has incomplete or unexpected data on infrequent categories")
    parts = [state[name] for name in sorted(_INFREQUENT)] if enabled else [[], []]
    for j, (columns, indices) in enumerate(zip(*parts, strict=True)):
        _refuse((indices is None) != (columns is None), "has infrequent categories without columns")
        if indices is not None:
            exist = len(columns) == widths[j] and len(indices) and _inside(indices, widths[j])
            _refuse(not exist, "has infrequent categories that do not exist")
            widths[j] -= len(indices) - 1
            _refuse(not _inside(columns, widths[j]), "maps categories to columns that do not exist")
    other = list(state.get("_n_features_outs", widths)) != widths
    _refuse(other, "has a number of columns that does not match its categories")
    record.sizes["e"] = sum(widths) if "_n_features_outs" in state else record.sizes["d"]


@_check("SimpleImputer")
def _imputer(record: Record) -> None:
    # Older versions of scikit-learn do not have the attribute ``_fill_dtype``.
    record.state.setdefault("_fill_dtype", record.state["_fit_dtype"])
    indicator = record.state["indicator_"]
    other = (indicator is not None) != record.state["add_indicator"]
    _refuse(other, "has a missing-value indicator that does not match add_indicator")
    extra = 0 if indicator is None else len(indicator.state["features_"])
    record.sizes["e"] = record.sizes["d"] + extra


@_check("StandardScaler", "ClippedScaler")
def _scaler(record: Record) -> None:
    for used, part in (("with_mean", "mean_"), ("with_std", "scale_")):
        lacks = record.state[used] and record.state[part] is None
        _refuse(lacks, f"has {used}=True, but no {part}")


@_check("MissingIndicator")
def _indicator(record: Record) -> None:
    inside = _inside(record.state["features_"], record.sizes["d"])
    _refuse(not inside, "marks missing values in columns that do not exist")


@_check("ColumnTransformer")
def _columns(record: Record) -> None:
    state, d = record.state, record.sizes["d"]
    fitted = state["transformers_"]
    names, found = ([name for name, *_ in part] for part in (state["transformers"], fitted))
    other = found not in (names, [*names, "remainder"]) or len(set(found)) < len(found)
    _refuse(other, "has fitted steps whose names differ from its parameter 'transformers'")
    other = state["output_indices_"].keys() != {*names, "remainder"}
    _refuse(other, "has output_indices_ for steps that do not exist")
    known = state.get("feature_names_in_")
    places: dict[str, list[int]] = {}
    width: int | None = 0
    for name, part, columns in fitted:
        places[name] = _places(columns, () if known is None else known, d)
        count = len(places[name])
        if part == "drop" or not count:
            continue
        before, after = (count, count) if part == "passthrough" else widths(part)
        first = part
        while isinstance(first, Record) and first.entry.name == "Pipeline":
            first = first.state["steps"][0][1]
        if isinstance(first, Record) and "feature_names_in_" in first.entry.fitted:
            wanted = [] if known is None else known[places[name]].tolist()
            names_in = list(first.state.get("feature_names_in_", ()))
            fits = first.state.get("n_features_in_") == count and names_in == wanted
        else:
            fits = before in (None, count)
        _refuse(not fits, f"passes columns to the step {name!r} that were not passed in fit")
        width = None if width is None or after is None else width + after
    # These attributes follow from the steps, so they are computed instead of read from the file.
    state["_columns"] = [columns for *_, columns in fitted[: len(names)]]
    rest = fitted[-1][2] if found != names else []
    state["_remainder"] = ("remainder", state["remainder"], rest)
    state["_transformer_to_input_indices"] = places | {"remainder": places.get("remainder", [])}
    if width is not None:
        record.sizes["e"] = width


def _places(columns: Any, names: Any, d: int) -> list[int]:
    """Return the positions of columns, which may be listed by name, by position or as a mask."""
    listed = [columns] if isinstance(columns, str) else list(columns)
    if listed and all(isinstance(column, (bool, np.bool_)) for column in listed):
        found = [place for place, taken in enumerate(listed) if taken]
        inside = len(listed) == d
    else:
        known = {name: place for place, name in enumerate(names)}
        found = [known.get(one, d) if isinstance(one, str) else int(one) for one in listed]
        inside = all(-d <= place < d for place in found)
    _refuse(not inside, "selects columns that do not exist")
    return [place % d for place in found]


@_check("Pipeline")
def _pipeline(record: Record) -> None:
    steps = record.state["steps"]
    names = [name for name, _ in steps]
    _refuse(not steps or len(set(names)) != len(names), "has no steps or repeats a step's name")
    width: int | None = None
    for place, (name, step) in enumerate(steps):
        before, after = (width, width) if step in (None, "passthrough") else widths(step)
        other = place and None not in (before, width) and before != width
        _refuse(other, f"passes {width} columns to the step {name!r}, which takes {before}")
        if not place and before is not None:
            record.sizes["d"] = before
        width = after
    if width is not None:
        record.sizes["e"] = width


def widths(record: Any) -> tuple[int | None, int | None]:
    """Return the numbers of input and output columns of a pipeline step; None where unknown."""
    sizes = getattr(record, "sizes", {})
    same = ("StandardScaler", "ClippedScaler", "MaxAbsScaler", "FunctionTransformer")
    name = record.entry.name if hasattr(record, "entry") else ""
    if name in ("CountVectorizer", "TfidfVectorizer"):
        return None, sizes.get("w")
    if name == "MorganFingerprints":
        return None, sizes.get("w", None if record.state.get("counts") else record.state["n_bits"])
    if name == "MoleculeDescriptors":
        return None, len(record.state.get("names_", ())) or None
    if name == "TableColumns":
        return None, widths(record.state.get("transformer_"))[1]
    return sizes.get("d"), sizes.get("d") if name in same else sizes.get("e")


# ------------------------------------------------------------------------------- models of dm2l


@_check("LabelMatrix")
def _labels(record: Record) -> None:
    state, c = record.state, record.sizes["c"]
    count = None if state["classes"] is None else len(state["classes"])
    fits = {"multilabel": count is None, "binary": count in (1, 2) and c == 1}
    _refuse(not fits.get(state["kind"], count == c), f"has {count} classes for {c} labels")


@_check("DM2LClassifier", "MaskedRidgeClassifier", "LEMLClassifier", "LSMLClassifier")
@_check("MLLRCClassifier", "GLOCALClassifier", "ExtremeDM2LClassifier")
@_check("MaskedOneVsRestClassifier", "AutoClassifier", "ScoreClassifier")
def _labelled(record: Record) -> None:
    state = record.state
    if record.entry.name in ("DM2LClassifier", "MaskedRidgeClassifier"):
        unlabelled = isinstance(state["missing_as"], str) and state["missing_as"] == "unlabelled"
        lacks = {"class_prior_", "_label_frequency"} - state.keys()
        _refuse(unlabelled and lacks, "has no class prior")
    one = state["_labels"].state["classes"]
    shape = (record.sizes["c"], 2) if one is None else one.shape
    _refuse(state["classes_"].shape != shape, "has an attribute classes_ of the wrong shape")


@_check("DM2LClassifier")
def _classifier(record: Record) -> None:
    state, sizes = record.state, record.sizes
    if "dual_coef_" not in state or not state["_learnable"].any():
        _refuse(state["_learnable"].any() and "coef_" not in state, "has no coefficients")
        return
    fourier: Any = state.get("_fourier_map")
    rows: Any = state.get("X_fit_")
    if fourier is not None:
        frequencies, m = fourier.state.get("frequencies"), sizes["m"]
        width = None if frequencies is None else frequencies.shape[1]
        other = m != fourier.state["n_components"] or width != (m + 1) // 2
        _refuse(other, "has Fourier features that do not match its coefficients")
        return
    _refuse("_kernel" not in state or rows is None, "has no kernel or no training rows")
    precomputed = state["_kernel"].state["kernel"] == "precomputed"
    _refuse((rows.ndim == 1) != precomputed, "has training rows that do not match its kernel")
    outside = precomputed and not _inside(rows, sizes["d"])
    _refuse(outside, "refers to training rows that do not exist")


@_check("MaskedOneVsRestClassifier")
def _one_vs_rest(record: Record) -> None:
    state, d = record.state, record.sizes.get("d")
    models = [model for model in state["estimators_"] if model is not None]
    other = [model is not None for model in state["estimators_"]] != state["_learnable"].tolist()
    _refuse(other, "has models for labels that cannot be learned, or lacks models for other labels")
    _refuse(len(state["_columns"]) != len(models), "must have one column list for each model")
    for model, columns in zip(models, state["_columns"], strict=True):
        count = d if columns is None else len(columns)
        before = widths(model)[0]
        other = None not in (before, count) and before != count
        _refuse(other, f"passes {count} columns to a model that takes {before}")
        other = getattr(model, "sizes", {}).get("k", 2) != 2
        _refuse(other, "has a model whose number of classes is not two")


@_check("ScoreClassifier")
def _scores(record: Record) -> None:
    state, sizes, k = record.state, record.sizes, int(record.state["_learnable"].sum())
    needed = {"stack_", "_rate", "_mean", "_cross"}
    needed |= {"_quantiles"} if state["scale_"] == "rank" else set()
    _refuse(k and needed - state.keys(), "lacks attributes that fit computes from scores")
    columns = np.arange(sizes["d"]) if state["columns"] is None else np.array(state["columns"])
    inside = len(columns) == sizes["c"] and _inside(columns + sizes["d"], 2 * sizes["d"])
    _refuse(not inside, "does not select one existing column for each label")
    other = k and (state["stack_"].sizes["m"], state["stack_"].sizes["c"], sizes["k"]) != (1, k, k)
    _refuse(other, "has weights that do not match its scores and labels")


@_check("AutoClassifier")
def _auto(record: Record) -> None:
    state, d, inputs = record.state, record.sizes["d"], record.state["_inputs"]
    if not inputs:
        return
    # The linear model is kept even if its weight is zero, because it explains predictions.
    inputs = inputs if "linear" in inputs else {"linear": "features"} | inputs
    _refuse(list(inputs) != list(state["models_"]), "has models whose names differ from _inputs")
    _refuse(not {"stack_", "_features"} <= state.keys(), "has no ensemble weights or features")
    stack, features = state["stack_"], state["_features"]
    _refuse(features.sizes["d"] != d, "has features that do not match its columns")
    c, m = int(state["_learnable"].sum()), len(state["_inputs"])
    categories = state["_columns"].state["categories"]
    levels = [0 if values is None else len(values) for values in categories]
    gaps, numbers = features.state["gaps"], features.state.get("numbers")
    numbers = np.arange(0) if numbers is None else numbers
    other = levels != features.state["levels"].tolist() or not _inside(gaps, d)
    other |= not _inside(numbers, d)
    _refuse(other, "has columns that do not match its features")
    width = levels.count(0) + len(gaps) + sum(levels)
    for name, kind in inputs.items():
        sizes = getattr(state["models_"][name], "sizes", {"c": c})
        taken = {"features": width, "numbers": len(numbers)}.get(kind, d)
        other = sizes.get("c") != c or sizes.get("d", taken) != taken
        _refuse(other, f"has a model {name!r} with the wrong number of columns or labels")
    other = (stack.sizes["m"], stack.sizes["c"]) != (m, c)
    _refuse(other, "has ensemble weights that do not match its models and labels")


@_check("Combiner")
def _combiner(record: Record) -> None:
    c, w = record.sizes["c"], record.sizes["w"]
    _refuse(w != 4 + c * record.state["with_labels_"], f"has {w} weights for {c} labels")


@_check("LabelCorrelation")
def _correlation(record: Record) -> None:
    bound: Any = record.state["error_rates"]
    labels, c = bound.state.get("label"), record.sizes["c"]
    paired = (labels is None) == (bound.state.get("n_by_label") is None)
    paired = paired and bound.sizes.get("c", c) == c
    inside = labels is None or _inside(labels + 1, c + 1)  # -1 marks entries without an error
    _refuse(not paired or not inside, "has error rates that do not match its labels")


@_check("LabelCompleter", "PUCompleter")
def _completer(record: Record) -> None:
    rows = record.state["training_rows"]
    inside = rows is None or _inside(rows.state["labels"], record.sizes["c"])
    _refuse(not inside, "refers to labels that do not exist")


@_check("LabelRules")
def _label_rules(record: Record) -> None:
    unknown = {field for field, _, _ in record.state["rules"]}.difference(FIELDS)
    _refuse(unknown, "has a rule of an unknown kind")


@_check("TrainingRows")
def _rows(record: Record) -> None:
    starts, n, e = record.state["starts"], record.sizes["n"], record.sizes["e"]
    rises = len(starts) == n + 1 and starts[0] == 0 and starts[-1] == e
    rises = rises and (starts[1:] >= starts[:-1]).all()
    _refuse(not rises, "has row boundaries that are not ascending from 0 to its number of entries")


@_check("Calibrator")
def _calibrator(record: Record) -> None:
    state, count = record.state, int(record.state["fitted_labels"].sum())
    sigmoid = state["method"] == "sigmoid"
    needed = {"slopes", "offsets"} if sigmoid else {"lengths", "scores", "probabilities"}
    _refuse(needed - state.keys(), "has no calibration curves")
    _refuse(record.sizes["k"] != count, "has a wrong number of calibration curves")
    if sigmoid:
        return
    lengths, scores = state["lengths"], state["scores"]
    within = _inside(lengths - 1, len(scores))  # otherwise their sum could overflow
    other = not within or lengths.sum() != len(scores)
    _refuse(other, "has calibration curves whose lengths do not match their points")
    inside = np.ones(len(scores), dtype=bool)
    inside[np.cumsum(lengths)[:-1]] = False
    falls = inside[1:] & (scores[1:] < scores[:-1])
    _refuse(falls.any(), "has a calibration curve whose scores are not sorted")


def check_requests(requests: dict[str, dict[str, Any]] | None) -> None:
    """Check the metadata requests that ``set_fit_request`` and similar methods have stored."""
    for method, wanted in (requests or {}).items():
        names = [*wanted, *(alias for alias in wanted.values() if isinstance(alias, str))]
        wrong = method not in METHODS or not all(name.isidentifier() for name in names)
        _refuse(wrong, f"has an invalid metadata request for the method {method[:99]!r}")
