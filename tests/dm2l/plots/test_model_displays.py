"""Displays of models: numbers against loops and other libraries, and what is drawn of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.labels import LabelMatrix
from dm2l.model_selection import MultilabelKFold, get_scorer
from dm2l.plots import (
    ConvergenceDisplay,
    CouplingDisplay,
    PathDisplay,
    ReliabilityDisplay,
)

matplotlib = pytest.importorskip("matplotlib", reason="plots need the extra plot")
matplotlib.use("Agg")

NAN = np.nan


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_missing_multilabel(n_samples=150, random_state=0)[:2]


@pytest.fixture(scope="module")
def search(data):
    settings = {"lambda_ds": [1.0, 0.0, 0.1], "alphas": [1.0, 10.0], "gammas": [0.1, 0.5]}
    return DM2LClassifierCV(**settings, kernel="rbf", cv=4, scoring="neg_ranking_loss").fit(*data)


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


# -- convergence --------------------------------------------------------------------------------


def test_distances_are_from_the_lowest_of_all(data):
    models = {s: DM2LClassifier(solver=s).fit(*data) for s in ("lbfgs", "cccp")}
    display = ConvergenceDisplay.from_estimators(models)
    lowest = min(min(m.objective_history_) for m in models.values())
    for name, model in models.items():
        expected = [(value - lowest) / lowest for value in model.objective_history_]
        np.testing.assert_allclose(display.distance(name), expected)
        x, y = display.lines_[name].get_data()
        shown = [i for i, value in enumerate(expected) if value > 0]
        assert x.tolist() == shown
        np.testing.assert_allclose(y, [expected[i] for i in shown])
    assert display.ax_.get_yscale() == "log"
    assert legend_texts(display) == [
        f"{name}: {model.n_evaluations_:,} evaluations" for name, model in models.items()
    ]


def test_a_pipeline_and_a_search(data):
    pipeline = make_pipeline(StandardScaler(), DM2LClassifier()).fit(*data)
    display = ConvergenceDisplay.from_estimators({"DM2LClassifier": pipeline})
    history = pipeline[-1].objective_history_
    assert list(display.lines_) == ["DM2LClassifier"]
    np.testing.assert_allclose(display.distance("DM2LClassifier"), history / min(history) - 1)
    found = DM2LClassifierCV(lambda_ds=[0.1], alphas=[1.0], cv=2).fit(*data)
    named = ConvergenceDisplay.from_estimators({"search": found})
    np.testing.assert_array_equal(named.histories["search"], found.objective_history_)


def test_what_has_no_course_is_refused(data):
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(DM2LClassifier())
    fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="LogisticRegression has no objective_history_"):
        ConvergenceDisplay.from_estimator(fitted)
    model = DM2LClassifier().fit(*data)
    for empty in ({}, [model]):
        with pytest.raises(ValueError, match="dict of names to fitted estimators"):
            ConvergenceDisplay.from_estimators(empty)


# -- path ---------------------------------------------------------------------------------------


def test_means_and_standard_errors_are_those_of_the_folds(search):
    display = PathDisplay.from_estimator(search)
    assert display.lambda_ds.tolist() == [0.0, 0.1, 1.0]
    assert display.metric == "ranking_loss"
    assert display.ax_.get_ylabel() == "ranking loss ↓"
    pairs = [{"alpha": a, "gamma": g} for g in (0.1, 0.5) for a in (1.0, 10.0)]
    assert display.settings == pairs
    results = search.cv_results_
    for i, setting in enumerate(results["params"]):
        losses = [-results[f"split{fold}_test_score"][i] for fold in range(4)]
        curve = pairs.index({"alpha": setting["alpha"], "gamma": setting["gamma"]})
        place = [0.0, 0.1, 1.0].index(setting["lambda_d"])
        assert display.means[curve, place] == pytest.approx(np.mean(losses))
        assert display.errors[curve, place] == pytest.approx(stats.sem(losses))


def test_the_ring_is_around_the_chosen_setting(search):
    display = PathDisplay.from_estimator(search)
    curve, place = display.chosen
    chosen = display.settings[curve] | {"lambda_d": display.lambda_ds[place]}
    assert chosen == search.best_params_
    x, y = (values[0] for values in display.chosen_.get_data())
    assert y == pytest.approx(-search.best_score_)
    assert x == display.lines_[curve][0].get_xdata()[place]
    ring = next(text for text in legend_texts(display) if text.startswith("chosen"))
    assert rf"$\lambda_d$ = {search.lambda_d_:.3g}" in ring
    assert len(display.lines_) == 4
    assert (
        display.ax_.get_legend()
        .get_title()
        .get_text()
        .startswith("mean ± standard error of 4 folds")
    )


def test_points_stand_near_their_lambda(search):
    for line in PathDisplay.from_estimator(search).lines_:
        np.testing.assert_allclose(np.log10(line[0].get_xdata()[1:]), [-1, 0], atol=0.18)


def test_zero_has_a_place_apart_on_the_log_axis(search):
    ax = PathDisplay.from_estimator(search).ax_
    assert ax.get_xscale() == "log"
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "0.1", "1"]
    ticks = ax.get_xticks()
    assert 0 < ticks[0] < ticks[1] == 0.1
    assert ticks[1] / ticks[0] > ticks[2] / ticks[1]


def found(results):
    """A search that has these results."""
    search = GridSearchCV(DM2LClassifier(), {})
    search.cv_results_ = results
    return search


def test_settings_that_were_not_tried_and_single_folds_are_gaps():
    results = {
        "param_model__lambda_d": np.array([0.0, 1.0, 1.0]),
        "param_model__alpha": np.array([1.0, 1.0, 2.0]),
        "split0_test_score": np.array([0.5, 0.6, 0.7]),
        "split1_test_score": np.array([0.7, NAN, NAN]),
    }
    display = PathDisplay.from_estimator(found(results))
    np.testing.assert_allclose(display.means, [[0.6, 0.6], [NAN, 0.7]])
    np.testing.assert_allclose(display.errors, [[0.1, NAN], [NAN, NAN]])
    assert display.chosen is None
    assert display.chosen_ is None


def test_a_grid_search_of_scikit_learn(data):
    grid = GridSearchCV(
        DM2LClassifier(),
        {"lambda_d": [0.0, 0.1], "alpha": [1.0, 10.0]},
        scoring=get_scorer("label_ranking_average_precision"),
        cv=MultilabelKFold(2),
    ).fit(*data)
    display = PathDisplay.from_estimator(grid)
    assert display.means[display.chosen] == pytest.approx(grid.best_score_)
    assert display.settings == [{"alpha": 1.0}, {"alpha": 10.0}]
    assert display.ax_.get_ylabel() == "score"


def test_a_search_without_lambda_is_refused(data):
    grid = GridSearchCV(MaskedRidgeClassifier(), {"alpha": [1.0, 2.0]}, cv=MultilabelKFold(2)).fit(
        *data
    )
    with pytest.raises(ValueError, match="no param_lambda_d"):
        PathDisplay.from_estimator(grid)
    with pytest.raises(NotFittedError):
        PathDisplay.from_estimator(DM2LClassifierCV())


# -- reliability --------------------------------------------------------------------------------


def answers(n=400, c=3, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.random((n, c))
    Y = (rng.random((n, c)) < P**1.5).astype(float)
    Y[rng.random((n, c)) < 0.4] = NAN
    return Y, P


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 4, 10])
def test_shares_are_those_of_scikit_learn_on_observed_entries(strategy, n_bins):
    Y, P = answers()
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=n_bins, strategy=strategy)
    seen = ~np.isnan(Y)
    share, mean = calibration_curve(Y[seen], P[seen], n_bins=n_bins, strategy=strategy)
    np.testing.assert_allclose(display.share, share)
    np.testing.assert_allclose(display.probability, mean)
    assert display.count.sum() == seen.sum() == display.histogram.sum()
    assert display.brier == pytest.approx(np.mean((Y[seen] - P[seen]) ** 2))


def test_intervals_are_wilsons():
    Y, P = answers(n=60)
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=5)
    z = stats.norm.ppf(0.975)
    for b in range(5):
        n, p = display.count[b], display.share[b]
        middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        width = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        assert display.low[b] == pytest.approx(middle - width)
        assert display.high[b] == pytest.approx(middle + width)


def test_entries_are_counted_bin_by_bin():
    Y, P = answers(n=50)
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=4)
    counts, twentieths = [0] * 4, [0] * 20
    for y, p in zip(Y.ravel(), P.ravel(), strict=True):
        if not np.isnan(y):
            counts[int(np.ceil(4 * p)) - 1] += 1
            twentieths[int(20 * p)] += 1
    assert display.count.tolist() == counts
    assert display.histogram.tolist() == twentieths
    assert [bar.get_height() for bar in display.bars_] == twentieths


def test_what_is_hidden_does_not_matter():
    Y, P = answers()
    seen = ~np.isnan(Y)
    one, other = (
        ReliabilityDisplay.from_predictions(
            LabelMatrix.from_array(np.where(seen, Y, fill).astype(int), mask=seen),
            np.where(seen, P, fill),
        )
        for fill in (0, 1)
    )
    np.testing.assert_array_equal(one.share, other.share)
    np.testing.assert_array_equal(one.histogram, other.histogram)
    assert one.brier == other.brier


def test_points_are_drawn_in_percent_with_their_intervals():
    display = ReliabilityDisplay.from_predictions(*answers(), n_bins=5)
    x, y = display.line_[0].get_data()
    np.testing.assert_allclose(x, 100 * display.probability)
    np.testing.assert_allclose(y, 100 * display.share)
    bars = display.line_[2][0].get_segments()
    np.testing.assert_allclose([bar[0, 1] for bar in bars], 100 * display.low)
    np.testing.assert_allclose([bar[1, 1] for bar in bars], 100 * display.high)
    assert display.perfect_line_.get_xydata().tolist() == [[0, 0], [100, 100]]
    assert display.ax_.get_xlabel().endswith("%")
    assert display.ax_.get_ylabel().endswith("%")


def test_a_second_model_has_another_look_and_no_second_diagonal():
    Y, P = answers()
    first = ReliabilityDisplay.from_predictions(Y, P, name="a")
    second = ReliabilityDisplay.from_predictions(Y, np.sqrt(P), name="b", ax=first.ax_)
    assert second.perfect_line_ is None
    assert second.bars_ is None
    assert second.line_[0].get_color() != first.line_[0].get_color()
    assert second.line_[0].get_marker() != first.line_[0].get_marker()
    texts = legend_texts(second)
    assert len(texts) == 3
    assert f"b, Brier score {second.brier:.3f}" in texts


def test_an_estimator_is_asked_for_its_probabilities(data):
    X, Y = data
    marked = np.where(np.isnan(Y), 7, Y).astype(int)
    model = DM2LClassifier(missing_label=7).fit(X, marked)
    one = ReliabilityDisplay.from_estimator(model, X, marked)
    other = ReliabilityDisplay.from_predictions(Y, model.predict_proba(X))
    np.testing.assert_array_equal(one.share, other.share)
    assert one.name == "DM2LClassifier"


def test_one_array_a_label_as_of_scikit_learn(data):
    X, Y = data[0], np.nan_to_num(data[1])[:, :3].astype(int)
    model = MultiOutputClassifier(LogisticRegression()).fit(X, Y)
    display = ReliabilityDisplay.from_estimator(model, X, Y)
    P = np.column_stack([part[:, 1] for part in model.predict_proba(X)])
    assert display.brier == pytest.approx(np.mean((P - Y) ** 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": [[0.5], [1.5]]}, r"1.5 in row 1, column 0.*predict_proba"),
        ({"probabilities": [[0.5], [NAN]]}, "probabilities has nan in row 1"),
        ({"Y": [[NAN], [NAN]]}, "All labels in Y are missing"),
        ({"n_bins": 0}, "n_bins must be an integer >= 1, got 0"),
        ({"strategy": "log"}, "strategy must be one of 'uniform', 'quantile'; got 'log'"),
    ],
)
def test_wrong_input_of_the_reliability(change, message):
    given = {"Y": [[1.0], [0.0]], "probabilities": [[0.5], [0.2]]} | change
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(**given)


def test_a_label_that_was_never_yes_in_training_has_probability_0():
    X, truth = make_missing_multilabel(120, 5, 4, rho=1.0, random_state=3)
    Y_train = truth.copy()
    Y_train[:, 1] = 0
    model = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, Y_train)
    display = ReliabilityDisplay.from_estimator(model, X, truth)
    P = np.column_stack(
        [part[:, 1] if part.shape[1] == 2 else np.zeros(len(X)) for part in model.predict_proba(X)]
    )
    assert display.brier == pytest.approx(((P - truth) ** 2).mean())


def test_one_label_as_a_vector_is_its_yes():
    X, Y = make_missing_multilabel(120, 5, 4, rho=1.0, random_state=3)
    y = Y[:, 0].astype(int)
    model = DM2LClassifier().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y)
    p = model.predict_proba(X)[:, 1]
    assert display.brier == pytest.approx(((p - y) ** 2).mean())


def test_a_path_of_several_metrics_is_refused_by_name():
    results = {"param_lambda_d": [0.0, 1.0], "split0_test_ap": [0.5, 0.6]}
    with pytest.raises(ValueError, match="split0_test_score"):
        PathDisplay.from_estimator(found(results))


# -- coupling -----------------------------------------------------------------------------------


def test_coupling_is_the_correlation_of_the_covariance_with_like_beside_like(data):
    X, Y = data
    model = DM2LClassifier().fit(X, Y)
    display = CouplingDisplay.from_estimator(model)
    S = model.label_covariance_.matrix()
    for j in range(len(S)):
        for k in range(len(S)):
            expected = S[j, k] / np.sqrt(S[j, j] * S[k, k])
            assert display.correlation[j, k] == pytest.approx(expected)
    assert sorted(display.order_) == list(range(len(S)))
    drawn = np.ma.filled(display.image_.get_array(), NAN)
    assert np.isnan(np.diag(drawn)).all()
    assert drawn[0, 1] == display.correlation[display.order_[0], display.order_[1]]
    first, second, value = display.strongest(1)[0]
    best = np.abs(display.correlation - np.eye(len(S))).max()
    assert abs(value) == pytest.approx(best)
    assert first != second


def test_blocks_of_labels_are_drawn_as_blocks():
    block = np.arange(60) % 3
    correlation = np.where(block[:, None] == block, 0.6, -0.1)
    np.fill_diagonal(correlation, 1.0)
    display = CouplingDisplay(correlation, label_names=[f"y{k}" for k in range(60)]).plot()
    assert (np.diff(block[display.order_]) != 0).sum() == 2


def test_two_hundred_labels_are_readable():
    rng = np.random.default_rng(0)
    L = rng.normal(size=(200, 3))
    S = L @ L.T + np.eye(200)
    scale = np.sqrt(np.diag(S))
    names = [f"a label with a long name {k}" for k in range(200)]
    display = CouplingDisplay(S / np.outer(scale, scale), label_names=names).plot()
    display.figure_.canvas.draw()
    written = [t.get_window_extent() for t in display.ax_.get_yticklabels()]
    tops = sorted((box.y0, box.y1) for box in written)
    assert all(high <= low + 1 for (_, high), (low, _) in pairwise(tops))
    assert len(written) > 40


def test_coupling_needs_a_model_that_couples_and_two_labels(data):
    X, Y = data
    with pytest.raises(AttributeError, match="label_covariance_"):
        CouplingDisplay.from_estimator(DM2LClassifier(coupling=None).fit(X, Y))
    with pytest.raises(ValueError, match="at least two labels, got 1"):
        CouplingDisplay.from_estimator(DM2LClassifier().fit(X, Y[:, :1]))
    few = CouplingDisplay.from_estimator(DM2LClassifier().fit(X, Y), max_labels=2)
    assert len(few.label_names) == 2
