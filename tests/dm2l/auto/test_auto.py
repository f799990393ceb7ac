"""The automatic estimator: what it accepts, tries, tells, keeps and forgets."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from dm2l import AutoClassifier
from dm2l._auto import _base_models, _classifier, _leaderboard
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import label_auc
from dm2l.model_selection import MultilabelKFold
from dm2l.persistence import load_model, save_model


@pytest.fixture(scope="module")
def data():
    X, Y = make_missing_multilabel(n_samples=120, random_state=0)
    return X, Y[:, 4:7]


@pytest.fixture
def few_trees(monkeypatch):
    """Normal effort with trees that cost little."""
    normal = _base_models.EFFORTS["normal"]
    small = _base_models.Effort(
        **(vars(normal) | {"folds": 2, "trees": 24, "fold_trees": 24, "rounds": 20})
    )
    monkeypatch.setitem(_base_models.EFFORTS, "normal", small)


def test_everything_is_tried_and_told(few_trees, data, capsys):
    X, Y = data
    model = AutoClassifier(random_state=0, verbose=1).fit(X, Y)
    board = pd.DataFrame(model.leaderboard_)
    assert set(board["model"][1:3]) == {"rbf kernel", "laplacian kernel"}
    trees = ["extra trees", "random forest", "boosted trees"]
    assert board["model"].drop([1, 2]).tolist() == ["linear", *trees, "stack"]
    assert board["weight"][:6].sum() == pytest.approx(1)
    assert np.isfinite(board["label_auc"]).all()
    low, high = model.estimate_["label_auc"][1:]
    assert low < board["label_auc"].iloc[-1] < high
    assert model.label_quality_["positives"].tolist() == (Y == 1).sum(axis=0).tolist()
    said = capsys.readouterr().err
    assert "random forest: fold 2 of 2" in said
    assert "s left)" in said


def test_models_that_gain_nothing_are_dropped_after_two_folds(data, monkeypatch):
    X, Y = data
    fitted = []

    class Noise(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            fitted.append(len(y))
            return super().fit(X, y)

    part = _base_models.BaseModel(
        "noise", "loud", MaskedOneVsRestClassifier(Noise(strategy="stratified", random_state=0))
    )
    noise = _base_models.Candidate("noise", 0.0, 1.0, lambda: [part])
    usual = _base_models.candidates
    monkeypatch.setattr(_leaderboard, "candidates", lambda task: [*usual(task), noise])
    model = AutoClassifier("quick", cv=5, random_state=0).fit(X, Y)
    assert len(fitted) == 2 * Y.shape[1]
    board = pd.DataFrame(model.leaderboard_).set_index("model")
    assert "2 folds" in board.loc["noise", "note"]
    assert board.loc["noise", "settings"] == "loud"
    assert "noise" not in model.models_
    three = AutoClassifier("quick", cv=3, random_state=0).fit(X, Y)
    assert np.isfinite(pd.DataFrame(three.leaderboard_).set_index("model").loc["noise", "log_loss"])


def test_a_column_that_is_empty_in_a_fold_stops_no_model(few_trees, data):
    X, Y = data
    X = X.copy()
    X[1:, 0] = np.nan
    board = AutoClassifier(random_state=0).fit(X, Y).leaderboard_
    assert not any("fail" in note for note in board["note"])
    assert np.isfinite(board["label_auc"][board["model"].index("boosted trees")])


@pytest.mark.parametrize("allowed", [0, 6])
def test_a_model_that_fails_is_dropped_with_its_reason(data, monkeypatch, allowed):
    X, Y = data
    fitted = []

    class Fragile(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            fitted.append(len(y))
            if len(fitted) > allowed:
                raise ValueError("column 3 is fragile")
            return super().fit(X, y)

    part = _base_models.BaseModel("fragile", "", MaskedOneVsRestClassifier(Fragile()))
    fragile = _base_models.Candidate("fragile", 0.0, 1.0, lambda: [part])
    usual = _base_models.candidates
    monkeypatch.setattr(_leaderboard, "candidates", lambda task: [*usual(task), fragile])
    monkeypatch.setattr(_classifier, "NEGLIGIBLE", -1.0)
    model = AutoClassifier("quick", cv=2, random_state=0).fit(X, Y)
    board = pd.DataFrame(model.leaderboard_).set_index("model")
    assert "column 3 is fragile" in board.loc["fragile", "note"]
    assert np.isfinite(board.loc["fragile", "label_auc"]) == (allowed == 6)
    monkeypatch.setattr(_leaderboard, "candidates", usual)
    plain = AutoClassifier("quick", cv=2, random_state=0).fit(X, Y)
    assert (model.predict_proba(X) == plain.predict_proba(X)).all()
    assert np.array_equal(model.held_out_, plain.held_out_, equal_nan=True)


def test_the_same_seed_gives_the_same_model(few_trees, data):
    X, Y = data
    first, second = (AutoClassifier(random_state=3).fit(X, Y) for _ in range(2))
    assert (first.predict_proba(X) == second.predict_proba(X)).all()


def test_probabilities_are_calibrated_and_scores_stand_for_them(data):
    X, Y = make_missing_multilabel(n_samples=600, random_state=1)
    model = AutoClassifier("quick", random_state=0).fit(X[:400], Y[:400])
    p, known = model.predict_proba(X[400:]), ~np.isnan(Y[400:])
    assert p[known].mean() == pytest.approx(Y[400:][known].mean(), abs=0.05)
    assert np.allclose(model.decision_function(X[400:]), 2 * p - 1)
    assert ((p > 0.5) == (model.predict(X[400:]) == 1)).all()
    held = model.held_out_[~np.isnan(Y[:400])]
    assert held.mean() == pytest.approx(Y[:400][~np.isnan(Y[:400])].mean(), abs=0.03)


def test_hidden_labels_change_nothing(few_trees, data):
    X, Y = data
    mask = ~np.isnan(Y)
    other = np.where(mask, Y, 1.0)
    first = AutoClassifier(random_state=0).fit(X, np.nan_to_num(Y), label_mask=mask)
    second = AutoClassifier(random_state=0).fit(X, other, label_mask=mask)
    assert (first.decision_function(X) == second.decision_function(X)).all()


def test_wide_sparse_data_have_linear_models_and_no_leak(few_trees, monkeypatch, tmp_path):
    monkeypatch.setattr(_base_models, "DUAL", 10)
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.random((90, 300)) * (rng.random((90, 300)) < 0.05))
    Y = (X @ rng.normal(size=(300, 3)) > 0).astype(float)
    mask = rng.random(Y.shape) < 0.7
    model = AutoClassifier(random_state=0).fit(X, Y, label_mask=mask)
    flipped = AutoClassifier(random_state=0).fit(X, np.where(mask, Y, 1 - Y), label_mask=mask)
    assert model.leaderboard_["model"] == ["linear", "logistic regression", "stack"]
    assert model.leaderboard_["settings"][0].startswith("ridge")
    assert (model.decision_function(X) == flipped.decision_function(X)).all()
    save_model(model, tmp_path / "wide.dm2l")
    loaded = load_model(tmp_path / "wide.dm2l")
    assert (loaded.decision_function(X) == model.decision_function(X)).all()
    assert loaded.models_["linear"].coef_.dtype == np.float32


def table(rng, n=160):
    z, colour = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    frame = pd.DataFrame({"z": z, "colour": colour, "flag": rng.random(n) < 0.5})
    frame.loc[rng.random(n) < 0.2, "z"] = np.nan
    frame.loc[rng.random(n) < 0.1, "colour"] = None
    Y = np.column_stack([z > 0, (colour == "red") ^ (rng.random(n) < 0.05)]).astype(float)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    return frame, Y


def test_nan_and_categories_are_accepted_by_all_models(few_trees):
    rng = np.random.default_rng(0)
    frame, Y = table(rng)
    model = AutoClassifier(random_state=0).fit(frame, Y)
    new, truth = table(rng)
    p = model.predict_proba(new)
    assert np.isfinite(p).all()
    assert label_auc(truth, p) > 0.8
    assert np.isfinite(model.predict_proba(new.assign(colour="violet"))).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(new.rename(columns={"z": "y"}))
    weights = model._column_weights(frame)
    assert np.abs(weights).argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("effort", ["quick", "normal"])
def test_sparse_rows_give_what_dense_ones_do(few_trees, effort):
    rng = np.random.default_rng(0)
    X = (rng.random((150, 40)) < 0.2).astype(float)
    Y = np.where(rng.random((150, 2)) < 0.2, np.nan, X[:, :2])
    dense = AutoClassifier(effort, random_state=0).fit(X, Y)
    rows = sp.csr_array(X)
    wide = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    rows = sp.csr_array(wide, shape=X.shape)  # which trees alone would refuse
    sparse = AutoClassifier(effort, random_state=0).fit(rows, Y)
    assert sparse.leaderboard_["model"] == dense.leaderboard_["model"]
    if effort == "quick":  # trees break ties between columns as they come
        assert dense.leaderboard_["model"][1] == "tanimoto kernel"
        assert np.allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-4)


def test_complete_goes_by_the_known_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    first = X[:, 0] + 2 * rng.normal(size=300) > 0
    Y = np.column_stack([first, first ^ (rng.random(300) < 0.02)]).astype(float)
    model = AutoClassifier("quick", random_state=0).fit(X, Y)
    holes = Y.copy()
    holes[:, 1] = np.nan
    coupled = model.complete(X, holes, method="predict_proba")[:, 1]
    assert label_auc(Y[:, [1]], coupled[:, None]) > 0.95
    assert label_auc(Y[:, [1]], model.predict_proba(X)[:, [1]]) < 0.8


def test_a_time_limit_leaves_models_out_and_says_so(few_trees, data, monkeypatch):
    X, Y = data
    model = AutoClassifier(time_limit=1e-3, random_state=0).fit(X, Y)
    board = model.leaderboard_
    assert board["model"][:2] == ["linear", "stack"]
    assert set(board["note"][2:]) == {"no time left"}
    assert list(model.models_) == ["linear"]


def test_a_model_that_the_limit_overtakes_is_dropped(few_trees, data, monkeypatch):
    X, Y = data
    check = _base_models.TimeBudget.check

    def overtaken(budget):
        if len(budget.lines) > 8:
            raise _base_models.OutOfTimeError
        check(budget)

    monkeypatch.setattr(_base_models.TimeBudget, "check", overtaken)
    monkeypatch.setattr(
        _base_models.TimeBudget, "report", lambda budget, line: budget.lines.append(line)
    )
    monkeypatch.setattr(_base_models.TimeBudget, "lines", [], raising=False)
    board = AutoClassifier(random_state=0).fit(X, Y).leaderboard_
    assert "stopped by the time limit" in board["note"]


def test_little_memory_means_landmarks(data):
    X, Y = data
    board = AutoClassifier("quick", max_memory=1e5, random_state=0).fit(X, Y).leaderboard_
    assert "Nystroem" in board["settings"][1]


def test_many_labels_leave_trees_out(data, monkeypatch):
    X, Y = data
    normal = _base_models.EFFORTS["normal"]
    monkeypatch.setitem(
        _base_models.EFFORTS,
        "normal",
        _base_models.Effort(**(vars(normal) | {"work": 1e-3, "folds": 2})),
    )
    board = AutoClassifier(random_state=0).fit(X, Y).leaderboard_
    assert board["model"][3] == "stack"
    assert "too many labels and rows for trees" in board["note"]


def test_a_model_comes_back_from_its_file(few_trees, tmp_path, monkeypatch):
    monkeypatch.setattr(_classifier, "NEGLIGIBLE", -1.0)  # all parts, trees among them
    frame, Y = table(np.random.default_rng(0))
    model = AutoClassifier(random_state=0).fit(frame, Y)
    assert len(model.models_) == 6
    save_model(model, tmp_path / "auto.dm2l")
    loaded = load_model(tmp_path / "auto.dm2l")
    assert (loaded.predict_proba(frame) == model.predict_proba(frame)).all()
    assert loaded.leaderboard_["model"] == model.leaderboard_["model"]
    assert loaded.estimate_ == model.estimate_
    holes = np.full(Y.shape, np.nan)
    assert (loaded.complete(frame, holes) == model.complete(frame, holes)).all()


def test_hardly_any_rows_are_left_to_the_linear_model():
    X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.2]])
    Y = np.array([[0, 1], [1, np.nan], [1, 0], [np.nan, 0]])
    model = AutoClassifier().fit(X, Y)
    assert list(model.models_) == ["linear"]
    assert np.isnan(model.estimate_["label_auc"].mean)
    assert model.predict(X).shape == Y.shape


def test_doubts_about_training_rows_go_by_held_out_scores(few_trees):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    Y = (X[:, :2] > 0).astype(float)
    wrong = np.argsort(-np.abs(X[:, 0]))[:3]
    Y[wrong, 0] = 1 - Y[wrong, 0]
    model = AutoClassifier(random_state=0).fit(X, Y)
    found = model.find_label_errors(X, Y)
    assert set(zip(found.row[:3], found.label[:3], strict=True)) == {(row, 0) for row in wrong}


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"effort": "some"}, "effort must be"),
        ({"time_limit": -1}, "time_limit must be"),
        ({"max_memory": 0}, "max_memory must be"),
        ({"coupling": "joint"}, "coupling='joint'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(bad, match, data):
    with pytest.raises(ValueError, match=match):
        AutoClassifier(**bad).fit(*data)


def test_clones_and_refits_forget(data):
    X, Y = data
    model = AutoClassifier("quick", random_state=0).fit(X, Y)
    before = model.predict_proba(X)
    model.fit(X[:, ::-1], Y)
    model.fit(X, Y)
    assert (model.predict_proba(X) == before).all()
    assert not hasattr(clone(model), "stack_")


def test_costs_decide_which_models_fit_in():
    budget = _base_models.TimeBudget(10.0, None)
    budget.planned += 100.0
    assert budget.allows(5.0)
    assert not budget.allows(50.0)


def test_time_is_reserved_for_what_follows_the_candidates():
    budget = _base_models.TimeBudget(10.0, None)
    budget.planned += 10.0
    budget.reserved, budget.binding = 4.0, True
    assert budget.allows(5.0)
    assert not budget.allows(7.0)
    budget.check()
    budget.step = 8.0
    budget.advance()
    budget.start -= 8.0
    with pytest.raises(_base_models.OutOfTimeError):
        budget.check()


def test_models_that_stay_reserve_time_for_their_last_fit(few_trees, data, monkeypatch):
    X, Y = data
    owed = []
    say = _base_models.TimeBudget.report

    def note(budget, line):
        owed.append((line, budget.reserved))
        say(budget, line)

    monkeypatch.setattr(_base_models.TimeBudget, "report", note)
    AutoClassifier(random_state=0).fit(X, Y)
    folds = [seconds for line, seconds in owed if "fold 1 of" in line]
    assert folds == sorted(folds)
    assert len(set(folds)) == len(folds)
    assert dict(owed)["weighting the models"] == folds[-1]
    monkeypatch.setattr(_leaderboard, "TRIAL", 1)
    monkeypatch.setattr(_base_models, "TRIAL", 1)
    monkeypatch.setattr(_leaderboard, "_helps", lambda *_: False)
    owed.clear()
    AutoClassifier(random_state=0).fit(X, Y)
    assert dict(owed)["weighting the models"] == folds[0]


def test_a_small_model_that_took_longer_than_planned_rules_nothing_out():
    budget = _base_models.TimeBudget(120.0, None)
    budget.planned += 100.0
    budget.step = 3.0
    budget.advance()
    budget.start -= 9.0  # three times as long as planned
    assert budget.allows(70.0)
    budget.step = 60.0
    budget.advance()
    budget.start -= 90.0
    assert not budget.allows(20.0)


def test_the_time_that_is_left_is_within_the_limit():
    lines = []
    budget = _base_models.TimeBudget(10.0, lines.append)
    budget.planned += 1000.0
    budget.report("working")
    assert "about 10 s left" in lines[0]


@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
@pytest.mark.parametrize(("spread", "most"), [(0.0, 0.0), (0.3, 0.1)])
def test_the_remaining_time_is_within_a_factor_of_two(monkeypatch, speed, spread, most):
    # Steps of a kind take equally long; estimated costs are wrong by a factor for each kind.
    kinds = [(1, 1), (2, 5), (6, 1), (8, 5), (10, 5), (4, 5), (30, 1)]
    ratios, rng = [], np.random.default_rng(0)
    for _ in range(10 if spread else 1):
        now = [0.0]
        monkeypatch.setattr(_base_models.time, "monotonic", lambda now=now: now[0])
        budget = _base_models.TimeBudget(None, None)
        budget.planned = sum(seconds * n for seconds, n in kinds)
        real = [seconds * speed * np.exp(spread * rng.normal()) for seconds, _ in kinds]
        total = sum(seconds * n for seconds, (_, n) in zip(real, kinds, strict=True))
        for (planned, n), seconds in zip(kinds, real, strict=True):
            budget.step = planned
            for k in range(n):
                budget.more = n - k - 1
                for _ in range(4):  # also while a step runs
                    if 0.05 < now[0] / total < 0.95:
                        ratios.append(budget.left() / (total - now[0]))
                    now[0] += seconds / 4
                budget.advance()
    ratios = np.array(ratios)
    assert np.mean((ratios < 0.5) | (ratios > 2)) <= most
    assert len(ratios) > 50


def test_settings_are_chosen_by_the_folds_that_are_given(data, monkeypatch):
    X, Y = data
    groups = np.arange(len(X)) // 4
    seen = []
    usual = _base_models.DM2LClassifierCV._search

    def search(self, X, labels):
        seen.extend(self.cv)
        return usual(self, X, labels)

    monkeypatch.setattr(_base_models.DM2LClassifierCV, "_search", search)
    AutoClassifier("quick", cv=MultilabelKFold(5, groups=groups, random_state=0)).fit(X, Y)
    assert seen
    known = groups[(~np.isnan(Y)).any(axis=1)]
    for train, test in seen:
        assert len(train) + len(test) == len(known)
        assert not set(known[train]) & set(known[test])


def test_labels_that_are_fitted_one_by_one_are_counted(few_trees, data, monkeypatch, capsys):
    monkeypatch.setattr(_base_models, "SILENCE", 0.0)
    AutoClassifier(random_state=0, verbose=1).fit(*data)
    lines = capsys.readouterr().err
    for done in ("fold 1 of 2, label 1 of 3", "fold 2 of 2, label 2 of 3"):
        assert f"boosted trees: {done}" in lines


def test_the_limit_stops_a_model_between_two_labels(few_trees, data, monkeypatch):
    """A fold of trees for many labels may take longer than all that is left."""
    heard = []

    def overtaken(self, line, stops, done, of):
        heard.append((line, done, of))
        if line.startswith("boosted"):
            raise _base_models.OutOfTimeError

    monkeypatch.setattr(_base_models.TimeBudget, "after_label", overtaken)
    model = AutoClassifier(random_state=0).fit(*data)
    assert ("boosted trees: fold 1 of 2", 1, 3) in heard
    assert not any(line.startswith("boosted") and done > 1 for line, done, _ in heard)
    board = dict(zip(model.leaderboard_["model"], model.leaderboard_["note"], strict=True))
    assert board["boosted trees"] == "stopped by the time limit"


def test_a_last_fit_is_never_given_up():
    budget = _base_models.TimeBudget(1e-9, None)
    budget.binding = True
    with pytest.raises(_base_models.OutOfTimeError):
        budget.after_label("trees", True, 1, 2)
    budget.after_label("trees", False, 1, 2)
