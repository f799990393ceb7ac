"""What the attributes of an object must have in common, beyond the sizes of their dimensions.

Compiled code of scikit-learn goes from node to node of a tree, and to the columns that these name,
without looking whether there are any.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dm2l.persistence._schema import Record

METHODS = (
    *("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("score", "split", "transform", "inverse_transform"),
)
_NODES = {
    "Tree": ("sklearn.tree._tree", "NODE_DTYPE"),
    "TreePredictor": ("sklearn.ensemble._hist_gradient_boosting.common", "PREDICTOR_RECORD_DTYPE"),
}
CHECKS: dict[str, list[Callable[[Record], None]]] = {}
_Check = TypeVar("_Check", bound=Callable[[Record], None])


class Wrong(Exception):  # noqa: N818 - the predicate of a sentence, never seen outside
    """What is wrong with a record."""


def _check(*names: str) -> Callable[[_Check], _Check]:
    """Have records of these classes checked by a function, which raises :class:`Wrong`."""

    def register(function: _Check) -> _Check:
        for name in names:
            CHECKS.setdefault(name, []).append(function)
        return function

    return register


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


@_check("Tree")
def _tree(record: Record) -> None:
    state = record.state
    _nodes(record)
    nodes = state["nodes"]
    left, right, feature = (nodes[k] for k in ("left_child", "right_child", "feature"))
    leaf = left == -1
    state["max_depth"] = depth_of(left, right, leaf)
    if state["max_depth"] is None or (right[leaf] != -1).any():
        raise Wrong("is a decision tree that leads nowhere")
    if ((feature < 0) | (feature >= record.sizes["d"]))[~leaf].any():
        raise Wrong("is a decision tree that asks for a feature that is not there")
    if not np.isfinite(state["values"]).all():
        raise Wrong("is a decision tree with values that are not finite")


@_check("TreePredictor")
def _predictor(record: Record) -> None:
    _nodes(record)
    nodes = record.state["nodes"]
    leaf = nodes["is_leaf"] != 0
    if depth_of(nodes["left"], nodes["right"], leaf) is None:
        raise Wrong("is a decision tree that leads nowhere")
    if nodes["is_categorical"].any() or not np.isfinite(nodes["value"]).all():
        raise Wrong("is a decision tree with categories, or with values that are not finite")
    features = nodes["feature_idx"].astype(np.int64)[~leaf]
    if (features < 0).any():
        raise Wrong("is a decision tree that asks for a feature that is not there")
    record.sizes["features"] = int(features.max(initial=-1)) + 1


def _nodes(record: Record) -> None:
    """Give the bytes of nodes the fields that the installed scikit-learn has."""
    module, name = _NODES[record.entry.name]
    dtype = getattr(import_module(module), name)
    raw = record.state["nodes"]
    if record.state.pop("fields") != str(dtype.descr) or raw.shape[1] != dtype.itemsize:
        raise Wrong("has nodes of another version of scikit-learn; fit the model again")
    record.state["nodes"] = np.ascontiguousarray(raw).view(dtype)[:, 0]


@_check("HistGradientBoostingClassifier")
def _boosting(record: Record) -> None:
    if "_predictors" not in record.state:
        return
    d, k, t = (record.sizes[name] for name in "dkt")
    if k < 2 or t != (1 if k == 2 else k):
        raise Wrong(f"has {t} trees a round for {k} classes")
    trees = [tree for row in record.state["_predictors"] for tree in row]
    if any(tree.sizes["features"] > d for tree in trees):
        raise Wrong("has a decision tree that asks for a feature that is not there")


@_check("_BinMapper")
def _mapper(record: Record) -> None:
    if record.state.get("is_categorical_", np.zeros(1)).any():
        raise Wrong("has categories")


@_check("RandomForestClassifier", "ExtraTreesClassifier")
def _forest(record: Record) -> None:
    if not record.state.get("estimators_", [0]):
        raise Wrong("has no trees")


@_check("LogisticRegression")
def _logistic(record: Record) -> None:
    k, r = record.sizes.get("k", 2), record.sizes.get("r", 1)
    if k < 2 or r != (1 if k == 2 else k):
        raise Wrong(f"has {r} rows for {k} classes")


# ------------------------------------------------------------------------------ columns of tables


@_check("CountVectorizer", "TfidfVectorizer")
def _vectoriser(record: Record) -> None:
    words = record.state.get("vocabulary_")
    if words is not None and len(set(words)) != len(words):
        raise Wrong("has a word twice")
    low, high = record.state["ngram_range"]
    if low > high:
        raise Wrong(f"has ngram_range={(low, high)}")
    tfidf = record.state.get("_tfidf")
    if tfidf is not None and tfidf.state["use_idf"] and tfidf.sizes.get("w") != len(words or ()):
        raise Wrong(f"has weights of {tfidf.sizes.get('w')} words for {len(words or ())} words")


@_check("OneHotEncoder", "OrdinalEncoder")
def _encoder(record: Record) -> None:
    state = record.state
    if "categories_" not in state:
        return
    names = {"_infrequent_indices", "_default_to_infrequent_mappings"} & state.keys()
    if len(names) != 2 * state["_infrequent_enabled"]:
        raise Wrong("has rare categories without what belongs to them")
    counts = [len(values) for values in state["categories_"]]
    rare = state.get("_infrequent_indices") or [None] * len(counts)
    maps = state.get("_default_to_infrequent_mappings") or [None] * len(counts)
    widths = list(counts)
    for j, (indices, places) in enumerate(zip(rare, maps, strict=True)):
        if (indices is None) != (places is None):
            raise Wrong("has rare categories that are not mapped")
        if indices is not None:
            widths[j] = counts[j] - len(indices) + 1
            inside = ((indices >= 0) & (indices < counts[j])).all()
            if len(places) != counts[j] or not inside or not len(indices):
                raise Wrong("has rare categories that are not there")
            if not ((places >= 0) & (places < widths[j])).all():
                raise Wrong("has rare categories that are mapped to columns that are not there")
    if list(state.get("_n_features_outs", widths)) != widths:
        raise Wrong("has another number of columns than categories")
    record.sizes["e"] = sum(widths) if "_n_features_outs" in state else record.sizes["d"]


@_check("SimpleImputer")
def _imputer(record: Record) -> None:
    if "statistics_" in record.state:
        # Older versions of scikit-learn do not store this dtype.
        record.state.setdefault("_fill_dtype", record.state["_fit_dtype"])
        indicator = record.state["indicator_"]
        if (indicator is not None) != record.state["add_indicator"]:
            raise Wrong("has no indicator, or one too many")
        extra = 0 if indicator is None else len(indicator.state["features_"])
        record.sizes["e"] = record.sizes["d"] + extra


@_check("MissingIndicator")
def _indicator(record: Record) -> None:
    columns = record.state.get("features_", np.zeros(0))
    d = record.sizes.get("d", 0)
    if ((columns < 0) | (columns >= d)).any():
        raise Wrong("marks columns that are not there")


@_check("ColumnTransformer")
def _columns(record: Record) -> None:
    state, d = record.state, record.sizes.get("d", 0)
    if "transformers_" not in state:
        return
    fitted = state["transformers_"]
    names, found = ([name for name, *_ in part] for part in (state["transformers"], fitted))
    if found not in (names, [*names, "remainder"]) or len(set(found)) < len(found):
        raise Wrong("was fitted with other steps than it has")
    if state["output_indices_"].keys() != {*names, "remainder"}:
        raise Wrong("has columns of other steps than it has")
    known = state.get("feature_names_in_")
    places: dict[str, list[int]] = {}
    width: int | None = 0
    for name, part, columns in fitted:
        places[name] = _places(columns, () if known is None else known, d)
        count = len(places[name])
        if part == "drop" or not count:
            continue
        before, after = (count, count) if part == "passthrough" else widths(part)
        first = _first_step(part)
        if first is not None and "feature_names_in_" in first.entry.fitted:
            wanted = [] if known is None else known[places[name]].tolist()
            names_in = list(first.state.get("feature_names_in_", ()))
            fits = first.state.get("n_features_in_") == count and names_in == wanted
        else:
            fits = before in (None, count)
        if not fits:
            raise Wrong(f"gives the step {name!r} other columns than it was fitted to")
        width = None if width is None or after is None else width + after
    # What scikit-learn derives from the steps is derived from them here, and not taken on trust.
    state["_columns"] = [columns for *_, columns in fitted[: len(names)]]
    rest = fitted[-1][2] if found != names else []
    state["_remainder"] = ("remainder", state["remainder"], rest)
    state["_transformer_to_input_indices"] = places | {"remainder": places.get("remainder", [])}
    if width is not None:
        record.sizes["e"] = width


def _first_step(part: Any) -> Record | None:
    """The record that gets the columns of a step; None if nothing is known about it."""
    while isinstance(part, Record) and part.entry.name == "Pipeline":
        part = part.state["steps"][0][1]
    return part if isinstance(part, Record) else None


def _places(columns: Any, names: Any, d: int) -> list[int]:
    """Numbers of columns that are given by name, by number or by a mask."""
    listed = [columns] if isinstance(columns, str) else list(columns)
    if listed and all(isinstance(column, (bool, np.bool_)) for column in listed):
        found = [place for place, taken in enumerate(listed) if taken]
        inside = len(listed) == d
    else:
        known = {name: place for place, name in enumerate(names)}
        found = [known.get(one, d) if isinstance(one, str) else int(one) for one in listed]
        inside = all(-d <= place < d for place in found)
    if not inside:
        raise Wrong("takes columns that are not there")
    return [place % d for place in found]


@_check("Pipeline")
def _pipeline(record: Record) -> None:
    steps = record.state["steps"]
    names = [name for name, _ in steps]
    if not steps or len(set(names)) != len(names):
        raise Wrong("has no steps, or two of one name")
    width: int | None = None
    for place, (name, step) in enumerate(steps):
        before, after = (width, width) if step in (None, "passthrough") else widths(step)
        if place and None not in (before, width) and before != width:
            raise Wrong(f"gives {width} columns to the step {name!r} that takes {before}")
        if not place and before is not None:
            record.sizes["d"] = before
        width = after
    if width is not None:
        record.sizes["e"] = width


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


@_check("LabelMatrix")
def _labels(record: Record) -> None:
    state, c = record.state, record.sizes["c"]
    count = None if state["classes"] is None else len(state["classes"])
    fits = {"multilabel": count is None, "binary": count in (1, 2) and c == 1}
    if not fits.get(state["kind"], count == c):
        raise Wrong(f"has {count} classes of {c} labels")


@_check("DM2LClassifier", "MaskedRidgeClassifier", "LEMLClassifier", "LSMLClassifier")
@_check("MLLRCClassifier", "GLOCALClassifier", "ExtremeDM2LClassifier")
@_check("MaskedOneVsRestClassifier", "AutoClassifier")
def _labelled(record: Record) -> None:
    state = record.state
    if "_labels" not in state:
        return
    unlabelled = isinstance(state["missing_as"], str) and state["missing_as"] == "unlabelled"
    learns = record.entry.name in ("DM2LClassifier", "MaskedRidgeClassifier")
    if unlabelled and learns and not {"class_prior_", "_label_frequency"} <= state.keys():
        raise Wrong("has no class prior")
    one = state["_labels"].state["classes"]
    shape = (record.sizes["c"], 2) if one is None else one.shape
    if state["classes_"].shape != shape:
        raise Wrong("has classes of another shape")


@_check("DM2LClassifier")
def _classifier(record: Record) -> None:
    state, sizes = record.state, record.sizes
    if "_learnable" not in state or not state["_learnable"].any():
        return
    if "dual_coef_" not in state:
        if "coef_" not in state:
            raise Wrong("has no weights")
        return
    waves, rows = state.get("_waves"), state.get("X_fit_")
    if waves is not None:
        frequencies = waves.state.get("frequencies")
        width = None if frequencies is None else getattr(frequencies, "array", frequencies).shape[1]
        if sizes["m"] != waves.state["n_components"] or width != (sizes["m"] + 1) // 2:
            raise Wrong("has Fourier features that do not belong to its weights")
        return
    if "_kernel" not in state or rows is None:
        raise Wrong("has no kernel, or no rows for it")
    rows = getattr(rows, "array", rows)
    if (rows.ndim == 1) != (state["_kernel"].state["kernel"] == "precomputed"):
        raise Wrong("has rows that do not belong to its kernel")
    if rows.ndim == 1 and not ((rows >= 0) & (rows < sizes["d"])).all():
        raise Wrong("has rows that are not there")


@_check("MaskedOneVsRestClassifier")
def _one_vs_rest(record: Record) -> None:
    state, d = record.state, record.sizes.get("d")
    if "estimators_" not in state:
        return
    models = [model for model in state["estimators_"] if model is not None]
    if [model is not None for model in state["estimators_"]] != state["_learnable"].tolist():
        raise Wrong("has models of other labels than it has learnt")
    if len(state["_columns"]) != len(models):
        raise Wrong("does not say which columns its models take")
    for model, columns in zip(models, state["_columns"], strict=True):
        count = d if columns is None else len(columns)
        before = widths(model)[0]
        if before is not None and count is not None and before != count:
            raise Wrong(f"has a model of {before} columns for {count}")
        if getattr(model, "sizes", {}).get("k", 2) != 2:
            raise Wrong("has a model of another number of classes than two")


@_check("AutoClassifier")
def _auto(record: Record) -> None:
    state, sizes = record.state, record.sizes
    if not state.get("_inputs"):
        return
    # The linear model stays without a weight, too: it explains predictions.
    models = {} if "linear" in state["_inputs"] else {"linear": "features"}
    models |= state["_inputs"]
    if list(models) != list(state["models_"]):
        raise Wrong("has other models than inputs")
    stack, features = state.get("stack_"), state.get("_features")
    if stack is None or features is None or features.sizes["d"] != sizes["d"]:
        raise Wrong("has no stack, or other features")
    c, m = int(state["_learnable"].sum()), len(state["_inputs"])
    categories = state["_columns"].state["categories"]
    levels = [0 if values is None else len(values) for values in categories]
    gaps = features.state["gaps"]
    if (
        levels != features.state["levels"].tolist()
        or (gaps < 0).any()
        or (gaps >= sizes["d"]).any()
    ):
        raise Wrong("has other columns than its features")
    width = levels.count(0) + len(gaps) + sum(levels)
    for name, inputs in models.items():
        model = state["models_"][name]
        taken = width if inputs == "features" else sizes["d"]
        if not hasattr(model, "sizes"):
            continue
        if model.sizes.get("c") != c or model.sizes.get("d", taken) != taken:
            raise Wrong(f"has a model {name!r} of other columns or labels")
    if (stack.sizes["m"], stack.sizes["c"]) != (m, c):
        raise Wrong("has a stack of other models or labels")


@_check("Combiner")
def _combiner(record: Record) -> None:
    c, w = record.sizes.get("c", 0), record.sizes.get("w", 4)
    extra = c if record.state.get("with_labels_") else 0
    if w != 4 + extra:
        raise Wrong(f"has {w} weights of {c} labels")


@_check("LabelCompleter", "PUCompleter")
def _completer(record: Record) -> None:
    rows = record.state["training_rows"]
    if rows is None:
        return
    labels = rows.state["labels"]
    if ((labels < 0) | (labels >= record.sizes["c"])).any():
        raise Wrong("remembers labels that are not there")


@_check("TrainingRows")
def _rows(record: Record) -> None:
    starts = record.state["starts"]
    n, e = record.sizes["n"], record.sizes["e"]
    rises = len(starts) == n + 1 and starts[0] == 0 and starts[-1] == e
    if not rises or (starts[1:] < starts[:-1]).any():
        raise Wrong("remembers rows that are not there")


@_check("Calibrator")
def _calibrator(record: Record) -> None:
    if "fitted_labels" not in record.state:
        raise Wrong("is not fitted")
    state, count = record.state, int(record.state["fitted_labels"].sum())
    if state["method"] == "sigmoid":
        if not {"slopes", "offsets"} <= state.keys():
            raise Wrong("has no curves")
        if record.sizes.get("k") != count:
            raise Wrong("has a wrong number of curves")
        return
    if not {"lengths", "scores", "probabilities"} <= state.keys():
        raise Wrong("has no curves")
    lengths, scores = state["lengths"], state["scores"]
    within = ((lengths > 0) & (lengths <= len(scores))).all()  # or their sum could wrap
    if len(lengths) != count or not within or lengths.sum() != len(scores):
        raise Wrong("has curves of wrong lengths")
    inside = np.ones(len(scores), dtype=bool)
    inside[np.cumsum(lengths)[:-1]] = False
    falls = inside[1:] & (scores[1:] < scores[:-1])
    if falls.any():
        raise Wrong("has a curve that is not a function")


def check_requests(requests: dict[str, dict[str, Any]] | None) -> None:
    """What ``set_fit_request`` and its kin had asked for, by methods."""
    for method, wanted in (requests or {}).items():
        names = [*wanted, *(alias for alias in wanted.values() if isinstance(alias, str))]
        if method not in METHODS or not all(name.isidentifier() for name in names):
            raise Wrong(f"asks for metadata of {method!r}")
