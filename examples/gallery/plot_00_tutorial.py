"""
A table with missing labels in a notebook
=========================================

This example completes a table in a notebook: it inspects the table, measures the imputation, fits a
model, fills in labels with a bound on the error rate, and chooses the next labels to query. You can
download this page as a notebook. Notebooks display the results of ``dm2l.tables`` as tables with
bars.
"""

# %%
# The table contains simulated help-desk tickets. Half of the labels are missing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dm2l.plots import MissingnessDisplay
from dm2l.tables import (
    FitOptions,
    complete_table,
    evaluate_table,
    fit_table,
    inspect_table,
    suggest_entries,
    table_from_frame,
)

rng = np.random.default_rng(0)
n = 240
words = {
    "billing": "invoice charge paid",
    "refund": "refund money back",
    "login": "password locked",
}
truth = pd.DataFrame({name: rng.random(n) < 0.35 for name in words})
truth["billing"] |= truth["refund"]  # a refund is about a bill
texts = []
for applies in truth.to_numpy():
    # One in ten topics is mentioned without applying, or applies without being mentioned.
    about = np.array([*words.values()])[applies ^ (rng.random(3) < 0.1)]
    said = [rng.choice(part.split()) for part in about]
    texts.append(" ".join([*rng.choice(["please", "since", "today", "our", "with"], 4), *said]))
labels = truth.astype(object).mask(rng.random(truth.shape) < 0.5)
frame = pd.DataFrame({"text": texts, "hours": rng.gamma(2, 3, n)}).join(labels.add_prefix("is_"))
frame.head()

# %%
# Pass the names of the label columns. Blank cells are missing labels.
table = table_from_frame(frame, "is_*")
inspect_table(table)

# %%
# The display shows which labels are missing. In this example, labels are missing at random.
MissingnessDisplay.from_labels(table.Y, label_names=table.label_names)
plt.show()

# %%
# Measure the imputation: some observed labels are hidden and imputed, and the imputed values are
# compared with the hidden labels. Without ``FitOptions``, an ensemble is fitted, which takes
# longer.
options = FitOptions(kernel="linear", lambda_d=0.1, alpha=1.0)
evaluate_table(table, options, repetitions=2)

# %%
# Fit a model, and fill in as many labels as possible with an expected error rate of at most 5 %.
model = fit_table(table, options, estimate_folds=0)
(completion := complete_table(model, table, max_error_rate=0.05))

# %%
# In this example, all true labels are known, so the filled labels can be checked.
right = (completion.positive == truth.to_numpy())[completion.filled].mean()
print(f"{right:.1%} of {completion.filled.sum()} filled entries are correct")

# %%
# Choose the missing labels that would improve the predictions most if a person answered them.
found = suggest_entries(model, table, top=5)
pd.DataFrame({"row": found.row, "label": found.label, "p": found.probability.round(2)})
