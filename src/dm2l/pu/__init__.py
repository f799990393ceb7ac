r"""Positive-unlabelled learning: some positives are labelled, everything else is unlabelled.

A positive row is labelled with rate :math:`c_j` and a negative one never, so that
:math:`P(s_{ij} = 1 | x_i) = c_j P(y_{ij} = 1 | x_i)`. For the squared loss the unbiased
positive-unlabelled risk is that of ordinary targets, by completing the square:

.. math:: t_{ij} = 2 s_{ij} / c_j - 1, \qquad c_j = n_j / (n \pi_j)

with :math:`n_j` labelled positives and class prior :math:`\pi_j`. These targets are unbiased and
very noisy. So labelled positives are smoothed over features by the model

.. math:: S = 1 m' + \Phi G + E, \qquad G_{i\cdot} \sim N(0, B), \quad E_{i\cdot} \sim N(0, \Sigma)

with covariances of labels for what features explain (:math:`B`) and what they do not
(:math:`\Sigma`), found by EM. With too few positives for that, :math:`B` is :math:`\tau \Sigma`,
with the :math:`\tau` that ranks held-out positives best, and a few directions beside it.
"""

from dm2l.pu._targets import ClassPrior, estimate_class_prior

__all__ = ["ClassPrior", "estimate_class_prior"]
