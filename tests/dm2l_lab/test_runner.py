"""Protocols run each cell once, from observed training labels alone, however often they are cut."""

import contextlib
import functools
import hashlib
import json
import os
import random
import runpy
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.arrays import home
from dm2l.baselines import HolesAreNegatives, MaskedRidgeClassifier, OneVsRestMasked
from dm2l.datasets import make_missing_multilabel
from dm2l.masks import hide_per_row
from dm2l.metrics import average_precision, hamming_loss, ranking_loss
from dm2l.model_selection import MultilabelKFold, MultilabelShuffleSplit
from dm2l.search import StagedSearch
from dm2l_lab import (
    METRICS,
    Cell,
    Method,
    Protocol,
    Store,
    get_protocol,
    protocols,
    register,
    run,
    run_cell,
    status,
)
from dm2l_lab import _protocol as protocol_module
from dm2l_lab._cell import seeded, split_rows
from dm2l_lab.cli._experiment import LOCAL
from fatal import Fatal

RIDGE = Method("ridge", MaskedRidgeClassifier(alpha=1.0))
SEARCH = Method("search", DM2LClassifierCV(lambda_ds=[0.0, 0.5], alphas=[0.1, 10.0], cv=2))
BROKEN = Method("broken", DM2LClassifier(lambda_d=-1.0))

# What differs between two runs of the same thing.
CIRCUMSTANCES = ("seconds", "seconds_fit", "seconds_score", "peak_memory", "run", "started")


class Spy(BaseEstimator):
    """Keeps what it is given; scores are the first columns of X."""

    seen: list = []  # noqa: RUF012 - shared by all clones, on purpose

    def __init__(self, random_state=None, note=""):
        self.random_state = random_state
        self.note = note

    def fit(self, X, Y):
        self.n_labels_ = Y.shape[1]
        Spy.seen.append((X, Y, self.random_state))
        return self

    def decision_function(self, X):
        return X[:, : self.n_labels_]


@pytest.fixture
def spied():
    Spy.seen.clear()
    yield Spy.seen
    Spy.seen.clear()


