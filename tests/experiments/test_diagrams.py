"""The critical-difference diagram: what is drawn where, and that it can be read."""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest

from experiments.diagrams import critical_difference_diagram
from experiments.ranks import average_ranks, indistinguishable_groups, nemenyi_critical_difference

pytest.importorskip("matplotlib", reason="diagrams need the extra plot")

SHORT = ["LEML", "ML-LRC", "GLOCAL", "LSML", "DM2L-l", "DM2L-nl"]
LONG = [
    "DM2LClassifier (RBF, tuned)",
    "DM2LClassifier (linear)",
    "DM2L-Lo",
    "MaskedRidgeClassifier, alpha by cross-validation",
    "LEML (mask on)",
    "LEML (as published)",
    "ML-LRC",
    "GLOCAL",
    "LSML with bias column",
    "One-vs-rest logistic regression",
    "One-vs-rest gradient boosting",
    "Frequency of labels",
]


HARD = ["few", "many", "equal", "long ruler", "no group", "narrow"]


def ranks_of(n_methods, seed=0, spread=0.2):
    values = np.random.default_rng(seed).normal(size=(24, n_methods))
    return average_ranks(values + spread * np.arange(n_methods), higher_is_better=False)


def lines(ax, gid):
    return [line.get_xydata() for line in ax.get_lines() if line.get_gid() == gid]


