"""
Label rules
===========

For every digit, exactly one of the labels "is 0" to "is 9" is positive, and "is 4" implies "even".
With such rules, ``complete`` fills in labels that follow from known labels, and probabilities and
predictions are consistent.
"""

# %%
# The data are images of digits with 30 % of the labels observed. The rules between the labels hold
# by definition.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dm2l import DM2LClassifier, LabelRules
from dm2l.datasets import load_digit_attributes
from dm2l.simulate import simulate_uniform

digits = load_digit_attributes()
names = digits.target_names
X, truth = digits.data[:400], pd.DataFrame(digits.target[:400], columns=names)
Y = pd.DataFrame(simulate_uniform(truth, rho=0.3, random_state=0), columns=names)
even = [(f"is {digit}", "even") for digit in range(0, 10, 2)]
odd = [(f"is {digit}", "even") for digit in range(1, 10, 2)]
rules = LabelRules(even, odd, exactly_one=[[f"is {digit}" for digit in range(10)]])
print(rules)

# %%
# Fill in missing labels
# ----------------------
# Labels that follow from known labels are counted separately. With rules, no completed row breaks a
# rule.

missing = Y.isna().to_numpy()
for name, model in {"without": DM2LClassifier(), "with rules": DM2LClassifier(rules=rules)}.items():
    filled, summary = model.fit(X, Y).complete(X, Y, return_summary=True)
    wrong = np.mean((filled != truth).to_numpy()[missing])
    broken = rules.violations(filled).sum()
    print(f"{name:10s} {summary.n_implied:4d} implied, {wrong:.1%} wrong, {broken} rules broken")

# %%
# Probabilities
# -------------
# With rules, the probabilities of the ten digits sum to one.

new = digits.data[400:401]
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for shift, name, rule in ((-0.2, "without", None), (0.2, "with rules", rules)):
    p = DM2LClassifier(rules=rule).fit(X, Y).predict_proba(new)[0, :11]
    print(f"{name:10s} sum over the digits: {p[:10].sum():.2f}")
    axes.bar(np.arange(11) + shift, p, 0.4, label=name)
axes.set_xticks(np.arange(11), names[:11], rotation=30)
axes.set_ylabel("probability")
axes.legend()
plt.show()
