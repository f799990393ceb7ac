r"""
Shrink locally, expand globally
===============================

DM2L adds one term to ridge regression on the observed labels,

.. math:: \lambda_d \Bigl( \sum_k \|F_k\|_* - \|F_C\|_* \Bigr),

where :math:`F_k` are the scores of the rows with an observed positive of label k, and :math:`F_C`
are the scores of all rows with an observed positive. The nuclear norm is the sum of the singular
values. If it is small, the rows span few directions. This example shows labels for which the term
is plausible, and the effect of the term on scores.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# Labels imply each other in one direction
# ----------------------------------------
# A four is even, but an even digit need not be a four. Within the rows of one digit, most labels
# are constant, although all labels together have many directions.

import matplotlib.pyplot as plt

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.plots import CooccurrenceDisplay, SingularValuesDisplay
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
X, truth = digits.data[:600], digits.target[:600]
Y = simulate_uniform(truth, rho=0.5, random_state=0)
CooccurrenceDisplay.from_labels(Y, label_names=digits.target_names)
plt.show()

# %%
# Singular values of the labels
# -----------------------------
# The singular values of rows that share a label (thin lines) fall faster than those of all rows
# (thick line).

SingularValuesDisplay.from_labels(truth, label_names=digits.target_names)
plt.show()

# %%
# The effect on scores
# --------------------
# With ``lambda_d=0``, the scores of the rows with a label spread over many directions. With a
# positive ``lambda_d``, they spread over fewer directions, while the scores of all rows together
# keep their directions.

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
# The effective rank measures the number of directions, weighted by their singular values.

for name in ("is 4", "is 8", "even"):
    print(f"{name:6s}", *(f"lambda_d={value:g}: {rank[name]:.1f}" for value, rank in ranks.items()))
