"""
The path over lambda_d
======================

``lambda_d`` is the weight of the nuclear norms, and ``alpha`` is the ridge penalty.
``DM2LClassifierCV`` searches both hyperparameters. The fits of this search share matrix
decompositions and use warm starts.
"""

# %%
# The data have 40 labels with implications between them. Only 10 % of the entries are observed.

import matplotlib.pyplot as plt

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import ranking_loss
from dm2l.plots import ConvergenceDisplay, PathDisplay

X, Y, truth = make_missing_multilabel(
    800, 30, 40, n_implications=60, rho=0.1, noise=0.3, random_state=0, return_truth=True
)
train, test = slice(0, 400), slice(400, 800)
search = DM2LClassifierCV(
    lambda_ds=[0, 0.05, 0.1, 0.2, 0.4, 0.8],
    alphas=[1, 10, 50],
    cv=3,
    scoring="neg_ranking_loss",
).fit(X[train], Y[train])
PathDisplay.from_estimator(search)
plt.show()
print(search.best_params_)

# %%
# With a weak ridge penalty, the nuclear norms help most. With a strong ridge penalty, they help
# little, and a large ``lambda_d`` hurts. The search therefore includes ``lambda_d=0``, which is
# masked ridge. The ranking losses on the complete test labels agree with the cross-validation:

for alpha in (1, 10, 50):
    for lambda_d in (0, 0.2):
        model = DM2LClassifier(lambda_d, alpha).fit(X[train], Y[train])
        loss = ranking_loss(truth[test], model.decision_function(X[test]))
        print(f"{alpha=:<3} {lambda_d=:<4} ranking loss {loss:.3f}")

# %%
# Convergence
# -----------
# The figure shows how far the objective is from its minimum after each iteration. The default
# solver starts from masked ridge and needs few iterations. The concave-convex procedure is
# Algorithm 1 of the paper.

solvers = {
    name: DM2LClassifier(0.3, 10, solver=name, tol=1e-6).fit(X[train], Y[train])
    for name in ("lbfgs", "cccp")
}
ConvergenceDisplay.from_estimators(solvers)
plt.show()
