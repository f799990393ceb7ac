"""The figures: what is drawn where, what is written on the axes, and the SVG they become."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from itertools import combinations
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from dm2l.plots._diagrams import critical_difference_diagram
from dm2l.plots._panels import COLOURS, series_styles
from dm2l_lab._figures import comparison_figure, rate_figure, time_figure
from dm2l_lab._published import PAPER_METRICS as METRICS
from dm2l_lab.paper._convergence import Convergence, Course
from dm2l_lab.paper._figures import convergence_figure, label_rank_figure, sensitivity_figure
from dm2l_lab.paper._label_ranks import label_ranks
from dm2l_lab.paper._sensitivity import Sensitivity
from dm2l_lab.report._svg import inline_svg, to_svg

pytest.importorskip("matplotlib", reason="figures need the extra plot")

RATES = (1.0, 0.7, 0.3)
METHODS = ("LEML", "DM2L-Lo", "DM2L-l")


def cell(method, rate=1.0, repetition=0, dataset="Arts", **changes):
    """A row as a store gives it, with values that tell where it belongs."""
    rng = np.random.default_rng([len(method), int(100 * rate), repetition, len(dataset)])
    published = {name: float(value) for name, value in zip(METRICS, rng.random(4), strict=True)}
    row = {
        "protocol": "honest",
        "dataset": dataset,
        "mask": "none" if rate == 1 else "per_row",
        "rate": rate,
        "repetition": repetition,
        "method": method,
        "settings": "0123456789ab",
        "status": "done",
        "metrics": {
            "published": published,
            "default": {name: value + 1 for name, value in published.items()},
        },
        "seconds_fit": float(10 ** rng.uniform(-2, 3)),
        "device": "cpu",
    }
    return row | changes


def table(methods=METHODS, datasets=("Arts",), repetitions=4):
    return [
        cell(method, rate, repetition, dataset)
        for repetition in range(repetitions)
        for dataset in datasets
        for rate in RATES
        for method in methods
    ]


def values_of(rows, metric, convention="published", **where):
    chosen = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return [row["metrics"][convention][metric] for row in chosen]


def series(ax):
    """Lines that are in the legend, by name."""
    handles, labels = ax.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def legend_names(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def bars(container):
    """Middles and reaches of error bars."""
    line, _, (segments,) = container
    ends = [s for s in segments.get_segments() if np.isfinite(s).all() and len(s)]
    return line.get_xydata(), np.reshape(ends, (-1, 2, 2))


def renderer_of(figure):
    """What a figure has been drawn with."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


# -- rows of a store ----------------------------------------------------------------------------


def test_methods_are_compared_at_each_rate_in_each_metric():
    rows = table()
    figure = comparison_figure(rows, methods=["DM2L-Lo", "LEML"])
    assert len(figure.axes) == len(METRICS)
    assert legend_names(figure) == ["DM2L-Lo", "LEML"]
    for ax, metric in zip(figure.axes, METRICS, strict=True):
        drawn = series(ax)
        assert list(drawn) == ["DM2L-Lo", "LEML"]
        for name, container in drawn.items():
            points, ends = bars(container)
            for place, rate in enumerate(sorted(RATES)):
                values = values_of(rows, metric, method=name, rate=rate)
                mean, deviation = statistics.fmean(values), statistics.stdev(values)
                assert abs(points[place, 0] - place) < 0.5
                assert points[place, 1] == pytest.approx(mean)
                expected = [mean - deviation, mean + deviation]
                np.testing.assert_allclose(ends[place][:, 1], expected)
        left, right = (bars(container)[0][:, 0] for container in drawn.values())
        assert (left < right).all()
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["30", "70", "100"]
    assert figure.legends[0].get_title().get_text() == (
        "mean ± standard deviation of 4 repetitions"
    )


def test_axes_say_what_they_show_in_which_unit_and_which_way_is_better():
    figure = comparison_figure(table())
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "ranking loss ↓",
        "AUC per instance ↑",
        "coverage, labels ↓",
        "average precision ↑",
    ]
    # Under the lower row only: the upper one has the same axis.
    names = [ax.get_xlabel() for ax in figure.axes]
    assert names == ["", "", "observation rate, %", "observation rate, %"]


