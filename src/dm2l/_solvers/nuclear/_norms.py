"""The exact norm, its subgradient, the smoothed norm by ``eigh``, and which way is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace, device, is_numpy_array

from dm2l._solvers.nuclear._products import NormValue, norm_by_products
from dm2l._utils.arrays import add_diagonal, check_finite, is_on_cuda

MANY = 100  # columns


def nuclear_norm(Z: Any) -> float:
    """Sum of the singular values of ``Z``."""
    xp = array_namespace(Z)
    check_finite(Z, "Scores")
    return float(xp.sum(xp.linalg.svdvals(Z))) if 0 not in Z.shape else 0.0


def subgradient(Z: Any, delta: float = 0.005) -> Any:
    """Return a subgradient of the nuclear norm at ``Z`` (Algorithm 2 of the paper).

    ``U1 V1'`` of the singular value decomposition ``Z = U diag(s) V'``, with the columns whose
    singular value exceeds ``delta``. Its spectral norm is at most one, so
    ``||A||_* >= <U1 V1', A>`` for every ``A``; with ``delta = 0`` there is equality at ``Z``.
    """
    return thresholded_nuclear_norm(Z, delta).gradient


def smooth_nuclear_norm(
    Z: Any, mu: float, *, curvature: bool = False, heights: Any = None
) -> NormValue:
    """Smoothed nuclear norm, the exact one, and the gradient of the smoothed one.

    One Gram matrix and one ``eigh`` of size ``min(Z.shape)``, both in float64: the square root
    of an eigenvalue loses half its digits, which float32 cannot spare.
    """
    norm = SmoothNorm(mu)(Z, curvature=curvature, heights=heights)
    return norm._replace(value=float(norm.value), exact=float(norm.exact))


def _by_eigh(Z: Any, mu: float, curvature: bool, heights: Any) -> NormValue:
    xp = array_namespace(Z)
    turn = xp.matrix_transpose
    rows, columns = Z.shape[-2:]
    tall = rows >= columns
    Z64 = xp.astype(Z, xp.float64, copy=False)
    eigenvalues, vectors = _spectrum(turn(Z64) @ Z64 if tall else Z64 @ turn(Z64))
    roots = xp.sqrt(eigenvalues + mu * mu)
    inverse_root = xp.astype(_inverse_root(vectors, roots), Z.dtype, copy=False)
    norm = NormValue(
        value=xp.sum(roots - mu),
        exact=xp.sum(xp.sqrt(eigenvalues)),
        gradient=Z @ inverse_root if tall else inverse_root @ Z,
    )
    if not curvature:
        return norm
    # Rows beyond those with a singular value of their own (fewer, if some are filling).
    spare = xp.zeros_like(roots[..., :1]) + float(rows - min(rows, columns))
    if heights is not None:
        spare = xp.astype(heights, xp.float64)[:, None] - float(min(rows, columns))
        spare = spare if Z.ndim == 3 else spare[0, :]
    pairs = _pairs(roots, spare, mu)
    if tall:
        H = (vectors * pairs[..., None, :]) @ turn(vectors)
        return norm._replace(curvature=xp.sum(H, axis=0) if H.ndim == 3 else H)
    # Right singular vectors are Z'u/s; all directions outside their span are alike, and bend most.
    rest = xp.sum(1.0 / (roots + mu), axis=-1)[..., None] + spare / (2 * mu)
    safe = eigenvalues > 1e-12 * mu * mu
    weights = (rest - pairs) / xp.where(safe, eigenvalues, xp.ones_like(eigenvalues))
    weights = xp.where(safe & (weights > 0), weights, xp.zeros_like(weights))
    P = turn(vectors) @ Z64
    P *= xp.sqrt(weights)[..., None]
    # One product with its own transpose for the whole stack: one for each of its matrices took
    # five times as long as all else where labels are many (617 labels in groups of 45 rows). There
    # single precision, which is plenty for a model, takes half of that again.
    P = xp.reshape(P, (-1, columns))
    if columns > MANY:
        P = xp.astype(P, xp.float32)
    H = xp.astype(P.T @ P, xp.float64, copy=False)
    H *= -1.0
    H = add_diagonal(H, xp.zeros_like(H[:, 0]) + xp.sum(rest))
    return norm._replace(curvature=H)


@dataclass(frozen=True)
class SmoothNorm:
    """The smoothed norm at one ``mu``, of matrices or of what is known of them."""

    mu: float

    def __call__(self, Z: Any, *, curvature: bool = False, heights: Any = None) -> NormValue:
        """:func:`smooth_nuclear_norm`, with values that stay where ``Z`` lives."""
        xp = array_namespace(Z)
        if 0 in Z.shape:
            shape, options = (Z.shape[-1],) * 2, {"dtype": xp.float64, "device": device(Z)}
            nothing = xp.zeros((), **options)
            return NormValue(nothing, nothing, Z, xp.zeros(shape, **options) if curvature else None)
        # The batched eigh of CUDA is fast up to 32 rows, a loop beyond, and never part of a graph.
        small = min(Z.shape[-2:]) <= 32 and isinstance(self.mu, float)
        products = is_on_cuda(Z) and not small
        way = norm_by_products if products else _by_eigh
        return way(Z, self.mu, curvature, heights)

    def of_gram(
        self, S: Any, *, heights: Any, ranks: Any = None, curvature: bool = False
    ) -> NormValue:
        """The norms of matrices of which only the Gram matrices ``Z'Z`` are known, summed."""
        xp = array_namespace(S)
        columns = S.shape[-1]
        eigenvalues, vectors = _spectrum(S)
        if ranks is not None:
            place = xp.arange(columns, device=device(S))[None, :]
            beyond = place < columns - ranks[:, None]  # eigenvalues rise
            eigenvalues = xp.where(beyond, xp.zeros_like(eigenvalues), eigenvalues)
        roots = xp.sqrt(eigenvalues + self.mu * self.mu)
        norm = NormValue(
            value=float(xp.sum(roots - self.mu)),
            exact=float(xp.sum(xp.sqrt(eigenvalues))),
            gradient=_inverse_root(vectors, roots),
        )
        if not curvature:
            return norm
        spare = xp.astype(heights, xp.float64)[:, None] - float(columns)
        pairs = _pairs(roots, spare, self.mu)
        H = (vectors * pairs[..., None, :]) @ xp.matrix_transpose(vectors)
        return norm._replace(curvature=xp.sum(H, axis=0))


