"""Decision trees in model files: forests come back by themselves, crafted ones do not."""

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from crafted_models import save_unchecked, taken_apart
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.persistence._checks import depth_of
from dm2l.persistence._model import write_file

FORESTS = [
    RandomForestClassifier(5, random_state=0),
    ExtraTreesClassifier(5, random_state=0, max_leaf_nodes=4),
    DecisionTreeClassifier(random_state=0),
    HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2, random_state=0),
]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.where(rng.random((60, 2)) < 0.2, np.nan, X[:, :2] > 0)
    return X, Y


@pytest.mark.parametrize("forest", FORESTS, ids=lambda f: type(f).__name__)
def test_forests_load_without_being_named_as_trusted(forest, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(forest).fit(X, Y)
    save_model(model, tmp_path / "forest.dm2l")
    loaded = load_model(tmp_path / "forest.dm2l")
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()


def craft_tree(forest, change):
    """Write into the nodes of the first tree, as a file could."""
    tree = forest if hasattr(forest, "tree_") else forest.estimators_[0]
    state = tree.tree_.__getstate__()
    change(state["nodes"])
    tree.tree_.__setstate__(state)


CHANGES = {
    "a child that is not there": ("left_child", 10**6),
    "a child far below": ("left_child", -(2**40)),
    "a child that is its own parent": ("right_child", 0),
    "two parents of one child": ("right_child", 1),
    "a feature that is not there": ("feature", 4),
    "a feature below": ("feature", -2),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("forest", FORESTS[:3], ids=lambda f: type(f).__name__)
def test_crafted_trees_are_refused(forest, change, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(forest).fit(X, Y)
    field, value = CHANGES[change]

    def craft(nodes):
        nodes[field][0] = value

    craft_tree(model.estimators_[0], craft)
    save_unchecked(model, tmp_path / "forest.dm2l")
    with pytest.raises(ModelFileError, match=r"form a tree|does not exist"):
        load_model(tmp_path / "forest.dm2l")


def test_a_file_cannot_say_how_deep_a_tree_is(data, tmp_path):
    """``decision_path`` writes as many numbers as the depth says: it follows from the children."""
    X, y = np.arange(300.0)[:, None], np.arange(300) % 2
    model = MaskedOneVsRestClassifier(DecisionTreeClassifier(random_state=0)).fit(X, y[:, None])
    tree = model.estimators_[0].tree_
    state = tree.__getstate__()
    tree.__setstate__(state | {"max_depth": 0})
    save_unchecked(model, tmp_path / "tree.dm2l")
    loaded = load_model(tmp_path / "tree.dm2l").estimators_[0]
    assert loaded.tree_.max_depth == state["max_depth"] > 5
    paths = loaded.decision_path(X)
    tree.__setstate__(state)
    assert (paths != model.estimators_[0].decision_path(X)).nnz == 0


def test_the_depth_of_a_tree_is_that_of_its_children():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 40, 400):
        left, right = np.full(2 * n - 1, -1), np.full(2 * n - 1, -1)
        depth, leaves, place = np.zeros(2 * n - 1, dtype=int), [0], 1
        while place < 2 * n - 1:
            node = leaves.pop(rng.integers(len(leaves)))
            left[node], right[node] = rng.permutation([place, place + 1])
            depth[place : place + 2] = depth[node] + 1
            leaves += [place, place + 1]
            place += 2
        assert depth_of(left, right, left == -1) == depth.max()
        if n > 2:
            inner = np.flatnonzero(left >= 0)
            for wrong in (0, int(inner[-1]), 2 * n - 1, -7):
                changed = left.copy()
                changed[inner[-1]] = wrong
                assert depth_of(changed, right, left == -1) is None
    ring = np.array([-1, 2, 1]), np.array([-1, 3, 4])  # apart from the root
    assert depth_of(*ring, np.array([True, False, False])) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("values", lambda array: np.full_like(array, np.nan)),
        ("values", lambda array: array[:-1]),
        ("values", lambda array: array[:, :, :1]),
        ("nodes", lambda array: array[:, :-1]),
        ("nodes", lambda array: array[:0]),
    ],
)
def test_trees_whose_arrays_do_not_belong_together_are_refused(name, change, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(DecisionTreeClassifier(random_state=0)).fit(X, Y)
    root, arrays = taken_apart(model)
    tree = root["state"]["estimators_"][0]["state"]["tree_"]["state"]
    arrays[tree[name]["member"]] = change(arrays[tree[name]["member"]])
    write_file(tmp_path / "tree.dm2l", root, arrays)
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "tree.dm2l")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("left", 10**6),
        ("right", 0),
        ("feature_idx", 4),
        ("feature_idx", -1),
        ("is_categorical", 1),
        ("value", np.nan),
    ],
)
def test_crafted_boosted_trees_are_refused(field, value, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(FORESTS[3]).fit(X, Y)
    model.estimators_[0]._predictors[0][0].nodes[field][0] = value
    save_unchecked(model, tmp_path / "boosted.dm2l")
    with pytest.raises(ModelFileError, match="tree"):
        load_model(tmp_path / "boosted.dm2l")


@pytest.mark.parametrize("width", [3, None, 4.0])
def test_a_forest_must_insist_on_the_columns_of_its_trees(width, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(FORESTS[0]).fit(X, Y)
    model.estimators_[0].n_features_in_ = width
    save_unchecked(model, tmp_path / "forest.dm2l")
    with pytest.raises(ModelFileError, match=r"n_features_in_|has size 4"):
        load_model(tmp_path / "forest.dm2l")


def test_forests_of_other_classes_have_to_be_trusted(data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(GradientBoostingClassifier(n_estimators=2)).fit(X, Y)
    save_model(model, tmp_path / "boosted.dm2l")
    with pytest.raises(ModelFileError, match=r"not trusted: .*GradientBoostingClassifier"):
        load_model(tmp_path / "boosted.dm2l")


def test_boosted_trees_with_categories_are_not_saved(data, tmp_path):
    X, Y = data
    X = np.column_stack([X, np.arange(60) % 3])
    boosted = HistGradientBoostingClassifier(max_iter=2, categorical_features=[4])
    with pytest.raises(TypeError, match="cannot contain functions"):
        save_model(MaskedOneVsRestClassifier(boosted).fit(X, Y), tmp_path / "boosted.dm2l")