def archive(folder, name, seed=0, n=60, X=None, Y=None):
    made = make_missing_multilabel(n, 8, 5, rho=1.0, random_state=seed)
    np.savez(folder / f"{name}.npz", X=made[0] if X is None else X, Y=made[1] if Y is None else Y)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with two data sets."""
    folder = tmp_path / "data"
    folder.mkdir()
    archive(folder, "one", 1)
    archive(folder, "two", 2, n=70)
    monkeypatch.setenv("DM2L_DATA", str(folder))
    return folder


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.db") as store:
        yield store


def tiny(*methods, **settings):
    options = {"datasets": ("one", "two"), "rates": (1.0, 0.4), "repetitions": 2, **settings}
    return Protocol("tiny", methods=methods or (RIDGE, SEARCH), **options)


def lasting(rows, *but):
    """Rows without what differs between two runs."""
    left_out = (*CIRCUMSTANCES, *but)
    return [{k: v for k, v in row.items() if k not in left_out} for row in rows]


# -- settings -----------------------------------------------------------------------------------


def test_settings_hold_every_parameter_and_the_class():
    settings = json.loads(Method("m", MaskedRidgeClassifier(alpha=2.5)).settings)
    expected = MaskedRidgeClassifier(alpha=2.5).get_params()
    assert settings.pop("class") == "MaskedRidgeClassifier"
    assert settings["alpha"] == 2.5
    assert settings["missing_label"] == "nan"
    assert set(settings) == set(expected) - {"n_jobs", "verbose"}


def grid(**changes):
    pipeline = make_pipeline(StandardScaler(), OneVsRestMasked(RandomForestClassifier(5)))
    options = {
        "param_grid": {"onevsrestmasked__estimator__max_depth": np.array([2, 3])},
        "cv": MultilabelKFold(3, random_state=1),
        "scoring": functools.partial(ranking_loss, convention="published"),
        **changes,
    }
    return GridSearchCV(pipeline, **options)


def test_settings_are_the_same_text_in_every_process():
    code = (
        "import test_runner, sys; from dm2l_lab import Method;"
        "sys.stdout.write(Method('m', test_runner.grid()).settings)"
    )
    here = Method("m", grid()).settings
    for seed in "01":
        path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", code]
        there = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout
        assert there == here
    assert " at 0x" not in here


def test_settings_tell_apart_what_gives_other_results_and_nothing_else():
    def key(estimator):
        return Method("m", estimator).settings_hash

    different = [
        grid(),
        grid(cv=MultilabelKFold(3, random_state=2)),
        grid(scoring=functools.partial(ranking_loss, convention="paper")),
        grid(scoring=functools.partial(average_precision, convention="published")),
        grid(param_grid={"onevsrestmasked__estimator__max_depth": [2, 4]}),
        MaskedRidgeClassifier(),
        DM2LClassifier(),
        DM2LClassifier(alpha=np.float64(0.5)),
        Spy(note=np.arange(200.0)),
        Spy(note=np.r_[np.arange(100.0), -1.0, np.arange(101.0, 200.0)]),
        Spy(note=RIDGE.estimator),
        Spy(note=MaskedRidgeClassifier(alpha=1.5)),
    ]
    assert len({key(estimator) for estimator in different}) == len(different)
    assert key(grid(n_jobs=2, verbose=1)) == key(grid())
    assert key(DM2LClassifier(alpha=0.5)) == key(DM2LClassifier(alpha=np.float64(0.5)))
    assert key(Spy(note=(1, 2))) == key(Spy(note=np.array([1, 2])))


@pytest.mark.parametrize("value", [lambda Y: 0, np.random.RandomState(0), object()])
def test_parameters_without_a_lasting_name_are_refused(value):
    with pytest.raises(ValueError, match=r"Method 'spy'.*cannot tell"):
        _ = Method("spy", Spy(note=value)).settings
    with pytest.raises(TypeError, match="get_params"):
        _ = Method("spy", value).settings


# -- cells and seeds ----------------------------------------------------------------------------


def test_cells_come_in_whole_repetitions_with_one_mask_where_nothing_is_hidden():
    protocol = tiny(
        RIDGE, replace(BROKEN, sets=("two",)), masks=("per_row", "uniform"), repetitions=2
    )
    found = [
        (cell.repetition, cell.dataset, cell.rate, cell.mask, cell.method)
        for cell in protocol.cells()
    ]
    hidden = [(1.0, "none"), (0.4, "per_row"), (0.4, "uniform")]
    methods = {"one": ["ridge"], "two": ["ridge", "broken"]}
    assert found == [
        (r, d, *h, m) for r in range(2) for d in methods for h in hidden for m in methods[d]
    ]
    assert all(
        c.settings == protocol.method(c.method, c.dataset).settings_hash for c in protocol.cells()
    )


def test_cells_can_be_chosen_and_unknown_choices_are_named():
    protocol = tiny(masks=("per_row", "uniform"), repetitions=5)
    chosen = {"datasets": ["two"], "methods": ["ridge"], "rates": [0.4], "masks": ["uniform"]}
    assert [c.repetition for c in protocol.cells(**chosen)] == [0, 1, 2, 3, 4]
    assert [c.repetition for c in protocol.cells(**chosen, repetitions=2)] == [0, 1]
    assert [c.repetition for c in protocol.cells(**chosen, repetitions=range(3, 5))] == [3, 4]
    # The order is the protocol's, not the caller's.
    assert next(protocol.cells(datasets=["two", "one"])).dataset == "one"
    assert next(protocol.cells(rates=[1])).rate == 1.0
    wrong = {"datasets": ["tow"], "methods": ["rigde"], "rates": [0.5], "repetitions": [5]}
    for name, value in {**wrong, "masks": ["per_lable"], "repetitions": 6}.items():
        with pytest.raises(ValueError, match=rf"no {name} .*it has"):
            list(protocol.cells(**{name: value}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rates": (0.0,)},
        {"rates": (1, 1.0)},
        {"masks": ("positives",)},
        {"test_size": 1.0},
        {"repetitions": 0},
        {"datasets": ()},
        {"datasets": ("one", "one")},
        {"methods": (RIDGE, RIDGE)},
    ],
)
def test_protocols_that_make_no_sense_are_refused(wrong):
    options = {"datasets": ("one",), "methods": (RIDGE,), **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Protocol("wrong", **options)


def test_seeds_are_the_documented_ones():
    cell = Cell("honest", "Arts", "per_row", 0.3, 4, "ridge", "0")

    def seed(text):
        entropy = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        return np.random.SeedSequence(entropy).generate_state(1)[0]

    assert cell.split_seed == seed('["dm2l", "split", "Arts", 4]')
    assert cell.mask_seed == seed('["dm2l", "mask", "Arts", 4, "per_row", 0.3]')
    assert cell.estimator_seed == seed('["dm2l", "estimator", "Arts", 4, "per_row", 0.3]')


def test_seeds_depend_on_what_they_should():
    cell = Cell("honest", "Arts", "per_row", 0.3, 4, "ridge", "0")

    def seeds(**changes):
        changed = replace(cell, **changes)
        return np.array([changed.split_seed, changed.mask_seed, changed.estimator_seed])

    for changes, kept in (
        ({"method": "LEML", "settings": "1", "protocol": "as_published"}, [True, True, True]),
        ({"mask": "uniform"}, [True, False, False]),
        ({"rate": 0.7}, [True, False, False]),
        ({"repetition": 5}, [False, False, False]),
        ({"dataset": "Enron"}, [False, False, False]),
    ):
        assert (seeds(**changes) == seeds()).tolist() == kept


@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.floats(0.01, 0.99))
def test_split_is_a_partition_of_the_stated_size(seed, n, test_size):
    train, test = split_rows(seed, n, test_size)
    assert sorted([*train, *test]) == list(range(n))
    assert len(test) == min(max(round(test_size * n), 1), n - 1)
    again = split_rows(seed, n, test_size)
    assert (again[0] == train).all()
    assert (again[1] == test).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 9), min_size=2, max_size=60))
def test_groups_stay_on_one_side(seed, groups):
    groups = np.array(groups) * 7 - 3
    kinds = len(set(groups))
    if kinds == 1:
        with pytest.raises(ValueError, match="1 groups"):
            split_rows(seed, len(groups), 0.4, groups)
        return
    train, test = split_rows(seed, len(groups), 0.4, groups)
    assert sorted([*train, *test]) == list(range(len(groups)))
    assert not set(groups[train]) & set(groups[test])
    assert len(set(groups[test])) == min(max(round(0.4 * kinds), 1), kinds - 1)


def test_every_row_is_tested_equally_often():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[split_rows(seed, 20, 0.4)[1]] += 1
    # Binomial with mean 800 and standard deviation 22.
    assert np.abs(counts - 800).max() < 5 * 22
    first = np.mean([split_rows(seed, 20, 0.4)[0][0] for seed in range(2000)])
    assert first == pytest.approx(9.5, abs=0.7)  # in random order too


# -- one cell -----------------------------------------------------------------------------------


def test_cell_is_what_the_same_steps_give_by_hand(data):
    protocol = tiny(RIDGE, rates=(0.4,), masks=("per_row",))
    (cell,) = protocol.cells(datasets=["one"], repetitions=[1])
    row = run_cell(protocol, cell)

    with np.load(data / "one.npz") as file:
        X, Y = file["X"], file["Y"]
    order = np.random.RandomState(cell.split_seed).permutation(60)
    train, test = order[:36], order[36:]
    hidden = hide_per_row(Y[train], 0.4, random_state=cell.mask_seed)
    model = MaskedRidgeClassifier(alpha=1.0).fit(X[train], hidden)
    scores = model.decision_function(X[test])

    published, default = row["metrics"]["published"], row["metrics"]["default"]
    assert published["ranking_loss"] == ranking_loss(Y[test], scores, convention="published")
    assert default["average_precision"] == average_precision(Y[test], scores)
    assert default["hamming_loss"] == hamming_loss(Y[test], model.predict(X[test]))
    assert set(published) == set(default) == set(METRICS)
    assert (row["n_train"], row["n_test"]) == (36, 24)
    assert row["observed"] == np.mean(~np.isnan(hidden))
    assert row["split_seed"] == cell.split_seed
    assert row["scores"] == hashlib.sha256(scores.tobytes()).hexdigest()[:12]
    assert row["seconds_fit"] > 0
    assert row["peak_memory"] > 1


def test_conventions_differ_on_rows_without_labels(data):
    X, Y = make_missing_multilabel(60, 8, 5, rho=1.0, random_state=3)
    Y[::2] = 0
    archive(data, "rare", X=X, Y=Y)
    protocol = tiny(RIDGE, datasets=("rare",))
    row = run_cell(protocol, next(protocol.cells()))
    for name in ("coverage", "instance_auc"):
        assert row["metrics"]["published"][name] != row["metrics"]["default"][name]
    for name in ("label_auc", "one_error", "hamming_loss"):
        assert row["metrics"]["published"][name] == row["metrics"]["default"][name]


def test_methods_of_a_repetition_see_the_same_rows_and_holes_and_no_others(data, store, spied):
    protocol = tiny(Method("a", Spy()), Method("b", Spy(note="x")), datasets=("one",))
    assert run(protocol, store).done == 8
    for first, second in zip(spied[::2], spied[1::2], strict=True):
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])
        assert first[2] == second[2]
    complete, hidden = spied[0], spied[2]
    np.testing.assert_array_equal(complete[0], hidden[0])  # the split is the same at all rates
    known = ~np.isnan(hidden[1])
    assert not np.isnan(complete[1]).any()
    assert 0.4 <= known.mean() < 0.7
    np.testing.assert_array_equal(hidden[1][known], complete[1][known])
    assert not np.array_equal(spied[0][0], spied[4][0])  # the next repetition
    assert len({seed for *_, seed in spied}) == 4  # two rates, two repetitions
    rows = store.rows()
    assert {row["metrics"]["default"]["hamming_loss"] for row in rows} == {None}  # no predict
    assert all(row["metrics"]["default"]["ranking_loss"] is not None for row in rows)


def test_open_random_states_get_the_seed_and_others_keep_theirs():
    folds = (MultilabelKFold(3), MultilabelShuffleSplit(2), MultilabelKFold(3, shuffle=False))
    for cv in folds:
        estimator = grid(cv=cv)
        model = seeded(estimator, 17)
        inner = model.get_params()["estimator__onevsrestmasked__estimator__random_state"]
        assert inner == 17
        assert model.cv.random_state == (17 if getattr(cv, "shuffle", True) else None)
        assert estimator.cv.random_state is None
        assert estimator.estimator[-1].estimator.random_state is None
    assert seeded(grid(cv=KFold(3, shuffle=True, random_state=5)), 17).cv.random_state == 5
    assert seeded(Spy(random_state=3), 17).random_state == 3
    assert seeded(MaskedRidgeClassifier(), 17).alpha == MaskedRidgeClassifier().alpha


def test_chosen_parameters_and_iterations_are_kept(data):
    pipeline = make_pipeline(StandardScaler(), SEARCH.estimator)
    staged = make_pipeline(StandardScaler(), StagedSearch(SEARCH.estimator))
    found = (pipeline, staged, HolesAreNegatives(pipeline), HolesAreNegatives(staged))
    inside = [Method(f"inside {number}", model) for number, model in enumerate(found)]
    protocol = tiny(SEARCH, *inside, RIDGE, datasets=("one",))
    for cell in protocol.cells(repetitions=1, rates=[0.4]):
        row = run_cell(protocol, cell)
        if cell.method == "ridge":
            assert row["chosen"] is None
            continue
        assert row["chosen"]["lambda_d"] in (0.0, 0.5)
        assert row["chosen"]["alpha"] in (0.1, 10.0)
        assert isinstance(row["n_iter"], int)
        assert isinstance(row["n_evaluations"], int)
        assert row["parameters"] == json.loads(protocol.method(cell.method, cell.dataset).settings)


class Noisy(Spy):
    def fit(self, X, Y):
        for _ in range(3):
            warnings.warn("of its own", UserWarning, stacklevel=1)
        return super().fit(X, Y)


def test_warnings_are_counted_and_stay_inside(data, spied):
    protocol = tiny(Method("noisy", Noisy()))
    row = run_cell(protocol, next(protocol.cells()))
    assert row["warnings"] == {"UserWarning: of its own": 3}


def test_sparse_features_stay_sparse_and_torch_gets_dense_ones(data, store, spied):
    torch = pytest.importorskip("torch")
    X, Y = make_missing_multilabel(60, 8, 5, rho=1.0, random_state=3)
    X = sp.csr_array(np.where(X > 0, X, 0))
    parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr, "X_shape": X.shape}
    np.savez(data / "sparse.npz", Y=Y, **parts)
    model = Method("model", MaskedRidgeClassifier(), follows_x=True)
    methods = (Method("follows", Spy(note="f"), follows_x=True), Method("stays", Spy()), model)
    protocol = tiny(*methods, datasets=("one", "sparse"), repetitions=1, rates=(1.0,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spy, "decision_function", lambda self, X: np.zeros((X.shape[0], 5)))
        run(protocol, store, device="cpu")
    one, plain, sparse, plain_sparse = (X for X, *_ in spied)
    for tensor, array in ((one, plain), (sparse, plain_sparse.toarray())):
        assert home(tensor) == "torch on cpu"
        assert tensor.dtype == torch.float64
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert isinstance(plain, np.ndarray)
    assert sp.issparse(plain_sparse)
    rows = store.rows(methods=["model"])
    without = [run_cell(protocol, Cell(*(row[n] for n in Cell.__annotations__))) for row in rows]
    for row, other in zip(rows, without, strict=True):
        assert row["status"] == "done"
        assert row["metrics"]["default"] == pytest.approx(other["metrics"]["default"], abs=1e-9)
    assert json.loads(json.dumps(rows[0]["machine"]))["device"] == "cpu"


# -- nothing leaks ------------------------------------------------------------------------------


def flipped(folder, target, changed):
    """The archive with some labels turned around, in another folder."""
    target.mkdir(exist_ok=True)
    with np.load(folder / "one.npz") as file:
        X, Y = file["X"], file["Y"].copy()
    Y[changed] = 1 - Y[changed]
    np.savez(target / "one.npz", X=X, Y=Y)


@pytest.mark.parametrize("mask", ["uniform", "per_row", "per_label"])
def test_hidden_training_labels_change_nothing(data, tmp_path, monkeypatch, mask):
    protocol = tiny(RIDGE, SEARCH, datasets=("one",), rates=(0.4,), masks=(mask,), repetitions=1)
    cells = list(protocol.cells())
    with np.load(data / "one.npz") as file:
        Y = file["Y"]
    train, _ = split_rows(cells[0].split_seed, len(Y), protocol.test_size)
    hide = protocol_module.MASKS[mask]
    seed = {"random_state": cells[0].mask_seed}
    _, kept = hide(Y[train], 0.4, return_mask=True, **seed)
    hidden = np.zeros(Y.shape, dtype=bool)
    hidden[train] = ~kept
    assert hidden.sum() > 50

    before = [run_cell(protocol, cell) for cell in cells]
    flipped(data, tmp_path / "flipped", hidden)
    monkeypatch.setenv("DM2L_DATA", str(tmp_path / "flipped"))
    if mask != "uniform":
        # These choose what to hide by the labels themselves, so that the choice is kept by force.
        monkeypatch.setitem(
            protocol_module.MASKS, mask, lambda Y, rate, **_: np.where(kept, Y, np.nan)
        )
    after = [run_cell(protocol, cell) for cell in cells]
    assert after[0]["data"] != before[0]["data"]
    assert lasting(after, "data") == lasting(before, "data")
    assert after[1]["chosen"] is not None

    # The test can fail: one observed label turned around is noticed.
    observed = np.zeros(Y.shape, dtype=bool)
    observed[train] = kept & (np.cumsum(kept).reshape(kept.shape) <= 5)
    flipped(data, tmp_path / "observed", observed)
    monkeypatch.setenv("DM2L_DATA", str(tmp_path / "observed"))
    assert run_cell(protocol, cells[0])["scores"] != before[0]["scores"]


def test_test_labels_change_metrics_and_not_the_model(data, tmp_path, monkeypatch):
    protocol = tiny(RIDGE, SEARCH, datasets=("one",), rates=(0.4,), repetitions=1)
    cells = list(protocol.cells())
    _, test = split_rows(cells[0].split_seed, 60, protocol.test_size)
    before = [run_cell(protocol, cell) for cell in cells]
    changed = np.zeros((60, 5), dtype=bool)
    changed[test[:8]] = True
    flipped(data, tmp_path / "flipped", changed)
    monkeypatch.setenv("DM2L_DATA", str(tmp_path / "flipped"))
    for cell, old in zip(cells, before, strict=True):
        new = run_cell(protocol, cell)
        assert lasting([new], "data", "metrics") == lasting([old], "data", "metrics")
        for convention in new["metrics"]:
            for name, value in new["metrics"][convention].items():
                assert value != old["metrics"][convention][name], name


# -- copies of rows -----------------------------------------------------------------------------


def test_copies_are_counted_and_can_be_kept_together(data):
    X, Y = make_missing_multilabel(30, 8, 5, rho=1.0, random_state=3)
    archive(data, "copies", X=np.vstack([X, X]), Y=np.vstack([Y, Y]))
    free = tiny(RIDGE, datasets=("copies",))
    together = replace(free, name="honest", keep_copies_together=True)
    for cell in free.cells():
        train, test = split_rows(cell.split_seed, 60, 0.4)
        twins = sum((X[i % 30] == X[train % 30]).all(axis=1).any() for i in test)
        assert run_cell(free, cell)["n_copies"] == twins > 0
    for cell in together.cells():
        row = run_cell(together, cell)
        assert row["n_copies"] == 0
        assert (row["n_train"], row["n_test"]) == (36, 24)
        assert row["split"] == "test_size=0.4, copies together"


# -- many cells ---------------------------------------------------------------------------------


def test_run_stores_every_cell_once_and_runs_only_what_is_missing(data, store, spied):
    protocol = tiny(Method("spy", Spy()), datasets=("one", "two"))
    part = run(protocol, store, datasets=["two"], rates=[0.4])
    assert (part.done, part.failed, part.total, part.remaining) == (2, 0, 2, 0.0)
    steps = []
    whole = run(protocol, store, progress=steps.append)
    assert (whole.done, whole.total, len(spied)) == (8, 8, 8)
    assert [step.done for step in steps] == [2, 3, 4, 5, 6, 7, 8]
    assert steps[0].cell is None
    assert {step.cell for step in steps[1:]} | set(store.states()) == set(protocol.cells())
    assert run(protocol, store) == replace(steps[0], done=8, remaining=0.0)
    assert len(spied) == 8
    assert len({row["run"] for row in store.rows()}) == 2
    versions, machine = store.rows()[0]["versions"], store.rows()[0]["machine"]
    assert versions["numpy"] == np.__version__
    assert set(versions) == {"python", "dm2l", "numpy", "scipy", "scikit-learn", "torch"}
    assert machine["cpus"] == os.cpu_count()


class Moody(MaskedRidgeClassifier):
    error: BaseException | None = ValueError("not today")

    def fit(self, X, Y, label_mask=None):
        if self.error is not None:
            raise self.error
        return super().fit(X, Y, label_mask)


def test_failures_are_stored_stop_nothing_and_can_be_tried_again(data, store, monkeypatch):
    protocol = tiny(Method("moody", Moody()), RIDGE, datasets=("one",))
    steps = []
    end = run(protocol, store, progress=steps.append)
    assert (end.done, end.failed, end.total) == (4, 4, 8)
    row = store.rows(methods=["moody"])[0]
    assert row["status"] == "failed"
    assert row["error"] == "ValueError: not today"
    assert row["metrics"] is None
    assert row["n_train"] == 36
    assert steps[1].error == row["error"]

    assert run(protocol, store).failed == 4  # left alone
    with pytest.raises(ValueError, match="not today"):
        run_cell(protocol, next(protocol.cells()))
    monkeypatch.setattr(Moody, "error", MemoryError("too big"))
    assert run(protocol, store, retry_failed=True).failed == 4
    assert store.rows(methods=["moody"])[0]["error"] == "MemoryError: too big"
    monkeypatch.setattr(Moody, "error", SystemExit(3))
    assert run(protocol, store, retry_failed=True).failed == 4
    assert store.rows(methods=["moody"])[0]["error"] == "SystemExit: 3"
    monkeypatch.setattr(Moody, "error", None)
    end = run(protocol, store, retry_failed=True)
    assert (end.done, end.failed) == (8, 0)
    assert set(store.states().values()) == {"done"}


def test_interrupt_leaves_what_was_stored_and_a_resumed_run_ends_the_same(data, store, tmp_path):
    protocol = tiny()

    def stop(step):
        if step.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(protocol, store, progress=stop)
    assert len(store.rows()) == 5
    run(protocol, store)
    with Store(tmp_path / "undisturbed.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


@pytest.mark.slow
def test_processes_give_the_rows_of_one(data, store, tmp_path):
    elsewhere = replace(BROKEN, sets=("two",))
    protocol = tiny(RIDGE, SEARCH, elsewhere, masks=("per_row", "uniform"))
    end = run(protocol, store, n_jobs=2)
    assert (end.done, end.failed) == (24, 6)
    with Store(tmp_path / "alone.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


def test_data_set_that_is_not_there_stops_the_run_before_any_fit(data, store, spied):
    protocol = tiny(Method("spy", Spy()), datasets=("one", "absent"))
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        run(protocol, store)
    assert spied == []
    assert run(protocol, store, datasets=["one"]).done == 4


def test_results_of_another_split_or_of_other_data_are_not_mixed(data, store, monkeypatch):
    run(tiny(RIDGE), store, repetitions=1)
    with pytest.raises(ValueError, match=r"test_size=0\.5"):
        run(tiny(RIDGE, test_size=0.5), store)
    (data / "new").mkdir()
    archive(data / "new", "one", 99)
    archive(data / "new", "two", 2, n=70)
    monkeypatch.setenv("DM2L_DATA", str(data / "new"))
    with pytest.raises(ValueError, match="contents of data set 'one'"):
        run(tiny(RIDGE), store)
    assert run(tiny(RIDGE), store, datasets=["two"]).done == 4


def test_other_settings_are_other_cells(data, store):
    protocol = tiny(RIDGE, datasets=("one",))
    run(protocol, store)
    changed = tiny(replace(RIDGE, estimator=MaskedRidgeClassifier(alpha=3.0)), datasets=("one",))
    assert status(changed, store) == {
        "done": 0,
        "failed": 0,
        "pending": 4,
        "outdated": 4,
        "remaining": pytest.approx(sum(row["seconds"] for row in store.rows())),
        "groups": [{"dataset": "one", "method": "ridge", "done": 0, "failed": 0, "pending": 4}],
    }
    assert run(changed, store).done == 4
    assert len(store.rows()) == 8
    assert len(store.rows(changed)) == 4


def test_remaining_time_is_judged_by_the_same_method_on_the_same_data_or_on_other(store):
    protocol = tiny(RIDGE, SEARCH, repetitions=3)
    for cell in protocol.cells(repetitions=1):
        seconds = {("one", "ridge"): 1.0, ("one", "search"): 10.0, ("two", "ridge"): 2.0}
        if (cell.dataset, cell.method) in seconds:
            spent = seconds[cell.dataset, cell.method]
            store.add(cell, {"status": "done", "run": "r", "seconds": spent})
    # Two more repetitions of two rates, and all three of "search" on "two", as long as on "one".
    assert status(protocol, store)["remaining"] == pytest.approx(
        4 * 1.0 + 4 * 10.0 + 4 * 2.0 + 6 * 10.0
    )
    assert status(protocol, store, datasets=["one"])["remaining"] == pytest.approx(44.0)


def test_protocols_are_found_by_name(monkeypatch):
    monkeypatch.setattr(protocol_module, "_registered", {})
    with pytest.raises(ValueError, match="no protocol 'tiny'"):
        get_protocol("tiny")
    register(tiny())
    assert get_protocol("tiny") is protocols()["tiny"]
    register(tiny(RIDGE))
    assert len(get_protocol("tiny").methods) == 1


# -- killed -------------------------------------------------------------------------------------

# The protocol as a program of its own, so that it can be killed as one.
PROGRAM = """
from dm2l import DM2LClassifierCV
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, register

