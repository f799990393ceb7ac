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

from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.persistence import _trees as trees

pytest.importorskip("skops", reason="skops is an extra")

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


def far_child(nodes):
    nodes["left_child"][0] = 10**6


def own_child(nodes):
    nodes["right_child"][0] = 0


def far_feature(nodes):
    nodes["feature"][0] = 4


@pytest.mark.parametrize("change", [far_child, own_child, far_feature])
@pytest.mark.parametrize("forest", FORESTS[:3], ids=lambda f: type(f).__name__)
def test_crafted_trees_are_refused(forest, change, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(forest).fit(X, Y)
    craft_tree(model.estimators_[0], change)
    save_model(model, tmp_path / "forest.dm2l")
    with pytest.raises(ModelFileError, match="decision tree"):
        load_model(tmp_path / "forest.dm2l")
    # Who names the type answers for it.
    load_model(tmp_path / "forest.dm2l", trusted=[trees.TREE])


@pytest.mark.parametrize(
    ("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 4), ("is_categorical", 1)]
)
def test_crafted_boosted_trees_are_refused(field, value, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(FORESTS[3]).fit(X, Y)
    model.estimators_[0]._predictors[0][0].nodes[field][0] = value
    save_model(model, tmp_path / "boosted.dm2l")
    with pytest.raises(ModelFileError, match="tree"):
        load_model(tmp_path / "boosted.dm2l")


@pytest.mark.parametrize("width", [3, None, 4.0])
def test_a_forest_must_insist_on_the_columns_of_its_trees(width, data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(FORESTS[0]).fit(X, Y)
    model.estimators_[0].n_features_in_ = width
    save_model(model, tmp_path / "forest.dm2l")
    with pytest.raises(ModelFileError, match="other features"):
        load_model(tmp_path / "forest.dm2l")


def test_trees_of_other_holders_have_to_be_trusted(data, tmp_path):
    X, Y = data
    model = MaskedOneVsRestClassifier(GradientBoostingClassifier(n_estimators=2)).fit(X, Y)
    save_model(model, tmp_path / "boosted.dm2l")
    with pytest.raises(ModelFileError, match=r"GradientBoostingClassifier.*not trusted"):
        load_model(tmp_path / "boosted.dm2l")
    loaded = load_model(tmp_path / "boosted.dm2l", trusted=[trees.TREE])
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()


def test_boosted_trees_with_categories_have_to_be_trusted(data, tmp_path):
    X, Y = data
    X = np.column_stack([X, np.arange(60) % 3])
    boosted = HistGradientBoostingClassifier(max_iter=2, categorical_features=[4])
    save_model(MaskedOneVsRestClassifier(boosted).fit(X, Y), tmp_path / "boosted.dm2l")
    with pytest.raises(ModelFileError, match=r"categories|not trusted"):
        load_model(tmp_path / "boosted.dm2l")