def _spectrum(S: Any) -> tuple[Any, Any]:
    """Eigenvalues, rising and not negative, and eigenvectors."""
    eigenvalues, vectors = _eigh(S)
    return array_namespace(S).clip(eigenvalues, 0.0, None), vectors


def _inverse_root(vectors: Any, roots: Any) -> Any:
    """``(S + mu^2 I)^(-1/2)``."""
    xp = array_namespace(vectors)
    return (vectors / roots[..., None, :]) @ xp.matrix_transpose(vectors)


def _pairs(roots: Any, spare: Any, mu: float) -> Any:
    """``sum_i 1/(s_i' + s_j')`` over all rows, those without a singular value of their own too."""
    xp = array_namespace(roots)
    pairs = xp.sum(1.0 / (roots[..., None, :] + roots[..., :, None]), axis=-1)
    return pairs + spare / (roots + mu)


def _eigh(S: Any) -> tuple[Any, Any]:
    check_finite(S, "Products of scores")
    values, vectors = array_namespace(S).linalg.eigh(S)
    return values, vectors


def thresholded_nuclear_norm(Z: Any, delta: float = 0.005) -> NormValue:
    """Exact nuclear norm with the subgradient of Algorithm 2, as the paper's solver uses them."""
    xp = array_namespace(Z)
    if 0 in Z.shape:
        return NormValue(0.0, 0.0, Z)
    if not is_numpy_array(Z):
        return _thresholded_by_eigh(Z, delta)
    check_finite(Z, "Scores")
    U, s, Vt = xp.linalg.svd(Z, full_matrices=False)
    # A singular value at rounding level has no direction of its own.
    keep = xp.astype((s > delta) & (s > 1e-13 * s[..., :1]), Z.dtype)
    value = float(xp.sum(s))
    return NormValue(value, value, (U * keep[..., None, :]) @ Vt)


def _thresholded_by_eigh(Z: Any, delta: float) -> NormValue:
    """The same from the smaller Gram matrix: accelerators are slow at decompositions of tall ones.

    Singular values are right to about 1e-8 of the largest this way; those below 1e-7 of it count
    as rounding.
    """
    xp = array_namespace(Z)
    turn = xp.matrix_transpose
    Z64 = xp.astype(Z, xp.float64, copy=False)
    tall = Z.shape[-2] >= Z.shape[-1]
    eigenvalues, vectors = _eigh(turn(Z64) @ Z64 if tall else Z64 @ turn(Z64))
    s = xp.sqrt(xp.clip(eigenvalues, 0.0, None))
    keep = (s > delta) & (s > 1e-7 * s[..., -1:])
    inverse = xp.where(keep, 1.0 / xp.where(keep, s, xp.ones_like(s)), xp.zeros_like(s))
    root = xp.astype((vectors * inverse[..., None, :]) @ turn(vectors), Z.dtype, copy=False)
    value = float(xp.sum(s))
    return NormValue(value, value, Z @ root if tall else root @ Z)
