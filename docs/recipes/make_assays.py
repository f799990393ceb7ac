"""Write an example table of six assays, with identifiers, SMILES and missing labels.

python docs/recipes/make_assays.py assays.csv

Each molecule is a ring with two substituents. The activity of a molecule in an assay depends on its
ring, its substituents and noise. The six assays form two families with similar activities. A fifth
of the labels are missing. RDKit cannot read eight SMILES of salts, in which aluminium has too many
bonds, as in Tox21.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

RINGS = (
    *("c1cc({})ccc1{}", "c1cc({})ncc1{}", "c1c({})oc(C)c1{}", "c1c({})sc(C)c1{}"),
    *("C1CC({})CCC1{}", "C1CN({})CCC1{}", "c1ccc2c({})cccc2c1{}", "c1ccc2c({})c[nH]c2c1{}"),
    *("c1ccc(cc1)C({})CC{}", "O=C1CC({})CC1{}"),
)
GROUPS = (
    *("N", "O", "C(=O)O", "C#N", "Cl", "Br", "C(F)(F)F", "N(C)C", "S(N)(=O)=O", "OC", "CCO"),
    *("C(N)=O", "CC(C)C", "[N+](=O)[O-]", "OCC", "CCCC", "CCN", "SC", "C=O", "CC(=O)OC"),
)
SALTS = ("CC(=O)O[AlH3](O)O", "CCCCO[AlH3](OCCCC)OCCCC", "O=CO[AlH3](OC=O)OC=O")
ASSAYS = ("NR-AR", "NR-ER", "NR-PPAR", "SR-ARE", "SR-HSE", "SR-p53")
N_SALTS = 8


def make_assays(n_rows: int = 600, seed: int = 0) -> list[dict[str, str]]:
    """Return the rows of the table as dicts; equal seeds give equal tables."""
    rng = np.random.default_rng(seed)
    ring = rng.integers(len(RINGS), size=n_rows)
    groups = rng.integers(len(GROUPS), size=(n_rows, 2))
    # The assays of a family share a part of their weights for rings and substituents.
    family = rng.normal(size=(2, len(RINGS) + len(GROUPS)))
    pull = np.repeat(family, 3, axis=0) + 0.7 * rng.normal(size=(6, len(RINGS) + len(GROUPS)))
    on_ring, on_groups = pull[:, : len(RINGS)], pull[:, len(RINGS) :]
    score = on_ring[:, ring] + on_groups[:, groups].sum(axis=2)
    score += 0.5 * rng.normal(size=score.shape)
    active = (score > np.quantile(score, 0.85, axis=1, keepdims=True)).T
    tested = rng.random(active.shape) < 0.8
    smiles = [RINGS[r].format(GROUPS[a], GROUPS[b]) for r, (a, b) in zip(ring, groups, strict=True)]
    for number, row in enumerate(rng.permutation(n_rows)[:N_SALTS]):
        smiles[row] = SALTS[number % len(SALTS)]
    return [
        {assay: str(int(a)) if t else "" for assay, a, t in zip(ASSAYS, yes, seen, strict=True)}
        | {"mol_id": f"TOX{3000 + i}", "smiles": smiles[i]}
        for i, (yes, seen) in enumerate(zip(active, tested, strict=True))
    ]


def main(path: str) -> None:
    """Write the table to a CSV file."""
    rows = make_assays()
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1])
