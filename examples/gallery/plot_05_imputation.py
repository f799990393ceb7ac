"""
Filling the holes, with honest probabilities
============================================

``complete`` fills what is missing and touches nothing else. How sure it is, and whether that can
be believed, is what this example is about.
"""

# %%
# Labels of 600 images, 30 % observed. ``calibration`` fits probabilities to scores of rows that a
# fold's model had not seen.

import matplotlib.pyplot as plt
import numpy as np

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.plots import ReliabilityDisplay
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
X, truth = digits.data[:600], digits.target[:600]
Y = simulate_uniform(truth, rho=0.3, random_state=0)
holes = np.isnan(Y)

plain = DM2LClassifier(kernel="rbf").fit(X, Y)
calibrated = DM2LClassifier(kernel="rbf", calibration="sigmoid").fit(X, Y)

# %%
# Do the probabilities come true?
# -------------------------------
# Here the hidden truth is known, so the holes themselves can be looked at. On the diagonal,
# probabilities come true. Without calibration they keep the right order but are too timid.

hidden_truth = np.where(holes, truth, np.nan)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
models = {"plain": plain, "calibrated": calibrated}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    ReliabilityDisplay.from_predictions(hidden_truth, model.predict_proba(X), name=name, ax=ax)
plt.show()

# %%
# Fill in, and say where to look
# ------------------------------
# Filling in everything is right for most holes. Where the probability is near one half, ask.

filled = calibrated.complete(X, Y)
assert (filled[~holes] == Y[~holes]).all()
right = filled[holes] == truth[holes]
probability = calibrated.complete(X, Y, method="predict_proba")[holes]
unsure = np.abs(probability - 0.5) < 0.3
print(f"all holes:    {right.mean():.1%} of {right.size} right")
print(f"sure ones:    {right[~unsure].mean():.1%} of {(~unsure).sum()} right")
print(f"worth a look: {right[unsure].mean():.1%} of {unsure.sum()} right")

# %%
# The more holes are left to a person, the better the rest.

order = np.argsort(-np.abs(probability - 0.5))
quality = np.cumsum(right[order]) / np.arange(1, right.size + 1)
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(np.linspace(0, 1, right.size)[200:], quality[200:])
ax.set(xlabel="share of the holes filled in by the model", ylabel="share of these that is right")
plt.show()
