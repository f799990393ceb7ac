"""Fits on a cluster against fits in one process, with workers that get lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from cloudpickle import dumps
from threadpoolctl import ThreadpoolController

from dm2l import DM2LClassifier
from dm2l._utils.arrays import blas_thread_count
from dm2l.datasets import make_missing_multilabel
from dm2l.outofcore import RowBlocks, _fits
from dm2l.outofcore._gram_problem import gradient_sums, score_sums
from running_commands import METHOD, preload

dask = pytest.importorskip("dask", reason="dask is an extra: pip install 'dm2l[scale]'")
da = pytest.importorskip("dask.array", reason="dask is an extra: pip install 'dm2l[scale]'")
distributed = pytest.importorskip("distributed", reason="an extra: pip install 'dm2l[scale]'")

from dm2l.outofcore.cluster import DaskBlocks  # noqa: E402

ROWS, BLOCK, WORKERS = 600, 75, 2
# Coupling, which takes longer than the rest on so few rows, has tests of its own. Fits take the
# same steps everywhere, however many they are.
uncoupled = partial(DM2LClassifier, coupling=None, tol=1e-3)


def forked_workers():
    """Settings without which workers load the library themselves, also when they come back."""
    settings = dask.config.set({"distributed.worker.multiprocessing-method": METHOD})
    distributed.utils.get_mp_context()  # names what to load, once, and nothing of this library
    preload()
    return settings


@pytest.fixture(scope="module")
def client():
    with (
        forked_workers(),
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def data():
    return make_missing_multilabel(n_samples=ROWS, n_features=12, n_labels=6, random_state=0)


def chunked(X, Y, rows=BLOCK, **options):
    return DaskBlocks(da.from_array(X, (rows, -1)), da.from_array(Y, (rows, -1)), **options)


def gap(model, other, X):
    return abs(model.decision_function(X) - other.decision_function(X)).max()


@pytest.fixture
def moved(monkeypatch):
    """Sizes of the functions that workers get and of the sums that they return."""
    sizes, plain = [], DaskBlocks._sum

    def measured(self, tasks, function):
        total = plain(self, tasks, function)
        sizes.append((len(dumps(function)), len(dumps(total))))
        return total

    monkeypatch.setattr(DaskBlocks, "_sum", measured)
    return sizes


# First, because the others have one.
def test_without_a_client_it_says_so():
    with pytest.raises(ValueError, match=r"There is no dask client\. Create one"):
        DaskBlocks(da.ones((4, 2)), da.ones((4, 2)))


@pytest.mark.parametrize("strategy", ["statistics", "passes", "memory", "auto"])
@pytest.mark.parametrize("keep", [True, False])
def test_workers_give_the_answer_of_one_process(client, data, strategy, keep):
    X, Y = data
    there = uncoupled(strategy=strategy).fit(chunked(X, Y, keep=keep))
    here = uncoupled().fit(X, Y)
    assert gap(there, here, X) < 1e-8
    np.testing.assert_array_equal(there.predict(X), here.predict(X))


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
@pytest.mark.parametrize("most", [20_000, 150])
def test_labels_are_coupled_as_in_one_process(client, data, strategy, most, monkeypatch):
    monkeypatch.setattr(_fits, "MAX_ROWS", most)
    X, Y = data
    order = np.random.default_rng(0).permutation(len(Y))
    there = DM2LClassifier(strategy=strategy).fit(chunked(X, Y))
    here = DM2LClassifier(strategy=strategy).fit(RowBlocks.from_arrays(X[order], Y[order]))
    if most > ROWS:
        here = DM2LClassifier().fit(X, Y)
    for method in ("decision_function", "predict_proba"):
        found, expected = (model.complete(X, Y, method=method) for model in (there, here))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        there.label_covariance_.matrix(), here.label_covariance_.matrix(), rtol=0, atol=1e-8
    )


def test_few_rows_travel_for_the_sample(client, data, monkeypatch, moved):
    X, Y = data
    for most in (0, 20_000, 50):
        monkeypatch.setattr(_fits, "MAX_ROWS", most)
        DM2LClassifier(max_iter=1, tol=1.0, strategy="statistics").fit(chunked(X, Y))
    sizes = [back for _, back in moved]
    row = 8 * (X.shape[1] + 4 * Y.shape[1])
    assert sizes[1] > sizes[0] + ROWS * 8 * X.shape[1]
    # Those that are sure to be enough.
    assert sizes[2] < sizes[0] + 3 * 50 * row


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_randomised_features_are_those_of_the_same_blocks_here(client, data, approximation):
    X, Y = data
    Y = Y.copy()
    Y[:, 2] = np.where(np.isnan(Y[:, 2]), np.nan, 0)  # constant: not learnt
    settings = {"approximation": approximation, "n_components": 40, "random_state": 0}
    model = uncoupled(kernel="rbf", **settings)
    with pytest.warns(UserWarning, match="one observed class"):
        here = model.set_params(strategy="passes").fit(RowBlocks.from_arrays(X, Y, rows=BLOCK))
    with pytest.warns(UserWarning, match="one observed class"):
        there = uncoupled(kernel="rbf", **settings, strategy="passes").fit(chunked(X, Y))
    assert gap(there, here, X) < 1e-8


def test_traffic_of_an_evaluation_does_not_depend_on_the_number_of_rows(client, data, moved):
    X, Y = data
    d, c = X.shape[1] + 1, Y.shape[1]
    W = np.random.default_rng(0).standard_normal((d, c))
    grams = np.zeros((c + 1, c, c))
    for times in (1, 5):
        blocks = chunked(np.tile(X, (times, 1)), np.tile(Y, (times, 1)), rows=times * BLOCK)
        blocks.reducer()(partial(score_sums, W=W, intercept=True))
        blocks.reducer()(partial(gradient_sums, W=W, factors=grams, intercept=True))
    assert moved[:2] == moved[2:]
    # Workers get the weights twice and the factors once, and return Gram matrices and loss, then
    # a gradient. What a message has besides is little.
    numbers = [(d * c, (c + 1) * c * c + 1), (d * c + (c + 1) * c * c, d * c)]
    for sizes, expected in zip(moved[:2], numbers, strict=True):
        for size, count in zip(sizes, expected, strict=True):
            assert 8 * count <= size <= 8 * count + 1000


def test_rows_of_labels_that_cannot_be_learnt_stay_out_whatever_a_block_shows(client):
    """Many kinds of rows wait in every block for a label that only other blocks settle."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 10))
    truth = X @ rng.standard_normal((10, 20)) + 0.5 * rng.standard_normal((800, 20)) > 0
    Y = np.full((800, 20), np.nan)
    Y[truth & (rng.random(Y.shape) < 0.15)] = 1
    Y[~truth & (rng.random(Y.shape) < 0.02)] = 0
    Y[:, 0] = np.where(truth[:, 0], 1, np.nan)  # never negative
    with pytest.warns(UserWarning, match="one observed class"):
        here = uncoupled(strategy="memory").fit(X, Y)
    for strategy in ("statistics", "passes"):
        for blocks in (chunked(X, Y, rows=100), RowBlocks.from_arrays(X, Y, rows=50)):
            with pytest.warns(UserWarning, match="one observed class"):
                found = uncoupled(strategy=strategy).fit(blocks)
            assert gap(found, here, X) < 1e-6


