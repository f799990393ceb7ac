"""Losses for torch networks with missing labels: a masked loss and the rank terms of DM2L."""

from functools import cache, partial
from typing import Any, Literal

import numpy as np

from dm2l._solvers.nuclear import thresholded_nuclear_norm
from dm2l._solvers.objective import Objective
from dm2l._utils import require
from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_choice
from dm2l.labels import LabelMatrix
from dm2l.labels._entries import EntryWeights, Signs, checked_weights

__all__ = ["masked_loss", "rank_terms"]


def masked_loss(
    scores: Any, y: Any, *, loss: Literal["squared", "logistic"] = "squared", weights: Any = None
) -> Any:
    r"""Compute the sum of a loss over the observed entries; missing entries have gradient zero.

    With signs :math:`t = \pm 1` and weights :math:`m` of the observed entries, the sum is

    .. math:: \sum_\Omega \tfrac12 m (f - t)^2 \quad\text{or}\quad
              \sum_\Omega m \log(1 + e^{-t f}).

    Parameters
    ----------
    scores : torch.Tensor of shape (n_rows, n_labels)
        Output of a network, on any device. Half precision is converted to float32.
    y : tensor or array-like of shape (n_rows, n_labels)
        Labels 1 and 0, or 1 and -1; NaN is a missing label.
    loss : {"squared", "logistic"}, default="squared"
        "squared" is the loss of DM2L. "logistic" is the logistic loss; scores are then logits.
    weights : tensor or array-like of shape (n_rows,) or (n_rows, n_labels), default=None
        Weights >= 0 of rows or entries.

    Returns
    -------
    torch.Tensor
        The sum, a scalar. If batches differ in size, divide the sum by the number of rows.

    Examples
    --------
    >>> import torch
    >>> from dm2l.torch import masked_loss
    >>> scores = torch.tensor([[0.5, 3.0], [1.0, -1.0]], requires_grad=True)
    >>> loss = masked_loss(scores, [[1, float("nan")], [0, 0]])
    >>> loss.backward()
    >>> loss.item(), scores.grad.tolist()
    (2.125, [[-0.5, 0.0], [2.0, 0.0]])
    """
    check_choice("loss", loss, "squared", "logistic")
    Z, signs, entries = _read(scores, y, weights)
    if Z.shape != signs.shape:
        raise ValueError(f"scores must have the shape of y, {signs.shape}, got {tuple(Z.shape)}.")
    torch = require("torch", "torch")
    like = {"dtype": Z.dtype, "device": Z.device}
    T = torch.asarray(signs, **like)
    M = abs(T) if entries.weights is None else torch.asarray(entries.weights, **like)
    each = (Z - T) ** 2 / 2 if loss == "squared" else torch.nn.functional.softplus(-T * Z)
    return (M * each).sum()


def rank_terms(scores: Any, y: Any, *, weights: Any = None) -> Any:
    r"""Compute the rank terms of DM2L on a batch: local nuclear norms minus the global norm.

    .. math:: \sum_k \|F_k\|_* - \|F_C\|_*

    :math:`F_k` are the scores of the rows with an observed positive of label :math:`k`, and
    :math:`F_C` the scores of the rows with any observed positive. The value is never negative. In
    the objective of :class:`dm2l.DM2LClassifier`, this value is multiplied by ``lambda_d``.

    Parameters
    ----------
    scores : torch.Tensor of shape (n_rows, n_columns)
        Scores of labels, or embeddings of the rows with any number of columns.
    y : tensor or array-like of shape (n_rows, n_labels)
        Labels 1 and 0, or 1 and -1; NaN is a missing label.
    weights : tensor or array-like of shape (n_rows,) or (n_rows, n_labels), default=None
        Weights >= 0 of rows or entries. A row with the integer weight w counts as w equal rows.

    Returns
    -------
    torch.Tensor
        The value, a scalar. It is 0 for a batch without positives.

    Notes
    -----
    The gradient of a norm is :math:`U V^\top` for the singular values that exceed rounding errors.
    If singular values are zero, this is a subgradient. Second derivatives are not available. A call
    computes one singular value decomposition per label, and one for the whole batch.

    Examples
    --------
    >>> import torch
    >>> from dm2l.torch import rank_terms
    >>> scores = torch.tensor([[3.0, 4.0], [4.0, -3.0], [9.0, 9.0]], requires_grad=True)
    >>> terms = rank_terms(scores, [[1, 0], [1, 1], [0, float("nan")]])
    >>> terms.backward()
    >>> round(terms.item(), 4)
    5.0
    >>> scores.grad[2].tolist()  # a row without an observed positive
    [0.0, 0.0]
    """
    return _bracket()(*_read(scores, y, weights))


def _read(scores: Any, y: Any, weights: Any) -> tuple[Any, Signs, EntryWeights]:
    """Return scores in at least float32, and the signs and weights of the labels."""
    torch = require("torch", "torch")
    if not (isinstance(scores, torch.Tensor) and scores.is_floating_point() and scores.ndim == 2):
        kind, shape = getattr(scores, "dtype", type(scores)), tuple(getattr(scores, "shape", ()))
        raise ValueError(
            "scores must be a floating-point torch tensor with two dimensions, got "
            f"{kind} of shape {shape}."
        )
    signs = LabelMatrix.from_array(y).signs
    if len(signs) != len(scores):
        raise ValueError(f"scores have {len(scores)} rows, but y has {len(signs)}.")
    if weights is not None:
        weights = to_numpy(weights)
        by_row = weights.ndim == 1
        shape, used = (signs.shape[:1], None) if by_row else (signs.shape, signs != 0)
        weights = checked_weights("weights", weights, shape, used, allow_zero=True)
        weights = np.broadcast_to(weights.reshape(len(signs), -1), signs.shape)
    Z = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return Z, signs, EntryWeights.of(signs, weights=weights)


@cache
def _bracket() -> Any:
    """Return the torch function that computes the difference of norms and its gradient."""
    torch = require("torch", "torch")
    function: Any = torch.autograd.Function

    class Bracket(function):
        @staticmethod
        def forward(ctx: Any, Z: Any, signs: Signs, entries: EntryWeights) -> Any:
            value, gradient = 0.0, torch.zeros_like(Z)
            objective = Objective(signs, 1.0, like=Z, entries=entries)
            if objective.lambda_d:  # 0 without positives
                norm = partial(thresholded_nuclear_norm, delta=0.0)
                with torch.autocast(Z.device.type, enabled=False):
                    value, gradient = objective.add_norms(Z, value, gradient, norm, None)[1:3]
            ctx.save_for_backward(gradient)
            return Z.new_tensor(value)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, slope: Any) -> Any:
            return slope * ctx.saved_tensors[0], None, None

    return Bracket.apply
