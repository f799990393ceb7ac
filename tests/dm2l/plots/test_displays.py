"""What all displays keep to: scikit-learn's way of drawing, names, and no needless import."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import dm2l.plots
from dm2l.plots import (
    ConvergenceDisplay,
    CooccurrenceDisplay,
    CouplingDisplay,
    MissingnessDisplay,
    PathDisplay,
    ReliabilityDisplay,
    SingularValuesDisplay,
)

matplotlib = pytest.importorskip("matplotlib", reason="plots need the extra plot")
matplotlib.use("Agg")

NAMES = ["toxic", "soluble", "stable", "cheap"]


def labels(n=60, c=4, seed=0, missing=0.3):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, c)) < 0.4).astype(float)
    Y[:, 0] = np.minimum(Y[:, 0], Y[:, 1])  # toxic => soluble
    Y[rng.random((n, c)) < missing] = np.nan
    return Y


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


DISPLAYS = {
    "missingness": lambda ax: MissingnessDisplay.from_labels(labels(), ax=ax),
    "cooccurrence": lambda ax: CooccurrenceDisplay.from_labels(labels(), ax=ax),
    "coupling": lambda ax: CouplingDisplay(
        np.array(
            [[1.0, 0.2, -0.4, 0.0], [0.2, 1.0, 0.1, 0.6], [-0.4, 0.1, 1.0, 0.3], [0, 0.6, 0.3, 1]]
        ),
        label_names=NAMES,
    ).plot(ax),
    "singular values": lambda ax: SingularValuesDisplay.from_labels(labels(), ax=ax),
    "convergence": lambda ax: ConvergenceDisplay({"a": np.array([3.0, 2.0, 1.5])}, lowest=1.0).plot(
        ax
    ),
    "path": lambda ax: PathDisplay(
        np.array([0.0, 0.1, 1.0]),
        means=np.array([[0.5, 0.6, 0.4]]),
        errors=np.full((1, 3), 0.05),
        settings=[{"alpha": 1.0}],
        chosen=(0, 1),
        metric="average_precision",
    ).plot(ax),
    "reliability": lambda ax: ReliabilityDisplay.from_predictions(
        labels(), np.random.default_rng(1).random((60, 4)), ax=ax
    ),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_draws_on_axes_of_its_own_that_pyplot_knows(name):
    import matplotlib.pyplot as plt

    display = DISPLAYS[name](None)
    assert plt.get_fignums() == [display.figure_.number]
    assert display.ax_ in display.figure_.axes


@pytest.mark.parametrize("name", DISPLAYS)
def test_draws_on_the_axes_given_and_makes_no_figure(name):
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    ax = Figure(figsize=(5, 4)).subplots(1, 2)[1]
    display = DISPLAYS[name](ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", DISPLAYS)
@pytest.mark.parametrize("layout", ["constrained", None])
def test_draws_without_warning_and_a_second_time(name, layout):
    import matplotlib.pyplot as plt

    axes = plt.figure(figsize=(9, 5), layout=layout).subplots(1, 2)
    display = DISPLAYS[name](axes[0])
    assert display.plot(axes[1]) is display
    display.figure_.canvas.draw()


@pytest.mark.parametrize("name", [name for name in DISPLAYS if name != "critical difference"])
def test_text_is_not_tiny_and_lies_inside_the_figure(name):
    display = DISPLAYS[name](None)
    figure = display.figure_
    figure.canvas.draw()
    frame = figure.bbox.padded(2)
    texts = figure.findobj(lambda a: hasattr(a, "get_fontsize") and hasattr(a, "get_text"))
    shown = [t for t in texts if t.get_text() and t.get_visible() and t.get_in_layout()]
    assert shown
    for text in shown:
        assert text.get_fontsize() >= 6, text
    for ax in figure.axes:
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_text():
                box = text.get_window_extent()
                assert frame.x0 <= box.x0, text
                assert box.x1 <= frame.x1, text
                assert frame.y0 <= box.y0, text
                assert box.y1 <= frame.y1, text


def test_a_title_of_the_caller_stands_above_the_legend():
    import matplotlib.pyplot as plt

    ax = plt.figure(layout="constrained").subplots()
    display = MissingnessDisplay.from_labels(labels(), ax=ax)
    ax.set_title("assays")
    display.figure_.canvas.draw()
    (legend,) = [a.get_legend() for a in ax.child_axes if a.get_legend()]
    assert ax.title.get_window_extent().y0 >= legend.get_window_extent().y1 - 1
    assert ax.title.get_window_extent().y1 <= display.figure_.bbox.y1 + 1


def test_names_that_do_not_fit_are_thinned():
    Y = labels(c=100)
    display = MissingnessDisplay.from_labels(Y)
    ticks = [t.get_text() for t in display.ax_.get_xticklabels()]
    step = round(100 / len(ticks))
    assert step > 1
    assert ticks == [f"y{k}" for k in range(0, 100, step)]
    assert display.ax_.get_xlabel() == f"100 labels, one in {step} is named"


def test_long_names_are_shortened():
    display = MissingnessDisplay.from_labels(labels(c=2), label_names=["a" * 50, "b"])
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["a" * 27 + "…", "b"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "has 2 names, but there are 4 labels"),
        (["a", "b", "a", "c"], "'a' more than once"),
    ],
)
@pytest.mark.parametrize(
    "draw",
    [
        MissingnessDisplay.from_labels,
        CooccurrenceDisplay.from_labels,
        SingularValuesDisplay.from_labels,
    ],
)
def test_wrong_names_are_refused(draw, names, message):
    with pytest.raises(ValueError, match=message):
        draw(labels(), label_names=names)


@pytest.mark.parametrize("name", DISPLAYS)
def test_without_matplotlib_the_extra_is_named(name, monkeypatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install ['\"]dm2l\[plot\]['\"]"):
        DISPLAYS[name](None)


def test_public_names():
    assert sorted(dm2l.plots.__all__) == dm2l.plots.__all__
    assert all(hasattr(dm2l.plots, name) for name in dm2l.plots.__all__)