@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
def test_partitions_without_rows(client, data, approximation):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, Y = data
    table = pd.DataFrame(np.hstack([X, Y]))
    table.columns = [f"x{i}" for i in range(X.shape[1])] + [f"y{i}" for i in range(Y.shape[1])]
    table["day"] = np.arange(ROWS) // 100
    frame = dd.from_pandas(table, npartitions=6)
    frame = frame[(frame.day > 0) & (frame.day != 3)]
    labels = [name for name in table if name.startswith("y")]
    features = [name for name in table if name.startswith("x")]
    kept = table[(table.day > 0) & (table.day != 3)]
    settings = {} if approximation is None else {"kernel": "rbf", "n_components": 30}
    model = uncoupled(approximation=approximation, random_state=0, gamma=0.1, **settings)
    there = model.set_params(strategy="passes").fit(DaskBlocks(frame[features], frame[labels]))
    scores = there.decision_function(kept[features])
    source = RowBlocks.from_arrays(kept[features].to_numpy(), kept[labels].to_numpy(), rows=100)
    here = uncoupled(approximation=approximation, random_state=0, gamma=0.1, **settings)
    here.set_params(strategy="passes").fit(source)
    assert abs(scores - here.decision_function(kept[features].to_numpy())).max() < 1e-8


def test_a_failed_fit_leaves_nothing_on_the_workers(client, data):
    X, Y = data
    mixed = np.where(np.isnan(Y), Y, 2 * Y - 1)
    mixed[:-BLOCK] = Y[:-BLOCK]
    for _ in range(2):
        with pytest.raises(ValueError, match="codes negatives"):
            uncoupled().fit(chunked(X, mixed))
        end = time.monotonic() + 10
        while any(client.has_what().values()) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(client.has_what().values())


