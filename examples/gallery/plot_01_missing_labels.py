"""
What tools do with missing labels
=================================

The data are real images of digits with 19 labels such as "is 4", "even" and "has a loop". 70 % of
the labels are hidden. This example shows what common tools do with missing labels.
"""

# %%
# Labels with missing entries
# ---------------------------
# ``NaN`` is a missing label. It does not mean "no".

import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.multioutput import MultiOutputClassifier

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.metrics import f1_macro
from dm2l.plots import MissingnessDisplay
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
X, X_new = digits.data[:600], digits.data[600:]
truth, truth_new = digits.target[:600], digits.target[600:]
Y = simulate_uniform(truth, rho=0.3, random_state=0)

display = MissingnessDisplay.from_labels(Y, label_names=digits.target_names)

# %%
# NaN: an error
# -------------
# scikit-learn's estimators reject NaN in labels.

for estimator in (
    RidgeClassifier(),
    RandomForestClassifier(),
    MultiOutputClassifier(HistGradientBoostingClassifier()),
):
    try:
        estimator.fit(X, Y)
    except ValueError as error:
        print(f"{type(estimator).__name__}: {str(error).splitlines()[0]}")

# %%
# -1, 0, +1: a third class
# ------------------------
# In the literature, labels are often -1, +1 and 0 for a missing label. A forest treats 0 as a third
# class, and predicts this class most of the time.

coded = np.where(np.isnan(Y), 0, 2 * truth - 1)
forest = RandomForestClassifier(n_estimators=50, random_state=0).fit(X, coded)
values, counts = np.unique(forest.predict(X_new), return_counts=True)
print(
    {int(value): f"{count / counts.sum():.0%}" for value, count in zip(values, counts, strict=True)}
)

# %%
# 0 for a missing label: read as negative
# ---------------------------------------
# If missing labels are replaced by zeros, 70 % of the positives are learnt as negatives.

filled = np.nan_to_num(Y)
zero_filled = RandomForestClassifier(n_estimators=50, random_state=0).fit(X, filled)
print(f"labels per row:           {truth_new.sum(axis=1).mean():.1f}")
print(f"predicted labels per row: {zero_filled.predict(X_new).sum(axis=1).mean():.1f}")

# %%
# Dropping incomplete rows
# ------------------------
# No row is complete.

print(f"{(~np.isnan(Y)).all(axis=1).sum()} of {len(Y)} rows are complete")

# %%
# dm2l: ignored, entry by entry
# -----------------------------
# dm2l ignores the missing entries and uses all observed entries.

model = DM2LClassifier(kernel="rbf").fit(X, Y)
print(f"predicted labels per row: {model.predict(X_new).sum(axis=1).mean():.1f}")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # labels that are never predicted
    for name, estimator in {"read as negative": zero_filled, "ignored": model}.items():
        print(f"{name:16s} macro F1 {f1_macro(truth_new, estimator.predict(X_new)):.2f}")
