"""The metrics of observed labels against brute force, scikit-learn, and the laws they obey."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, note, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

import metric_oracles as oracles
import observed_metrics as metrics
from dm2l.labels import LabelMatrix, SparseLabelMatrix

NAN = math.nan
CONVENTIONS = ("paper", "published", "sklearn")
UNDEFINED = (None, "skip", "raise", 0.25, 0.0)
EVERY_EXAMPLE = settings(deadline=None, max_examples=40)


# ---------------------------------------------------------------------------------------------
# One case = one metric under one convention
# ---------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    Y: Any
    scores: Any
    predictions: Any

    def map(self, function) -> Problem:
        return Problem(*(function(table) for table in self))


class Case(NamedTuple):
    name: str
    kwargs: dict[str, Any]
    unit: str = "row"
    input: str = "scores"

    def __repr__(self) -> str:
        return "-".join([self.name, *map(str, self.kwargs.values())])

    def ask(self, problem: Problem, **kwargs: Any) -> Any:
        """Call the library, of a LabelMatrix where labels have marks or a mask."""
        function = getattr(metrics, self.name)
        marks = {name: kwargs.pop(name) for name in ("mask", "missing_label") if name in kwargs}
        Y = LabelMatrix.from_array(problem.Y, **marks) if marks else problem.Y
        return function(Y, getattr(problem, self.input), **self.kwargs, **kwargs)

    def expect(self, problem: Problem, undefined: Any = None) -> oracles.Expected:
        """Call the brute force."""
        function = getattr(oracles, self.name)
        return function(problem.Y, getattr(problem, self.input), **self.kwargs, undefined=undefined)


def conventional(name: str, unit: str = "row") -> list[Case]:
    return [Case(name, {"convention": convention}, unit) for convention in CONVENTIONS]


ROW_RANKING = [
    *conventional("ranking_loss"),
    *conventional("label_ranking_average_precision"),
    *conventional("coverage_error"),
    *conventional("instance_auc"),
    Case("one_error", {}),
]
PRECISION = [Case("precision_at_k", {"k": k}) for k in (1, 2, 3, 7)]
LABEL_RANKING = conventional("label_auc", "label")
BIPARTITION = [
    Case("hamming_loss", {}, "entry", "predictions"),
    Case("f1_micro", {}, "table", "predictions"),
    Case("f1_macro", {}, "label", "predictions"),
]
CASES = [*ROW_RANKING, *PRECISION, *LABEL_RANKING, *BIPARTITION]

every_case = pytest.mark.parametrize("case", CASES, ids=repr)


def counts(case: Case, problem: Problem, **kwargs: Any) -> Any:
    """The library's answer with counts, on problems where warnings are not the subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return case.ask(problem, return_counts=True, **kwargs)


def assert_same(actual: Any, expected: Any) -> None:
    assert actual.value == pytest.approx(expected.value, rel=1e-12, abs=1e-12, nan_ok=True)
    assert (actual.n_entries, actual.n_units) == (expected.n_entries, expected.n_units)


def assert_matches_brute_force(case: Case, problem: Problem, undefined: Any = None) -> None:
    try:
        expected = case.expect(problem, undefined)
    except oracles.UndefinedUnitsError:
        with pytest.raises(ValueError, match="undefined"):
            case.ask(problem, undefined=undefined)
        return
    if expected.n_units == 0:
        with pytest.warns(UndefinedMetricWarning):
            actual = case.ask(problem, undefined=undefined, return_counts=True)
    elif math.isnan(expected.value):  # scikit-learn's AUC of one class: a warning is optional
        actual = counts(case, problem, undefined=undefined)
    else:
        actual = case.ask(problem, undefined=undefined, return_counts=True)
        assert case.ask(problem, undefined=undefined) == actual.value
    assert_same(actual, expected)
    if case.unit != "entry":  # what an undefined entry would be is not said
        assert actual.n_undefined == expected.n_undefined


# ---------------------------------------------------------------------------------------------
# Data
# ---------------------------------------------------------------------------------------------


@pytest.fixture(params=range(3), ids="seed={}".format)
def rng(request) -> np.random.Generator:
    return np.random.default_rng(request.param)


def random_problem(rng, n: int = 12, c: int = 6, holes: float = 0.3, levels: int = 4) -> Problem:
    """Scores take ``levels`` values, so that ties abound; ``levels=0`` makes them all distinct."""
    Y = (rng.random((n, c)) < 0.4).astype(float)
    Y[rng.random((n, c)) < holes] = NAN
    if levels:
        scores = rng.integers(levels, size=(n, c)) - levels / 2 + 0.25
    else:
        scores = rng.permutation(n * c).reshape(n, c) / 8 - 2.0
    return Problem(Y, scores, rng.integers(2, size=(n, c)))


