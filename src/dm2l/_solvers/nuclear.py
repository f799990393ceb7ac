r"""Nuclear norms: the exact value, a subgradient, and a smooth approximation without tall SVDs.

For any ``Z`` with Gram matrix ``S = Z'Z`` (or ``ZZ'``, whichever is smaller) and ``mu > 0``

.. math:: \|Z\|_\mu = \operatorname{tr}\bigl((S + \mu^2 I)^{1/2}\bigr) - \mu r,
          \qquad \nabla \|Z\|_\mu = Z (S + \mu^2 I)^{-1/2},

with ``r = min(Z.shape)``, is smooth and lies between ``||Z||_* - mu r`` and ``||Z||_*``.
All functions take arrays of any array-API library. The norms of a stack of matrices are summed;
zero rows that pad a stack to a common height change nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from dm2l._utils.arrays import add_diagonal, check_finite, is_on_cuda


class Evaluation(NamedTuple):
    """Value and gradient of a norm or an objective."""

    # Values stay arrays on the device, so that all of them are copied to the host at once.
    value: Any  # of the smoothed function
    exact: Any  # of the function itself
    gradient: Any  # of the smoothed function
    curvature: Any = None  # (c, c): the mean Hessian of a row, times the number of rows


Norm = Callable[..., Evaluation]


# Polar factors are exact for singular values above this share of the norm of the matrix.
_LEAST = 1e-9
# Polynomials of the polar factor that are evaluated on one Gram matrix.
_AT_ONCE = 6
# Inverses for the curvature are exact for eigenvalues above this share of the largest.
_LEAST_OF_INVERSE = 1e-6


def norm_by_products(Z: Any, mu: float, curvature: bool = False, heights: Any = None) -> Evaluation:
    """The norm by matrix products only, which accelerators compute for a whole stack at once."""
    # The upper part of the polar factor of [Z; mu I] is the gradient, the lower one is mu (S + mu^2
    # I)^(-1/2), and its inner product with the matrix is the smoothed norm. The polar factor of [Z;
    # 0] gives the exact norm. The curvature uses the harmonic mean of the singular values in place
    # of each, and a parabola in place of 1/(1 + x). No number is copied to the host.
    xp = array_namespace(Z)
    turn, flat = xp.matrix_transpose, Z.ndim == 2
    rows, columns = Z.shape[-2:]
    tall = rows >= columns
    Z64 = xp.astype(Z, xp.float64, copy=False)
    Z64 = Z64[None, ...] if flat else Z64
    A = Z64 if tall else turn(Z64)
    k, height, side = A.shape
    eye = _eye(A)
    below = xp.zeros_like(A[:, :side, :]) + mu * eye
    above = xp.concat([A, A], axis=0)
    U = _polar(xp.concat([above, xp.concat([below, xp.zeros_like(below)], axis=0)], axis=1))
    gradient, Q, plain = U[:k, :height, :], U[:k, height:, :], U[k:, :height, :]
    gradient64 = gradient if tall else turn(gradient)
    norm = Evaluation(
        value=xp.sum(gradient * A) + mu * (xp.sum(Q * eye) - k * side),
        exact=xp.sum(plain * A),
        gradient=xp.astype(gradient64[0, ...] if flat else gradient64, Z.dtype, copy=False),
    )
    if not curvature:
        return norm
    Q = 0.5 * (Q + turn(Q))  # mu times the inverse root, with eigenvalues from 0 to 1
    real = xp.full((k,), float(rows), dtype=xp.float64, device=device(Z))
    real = real if heights is None else xp.astype(heights, xp.float64)
    real = real[:, None, None]
    filling = xp.where(real < side, side - real, xp.zeros_like(real))  # rows of zeros
    own = side - filling
    trace = xp.sum(Q * eye, axis=(1, 2), keepdims=True) - filling
    mean = own / xp.where(trace > _LEAST, trace, xp.full_like(trace, _LEAST))  # in units of mu
    # (mean + root)^-1 and (mu + root)^-1 are these times Q / mu.
    near = _inverse(eye + mean * Q, 1.0 + mean)
    far = _plus(eye - 0.886 * Q, Q, Q, 1.0, 0.386)
    if tall:
        H = xp.sum((own * near + (real - own) * far) @ Q, axis=0) / mu
        return norm._replace(curvature=0.5 * (H + H.T))
    # The term (rest - pairs) / s^2 of _by_eigh, without its small divisors.
    rest = real / (mean + 1.0)
    P = xp.reshape((rest * near @ far) @ gradient64, (-1, columns))
    H = -(xp.reshape(gradient64, (-1, columns)).T @ P)
    H = add_diagonal(0.5 * (H + H.T), xp.zeros_like(H[:, 0]) + xp.sum(rest))
    return norm._replace(curvature=H / mu)


def _plus(C: Any, A: Any, B: Any, beta: float, alpha: float) -> Any:
    """``beta C + alpha A B`` of stacks; one kernel in torch."""
    xp = array_namespace(C)
    if is_torch_array(C):
        return xp.baddbmm(C, A, B, beta=beta, alpha=alpha)
    return beta * C + alpha * (A @ B)


def _polar(X: Any) -> Any:
    """Polar factors of a stack of tall matrices: singular values become 1, zeros stay zero."""
    # Several polynomials are composed on the Gram matrix, which is smaller. Composing more of them
    # would lose small singular values, because its rounding grows with the square of their change.
    xp = array_namespace(X)
    norms = xp.sqrt(xp.sum(X * X, axis=(1, 2), keepdims=True))
    X = X / xp.where(norms > 0, norms, xp.ones_like(norms))
    steps, eye = _quintics(_LEAST), _eye(X)
    for start in range(0, len(steps), _AT_ONCE):
        G, S, P = xp.matrix_transpose(X) @ X, None, None
        for a, b, c in steps[start : start + _AT_ONCE]:
            G = G if S is None else S @ G @ S
            S = _plus(G, G, G, b, c) + a * eye
            P = S if P is None else P @ S
        X = X @ P
    return X


def _eye(stack: Any) -> Any:
    side = stack.shape[-1]
    return array_namespace(stack).eye(side, dtype=stack.dtype, device=device(stack))


def _inverse(A: Any, largest: Any) -> Any:
    """Inverses of a stack of positive definite matrices, by scaled Newton iterations."""
    xp = array_namespace(A)
    X = xp.zeros_like(A) + _eye(A) / largest
    low = _LEAST_OF_INVERSE
    while low < 1.0 - 1e-6:
        step = 2.0 / (1.0 + low)
        X = _plus(X, X, A @ X, 2.0 * step, -step * step)
        low = step * low * (2.0 - step * low)
    return X


@cache
def _quintics(low: float) -> list[tuple[float, float, float]]:
    """Polynomials ``a x + b x^3 + c x^5`` that in turn map [low, 1] close to 1."""
    # Each is optimal for the image of the one before (Amsel et al., "The Polar Express", 2025): the
    # exchange algorithm makes errors equal at both ends and at the two extrema in between.
    found, high = [], 1.0
    while high - low > 0.05:
        # Polynomials rise steeply above the interval, so it has a margin for rounding.
        high *= 1.001
        inner = np.array([3 * low + high, low + 3 * high]) / 4
        error, last = 0.0, np.inf
        while abs(error - last) > 1e-15:
            last, at = error, np.array([low, *inner, high])
            signs = np.array([1.0, -1.0, 1.0, -1.0])
            a, b, c, error = np.linalg.solve(
                np.stack([at, at**3, at**5, signs], axis=1), np.ones(4)
            )
            root = np.sqrt(9 * b * b - 20 * a * c)
            inner = np.sqrt((-3 * b + np.array([-root, root])) / (10 * c))
        found.append((float(a), float(b), float(c)))
        low, high = 1.0 - float(error), 1.0 + float(error)
    # The limit for short intervals, which cubes the error.
    return found + 3 * [(15 / 8, -10 / 8, 3 / 8)]


MANY = 100  # columns from which on curvatures are in single precision


def nuclear_norm(Z: Any) -> float:
    """Sum of the singular values of ``Z``."""
    xp = array_namespace(Z)
    check_finite(Z, "Scores")
    return float(xp.sum(xp.linalg.svdvals(Z))) if 0 not in Z.shape else 0.0


def _by_eigh(Z: Any, mu: float, curvature: bool, heights: Any) -> Evaluation:
    xp = array_namespace(Z)
    turn = xp.matrix_transpose
    rows, columns = Z.shape[-2:]
    tall = rows >= columns
    Z64 = xp.astype(Z, xp.float64, copy=False)
    eigenvalues, vectors = _spectrum(turn(Z64) @ Z64 if tall else Z64 @ turn(Z64))
    roots = xp.sqrt(eigenvalues + mu * mu)
    inverse_root = (vectors / roots[..., None, :]) @ turn(vectors)  # (S + mu^2 I)^(-1/2)
    inverse_root = xp.astype(inverse_root, Z.dtype, copy=False)
    norm = Evaluation(
        value=xp.sum(roots - mu),
        exact=xp.sum(xp.sqrt(eigenvalues)),
        gradient=Z @ inverse_root if tall else inverse_root @ Z,
    )
    if not curvature:
        return norm
    # Number of rows beyond the singular values, without the zero rows that pad a stack.
    spare = xp.zeros_like(roots[..., :1]) + float(rows - min(rows, columns))
    if heights is not None:
        spare = xp.astype(heights, xp.float64)[:, None] - float(min(rows, columns))
        spare = spare if Z.ndim == 3 else spare[0, :]
    # sum_i 1/(s_i + s_j) over all rows; the smoothed singular value of spare rows is mu.
    pairs = xp.sum(1.0 / (roots[..., None, :] + roots[..., :, None]), axis=-1)
    pairs += spare / (roots + mu)
    if tall:
        H = (vectors * pairs[..., None, :]) @ turn(vectors)
        return norm._replace(curvature=xp.sum(H, axis=0) if H.ndim == 3 else H)
    # Right singular vectors are Z'u/s. The curvature is the same in all directions outside of
    # their span, and largest there.
    rest = xp.sum(1.0 / (roots + mu), axis=-1)[..., None] + spare / (2 * mu)
    safe = eigenvalues > 1e-12 * mu * mu
    weights = (rest - pairs) / xp.where(safe, eigenvalues, xp.ones_like(eigenvalues))
    weights = xp.where(safe & (weights > 0), weights, xp.zeros_like(weights))
    P = turn(vectors) @ Z64
    P *= xp.sqrt(weights)[..., None]
    # One product for the whole stack takes much less time than one for each matrix if labels are
    # many, and single precision is enough for a quasi-Newton model.
    P = xp.reshape(P, (-1, columns))
    if columns > MANY:
        P = xp.astype(P, xp.float32)
    H = xp.astype(P.T @ P, xp.float64, copy=False)
    H *= -1.0
    H = add_diagonal(H, xp.zeros_like(H[:, 0]) + xp.sum(rest))
    return norm._replace(curvature=H)


@dataclass(frozen=True)
class SmoothNorm:
    """The smoothed norm with one ``mu``, of matrices or from their Gram matrices."""

    mu: float

    def __call__(self, Z: Any, *, curvature: bool = False, heights: Any = None) -> Evaluation:
        """The norm and its smoothed gradient; ``heights`` are the numbers of rows of a stack."""
        xp = array_namespace(Z)
        if 0 in Z.shape:
            shape, options = (Z.shape[-1],) * 2, {"dtype": xp.float64, "device": device(Z)}
            nothing = xp.zeros((), **options)
            bend = xp.zeros(shape, **options) if curvature else None
            return Evaluation(nothing, nothing, Z, bend)
        # On CUDA, eigh is slow above 32 rows.
        many = min(Z.shape[-2:]) > 32 and is_on_cuda(Z)
        method = norm_by_products if many else _by_eigh
        return method(Z, self.mu, curvature, heights)

    def of_gram(
        self, S: Any, *, heights: Any, ranks: Any = None, curvature: bool = False
    ) -> Evaluation:
        """Sum of the norms of matrices with these Gram matrices ``Z'Z``."""
        xp = array_namespace(S)
        columns = S.shape[-1]
        eigenvalues, vectors = _spectrum(S)
        if ranks is not None:
            place = xp.arange(columns, device=device(S))[None, :]
            beyond = place < columns - ranks[:, None]  # eigenvalues are in rising order
            eigenvalues = xp.where(beyond, xp.zeros_like(eigenvalues), eigenvalues)
        roots = xp.sqrt(eigenvalues + self.mu * self.mu)
        norm = Evaluation(
            value=float(xp.sum(roots - self.mu)),
            exact=float(xp.sum(xp.sqrt(eigenvalues))),
            gradient=(vectors / roots[..., None, :]) @ xp.matrix_transpose(vectors),
        )
        if not curvature:
            return norm
        spare = xp.astype(heights, xp.float64)[:, None] - float(columns)
        pairs = xp.sum(1.0 / (roots[..., None, :] + roots[..., :, None]), axis=-1)
        pairs += spare / (roots + self.mu)
        H = (vectors * pairs[..., None, :]) @ xp.matrix_transpose(vectors)
        return norm._replace(curvature=xp.sum(H, axis=0))


def _spectrum(S: Any) -> tuple[Any, Any]:
    """Eigenvalues in rising order, clipped at 0, and eigenvectors."""
    check_finite(S, "Products of scores")
    xp = array_namespace(S)
    eigenvalues, vectors = xp.linalg.eigh(S)
    return xp.clip(eigenvalues, 0.0, None), vectors


def thresholded_nuclear_norm(Z: Any, delta: float = 0.005) -> Evaluation:
    """Exact nuclear norm with the subgradient ``U1 V1'`` of Algorithm 2."""
    xp = array_namespace(Z)
    if 0 in Z.shape:
        return Evaluation(0.0, 0.0, Z)
    check_finite(Z, "Scores")
    U, s, Vt = xp.linalg.svd(Z, full_matrices=False)
    # The direction of a singular value at rounding level is arbitrary.
    least = max(1e-13, 100 * float(xp.finfo(Z.dtype).eps))
    keep = xp.astype((s > delta) & (s > least * s[..., :1]), Z.dtype)
    value = float(xp.sum(s))
    return Evaluation(value, value, (U * keep[..., None, :]) @ Vt)
