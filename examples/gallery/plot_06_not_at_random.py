"""
Missing not at random
=====================

If labels are missing at random, a model only has fewer labels to learn from. If positives are
missing more often than negatives, every method that is trained on observed labels learns wrong
probabilities. :doc:`/guide/missingness` explains the theory.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# The same share of entries is hidden in two ways: at random, and among the positives only.

import matplotlib.pyplot as plt

from dm2l import DM2LClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import f1_macro, label_auc
from dm2l.plots import ReliabilityDisplay
from dm2l.simulate import simulate_missing_positives, simulate_uniform

X, truth = make_missing_multilabel(3000, rho=1.0, noise=0.5, random_state=0)
train, test = slice(0, 1500), slice(1500, 3000)
kept = 0.3
lost = (1 - kept) * truth[train].mean()
masks = {
    "at random": simulate_uniform(truth[train], 1 - lost, random_state=0),
    "positives only": simulate_missing_positives(truth[train], kept, random_state=0),
}
models = {name: DM2LClassifier(calibration="sigmoid").fit(X[train], Y) for name, Y in masks.items()}
probabilities = {name: model.predict_proba(X[test]) for name, model in models.items()}

# %%
# Correction
# ----------
# Positives were kept with probability 0.3 and all negatives were kept, so the predicted odds are
# too small by the factor 0.3. If this factor is known, for example from an annotated random sample
# of missing labels, the probabilities can be corrected.

odds = probabilities["positives only"] / (1 - probabilities["positives only"]) / kept
probabilities["corrected"] = odds / (1 + odds)

for name, P in probabilities.items():
    print(
        f"{name:15s} AUC {label_auc(truth[test], P):.3f}"
        f"   predicted share of yes {P.mean():.3f} (truth {truth[test].mean():.3f})"
        f"   macro F1 {f1_macro(truth[test], P > 0.5):.3f}"
    )

# %%
# The AUC hardly changes, because the ranking of rows within a label stays the same. Without the
# correction, probabilities, predicted shares and decisions are wrong.

figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for ax, (name, P) in zip(axes, probabilities.items(), strict=True):
    ReliabilityDisplay.from_predictions(truth[test], P, name=name, ax=ax)
    ax.set_title(name)
plt.show()

# %%
# Observed labels cannot show the problem
# ---------------------------------------
# If test labels are missing in the same way as training labels, wrong probabilities look
# calibrated.

biased_test = simulate_missing_positives(truth[test], kept, random_state=1)
figure, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
ReliabilityDisplay.from_predictions(
    biased_test, probabilities["positives only"], name="on observed labels", ax=ax
)
plt.show()
