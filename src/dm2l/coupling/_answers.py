"""What one more answer tells about the other holes of its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dm2l.arrays import like, namespace
from dm2l.coupling._covariance import LabelCovariance
from dm2l.coupling._patterns import Index


@dataclass(frozen=True)
class Beliefs:
    """Joint beliefs about the holes of one row.

    Parameters
    ----------
    labels : ndarray of int, shape (h,)
        The holes.
    mean : array of shape (h,)
        Their conditional means.
    covariance : array of shape (h, h)
        Their joint covariance.
    """

    labels: Index
    mean: Any
    covariance: Any

    @property
    def variance(self) -> Any:
        """Variance of each hole."""
        return namespace(self.covariance).linalg.diagonal(self.covariance)

    def settles(self) -> Any:
        r"""How much variance of the *other* holes an answer to each hole takes away, (h,).

        :math:`\sum_{j \ne k} V_{jk}^2 / V_{kk}`; the answer itself does not matter.
        """
        xp = namespace(self.covariance)
        return xp.sum(self.covariance**2, axis=0) / self.variance - self.variance

    def answer(self, label: int, sign: float) -> Beliefs:
        """Beliefs about the remaining holes once ``label`` is known to be ``sign`` (-1 or +1)."""
        place = np.flatnonzero(self.labels == label)
        if len(place) != 1:
            raise ValueError(f"label {label} is not a hole of this row.")
        xp, k = namespace(self.mean), int(place[0])
        rest = np.delete(np.arange(len(self.labels)), k)
        keep = like(rest, self.mean)
        gain = self.covariance[:, k] / self.covariance[k, k]
        mean = self.mean + gain * (sign - self.mean[k])
        V = self.covariance - gain[:, None] * self.covariance[k, :][None, :]
        V = xp.take(xp.take(V, keep, axis=0), keep, axis=1)
        return Beliefs(self.labels[rest], xp.take(mean, keep), V)


def beliefs(covariance: LabelCovariance, t: Any, f: Any) -> Beliefs:
    """Beliefs about the holes of one row.

    Parameters
    ----------
    covariance : LabelCovariance
        Of the residuals.
    t : ndarray of shape (c,)
        Signs of the row, 0 at holes.
    f : array of shape (c,)
        Its scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.coupling import DenseCovariance, beliefs
    >>> S = DenseCovariance(np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> row = beliefs(S, np.array([0, 0, 1]), np.zeros(3))
    >>> row.settles().round(2)
    array([0.64, 0.64])
    >>> row.answer(0, 1).mean.round(2)
    array([0.8])
    """
    xp = namespace(f)
    known = np.asarray(t) != 0
    e = xp.where(like(known, f), like(np.asarray(t, dtype=np.float64), f) - f, 0.0 * f)
    shift, V = covariance.hole_covariance(e, known)
    holes = np.flatnonzero(~known)
    return Beliefs(holes, xp.take(f, like(holes, f)) + shift, V)
