"""The figures: what is drawn where, and what is written on the axes."""

from __future__ import annotations

import statistics
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from experiments.figures import comparison_figure, figures, rate_figure, time_figure
from experiments.published import BY_NAME, PAPER_MEASURES
from experiments.studies.convergence import Convergence, Course
from experiments.studies.figures import convergence_figure, label_rank_figure, sensitivity_figure
from experiments.studies.label_ranks import label_ranks
from experiments.studies.sensitivity import METRICS, Sensitivity
from small_experiments import Rows

pytest.importorskip("matplotlib", reason="figures need the extra plot")

RATES = (1.0, 0.7, 0.3)
METHODS = ("LEML", "DM2L-Lo", "DM2L-l")
ROOT = Path(__file__).parents[2]
COVERAGE, PRECISION = BY_NAME["Cvg"], BY_NAME["Ap"]


def table(methods=METHODS, datasets=("Arts",), repetitions=4):
    """Rows with values that tell where they belong."""
    rows = Rows()
    for dataset in datasets:
        for rate in RATES:
            for method in methods:
                seeds = [
                    [len(method), int(100 * rate), r, len(dataset)] for r in range(repetitions)
                ]
                drawn = [np.random.default_rng(seed) for seed in seeds]
                values = [
                    {m.name: float(v) for m, v in zip(PAPER_MEASURES, rng.random(4), strict=True)}
                    for rng in drawn
                ]
                rows.add(dataset, method, values, rate=rate)
                for row, rng in zip(rows.rows[-repetitions:], drawn, strict=True):
                    row["seconds_fit"] = float(10 ** rng.uniform(-2, 3))
    return rows


def values_of(rows, metric, **where):
    chosen = [row for row in rows.rows if all(row[name] == value for name, value in where.items())]
    return [row[f"published_{metric}"] for row in chosen]


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


# -- results ------------------------------------------------------------------------------------


def test_methods_are_compared_at_each_rate_in_each_metric():
    rows = table()
    figure = comparison_figure(rows.results(), ["DM2L-Lo", "LEML"], "Arts")
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
    figure = comparison_figure(table().results(), METHODS, "Arts")
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "ranking loss ↓",
        "AUC per instance ↑",
        "coverage, labels ↓",
        "average precision ↑",
    ]
    # Under the lower row only: the upper one has the same axis.
    names = [ax.get_xlabel() for ax in figure.axes]
    assert names == ["", "", "observation rate, %", "observation rate, %"]


def test_other_masks_and_undefined_metrics_are_left_out():
    rows = table(repetitions=2)
    expected = values_of(rows, "coverage", method="LEML", rate=0.3)
    rows.add("Arts", "LEML", [None, None, {"Cvg": None}], rate=0.3)
    rows.add("Arts", "LEML", [None, None, None, {"Cvg": 0.77}], rate=0.3, mask="uniform")
    figure = comparison_figure(rows.results(), METHODS, "Arts", [COVERAGE])
    points, _ = bars(series(figure.axes[0])["LEML"])
    assert points[0, 1] == pytest.approx(statistics.fmean(expected))
    assert figure.legends[0].get_title().get_text().endswith("of 2 repetitions")
    other = comparison_figure(rows.results(mask="uniform"), METHODS, "Arts", [COVERAGE])
    points, _ = bars(series(other.axes[0])["LEML"])
    assert points[0, 1] == 0.77


def test_a_single_repetition_has_no_bars_and_says_so():
    figure = comparison_figure(table(repetitions=1).results(), METHODS, "Arts", [COVERAGE])
    for container in series(figure.axes[0]).values():
        points, ends = bars(container)
        assert len(points) == 3
        assert not len(ends)
    assert figure.legends[0].get_title().get_text() == "one repetition"


def test_a_metric_no_row_defines_leaves_a_method_out():
    rows = table(methods=["a", "bb"])
    for row in rows.rows:
        if row["method"] == "a":
            row["published_coverage"] = None
    figure = comparison_figure(rows.results(), ["a", "bb"], "Arts", [COVERAGE])
    assert list(series(figure.axes[0])) == ["bb"]


