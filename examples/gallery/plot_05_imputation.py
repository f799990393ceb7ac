"""
Imputation with calibrated probabilities
========================================

``complete`` fills in missing labels and keeps observed labels. This example checks whether the
imputed probabilities are calibrated.
"""

# %%
# The data are 600 images with 30 % of the labels observed. The parameter ``calibration`` selects
# how scores are converted to probabilities, based on out-of-fold scores.

import matplotlib.pyplot as plt
import numpy as np

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.plots import ReliabilityDisplay
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
X, truth = digits.data[:600], digits.target[:600]
Y = simulate_uniform(truth, rho=0.3, random_state=0)
missing = np.isnan(Y)

plain = DM2LClassifier(kernel="rbf").fit(X, Y)
calibrated = DM2LClassifier(kernel="rbf", calibration="sigmoid").fit(X, Y)

# %%
# Are the probabilities calibrated?
# ---------------------------------
# In this example, the hidden labels are known. On the diagonal, the share of positives equals the
# predicted probability. Without calibration, probabilities are in the right order but too close to
# 0.5.

hidden_truth = np.where(missing, truth, np.nan)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
models = {"plain": plain, "calibrated": calibrated}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    ReliabilityDisplay.from_predictions(hidden_truth, model.predict_proba(X), name=name, ax=ax)
plt.show()

# %%
# Which labels need a second look?
# --------------------------------
# Most imputed labels are correct. Most errors occur where the probability is close to 0.5.

filled = calibrated.complete(X, Y)
assert (filled[~missing] == Y[~missing]).all()
right = filled[missing] == truth[missing]
probability = calibrated.complete(X, Y, method="predict_proba")[missing]
unsure = np.abs(probability - 0.5) < 0.3
print(f"all:                {right.mean():.1%} of {right.size} correct")
print(f"certain:            {right[~unsure].mean():.1%} of {(~unsure).sum()} correct")
print(f"close to one half:  {right[unsure].mean():.1%} of {unsure.sum()} correct")

# %%
# If the model fills in fewer labels, a larger share of the filled labels is correct.

order = np.argsort(-np.abs(probability - 0.5))
quality = np.cumsum(right[order]) / np.arange(1, right.size + 1)
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(np.linspace(0, 1, right.size)[200:], quality[200:])
ax.set(xlabel="share of the missing labels filled in", ylabel="share of correct filled labels")
plt.show()
