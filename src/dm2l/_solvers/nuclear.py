r"""Nuclear norms: exact value, subgradient, and a smooth approximation by Gram matrices.

For any ``Z`` with Gram matrix ``S = Z'Z`` (or ``ZZ'``, whichever is smaller) and ``mu > 0``

.. math:: \|Z\|_\mu = \operatorname{tr}\bigl((S + \mu^2 I)^{1/2}\bigr) - \mu r,
          \qquad \nabla \|Z\|_\mu = Z (S + \mu^2 I)^{-1/2},

with ``r = min(Z.shape)``, is smooth and lies between ``||Z||_* - mu r`` and ``||Z||_*``.
All functions take arrays of any array-API library. The norms of a stack of matrices are summed.
Padding with zero rows does not change the norms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from dm2l._utils.arrays import add_diagonal, check_finite


class Evaluation(NamedTuple):
    """Values and gradient of a norm or of the objective."""

    # Values stay on the device, so that all of them are copied to the host together.
    value: Any  # of the smoothed function
    exact: Any  # of the exact function
    gradient: Any  # of the smoothed function
    curvature: Any = None  # (c, c): the mean Hessian of a row, times the number of rows


Norm = Callable[..., Evaluation]


MANY = 100  # minimum number of columns for curvatures in single precision


def nuclear_norm(Z: Any) -> float:
    """Return the sum of the singular values of ``Z``."""
    xp = array_namespace(Z)
    check_finite(Z, "Scores")
    return float(xp.sum(xp.linalg.svdvals(Z))) if 0 not in Z.shape else 0.0


@dataclass(frozen=True)
class SmoothNorm:
    """The smoothed nuclear norm for a given ``mu``, computed from matrices or Gram matrices."""

    mu: float

    def __call__(self, Z: Any, *, curvature: bool = False, heights: Any = None) -> Evaluation:
        """Return norm and gradient; ``heights`` is each matrix's number of rows without padding."""
        # Heights are one number for each matrix of a stack, or one number for all.
        xp = array_namespace(Z)
        if 0 in Z.shape:
            shape, options = (Z.shape[-1],) * 2, {"dtype": xp.float64, "device": device(Z)}
            nothing = xp.zeros((), **options)
            bend = xp.zeros(shape, **options) if curvature else None
            return Evaluation(nothing, nothing, Z, bend)
        turn = xp.matrix_transpose
        rows, columns = Z.shape[-2:]
        heights = float(rows) if heights is None else heights
        Z64 = xp.astype(Z, xp.float64, copy=False)
        if rows >= columns:
            norm = self.of_gram(turn(Z64) @ Z64, heights=heights, curvature=curvature)
            return norm._replace(gradient=Z @ xp.astype(norm.gradient, Z.dtype, copy=False))
        norm, eigenvalues, vectors, roots = self._norm(Z64 @ turn(Z64))
        norm = norm._replace(gradient=xp.astype(norm.gradient, Z.dtype, copy=False) @ Z)
        if not curvature:
            return norm
        # Right singular vectors are Z'u/s. In all directions outside of their span, the curvature
        # has the same value, which is its maximum.
        pairs, spare = self._pairs(roots, heights)
        rest = xp.sum(1.0 / (roots + self.mu), axis=-1)[..., None] + spare / (2 * self.mu)
        safe = eigenvalues > 1e-12 * self.mu * self.mu
        weights = (rest - pairs) / xp.where(safe, eigenvalues, xp.ones_like(eigenvalues))
        weights = xp.where(safe & (weights > 0), weights, xp.zeros_like(weights))
        P = turn(vectors) @ Z64
        P *= xp.sqrt(weights)[..., None]
        # With many labels, one product for the whole stack takes much less time than one per
        # matrix. Single precision suffices for a quasi-Newton model.
        P = xp.reshape(P, (-1, columns))
        if columns > MANY:
            P = xp.astype(P, xp.float32)
        H = xp.astype(P.T @ P, xp.float64, copy=False)
        H *= -1.0
        return norm._replace(curvature=add_diagonal(H, xp.zeros_like(H[:, 0]) + xp.sum(rest)))

    def of_gram(
        self, S: Any, *, heights: Any, ranks: Any = None, curvature: bool = False
    ) -> Evaluation:
        """Return the sum of the norms; the gradient with respect to ``Z`` is ``Z @ gradient``."""
        norm, _, vectors, roots = self._norm(S, ranks)
        if not curvature:
            return norm
        xp = array_namespace(S)
        pairs, _ = self._pairs(roots, heights)
        H = (vectors * pairs[..., None, :]) @ xp.matrix_transpose(vectors)
        return norm._replace(curvature=xp.sum(H, axis=0) if H.ndim == 3 else H)

    def _norm(self, S: Any, ranks: Any = None) -> tuple[Evaluation, Any, Any, Any]:
        """Return the norm with ``(S + mu^2 I)^(-1/2)`` as gradient, and the spectrum of ``S``."""
        # The spectrum consists of eigenvalues, eigenvectors and smoothed singular values.
        check_finite(S, "Products of scores")
        xp = array_namespace(S)
        eigenvalues, vectors = xp.linalg.eigh(S)
        eigenvalues = xp.clip(eigenvalues, 0.0, None)
        if ranks is not None:
            place = xp.arange(S.shape[-1], device=device(S))[None, :]
            beyond = place < S.shape[-1] - ranks[:, None]  # eigenvalues are in ascending order
            eigenvalues = xp.where(beyond, xp.zeros_like(eigenvalues), eigenvalues)
        roots = xp.sqrt(eigenvalues + self.mu * self.mu)
        inverse_root = (vectors / roots[..., None, :]) @ xp.matrix_transpose(vectors)
        norm = Evaluation(xp.sum(roots - self.mu), xp.sum(xp.sqrt(eigenvalues)), inverse_root)
        return norm, eigenvalues, vectors, roots

    def _pairs(self, roots: Any, heights: Any) -> tuple[Any, Any]:
        """Return ``sum_i 1/(s_i + s_j)`` for each ``j``, and how many ``s_i`` are ``mu``."""
        # If a matrix has more rows than singular values, the further ``s_i`` are ``mu``.
        xp = array_namespace(roots)
        if not isinstance(heights, float):
            heights = xp.astype(heights, xp.float64)[:, None]
        spare = heights - float(roots.shape[-1])
        pairs = xp.sum(1.0 / (roots[..., None, :] + roots[..., :, None]), axis=-1)
        pairs += spare / (roots + self.mu)
        return pairs, spare


def thresholded_nuclear_norm(Z: Any, delta: float = 0.005) -> Evaluation:
    """Return the exact nuclear norm and the subgradient ``U1 V1'`` of Algorithm 2."""
    xp = array_namespace(Z)
    if 0 in Z.shape:
        return Evaluation(0.0, 0.0, Z)
    check_finite(Z, "Scores")
    U, s, Vt = xp.linalg.svd(Z, full_matrices=False)
    # If a singular value is a rounding error, its vectors are arbitrary.
    least = max(1e-13, 100 * float(xp.finfo(Z.dtype).eps))
    keep = xp.astype((s > delta) & (s > least * s[..., :1]), Z.dtype)
    value = float(xp.sum(s))
    return Evaluation(value, value, (U * keep[..., None, :]) @ Vt)