def ordinary_problem(rng, **kwargs: Any) -> Problem:
    """A problem in which every row and every label has both classes, so all is defined."""
    problem = random_problem(rng, **kwargs)
    n, c = problem.Y.shape
    assert n >= c >= 2, "with fewer rows the second assignment could undo the first"
    for i in range(n):
        problem.Y[i, i % c] = 1
        problem.Y[i, (i + 1) % c] = 0
    return problem


def tables(shape: tuple[int, int], values: list[float]):
    return hnp.arrays(float, shape, elements=st.sampled_from(values))


@st.composite
def problems(draw, values=(0.0, 1.0, NAN), max_side: int = 5, min_side: int = 1) -> Problem:
    """Small tables, in which ties, holes and rows or labels of one class are the rule."""
    shape = draw(st.tuples(*[st.integers(min_side, max_side)] * 2))
    return Problem(
        draw(tables(shape, list(values))),
        draw(tables(shape, [-1.0, 0.0, 0.5, 2.0])),
        draw(tables(shape, [0.0, 1.0])).astype(int),
    )


DEGENERATE = {
    "one entry, positive": [[1]],
    "one entry, negative": [[0]],
    "one entry, hidden": [[NAN]],
    "one row": [[1, 0, NAN, 0, 1]],
    "one label": [[1], [0], [NAN], [0], [1]],
    "all positive": [[1, 1, 1], [1, 1, 1]],
    "all negative": [[0, 0, 0], [0, 0, 0]],
    "all hidden": [[NAN, NAN, NAN], [NAN, NAN, NAN]],
    "a row of each kind": [[1, 0, NAN], [1, 1, NAN], [0, 0, NAN], [NAN, NAN, NAN]],
    "a label of each kind": [[1, 1, 0, NAN], [0, 1, 0, NAN], [NAN, NAN, NAN, NAN]],
    "positives never seen with negatives": [[1, NAN], [NAN, 0]],
}


def degenerate_problem(name: str, scores: str) -> Problem:
    Y = np.array(DEGENERATE[name], dtype=float)
    grid = np.arange(Y.size, dtype=float).reshape(Y.shape)
    tables = {"constant": np.ones(Y.shape), "rising": grid, "falling": -grid}
    return Problem(Y, tables[scores], (grid % 2).astype(int))


# ---------------------------------------------------------------------------------------------
# Against brute force
# ---------------------------------------------------------------------------------------------


# All cases judge the same tables, since drawing one takes longer than judging it ten times.
@settings(deadline=None, max_examples=60)
@given(problem=problems())
def test_matches_brute_force_on_small_tables(problem):
    for case, undefined in itertools.product(CASES, UNDEFINED):
        note(f"{case!r}, undefined={undefined}")
        assert_matches_brute_force(case, problem, undefined)


@every_case
def test_matches_brute_force_on_larger_tables(case, rng):
    for undefined in UNDEFINED:
        assert_matches_brute_force(case, random_problem(rng, n=25, c=9), undefined)
        assert_matches_brute_force(case, random_problem(rng, n=9, c=25, levels=0), undefined)


@every_case
def test_matches_brute_force_where_nothing_is_undefined(case, rng):
    problem = ordinary_problem(rng)
    assert_matches_brute_force(case, problem, "raise")


@pytest.mark.parametrize("name", DEGENERATE)
@every_case
def test_matches_brute_force_on_degenerate_tables(case, name):
    for scores, undefined in itertools.product(["constant", "rising", "falling"], UNDEFINED):
        assert_matches_brute_force(case, degenerate_problem(name, scores), undefined)


@pytest.mark.parametrize("shape", [(3, 300), (300, 3)], ids=str)
@every_case
def test_counts_do_not_overflow_small_integer_labels(case, shape, rng):
    problem = random_problem(rng, *shape, holes=0)
    small = problem._replace(
        Y=problem.Y.astype(np.int8), predictions=problem.predictions.astype(np.int8)
    )
    assert_matches_brute_force(case, small)


def test_a_row_worked_out_by_hand():
    Y = np.array([[1, 0, 1, 0, NAN]])
    scores = np.array([[3.0, 3.0, 1.0, 2.0, 9.0]])
    predictions = np.array([[1, 1, 0, 0, 1]])
    assert metrics.ranking_loss(Y, scores) == 3 / 4
    assert metrics.label_ranking_average_precision(Y, scores) == (1 / 2 + 2 / 4) / 2
    assert metrics.coverage_error(Y, scores) == 3
    assert metrics.coverage_error(Y, scores, convention="sklearn") == 4
    assert metrics.instance_auc(Y, scores) == 1.5 / 4
    assert metrics.instance_auc(Y, scores, convention="paper") == 2 / 4
    assert metrics.instance_auc(Y, scores, convention="published") == 1.5 / 4
    assert metrics.one_error(Y, scores) == 1
    assert metrics.precision_at_k(Y, scores) == 1
    assert metrics.precision_at_k(Y, scores, k=2) == 1 / 2
    assert metrics.precision_at_k(Y, scores, k=3) == 1 / 3
    assert metrics.precision_at_k(Y, scores, k=5) == 2 / 4
    assert metrics.hamming_loss(Y, predictions) == 2 / 4
    assert metrics.f1_micro(Y, predictions) == 2 / 4
    assert metrics.f1_macro(Y, predictions) == (1 + 0 + 0) / 3


