"""Slow, obviously correct definitions of what the core of ``dm2l`` computes.

Written from the paper (objectives (3) and (4), Algorithms 1 and 2, Theorem 1) and from the
statement of the objective, not from the library: loops over entries, full SVDs, dense least
squares, and cvxpy for the convex problems. ``T`` is n x c with +1, -1 and 0 = not observed.
"""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np

# --------------------------------------------------------------------------------- instances


def draw_targets(
    rng: np.random.Generator, n: int, c: int, observed: float = 0.7, positive: float = 0.4
) -> np.ndarray:
    """Signs with holes, in which every label shows both classes."""
    T = np.where(rng.random((n, c)) < positive, 1, -1) * (rng.random((n, c)) < observed)
    for j in range(c):
        one, other = rng.choice(n, size=2, replace=False)
        T[one, j], T[other, j] = 1, -1
    return T.astype(np.int8)


def draw_problem(
    seed: int, n: int, d: int, c: int, observed: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    """Features, and signs that depend on them, with holes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    T = draw_targets(rng, n, c, observed)
    hidden = T == 0
    followed = np.where(X @ rng.standard_normal((d, c)) + 0.5 > 0, 1, -1)
    keep = rng.random((n, c)) < 0.3  # noise, and what keeps both classes of a label in sight
    for j in range(c):
        keep[[np.flatnonzero(T[:, j] == 1)[0], np.flatnonzero(T[:, j] == -1)[0]], j] = True
    T = np.where(keep, T, followed)
    T[hidden] = 0
    return X, T.astype(np.int8)


def as_labels(T: np.ndarray) -> np.ndarray:
    """Signs as the 0/1/NaN labels that estimators take."""
    return np.where(T == 0, np.nan, (T > 0).astype(np.float64))


# ------------------------------------------------------------------------------ nuclear norms


def singular_values(Z: np.ndarray) -> np.ndarray:
    """All ``min(Z.shape)`` singular values, zeros included."""
    Z = np.asarray(Z, dtype=np.float64)
    return np.linalg.svd(Z, compute_uv=False) if Z.size else np.zeros(0)


def nuclear_norm(Z: np.ndarray) -> float:
    return float(sum(singular_values(Z)))


def smooth_nuclear_norm(Z: np.ndarray, mu: float) -> float:
    """The sum of ``sqrt(s^2 + mu^2) - mu`` over the singular values."""
    return float(sum(np.sqrt(s * s + mu * mu) - mu for s in singular_values(Z)))


def smooth_nuclear_gradient(Z: np.ndarray, mu: float) -> np.ndarray:
    """``U diag(s / sqrt(s^2 + mu^2)) V'``: the derivative of the spectral function above."""
    U, s, Vt = np.linalg.svd(np.asarray(Z, dtype=np.float64), full_matrices=False)
    return (U * (s / np.sqrt(s * s + mu * mu))) @ Vt


def subgradient(Z: np.ndarray, delta: float) -> np.ndarray:
    """Algorithm 2: the outer products of the singular vectors whose value exceeds ``delta``."""
    U, values, Vt = np.linalg.svd(np.asarray(Z, dtype=np.float64), full_matrices=False)
    G = np.zeros(Z.shape)
    for i, value in enumerate(values):
        if value > delta:
            G += np.outer(U[:, i], Vt[i])
    return G


# ---------------------------------------------------------------------------------- objective


def group_rows(T: np.ndarray, label: int) -> list[int]:
    """Rows of ``X_k``: the label is an observed positive."""
    return [i for i in range(T.shape[0]) if T[i, label] == 1]


def covered_rows(T: np.ndarray) -> list[int]:
    """Rows that lie in at least one ``X_k``."""
    return [i for i in range(T.shape[0]) if any(T[i, k] == 1 for k in range(T.shape[1]))]


def observed_rows(T: np.ndarray, label: int) -> list[int]:
    return [i for i in range(T.shape[0]) if T[i, label] != 0]


def two_class_labels(T: np.ndarray) -> list[int]:
    """Labels that show both a positive and a negative; no other label can be learned."""
    return [j for j in range(T.shape[1]) if 1 in T[:, j] and -1 in T[:, j]]


def reduce_targets(T: np.ndarray) -> tuple[np.ndarray, list[int], list[int]]:
    """The problem that remains: its targets, its rows and its labels."""
    labels = two_class_labels(T)
    rows = [i for i in range(T.shape[0]) if any(T[i, j] != 0 for j in labels)]
    return T[np.ix_(rows, labels)], rows, labels


def squared_loss(F: np.ndarray, T: np.ndarray) -> float:
    """``1/2 ||R_Omega(F) - T||^2``, entry by entry."""
    total = 0.0
    for i in range(T.shape[0]):
        for j in range(T.shape[1]):
            if T[i, j] != 0:
                total += 0.5 * (float(F[i, j]) - float(T[i, j])) ** 2
    return total


def bracket(
    F: np.ndarray,
    T: np.ndarray,
    *,
    norm: Callable[[np.ndarray], float] = nuclear_norm,
    local: bool = True,
    discriminant: bool = True,
    global_rows: str = "covered",
) -> float:
    """``sum_k ||F_k||_* - ||F_C||_*``, each term by a full SVD."""
    if not local:
        return 0.0
    F = np.asarray(F, dtype=np.float64)
    total = 0.0
    for k in range(T.shape[1]):
        total += norm(F[group_rows(T, k)])
    if discriminant:
        rows = list(range(T.shape[0])) if global_rows == "all" else covered_rows(T)
        total -= norm(F[rows])
    return total


def objective(
    Phi: np.ndarray,
    W: np.ndarray,
    b: np.ndarray,
    T: np.ndarray,
    *,
    lambda_d: float,
    alpha: float,
    norm: Callable[[np.ndarray], float] = nuclear_norm,
    **terms,
) -> float:
    """The objective J(W, b); ``Phi`` is dense."""
    F = Phi @ W + np.asarray(b)[None, :]
    penalty = 0.5 * alpha * sum(float(w) ** 2 for w in np.ravel(W))
    return squared_loss(F, T) + penalty + lambda_d * bracket(F, T, norm=norm, **terms)


def surrogate(
    Phi: np.ndarray,
    W: np.ndarray,
    b: np.ndarray,
    T: np.ndarray,
    G: np.ndarray,
    *,
    lambda_d: float,
    alpha: float,
    norm: Callable[[np.ndarray], float] = nuclear_norm,
) -> float:
    """Algorithm 1's convex function: the global norm replaced by ``<G, F>``, G being n x c."""
    F = Phi @ W + np.asarray(b)[None, :]
    convex = objective(Phi, W, b, T, lambda_d=lambda_d, alpha=alpha, norm=norm, discriminant=False)
    return convex - lambda_d * float(np.sum(G * F))


def global_subgradient(F: np.ndarray, T: np.ndarray, delta: float = 0.0) -> np.ndarray:
    """A subgradient of ``||F_C||_*`` in the n x c matrix F: zero on the rows nobody covers."""
    rows = covered_rows(T)
    G = np.zeros(F.shape)
    if rows:
        G[rows] = subgradient(np.asarray(F)[rows], delta)
    return G


# ------------------------------------------------------------------------------- derivatives


def central_differences(
    function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-6
) -> np.ndarray:
    """The gradient of ``function`` at a point, one entry at a time."""
    gradient = np.zeros(at.shape)
    for index in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


# ------------------------------------------------------------------------------------ optima


def masked_ridge(
    Phi: np.ndarray, T: np.ndarray, alpha: float, intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression of every label on its own observed rows, by dense least squares.

    The intercept is not penalized. Where the answer is not unique (``alpha = 0``), the one whose
    weights have the smallest norm.
    """
    d, c = Phi.shape[1], T.shape[1]
    W, b = np.zeros((d, c)), np.zeros(c)
    for j in range(c):
        rows = observed_rows(T, j)
        if not rows:
            continue
        A, t = Phi[rows].astype(np.float64), T[rows, j].astype(np.float64)
        mean_a = A.mean(axis=0) if intercept else np.zeros(d)
        mean_t = t.mean() if intercept else 0.0
        stacked = np.vstack([A - mean_a, np.sqrt(alpha) * np.eye(d)])
        targets = np.concatenate([t - mean_t, np.zeros(d)])
        W[:, j] = np.linalg.lstsq(stacked, targets, rcond=1e-10)[0]
        b[j] = mean_t - mean_a @ W[:, j]
    return W, b


def convex_optimum(
    Phi: np.ndarray,
    T: np.ndarray,
    *,
    lambda_d: float,
    alpha: float,
    intercept: bool,
    G: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """The minimum of the convex problem (no global term, or ``-<G, F>`` in its place), by cvxpy.

    Returns the minimum, computed anew from the minimizer, and the scores at it.
    """
    n, d = Phi.shape
    c = T.shape[1]
    W = cp.Variable((d, c))
    b = cp.Variable((1, c))
    F = Phi @ W + np.ones((n, 1)) @ b
    observed = (T != 0).astype(np.float64)
    cost = 0.5 * cp.sum_squares(cp.multiply(observed, F) - T.astype(np.float64))
    cost += 0.5 * alpha * cp.sum_squares(W)
    for k in range(c):
        rows = group_rows(T, k)
        if rows:
            cost += lambda_d * cp.normNuc(F[rows, :])
    if G is not None:
        cost -= lambda_d * cp.sum(cp.multiply(G, F))
    constraints = [] if intercept else [b == 0]
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL)
    if problem.status != "optimal":
        raise RuntimeError(f"cvxpy: {problem.status}")
    b_value = b.value[0] if intercept else np.zeros(c)
    linear = np.zeros((n, c)) if G is None else G
    value = surrogate(Phi, W.value, b_value, T, linear, lambda_d=lambda_d, alpha=alpha)
    return value, Phi @ W.value + b_value


def cccp(
    Phi: np.ndarray,
    T: np.ndarray,
    *,
    lambda_d: float,
    alpha: float,
    intercept: bool,
    start: np.ndarray,
    n_iter: int,
) -> list[float]:
    """Algorithm 1 with every surrogate minimized by cvxpy; ``start`` holds scores, n x c.

    Returns the exact objective of each iterate, from the subgradient at the iterate: at the
    minimizer F of the surrogate, ``J = surrogate + lambda_d (<G, F> - ||F_C||_*)``.
    """
    F, values = start, []
    for _ in range(n_iter):
        G = global_subgradient(F, T)
        value, F = convex_optimum(Phi, T, lambda_d=lambda_d, alpha=alpha, intercept=intercept, G=G)
        gap = float(np.sum(G * F)) - nuclear_norm(F[covered_rows(T)])
        values.append(value + lambda_d * gap)
    return values


def leverages(Phi: np.ndarray, known: np.ndarray, alpha: float, intercept: bool) -> np.ndarray:
    """``phi_i' H_j^-1 phi_i`` of every entry; the intercept is a column without penalty."""
    penalty = np.full(Phi.shape[1], alpha)
    if intercept:
        Phi, penalty = np.column_stack([Phi, np.ones(len(Phi))]), np.append(penalty, 0.0)
    h = np.zeros(known.shape)
    for j, rows in enumerate(known.T):
        H = Phi[rows].T @ Phi[rows] + np.diag(penalty)
        h[:, j] = [phi @ np.linalg.solve(H, phi) for phi in Phi]
    return h