def test_failures_other_masks_and_undefined_metrics_are_left_out():
    rows = table(repetitions=2)
    expected = values_of(rows, "coverage", method="LEML", rate=0.3)
    rows.append(cell("LEML", 0.3, 2, status="failed", metrics=None))
    rows.append(cell("LEML", 0.3, 3, mask="uniform"))
    undefined = cell("LEML", 0.3, 4)
    undefined["metrics"]["published"]["coverage"] = None
    rows.append(undefined)
    figure = comparison_figure(rows, metrics=["coverage"])
    points, _ = bars(series(figure.axes[0])["LEML"])
    assert points[0, 1] == pytest.approx(statistics.fmean(expected))
    assert figure.legends[0].get_title().get_text().endswith("of 2 to 3 repetitions")
    other = comparison_figure(rows, metrics=["coverage"], mask="uniform")
    points, _ = bars(series(other.axes[0])["LEML"])
    assert points[0, 1] == rows[-2]["metrics"]["published"]["coverage"]


def test_a_single_repetition_has_no_bars_and_says_so():
    figure = comparison_figure(table(repetitions=1), metrics=["coverage"])
    for container in series(figure.axes[0]).values():
        points, ends = bars(container)
        assert len(points) == 3
        assert not len(ends)
    assert figure.legends[0].get_title().get_text() == "one repetition"


def test_a_metric_no_row_defines_leaves_a_method_out():
    rows = table(methods=["a", "bb"])
    for row in rows:
        if row["method"] == "a":
            row["metrics"]["published"]["coverage"] = None
    assert list(series(comparison_figure(rows, metrics=["coverage"]).axes[0])) == ["bb"]


def test_metrics_follow_the_convention():
    rows = table()
    for draw, numbers in (
        (comparison_figure, lambda figure: bars(series(figure.axes[0])["LEML"])[0][:, 1]),
        (rate_figure, lambda figure: series(figure.axes[0])["LEML"].get_ydata()),
    ):
        choose = {"metrics": ["coverage"]} if draw is comparison_figure else {"metric": "coverage"}
        published, default = (
            numbers(draw(rows, convention=c, **choose)) for c in ("published", "default")
        )
        np.testing.assert_allclose(default, published + 1)


def test_a_metric_against_the_rate_has_a_panel_for_each_data_set_and_a_line_for_each_method():
    sets = ("Arts", "Business", "Enron", "Image")
    rows = table(datasets=sets)
    figure = rate_figure(rows, "average_precision")
    assert [ax.get_title(loc="left") for ax in figure.axes] == list(sets)
    assert legend_names(figure) == list(METHODS)
    for ax, dataset in zip(figure.axes, sets, strict=True):
        lines = series(ax)
        assert list(lines) == list(METHODS)
        for name, line in lines.items():
            np.testing.assert_allclose(line.get_xdata(), [30, 70, 100])
            means = [
                statistics.fmean(
                    values_of(rows, "average_precision", dataset=dataset, method=name, rate=rate)
                )
                for rate in sorted(RATES)
            ]
            np.testing.assert_allclose(line.get_ydata(), means)
    labels = [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes]
    rate, metric = "observation rate, %", "average precision ↑"
    assert labels == [("", metric), (rate, ""), (rate, ""), (rate, metric)]


def test_a_method_looks_the_same_in_every_panel_even_if_it_did_not_run_everywhere():
    rows = [row for row in table(datasets=("Arts", "Enron")) if row["method"] != "LEML"]
    rows += [row for row in table(datasets=("Enron",)) if row["method"] == "LEML"]
    figure = rate_figure(rows, "coverage", methods=METHODS)
    arts, enron = (series(ax) for ax in figure.axes)
    assert list(arts) == ["DM2L-Lo", "DM2L-l"]
    assert list(enron) == list(METHODS)
    for name, line in arts.items():
        for what in ("color", "marker", "linestyle"):
            assert getattr(line, f"get_{what}")() == getattr(enron[name], f"get_{what}")()
    assert set(legend_names(figure)) == set(METHODS)


def test_data_sets_and_methods_are_drawn_in_the_order_asked_for():
    rows = table(datasets=("Arts", "Enron", "Image"))
    figure = rate_figure(rows, "coverage", datasets=["Image", "Arts"], methods=["DM2L-l", "LEML"])
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Image", "Arts"]
    assert legend_names(figure) == ["DM2L-l", "LEML"]


