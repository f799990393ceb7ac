"""
A half-labelled table in a notebook
===================================

From a table with blanks to one that is filled in, with how far to trust it, and what to ask a
person about. The page is a notebook (there is a link to it at the end), and so is what it shows:
what ``dm2l.tables`` returns draws itself, with bars and without JavaScript.
"""

# %%
# Tickets of a help desk. Somebody has ticked what a ticket is about, for half of the boxes.
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
truth["billing"] |= truth["refund"]  # who wants money back writes of a bill
texts = []
for applies in truth.to_numpy():
    # Some write of what does not apply, and some not of what does.
    about = np.array([*words.values()])[applies ^ (rng.random(3) < 0.1)]
    said = [rng.choice(part.split()) for part in about]
    texts.append(" ".join([*rng.choice(["please", "since", "today", "our", "with"], 4), *said]))
labels = truth.astype(object).mask(rng.random(truth.shape) < 0.5)
frame = pd.DataFrame({"text": texts, "hours": rng.gamma(2, 3, n)}).join(labels.add_prefix("is_"))
frame.head()

# %%
# Which columns are labels is ours to say; what is blank stays unknown.
table = table_from_frame(frame, "is_*")
inspect_table(table)

# %%
# Where the blanks are: if they were more frequent where labels are positive, that would be worth
# knowing before anything is learnt.
MissingnessDisplay.from_labels(table.Y, label_names=table.label_names)
plt.show()

# %%
# Is it any good? Observed labels are hidden, filled in from the rest, and compared. (Without
# ``FitOptions`` an automatic model is fitted, which tries trees as well and takes longer.)
options = FitOptions(kernel="linear", lambda_d=0.1, alpha=1.0)
evaluate_table(table, options, repetitions=2)

# %%
# The model, and what goes into the holes if at most one answer in twenty may be wrong; the others
# are left to people. In a terminal or a notebook, ``with progress() as tell`` and ``tell=tell``
# show what is being done.
model = fit_table(table, options, estimate_folds=0)
(completion := complete_table(model, table, max_error_rate=0.05))

# %%
# The same as data, beside the truth that we happen to know.
right = (completion.positive == truth.to_numpy())[completion.filled].mean()
print(f"{right:.1%} of {completion.filled.sum()} filled entries are right")

# %%
# Which of the blanks would a person's answer help most with?
found = suggest_entries(model, table, top=5)
pd.DataFrame({"row": found.row, "label": found.label, "p": found.probability.round(2)})
