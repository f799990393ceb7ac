"""Projection of probabilities and decisions on label rules."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from dm2l.labels import LabelRules

NAMES = list("abcdefg")


def some(least, most):
    names = st.sampled_from(NAMES)
    return st.lists(names, min_size=least, max_size=most, unique=True)


parts = st.fixed_dictionaries(
    {
        "implications": st.lists(some(2, 2), max_size=6),
        "exclusions": st.lists(some(2, 2), max_size=3),
        "at_most_one": st.lists(some(2, 4), max_size=1),
        "exactly_one": st.lists(some(2, 4), max_size=2),
    }
)
seeds = st.integers(0, 100)
law = settings(deadline=None, max_examples=15)


def case(parts, seed, names=NAMES):
    """Rules, probabilities, and known labels that do not contradict the rules."""
    try:
        logic = LabelRules(**parts, label_names=names)._logic
    except ValueError:
        assume(False)
    rng = np.random.default_rng(seed)
    P, T = rng.random((12, 7)), rng.choice([-1, 0, 1], size=(12, 7), p=[0.1, 0.8, 0.1])
    closed, against = logic.propagate(T.astype(np.int8))
    return logic, P[~against], closed[~against]


def constraints(parts, x):
    """The rules about the rows of a cvxpy variable, from their definition."""
    at = NAMES.index

    def total(group):
        return cp.sum(x[:, list(map(at, group))], axis=1)

    implied = [x[:, at(child)] <= x[:, at(parent)] for child, parent in parts["implications"]]
    most = [total(group) <= 1 for group in (*parts["exclusions"], *parts["at_most_one"])]
    return implied + most + [total(group) == 1 for group in parts["exactly_one"]]


@settings(deadline=None, max_examples=8)
@given(parts, seeds)
def test_projection_agrees_with_a_solver(parts, seed):
    logic, P, T = case(parts, seed)
    found = logic.project(P, T)
    x = cp.Variable(P.shape)
    fixed = [x[i, j] == float(T[i, j] > 0) for i, j in np.argwhere(T)]
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(x - P)), [x >= 0, x <= 1, *fixed, *constraints(parts, x)]
    )
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assume(problem.status == "optimal")  # groups of three may contradict beyond unit propagation
    np.testing.assert_allclose(found, x.value, atol=1e-5)


@law
@given(parts, seeds, st.permutations(range(7)))
def test_laws_of_the_projection(parts, seed, order):
    logic, P, T = case(parts, seed)
    X = logic.project(P, T)
    assume(not logic.coherence.violations(X[:, logic.columns]).any())
    assert ((X >= 0) & (X <= 1)).all()
    np.testing.assert_array_equal(X[T != 0], T[T != 0] > 0)
    np.testing.assert_array_equal(logic.project(X, T), X)  # coherent rows are not changed
    other = case(parts, seed, [NAMES[k] for k in order])[0]
    np.testing.assert_allclose(other.project(P[:, order], T[:, order]), X[:, order], atol=1e-7)


@law
@given(parts, seeds)
def test_decisions_obey_the_rules(parts, seed):
    logic, P, T = case(parts, seed)
    rules = LabelRules(**parts, label_names=NAMES)
    given = np.where(T == 0, P > 0.7, T > 0)
    found = logic.decide(given, P, T)
    kept = rules.violations(given.astype(int)) == 0
    np.testing.assert_array_equal(found[kept], given[kept])
    obeyed = rules.violations(found.astype(int)) == 0
    for known in T[~obeyed]:  # then there are no decisions that agree with the known labels
        inner = known[logic.columns]
        assert logic.coherence.best(np.zeros(len(inner)), inner) is None
    np.testing.assert_array_equal(found[obeyed][T[obeyed] != 0], T[obeyed][T[obeyed] != 0] > 0)


@law
@given(parts, seeds)
def test_redundant_entries_follow_from_the_others(parts, seed):
    logic, _, T = case(parts, seed)
    T = np.where(np.random.default_rng(seed).random(T.shape) < 0.5, T, 0).astype(np.int8)
    found = logic.redundant(T)
    for row, label in np.argwhere(T)[:10]:
        without = T[[row]].copy()
        without[0, label] = 0
        follows = logic.propagate(without).signs[0, label] == T[row, label]
        assert follows or not found[row, label]
        if not parts["exactly_one"]:  # otherwise chains through groups count as not redundant
            assert follows == found[row, label]


def test_a_chain_is_isotonic_regression():
    n, m = 50, 7
    rules = LabelRules(list(pairwise(NAMES)), label_names=NAMES)
    P = np.random.default_rng(0).random((n, m))
    expected = [IsotonicRegression().fit_transform(np.arange(m), row) for row in P]
    found = rules._logic.project(P, np.zeros((n, m), dtype=np.int8))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_most_probable_label_of_a_group_is_chosen():
    rules = LabelRules([("a", "b"), ("a", "c")], exactly_one=[("c", "d", "e")], label_names="abcde")
    P, none = np.array([[0.0, 0.5, 0.3, 0.4, 0.2]]), np.zeros((1, 5), dtype=np.int8)
    found = rules._logic.decide(P > 0.5, P, none)
    np.testing.assert_array_equal(found, [[False, False, False, True, False]])
    X = rules._logic.project(P, none)
    np.testing.assert_allclose(X[0, 2:], P[0, 2:] + 0.1 / 3, atol=1e-8)


def test_violations_are_counted():
    rules = LabelRules([("a", "b")], [("a", "c")], exactly_one=[("c", "d", "e")])
    Y = [[1, 0, 1, 0, 0], [1, None, 0, 0, 0], [0, 0, None, None, 0], [0, 0, 1, 1, 0]]
    np.testing.assert_array_equal(rules.violations(Y, list("abcde")), [2, 1, 0, 1])


def test_rules_that_no_row_can_obey_are_refused():
    cells = [[f"{pigeon}{hole}" for hole in "xyz"] for pigeon in "abcd"]
    with pytest.raises(ValueError, match="No row can obey all rules"):
        LabelRules(at_most_one=list(zip(*cells, strict=True)), exactly_one=cells)
