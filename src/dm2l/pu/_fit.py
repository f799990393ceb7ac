"""What ticks say about features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.features import Features
from dm2l.pu._others import given_others
from dm2l.pu._prior import ClassPrior, class_prior_of, prior_of_ticks
from dm2l.pu._spectrum import Spectrum

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ticks:
    """What ticks say about features, on the scale of targets.

    Attributes
    ----------
    scores : ndarray of shape (n, c)
        Fit of ``2 y - 1``.
    pull : ndarray of shape (n, c)
        What is added for every unit of ridge, so that ridge with any ``alpha`` gives ``scores``.
    honest : ndarray of shape (n, c)
        Scores as if the row had not been there.
    prior : ClassPrior
        Given or estimated.
    """

    scores: Floats
    pull: Floats
    honest: Floats
    prior: ClassPrior

    @classmethod
    def of(cls, features: Features, said: NDArray[Any], class_prior: Any = None) -> Ticks:
        """Learn from ticks (+1), negatives that were seen (-1) and unlabelled entries (0)."""
        signs = np.sign(said).astype(np.int8)
        ticks = (signs > 0).astype(np.float64)
        spectrum = Spectrum.of(features)
        smooth = spectrum.smooth(ticks, ticks)
        if class_prior is None:
            prior = prior_of_ticks(given_others(smooth.honest, ticks), signs)
        else:  # chance may tick a larger share of some rows than all have
            prior = class_prior_of(np.maximum(class_prior, ticks.mean(axis=0)), signs)
        scale = 2 / prior.rate
        if (signs < 0).any():
            # Both kinds of answers, weighted by how little they vary.
            seen = (signs < 0).astype(np.float64)
            no_rate = np.clip(seen.mean(axis=0) / np.maximum(1 - prior.value, 1e-6), 0.0, 1.0)
            noise = (prior.value * (1 / prior.rate - prior.value), 1 - prior.value)
            other = noise[1] * (1 / np.maximum(no_rate, 1e-6) - noise[1])
            trust = np.where(no_rate > 0, noise[0] / np.maximum(noise[0] + other, 1e-12), 0.0)
            back = 2 / np.maximum(no_rate, 1e-6)
            said = (1 - trust) * (scale * ticks - 1) + trust * (1 - back * seen)
            smooth = spectrum.smooth(said, ticks)
            return cls(smooth.fitted, smooth.pull, smooth.honest, prior)
        return cls(scale * smooth.fitted - 1, scale * smooth.pull, scale * smooth.honest - 1, prior)

    def targets(self, alpha: float) -> Floats:
        """Targets of ridge with this ``alpha``, to which its solution is ``scores``."""
        return self.scores + alpha * self.pull
