"""Decision trees of scikit-learn from a model file, looked at before anything asks them.

Their loops go from node to node without looking whether there is one, so a crafted tree reads
memory that is not its own. Here every child must come after its parent and exist, and every feature
must be a column that whoever holds the tree insists on. Trees that are held in a way that is not
known to insist are not loaded, unless their types are named as trusted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.persistence._archive import ModelFileError

TREE = "sklearn.tree._tree.Tree"
PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_BOOSTING = "sklearn.ensemble._hist_gradient_boosting.gradient_boosting"
# These hand rows to the loops of their trees themselves, with columns or outputs of their own.
_UNKNOWN = tuple(f"sklearn.ensemble.{name}" for name in ("_gb", "_iforest", "_bagging"))


class TreeCheck:
    """A visitor of loaded objects; :meth:`finish` when it has seen all.

    Parameters
    ----------
    trusted : collection of str
        Types that the caller answers for; trees of these are not looked at.
    """

    def __init__(self, trusted: Any) -> None:
        self._trusted = set(trusted)
        self._found: dict[int, Any] = {}
        self._known: set[int] = set()
        self._held_by: str | None = None

    def see(self, value: Any) -> None:
        """Look at an object."""
        module, name = type(value).__module__, type(value).__name__
        if f"{module}.{name}" in (TREE, PREDICTOR):
            if f"{module}.{name}" not in self._trusted:
                self._found[id(value)] = value
        elif module == "sklearn.tree._classes":
            self._own(value, [value])
        elif module == "sklearn.ensemble._forest":
            self._own(value, vars(value).get("estimators_", []))
        elif module == _BOOSTING:
            self._boosted(value)
        elif module in _UNKNOWN:
            self._held_by = name

    def finish(self) -> None:
        """Refuse trees that nobody has vouched for."""
        if not self._found:
            return
        if self._held_by is not None or self._found.keys() - self._known:
            holder = f"a {self._held_by}" if self._held_by else "something unusual"
            raise ModelFileError(
                f"it has decision trees inside {holder}, whose types are not trusted: "
                f"{[TREE, PREDICTOR]!r}. If you know who wrote it, and only then, name them as "
                "trusted=."
            )

    def _own(self, holder: Any, estimators: Any) -> None:
        width = vars(holder).get("n_features_in_")
        for estimator in estimators:
            tree = getattr(estimator, "__dict__", {}).get("tree_")
            if tree is None or TREE in self._trusted:
                continue
            if f"{type(tree).__module__}.{type(tree).__name__}" != TREE:
                raise ModelFileError("a decision tree of it has no tree.")
            if type(width) is not int or tree.n_features != width:
                raise ModelFileError("a decision tree of it has other features than its model.")
            if tree.node_count != tree.capacity or tree.node_count < 1:
                raise ModelFileError("a decision tree of it has another number of nodes.")
            if id(tree) not in self._known:
                left, right = tree.children_left, tree.children_right
                _check(left, right, tree.feature, left == -1, width)
            self._known.add(id(tree))

    def _boosted(self, model: Any) -> None:
        state = vars(model)
        width, mapper = state.get("n_features_in_"), state.get("_bin_mapper")
        if "_predictors" not in state or PREDICTOR in self._trusted:
            return
        cut = np.asarray(getattr(mapper, "is_categorical_", [True]))
        if (
            type(width) is not int
            or state.get("_preprocessor") is not None
            or state.get("_in_fit", False)
            or cut.shape != (width,)
            or cut.any()
        ):
            # The columns that trees see are then made by others, which are not checked.
            raise ModelFileError(
                f"its boosted trees have categories; name {PREDICTOR!r} as trusted= if you know "
                "who wrote it."
            )
        for predictor in (tree for step in state["_predictors"] for tree in step):
            nodes: Any = getattr(predictor, "nodes", None)
            fields = getattr(getattr(nodes, "dtype", None), "names", None) or ()
            needed = {"left", "right", "feature_idx", "is_leaf", "is_categorical"}
            if not needed <= set(fields) or nodes.ndim != 1 or not len(nodes):
                raise ModelFileError("a boosted tree of it has no nodes.")
            if nodes["is_categorical"].any():
                raise ModelFileError("a boosted tree of it has categories that its model lacks.")
            left, right, feature = (
                nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx")
            )
            _check(left, right, feature, nodes["is_leaf"] != 0, width)
            self._known.add(id(predictor))


def _check(
    left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], leaf: Any, width: int
) -> None:
    places = np.arange(len(left))
    inner = ~np.asarray(leaf)
    for child in (left, right):
        if not ((child > places) & (child < len(places)))[inner].all():
            raise ModelFileError("a decision tree of it leads nowhere.")
    if not ((feature >= 0) & (feature < width))[inner].all():
        raise ModelFileError("a decision tree of it asks for a feature that is not there.")