search = DM2LClassifierCV(lambda_ds=[0.0, 1.0], alphas=[0.1, 1.0], cv=2)
PROTOCOL = Protocol(
    "tiny",
    ("one", "two"),
    (Method("ridge", MaskedRidgeClassifier()), Method("search", search)),
    rates=(1.0, 0.4),
    masks=("per_row", "uniform"),
    repetitions=3,
)
register(PROTOCOL)
if __name__ == "__main__":
    from dm2l_lab.cli._experiment import experiment

    experiment()
"""


def stored(path):
    """How many rows another process has stored so far."""
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return 0
    try:
        return database.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        database.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("jobs", [1, 2])
def test_kill_at_any_moment_and_restart_end_with_the_same_table(data, tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(protocol_module, "_registered", {})  # the program registers one
    program, path = tmp_path / "program.py", tmp_path / "killed.db"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), "run", "tiny", "--store", str(path)]
    command += ["--jobs", str(jobs)]
    rng, counts = random.Random(jobs), [0]
    for more in (1, 9) if jobs == 1 else (8,):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while stored(path) < counts[-1] + more and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        counts.append(stored(path))
    assert counts == sorted(counts)
    assert 0 < counts[1] <= counts[-1] < 36

    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "36 of 36 cells done" in finished.stdout
    protocol = runpy.run_path(str(program))["PROTOCOL"]
    with Store(path, read_only=True) as killed, Store(tmp_path / "undisturbed.db") as undisturbed:
        run(protocol, undisturbed)
        assert lasting(killed.rows(), "machine") == lasting(undisturbed.rows(), "machine")
        assert set(killed.states()) == set(protocol.cells())
        assert len({row["run"] for row in killed.rows()}) == len(counts)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_cells_that_end_their_process_fail_and_stop_no_other(data, store):
    protocol = tiny(Method("fatal", Fatal()), RIDGE, datasets=("one",), repetitions=1)
    steps = []
    end = run(protocol, store, n_jobs=2, progress=steps.append)
    assert (end.done, end.failed, end.total) == (2, 2, 4)
    assert len(steps) == 5
    assert set(store.states()) == set(protocol.cells())
    for row in store.rows():
        assert row["status"] == ("failed" if row["method"] == "fatal" else "done")
        assert row["n_train"] == 36
    (error,) = {row["error"] for row in store.rows(status="failed")}
    assert "SIGKILL" in error
    assert run(protocol, store, n_jobs=2).failed == 2
    # The last one, too, has a process of its own.
    assert run(protocol, store, methods=["fatal"], rates=[0.4], repetitions=1, n_jobs=2,
               retry_failed=True).failed == 1  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_process_that_is_killed_once_costs_nothing_but_time(data, store, tmp_path):
    unlucky = Method("unlucky", Fatal(file=str(tmp_path / "killed")))
    protocol = tiny(unlucky, RIDGE, datasets=("one",))
    end = run(protocol, store, n_jobs=2)
    assert (end.done, end.failed) == (8, 0)
    with Store(tmp_path / "alone.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_processes_killed_from_outside_lose_and_repeat_no_row(data, store):
    psutil = pytest.importorskip("psutil")
    before = set(psutil.Process().children(recursive=True))
    killed = []

    def kill(step):
        for process in set(psutil.Process().children(recursive=True)) - before:
            # Any of them may end, or be a zombie, by now.
            with contextlib.suppress(psutil.NoSuchProcess):
                if len(killed) < 3 and "dm2l_lab._processes" in " ".join(process.cmdline()):
                    process.kill()
                    killed.append(process)

    end = run(tiny(), store, n_jobs=2, progress=kill)
    assert len(killed) == 3
    assert (end.done, end.failed) == (16, 0)
    assert set(store.states()) == set(tiny().cells())


BEATING = """
import pathlib, sys, time
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, Store, run