def test_times_are_dots_at_medians_and_lines_from_shortest_to_longest_on_a_log_axis():
    rows = table(repetitions=5)
    (ax,) = time_figure(rows).axes
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "time to fit, seconds"
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert sorted(names) == sorted(METHODS)
    seconds = {name: [r["seconds_fit"] for r in rows if r["method"] == name] for name in names}
    medians = [statistics.median(seconds[name]) for name in names]
    assert medians == sorted(medians)
    assert ax.yaxis_inverted()  # the fastest, number 0, is on top
    ranges, dots = ax.get_lines()[::2], ax.get_lines()[1::2]
    for i, name in enumerate(names):
        low, high = min(seconds[name]), max(seconds[name])
        np.testing.assert_allclose(ranges[i].get_xydata(), [[low, i], [high, i]])
        np.testing.assert_allclose(dots[i].get_xydata(), [[medians[i], i]])
        filled = dots[i].get_markerfacecolor() != "white"
        assert filled == name.startswith("DM2L")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "0.012 s"),
        (0.00004, "0.00004 s"),
        (3.0, "3 s"),
        (5.678, "5.7 s"),
        (4208.4, "4,208 s"),
    ],
)
def test_medians_are_written_beside_the_dots(seconds, text):
    (ax,) = time_figure([cell("LEML", seconds_fit=seconds)]).axes
    assert [label.get_text() for label in ax.texts] == [text]


def test_times_on_a_device_are_kept_apart_and_unknown_ones_left_out():
    rows = [
        cell("DM2L-nl", seconds_fit=5.0),
        cell("DM2L-nl", repetition=1, seconds_fit=0.1, device="cuda"),
        cell("DM2L-nl", repetition=2, seconds_fit=None),
    ]
    (ax,) = time_figure(rows).axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["DM2L-nl, cuda", "DM2L-nl"]


def test_rows_that_do_not_belong_together_are_refused():
    rows = table(datasets=("Arts", "Enron"))
    with pytest.raises(ValueError, match="Give dataset=, one of Arts, Enron"):
        comparison_figure(rows)
    with pytest.raises(ValueError, match="Give dataset="):
        time_figure(rows)
    assert comparison_figure(rows, dataset="Enron").axes
    assert time_figure(rows, dataset="Enron").axes
    with pytest.raises(ValueError, match=r"No row is done for datasets=\['Image'\]"):
        time_figure(rows, dataset="Image")
    with pytest.raises(ValueError, match=r"Two rows of LEML on Arts.* differ in settings"):
        rate_figure([*rows, cell("LEML", settings="other")], "coverage")
    with pytest.raises(ValueError, match="differ in protocol"):
        rate_figure([*rows, cell("LEML", protocol="other")], "coverage")
    with pytest.raises(ValueError, match="no metric 'f1', only ranking_loss"):
        rate_figure(rows, "f1")
    with pytest.raises(ValueError, match="metrics must name at least one"):
        comparison_figure(rows, dataset="Arts", metrics=[])


# -- studies ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks():
    rng = np.random.default_rng(0)
    Y = rng.random((300, 7)) < np.linspace(0.02, 0.6, 7)
    Y[:, 6] |= Y[:, 4]
    return label_ranks(Y, draws=4)


def test_ranks_and_norms_of_groups_stand_at_their_sizes_beside_random_rows(ranks):
    figure = label_rank_figure(ranks)
    sizes = [group.shape[0] for group in ranks.groups.values()]
    for ax, quantity in zip(figure.axes[:2], ("rank", "nuclear_norm"), strict=True):
        drawn = series(ax)
        assert ax.get_xscale() == "log"
        points = drawn["rows of one label"].get_xydata()
        values = [getattr(group, quantity) for group in ranks.groups.values()]
        np.testing.assert_allclose(points, np.column_stack([sizes, values]))
        middles, ends = bars(drawn["random rows, as many"])
        random = [[getattr(s, quantity) for s in ranks.random[name]] for name in ranks.groups]
        np.testing.assert_allclose(middles[:, 0], sizes)
        np.testing.assert_allclose(middles[:, 1], np.mean(random, axis=1))
        np.testing.assert_allclose(ends[..., 1], [[min(r), max(r)] for r in random])
        whole = drawn["all 300 rows"].get_ydata()
        np.testing.assert_allclose(whole, getattr(ranks.whole, quantity))
    assert figure.axes[1].get_yscale() == "log"
    assert figure.axes[0].get_ylim()[0] == 0
    assert all(tick == round(tick) for tick in figure.axes[0].get_yticks())
    assert [ax.get_xlabel() for ax in figure.axes[:2]] == ["rows of the group"] * 2