def test_label_auc_of_a_table_worked_out_by_hand():
    Y = np.array([[1, 0], [0, 0], [1, NAN], [0, 1]])
    scores = np.array([[2.0, 5.0], [2.0, 1.0], [3.0, 9.0], [1.0, 4.0]])
    assert metrics.label_auc(Y, scores) == (3.5 / 4 + 1 / 2) / 2
    assert metrics.label_auc(Y, scores, convention="paper") == (4 / 4 + 1 / 2) / 2
    assert metrics.label_auc(Y, scores, convention="published") == (3.5 / 4 + 1 / 2) / 2


@pytest.mark.parametrize(
    ("convention", "loss", "auc"), [("paper", 1, 1), ("published", 1, 0.5), ("sklearn", 1, 0.5)]
)
def test_constant_scores_are_all_wrong_for_the_loss_and_get_the_tie_value_as_auc(
    convention, loss, auc
):
    Y = np.array([[1, 0, 0], [0, 1, 1]])
    scores = np.zeros(Y.shape)
    assert metrics.ranking_loss(Y, scores, convention=convention) == loss
    assert metrics.instance_auc(Y, scores, convention=convention) == auc
    assert metrics.label_auc(Y, scores, convention=convention) == auc


def test_the_default_convention_is_the_papers_with_half_a_tie_in_the_auc(rng):
    problem = random_problem(rng, holes=0.5)
    for case in ROW_RANKING + LABEL_RANKING:
        asked = case.kwargs.get("convention")
        skip = {}
        if case.name.endswith("auc") and asked == "published":
            skip = {"undefined": "skip"}
        elif case.name.endswith("auc") or asked != "paper":
            continue
        default = getattr(metrics, case.name)(problem.Y, problem.scores, return_counts=True)
        assert default == case.ask(problem, return_counts=True, **skip)


def test_scores_one_ulp_apart_are_not_tied():
    Y = np.array([[1, 0]])
    scores = np.array([[np.nextafter(1e6, 2e6), 1e6]])
    assert metrics.ranking_loss(Y, scores) == 0
    assert metrics.label_ranking_average_precision(Y, scores) == 1
    assert metrics.coverage_error(Y, scores) == 0
    assert metrics.one_error(Y, scores) == 0
    assert metrics.instance_auc(Y, scores[:, ::-1]) == 0
    assert metrics.label_auc(Y.T, scores[:, ::-1].T) == 0


def test_precision_at_k_breaks_ties_in_favour_of_the_lower_label():
    scores = np.array([[1.0, 5.0, 5.0, 5.0]])
    assert metrics.precision_at_k(np.array([[0, 1, 0, 0]]), scores, k=1) == 1
    assert metrics.precision_at_k(np.array([[0, 0, 1, 1]]), scores, k=1) == 0
    assert metrics.precision_at_k(np.array([[0, 0, 1, 1]]), scores, k=2) == 1 / 2
    assert metrics.precision_at_k(np.array([[1, NAN, 1, 0]]), scores, k=1) == 1


def test_precision_at_k_breaks_ties_by_label_in_long_rows():
    # Introsort and partition are stable by accident on short rows.
    c = 200
    Y = (np.arange(c) < 10).astype(int)[None, :]
    assert metrics.precision_at_k(Y, np.zeros((1, c)), k=10) == 1
    assert metrics.precision_at_k(Y[:, ::-1], np.zeros((1, c)), k=10) == 0


# ---------------------------------------------------------------------------------------------
# Against scikit-learn, which knows no holes
# ---------------------------------------------------------------------------------------------


SKLEARN = {
    "ranking_loss": sk.label_ranking_loss,
    "label_ranking_average_precision": sk.label_ranking_average_precision_score,
    "coverage_error": sk.coverage_error,
}


