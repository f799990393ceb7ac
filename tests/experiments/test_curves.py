"""Ranks of labels, courses of solvers, sensitivity: the numbers behind figures."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dm2l import DM2LClassifier
from dm2l.datasets import make_missing_multilabel
from experiments.cell import RANKINGS
from experiments.studies.convergence import convergence
from experiments.studies.label_ranks import label_ranks
from experiments.studies.sensitivity import METRICS, Sensitivity, sensitivity

SIGNS = arrays(
    np.int8, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.integers(-1, 1)
)


# -- ranks --------------------------------------------------------------------------------------


def test_groups_are_the_rows_with_an_observed_positive_and_missing_labels_are_zeros():
    nan = np.nan
    Y = np.array([[1, 1, 0, 0], [nan, 1, 1, 0], [1, nan, nan, 0], [0, 0, 0, nan]])
    ranks = label_ranks(Y, draws=0)
    T = np.array([[1, 1, -1, -1], [0, 1, 1, -1], [1, 0, 0, -1], [-1, -1, -1, 0]])
    members = {"0": [0, 2], "1": [0, 1], "2": [1]}  # nothing has label 3
    assert list(ranks.groups) == list(members)
    assert not any(ranks.random.values())
    pairs = zip(ranks.groups.values(), members.values(), strict=True)
    for group, rows in [(ranks.whole, slice(None)), *pairs]:
        expected = np.linalg.svd(T[rows].astype(float), compute_uv=False)
        np.testing.assert_allclose(group.singular_values, expected, atol=1e-12)
        assert group.shape == T[rows].shape


def test_random_rows_are_as_many_as_the_group_has_and_the_same_every_time():
    Y = make_missing_multilabel(rho=1.0, random_state=0)[1]
    ranks, again, other = (label_ranks(Y, draws=3, random_state=seed) for seed in (1, 1, 2))
    for name, group in ranks.groups.items():
        drawn = ranks.random[name]
        assert [s.shape for s in drawn] == [group.shape] * 3
        values = [s.singular_values for s in drawn]
        np.testing.assert_array_equal(values, [s.singular_values for s in again.random[name]])
        assert not np.array_equal(values, [s.singular_values for s in other.random[name]])


@settings(deadline=None)
@given(SIGNS)
def test_no_group_exceeds_the_whole_and_groups_that_cover_it_exceed_it_together(T):
    T = T[(T > 0).any(axis=1)]
    if not len(T):
        return
    ranks = label_ranks(np.where(T == 0, np.nan, T > 0), draws=1)
    for group in ranks.groups.values():
        assert group.rank <= ranks.whole.rank
        assert group.singular_values.sum() <= ranks.whole.singular_values.sum() + 1e-9
    total = sum(group.singular_values.sum() for group in ranks.groups.values())  # Theorem 1
    assert total >= ranks.whole.singular_values.sum() - 1e-9


def test_an_implication_makes_a_group_low_rank_where_random_rows_are_not():
    rng = np.random.default_rng(0)
    Y = rng.random((400, 4)) < 0.5
    Y[:, 1] |= Y[:, 0]  # 0 implies 1
    ranks = label_ranks(Y, label_names=["snake", "reptile", "river", "tree"])
    assert ranks.whole.rank == 4
    assert {name: group.rank for name, group in ranks.groups.items()} == {
        "snake": 3,
        "reptile": 4,
        "river": 4,
        "tree": 4,
    }
    assert all(s.rank == 4 for s in ranks.random["snake"])


def test_names_of_labels_come_from_a_data_frame_and_have_to_fit():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"snake": [1, 0], "reptile": [1, 1]})
    assert list(label_ranks(frame).groups) == ["snake", "reptile"]
    for names in (["a"], ["a", "a"]):
        with pytest.raises(ValueError, match="must name 2 labels"):
            label_ranks(frame, label_names=names)


# -- convergence --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def covered():
    """Rows that all have an observed positive, so that all solvers have the same objective."""
    X, Y = make_missing_multilabel(150, 6, 5, rho=0.8, random_state=3)
    rows = (Y == 1).any(axis=1)
    return X[rows], Y[rows]


@pytest.fixture(scope="module")
def raced(covered):
    model = DM2LClassifier(lambda_d=0.5, alpha=5.0, fit_intercept=False, solver="cccp")
    return model, convergence(*covered, model, max_iter={"published": 300})


def test_courses_are_the_objectives_of_fits_made_alone(covered, raced):
    model, study = raced
    assert list(study.courses) == ["lbfgs", "cccp", "published"]
    for solver, course in study.courses.items():
        alone = DM2LClassifier(**model.get_params()).set_params(
            solver=solver, tol=1e-8, max_iter=300 if solver == "published" else 1000
        )
        alone.fit(*covered)
        np.testing.assert_allclose(course.objective, alone.objective_history_, rtol=1e-9)
        assert len(course.seconds) == len(course.objective)


def test_time_passes_from_iteration_to_iteration_and_nobody_knows_that_of_the_start(raced):
    for course in raced[1].courses.values():
        assert np.isnan(course.seconds[0])
        assert (course.seconds[1:] > 0).all()
        assert (np.diff(course.seconds[1:]) >= 0).all()


def test_all_solvers_come_near_the_same_lowest_objective(raced):
    study = raced[1]
    for solver, near in (("lbfgs", 1e-6), ("cccp", 1e-6), ("published", 1e-2)):
        distance = study.distance(solver)
        assert (distance >= 0).all()
        assert distance[-1] < near < distance[0]
        expected = study.courses[solver].objective / study.lowest - 1
        np.testing.assert_allclose(distance, expected, atol=1e-12)


def test_the_lowest_objective_is_looked_for_beyond_where_the_solvers_stop(covered):
    study = convergence(*covered, DM2LClassifier(alpha=5.0), solvers=["lbfgs"], tol=1e-2)
    tight = DM2LClassifier(alpha=5.0, tol=1e-6).fit(*covered).objective_
    assert study.distance("lbfgs").min() > 0
    assert study.lowest == pytest.approx(tight, rel=1e-3)


def test_the_estimator_only_says_what_the_objective_is(covered, raced):
    model, _ = raced
    assert model.solver == "cccp"
    assert model.verbose == 0
    assert not hasattr(model, "objective_")


def test_by_default_it_is_the_paper_and_its_number_of_rounds(covered):
    study = convergence(*covered)
    assert len(study.courses["published"].objective) <= 25
    alone = DM2LClassifier.published().fit(*covered)
    expected = alone.objective_history_
    np.testing.assert_allclose(study.courses["published"].objective, expected, rtol=1e-9)
    short = convergence(*covered, max_iter={"published": 3, "cccp": 1}, solvers=["published"])
    assert list(short.courses) == ["published"]
    assert len(short.courses["published"].objective) == 4


def test_a_model_without_norms_is_there_at_once(covered):
    study = convergence(*covered, DM2LClassifier(lambda_d=0, alpha=1.0), solvers=["lbfgs"])
    course = study.courses["lbfgs"]
    assert len(course.objective) == 1
    assert course.seconds[0] > 0


def test_a_progress_report_is_not_printed(covered, capsys):
    convergence(*covered, DM2LClassifier(alpha=5.0, verbose=5), solvers=["lbfgs"])
    assert capsys.readouterr() == ("", "")


def test_solvers_with_different_objectives_are_not_compared(covered):
    X, Y = covered
    bare = Y.copy()
    bare[7] = 0
    with pytest.raises(ValueError, match=r"1 rows, the first is number 7, .*'published' out of"):
        convergence(X, bare, DM2LClassifier(alpha=1.0))
    convergence(X, bare, DM2LClassifier(alpha=1.0), solvers=["lbfgs"])
    convergence(X, bare, DM2LClassifier(alpha=1.0, discriminant=False), solvers=["published"])
    with pytest.raises(ValueError, match="another ridge"):
        convergence(X, Y, DM2LClassifier(alpha=1.0, kernel="rbf"))


@pytest.mark.parametrize(
    "wrong", [{"solvers": ["newton"]}, {"solvers": []}, {"max_iter": {"x": 1}}]
)
def test_unknown_solvers_are_refused(covered, wrong):
    with pytest.raises(ValueError, match="must be among lbfgs, cccp, published"):
        convergence(*covered, **wrong)


# -- sensitivity --------------------------------------------------------------------------------

LAMBDAS = (0.0, 0.2, 1.0)
TIGHT = 1e-8  # so that no order of scores depends on where a solver stops
SIGMAS = (4.0, 2.0)  # not in order


@pytest.fixture(scope="module")
def split():
    X, Y, truth = make_missing_multilabel(
        280, 8, 5, rho=0.6, noise=1.0, random_state=1, return_truth=True
    )
    return X[:80], Y[:80], X[80:], truth[80:]


def alone(X, Y, X_test, Y_test, **model):
    """Metrics of one model that has seen nothing of the test rows."""
    scores = DM2LClassifier(**model, tol=TIGHT).fit(X, Y).decision_function(X_test)
    return [RANKINGS[m](Y_test, scores, convention="published") for m in METRICS]


def test_the_linear_model_scores_as_it_does_alone(split):
    study = sensitivity(*split, [1.0, 0.0, 0.2], alpha=3.0, search_tol=TIGHT)
    np.testing.assert_array_equal(study.lambda_ds, LAMBDAS)
    assert study.sigmas is None
    expected = [alone(*split, lambda_d=value, alpha=3.0) for value in LAMBDAS]
    for m, metric in enumerate(METRICS):
        assert study.scores[metric].shape == (1, 1, 3)
        found = study.along("lambda_d", metric)[1]
        np.testing.assert_allclose(found[0], [row[m] for row in expected], rtol=1e-9)
    assert len(set(study.scores["ranking_loss"].ravel())) == 3


def test_the_kernel_model_scores_as_it_does_alone_whatever_the_order(split):
    study = sensitivity(*split, LAMBDAS, SIGMAS, alpha=0.5, search_tol=TIGHT)
    np.testing.assert_allclose(study.sigmas, [2.0, 4.0])
    for (i, sigma), (j, value) in product(enumerate(study.sigmas), enumerate(LAMBDAS)):
        model = {"kernel": "rbf", "gamma": 1 / (2 * sigma**2), "lambda_d": value, "alpha": 0.5}
        found = [study.scores[metric][0, i, j] for metric in METRICS]
        np.testing.assert_allclose(found, alone(*split, **model), rtol=1e-9)
    assert len(set(study.scores["ranking_loss"].ravel())) == 6


def test_hidden_labels_and_test_labels_do_not_reach_the_fit(split):
    X, Y, X_test, Y_test = split
    mask = ~np.isnan(Y)

    def scores_of(Y, Y_test, **options):
        return sensitivity(X, Y, X_test, Y_test, [0.5], **options).scores

    fillings = [np.where(mask, Y, value) for value in (0.0, 1.0)]
    seen = [scores_of(filled, Y_test, label_mask=mask) for filled in fillings]
    seen.append(scores_of(Y, Y_test))
    for other in seen[1:]:
        for metric in METRICS:
            np.testing.assert_array_equal(other[metric], seen[0][metric])
    # Turned round, the labels turn the metric round: the scores behind it are the same.
    turned = scores_of(Y, 1 - Y_test)["ranking_loss"]
    assert turned[0, 0, 0] == pytest.approx(1 - seen[0]["ranking_loss"][0, 0, 0])


def test_missing_test_labels_are_left_out_and_metrics_may_be_undefined(split):
    X, Y, X_test, Y_test = split
    few = Y_test.astype(float)
    few[20:] = np.nan
    expected = sensitivity(X, Y, X_test[:20], Y_test[:20], [0.1]).scores
    found = sensitivity(X, Y, X_test, few, [0.1]).scores
    np.testing.assert_allclose(found["ranking_loss"], expected["ranking_loss"])
    few[:] = 0
    assert np.isnan(sensitivity(X, Y, X_test, few, [0.1]).scores["ranking_loss"]).all()


def test_sparse_features_and_further_settings_are_taken(split):
    X, Y, X_test, Y_test = split
    dense = sensitivity(X, Y, X_test, Y_test, [0.1], alpha=2.0)
    sparse = sensitivity(sp.csr_array(X), Y, sp.csr_array(X_test), Y_test, [0.1], alpha=2.0)
    np.testing.assert_allclose(sparse.scores["coverage"], dense.scores["coverage"], rtol=1e-3)
    whole, local = (
        sensitivity(X, Y, X_test, Y_test, [3.0], alpha=2.0, discriminant=switch).scores["coverage"]
        for switch in (True, False)
    )
    assert whole != local


def test_rows_that_do_not_fit_together_are_refused(split):
    X, Y, X_test, Y_test = split
    with pytest.raises(ValueError, match="X has 79 rows, and its labels 80"):
        sensitivity(X[1:], Y, X_test, Y_test, [0.1])
    with pytest.raises(ValueError, match="8 features and 5 labels, test rows 7 and 5"):
        sensitivity(X, Y, X_test[:, 1:], Y_test, [0.1])
    with pytest.raises(ValueError, match="5 labels, test rows 8 and 4"):
        sensitivity(X, Y, X_test, Y_test[:, 1:], [0.1])
    with pytest.raises(ValueError, match="nothing to fit"):
        sensitivity(X, np.ones_like(Y), X_test, Y_test, [0.1])


def test_a_study_is_read_along_the_parameter_that_varies():
    lambda_ds, sigmas = np.array([0.1, 1.0, 10.0]), np.array([0.5, 2.0])
    weights = Sensitivity(lambda_ds, None, {"m": np.arange(6.0).reshape(2, 1, 3)})
    values, scores = weights.along("lambda_d", "m")
    np.testing.assert_array_equal(values, lambda_ds)
    np.testing.assert_array_equal(scores, [[0, 1, 2], [3, 4, 5]])
    widths = Sensitivity(lambda_ds[:1], sigmas, {"m": np.arange(4.0).reshape(2, 2, 1)})
    values, scores = widths.along("sigma", "m")
    np.testing.assert_array_equal(values, sigmas)
    np.testing.assert_array_equal(scores, [[0, 1], [2, 3]])
    both = Sensitivity(lambda_ds, sigmas, {"m": np.zeros((1, 2, 3))})
    for study, parameter in ((weights, "sigma"), (both, "sigma"), (both, "lambda_d")):
        with pytest.raises(ValueError, match=f"'{parameter}' is not what alone varies"):
            study.along(parameter, "m")


def test_repetitions_are_joined():
    grid = np.array([0.1, 1.0])
    parts = [Sensitivity(grid, None, {"m": np.full((1, 1, 2), float(i))}) for i in range(3)]
    joined = Sensitivity.join(parts)
    np.testing.assert_array_equal(joined.along("lambda_d", "m")[1], [[0, 0], [1, 1], [2, 2]])