def test_singular_values_are_drawn_over_the_largest_up_to_the_rank(ranks):
    ax = label_rank_figure(ranks).axes[2]
    assert ax.get_yscale() == "log"
    *groups, whole = ax.get_lines()
    expected = [*ranks.groups.values(), ranks.whole]
    for line, spectrum in zip([*groups, whole], expected, strict=True):
        values = spectrum.singular_values / spectrum.singular_values[0]
        np.testing.assert_allclose(line.get_ydata(), values[: spectrum.rank])
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, spectrum.rank + 1))
    assert whole.get_linewidth() > 2 * groups[0].get_linewidth()


def test_random_rows_may_be_left_out():
    figure = label_rank_figure(label_ranks([[1, 0], [1, 1], [0, 1]], draws=0))
    assert legend_names(figure) == ["all 3 rows", "rows of one label"]


@pytest.fixture
def study():
    fast = Course(np.array([8.0, 2.2, 2.0]), np.array([np.nan, 0.1, 0.2]))
    slow = Course(np.array([9.0, 4.0, 3.0, 2.5]), np.array([np.nan, 1.0, 2.0, 3.0]))
    return Convergence({"lbfgs": fast, "published": slow}, lowest=2.0)


def test_convergence_is_a_relative_distance_on_a_log_axis(study):
    figure = convergence_figure(study)
    iterations, seconds = figure.axes
    assert legend_names(figure) == ["lbfgs", "published"]
    assert (iterations.get_xscale(), seconds.get_xscale()) == ("linear", "log")
    assert iterations.get_yscale() == seconds.get_yscale() == "log"
    assert iterations.get_ylim() == seconds.get_ylim()
    assert iterations.get_xlabel() == "iterations"
    assert seconds.get_xlabel() == "time since fit began, seconds"
    lines = series(iterations)
    # The lowest objective itself has no place on a log axis.
    np.testing.assert_allclose(lines["lbfgs"].get_xydata(), [[0, 3], [1, 0.1]])
    expected = [[0, 3.5], [1, 1], [2, 0.5], [3, 0.25]]
    np.testing.assert_allclose(lines["published"].get_xydata(), expected)
    lines = series(seconds)
    np.testing.assert_allclose(lines["lbfgs"].get_xydata(), [[0.1, 0.1]])
    np.testing.assert_allclose(lines["published"].get_xydata(), [[1, 1], [2, 0.5], [3, 0.25]])


def test_a_long_course_has_few_markers():
    course = Course(1 + np.exp(-np.arange(1000) / 100), np.arange(1000.0))
    figure = convergence_figure(Convergence({"cccp": course}, lowest=1.0))
    line = series(figure.axes[0])["cccp"]
    assert len(line.get_xdata()) == 1000
    assert line.get_markevery() == 100


@pytest.fixture
def studies():
    rng = np.random.default_rng(0)
    lambda_ds, sigmas = np.array([0.0, 0.01, 0.1, 1.0]), np.array([0.5, 1.0, 2.0])
    linear = Sensitivity(lambda_ds, None, {m: rng.random((5, 1, 4)) for m in METRICS})
    kernel = Sensitivity(lambda_ds, sigmas, {m: rng.random((5, 3, 4)) for m in METRICS})
    return {"DM2L-l": linear, "DM2L-nl": kernel}


