"""Check that the attributes of an object agree, beyond the sizes of their dimensions.

Compiled code of scikit-learn follows the nodes of a tree, and reads the columns that they name,
without a check that these exist.
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
_INFREQUENT = ("_infrequent_indices", "_default_to_infrequent_mappings")
CHECKS: dict[str, list[Callable[[Record], None]]] = {}
_Check = TypeVar("_Check", bound=Callable[[Record], None])


class Wrong(Exception):  # noqa: N818 - its text is the predicate of a longer message
    """A record is not valid."""


def _check(*names: str) -> Callable[[_Check], _Check]:
    """Register a function that checks records of these classes and raises :class:`Wrong`."""

    def register(function: _Check) -> _Check:
        for name in names:
            CHECKS.setdefault(name, []).append(function)
        return function

    return register


def depth_of(left: NDArray[Any], right: NDArray[Any], leaf: NDArray[np.bool_]) -> int | None:
    """Return the depth of the tree with these children, or None if they form no tree."""
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
        raise Wrong("has nodes that do not form a tree")
    if ((feature < 0) | (feature >= record.sizes["d"]))[~leaf].any():
        raise Wrong("splits on a feature that does not exist")
    if not np.isfinite(state["values"]).all():
        raise Wrong("contains values that are not finite")


@_check("TreePredictor")
def _predictor(record: Record) -> None:
    _nodes(record)
    nodes = record.state["nodes"]
    leaf = nodes["is_leaf"] != 0
    if depth_of(nodes["left"], nodes["right"], leaf) is None:
        raise Wrong("has nodes that do not form a tree")
    if nodes["is_categorical"].any() or not np.isfinite(nodes["value"]).all():
        raise Wrong("has categorical features, or values that are not finite")
    features = nodes["feature_idx"].astype(np.int64)[~leaf]
    if (features < 0).any():
        raise Wrong("splits on a feature that does not exist")
    record.sizes["features"] = int(features.max(initial=-1)) + 1


def _nodes(record: Record) -> None:
    """Interpret the bytes of nodes with the fields of the installed scikit-learn."""
    module, name = _NODES[record.entry.name]
    dtype = getattr(import_module(module), name)
    raw = record.state["nodes"]
    if record.state.pop("fields") != str(dtype.descr) or raw.shape[1] != dtype.itemsize:
        raise Wrong("was saved with another version of scikit-learn; fit the model again")
    record.state["nodes"] = np.ascontiguousarray(raw).view(dtype)[:, 0]


@_check("HistGradientBoostingClassifier")
def _boosting(record: Record) -> None:
    if "_predictors" not in record.state:
        return
    d, k, t = (record.sizes[name] for name in "dkt")
    if k < 2 or t != (1 if k == 2 else k):
        raise Wrong(f"has {t} trees per iteration for {k} classes")
    trees = [tree for row in record.state["_predictors"] for tree in row]
    if any(tree.sizes["features"] > d for tree in trees):
        raise Wrong("has a tree that splits on a feature that does not exist")


@_check("_BinMapper")
def _mapper(record: Record) -> None:
    if record.state.get("is_categorical_", np.zeros(1)).any():
        raise Wrong("has categorical features")


@_check("RandomForestClassifier", "ExtraTreesClassifier")
def _forest(record: Record) -> None:
    if not record.state.get("estimators_", [0]):
        raise Wrong("has no trees")


@_check("LogisticRegression")
def _logistic(record: Record) -> None:
    k, r = record.sizes.get("k", 2), record.sizes.get("r", 1)
    if k < 2 or r != (1 if k == 2 else k):
        raise Wrong(f"has {r} rows of coefficients for {k} classes")


# ------------------------------------------------------------------------------ columns of tables


@_check("CountVectorizer", "TfidfVectorizer")
def _vectoriser(record: Record) -> None:
    words = record.state.get("vocabulary_")
    if words is not None and len(set(words)) != len(words):
        raise Wrong("contains a word twice")
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
    if len(state.keys() & _INFREQUENT) != len(_INFREQUENT) * state["_infrequent_enabled"]:
        raise Wrong("stores infrequent categories in part, or although it has none")
    widths = [len(values) for values in state["categories_"]]
    if state["_infrequent_enabled"]:
        parts = (state[name] for name in _INFREQUENT)
        for j, (indices, columns) in enumerate(zip(*parts, strict=True)):
            if (indices is None) != (columns is None):
                raise Wrong("has infrequent categories without their columns")
            if indices is None:
                continue
            inside = len(indices) and ((indices >= 0) & (indices < widths[j])).all()
            if len(columns) != widths[j] or not inside:
                raise Wrong("has infrequent categories that do not exist")
            widths[j] -= len(indices) - 1
            if not ((columns >= 0) & (columns < widths[j])).all():
                raise Wrong("maps infrequent categories to columns that do not exist")
    if list(state.get("_n_features_outs", widths)) != widths:
        raise Wrong("has a number of columns that does not match its categories")
    record.sizes["e"] = sum(widths) if "_n_features_outs" in state else record.sizes["d"]


@_check("SimpleImputer")
def _imputer(record: Record) -> None:
    if "statistics_" in record.state:
        # Older versions of scikit-learn do not store this dtype.
        record.state.setdefault("_fill_dtype", record.state["_fit_dtype"])
        indicator = record.state["indicator_"]
        if (indicator is not None) != record.state["add_indicator"]:
            raise Wrong("has an indicator although it needs none, or none although it needs one")
        extra = 0 if indicator is None else len(indicator.state["features_"])
        record.sizes["e"] = record.sizes["d"] + extra


@_check("MissingIndicator")
def _indicator(record: Record) -> None:
    columns = record.state.get("features_", np.zeros(0))
    d = record.sizes.get("d", 0)
    if ((columns < 0) | (columns >= d)).any():
        raise Wrong("marks columns that do not exist")


@_check("ColumnTransformer")
def _columns(record: Record) -> None:
    state, d = record.state, record.sizes.get("d", 0)
    if "transformers_" not in state:
        return
    fitted = state["transformers_"]
    names, found = ([name for name, *_ in part] for part in (state["transformers"], fitted))
    if found not in (names, [*names, "remainder"]) or len(set(found)) < len(found):
        raise Wrong("was fitted with steps of other names")
    if state["output_indices_"].keys() != {*names, "remainder"}:
        raise Wrong("has output columns for steps of other names")
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
            raise Wrong(f"passes other columns to the step {name!r} than this step was fitted to")
        width = None if width is None or after is None else width + after
    # These attributes follow from the steps. They are derived here instead of read from the file.
    state["_columns"] = [columns for *_, columns in fitted[: len(names)]]
    rest = fitted[-1][2] if found != names else []
    state["_remainder"] = ("remainder", state["remainder"], rest)
    state["_transformer_to_input_indices"] = places | {"remainder": places.get("remainder", [])}
    if width is not None:
        record.sizes["e"] = width


def _first_step(part: Any) -> Record | None:
    """Return the record of the first transformer of a step, or None if the step has none."""
    while isinstance(part, Record) and part.entry.name == "Pipeline":
        part = part.state["steps"][0][1]
    return part if isinstance(part, Record) else None


def _places(columns: Any, names: Any, d: int) -> list[int]:
    """Return the positions of columns that are given by name, by position or by a mask."""
    listed = [columns] if isinstance(columns, str) else list(columns)
    if listed and all(isinstance(column, (bool, np.bool_)) for column in listed):
        found = [place for place, taken in enumerate(listed) if taken]
        inside = len(listed) == d
    else:
        known = {name: place for place, name in enumerate(names)}
        found = [known.get(one, d) if isinstance(one, str) else int(one) for one in listed]
        inside = all(-d <= place < d for place in found)
    if not inside:
        raise Wrong("takes columns that do not exist")
    return [place % d for place in found]


@_check("Pipeline")
def _pipeline(record: Record) -> None:
    steps = record.state["steps"]
    names = [name for name, _ in steps]
    if not steps or len(set(names)) != len(names):
        raise Wrong("has no steps, or two steps of the same name")
    width: int | None = None
    for place, (name, step) in enumerate(steps):
        before, after = (width, width) if step in (None, "passthrough") else widths(step)
        if place and None not in (before, width) and before != width:
            raise Wrong(f"passes {width} columns to the step {name!r}, which takes {before}")
        if not place and before is not None:
            record.sizes["d"] = before
        width = after
    if width is not None:
        record.sizes["e"] = width


def widths(record: Any) -> tuple[int | None, int | None]:
    """Return the numbers of columns that a step takes and gives, or None where unknown."""
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
        raise Wrong("has classes of a wrong shape")


@_check("DM2LClassifier")
def _classifier(record: Record) -> None:
    state, sizes = record.state, record.sizes
    if "_learnable" not in state or not state["_learnable"].any():
        return
    if "dual_coef_" not in state:
        if "coef_" not in state:
            raise Wrong("has no coefficients")
        return
    waves, rows = state.get("_waves"), state.get("X_fit_")
    if waves is not None:
        frequencies = waves.state.get("frequencies")
        width = None if frequencies is None else frequencies.shape[1]
        if sizes["m"] != waves.state["n_components"] or width != (sizes["m"] + 1) // 2:
            raise Wrong("has Fourier features that do not match its coefficients")
        return
    if "_kernel" not in state or rows is None:
        raise Wrong("has no kernel, or no training rows for it")
    if (rows.ndim == 1) != (state["_kernel"].state["kernel"] == "precomputed"):
        raise Wrong("has training rows that do not match its kernel")
    if rows.ndim == 1 and not ((rows >= 0) & (rows < sizes["d"])).all():
        raise Wrong("refers to training rows that do not exist")


@_check("MaskedOneVsRestClassifier")
def _one_vs_rest(record: Record) -> None:
    state, d = record.state, record.sizes.get("d")
    if "estimators_" not in state:
        return
    models = [model for model in state["estimators_"] if model is not None]
    if [model is not None for model in state["estimators_"]] != state["_learnable"].tolist():
        raise Wrong("has models for other labels than the learnable ones")
    if len(state["_columns"]) != len(models):
        raise Wrong("lists the columns of a wrong number of models")
    for model, columns in zip(models, state["_columns"], strict=True):
        count = d if columns is None else len(columns)
        before = widths(model)[0]
        if before is not None and count is not None and before != count:
            raise Wrong(f"passes {count} columns to a model that takes {before}")
        if getattr(model, "sizes", {}).get("k", 2) != 2:
            raise Wrong("has a model whose number of classes is not two")


@_check("AutoClassifier")
def _auto(record: Record) -> None:
    state, sizes = record.state, record.sizes
    if not state.get("_inputs"):
        return
    # The linear model is kept even if its weight is zero, because it explains predictions.
    models = {} if "linear" in state["_inputs"] else {"linear": "features"}
    models |= state["_inputs"]
    if list(models) != list(state["models_"]):
        raise Wrong("has models and inputs of different names")
    stack, features = state.get("stack_"), state.get("_features")
    if stack is None or features is None or features.sizes["d"] != sizes["d"]:
        raise Wrong("has no ensemble weights, or features that do not match")
    c, m = int(state["_learnable"].sum()), len(state["_inputs"])
    categories = state["_columns"].state["categories"]
    levels = [0 if values is None else len(values) for values in categories]
    gaps = features.state["gaps"]
    if (
        levels != features.state["levels"].tolist()
        or (gaps < 0).any()
        or (gaps >= sizes["d"]).any()
    ):
        raise Wrong("has columns that do not match its features")
    width = levels.count(0) + len(gaps) + sum(levels)
    for name, inputs in models.items():
        model = state["models_"][name]
        taken = width if inputs == "features" else sizes["d"]
        if not hasattr(model, "sizes"):
            continue
        if model.sizes.get("c") != c or model.sizes.get("d", taken) != taken:
            raise Wrong(f"has a model {name!r} with a wrong number of columns or labels")
    if (stack.sizes["m"], stack.sizes["c"]) != (m, c):
        raise Wrong("has ensemble weights for other models or labels")


@_check("Combiner")
def _combiner(record: Record) -> None:
    c, w = record.sizes.get("c", 0), record.sizes.get("w", 4)
    extra = c if record.state.get("with_labels_") else 0
    if w != 4 + extra:
        raise Wrong(f"has {w} weights for {c} labels")


@_check("LabelCompleter", "PUCompleter")
def _completer(record: Record) -> None:
    rows = record.state["training_rows"]
    if rows is None:
        return
    labels = rows.state["labels"]
    if ((labels < 0) | (labels >= record.sizes["c"])).any():
        raise Wrong("refers to labels that do not exist")


@_check("TrainingRows")
def _rows(record: Record) -> None:
    starts = record.state["starts"]
    n, e = record.sizes["n"], record.sizes["e"]
    rises = len(starts) == n + 1 and starts[0] == 0 and starts[-1] == e
    if not rises or (starts[1:] < starts[:-1]).any():
        raise Wrong("has row boundaries that are not valid")


@_check("Calibrator")
def _calibrator(record: Record) -> None:
    if "fitted_labels" not in record.state:
        raise Wrong("is not fitted")
    state, count = record.state, int(record.state["fitted_labels"].sum())
    if state["method"] == "sigmoid":
        if not {"slopes", "offsets"} <= state.keys():
            raise Wrong("has no calibration curves")
        if record.sizes.get("k") != count:
            raise Wrong("has a wrong number of calibration curves")
        return
    if not {"lengths", "scores", "probabilities"} <= state.keys():
        raise Wrong("has no calibration curves")
    lengths, scores = state["lengths"], state["scores"]
    within = ((lengths > 0) & (lengths <= len(scores))).all()  # otherwise their sum could overflow
    if len(lengths) != count or not within or lengths.sum() != len(scores):
        raise Wrong("has calibration curves of wrong lengths")
    inside = np.ones(len(scores), dtype=bool)
    inside[np.cumsum(lengths)[:-1]] = False
    falls = inside[1:] & (scores[1:] < scores[:-1])
    if falls.any():
        raise Wrong("has a calibration curve whose scores are not sorted")


def check_requests(requests: dict[str, dict[str, Any]] | None) -> None:
    """Check the metadata requests of ``set_fit_request`` and similar methods."""
    for method, wanted in (requests or {}).items():
        names = [*wanted, *(alias for alias in wanted.values() if isinstance(alias, str))]
        if method not in METHODS or not all(name.isidentifier() for name in names):
            raise Wrong(
                f"requests metadata with a name or method that is not valid: {method[:99]!r}"
            )
