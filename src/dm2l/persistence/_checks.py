"""What the attributes of an object must have in common, beyond the sizes of their dimensions.

Compiled code of scikit-learn goes from node to node of a tree, and to the columns that these name,
without looking whether there are any. A check returns what is wrong with a record, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.persistence._schema import Record

Wrong = str | None
_METHODS = (
    *("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("score", "split", "transform", "inverse_transform"),
)
_NODES = {
    "Tree": ("sklearn.tree._tree", "NODE_DTYPE"),
    "TreePredictor": ("sklearn.ensemble._hist_gradient_boosting.common", "PREDICTOR_RECORD_DTYPE"),
}


def depth_of(left: NDArray[Any], right: NDArray[Any], leaf: NDArray[np.bool_]) -> int | None:
    """Depth of the tree that these children make; None if they make no tree."""
    n = len(leaf)
    places = np.flatnonzero(~leaf)
    children = np.concatenate([left[~leaf], right[~leaf]]).astype(np.int64)
    if not n or len(children) != n - 1 or (children <= 0).any() or (children >= n).any():
        return None
    parent = np.full(n, -1)
    parent[children] = np.concatenate([places, places])
    parent[0] = 0
    if (parent < 0).any():
        return None
    depth, above = (np.arange(n) > 0).astype(np.int64), parent
    for _ in range(n.bit_length() + 1):
        if not above.any():
            return int(depth.max())
        depth, above = depth + depth[above], above[above]
    return None


def _tree(record: Record) -> Wrong:
    state = record.state
    wrong = _nodes(record)
    if wrong:
        return wrong
    nodes = state["nodes"]
    left, right, feature = (nodes[k] for k in ("left_child", "right_child", "feature"))
    leaf = left == -1
    state["max_depth"] = depth_of(left, right, leaf)
    if state["max_depth"] is None or (right[leaf] != -1).any():
        return "is a decision tree that leads nowhere"
    if ((feature < 0) | (feature >= record.sizes["d"]))[~leaf].any():
        return "is a decision tree that asks for a feature that is not there"
    if not np.isfinite(state["values"]).all():
        return "is a decision tree with values that are not finite"
    return None


def _predictor(record: Record) -> Wrong:
    wrong = _nodes(record)
    if wrong:
        return wrong
    nodes = record.state["nodes"]
    leaf = nodes["is_leaf"] != 0
    if depth_of(nodes["left"], nodes["right"], leaf) is None:
        return "is a decision tree that leads nowhere"
    if nodes["is_categorical"].any() or not np.isfinite(nodes["value"]).all():
        return "is a decision tree with categories, or with values that are not finite"
    features = nodes["feature_idx"].astype(np.int64)[~leaf]
    if (features < 0).any():
        return "is a decision tree that asks for a feature that is not there"
    record.sizes["features"] = int(features.max(initial=-1)) + 1
    return None


def _nodes(record: Record) -> Wrong:
    """Give the bytes of nodes the fields that the installed scikit-learn has."""
    module, name = _NODES[record.entry.name]
    dtype = getattr(import_module(module), name)
    raw = record.state["nodes"]
    if record.state.pop("fields") != str(dtype.descr) or raw.shape[1] != dtype.itemsize:
        return "has nodes of another version of scikit-learn; fit the model again"
    record.state["nodes"] = np.ascontiguousarray(raw).view(dtype)[:, 0]
    return None


def _boosting(record: Record) -> Wrong:
    if "_predictors" not in record.state:
        return None
    d, k, t = (record.sizes[name] for name in "dkt")
    if k < 2 or t != (1 if k == 2 else k):
        return f"has {t} trees a round for {k} classes"
    trees = [tree for row in record.state["_predictors"] for tree in row]
    if any(tree.sizes["features"] > d for tree in trees):
        return "has a decision tree that asks for a feature that is not there"
    return None


def _mapper(record: Record) -> Wrong:
    return "has categories" if record.state.get("is_categorical_", np.zeros(1)).any() else None


def _forest(record: Record) -> Wrong:
    return None if record.state.get("estimators_", [0]) else "has no trees"


def _logistic(record: Record) -> Wrong:
    k, r = record.sizes.get("k", 2), record.sizes.get("r", 1)
    return None if k >= 2 and r == (1 if k == 2 else k) else f"has {r} rows for {k} classes"


# ------------------------------------------------------------------------------ columns of tables


def _vectoriser(record: Record) -> Wrong:
    words = record.state.get("vocabulary_")
    if words is not None and len(set(words)) != len(words):
        return "has a word twice"
    low, high = record.state["ngram_range"]
    if low > high:
        return f"has ngram_range={(low, high)}"
    tfidf = record.state.get("_tfidf")
    if tfidf is not None and tfidf.state["use_idf"] and tfidf.sizes.get("w") != len(words or ()):
        return f"has weights of {tfidf.sizes.get('w')} words for {len(words or ())} words"
    return None


def _encoder(record: Record) -> Wrong:
    state = record.state
    if "categories_" not in state:
        return None
    counts = [len(values) for values in state["categories_"]]
    rare = state.get("_infrequent_indices") or [None] * len(counts)
    maps = state.get("_default_to_infrequent_mappings") or [None] * len(counts)
    widths = list(counts)
    for j, (indices, places) in enumerate(zip(rare, maps, strict=True)):
        if (indices is None) != (places is None):
            return "has rare categories that are not mapped"
        if indices is not None:
            widths[j] = counts[j] - len(indices) + 1
            inside = ((indices >= 0) & (indices < counts[j])).all()
            if len(places) != counts[j] or not inside or not len(indices):
                return "has rare categories that are not there"
            if not ((places >= 0) & (places < widths[j])).all():
                return "has rare categories that are mapped to columns that are not there"
    if not state["_infrequent_enabled"] and any(part is not None for part in rare):
        return "has rare categories"
    if list(state.get("_n_features_outs", widths)) != widths:
        return "has another number of columns than categories"
    record.sizes["e"] = sum(widths) if "_n_features_outs" in state else record.sizes["d"]
    return None


def _imputer(record: Record) -> Wrong:
    if "statistics_" in record.state:
        indicator = record.state["indicator_"]
        if (indicator is not None) != record.state["add_indicator"]:
            return "has no indicator, or one too many"
        extra = 0 if indicator is None else len(indicator.state["features_"])
        record.sizes["e"] = record.sizes["d"] + extra
    return None


def _indicator(record: Record) -> Wrong:
    columns = record.state.get("features_", np.zeros(0))
    d = record.sizes.get("d", 0)
    return None if ((columns >= 0) & (columns < d)).all() else "marks columns that are not there"


def _columns(record: Record) -> Wrong:
    state, d = record.state, record.sizes.get("d", 0)
    names = (
        set(filter(_is_text, state["feature_names_in_"].tolist()))
        if "feature_names_in_" in state
        else None
    )
    width: int | None = 0
    for _, part, columns in state.get("transformers_", ()):
        if isinstance(columns, np.ndarray):
            count, inside = int(columns.sum()), len(columns) == d
        elif isinstance(columns, list) and columns and all(type(c) is bool for c in columns):
            count, inside = sum(columns), len(columns) == d
        else:
            listed = columns if isinstance(columns, list) else [columns]
            count = len(listed)
            inside = all(
                (c in names if names is not None else False)
                if type(c) is str
                else type(c) is int and -d <= c < d
                for c in listed
            )
        if not inside:
            return "takes columns that are not there"
        if part == "drop" or not count:
            continue
        before, after = (count, count) if part == "passthrough" else widths(part)
        if before is not None and before != count:
            return f"gives {count} columns to a step that takes {before}"
        width = None if width is None or after is None else width + after
    if width is not None and "transformers_" in state:
        record.sizes["e"] = width
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _pipeline(record: Record) -> Wrong:
    steps = record.state["steps"]
    names = [name for name, _ in steps]
    if not steps or len(set(names)) != len(names):
        return "has no steps, or two of one name"
    width: int | None = None
    for place, (name, step) in enumerate(steps):
        before, after = (width, width) if step in (None, "passthrough") else widths(step)
        if place and None not in (before, width) and before != width:
            return f"gives {width} columns to the step {name!r} that takes {before}"
        if not place and before is not None:
            record.sizes["d"] = before
        width = after
    if width is not None:
        record.sizes["e"] = width
    return None


def widths(record: Any) -> tuple[int | None, int | None]:
    """Numbers of columns that a step takes and gives; None where they are not known."""
    sizes = getattr(record, "sizes", {})
    same = ("StandardScaler", "MaxAbsScaler", "FunctionTransformer")
    name = record.entry.name if hasattr(record, "entry") else ""
    if name in ("CountVectorizer", "TfidfVectorizer"):
        return None, sizes.get("w")
    if name == "MorganFingerprints":
        return None, record.state["n_bits"]
    if name == "TableColumns":
        return None, widths(record.state.get("transformer_"))[1]
    return sizes.get("d"), sizes.get("d") if name in same else sizes.get("e")


# ------------------------------------------------------------------------------- models of dm2l


def _labels(record: Record) -> Wrong:
    state, c = record.state, record.sizes["c"]
    count = None if state["classes"] is None else len(state["classes"])
    fits = {"multilabel": count is None, "binary": count in (1, 2) and c == 1}
    return None if fits.get(state["kind"], count == c) else f"has {count} classes of {c} labels"


def _labelled(record: Record) -> Wrong:
    state = record.state
    if "_labels" not in state:
        return None
    unlabelled = isinstance(state["missing_as"], str) and state["missing_as"] == "unlabelled"
    learns = record.entry.name in ("DM2LClassifier", "MaskedRidgeClassifier")
    if unlabelled and learns and not {"class_prior_", "_label_frequency"} <= state.keys():
        return "has no class prior"
    one = state["_labels"].state["classes"]
    shape = (record.sizes["c"], 2) if one is None else one.shape
    return None if state["classes_"].shape == shape else "has classes of another shape"


def _classifier(record: Record) -> Wrong:
    state, sizes = record.state, record.sizes
    if "_learnable" not in state or not state["_learnable"].any():
        return _labelled(record)
    if "dual_coef_" not in state:
        return _labelled(record) if "coef_" in state else "has no weights"
    waves, rows = state.get("_waves"), state.get("X_fit_")
    if waves is not None:
        frequencies = waves.state.get("frequencies")
        width = None if frequencies is None else getattr(frequencies, "array", frequencies).shape[1]
        if sizes["m"] != waves.state["n_components"] or width != (sizes["m"] + 1) // 2:
            return "has waves that do not belong to its weights"
        return _labelled(record)
    if "_kernel" not in state or rows is None:
        return "has no kernel, or no rows for it"
    rows = getattr(rows, "array", rows)
    if (rows.ndim == 1) != (state["_kernel"].state["kernel"] == "precomputed"):
        return "has rows that do not belong to its kernel"
    if rows.ndim == 1 and not ((rows >= 0) & (rows < sizes["d"])).all():
        return "has rows that are not there"
    return _labelled(record)


def _one_vs_rest(record: Record) -> Wrong:
    state, d = record.state, record.sizes.get("d")
    if "estimators_" not in state:
        return None
    models = [model for model in state["estimators_"] if model is not None]
    if [model is not None for model in state["estimators_"]] != state["_learnable"].tolist():
        return "has models of other labels than it has learnt"
    if len(state["_columns"]) != len(models):
        return "does not say which columns its models take"
    for model, columns in zip(models, state["_columns"], strict=True):
        count = d if columns is None else len(columns)
        before = widths(model)[0]
        if before is not None and count is not None and before != count:
            return f"has a model of {before} columns for {count}"
        if getattr(model, "sizes", {}).get("k", 2) != 2:
            return "has a model of another number of classes than two"
    return _labelled(record)


def _auto(record: Record) -> Wrong:
    state, sizes = record.state, record.sizes
    if not state.get("_inputs"):
        return _labelled(record)
    # The linear model stays without a weight, too: it explains predictions.
    models = {} if "linear" in state["_inputs"] else {"linear": "features"}
    models |= state["_inputs"]
    if list(models) != list(state["models_"]):
        return "has other models than inputs"
    stack, features = state.get("stack_"), state.get("_features")
    if stack is None or features is None or features.sizes["d"] != sizes["d"]:
        return "has no stack, or other features"
    c, m = int(state["_learnable"].sum()), len(state["_inputs"])
    categories = state["_columns"].state["categories"]
    levels = [0 if values is None else len(values) for values in categories]
    gaps = features.state["gaps"]
    if (
        levels != features.state["levels"].tolist()
        or (gaps < 0).any()
        or (gaps >= sizes["d"]).any()
    ):
        return "has other columns than its features"
    width = levels.count(0) + len(gaps) + sum(levels)
    for name, inputs in models.items():
        model = state["models_"][name]
        taken = width if inputs == "features" else sizes["d"]
        if not hasattr(model, "sizes"):
            continue
        if model.sizes.get("c") != c or model.sizes.get("d", taken) != taken:
            return f"has a model {name!r} of other columns or labels"
    if (stack.sizes["m"], stack.sizes["c"]) != (m, c):
        return "has a stack of other models or labels"
    return _labelled(record)


def _combiner(record: Record) -> Wrong:
    c, w = record.sizes.get("c", 0), record.sizes.get("w", 4)
    extra = c if record.state.get("with_labels_") else 0
    return None if w == 4 + extra else f"has {w} weights of {c} labels"


def _completer(record: Record) -> Wrong:
    rows = record.state["training_rows"]
    if rows is None:
        return None
    labels = rows.state["labels"]
    inside = ((labels >= 0) & (labels < record.sizes["c"])).all()
    return None if inside else "remembers labels that are not there"


def _rows(record: Record) -> Wrong:
    starts = record.state["starts"]
    n, e = record.sizes["n"], record.sizes["e"]
    rises = len(starts) == n + 1 and starts[0] == 0 and starts[-1] == e
    return (
        None if rises and (starts[1:] >= starts[:-1]).all() else "remembers rows that are not there"
    )


def _calibrator(record: Record) -> Wrong:
    state, count = record.state, int(record.state["fitted_labels"].sum())
    if state["method"] == "sigmoid":
        if not {"slopes", "offsets"} <= state.keys():
            return "has no curves"
        return None if record.sizes.get("k") == count else "has a wrong number of curves"
    if not {"lengths", "scores", "probabilities"} <= state.keys():
        return "has no curves"
    lengths, scores = state["lengths"], state["scores"]
    within = ((lengths > 0) & (lengths <= len(scores))).all()  # or their sum could wrap
    if len(lengths) != count or not within or lengths.sum() != len(scores):
        return "has curves of wrong lengths"
    inside = np.ones(len(scores), dtype=bool)
    inside[np.cumsum(lengths)[:-1]] = False
    falls = inside[1:] & (scores[1:] < scores[:-1])
    return "has a curve that is not a function" if falls.any() else None


def check_requests(requests: dict[str, dict[str, Any]] | None) -> Wrong:
    """What ``set_fit_request`` and its kin had asked for, by methods."""
    for method, wanted in (requests or {}).items():
        names = [*wanted, *(alias for alias in wanted.values() if isinstance(alias, str))]
        if method not in _METHODS or not all(name.isidentifier() for name in names):
            return f"asks for metadata of {method!r}"
    return None


CHECKS: dict[str, Callable[[Any], Wrong]] = {
    "Tree": _tree,
    "TreePredictor": _predictor,
    "HistGradientBoostingClassifier": _boosting,
    "_BinMapper": _mapper,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "LogisticRegression": _logistic,
    "CountVectorizer": _vectoriser,
    "TfidfVectorizer": _vectoriser,
    "OneHotEncoder": _encoder,
    "OrdinalEncoder": _encoder,
    "SimpleImputer": _imputer,
    "MissingIndicator": _indicator,
    "ColumnTransformer": _columns,
    "Pipeline": _pipeline,
    "LabelMatrix": _labels,
    "DM2LClassifier": _classifier,
    "MaskedRidgeClassifier": _labelled,
    "LEMLClassifier": _labelled,
    "LSMLClassifier": _labelled,
    "MLLRCClassifier": _labelled,
    "GLOCALClassifier": _labelled,
    "ExtremeDM2LClassifier": _labelled,
    "MaskedOneVsRestClassifier": _one_vs_rest,
    "AutoClassifier": _auto,
    "Combiner": _combiner,
    "LabelCompleter": _completer,
    "PUCompleter": _completer,
    "TrainingRows": _rows,
    "Calibrator": _calibrator,
}