def test_sensitivity_is_a_mean_with_a_band_over_repetitions(studies):
    figure = sensitivity_figure(studies, at={"DM2L-nl": 2.0})
    assert legend_names(figure) == ["DM2L-l", "DM2L-nl"]
    for ax, metric in zip(figure.axes, METRICS, strict=True):
        assert ax.get_xscale() == "log"
        lines = series(ax)
        tables = {
            "DM2L-l": studies["DM2L-l"].scores[metric][:, 0],
            "DM2L-nl": studies["DM2L-nl"].scores[metric][:, 2],
        }
        across = [line for line in ax.get_lines() if line not in lines.values()]
        for i, (name, scores) in enumerate(tables.items()):
            mean, deviation = scores.mean(axis=0), scores.std(axis=0, ddof=1)
            np.testing.assert_allclose(lines[name].get_xdata(), [0.01, 0.1, 1.0])
            np.testing.assert_allclose(lines[name].get_ydata(), mean[1:])
            corners = ax.collections[i].get_paths()[0].vertices
            for place in range(1, 4):
                heights = corners[corners[:, 0] == studies[name].lambda_ds[place], 1]
                expected = mean[place] - deviation[place], mean[place] + deviation[place]
                np.testing.assert_allclose([heights.min(), heights.max()], expected)
            # lambda_d = 0 has no place on the axis.
            np.testing.assert_allclose(across[i].get_ydata(), mean[0])
            assert across[i].get_linestyle() == ":"
            assert across[i].get_color() == lines[name].get_color()
    assert figure.axes[2].get_xlabel() == r"$\lambda_d$"
    title = figure.legends[0].get_title().get_text()
    assert title == r"mean ± standard deviation of 5 repetitions; dotted: $\lambda_d$ = 0"


def test_sensitivity_to_the_kernel_width(studies):
    kernel = {"DM2L-nl": studies["DM2L-nl"]}
    options = {"at": {"DM2L-nl": 0.1}, "metrics": ["coverage"]}
    figure = sensitivity_figure(kernel, parameter="sigma", **options)
    (ax,) = figure.axes
    expected = studies["DM2L-nl"].scores["coverage"][:, :, 2].mean(axis=0)
    np.testing.assert_allclose(series(ax)["DM2L-nl"].get_ydata(), expected)
    assert "unit of the features" in ax.get_xlabel()
    assert "dotted" not in figure.legends[0].get_title().get_text()
    with pytest.raises(ValueError, match="'sigma' does not vary"):
        sensitivity_figure(studies, parameter="sigma", **options)


def test_values_that_are_missing_in_some_repetitions_do_not_count():
    scores = np.array([[[0.1, np.nan]], [[0.3, 0.5]]])
    study = Sensitivity(np.array([0.1, 1.0]), None, {"coverage": scores})
    (ax,) = sensitivity_figure({"linear": study}, metrics=["coverage"]).axes
    np.testing.assert_allclose(series(ax)["linear"].get_ydata(), [0.2, 0.5])


# -- looks --------------------------------------------------------------------------------------


def drawings():
    """Every figure, small, in a form that makes one."""
    rng = np.random.default_rng(1)
    study = Sensitivity(
        np.array([0.1, 0.2]), np.array([1.1, 1.9]), {m: rng.random((2, 2, 2)) for m in METRICS}
    )
    course = Course(np.array([3.0, 2.5, 2.1]), np.array([np.nan, 0.11, 0.14]))
    names = ["one-vs-rest logistic regression", "DM2L-nl (tuned)", *METHODS]
    sets = ("Arts", "Business", "Enron", "Image")
    return {
        "comparison": lambda axes=None: comparison_figure(table(), axes),
        "rate": lambda axes=None: rate_figure(table(names, sets), "coverage", axes),
        "time": lambda axes=None: time_figure(table(names), axes),
        "ranks": lambda axes=None: label_rank_figure(label_ranks(rng.random((40, 5)) < 0.4), axes),
        "convergence": lambda axes=None: convergence_figure(
            Convergence({"lbfgs": course}, 2.0), axes
        ),
        "sensitivity": lambda axes=None: sensitivity_figure(
            {"DM2L-nl": study}, axes, at={"DM2L-nl": 1.1}
        ),
    }


PANELS = {"comparison": 4, "rate": 4, "time": 1, "ranks": 3, "convergence": 2, "sensitivity": 4}


