"""
What labels say about each other
================================

Whoever knows that a digit "is 4" knows that it is "even", whatever the image looks like. A model
keeps what its features leave unexplained as a covariance between labels, and fills holes by it.
"""

# %%
# A model of attributes of digits, of which half were observed.

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
# Which labels hold together
# --------------------------
# Blue and red pairs tell something about each other that the features do not; white ones nothing.

display = CouplingDisplay.from_estimator(model, label_names=digits.target_names)
plt.show()
for one, other, correlation in display.strongest(5):
    print(f"{one}, {other}: {correlation:+.2f}")

# %%
# What it is worth
# ----------------
# Holes filled by features alone, and by features and the known labels of each row.

holes = np.isnan(Y)
alone = DM2LClassifier(coupling=None).fit(X, Y)
for name, fitted in {"features alone": alone, "and known labels": model}.items():
    wrong = np.mean(fitted.complete(X, Y)[holes] != truth[holes])
    print(f"{name:16s} {wrong:.1%} of the holes are filled wrongly")
