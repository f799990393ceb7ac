"""Newton steps in a trust region, from Hessian products alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Smooth(Protocol):
    """A function, its gradient at the point of the last value, and products with its Hessian."""

    def value(self, W: Any) -> float:
        """Value at ``W``."""

    def gradient(self) -> Any:
        """Gradient there."""

    def product(self, S: Any) -> Any:
        """Hessian at the point of the last gradient, times ``S``."""


def trust_region_newton(
    function: Smooth, W: Array, *, tol: float, max_iter: int, max_products: int = 20
) -> Array:
    """Take Newton steps until the gradient has shrunk by ``tol``; never worse than the start.

    The variant of LIBLINEAR (Lin, Weng and Keerthi 2008), whose loose inner tolerance (a tenth of
    the gradient) and trust region scipy's ``trust-ncg`` does not have: methods that stop it early
    depend on both. Refused steps count too.
    """
    value = function.value(W)
    gradient = function.gradient()
    first = radius = float(np.linalg.norm(gradient))
    for iteration in range(max_iter):
        if not np.linalg.norm(gradient) > tol * first:
            break
        step, residual = _truncated_newton(function, gradient, radius, max_products)
        slope = float(np.vdot(gradient, step))
        predicted = -0.5 * (slope - float(np.vdot(step, residual)))
        trial = function.value(W + step)
        length = float(np.linalg.norm(step))
        if iteration == 0:
            radius = min(radius, length)
        radius = _new_radius(radius, length, value - trial, predicted, slope)
        if value - trial > 1e-4 * predicted:
            W, value = W + step, trial
            gradient = function.gradient()
        elif predicted <= 0 or radius <= 1e-14 * max(float(np.linalg.norm(W)), 1.0):
            break  # rounding, not curvature, decides from here on
    return W


def _new_radius(
    radius: float, length: float, actual: float, predicted: float, slope: float
) -> float:
    """Shrink after a poor prediction, grow after a good one, guided by a fitted parabola."""
    bend = -actual - slope
    scale = 4.0 if bend <= 0 else max(0.25, -0.5 * slope / bend)
    if actual < 1e-4 * predicted:
        return min(max(scale, 0.25) * length, 0.5 * radius)
    if actual < 0.25 * predicted:
        return max(0.25 * radius, min(scale * length, 0.5 * radius))
    if actual < 0.75 * predicted:
        return max(0.25 * radius, min(scale * length, 4.0 * radius))
    return max(radius, min(scale * length, 4.0 * radius))


def _truncated_newton(
    function: Smooth, gradient: Array, radius: float, max_products: int
) -> tuple[Array, Array]:
    """Conjugate gradients on ``H s = -g`` inside the radius: the step and what is left over."""
    step = np.zeros_like(gradient)
    residual = -gradient
    direction = residual.copy()
    size = float(np.vdot(residual, residual))
    goal = 0.1 * float(np.linalg.norm(gradient))
    for _ in range(max_products):
        if size**0.5 <= goal:
            break
        image = function.product(direction)
        length = size / float(np.vdot(direction, image))
        longer = step + length * direction
        if float(np.linalg.norm(longer)) > radius:
            # To the border: the positive root of ||step + t direction|| = radius.
            along, square = float(np.vdot(step, direction)), float(np.vdot(direction, direction))
            room = radius**2 - float(np.vdot(step, step))
            root = (along**2 + square * max(room, 0.0)) ** 0.5
            length = room / (along + root) if along >= 0 else (root - along) / square
            return step + length * direction, residual - length * image
        step = longer
        residual = residual - length * image
        fresh = float(np.vdot(residual, residual))
        direction = residual + (fresh / size) * direction
        size = fresh
    return step, residual