@pytest.mark.parametrize("implementation", [metrics, oracles], ids=["library", "brute force"])
@pytest.mark.parametrize("name", SKLEARN)
@EVERY_EXAMPLE
@given(problem=problems(values=(0.0, 1.0), min_side=2, max_side=6))
def test_sklearn_convention_is_scikit_learns_on_complete_labels(name, implementation, problem):
    actual = getattr(implementation, name)(problem.Y, problem.scores, convention="sklearn")
    actual = getattr(actual, "value", actual)
    reference = SKLEARN[name](problem.Y.astype(int), problem.scores)
    assert actual == pytest.approx(reference, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("implementation", [metrics, oracles], ids=["library", "brute force"])
@pytest.mark.parametrize("levels", [2, 4, 0])
@pytest.mark.parametrize(("name", "average"), [("instance_auc", "samples"), ("label_auc", "macro")])
def test_sklearn_convention_is_roc_auc_score_when_both_classes_are_there(
    name, average, levels, implementation, rng
):
    problem = ordinary_problem(rng, holes=0, levels=levels)
    actual = getattr(implementation, name)(problem.Y, problem.scores, convention="sklearn")
    actual = getattr(actual, "value", actual)
    reference = sk.roc_auc_score(problem.Y.astype(int), problem.scores, average=average)
    assert actual == pytest.approx(reference, rel=1e-12)


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("name", ["instance_auc", "label_auc"])
def test_sklearn_convention_gives_nan_auc_as_soon_as_one_unit_has_one_class(name, one_class, rng):
    problem = ordinary_problem(rng, holes=0)
    Y = problem.Y if name == "instance_auc" else problem.Y.T
    Y[0] = one_class
    Y[1:, 0], Y[1:, 1] = 0, 1
    [case] = [case for case in CASES if repr(case) == f"{name}-sklearn"]
    assert math.isnan(counts(case, problem).value)
    assert not math.isnan(counts(case, problem, undefined="skip").value)


@pytest.mark.parametrize("implementation", [metrics, oracles], ids=["library", "brute force"])
@pytest.mark.parametrize("name", ["hamming_loss", "f1_micro", "f1_macro"])
def test_bipartition_metrics_are_scikit_learns_on_complete_labels(name, implementation, rng):
    problem = random_problem(rng, n=8, c=6, holes=0)
    Y, predictions = problem.Y.astype(int), problem.predictions
    Y[:, 2] = predictions[:, 2] = 0  # no positive, true or predicted: not a label of the mean
    defined = np.flatnonzero((Y + predictions).sum(axis=0))
    reference = {
        "hamming_loss": lambda: sk.hamming_loss(Y, predictions),
        "f1_micro": lambda: sk.f1_score(Y, predictions, average="micro"),
        "f1_macro": lambda: sk.f1_score(
            Y, predictions, average="macro", labels=defined, zero_division=0
        ),
    }[name]()
    actual = getattr(implementation, name)(Y, predictions)
    actual = getattr(actual, "value", actual)
    assert 2 not in defined
    assert actual == pytest.approx(reference, rel=1e-12)


# ---------------------------------------------------------------------------------------------
# Laws of missing labels
# ---------------------------------------------------------------------------------------------


@every_case
def test_a_hidden_row_counts_as_no_row(case, rng):
    problem = random_problem(rng)
    hidden = rng.random(len(problem.Y)) < 0.4
    hidden[0], hidden[1] = True, False
    problem.Y[hidden] = NAN
    assert_same(counts(case, problem), counts(case, problem.map(lambda table: table[~hidden])))


@every_case
def test_a_hidden_label_counts_as_no_label(case, rng):
    problem = random_problem(rng)
    hidden = rng.random(problem.Y.shape[1]) < 0.4
    hidden[0], hidden[1] = True, False
    problem.Y[:, hidden] = NAN
    assert_same(counts(case, problem), counts(case, problem.map(lambda table: table[:, ~hidden])))


@EVERY_EXAMPLE
@given(problem=problems())
def test_a_unit_with_holes_counts_as_the_unit_without_these_entries(problem):
    for case in CASES:
        if case.unit in ("row", "label"):
            note(repr(case))
            assert_counts_as_without_holes(case, problem)


def assert_counts_as_without_holes(case: Case, problem: Problem) -> None:
    by_row = case.unit == "row"
    alone = []
    for i in range(problem.Y.shape[0 if by_row else 1]):
        y = problem.Y[i] if by_row else problem.Y[:, i]
        seen = np.flatnonzero(~np.isnan(y))
        if len(seen):
            pick = np.ix_([i], seen) if by_row else np.ix_(seen, [i])
            alone.append(counts(case, problem.map(lambda table, pick=pick: table[pick])))
    used = [unit for unit in alone if unit.n_units]
    together = counts(case, problem)
    assert together.n_units == len(used)
    assert together.n_entries == sum(unit.n_entries for unit in used)
    if used:
        mean = sum(unit.value for unit in used) / len(used)
        assert together.value == pytest.approx(mean, rel=1e-12, abs=1e-12, nan_ok=True)


@every_case
def test_scores_and_predictions_of_missing_labels_do_not_matter(case, rng):
    problem = random_problem(rng)
    hidden = np.isnan(problem.Y)
    other = Problem(
        problem.Y,
        np.where(hidden, rng.normal(scale=100, size=hidden.shape), problem.scores),
        np.where(hidden, 1 - problem.predictions, problem.predictions),
    )
    np.testing.assert_equal(counts(case, problem), counts(case, other))


@every_case
def test_label_mask_hides_what_nan_hides(case, rng):
    problem = random_problem(rng, holes=0.2)
    mask = rng.random(problem.Y.shape) < 0.7
    mask[0] = False
    mask[:, 0] = False
    with_nan = problem._replace(Y=np.where(mask, problem.Y, NAN))
    assert not np.array_equal(np.isnan(problem.Y), np.isnan(with_nan.Y))
    np.testing.assert_equal(counts(case, problem, mask=mask), counts(case, with_nan))


def test_scores_with_columns_of_y_in_other_places_are_refused(rng):
    Y = pd.DataFrame(rng.integers(0, 2, (20, 3)), columns=list("abc"))
    scores = pd.DataFrame(rng.random((20, 3)), columns=list("abc"))
    assert metrics.label_auc(Y, scores) == metrics.label_auc(Y, scores.to_numpy())
    assert metrics.label_auc(Y, scores) == metrics.label_auc(Y, scores.set_axis([0, 1, 2], axis=1))
    with pytest.raises(ValueError, match="Column 0 is 'c' in y_score, but 'a' in Y"):
        metrics.label_auc(Y, scores[list("cba")])


@every_case
def test_values_under_the_label_mask_do_not_matter(case, rng):
    problem = random_problem(rng, holes=0.2)
    mask = rng.random(problem.Y.shape) < 0.7
    other = Problem(
        np.where(mask, problem.Y, rng.choice([0, 1, NAN], size=mask.shape)),
        np.where(mask, problem.scores, rng.normal(scale=100, size=mask.shape)),
        np.where(mask, problem.predictions, 1 - problem.predictions),
    )
    np.testing.assert_equal(counts(case, problem, mask=mask), counts(case, other, mask=mask))


@every_case
def test_a_mask_of_ones_changes_nothing(case, rng):
    problem = random_problem(rng)
    mask = np.ones(problem.Y.shape, dtype=bool)
    np.testing.assert_equal(counts(case, problem, mask=mask), counts(case, problem))


# ---------------------------------------------------------------------------------------------
# Invariances
# ---------------------------------------------------------------------------------------------


@every_case
def test_the_order_of_rows_does_not_matter(case, rng):
    problem = random_problem(rng)
    order = rng.permutation(len(problem.Y))
    assert_same(counts(case, problem.map(lambda table: table[order])), counts(case, problem))


@every_case
def test_the_order_of_labels_does_not_matter(case, rng):
    # precision_at_k and the published ranks break ties by label order: invariant without ties only.
    by_order = case.name == "precision_at_k" or "published" in repr(case)
    problem = random_problem(rng, levels=0 if by_order else 4)
    order = rng.permutation(problem.Y.shape[1])
    assert_same(counts(case, problem.map(lambda table: table[:, order])), counts(case, problem))


INCREASING = [lambda s: 2 * s + 5, lambda s: s**3, np.exp, np.arctan, lambda s: s - 100]


@pytest.mark.parametrize("case", ROW_RANKING + PRECISION, ids=repr)
def test_only_the_order_of_scores_within_a_row_matters(case, rng):
    problem = random_problem(rng)
    scores = [rng.choice(INCREASING)(row) for row in problem.scores]
    transformed = problem._replace(scores=np.array(scores))
    np.testing.assert_equal(counts(case, transformed), counts(case, problem))


@pytest.mark.parametrize("case", LABEL_RANKING, ids=repr)
def test_only_the_order_of_scores_within_a_label_matters_for_label_auc(case, rng):
    problem = random_problem(rng, n=20, holes=0.1)
    scores = [rng.choice(INCREASING)(column) for column in problem.scores.T]
    transformed = problem._replace(scores=np.array(scores).T)
    np.testing.assert_equal(counts(case, transformed), counts(case, problem))


@pytest.mark.parametrize("convention", ["paper", "published"])
def test_auc_and_ranking_loss_add_up_to_one_without_ties(convention, rng):
    Y, scores, _ = ordinary_problem(rng, levels=0)
    auc = metrics.instance_auc(Y, scores, convention=convention)
    loss = metrics.ranking_loss(Y, scores, convention=convention)
    assert auc + loss == pytest.approx(1, rel=1e-12)


def test_label_auc_is_instance_auc_of_the_transposed_table(rng):
    Y, scores, _ = random_problem(rng, holes=0.5)
    across = metrics.label_auc(Y, scores, return_counts=True)
    down = metrics.instance_auc(Y.T, scores.T, return_counts=True)
    np.testing.assert_equal(across, down)


@every_case
def test_inputs_are_left_as_they_were(case, rng):
    problem = random_problem(rng)
    mask = rng.random(problem.Y.shape) < 0.7
    before = problem.map(np.copy)
    mask_before = mask.copy()
    counts(case, problem, mask=mask)
    np.testing.assert_equal(problem, before)
    np.testing.assert_array_equal(mask, mask_before)


# ---------------------------------------------------------------------------------------------
# Encodings of Y
# ---------------------------------------------------------------------------------------------


def signed(Y, container):
    """+1 and -1 stored, nothing stored where the label is missing."""
    rows, columns = np.nonzero(~np.isnan(Y))
    return container((2 * Y[rows, columns] - 1, (rows, columns)), shape=Y.shape)


ENCODINGS = {
    "float32": lambda Y: Y.astype(np.float32),
    "minus one": lambda Y: 2 * Y - 1,
    "frame": pd.DataFrame,
    "frame, minus one": lambda Y: pd.DataFrame(2 * Y - 1, columns=list("abcdef")),
    "csr_matrix": lambda Y: signed(Y, sp.csr_matrix),
    "csr_array": lambda Y: signed(Y, sp.csr_array),
    "csr_matrix of int8": lambda Y: signed(Y, sp.csr_matrix).astype(np.int8),
    "fortran order": np.asfortranarray,
    "LabelMatrix": LabelMatrix.from_array,
    "SparseLabelMatrix": lambda Y: SparseLabelMatrix.from_array(
        signed(Y, sp.csr_array), missing_as="missing" if not (Y == 0).any() else None
    ),
}
COMPLETE_ENCODINGS = {
    "int": lambda Y: Y.astype(int),
    "bool": lambda Y: Y.astype(bool),
    "int, minus one": lambda Y: (2 * Y - 1).astype(int),
    "frame of int": lambda Y: pd.DataFrame(Y.astype(int)),
    "frame of bool": lambda Y: pd.DataFrame(Y.astype(bool)),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_of_incomplete_labels_gives_the_same_result(encoding, rng):
    problem = random_problem(rng)
    encoded = problem._replace(Y=ENCODINGS[encoding](problem.Y))
    for case in CASES:
        np.testing.assert_equal(counts(case, encoded), counts(case, problem), repr(case))


@pytest.mark.parametrize("encoding", {**ENCODINGS, **COMPLETE_ENCODINGS})
def test_every_encoding_of_complete_labels_gives_the_same_result(encoding, rng):
    problem = random_problem(rng, holes=0)
    encode = {**ENCODINGS, **COMPLETE_ENCODINGS}[encoding]
    encoded = problem._replace(Y=encode(problem.Y))
    for case in CASES:
        actual = counts(case, encoded)
        np.testing.assert_equal(actual, counts(case, problem), repr(case))


@pytest.mark.parametrize(("missing_label", "negative"), [(-1, 0), (0, -1)])
@every_case
def test_missing_label_says_which_value_marks_a_hole(case, missing_label, negative, rng):
    problem = random_problem(rng)
    Y = np.where(problem.Y == 1, 1, negative)
    Y[np.isnan(problem.Y)] = missing_label
    encoded = problem._replace(Y=Y)
    np.testing.assert_equal(
        counts(case, encoded, missing_label=missing_label),
        counts(case, problem),
    )


@every_case
def test_integer_labels_with_a_mask_are_labels_with_holes(case, rng):
    problem = random_problem(rng)
    seen = ~np.isnan(problem.Y)
    encoded = problem._replace(Y=np.nan_to_num(problem.Y).astype(int))
    np.testing.assert_equal(counts(case, encoded, mask=seen), counts(case, problem))


# ---------------------------------------------------------------------------------------------
# Undefined units and counts
# ---------------------------------------------------------------------------------------------

# Rows: both classes, both classes, all positive, all negative, nothing observed.
KINDS_OF_ROWS = np.array([[1, 0, NAN], [0, 1, 1], [1, 1, NAN], [0, NAN, NAN], [NAN, NAN, NAN]])
N_ENTRIES = {"mixed": 5, "positive": 2, "negative": 1}


@pytest.mark.parametrize(
    ("name", "convention", "used", "n_undefined"),
    [
        ("ranking_loss", "paper", ["mixed"], 3),
        ("ranking_loss", "published", ["mixed"], 3),
        ("ranking_loss", "sklearn", ["mixed", "positive", "negative"], 3),
        ("label_ranking_average_precision", "paper", ["mixed", "positive"], 2),
        ("label_ranking_average_precision", "published", ["mixed"], 3),
        ("label_ranking_average_precision", "sklearn", ["mixed", "positive", "negative"], 2),
        ("coverage_error", "paper", ["mixed", "positive"], 2),
        ("coverage_error", "published", ["mixed", "positive", "negative"], 2),
        ("coverage_error", "sklearn", ["mixed", "positive", "negative"], 2),
        ("instance_auc", "paper", ["mixed"], 3),
        ("instance_auc", "published", ["mixed", "positive", "negative"], 3),
        ("one_error", None, ["mixed", "positive"], 2),
        ("precision_at_k", None, ["mixed", "positive", "negative"], 1),
    ],
)
def test_counts_say_which_rows_entered_the_mean(name, convention, used, n_undefined):
    kwargs = {"convention": convention} if convention else {}
    scores = np.zeros(KINDS_OF_ROWS.shape)
    result = getattr(metrics, name)(KINDS_OF_ROWS, scores, return_counts=True, **kwargs)
    assert result.n_entries == sum(N_ENTRIES[kind] for kind in used)
    assert result.n_units == sum(2 if kind == "mixed" else 1 for kind in used)
    assert result.n_undefined == n_undefined


def test_counts_of_label_metrics_are_about_labels():
    Y = np.array([[1, 1, 0, NAN], [0, 1, NAN, NAN], [NAN, 1, 0, NAN]])
    result = metrics.label_auc(Y, np.zeros(Y.shape), return_counts=True)
    assert result[:4] == (0.5, 2, 1, 3)
    result = metrics.f1_macro(Y, np.zeros(Y.shape, dtype=int), return_counts=True)
    assert result[:4] == (0.0, 5, 2, 2)


def test_counts_of_bipartition_metrics():
    Y = np.array([[1, 0, NAN], [1, NAN, 0]])
    predictions = np.array([[1, 1, 1], [0, 1, 0]])
    assert tuple(metrics.hamming_loss(Y, predictions, return_counts=True))[:3] == (0.5, 4, 4)
    assert metrics.f1_micro(Y, predictions, return_counts=True)[:4] == (0.5, 4, 1, 0)


@every_case
def test_a_float_comes_back_unless_counts_are_asked_for(case, rng):
    problem = ordinary_problem(rng)
    assert isinstance(case.ask(problem), float)
    result = case.ask(problem, return_counts=True)
    assert isinstance(result, metrics.MetricValue)
    counted = ("value", "n_entries", "n_units", "n_undefined")
    assert result._fields == (*counted, "kind", "standard_error")
    assert result.value == case.ask(problem)


@pytest.mark.parametrize("undefined", [None, "skip", 0.5], ids=repr)
@every_case
def test_nothing_observed_gives_nan_and_a_warning(case, undefined):
    problem = Problem(np.full((3, 2), NAN), np.zeros((3, 2)), np.zeros((3, 2), dtype=int))
    with pytest.warns(UndefinedMetricWarning):
        result = case.ask(problem, undefined=undefined, return_counts=True)
    assert math.isnan(result.value)
    assert (result.n_entries, result.n_units) == (0, 0)


@pytest.mark.parametrize(
    "name",
    [
        "ranking_loss",
        "label_ranking_average_precision",
        "coverage_error",
        "instance_auc",
        "label_auc",
    ],
)
def test_no_positive_anywhere_is_undefined_in_the_paper(name):
    Y, scores = np.zeros((3, 2)), np.arange(6.0).reshape(3, 2)
    with pytest.warns(UndefinedMetricWarning):
        assert math.isnan(getattr(metrics, name)(Y, scores))
    assert getattr(metrics, name)(Y, scores, undefined=0.5) == 0.5


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.name not in ("precision_at_k", "hamming_loss")],
    ids=repr,
)
def test_undefined_raise_says_how_many_units_are_undefined(case):
    # Three rows and three labels without positives, true or predicted, each with entries.
    Y = np.zeros((8, 7))
    Y[:5, :4] = np.eye(5, 4)
    Y[4, 0] = 1
    predictions = np.zeros(Y.shape, dtype=int)
    if case.unit == "table":
        Y[:] = 0
    problem = Problem(Y, np.arange(56.0).reshape(8, 7), predictions)
    with pytest.raises(ValueError, match="undefined") as error:
        case.ask(problem, undefined="raise")
    if case.unit != "table":
        assert 3 in numbers_in(error)
        assert case.unit in str(error.value)


