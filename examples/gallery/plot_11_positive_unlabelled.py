"""
Positive-unlabelled labels
==========================

In this example, 40 % of the positives are recorded, and negatives are never recorded. A missing
label is then either negative or an overlooked positive. The example compares two ways to read
missing labels.
"""

# %%
# The first half of the rows is for training. The second half, with complete labels, is for testing.
import matplotlib.pyplot as plt
import numpy as np

from dm2l import DM2LClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import ranking_loss
from dm2l.simulate import simulate_missing_positives

X, truth = make_missing_multilabel(
    n_samples=3000, n_labels=6, n_features=10, rho=1.0, noise=0.3, random_state=0
)
half = len(X) // 2
Y = simulate_missing_positives(truth[:half], 0.4, become="unlabelled", random_state=0)
print(f"{np.nansum(Y):.0f} of {truth[:half].sum():.0f} positives are recorded")

# %%
# If missing labels are read as negative, positives seem rarer than they are. With
# ``missing_as="unlabelled"``, the model estimates which share of the positives is recorded, and
# corrects its probabilities.
options = {"lambda_d": 0.0, "calibration": "sigmoid"}
negative = DM2LClassifier(coupling=None, **options).fit(X[:half], np.nan_to_num(Y))
unlabelled = DM2LClassifier(missing_as="unlabelled", **options).fit(X[:half], Y)
share = truth[half:].mean(axis=0)
for name, model in {"negative": negative, "unlabelled": unlabelled}.items():
    loss = ranking_loss(truth[half:], model.decision_function(X[half:]))
    off = np.median(np.abs(model.predict_proba(X[half:]).mean(axis=0) / share - 1))
    print(f"missing as {name:10} ranking loss {loss:.3f}, error of predicted shares {off:.0%}")

# %%
# The figure shows the estimated class prior of each label with two standard errors, the true share
# of positives, and the share of recorded positives.
at = np.arange(6)
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.bar(at - 0.2, np.nan_to_num(Y).mean(axis=0), 0.35, color="#bbbbbb", label="recorded")
ax.bar(at + 0.2, truth[:half].mean(axis=0), 0.35, color="#0072b2", label="true")
ax.errorbar(
    at + 0.2,
    unlabelled.class_prior_,
    2 * unlabelled.class_prior_error_,
    fmt="o",
    color="#d55e00",
    capsize=3,
    label="estimated",
)
ax.set(xlabel="label", ylabel="share of rows", ylim=(0, None))
ax.legend(frameon=False)
inside = np.abs(unlabelled.class_prior_ - truth[:half].mean(axis=0)) <= (
    2 * unlabelled.class_prior_error_
)
print(f"{inside.sum()} of {len(inside)} intervals contain the true share")
plt.show()

# %%
# The unlabelled entries with the highest out-of-fold probabilities are probably overlooked
# positives.
suspects = unlabelled.find_label_errors(X[:half], Y)
positive = truth[suspects.row, suspects.label] == 1
print(f"positives: {positive[:100].mean():.0%} of the first 100, {positive.mean():.0%} of all")
