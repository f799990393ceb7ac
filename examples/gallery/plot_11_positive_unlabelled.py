"""
Ticks: one label of each picture is named
=========================================

Whoever tags a picture names one thing in it, not all of them. What is not named may be there or
not. Here one true label of every row is kept, and three readings of the blanks are compared.
"""

# %%
# The rows have two or three labels, of six; one of them is kept, at random. The other half of the
# rows, with all of their labels, is for the comparison.
import matplotlib.pyplot as plt
import numpy as np

from dm2l import DM2LClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import ranking_loss
from dm2l.simulate import simulate_truncated

X, truth = make_missing_multilabel(
    n_samples=1200, n_labels=6, n_features=10, rho=1.0, noise=0.3, random_state=0
)
some = truth.any(axis=1) & ~truth.all(axis=1)
X, truth = X[some], truth[some]
half = len(X) // 2
Y = simulate_truncated(truth[:half], 1, random_state=0)
print(f"{truth[:half].sum():.0f} labels are true, {np.nansum(Y):.0f} are ticked")

# %%
# A blank that is taken for a no teaches that labels are rarer than they are. Taken for unlabelled,
# it teaches nothing by itself: how often positives are ticked is estimated with the rest.
options = {"lambda_d": 0.0, "calibration": "sigmoid"}
negative = DM2LClassifier(coupling=None, **options).fit(X[:half], np.nan_to_num(Y))
ticks = DM2LClassifier(missing_as="unlabelled", **options).fit(X[:half], Y)
share = truth[half:].mean(axis=0)
for name, model in {"blank is no": negative, "blank is unlabelled": ticks}.items():
    loss = ranking_loss(truth[half:], model.decision_function(X[half:]))
    off = np.median(np.abs(model.predict_proba(X[half:]).mean(axis=0) / share - 1))
    print(f"{name:20} ranking loss {loss:.3f}, shares off by {off:.0%}")

# %%
# The share of positives of every label, with two standard errors, beside the truth.
at = np.arange(6)
fig, ax = plt.subplots(figsize=(6, 3))
ax.bar(at - 0.2, np.nan_to_num(Y).mean(axis=0), 0.35, color="#bbbbbb", label="ticked")
ax.bar(at + 0.2, truth[:half].mean(axis=0), 0.35, color="#0072b2", label="true")
ax.errorbar(
    at + 0.2,
    ticks.class_prior_,
    2 * ticks.class_prior_error_,
    fmt="o",
    color="#d55e00",
    capsize=3,
    label="estimated",
)
ax.set(xlabel="label", ylabel="share of rows", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# Which blanks should have been ticked? Those with the highest probabilities, from models of folds
# that had not seen the row.
doubts = ticks.find_label_errors(X[:half], Y)
right = truth[doubts.row, doubts.label] == 1
print(f"{right[:100].mean():.0%} of the first hundred are true, {right.mean():.0%} of all blanks")