@every_case
def test_undefined_raise_lets_defined_problems_pass(case, rng):
    problem = ordinary_problem(rng)
    assert case.ask(problem, undefined="raise") == case.ask(problem)


# ---------------------------------------------------------------------------------------------
# Errors
# ---------------------------------------------------------------------------------------------


def numbers_in(error) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", str(error.value))}


@pytest.mark.parametrize("case", [case for case in CASES if case.input == "scores"], ids=repr)
def test_nan_in_scores_is_refused_with_its_position(case, rng):
    problem = ordinary_problem(rng, n=12, c=6, holes=0)
    problem.scores[7, 4] = NAN
    with pytest.raises(ValueError, match=r"(?i)nan") as error:
        case.ask(problem)
    assert {7, 4} <= numbers_in(error)


@pytest.mark.parametrize("shape", [(11, 17), (19, 13), (13, 11)], ids=str)
@every_case
def test_scores_of_another_shape_are_refused_with_both_shapes(case, shape):
    problem = Problem(np.eye(11, 13), np.zeros(shape), np.zeros(shape, dtype=int))
    with pytest.raises(ValueError, match="shape") as error:
        case.ask(problem)
    assert {11, 13, *shape} <= numbers_in(error)


@every_case
def test_a_vector_of_scores_is_refused(case):
    problem = Problem(np.eye(11, 13), np.zeros(13), np.zeros(13, dtype=int))
    with pytest.raises(ValueError):  # noqa: PT011 (the wording depends on who notices)
        case.ask(problem)