class Beating(MaskedRidgeClassifier):
    def fit(self, X, Y, label_mask=None):
        for beat in range(600):
            pathlib.Path(sys.argv[1]).write_text(str(beat))
            time.sleep(0.1)

if __name__ == "__main__":
    protocol = Protocol("tiny", ("one",), (Method("beating", Beating()),), repetitions=2)
    with Store(":memory:") as store:
        run(protocol, store, n_jobs=2)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_workers_end_with_the_process_that_asked_for_them(data, tmp_path):
    program, beats = tmp_path / "program.py", tmp_path / "beats"
    program.write_text(BEATING.replace("sys.argv[1]", repr(str(beats))))
    process = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.DEVNULL)
    while not beats.exists() and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    still_for = 0.0
    last, end = "", time.monotonic() + 30
    while still_for < 2.0 and time.monotonic() < end:
        time.sleep(0.5)
        now = beats.read_text()
        still_for = still_for + 0.5 if now == last else 0.0
        last = now
    assert still_for >= 2.0


@pytest.mark.slow
def test_a_cluster_gives_the_rows_of_one_process(data, store, tmp_path):
    distributed = pytest.importorskip("distributed")
    protocol = tiny(RIDGE, SEARCH, datasets=("one",))
    with distributed.Client(**LOCAL, n_workers=2):
        end = run(protocol, store, backend="dask")
    assert end.failed == 0
    with Store(tmp_path / "alone.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


def test_unknown_backends_and_clusters_that_are_not_there_are_refused(data, store):
    with pytest.raises(ValueError, match="backend must be 'processes' or 'dask', got 'mpi'"):
        run(tiny(RIDGE), store, backend="mpi")
    pytest.importorskip("distributed", reason="dask is an extra: pip install 'dm2l[scale]'")
    with pytest.raises(ValueError, match="client"):
        run(tiny(RIDGE), store, backend="dask")
    distributed = pytest.importorskip("distributed")
    threads = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "protocol": "tcp"}
    with (
        distributed.Client(**(LOCAL | threads)),
        pytest.raises(ValueError, match="one thread each"),
    ):
        run(tiny(RIDGE), store, backend="dask")


def test_a_cluster_on_this_machine_listens_to_nobody_else():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(**LOCAL, n_workers=1, processes=False, protocol="tcp") as client:
        scheduler = client.cluster.scheduler
        servers = [*scheduler.http_server._sockets.values()]
        servers += [listener for worker in client.cluster.workers.values()
                    for listener in worker.http_server._sockets.values()]  # fmt: skip
        assert {server.getsockname()[0] for server in servers} == {"127.0.0.1"}
        addresses = [scheduler.address, *scheduler.workers]
        assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)
