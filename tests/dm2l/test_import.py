"""`import dm2l` loads nothing, and a model the method and nothing beside it."""

import subprocess
import sys

import pytest

BESIDE = (
    "baselines",
    "cli",
    "datasets",
    "extreme",
    "metrics",
    "model_selection",
    "persistence",
    "plots",
    "readers",
    "review",
    "scale",
    "search",
    "tables",
)
FIT = "import numpy as np; dm2l.DM2LClassifier().fit(np.eye(4), [[0, 1], [1, 0], [1, 1], [0, 0]])"


def loaded(code):
    command = f"import sys, dm2l; {code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, check=True, text=True
    )
    return set(done.stdout.split())


def test_the_name_alone_loads_nothing():
    found = loaded("")
    assert {name for name in found if name.startswith("dm2l")} == {"dm2l"}
    assert {"numpy", "sklearn"} & found == set()


def test_rooms_beside_the_method_are_not_loaded():
    found = loaded("dm2l.DM2LClassifier")
    assert "dm2l.solvers" in found
    assert {f"dm2l.{room}" for room in BESIDE} & found == set()
    assert "sklearn.linear_model" not in found
    assert "sklearn.metrics" not in found


def test_a_fit_in_memory_reads_no_files():
    assert {"dm2l.readers", "dm2l.datasets", "dm2l.persistence"} & loaded(FIT) == set()


def test_the_search_is_loaded_when_it_is_asked_for():
    assert "dm2l.search" in loaded("dm2l.DM2LClassifierCV")


def test_what_is_not_there_is_said_by_name():
    import dm2l

    with pytest.raises(AttributeError, match="module 'dm2l' has no attribute 'Classifier'"):
        dm2l.Classifier  # noqa: B018
