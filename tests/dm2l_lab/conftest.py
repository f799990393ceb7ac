"""Stores with results, and pages without diagrams."""

import numpy as np
import pytest

from dm2l.datasets import make_missing_multilabel
from dm2l_lab import Store, _protocol
from dm2l_lab.paper.study import study
from dm2l_lab.report import _page
from reports import add
from small_experiments import Spy, archive


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(_protocol, "_registered", {})
    with Store(tmp_path / "store.db") as store:
        yield store


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    """Pages without diagrams, which take a second; tests of these ask for them."""
    monkeypatch.setattr(_page, "can_draw", lambda: False)


@pytest.fixture
def diagrams(_plain, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(_page, "can_draw", lambda: True)


@pytest.fixture
def filled(store):
    """Four methods on three sets at two rates, two repetitions each."""
    generator = np.random.default_rng(0)
    run = store.add_run(versions={"numpy": "2.0"}, machine={"cpus": 2, "platform": "here"})
    for dataset in ("Arts", "Enron", "Image"):
        for rate in (1.0, 0.3):
            for i, method in enumerate(("LEML", "DM2L linear", "masked ridge", "other")):
                values = (0.1 + i / 50 + generator.uniform(0, 0.02, 2)).tolist()
                chosen = {"alpha": 1.5} if "DM2L" in method else None
                facts = {"run": run, "seconds": 1.25, "split_seed": 4_000_000_001, "mask_seed": 5}
                add(store, dataset, method, values, rate=rate, chosen=chosen, **facts)
    return store


@pytest.fixture(scope="session")
def studied(tmp_path_factory):
    """A small data set with the figures that need fits of their own."""
    folder = tmp_path_factory.mktemp("data")
    X, Y = make_missing_multilabel(n_samples=80, rho=1.0, random_state=0)
    np.savez(folder / "tiny.npz", X=X, Y=Y)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DM2L_DATA", str(folder))
        return folder, study("tiny", repetitions=2, progress=told.append), told


@pytest.fixture
def spied():
    Spy.seen.clear()
    yield Spy.seen
    Spy.seen.clear()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with two data sets."""
    folder = tmp_path / "data"
    folder.mkdir()
    archive(folder, "one", 1)
    archive(folder, "two", 2, n=70)
    monkeypatch.setenv("DM2L_DATA", str(folder))
    return folder