def test_a_metric_against_the_rate_has_a_panel_for_each_data_set_and_a_line_for_each_method():
    sets = ("Arts", "Business", "Enron", "Image")
    rows = table(datasets=sets)
    figure = rate_figure(rows.results(), PRECISION)
    assert [ax.get_title(loc="left") for ax in figure.axes] == list(sets)
    methods = ["LEML", "DM2L-l", "DM2L-Lo"]  # in the order of the paper, the ablation last
    assert legend_names(figure) == methods
    for ax, dataset in zip(figure.axes, sets, strict=True):
        lines = series(ax)
        assert list(lines) == methods
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
    rows = table(datasets=("Arts", "Enron"))
    rows.rows = [r for r in rows.rows if r["method"] != "LEML" or r["dataset"] == "Enron"]
    figure = rate_figure(rows.results(), COVERAGE)
    arts, enron = (series(ax) for ax in figure.axes)
    assert list(arts) == ["DM2L-l", "DM2L-Lo"]
    assert set(enron) == set(METHODS)
    for name, line in arts.items():
        for what in ("color", "marker", "linestyle"):
            assert getattr(line, f"get_{what}")() == getattr(enron[name], f"get_{what}")()
    assert set(legend_names(figure)) == set(METHODS)


def test_times_are_dots_at_medians_and_lines_from_shortest_to_longest_on_a_log_axis():
    rows = table(repetitions=5)
    (ax,) = time_figure(rows.frame(), "Arts").axes
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "time to fit, seconds"
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert sorted(names) == sorted(METHODS)
    seconds = {name: [r["seconds_fit"] for r in rows.rows if r["method"] == name] for name in names}
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


def timed(*seconds, method="LEML", **others):
    rows = Rows()
    for repetition, value in enumerate(seconds):
        empty = [None] * repetition
        rows.add("Arts", method, [*empty, 0.1], seconds_fit=value, **others)
    return rows.frame()


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
    (ax,) = time_figure(timed(seconds), "Arts").axes
    assert [label.get_text() for label in ax.texts] == [text]


def test_times_on_a_device_are_kept_apart_and_unknown_ones_left_out():
    rows = Rows()
    rows.add("Arts", "DM2L-nl", [0.1], seconds_fit=5.0)
    rows.add("Arts", "DM2L-nl", [None, 0.1], seconds_fit=0.1, device="cuda")
    rows.add("Arts", "DM2L-nl", [None, None, 0.1])
    (ax,) = time_figure(rows.frame(), "Arts").axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["DM2L-nl, cuda", "DM2L-nl"]


def test_a_report_has_figures_of_rates_pairs_times_and_ranks():
    names = [name for name, _, _ in figures(table(datasets=("Arts", "Enron")).results())]
    assert names == [
        *("rates-rkl", "rates-auc", "rates-cvg", "rates-ap"),
        *("leml-and-dm2l-lo-on-arts", "dm2l-l-and-dm2l-lo-on-arts"),
        *("times-arts", "times-enron", "ranks-rkl", "ranks-auc", "ranks-cvg", "ranks-ap"),
    ]


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
    quantities = lambda s: s.rank, lambda s: s.singular_values.sum()
    for ax, value_of in zip(figure.axes[:2], quantities, strict=True):
        drawn = series(ax)
        assert ax.get_xscale() == "log"
        points = drawn["rows of one label"].get_xydata()
        values = list(map(value_of, ranks.groups.values()))
        np.testing.assert_allclose(points, np.column_stack([sizes, values]))
        middles, ends = bars(drawn["random rows, as many"])
        random = [list(map(value_of, ranks.random[name])) for name in ranks.groups]
        np.testing.assert_allclose(middles[:, 0], sizes)
        np.testing.assert_allclose(middles[:, 1], np.mean(random, axis=1))
        np.testing.assert_allclose(ends[..., 1], [[min(r), max(r)] for r in random])
        whole = drawn["all 300 rows"].get_ydata()
        np.testing.assert_allclose(whole, value_of(ranks.whole))
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
    kernel = Sensitivity(lambda_ds, sigmas[:1], {m: rng.random((5, 1, 4)) for m in METRICS})
    return {"DM2L-l": linear, "DM2L-nl": kernel}


