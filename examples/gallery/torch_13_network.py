"""
Networks
========

A network can learn from label matrices with missing entries if its loss ignores these entries. From
the network's out-of-fold scores and the known labels of each row, dm2l then imputes the missing
labels. This example needs torch (``pip install 'dm2l[torch]'``), so it is shown without its output.
"""

# %%
# The labels are attributes of digit images, such as "is 4" and "even". Of these labels, 70 % are
# missing.

import matplotlib.pyplot as plt
import numpy as np
import torch

from dm2l import ScoreClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.metrics import label_auc
from dm2l.model_selection import MultilabelKFold
from dm2l.simulate import simulate_uniform
from dm2l.torch import masked_loss, rank_terms

digits = load_digit_attributes()
X = torch.tensor(digits.data[:1000] / 16, dtype=torch.float32)
truth = digits.target[:1000]
Y = simulate_uniform(truth, rho=0.3, random_state=0)
missing = np.isnan(Y)

# %%
# Training
# --------
# The loss of a batch has two terms: the logistic loss of its observed labels, and the nuclear norms
# with a small weight. Their sum is divided by the number of rows.


def train(X, Y, epochs=30, terms=0.01):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, Y.shape[1])
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(100):
            scores = network(X[rows])
            loss = masked_loss(scores, Y[rows], loss="logistic")
            loss = (loss + terms * rank_terms(scores, Y[rows])) / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


# %%
# Out-of-fold scores
# ------------------
# Each row is scored by a network that was not trained on this row.

scores = np.empty(Y.shape)
for fitted, held_out in MultilabelKFold(5, random_state=0).split(X, Y):
    network = train(X[fitted], Y[fitted])
    with torch.no_grad():
        scores[held_out] = network(X[held_out]).numpy()
print(f"label AUC of the network: {label_auc(truth, scores):.3f}")

# %%
# Completion
# ----------
# :class:`dm2l.ScoreClassifier` calibrates the scores and combines them with the known labels of a
# row. For example, an image that "is 4" is also "even".

completer = ScoreClassifier().fit(scores, Y)
alone = scores > 0
completed = completer.complete(scores, Y)
errors = {
    "network": (alone != truth)[missing].mean(),
    "with known labels": (completed != truth)[missing].mean(),
}
for name, share in errors.items():
    print(f"{name:17s} {share:.1%} of the missing labels are wrong")
some = completer.complete(scores, Y, max_error_rate=0.02)
filled = missing & ~np.isnan(some)
print(
    f"max_error_rate=0.02 fills {filled.sum() / missing.sum():.0%} of the missing labels, "
    f"{(some != truth)[filled].mean():.1%} of these are wrong"
)

# %%
# The figure shows the error rate of each label.

x = np.arange(len(digits.target_names))
for k, answer in enumerate((alone, completed)):
    share = [np.mean((answer != truth)[missing[:, j], j]) for j in x]
    plt.bar(x + 0.4 * k, share, 0.4, label=list(errors)[k])
plt.xticks(x + 0.2, digits.target_names, rotation=60, ha="right")
plt.ylabel("share of missing labels that are wrong")
plt.legend()
plt.tight_layout()
plt.show()
