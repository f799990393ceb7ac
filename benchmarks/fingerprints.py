"""Fingerprints of the molecules of Tox21 and SIDER, for the studies of this folder. Needs rdkit.

python benchmarks/fingerprints.py tox21.csv.gz Tox21.npz

Morgan fingerprints of radius 2 with 1,024 bits; labels are -1, +1, and 0 where an assay was not
run. Molecules that rdkit cannot read are left out.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np
from rdkit import Chem, RDLogger
from rdkit.Chem import rdFingerprintGenerator

SIGNS = {"": 0, "1": 1, "1.0": 1, "0": -1, "0.0": -1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    RDLogger.DisableLog("rdApp.*")
    with gzip.open(arguments.table, "rt") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("mol_id", "smiles")]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    X, T = [], []
    for row in rows:
        molecule = Chem.MolFromSmiles(row["smiles"])
        if molecule is not None:
            X.append(generator.GetFingerprintAsNumPy(molecule))
            T.append([SIGNS[row[name]] for name in names])
    signs = np.array(T, dtype=np.int8)
    np.savez_compressed(arguments.out, X=np.array(X, dtype=np.int8), T=signs, names=names)
    print(f"{len(signs)} of {len(rows)} molecules, {(signs != 0).mean():.0%} of the labels known")


if __name__ == "__main__":
    main()