def test_sensitivity_is_a_mean_with_a_band_over_repetitions(studies):
    figure = sensitivity_figure(studies)
    assert legend_names(figure) == ["DM2L-l", "DM2L-nl"]
    for ax, metric in zip(figure.axes, METRICS, strict=True):
        assert ax.get_xscale() == "log"
        lines = series(ax)
        tables = {
            "DM2L-l": studies["DM2L-l"].scores[metric][:, 0],
            "DM2L-nl": studies["DM2L-nl"].scores[metric][:, 0],
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
    rng, sigmas = np.random.default_rng(1), np.array([0.5, 1.0, 2.0])
    kernel = Sensitivity(np.array([0.1]), sigmas, {m: rng.random((5, 3, 1)) for m in METRICS})
    figure = sensitivity_figure({"DM2L-nl": kernel}, parameter="sigma")
    for ax, metric in zip(figure.axes, METRICS, strict=True):
        expected = kernel.scores[metric][:, :, 0].mean(axis=0)
        np.testing.assert_allclose(series(ax)["DM2L-nl"].get_ydata(), expected)
    assert "unit of the features" in figure.axes[-1].get_xlabel()
    assert "dotted" not in figure.legends[0].get_title().get_text()
    with pytest.raises(ValueError, match="'sigma' is not what alone varies"):
        sensitivity_figure(studies, parameter="sigma")


def test_values_that_are_missing_in_some_repetitions_do_not_count():
    scores = dict.fromkeys(METRICS, np.array([[[0.1, np.nan]], [[0.3, 0.5]]]))
    study = Sensitivity(np.array([0.1, 1.0]), None, scores)
    ax = sensitivity_figure({"linear": study}).axes[0]
    np.testing.assert_allclose(series(ax)["linear"].get_ydata(), [0.2, 0.5])


# -- looks --------------------------------------------------------------------------------------


def drawings():
    """Every figure, small."""
    rng = np.random.default_rng(1)
    study = Sensitivity(
        np.array([0.1, 0.2]), np.array([1.1]), {m: rng.random((2, 1, 2)) for m in METRICS}
    )
    course = Course(np.array([3.0, 2.5, 2.1]), np.array([np.nan, 0.11, 0.14]))
    names = ["one-vs-rest logistic regression", "DM2L-nl (tuned)", *METHODS]
    sets = ("Arts", "Business", "Enron", "Image")
    return {
        "comparison": lambda: comparison_figure(table().results(), METHODS, "Arts"),
        "rate": lambda: rate_figure(table(names, sets).results(), COVERAGE),
        "time": lambda: time_figure(table(names).frame(), "Arts"),
        "ranks": lambda: label_rank_figure(label_ranks(rng.random((40, 5)) < 0.4)),
        "convergence": lambda: convergence_figure(Convergence({"lbfgs": course}, 2.0)),
        "sensitivity": lambda: sensitivity_figure({"DM2L-nl": study}),
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


@pytest.mark.parametrize(
    ("low", "high"), [(2.1, 2.9), (0.03, 0.4), (1, 60), (0.001, 500), (1e-7, 2)]
)
def test_ticks_of_log_axes_are_few_plain_numbers(low, high):
    figure = time_figure(timed(low, high), "Arts")
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


# -- imports ------------------------------------------------------------------------------------


def test_pyplot_is_never_imported():
    code = """
import sys
from experiments.figures import time_figure
import pandas as pd
row = dict(dataset="Arts", method="m", device="cpu", seconds_fit=1.0)
time_figure(pd.DataFrame([row]), "Arts")
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
