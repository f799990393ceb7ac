"""
Columns of mixed types, a pipeline and a grid search
====================================================

The table has numeric columns, a category, missing feature values and missing labels. The
preparation and the model form a pipeline, and ``GridSearchCV`` searches the hyperparameters of this
pipeline with folds and metrics that accept missing labels.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dm2l import DM2LClassifier
from dm2l.metrics import label_table
from dm2l.model_selection import MultilabelKFold, cross_val_decision, get_scorer
from dm2l.plots import PathDisplay

rng = np.random.default_rng(0)
n = 500
size, age = rng.gamma(2, 2, n), rng.integers(1, 60, n)
product = rng.choice(["phone", "laptop", "printer"], n)
labels = pd.DataFrame(
    {
        "hardware": (age > 30) | (product == "printer"),
        "battery": (age > 30) & (product != "printer"),  # implies hardware
        "large": size > 4,
        "urgent": size + 0.05 * age + rng.normal(0, 1, n) > 6,
    }
)
labels = labels.astype("boolean").mask(rng.random(labels.shape) < 0.5)  # half is missing
tickets = pd.DataFrame({"size": size, "age": age.astype(float), "product": product})
tickets = tickets.mask(rng.random(tickets.shape) < 0.05)
print(labels.head(4))

# %%
# A transformer imputes missing feature values. Missing labels need no preparation, because
# estimators accept nullable booleans of pandas.

prepare = make_column_transformer(
    (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["size", "age"]),
    (OneHotEncoder(handle_unknown="ignore"), ["product"]),
)
pipeline = make_pipeline(prepare, DM2LClassifier(kernel="rbf"))
search = GridSearchCV(
    pipeline,
    {
        "dm2lclassifier__lambda_d": [0, 0.03, 0.1, 0.3, 1],
        "dm2lclassifier__alpha": [0.3, 1],
    },
    cv=MultilabelKFold(4, random_state=0),  # cv=4 would raise: Y has NaN
    scoring=get_scorer("label_auc"),
).fit(tickets, labels)
print({name.split("__")[1]: float(value) for name, value in search.best_params_.items()})
PathDisplay.from_estimator(search)
plt.show()

# %%
# The quality of each label, computed from out-of-fold scores:

held_out = cross_val_decision(search.best_estimator_, tickets, labels, cv=4)
print(pd.DataFrame(label_table(labels, held_out), index=labels.columns).round(2))

# %%
# Impute the missing labels: call ``complete`` on the last step of the pipeline, with the prepared
# features.

best = search.best_estimator_
filled = best[-1].complete(best[:-1].transform(tickets), labels)
print(filled.head(4))
