"""Losses for networks: the values of the library, gradients, and batches that hold little."""

from __future__ import annotations

import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dm2l._solvers.nuclear import thresholded_nuclear_norm
from dm2l._solvers.objective import Objective
from dm2l.labels import LabelMatrix
from dm2l.labels._entries import EntryWeights
from dm2l.torch import masked_loss, rank_terms
from objective_values import objective_at

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
EXAMPLE = Path(__file__).parents[2] / "examples" / "gallery" / "torch_13_network.py"


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is an extra")


@pytest.fixture
def batch():
    """Scores and labels of which a third is missing; a label without positives, one with one."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((30, 7)) < 0.35, 1.0, 0.0)
    Y[:, 5], Y[:, 6] = 0.0, 0.0
    Y[rng.random(Y.shape) < 0.33] = np.nan
    Y[4, 6] = 1.0
    return rng.normal(size=Y.shape), Y


def evaluated(torch, function, scores, *rest, **options):
    """Value and gradient as numpy has them."""
    Z = torch.tensor(scores, requires_grad=True)
    value = function(Z, *rest, **options)
    value.backward()
    return value.item(), Z.grad.numpy()


def oracle(F, Y, M=None):
    """Value and gradient of the terms, by a decomposition for each label."""
    positive = Y == 1
    roots = np.where(positive, 1.0 if M is None else np.sqrt(np.where(positive, M, 0)), 0.0)
    value, gradient = 0.0, np.zeros_like(F)
    for root, sign in [*((column, 1.0) for column in roots.T), (roots.max(axis=1), -1.0)]:
        U, s, Vt = np.linalg.svd(root[:, None] * F, full_matrices=False)
        rank = np.sum(s > 1e-9)
        value += sign * s.sum()
        gradient += sign * root[:, None] * (U[:, :rank] @ Vt[:rank])
    return value, gradient


# ------------------------------------------------------------------------- values and gradients


@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_terms_equal_the_objective_of_the_library(torch, batch, weighted):
    F, Y = batch
    M = np.random.default_rng(1).uniform(0, 3, Y.shape) if weighted else None
    T = LabelMatrix.from_array(Y).signs
    objective = Objective(T, 0.3, entries=EntryWeights.of(T, weights=M))
    found = objective_at(objective, F, partial(thresholded_nuclear_norm, delta=0.0))

    def total(Z):
        return masked_loss(Z, Y, weights=M) + 0.3 * rank_terms(Z, Y, weights=M)

    value, gradient = evaluated(torch, total, F)
    np.testing.assert_allclose(value, objective.exact(F), **CLOSE)
    np.testing.assert_allclose(gradient, found.gradient, **CLOSE)


@pytest.mark.parametrize("columns", [7, 3, 50])
def test_terms_equal_decompositions_of_each_label(torch, batch, columns):
    _, Y = batch
    rng = np.random.default_rng(2)
    F, M = rng.normal(size=(len(Y), columns)), rng.uniform(0.1, 3, Y.shape)
    for weights in (None, M, M[:, 0]):
        spread = M[:, :1] + 0 * M if np.ndim(weights) == 1 else weights
        found = evaluated(torch, rank_terms, F, Y, weights=weights)
        for one, other in zip(found, oracle(F, Y, spread), strict=True):
            np.testing.assert_allclose(one, other, **CLOSE)


def test_the_gradient_of_the_terms_does_not_depend_on_the_scale(torch, batch):
    F, Y = batch
    expected = evaluated(torch, rank_terms, F, Y)[1]
    for scale in (1e-6, 1e6):
        np.testing.assert_allclose(evaluated(torch, rank_terms, scale * F, Y)[1], expected, **CLOSE)


def test_a_weight_of_two_equals_a_repeated_row(torch, batch):
    F, Y = batch
    twice = np.r_[np.arange(len(Y)), 3, 4]
    weights = np.bincount(twice).astype(float)
    for function in (masked_loss, rank_terms):
        once = evaluated(torch, function, F, Y, weights=weights)
        many = evaluated(torch, function, F[twice], Y[twice])
        np.testing.assert_allclose(once[0], many[0], **CLOSE)
        summed = np.zeros_like(F)
        np.add.at(summed, twice, many[1])
        np.testing.assert_allclose(once[1], summed, **CLOSE)


def test_the_logistic_loss_is_the_log_likelihood(torch, batch):
    F, Y = batch
    value, _ = evaluated(torch, masked_loss, F, Y, loss="logistic")
    P = 1 / (1 + np.exp(-F))
    known = ~np.isnan(Y)
    expected = -np.log(np.where(Y == 1, P, 1 - P))[known].sum()
    np.testing.assert_allclose(value, expected, **CLOSE)


@pytest.mark.parametrize(
    "function",
    [masked_loss, partial(masked_loss, loss="logistic"), rank_terms],
    ids=["squared", "logistic", "terms"],
)
def test_gradients_are_those_of_finite_differences(torch, batch, function):
    F, Y = batch
    weights = np.random.default_rng(3).uniform(0, 2, Y.shape)
    Z = torch.tensor(F[:12], requires_grad=True)
    assert torch.autograd.gradcheck(lambda Z: function(Z, Y[:12], weights=weights[:12]), (Z,))


def test_second_derivatives_of_the_terms_are_refused(torch, batch):
    Z = torch.tensor(batch[0], requires_grad=True)
    (slope,) = torch.autograd.grad(rank_terms(Z, batch[1]) ** 2, Z, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        slope.sum().backward()


def test_all_codings_of_labels_have_one_loss(torch, batch):
    F, Y = batch
    Z = torch.tensor(F)
    signs = np.where(np.isnan(Y), np.nan, 2 * Y - 1)
    for function in (masked_loss, rank_terms):
        expected = function(Z, Y)
        for same in (signs, torch.tensor(Y), torch.tensor(signs, dtype=torch.float32)):
            assert torch.equal(function(Z, same), expected)
    full = np.nan_to_num(Y)
    for same in (full.astype(bool), torch.tensor(full.astype(int))):
        assert torch.equal(rank_terms(Z, same), rank_terms(Z, full))


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32"])
def test_lower_precision_has_nearly_the_same_values(torch, batch, precision):
    F, Y = batch
    low = torch.tensor(F, dtype=getattr(torch, precision))
    for function in (masked_loss, rank_terms):
        Z = low.clone().requires_grad_()
        value = function(Z, Y)
        value.backward()
        expected, slope = evaluated(torch, function, low.double().numpy(), Y)
        assert (value.dtype, Z.grad.dtype) == (torch.float32, low.dtype)
        assert value.item() == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(Z.grad.double().numpy(), slope, atol=2e-2)


def test_autocast_does_not_lower_the_precision_of_the_terms(torch, batch):
    F, Y = batch[0].astype(np.float32), batch[1]
    expected = evaluated(torch, rank_terms, F, Y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = evaluated(torch, rank_terms, F, Y)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


def test_on_cuda_the_results_stay_there_and_are_the_same(torch, batch):
    if not torch.cuda.is_available():
        pytest.skip("no device of CUDA for torch on this machine")
    F, Y = batch
    for function in (masked_loss, rank_terms):
        expected = evaluated(torch, function, F, Y)
        Z = torch.tensor(F, device="cuda", requires_grad=True)
        value = function(Z, torch.tensor(Y, device="cuda"))
        value.backward()
        assert value.device == Z.device
        np.testing.assert_allclose(value.item(), expected[0], **CLOSE)
        np.testing.assert_allclose(Z.grad.cpu().numpy(), expected[1], **CLOSE)


# ------------------------------------------------------------- where singular values are zero


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_scores_of_zero_have_value_and_gradient_zero(torch, batch, precision):
    zeros = np.zeros_like(batch[0], dtype=precision)
    value, gradient = evaluated(torch, rank_terms, zeros, batch[1])
    assert value == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_scores_of_low_rank_have_the_gradient_of_their_nonzero_singular_values(
    torch, batch, precision
):
    _, Y = batch
    rng = np.random.default_rng(4)
    F = (rng.normal(size=(len(Y), 2)) @ rng.normal(size=(2, 7))).astype(precision)
    value, gradient = evaluated(torch, rank_terms, F, Y)
    tolerance = 1e-10 if precision == "float64" else 1e-4
    # float32 rounds scores to full rank, so the oracle has the rank of each group from 2 columns.
    U, s, Vt = np.linalg.svd(F.astype(float), full_matrices=False)
    expected = oracle((U[:, :2] * s[:2]) @ Vt[:2], Y)
    np.testing.assert_allclose(value, expected[0], rtol=tolerance)
    np.testing.assert_allclose(gradient, expected[1], atol=tolerance)


def test_the_gradient_at_low_rank_is_a_subgradient_of_a_single_norm(torch):
    # Of one label and no other rows, the terms are zero; embeddings of two labels leave one norm.
    rng = np.random.default_rng(5)
    F = np.outer(rng.normal(size=6), rng.normal(size=4))
    Y = np.ones((6, 2))
    value, gradient = evaluated(torch, rank_terms, F, Y)
    for _ in range(50):
        G = rng.normal(size=F.shape)
        above = np.linalg.norm(G, "nuc")
        assert above >= value + np.sum(gradient * (G - F)) - 1e-9


# ---------------------------------------------------------------------------- small batches


def test_a_batch_without_positives_has_terms_of_zero(torch, batch):
    F, Y = batch
    for none in (np.where(Y == 1, np.nan, Y), np.full(Y.shape, np.nan)):
        value, gradient = evaluated(torch, rank_terms, F, none, weights=np.ones(len(Y)))
        assert value == 0.0
        assert not gradient.any()


def test_a_batch_without_observed_labels_has_a_loss_of_zero(torch, batch):
    F, Y = batch
    none = np.full(Y.shape, np.nan)
    for weights in (None, np.ones(Y.shape)):
        value, gradient = evaluated(torch, masked_loss, F, none, weights=weights)
        assert value == 0.0
        assert not gradient.any()


def test_labels_with_one_row_have_the_length_of_the_row(torch):
    F = np.array([[3.0, 4.0], [4.0, -3.0], [1.0, 1.0]])
    Y = np.array([[1, 0, 0], [0, 1, np.nan], [0, 0, np.nan]])
    value, gradient = evaluated(torch, rank_terms, F, Y)
    assert value == pytest.approx(0.0, abs=1e-12)  # the two rows are orthogonal
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    value, gradient = evaluated(torch, rank_terms, F, np.array([[1, 1], [0, 0], [0, 0]]))
    assert value == pytest.approx(5.0)
    np.testing.assert_allclose(gradient, [[0.6, 0.8], [0, 0], [0, 0]], atol=1e-12)
    assert evaluated(torch, rank_terms, F[:1], Y[:1])[0] == pytest.approx(0.0)


# ----------------------------------------------------------------------------- missing labels


def test_missing_entries_have_no_gradient_and_no_part_in_the_loss(torch, batch):
    F, Y = batch
    missing = np.isnan(Y)
    other = np.where(missing, F + 1e6, F)
    for loss in ("squared", "logistic"):
        value, gradient = evaluated(torch, masked_loss, F, Y, loss=loss)
        assert not gradient[missing].any()
        assert gradient[~missing].all()
        changed, slope = evaluated(torch, masked_loss, other, Y, loss=loss)
        assert changed == value
        np.testing.assert_array_equal(slope, gradient)


def test_hidden_labels_do_not_change_a_trained_network(torch):
    rng = np.random.default_rng(6)
    X = torch.tensor(rng.normal(size=(40, 3)))
    truth, hidden = rng.random((40, 4)) < 0.4, rng.random((40, 4)) < 0.5
    weights = []
    for labels in (truth, truth ^ hidden):
        Y = np.where(hidden, np.nan, labels)
        W = torch.ones((3, 4), dtype=torch.float64, requires_grad=True)
        for _ in range(5):
            total = masked_loss(X @ W, Y, loss="logistic") + 0.1 * rank_terms(X @ W, Y)
            (slope,) = torch.autograd.grad(total, W)
            W = (W - 0.1 * slope).detach().requires_grad_()
        weights.append(W.detach().numpy().tobytes())
    assert weights[0] == weights[1]


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda F, Y: (F[:5], Y), "scores have 5 rows, but y has 30"),
        (lambda F, Y: (F.long(), Y), r"floating-point torch tensor.*got torch.int64 of shape"),
        (lambda F, Y: (F.numpy(), Y), "floating-point torch tensor"),
        (lambda F, Y: (F[0], Y), r"of shape \(7,\)"),
        (lambda F, Y: (F, Y + 1), "contains 2.0 in row"),
        (lambda F, Y: (F, Y, -np.ones(30)), "weights has -1.0 in row 0"),
        (
            lambda F, Y: (F, Y, np.ones((30, 1))),
            r"weights must have shape \(30, 7\), got",
        ),
    ],
)
@pytest.mark.parametrize("function", [masked_loss, rank_terms])
def test_bad_input_is_refused(torch, batch, function, change, error):
    F, Y, *weights = change(torch.tensor(batch[0]), batch[1])
    with pytest.raises(ValueError, match=error):
        function(F, Y, weights=weights[0] if weights else None)


def test_a_loss_needs_a_score_for_each_label_and_a_known_name(torch, batch):
    F, Y = torch.tensor(batch[0]), batch[1]
    with pytest.raises(ValueError, match=r"scores must have the shape of y, \(30, 7\), got"):
        masked_loss(F[:, :1], Y)
    with pytest.raises(ValueError, match="loss must be"):
        masked_loss(F, Y, loss="hinge")


def test_scores_that_are_not_finite_are_named(torch, batch):
    F = torch.tensor(batch[0])
    F[4] = np.nan
    with pytest.raises(ValueError, match="Scores contain NaN or infinity"):
        rank_terms(F, batch[1])


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for function in (masked_loss, rank_terms):
        with pytest.raises(ImportError, match=r"needs torch.*pip install 'dm2l\[torch\]'"):
            function(np.zeros((2, 2)), np.zeros((2, 2)))


@pytest.mark.slow
def test_the_example_of_the_gallery_runs(torch, capsys):
    mpl = pytest.importorskip("matplotlib", reason="plots need the extra plot")
    mpl.use("agg")
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "of the missing labels are wrong" in capsys.readouterr().out