@every_case
def test_a_label_mask_of_another_shape_is_refused_with_both_shapes(case):
    problem = Problem(np.eye(11, 13), np.zeros((11, 13)), np.zeros((11, 13), dtype=int))
    with pytest.raises(ValueError, match="shape") as error:
        case.ask(problem, mask=np.ones((11, 17), dtype=bool))
    assert {11, 13, 17} <= numbers_in(error)


@every_case
def test_unknown_settings_are_refused(case, rng):
    with pytest.raises(ValueError, match="undefined"):
        case.ask(ordinary_problem(rng), undefined="unheard of")


@pytest.mark.parametrize("name", [*SKLEARN, "instance_auc", "label_auc"])
def test_unknown_convention_is_refused(name, rng):
    problem = ordinary_problem(rng)
    with pytest.raises(ValueError, match="convention"):
        getattr(metrics, name)(problem.Y, problem.scores, convention="unheard of")


# ---------------------------------------------------------------------------------------------
# evaluate
# ---------------------------------------------------------------------------------------------

RANKING_NAMES = {
    "ranking_loss",
    "label_ranking_average_precision",
    "coverage_error",
    "instance_auc",
    "label_auc",
    "one_error",
}
BIPARTITION_NAMES = {"hamming_loss", "f1_micro", "f1_macro"}


