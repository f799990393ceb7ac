"""Small data sets, a small study, rows of results."""

import numpy as np
import pytest

from dm2l.datasets import make_missing_multilabel
from experiments.studies import study
from small_experiments import Rows, Spy, archive


@pytest.fixture
def rows():
    return Rows()


@pytest.fixture
def filled(rows):
    """Four methods on three sets at two rates, two repetitions each."""
    generator = np.random.default_rng(0)
    for dataset in ("Arts", "Enron", "Image"):
        for rate in (1.0, 0.3):
            for i, method in enumerate(("LEML", "DM2L linear", "masked ridge", "other")):
                values = (0.1 + i / 50 + generator.uniform(0, 0.02, 2)).tolist()
                both = [{"Rkl": value, "Auc": value} for value in values]
                rows.add(dataset, method, both, rate=rate)
    return rows


@pytest.fixture(scope="session")
def studied(tmp_path_factory):
    """A small data set with the figures that need fits of their own."""
    folder = tmp_path_factory.mktemp("data")
    X, Y = make_missing_multilabel(n_samples=80, rho=1.0, random_state=0)
    np.savez(folder / "tiny.npz", X=X, Y=Y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DM2L_DATA", str(folder))
        return study("tiny", repetitions=2)


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