def boxes(ax):
    """Texts with their places in pixels, as drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    texts = [t for t in [*ax.texts, ax.title] if t.get_text()]
    return {t: t.get_window_extent(canvas.get_renderer()) for t in texts}


@pytest.fixture(scope="module")
def drawn():
    """Diagrams that are hard in some way, by the names in HARD."""
    from matplotlib.figure import Figure

    draw = critical_difference_diagram
    narrow = Figure(figsize=(5.5, 5)).add_subplot()
    return {
        "few": draw(ranks_of(6), 1.539, names=SHORT, title="Coverage"),
        "many": draw(ranks_of(12), 3.401, names=LONG, title="Coverage"),
        "equal": draw([3.5] * 6, 1.5, names=SHORT),
        "long ruler": draw([1.2, 1.8], 3.2, names=["a", "b"], title="2"),
        "no group": draw([1.0, 2.0, 3.0], 0.0, names=["a", "b", "c"]),
        "narrow": draw(ranks_of(12), 3.4, narrow, names=LONG, title="Narrow"),
    }


def test_every_method_hangs_from_its_rank_and_shows_name_and_rank():
    ranks = ranks_of(6)
    ax = critical_difference_diagram(ranks, 1.5, names=SHORT, title="Ranking loss")
    methods = lines(ax, "method")
    assert sorted(line[0, 0] for line in methods) == sorted(ranks)
    # A line starts on the axis and ends at the height of the text of its method.
    heights = {text.get_text(): text.xy for text in ax.texts if hasattr(text, "xy")}
    for name, rank in zip(SHORT, ranks, strict=True):
        (text,) = [t for t in heights if name in t.split()]
        assert f"{rank:.2f}" in text
        (line,) = [line for line in methods if line[0, 0] == rank]
        assert line[0, 1] == 0
        np.testing.assert_allclose(line[-1], heights[text])
    assert ax.get_title() == "Ranking loss"


def test_rank_one_is_at_the_left_and_every_rank_has_its_number():
    ax = critical_difference_diagram(ranks_of(6), 1.5, names=SHORT)
    first, last = ax.get_xlim()
    assert first < 1 < 6 < last
    assert not ax.xaxis_inverted()
    numbers = {t.get_text(): t.get_position()[0] for t in ax.texts if t.get_text().isdigit()}
    assert numbers == {str(rank): rank for rank in range(1, 7)}
    (axis,) = lines(ax, "axis")
    np.testing.assert_array_equal(axis[:, 0], [1, 6])


def test_the_ruler_is_as_long_as_the_critical_difference_and_shows_it():
    cd = nemenyi_critical_difference(6, 24)
    ax = critical_difference_diagram(ranks_of(6), cd, names=SHORT)
    (ruler,) = lines(ax, "ruler")
    assert np.diff(ruler[:, 0])[0] == pytest.approx(cd)
    assert "CD = 1.539" in [t.get_text() for t in ax.texts]


def test_a_ruler_longer_than_the_axis_is_drawn_whole_and_ends_before_the_names(drawn):
    (ruler,) = lines(drawn["long ruler"], "ruler")
    edges = [line[-1, 0] for line in lines(drawn["long ruler"], "method")]
    assert ruler[1, 0] == pytest.approx(4.2)
    assert min(edges) < ruler[0, 0] < ruler[1, 0] < max(edges)


@pytest.mark.parametrize("seed", range(8))
def test_a_bar_joins_each_group_and_reaches_no_other_method(seed):
    ranks, cd = ranks_of(9, seed, spread=0.3), 2.0
    ax = critical_difference_diagram(ranks, cd, names=LONG[:9])
    bars = lines(ax, "group")
    under = [
        {m for m, rank in enumerate(ranks) if start <= rank <= end}
        for start, end in (bar[:, 0] for bar in bars)
    ]
    assert under == [set(group) for group in indistinguishable_groups(ranks, cd)]
    per_pixel = np.diff(ax.get_xlim())[0] / ax.bbox.width
    for one, other in combinations(bars, 2):
        if one[0, 1] == other[0, 1]:  # in the same row
            (_, end), (start, _) = sorted([one[:, 0], other[:, 0]], key=lambda bar: bar[0])
            assert start - end >= 10 * per_pixel


def test_bars_share_a_row_only_when_they_are_far_enough_apart_to_be_told_apart():
    def heights(ranks):
        ax = critical_difference_diagram(ranks, 0.5, names=SHORT[: len(ranks)])
        return [bar[0, 1] for bar in lines(ax, "group")]

    apart, close = heights([1.0, 1.4, 3.6, 4.0]), heights([1.0, 1.45, 1.52, 2.0, 4.5, 4.6])
    assert len(apart) == 2
    assert len(set(apart)) == 1
    # 1.0-1.45 and 1.52-2.0 would run into each other; 4.5-4.6 is free to return to the first row.
    assert len(set(close[:-1])) == len(close) - 1
    assert close[-1] == close[0]


def test_a_bar_stops_short_of_a_method_that_is_almost_as_good():
    ranks = [1.0, 2.0, 2.001, 4.999]
    with pytest.raises(ValueError, match="all from 1 to 4"):
        critical_difference_diagram(ranks, 1.0, names=["a", "b", "c", "d"])
    ax = critical_difference_diagram([*ranks, 5.0], 1.0, names=["a", "b", "c", "d", "e"])
    first, second, third = (bar[:, 0] for bar in lines(ax, "group"))
    assert 2.0 < first[1] < 2.001
    assert 1.0 < second[0] < 2.0
    assert second[1] > 2.001
    assert third[0] < 4.999
    assert third[1] > 5.0


def test_equal_methods_and_methods_that_all_differ(drawn):
    (bar,) = lines(drawn["equal"], "group")
    assert bar[0, 0] < 3.5 < bar[1, 0]
    assert lines(drawn["no group"], "group") == []


@pytest.mark.parametrize("name", HARD)
def test_no_text_is_cut_off_or_covers_another(drawn, name):
    ax = drawn[name]
    places = boxes(ax)
    whole = ax.figure.bbox
    for text, box in places.items():
        assert whole.x0 <= box.x0, text.get_text()
        assert box.x1 <= whole.x1, text.get_text()
        assert whole.y0 <= box.y0, text.get_text()
        assert box.y1 <= whole.y1, text.get_text()
    for (one, a), (other, b) in combinations(places.items(), 2):
        assert not a.overlaps(b), (one.get_text(), other.get_text())


@pytest.mark.parametrize("name", HARD)
def test_lines_of_methods_do_not_cross(drawn, name):
    """No vertical part meets a horizontal part of another method, unless their ranks are equal."""
    for one, other in combinations(lines(drawn[name], "method"), 2):
        for (x, low), (rank, y, edge) in (
            ((one[0, 0], one[1, 1]), (other[0, 0], other[1, 1], other[2, 0])),
            ((other[0, 0], other[1, 1]), (one[0, 0], one[1, 1], one[2, 0])),
        ):
            start, end = sorted([rank, edge])
            assert not (start < x < end and low < y < 0)


def test_all_is_black(drawn):
    for ax in drawn.values():
        assert {line.get_color() for line in ax.get_lines()} == {"black"}
        assert {text.get_color() for text in ax.texts} == {"black"}


def test_letters_shrink_in_narrow_axes_only(drawn):
    sizes = {t.get_fontsize() for t in drawn["many"].texts}
    assert sizes == {9.0}
    assert max(t.get_fontsize() for t in drawn["narrow"].texts) < 9.0
    crowded = {t.get_text() for t in drawn["narrow"].texts if t.get_text().isdigit()}
    assert "1" in crowded
    assert len(crowded) < 12


def test_given_axes_are_used_also_where_the_layout_decides_their_size():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    for ax, title in zip(figure.subplots(2, 2).flat, ["Rkl", "Auc", "Cvg", "Ap"], strict=True):
        assert critical_difference_diagram(ranks_of(6), 1.5, ax, names=SHORT, title=title) is ax
    for ax in figure.axes:
        places = boxes(ax)
        assert all(ax.bbox.x0 - 1 <= box.x0 <= box.x1 <= ax.bbox.x1 + 1 for box in places.values())
    narrow = Figure(figsize=(10, 3), layout="constrained")
    narrow.get_layout_engine().set(rect=(0.3, 0.0, 0.4, 1.0))
    ax = critical_difference_diagram(ranks_of(6), 1.5, narrow.add_subplot(), names=SHORT)
    assert all(290 <= box.x0 <= box.x1 <= 710 for box in boxes(ax).values())
    # Sizes were meant for the axes as they are now: names start 0.18 inches from the rank axis.
    left_edge = min(line[-1, 0] for line in lines(ax, "method"))
    ends = ax.transData.transform([[left_edge, 0], [1, 0]])[:, 0]
    assert np.diff(ends)[0] == pytest.approx(18, abs=2)
    (part,) = np.atleast_1d(Figure(figsize=(6, 3)).subfigures(1, 1))
    ax = part.add_subplot()
    assert critical_difference_diagram(ranks_of(6), 1.5, ax, names=SHORT) is ax


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_figure_of_its_own_can_be_saved(tmp_path, suffix):
    ax = critical_difference_diagram(ranks_of(6), 1.5, names=SHORT)
    file = tmp_path / f"ranks.{suffix}"
    ax.figure.savefig(file)
    assert file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("ranks", "names", "message"),
    [
        ([1.2, 1.8], ["a"], r"There are 2 ranks, but names is \['a'\]"),
        ([1.2, 1.8], "ab", "names is 'ab'"),
        ([1.0], ["a"], "two or more methods"),
        ([0.5, 2.0], ["a", "b"], "all from 1 to 2"),
    ],
)
def test_wrong_names_and_ranks_are_refused(ranks, names, message):
    with pytest.raises(ValueError, match=message):
        critical_difference_diagram(ranks, 1.0, names=names)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    class Nowhere:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "matplotlib":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"pip install 'dm2l\[plot\]'"):
        critical_difference_diagram([1.2, 1.8], 1.0, names=["a", "b"])
