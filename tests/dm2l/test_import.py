"""`import dm2l` loads nothing, and a model the method and nothing beside it."""

import subprocess
import sys

import pytest

BESIDE = (
    *("_auto", "_search", "baselines", "cli", "datasets", "extreme", "io", "labelstudio"),
    *("model_selection", "outofcore", "persistence", "plots", "review", "tables", "torch"),
)
# Each in the same process as those before it: starting one takes a second.
STEPS = {
    "name": "import dm2l",
    "model": "dm2l.DM2LClassifier",
    "fit": "import numpy; "
    "dm2l.DM2LClassifier().fit(numpy.eye(4), [[0, 1], [1, 0], [1, 1], [0, 0]])",
    "search": "dm2l.DM2LClassifierCV",
    "tools": "import dm2l.plots, dm2l.plots._canvas, dm2l.testing",
}


@pytest.fixture(scope="module")
def loaded():
    """Names of the modules that are loaded after each step."""
    code = ["import sys", *(f"{step}\nprint(*sys.modules)" for step in STEPS.values())]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, check=True, text=True
    )
    names = (set(line.split()) for line in done.stdout.splitlines())
    return dict(zip(STEPS, names, strict=True))


def test_the_name_alone_loads_nothing(loaded):
    assert {name for name in loaded["name"] if name.startswith("dm2l")} == {"dm2l"}
    assert {"numpy", "sklearn"} & loaded["name"] == set()


def test_packages_beside_the_method_are_not_loaded(loaded):
    found = loaded["model"]
    assert "dm2l._solvers" in found
    assert {f"dm2l.{name}" for name in BESIDE} & found == set()
    assert "sklearn.linear_model" not in found
    assert "sklearn.metrics" not in found


def test_a_fit_in_memory_reads_no_files(loaded):
    assert {"dm2l.io", "dm2l.datasets", "dm2l.persistence"} & loaded["fit"] == set()


def test_the_search_is_loaded_when_it_is_asked_for(loaded):
    assert "dm2l._search" not in loaded["fit"]
    assert "dm2l._search" in loaded["search"]


def test_nothing_loads_matplotlib_before_something_is_drawn(loaded):
    assert "dm2l.plots._canvas" in loaded["tools"]
    assert not {name for name in loaded["tools"] if name.partition(".")[0] == "matplotlib"}


def test_checks_of_estimators_do_not_load_pytest(loaded):
    assert "dm2l.testing" in loaded["tools"]
    assert "pytest" not in loaded["tools"]


def test_what_is_not_there_is_said_by_name():
    import dm2l

    with pytest.raises(AttributeError, match="module 'dm2l' has no attribute 'Classifier'"):
        dm2l.Classifier  # noqa: B018
