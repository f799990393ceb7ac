"""
Molecules and new scaffolds
===========================

A table of assays has identifiers, SMILES and missing labels. Morgan fingerprints turn molecules
into features, and the Tanimoto kernel compares them. The estimated quality of a model depends on
the test molecules: molecules of known series are easy to predict, and molecules with new scaffolds
are hard to predict. This example needs RDKit (``pip install '.[chem]'``).
"""

# %%
import json
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from dm2l import DM2LClassifier
from dm2l.chemistry import MorganFingerprints, is_valid_smiles, scaffold_groups
from dm2l.metrics import label_auc
from dm2l.model_selection import MultilabelKFold, cross_val_decision

# The gallery runs this file in its folder, without setting ``__file__``.
root = Path(globals().get("__file__", "plot_10_molecules.py")).resolve().parents[2]
make_assays = runpy.run_path(str(root / "docs" / "recipes" / "make_assays.py"))["make_assays"]
table = pd.DataFrame(make_assays(300))
print(table.head(4))

# %%
# RDKit cannot read eight of the molecules.

table = table[is_valid_smiles(table["smiles"])]
assays = [name for name in table if name.startswith(("NR-", "SR-"))]
Y = table[assays].apply(pd.to_numeric).to_numpy(dtype=float)
X = MorganFingerprints().fit_transform(table["smiles"])
print(f"{X.shape[0]} molecules, {X.nnz / X.shape[0]:.0f} of {X.shape[1]} bits each")

# %%
# Cross-validate with random folds, and with folds that keep molecules with the same scaffold
# together.

folds = {
    "random folds": MultilabelKFold(4, random_state=0),
    "scaffold folds": MultilabelKFold(4, groups=scaffold_groups(table["smiles"]), random_state=0),
}
model = DM2LClassifier(kernel="tanimoto")
auc = {name: label_auc(Y, cross_val_decision(model, X, Y, cv=cv)) for name, cv in folds.items()}
fig, ax = plt.subplots(figsize=(4, 3.2), layout="constrained")
ax.bar(list(auc), list(auc.values()), 0.5)
ax.set(ylabel="AUC by label", ylim=(0.5, 1))
plt.show()

# %%
# This table shows the same comparison on Tox21, which has 8,014 compounds and 12 assays. A fifth of
# the compounds is held out, at random or by scaffold. ``benchmarks/chemistry.py`` computes these
# numbers.

stored = json.loads((root / "benchmarks" / "results" / "chemistry.json").read_text())["runs"]
rows = [
    {
        "model": f"DM2L, {run['kernel']}" if run["kernel"] else f"dm2l fit, {run['effort']} effort",
        "new compounds": run["split"],
        "AUC": run["test"]["auc"],
        "average precision": run["test"]["average_precision"],
        "seconds of a core": run["cpu_seconds"],
    }
    for run in stored
    if "test" in run
]
print(pd.DataFrame(rows).to_string(index=False))
