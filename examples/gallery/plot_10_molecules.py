"""
Molecules, and how good a model is on new scaffolds
===================================================

A table of assays has ids, SMILES and blanks. Fingerprints make features of molecules, and the
Tanimoto kernel compares them by the bits that they share. What such a model is worth depends on
what it is asked: compounds of known series are easy, new scaffolds are not. Needs RDKit,
``pip install '.[chem]'``.
"""

# %%
import json
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dm2l import DM2LClassifier
from dm2l.chemistry import MorganFingerprints, is_valid_smiles, scaffold_groups
from dm2l.metrics import label_auc
from dm2l.model_selection import MultilabelKFold, cross_val_decision

# The gallery runs a page in its folder, and does not tell it its name.
root = Path(globals().get("__file__", "plot_10_molecules.py")).resolve().parents[2]
make_assays = runpy.run_path(str(root / "docs" / "recipes" / "make_assays.py"))["make_assays"]
table = pd.DataFrame(make_assays(300))
print(table.head(4))

# %%
# RDKit cannot read eight of the molecules. ``dm2l fit`` names them and leaves them out by itself;
# in Python, one line does.

table = table[is_valid_smiles(table["smiles"])]
assays = [name for name in table if name.startswith(("NR-", "SR-"))]
Y = table[assays].apply(pd.to_numeric).to_numpy(dtype=float)
X = MorganFingerprints().fit_transform(table["smiles"])
print(f"{X.shape[0]} molecules, {X.nnz / X.shape[0]:.0f} of {X.shape[1]} bits each")

# %%
# Folds of any rows, and folds that keep the molecules of a scaffold together.

scaffolds = scaffold_groups(table["smiles"])
folds = {
    "any molecules": MultilabelKFold(4, random_state=0),
    "new scaffolds": MultilabelKFold(4, groups=scaffolds, random_state=0),
}
auc = {
    kernel: [
        label_auc(Y, cross_val_decision(DM2LClassifier(kernel=kernel), X, Y, cv=cv))
        for cv in folds.values()
    ]
    for kernel in ("linear", "rbf", "tanimoto")
}
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for place, (kernel, values) in enumerate(auc.items()):
    ax.bar(np.arange(2) + 0.25 * place, values, 0.23, label=kernel)
ax.set(xticks=np.arange(2) + 0.25, xticklabels=folds, ylabel="AUC by label", ylim=(0.4, 1))
ax.legend(frameon=False)

# %%
# The same question to a real table: Tox21, 8,014 compounds and 12 assays. A fifth of the compounds
# is kept back, at random or by scaffold. The figures are stored; ``python benchmarks/chemistry.py``
# makes them from the file as it is downloaded.

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
