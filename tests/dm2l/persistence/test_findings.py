"""What attacks on model files have found, each as a test: nothing is written, opened or crashed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from crafted_models import save_unchecked
from dm2l import DM2LClassifier, ScoreClassifier
from dm2l.persistence import ModelFileError, load_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(float)

# In a process of its own: what goes wrong here ends it, or leaves files behind.
LOAD = """
import sys
opened = []

def hook(event, arguments):
    if event == "open" and watching and str(arguments[0]) != sys.argv[1]:
        name = str(arguments[0])
        if "python3" not in name and not name.startswith(("/proc", "/sys")):
            opened.append(name)
    if watching and event in ("os.system", "subprocess.Popen", "socket.connect"):
        opened.append(event)

watching = False
sys.addaudithook(hook)
import sklearn.ensemble, sklearn.feature_extraction.text, pandas
from dm2l.persistence import load_model
watching = True
try:
    model = load_model(sys.argv[1])
except ValueError as error:
    print(type(error).__name__)
else:
    print("loaded")
    # What a bundle was once asked while it was loaded.
    for value in (float("nan"), 0.0):
        try:
            model.predict(pandas.DataFrame({name: [value] for name in sys.argv[2].split()}))
        except Exception as error:
            print(type(error).__name__)
print(opened)
"""


REFUSED = ("not saved", ["ModelFileError"])


def outcome(model, path, columns="a b c"):
    """What loading says, or that the model cannot even be written down."""
    try:
        save_unchecked(model, path)
    except TypeError:
        return "not saved"
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, str(path), columns],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr[-500:])
    *said, opened = ran.stdout.splitlines()
    assert opened == "[]"
    return said


def bundle_with(step):
    """A pipeline whose first step is another."""
    return Pipeline([("columns", step), ("labels", DM2LClassifier(coupling=None).fit(X, Y))])


def stack():
    made = StackingClassifier(
        [("a", LogisticRegression())], final_estimator=LogisticRegression()
    ).fit(X, Y[:, 0])
    del made.named_estimators_
    return made


def test_a_method_of_an_array_that_writes_a_file(tmp_path):
    """Constants of an imputer become a path, and ``tofile`` is called as a method of a model."""
    target = str(tmp_path / "written")
    target = target[:1] * (1 + -len(target) % 8) + target[1:]
    doubles = np.frombuffer(target.encode(), "<f8")
    k = len(doubles)
    imputer = SimpleImputer(keep_empty_features=True).fit(np.zeros((2, k)))
    imputer.statistics_ = doubles.copy()
    text = FunctionTransformer(func=str, kw_args={"encoding": "latin-1"}).fit(np.zeros((2, k)))
    made = stack()
    made.estimators_ = [np.array([b"this was written by a model file"])]
    made.stack_method_ = ["tofile"]
    evil = Pipeline([("i", imputer), ("t", text), ("s", made)])
    columns = " ".join(f"c{j}" for j in range(k))
    found = outcome(bundle_with(evil), tmp_path / "m.dm2l", columns)
    assert not (tmp_path / "written").exists()
    assert found in REFUSED


def test_a_tree_inside_of_a_set(tmp_path):
    """Its root leads far away: asking it reads memory that is not its own."""
    tree = DecisionTreeClassifier().fit(X, Y[:, 0])
    state = tree.tree_.__getstate__()
    state["nodes"]["left_child"][0] = state["nodes"]["right_child"][0] = 2**40
    tree.tree_.__setstate__(state)
    vote = VotingClassifier([("a", LogisticRegression())], voting="soft").fit(X, Y[:, 0])
    del vote.named_estimators_
    vote.estimators_ = {tree}
    assert outcome(bundle_with(vote), tmp_path / "m.dm2l") in REFUSED


def test_a_vectoriser_inside_of_a_set(tmp_path):
    """It opens the files that the columns of the model are named after."""
    vectorizer = CountVectorizer(input="filename", analyzer="char")
    vectorizer.vocabulary_ = {"a": 0, "b": 1, "c": 2}
    union = FeatureUnion([("v", CountVectorizer())])
    union.transformer_list = {("v", vectorizer)}
    evil = Pipeline([("l", FunctionTransformer(func=list)), ("u", union)])
    found = outcome(bundle_with(evil), tmp_path / "m.dm2l", "/etc/hosts /etc/passwd")
    assert found in REFUSED


def test_a_depth_that_is_not_that_of_the_tree(tmp_path):
    """``decision_path`` takes as much memory as the depth says, and writes more."""
    rows = np.arange(300.0)[:, None]
    tree = DecisionTreeClassifier(random_state=0).fit(rows, np.arange(300) % 2)
    depth = tree.tree_.max_depth
    tree.tree_.__setstate__(tree.tree_.__getstate__() | {"max_depth": 0})
    save_unchecked(make_pipeline(tree), tmp_path / "m.dm2l")
    try:
        loaded = load_model(tmp_path / "m.dm2l")
    except ModelFileError:
        return
    assert loaded[0].tree_.max_depth == depth


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("_cross", None, "lacks attributes that fit computes from scores"),
        ("_cross", np.zeros((3, 3)), "has size 3, but the other arrays require 2"),
        ("columns", [0, 7], "does not select one existing column for each label"),
        ("columns", [0], "does not select one existing column for each label"),
    ],
)
def test_weights_of_scores_that_do_not_fit(name, value, reason, tmp_path):
    """A model without them, or with others, raised an AttributeError or IndexError."""
    model = ScoreClassifier().fit(X[:, :2], Y)
    save_unchecked(model, tmp_path / "m.dm2l")
    load_model(tmp_path / "m.dm2l")
    if value is None:
        delattr(model, name)
    else:
        setattr(model, name, value)
    save_unchecked(model, tmp_path / "m.dm2l")
    with pytest.raises(ModelFileError, match=reason):
        load_model(tmp_path / "m.dm2l")


@pytest.mark.parametrize(("name", "part"), [("with_mean", "mean_"), ("with_std", "scale_")])
def test_a_scaler_without_the_values_that_it_uses(name, part, tmp_path):
    """It loaded, and raised an AttributeError in transform."""
    pipe = make_pipeline(StandardScaler(), DM2LClassifier()).fit(X, Y)
    save_unchecked(pipe, tmp_path / "m.dm2l")
    load_model(tmp_path / "m.dm2l")
    setattr(pipe[0], part, None)
    save_unchecked(pipe, tmp_path / "m.dm2l")
    with pytest.raises(ModelFileError, match=f"has {name}=True, but no {part}"):
        load_model(tmp_path / "m.dm2l")
