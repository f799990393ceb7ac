r"""Ticks: labels of which positives are known and the rest is not.

A label is ticked in a positive row with rate :math:`c_j` and never in a negative one, so that
:math:`P(s_{ij} = 1 | x_i) = c_j P(y_{ij} = 1 | x_i)`. For the squared loss the unbiased
positive-unlabelled risk is that of ordinary targets, by completing the square:

.. math:: t_{ij} = 2 s_{ij} / c_j - 1, \qquad c_j = n_j / (n \pi_j)

with :math:`n_j` ticks and class prior :math:`\pi_j`. These targets are right on average and very
noisy. What is known of their noise goes into them: ticks are modelled as

.. math:: S = 1 m' + \Phi G + E, \qquad G_{i\cdot} \sim N(0, B), \quad E_{i\cdot} \sim N(0, \Sigma)

with a covariance of labels in what features tell (:math:`B`) and one in what they do not
(:math:`\Sigma`, in which the labels of a row compete for its ticks), both found by EM. Every
direction among labels gets the ridge that it deserves; a tick speaks for labels that depend on
features as its own does. Where ticks are too few for that, :math:`B` is :math:`\tau \Sigma`, with
the :math:`\tau` that ranks held-out ticks best, and a few directions beside it.
"""

from dm2l.pu._prior import ClassPrior, estimate_class_prior

__all__ = ["ClassPrior", "estimate_class_prior"]
