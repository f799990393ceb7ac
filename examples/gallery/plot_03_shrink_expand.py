r"""
Shrink locally, expand globally
===============================

DM2L adds one bracket to ridge on the observed labels,

.. math:: \lambda_d \Bigl( \sum_k \|F_k\|_* - \|F_C\|_* \Bigr),

with :math:`F_k` the scores of the rows whose label k is an observed yes and :math:`F_C` those of
all such rows. A nuclear norm is the sum of the singular values: where it is small, few directions
suffice to write all rows. This example shows the labels that suggest such a term, and what it
does.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# Labels imply each other, one way
# --------------------------------
# A four is even and has straight strokes; an even digit need not be a four. Among the rows of one
# digit most labels are therefore constant, although all labels together have many directions.

import matplotlib.pyplot as plt

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.plots import CooccurrenceDisplay, SingularValuesDisplay
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
X, truth = digits.data[:600], digits.target[:600]
Y = simulate_uniform(truth, rho=0.5, random_state=0)
CooccurrenceDisplay.from_labels(Y, label_names=digits.target_names, kind="arrows")

# %%
# The spectra of the labels
# -------------------------
# Thin lines: rows that share a label. Thick line: all rows. The former fall much faster.

SingularValuesDisplay.from_labels(truth, label_names=digits.target_names)

# %%
# What the bracket does to scores
# -------------------------------
# Without it (``lambda_d=0``) the scores of the rows of a label spread over many directions. With
# it these directions go, and those of all rows together stay.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
ranks = {}
for ax, lambda_d in zip(axes, (0.0, 3.0), strict=True):
    model = DM2LClassifier(lambda_d=lambda_d, kernel="rbf", tol=1e-4).fit(X, Y)
    display = SingularValuesDisplay.from_predictions(
        Y, model.decision_function(X), label_names=digits.target_names, ax=ax
    )
    ax.set_title(f"lambda_d = {lambda_d:g}")
    ranks[lambda_d] = display.effective_ranks()
plt.show()

# %%
# The effective rank counts directions, large ones more than small ones.

for name in ("is 4", "is 8", "even"):
    print(f"{name:6s}", *(f"lambda_d={value:g}: {rank[name]:.1f}" for value, rank in ranks.items()))