def one_by_one(problem: Problem, convention: str, k: tuple[int, ...], **kwargs: Any) -> dict:
    """What `evaluate` should return, from the metrics' own functions."""
    wanted = {}
    for case in ROW_RANKING + LABEL_RANKING + BIPARTITION:
        if case.kwargs.get("convention", convention) == convention:
            wanted[case.name] = counts(case, problem, **kwargs)
    for depth in k:
        case = Case("precision_at_k", {"k": depth})
        wanted[f"precision_at_{depth}"] = counts(case, problem, **kwargs)
    return wanted


@pytest.mark.parametrize(
    ("c", "depths"), [(2, {1}), (3, {1, 3}), (4, {1, 3}), (5, {1, 3, 5}), (8, {1, 3, 5})]
)
def test_evaluate_names_every_metric_and_leaves_out_k_beyond_the_labels(c, depths, rng):
    problem = ordinary_problem(rng, n=10, c=c, holes=0)
    names = set(metrics.evaluate(problem.Y, problem.scores))
    assert names == RANKING_NAMES | BIPARTITION_NAMES | {f"precision_at_{k}" for k in depths}


def test_evaluate_computes_only_known_metrics(rng):
    problem = ordinary_problem(rng, n=10, c=3, holes=0)
    only = ["one_error", "precision_at_5"]  # k above the number of labels is ignored
    assert list(metrics.evaluate(problem.Y, problem.scores, only=only)) == ["one_error"]
    assert metrics.evaluate(problem.Y, problem.scores, only=()) == {}
    for wrong in (["label_acu"], ["precision_at_2"], "one_error"):
        with pytest.raises(ValueError, match=r"each name in only must be one of 'ranking_loss', "):
            metrics.evaluate(problem.Y, problem.scores, only=wrong)


