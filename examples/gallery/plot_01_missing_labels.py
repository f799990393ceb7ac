"""
What a hole is, and what becomes of it
======================================

Nobody looks at everything. Here are real images with 19 labels such as "is 4", "even", "has a
loop", of which 70 % were never filled in. This example shows such labels and what common tools
make of them.
"""

# %%
# Labels with holes
# -----------------
# ``NaN`` means that nobody looked. It does not mean "no".

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
# NaN: refused
# ------------
# scikit-learn's estimators do not take them, forests and boosters included.

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
# The literature writes a hole as 0 between -1 and +1. A forest takes that for a class of its own,
# and since most entries are holes, "hole" is most of what it predicts.

coded = np.where(np.isnan(Y), 0, 2 * truth - 1)
forest = RandomForestClassifier(n_estimators=50, random_state=0).fit(X, coded)
values, counts = np.unique(forest.predict(X_new), return_counts=True)
print(
    {int(value): f"{count / counts.sum():.0%}" for value, count in zip(values, counts, strict=True)}
)

# %%
# 0 for a hole: taught as "no"
# ----------------------------
# Some boosters read a missing label as 0 without a word; others are fed zeros because that makes
# the error go away. Seven of ten positives are then taught as negatives.

filled = np.nan_to_num(Y)
careless = RandomForestClassifier(n_estimators=50, random_state=0).fit(X, filled)
print(f"labels a row:           {truth_new.sum(axis=1).mean():.1f}")
print(f"predicted labels a row: {careless.predict(X_new).sum(axis=1).mean():.1f}")

# %%
# Dropping rows with holes
# ------------------------
# There are none without.

print(f"{(~np.isnan(Y)).all(axis=1).sum()} of {len(Y)} rows are complete")

# %%
# Left out, entry by entry
# ------------------------
# dm2l leaves out the entries that are missing, and nothing else.

model = DM2LClassifier(kernel="rbf").fit(X, Y)
print(f"predicted labels a row: {model.predict(X_new).sum(axis=1).mean():.1f}")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # labels that are never predicted
    for name, estimator in {"holes as no": careless, "holes left out": model}.items():
        print(f"{name:15s} macro F1 {f1_macro(truth_new, estimator.predict(X_new)):.2f}")