def test_blocks_leave_the_workers_with_their_last_name(client, data):
    X, Y = data
    blocks = chunked(X, Y)
    uncoupled().fit(blocks)
    assert any(client.has_what().values())
    del blocks
    end = time.monotonic() + 10
    while any(client.has_what().values()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(client.has_what().values())


def test_threads_of_a_process_get_their_blas_back(data):
    X, Y = data
    with ThreadpoolController().limit(limits=2, user_api="blas"):  # tests may have one anyway
        with distributed.Client(n_workers=2, processes=False, dashboard_address=":0") as client:
            uncoupled(strategy="passes").fit(chunked(X, Y, client=client))
        assert blas_thread_count() == 2


def test_asynchronous_clients_are_refused(client, data):
    X, Y = data

    async def try_it(address):
        async with distributed.Client(address, asynchronous=True) as client:
            with pytest.raises(ValueError, match="asynchronous=False"):
                chunked(X, Y, client=client)

    asyncio.run(try_it(client.scheduler.address))


def test_what_a_worker_can_hold_bounds_the_statistics(client, data):
    blocks = chunked(*data)
    limits = [w["memory_limit"] for w in client.scheduler_info(n_workers=-1)["workers"].values()]
    assert blocks.result_limit() == min(limits) / 11
    assert blocks.n_rows == ROWS


def test_data_frames(client, data):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, Y = data
    table = pd.DataFrame(np.hstack([X, Y]))
    table.columns = [f"x{i}" for i in range(X.shape[1])] + [f"y{i}" for i in range(Y.shape[1])]
    labels = [name for name in table if name.startswith("y")]
    frame = dd.from_pandas(table, npartitions=5)
    blocks = DaskBlocks(frame.drop(columns=labels), frame[labels])
    model = uncoupled().fit(blocks)
    here = uncoupled().fit(table.drop(columns=labels), table[labels])
    assert list(model.feature_names_in_) == list(here.feature_names_in_)
    assert gap(model, here, table.drop(columns=labels)) < 1e-8
    assert list(model.label_names_) == labels


def test_a_mask_and_sparse_rows(client, data):
    X, Y = data
    mask = np.random.default_rng(0).random(Y.shape) < 0.8
    rows = da.from_array(X, (BLOCK, -1)).map_blocks(sp.csr_matrix)
    blocks = DaskBlocks(
        rows, da.from_array(Y, (BLOCK, -1)), da.from_array(mask, (BLOCK, -1)), client=client
    )
    here = uncoupled().fit(X, Y, label_mask=mask)
    assert gap(uncoupled().fit(blocks), here, X) < 1e-8


def test_a_single_column_of_classes(client, data):
    X = data[0]
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
    rows = da.from_array(X, (BLOCK, -1))
    with pytest.raises(ValueError, match="classes="):
        uncoupled().fit(DaskBlocks(rows, da.from_array(y, BLOCK)))
    blocks = DaskBlocks(rows, da.from_array(y, BLOCK), classes=["a", "b", "c"])
    here = uncoupled().fit(X, y)
    np.testing.assert_array_equal(uncoupled().fit(blocks).predict(X), here.predict(X))


def test_labels_are_held_to_one_form_across_workers(client, data):
    X, Y = data
    mixed = Y.copy()
    mixed[-BLOCK:] = np.where(mixed[-BLOCK:] == 0, -1, mixed[-BLOCK:])
    with pytest.raises(ValueError, match="Block 7: This block codes negatives as -1"):
        uncoupled().fit(chunked(X, mixed))
    broken = X.copy()
    broken[BLOCK + 3, 2] = np.nan
    with pytest.raises(ValueError, match=r"Block 1: Input X contains NaN|Block 1: Input contains"):
        uncoupled().fit(chunked(broken, Y))


def test_what_is_no_dask_collection_is_refused(client, data):
    X, Y = data
    with pytest.raises(TypeError, match="X must be a dask array or a dask data frame, got ndarray"):
        DaskBlocks(X, Y)
    with pytest.raises(ValueError, match="X has 8 blocks of rows, but Y has 4"):
        DaskBlocks(da.from_array(X, (BLOCK, -1)), da.from_array(Y[:300], (BLOCK, -1)))


def test_chunks_of_columns_and_other_rows_are_put_together(client, data):
    X, Y = data
    blocks = DaskBlocks(da.from_array(X, (100, 5)), da.from_array(Y, (250, 2)))
    assert gap(uncoupled().fit(blocks), uncoupled().fit(X, Y), X) < 1e-8


# Last, because the cluster is then without a worker for a while.
@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_a_worker_killed_during_the_fit_changes_nothing(client, data, strategy, monkeypatch):
    X, Y = data
    plain, passes = DaskBlocks._sum, []

    def kill_one(self, tasks, function):
        passes.append(None)
        if len(passes) == (1 if strategy == "statistics" else 4):
            victim, pid = min(self.client.run(os.getpid).items())
            assert self.client.has_what()[victim]  # blocks are lost with it
            os.kill(pid, signal.SIGKILL)
        return plain(self, tasks, function)

    monkeypatch.setattr(DaskBlocks, "_sum", kill_one)
    client.wait_for_workers(WORKERS, timeout=60)
    model = uncoupled(strategy=strategy).fit(chunked(X, Y, client=client))
    assert len(passes) == 1 or len(passes) > 4
    assert gap(model, uncoupled().fit(X, Y), X) < 1e-8