@pytest.mark.parametrize("name", PANELS)
def test_a_figure_of_its_own_is_as_wide_as_a_page_and_nothing_is_cut_off_or_overlaps(name):
    figure = drawings()[name]()
    assert figure.get_figwidth() == 7.0
    assert len(figure.axes) == PANELS[name]
    renderer = renderer_of(figure)
    written = [t for ax in figure.axes for t in (ax.xaxis.label, ax.yaxis.label, *ax.texts)]
    written += [t for legend in figure.legends for t in legend.get_texts()]
    for ax in figure.axes:
        for axis, side in ((ax.xaxis, 0), (ax.yaxis, 1)):
            low, high = ax.get_window_extent(renderer).get_points()[:, side]
            ticks = [tick.label1 for tick in axis.get_major_ticks() + axis.get_minor_ticks()]
            found = [(t, t.get_window_extent(renderer)) for t in ticks if t.get_text()]
            # Those beyond the ends of the axis are there, but not drawn.
            found = [
                (t, box)
                for t, box in found
                if low - 1 <= box.get_points()[:, side].mean() <= high + 1
            ]
            assert len(found) >= 2
            assert not any(one.overlaps(other) for (_, one), (_, other) in combinations(found, 2))
            written += [t for t, _ in found]
    page = figure.bbox.padded(1)
    for text in (t for t in written if t.get_text()):
        assert text.get_fontsize() >= 8
        box = text.get_window_extent(renderer)
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1


@pytest.mark.parametrize("name", PANELS)
def test_a_figure_is_drawn_into_axes_that_are_given(name):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4))
    axes = figure.subplots(1, PANELS[name], squeeze=False)[0]
    assert drawings()[name](axes) is figure
    assert figure.axes == list(axes)
    assert all(ax.has_data() for ax in axes)
    assert not figure.legends
    assert (axes[0].get_legend() is None) == (name == "time")
    with pytest.raises(
        ValueError, match=f"axes must be {PANELS[name]} panels, got {PANELS[name] + 1}"
    ):
        drawings()[name]([*axes, figure.add_subplot()])


@pytest.mark.parametrize(
    ("low", "high"), [(2.1, 2.9), (0.03, 0.4), (1, 60), (0.001, 500), (1e-7, 2)]
)
def test_ticks_of_log_axes_are_few_plain_numbers(low, high):
    rows = [cell("LEML", seconds_fit=low), cell("LEML", repetition=1, seconds_fit=high)]
    figure = time_figure(rows)
    (ax,) = figure.axes
    figure.draw_without_rendering()
    left, right = ax.get_xlim()
    shown = [
        t for t in ax.get_xticklabels() if left <= t.get_position()[0] <= right and t.get_text()
    ]
    assert 2 <= len(shown) <= 9
    assert not [t.get_text() for t in ax.get_xticklabels(minor=True) if t.get_text()]
    if low > 1e-4:
        for label in shown:
            assert float(label.get_text().replace(",", "")) == pytest.approx(
                label.get_position()[0], rel=0.06
            )


def test_series_differ_without_their_colours_too():
    styles = series_styles([str(i) for i in range(55)])
    grey = {(style["marker"], style["linestyle"]) for style in styles.values()}
    assert len(grey) == 55
    for style in list(styles.values())[:7]:
        assert style["markerfacecolor"] == style["color"]
    for style in list(styles.values())[7:14]:
        assert style["markerfacecolor"] == "white"


