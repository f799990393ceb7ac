"""
How many labels are needed
==========================

This example trains three methods with the same kernel on 5 % to 100 % of the labels. The first
method reads missing labels as negative, the second is ridge regression on the observed labels, and
the third is DM2L. All methods use default hyperparameters.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from dm2l import DM2LClassifier
from dm2l.baselines import ZeroFillClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.metrics import f1_macro, label_ranking_average_precision
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
rows = np.random.default_rng(0).permutation(len(digits.data))
train, test = rows[:500], rows[500:]

methods = {
    "missing is negative": ZeroFillClassifier(DM2LClassifier(lambda_d=0, kernel="rbf")),
    "masked ridge": DM2LClassifier(lambda_d=0, kernel="rbf"),
    "DM2L": DM2LClassifier(kernel="rbf"),
}
rates = [0.05, 0.1, 0.2, 0.4, 0.7, 1.0]
ranking = {name: [] for name in methods}
decisions = {name: [] for name in methods}
for rho in rates:
    Y = simulate_uniform(digits.target[train], rho, random_state=0)
    for name, method in methods.items():
        model = method.fit(digits.data[train], Y)
        scores = model.decision_function(digits.data[test])
        ranking[name].append(label_ranking_average_precision(digits.target[test], scores))
        decisions[name].append(f1_macro(digits.target[test], scores > 0))

# %%
# If missing labels are read as negative, labels are ranked worse (left), and scores become so low
# that almost no label is predicted as positive (right). Ignoring missing labels avoids both
# effects.
#
# DM2L and masked ridge are equally good, so ridge regression is enough on these data. This is
# common, see :doc:`/guide/choosing`.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, values, title in zip(
    axes, (ranking, decisions), ("average precision", "macro F1"), strict=True
):
    for (name, line), style in zip(values.items(), ("o:", "s--", "D-"), strict=True):
        ax.plot(rates, line, style, label=name)
    ax.set(xscale="log", xlabel="share of labels observed", title=title)
    ax.set_xticks(rates, [f"{rate:.0%}" for rate in rates])
    ax.minorticks_off()
axes[0].legend()
plt.show()
