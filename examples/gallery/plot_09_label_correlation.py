"""
Label correlation
=================

If a digit "is 4", it is also "even", whatever the image looks like. A model estimates the
correlation between labels that the features do not explain, and uses this correlation for
imputation.
"""

# %%
# A linear model is trained on digit labels, half of which are observed.

import matplotlib.pyplot as plt
import numpy as np

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.plots import CouplingDisplay
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
X, truth = digits.data[:600], digits.target[:600]
Y = simulate_uniform(truth, rho=0.5, random_state=0)
model = DM2LClassifier().fit(X, Y)

# %%
# Which labels are correlated
# ---------------------------
# Given the features, red pairs of labels are positively correlated, and blue pairs are negatively
# correlated.

display = CouplingDisplay.from_estimator(model, label_names=digits.target_names)
plt.show()
for one, other, correlation in display.strongest(5):
    print(f"{one}, {other}: {correlation:+.2f}")

# %%
# What it improves
# ----------------
# Compare the imputation errors with features alone to those with features and the known labels of
# each row.

missing = np.isnan(Y)
alone = DM2LClassifier(coupling=None).fit(X, Y)
for name, fitted in {"features alone": alone, "with known labels": model}.items():
    wrong = np.mean(fitted.complete(X, Y)[missing] != truth[missing])
    print(f"{name:17s} {wrong:.1%} of the imputed labels are wrong")