# Machado, Oliveira and Fernandes (2009): linear RGB as seen with one kind of cone lacking.
VISION = {
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def cielab(colour, vision):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(VISION[vision]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ seen / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_colours_can_be_told_apart_by_readers_of_every_colour_vision(vision):
    seen = [cielab(colour, vision) for colour in COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) >= 20


def test_colours_are_dark_enough_for_a_white_page():
    assert max(cielab(colour, "normal")[0] for colour in COLOURS) < 72


def test_the_first_four_colours_differ_in_grey():
    lightness = sorted(cielab(colour, "normal")[0] for colour in COLOURS[:4])
    assert min(np.diff(lightness)) > 14


# -- SVG ----------------------------------------------------------------------------------------


def identifiers(svg):
    return [e.attrib["id"] for e in ET.fromstring(svg).iter() if "id" in e.attrib]


def references(svg):
    return re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)


@pytest.fixture(scope="module")
def svgs():
    return {name: inline_svg(to_svg(draw()), name) for name, draw in drawings().items()}


@pytest.mark.parametrize("name", PANELS)
def test_the_same_figure_gives_the_same_svg(svgs, name):
    figure = drawings()[name]()
    renderer_of(figure)  # on a screen before, with another layout
    assert inline_svg(to_svg(figure), name) == svgs[name]


@pytest.mark.parametrize("name", PANELS)
def test_svg_is_self_contained_and_rules_nothing_around_it(svgs, name):
    svg = svgs[name]
    assert svg.startswith("<svg ")
    assert svg.rstrip().endswith("</svg>")
    for unwanted in ("<?xml", "<!DOCTYPE", "<metadata", "<text", "<script", "<!--"):
        assert unwanted not in svg
    assert "http" not in svg
    assert re.findall(r"<style[^>]*>(.{,20})", svg) == [f"#{name}{{*{{stroke-linejo"[:20]]


@pytest.mark.parametrize("name", PANELS)
def test_ids_are_unique_and_every_reference_finds_its_own(svgs, name):
    found = identifiers(svgs[name])
    assert len(found) == len(set(found))
    targets = {one or other for one, other in references(svgs[name])}
    assert targets
    assert targets <= set(found)
    assert all(identifier.startswith(found[0]) for identifier in found)


def test_several_figures_fit_on_one_page(svgs):
    figure = to_svg(time_figure(table(METHODS[:2])))
    pages = [*svgs.values(), inline_svg(figure, "first"), inline_svg(figure, "again")]
    together = [identifier for svg in pages for identifier in identifiers(svg)]
    assert len(together) == len(set(together))


def test_ids_that_a_figure_gives_twice_are_no_ids_of_a_page():
    ax = critical_difference_diagram([1.2, 2.1, 2.7], 0.5, names=["a", "b", "c"])
    svg = to_svg(ax.figure)
    assert svg.count('id="method"') == 3
    found = identifiers(inline_svg(svg, "cd"))
    assert len(found) == len(set(found))


def test_title_and_description_are_there_for_those_who_cannot_see():
    figure = comparison_figure(table())
    told = to_svg(figure, title="A < B & C", description="Say 'so'")
    root = ET.fromstring(inline_svg(told, "f"))
    title, description = root[0], root[1]
    assert (title.tag, title.text) == ("title", "A < B & C")
    assert (description.tag, description.text) == ("desc", "Say 'so'")
    assert root.attrib["role"] == "img"
    labelled = root.attrib["aria-labelledby"].split()
    assert labelled == [title.attrib["id"], description.attrib["id"]]
    root = ET.fromstring(to_svg(figure))
    for word in ("ranking loss", "coverage, labels ↓ against observation rate, %", *METHODS):
        assert word in root[1].text
    assert root[0].text == "ranking loss ↓"


def test_formulas_and_shared_axes_are_read_out_plainly(studies):
    svg = to_svg(sensitivity_figure(studies, at={"DM2L-nl": 1.0}))
    assert "coverage, labels ↓ against lambda_d" in ET.fromstring(svg)[1].text
    svg = to_svg(rate_figure(table(datasets=("Arts", "Enron")), "coverage"))
    assert "Enron: coverage, labels ↓ against" in ET.fromstring(svg)[1].text


def test_settings_of_the_reader_do_not_change_the_svg():
    import matplotlib as mpl

    figure = comparison_figure(table())
    expected = to_svg(figure)
    others = {"svg.fonttype": "none", "svg.hashsalt": "other", "savefig.bbox": "tight"}
    with mpl.rc_context(others):
        assert to_svg(figure) == expected
        assert mpl.rcParams["svg.fonttype"] == "none"


# -- imports ------------------------------------------------------------------------------------


def test_matplotlib_is_imported_when_something_is_drawn_and_pyplot_never():
    """Where it is missing, the error says what to install."""
    code = """
import sys
from dm2l_lab._figures import comparison_figure, time_figure
from dm2l.plots._panels import series_styles
from dm2l_lab.report._svg import to_svg
series_styles(["a"])
assert "matplotlib" not in sys.modules
row = dict(protocol="p", dataset="d", mask="none", rate=1.0, repetition=0, method="m")
sys.modules["matplotlib"] = None
try:
    comparison_figure([row | dict(status="done")], metrics=["coverage"])
except ImportError as error:
    assert "pip install 'dm2l[plot]'" in str(error), error
else:
    raise AssertionError("nothing was raised")
del sys.modules["matplotlib"]
to_svg(time_figure([row | dict(status="done", seconds_fit=1.0, device="cpu")]))
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning:dm2l", "-c", code], check=True)