def evaluated(problem: Problem, **kwargs: Any) -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return metrics.evaluate(
            problem.Y, problem.scores, y_pred=problem.predictions, k=(2, 4), **kwargs
        )


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_evaluate_is_the_metrics_one_by_one(convention, rng):
    problem = random_problem(rng)
    report = evaluated(problem, convention=convention)
    assert all(isinstance(value, metrics.MetricValue) for value in report.values())
    np.testing.assert_equal(report, one_by_one(problem, convention, (2, 4)))


@pytest.mark.parametrize("undefined", [None, "skip", 0.25], ids=repr)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_evaluate_treats_undefined_units_as_asked(convention, undefined, rng):
    problem = random_problem(rng)
    report = evaluated(problem, convention=convention, undefined=undefined)
    wanted = one_by_one(problem, convention, (2, 4), undefined=undefined)
    np.testing.assert_equal(report, wanted)


def test_evaluate_predicts_the_labels_with_positive_scores(rng):
    problem = ordinary_problem(rng)
    problem.scores[:, 1] = 0.0  # zero is not positive
    by_sign = problem._replace(predictions=(problem.scores > 0).astype(int))
    report = metrics.evaluate(problem.Y, problem.scores, convention="paper")
    np.testing.assert_equal(report, one_by_one(by_sign, "paper", (1, 3, 5)))


def test_evaluate_hands_the_mask_on(rng):
    problem = random_problem(rng)
    mask = rng.random(problem.Y.shape) < 0.8
    report = metrics.evaluate(
        LabelMatrix.from_array(problem.Y, mask=mask),
        problem.scores,
        y_pred=problem.predictions,
        convention="paper",
    )
    np.testing.assert_equal(report, one_by_one(problem, "paper", (1, 3, 5), mask=mask))


def test_evaluate_reads_every_encoding(rng):
    problem = ordinary_problem(rng)
    wanted = metrics.evaluate(problem.Y, problem.scores)
    for encode in ENCODINGS.values():
        np.testing.assert_equal(metrics.evaluate(encode(problem.Y), problem.scores), wanted)
