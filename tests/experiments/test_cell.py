"""A cell learns from observed training labels alone."""

import hashlib
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l._utils.arrays import device_name
from dm2l.baselines import MaskedRidgeClassifier, ZeroFillClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import hamming_loss, label_ranking_average_precision, ranking_loss
from dm2l.model_selection import MultilabelKFold, MultilabelShuffleSplit
from dm2l.simulate import simulate_per_row
from experiments import protocols as protocol_module
from experiments.cell import CONVENTIONS, run_cell, seeded, split_rows
from experiments.protocols import Method
from experiments.published import MEASURES
from experiments.staged import StagedSearch
from small_experiments import RIDGE, SEARCH, Spy, archive, grid, lasting, tiny


def test_cell_is_what_the_same_steps_give_by_hand(data):
    protocol = tiny(RIDGE, rates=(0.4,), masks=("per_row",))
    _, cell = protocol.cells(datasets=["one"], repetitions=2)
    row = run_cell(protocol, cell)

    with np.load(data / "one.npz") as file:
        X, Y = file["X"], file["Y"]
    order = np.random.RandomState(cell.split_seed).permutation(60)
    train, test = order[:36], order[36:]
    hidden = simulate_per_row(Y[train], 0.4, random_state=cell.mask_seed)
    model = MaskedRidgeClassifier(alpha=1.0).fit(X[train], hidden)
    scores = model.decision_function(X[test])

    assert row["published_ranking_loss"] == ranking_loss(Y[test], scores, convention="published")
    assert row["default_average_precision"] == label_ranking_average_precision(Y[test], scores)
    assert row["default_hamming_loss"] == hamming_loss(Y[test], model.predict(X[test]))
    measured = {f"{convention}_{m.metric}" for convention in CONVENTIONS for m in MEASURES}
    assert measured <= set(row)
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
        assert row[f"published_{name}"] != row[f"default_{name}"]
    for name in ("label_auc", "one_error", "hamming_loss"):
        assert row[f"published_{name}"] == row[f"default_{name}"]


def test_methods_of_a_repetition_see_the_same_rows_and_missing_labels_and_no_others(data, spied):
    methods = Method("a", Spy), Method("b", Spy, {"note": "x"})
    protocol = tiny(*methods, datasets=("one",))
    rows = [run_cell(protocol, cell) for cell in protocol.cells()]
    assert len(rows) == 8
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
    assert {row["default_hamming_loss"] for row in rows} == {None}  # no predict
    assert all(row["default_ranking_loss"] is not None for row in rows)


def test_open_random_states_get_the_seed_and_others_keep_theirs():
    folds = (MultilabelKFold(3), MultilabelShuffleSplit(2), MultilabelKFold(3, shuffle=False))
    for cv in folds:
        estimator = grid(cv=cv)
        model = seeded(Method("m", lambda made=estimator: made), 17)
        inner = model.get_params()["estimator__maskedonevsrestclassifier__estimator__random_state"]
        assert inner == 17
        assert model.cv.random_state == (17 if getattr(cv, "shuffle", True) else None)
        assert estimator.cv.random_state is None
        assert estimator.estimator[-1].estimator.random_state is None
    folds = {"cv": KFold(3, shuffle=True, random_state=5)}
    assert seeded(Method("m", grid, folds), 17).cv.random_state == 5
    assert seeded(Method("m", Spy, {"random_state": 3}), 17).random_state == 3
    ridge = seeded(Method("m", MaskedRidgeClassifier), 17)
    assert ridge.alpha == MaskedRidgeClassifier().alpha


def test_chosen_parameters_and_iterations_are_kept(data):
    pipeline = make_pipeline(StandardScaler(), SEARCH.estimator)
    staged = make_pipeline(StandardScaler(), StagedSearch(SEARCH.estimator))
    found = (pipeline, staged, ZeroFillClassifier(pipeline), ZeroFillClassifier(staged))
    inside = [
        Method(f"inside {number}", lambda made=model: made) for number, model in enumerate(found)
    ]
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
        assert row["settings"] == protocol.method(cell.method, cell.dataset).settings


class Noisy(Spy):
    def fit(self, X, Y):
        for _ in range(3):
            warnings.warn("of its own", UserWarning, stacklevel=1)
        return super().fit(X, Y)


def test_warnings_are_counted_and_stay_inside(data, spied):
    protocol = tiny(Method("noisy", Noisy))
    row = run_cell(protocol, next(protocol.cells()))
    assert row["warnings"] == {"UserWarning: of its own": 3}


def test_sparse_features_stay_sparse_and_torch_gets_dense_ones(data, spied):
    torch = pytest.importorskip("torch")
    X, Y = make_missing_multilabel(60, 8, 5, rho=1.0, random_state=3)
    X = sp.csr_array(np.where(X > 0, X, 0))
    parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr, "X_shape": X.shape}
    np.savez(data / "sparse.npz", Y=Y, **parts)
    model = Method("model", MaskedRidgeClassifier, on_device=True)
    follows = Method("follows", Spy, {"note": "f"}, on_device=True)
    methods = (follows, Method("stays", Spy), model)
    protocol = tiny(*methods, datasets=("one", "sparse"), repetitions=1, rates=(1.0,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spy, "decision_function", lambda self, X: np.zeros((X.shape[0], 5)))
        for cell in protocol.cells(methods=["follows", "stays"]):
            run_cell(protocol, cell, "cpu")
    one, plain, sparse, plain_sparse = (X for X, *_ in spied)
    for tensor, array in ((one, plain), (sparse, plain_sparse.toarray())):
        assert device_name(tensor) == "torch on cpu"
        assert tensor.dtype == torch.float64
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert isinstance(plain, np.ndarray)
    assert sp.issparse(plain_sparse)
    for cell in protocol.cells(methods=["model"]):
        row, other = run_cell(protocol, cell, "cpu"), run_cell(protocol, cell)
        for name in ("ranking_loss", "average_precision", "label_auc", "hamming_loss"):
            assert row[f"default_{name}"] == pytest.approx(other[f"default_{name}"], abs=1e-9)


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
        measured = [name for name in new if name.startswith(("published_", "default_"))]
        assert lasting([new], "data", *measured) == lasting([old], "data", *measured)
        assert len(measured) == 14
        for name in measured:
            assert new[name] != old[name], name


# -- copies of rows -----------------------------------------------------------------------------


def test_copies_are_counted_and_can_be_kept_together(data):
    X, Y = make_missing_multilabel(30, 8, 5, rho=1.0, random_state=3)
    archive(data, "copies", X=np.vstack([X, X]), Y=np.vstack([Y, Y]))
    free = tiny(RIDGE, datasets=("copies",))
    together = replace(free, name="tuned", keep_copies_together=True)
    for cell in free.cells():
        train, test = split_rows(cell.split_seed, 60, 0.4)
        twins = sum((X[i % 30] == X[train % 30]).all(axis=1).any() for i in test)
        assert run_cell(free, cell)["n_copies"] == twins > 0
    for cell in together.cells():
        row = run_cell(together, cell)
        assert row["n_copies"] == 0
        assert (row["n_train"], row["n_test"]) == (36, 24)
        assert row["split"] == "test_size=0.4, copies together"
