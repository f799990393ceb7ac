"""Slow, obviously correct definitions of the methods that DM2L is compared with.

Written from the papers and from what their published programs do, not from the library: loops
over entries, dense least squares, cvxpy for what is convex. ``Y`` holds real targets and
``observed`` says which of them count; ``T`` has +1, -1 and 0 = not observed.
"""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import scipy.optimize

import dm2l_oracles as oracle

LOSSES = ("squared", "logistic", "squared_hinge")


def draw_rows(
    seed: int, n: int, d: int, c: int, observed: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    """Features and signs with holes; both classes of a label and something of a row are seen."""
    X, T = oracle.draw_problem(seed, n, d, c, observed)
    seen = (T != 0).any(axis=1)
    return X[seen], T[seen]


def read_targets(T: np.ndarray, missing: str) -> tuple[np.ndarray, np.ndarray]:
    """Targets, and which of them count, for a way to read missing."""
    values = {1: 1.0, -1: 0.0, 0: 0.0} if missing == "negative" else {1: 1.0, -1: -1.0, 0: 0.0}
    Y = np.array([[values[int(t)] for t in row] for row in T])
    return Y, (T != 0) if missing == "ignore" else np.ones(T.shape, dtype=bool)


def on_scale_of_targets(model, missing: str) -> tuple[np.ndarray, np.ndarray]:
    """Weights (d, c) and intercepts of a fitted model before its border was moved to 0."""
    if missing == "negative":
        return model.coef_.T / 2, (model.intercept_ + 1) / 2
    return model.coef_.T, model.intercept_


def ridge(
    X: np.ndarray, Y: np.ndarray, alpha: float, intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """``argmin 1/2 ||X W + 1 b' - Y||^2 + alpha/2 ||W||^2`` by dense least squares."""
    mean_x = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
    mean_y = Y.mean(axis=0) if intercept else np.zeros(Y.shape[1])
    stacked = np.vstack([X - mean_x, np.sqrt(alpha) * np.eye(X.shape[1])])
    zeros = np.zeros((X.shape[1], Y.shape[1]))
    W = np.linalg.lstsq(stacked, np.vstack([Y - mean_y, zeros]), rcond=None)[0]
    return W, mean_y - mean_x @ W


# --------------------------------------------------------------------------------------- LEML


def loss(name: str, f: float, y: float) -> float:
    if name == "squared":
        return (f - y) ** 2
    if name == "logistic":
        return float(np.log(1 + np.exp(-y * f)))
    return max(0.0, 1 - y * f) ** 2


def loss_slope(name: str, f: float, y: float) -> float:
    if name == "squared":
        return 2 * (f - y)
    if name == "logistic":
        return -y / (1 + np.exp(y * f))
    return -2 * y * (1 - y * f) if y * f < 1 else 0.0


def loss_curvature(name: str, f: float, y: float) -> float:
    if name == "squared":
        return 2.0
    if name == "logistic":
        return float(1 / (2 + np.exp(f) + np.exp(-f)))
    return 2.0 if y * f < 1 else 0.0


def entrywise(function: Callable, name: str, F, Y, observed) -> np.ndarray:
    """A function of every observed entry, and 0 elsewhere."""
    A = np.zeros(F.shape)
    for i, j in np.argwhere(observed):
        A[i, j] = function(name, F[i, j], Y[i, j])
    return A


def total_loss(name: str, F, Y, observed) -> float:
    return float(entrywise(loss, name, F, Y, observed).sum())


def tron(value, gradient, product, w: np.ndarray, *, eps: float, max_iter: int) -> np.ndarray:
    """LIBLINEAR's trust-region Newton method; every step counts, accepted or not."""
    eta0, eta1, eta2 = 1e-4, 0.25, 0.75
    sigma1, sigma2, sigma3 = 0.25, 0.5, 4.0
    f, g = value(w), gradient(w)
    norm_at_entry = delta = np.linalg.norm(g)
    for iteration in range(1, max_iter + 1):
        if np.linalg.norm(g) <= eps * norm_at_entry:
            return w
        s, r = tron_step(lambda p, at=w: product(at, p), g, delta)
        gs = np.sum(g * s)
        prered = -0.5 * (gs - np.sum(s * r))
        fnew = value(w + s)
        actred = f - fnew
        snorm = np.linalg.norm(s)
        if iteration == 1:
            delta = min(delta, snorm)
        if fnew - f - gs <= 0:
            alpha = sigma3
        else:
            alpha = max(sigma1, -0.5 * (gs / (fnew - f - gs)))
        if actred < eta0 * prered:
            delta = min(max(alpha, sigma1) * snorm, sigma2 * delta)
        elif actred < eta1 * prered:
            delta = max(sigma1 * delta, min(alpha * snorm, sigma2 * delta))
        elif actred < eta2 * prered:
            delta = max(sigma1 * delta, min(alpha * snorm, sigma3 * delta))
        else:
            delta = max(delta, min(alpha * snorm, sigma3 * delta))
        if actred > eta0 * prered:
            w, f = w + s, fnew
            g = gradient(w)
    return w


def tron_step(product, g: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """At most 20 steps of conjugate gradients on ``Hess s = -g``, inside a ball."""
    s, r = np.zeros(g.shape), -g
    d = r
    for _ in range(20):
        if np.linalg.norm(r) <= 0.1 * np.linalg.norm(g):
            break
        image = product(d)
        alpha = np.sum(r * r) / np.sum(d * image)
        if np.linalg.norm(s + alpha * d) > delta:
            a, b, c = np.sum(d * d), 2 * np.sum(s * d), np.sum(s * s) - delta**2
            alpha = float(max(np.roots([a, b, c]).real))
            return s + alpha * d, r - alpha * image
        s = s + alpha * d
        fresh = r - alpha * image
        d = fresh + (np.sum(fresh * fresh) / np.sum(r * r)) * d
        r = fresh
    return s, r


def label_solution(name: str, Z, y, penalty: np.ndarray, C: float, start) -> np.ndarray:
    """``argmin_h 1/2 h' diag(penalty) h + C sum_i loss(z_i'h, y_i)`` for one label."""
    if name == "squared":
        return np.linalg.solve(Z.T @ Z + np.diag(penalty) / (2 * C), Z.T @ y)

    def each(function, h):
        return np.array([function(name, f, t) for f, t in zip(Z @ h, y, strict=True)])

    found = scipy.optimize.minimize(
        lambda h: 0.5 * np.sum(penalty * h * h) + C * each(loss, h).sum(),
        start,
        jac=lambda h: penalty * h + C * Z.T @ each(loss_slope, h),
        hess=lambda h: np.diag(penalty) + C * (Z.T * each(loss_curvature, h)) @ Z,
        method="trust-exact",
        options={"gtol": 1e-11, "maxiter": 300},
    )
    return found.x


def leml(
    X,
    T,
    k: int,
    lam: float,
    *,
    name: str = "squared",
    missing: str = "ignore",
    tol=0.1,
    n_iter,
    seed,
) -> tuple[np.ndarray, list[float]]:
    """LEML as its program runs, without a bias; ``W H'`` and the objective after each round."""
    Y, observed = read_targets(T, missing)
    C = 1.0 / lam
    random = np.random.RandomState(seed)
    W = random.uniform(size=(X.shape[1], k))
    H = random.uniform(size=(T.shape[1], k))
    if missing != "ignore":
        eps = tol * np.count_nonzero(Y) / Y.size
    elif name == "squared":
        eps = tol
    else:
        eps = tol * max(min((T == 1).sum(), (T == -1).sum()), 1) / (T != 0).sum()
    history = []
    for _ in range(n_iter):

        def slopes(W, H=H):
            return entrywise(loss_slope, name, X @ W @ H.T, Y, observed)

        def curvatures(W, H=H):
            return entrywise(loss_curvature, name, X @ W @ H.T, Y, observed)

        W = tron(
            lambda W, H=H: 0.5 * np.sum(W**2) + C * total_loss(name, X @ W @ H.T, Y, observed),
            lambda W, H=H: W + C * X.T @ slopes(W) @ H,
            lambda W, S, H=H: S + C * X.T @ (curvatures(W) * (X @ S @ H.T)) @ H,
            W,
            eps=eps,
            max_iter=5,
        )
        Z = X @ W
        H = H.copy()
        for j in range(T.shape[1]):
            rows = observed[:, j]
            H[j] = label_solution(name, Z[rows], Y[rows, j], np.ones(k), C, H[j])
        fit = total_loss(name, Z @ H.T, Y, observed)
        history.append(fit + lam / 2 * (np.sum(W**2) + np.sum(H**2)))
    return W @ H.T, history


def nuclear_regression(X, Y, observed, alpha: float, intercept: bool) -> float:
    """``min_{Z,b} sum_Omega (X Z + 1 b' - Y)^2 + alpha ||Z||_*`` by cvxpy."""
    Z, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    F = X @ Z + np.ones((len(X), 1)) @ b
    cost = cp.sum_squares(cp.multiply(observed.astype(float), F - Y)) + alpha * cp.normNuc(Z)
    problem = cp.Problem(cp.Minimize(cost), [] if intercept else [b == 0])
    problem.solve(solver=cp.CLARABEL)
    if problem.status != "optimal":
        raise RuntimeError(f"cvxpy: {problem.status}")
    shift = b.value if intercept else 0.0
    fit = total_loss("squared", X @ Z.value + shift, Y, observed)
    return fit + alpha * oracle.nuclear_norm(Z.value)


# ------------------------------------------------------------------------------------- ML-LRC


def mllrc_objective(X, Y, counts, W, b, S, lambda1: float, lambda2: float, lambda3: float) -> float:
    """The objective in all its variables; the fidelity counts where ``counts`` is True."""
    total = 0.5 * np.sum((X @ W + b - Y @ S) ** 2)
    for i, j in np.argwhere(counts):
        total += 0.5 * lambda1 * (Y[i] @ S[:, j] - Y[i, j]) ** 2
    return float(total + 0.5 * lambda2 * np.sum(W**2) + lambda3 * oracle.nuclear_norm(S))


def mllrc_optimum(
    X, Y, counts, lambda1: float, lambda2: float, lambda3: float, intercept: bool
) -> tuple[float, np.ndarray, np.ndarray]:
    """The joint minimum in ``W``, ``b`` and ``S`` by cvxpy: its value, ``X W + 1 b'`` and ``S``."""
    (n, d), c = X.shape, Y.shape[1]
    W, b, S = cp.Variable((d, c)), cp.Variable((1, c)), cp.Variable((c, c))
    cost = 0.5 * cp.sum_squares(X @ W + np.ones((n, 1)) @ b - Y @ S)
    cost += 0.5 * lambda1 * cp.sum_squares(cp.multiply(counts.astype(float), Y @ S - Y))
    cost += 0.5 * lambda2 * cp.sum_squares(W) + lambda3 * cp.normNuc(S)
    problem = cp.Problem(cp.Minimize(cost), [] if intercept else [b == 0])
    problem.solve(solver=cp.CLARABEL)
    if problem.status != "optimal":
        raise RuntimeError(f"cvxpy: {problem.status}")
    shift = b.value[0] if intercept else np.zeros(c)
    value = mllrc_objective(X, Y, counts, W.value, shift, S.value, lambda1, lambda2, lambda3)
    return value, X @ W.value + shift, S.value


def shrink(A: np.ndarray, threshold: float) -> np.ndarray:
    U, values, Vt = np.linalg.svd(A)
    return sum(
        max(v - threshold, 0.0) * np.outer(U[:, i], Vt[i]) for i, v in enumerate(values)
    ) + np.zeros(A.shape)


def mllrc_alternation(
    X, Y, lambda1: float, lambda2: float, lambda3: float, *, rounds: int
) -> np.ndarray:
    """``S`` by turns: ``W`` in closed form, then 20 FISTA steps on ``S``; no intercept."""
    K = np.linalg.inv(X.T @ X + lambda2 * np.eye(X.shape[1]))
    YTY = Y.T @ Y
    L = (1 + lambda1) * np.linalg.norm(Y, 2) ** 2
    S = np.eye(Y.shape[1])
    for _ in range(rounds):
        W = K @ X.T @ Y @ S
        fixed = Y.T @ X @ W + lambda1 * YTY
        Z, t = S, 1.0
        for _ in range(20):
            fresh = shrink(Z - ((1 + lambda1) * YTY @ Z - fixed) / L, lambda3 / L)
            t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
            Z = fresh + ((t - 1) / t_next) * (fresh - S)
            S, t = fresh, t_next
    return S
