"""Molecules as features: SMILES become Morgan fingerprints, and groups of one scaffold.

They need RDKit, the extra ``chem``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from dm2l._utils.arrays import factorize
from dm2l._utils.inputs import check_counts

__all__ = ["MorganFingerprints", "is_valid_smiles", "scaffold_groups"]

MOST_BITS = 2**20  # a model file may ask for any number, and so for all memory
ABSENT = (
    "Molecules are read by RDKit, which is not installed: pip install 'dm2l[chem]'. Without it a "
    "column of SMILES is no feature: leave it out, or bring fingerprints as columns of 0 and 1."
)


@dataclass(eq=False, repr=False)
class MorganFingerprints(TransformerMixin, BaseEstimator):
    """Morgan fingerprints of molecules that are written as SMILES.

    A bit is set if some neighbourhood of an atom, up to ``radius`` bonds wide, occurs in the
    molecule (ECFP4 at a radius of 2). They suit ``kernel="tanimoto"``.

    Parameters
    ----------
    radius : int, default=2
        Bonds around an atom.
    n_bits : int, default=2048
        Columns; neighbourhoods are hashed into them.

    Examples
    --------
    >>> from dm2l.chemistry import MorganFingerprints
    >>> bits = MorganFingerprints().fit_transform(["CCO", "OCC", "c1ccccc1"])
    >>> bits.shape, bool((bits[[0]] != bits[[1]]).nnz)
    ((3, 2048), False)
    """

    radius: int = 2
    n_bits: int = 2048

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the parameters; nothing is learned from ``X``."""
        self._check()
        self.n_features_in_ = 1
        return self

    def _check(self) -> None:
        check_counts(self, "radius", "n_bits")
        if self.n_bits > MOST_BITS:
            raise ValueError(f"n_bits must be at most {MOST_BITS}, got {self.n_bits}.")

    def transform(self, X: ArrayLike) -> sp.csr_array:
        """Fingerprints of SMILES as 0 and 1; a blank has none, what RDKit cannot read is an error.

        ``X`` has shape (n,) or (n, 1); :func:`is_valid_smiles` tells which rows to leave out.
        """
        self._check()  # a model file may hold anything
        texts = _texts(X)
        with _rdkit() as parse:
            module = import_module("rdkit.Chem.rdFingerprintGenerator")
            generator = module.GetMorganGenerator(radius=self.radius, fpSize=self.n_bits)
            bits: list[Any] = []
            for number, text in enumerate(texts, 1):
                molecule = parse(text)
                if molecule is None:
                    raise ValueError(
                        f"{text!r} in row {number} is no molecule that RDKit can read; "
                        "dm2l.chemistry.is_valid_smiles tells which rows to leave out."
                    )
                bits.append(generator.GetFingerprint(molecule).GetOnBits())
        ends = np.cumsum([0, *map(len, bits)], dtype=np.int32)  # of a wider index trees take none
        places = np.fromiter((bit for row in bits for bit in row), dtype=np.int32, count=ends[-1])
        return sp.csr_array((np.ones(len(places)), places, ends), shape=(len(texts), self.n_bits))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``bit 0``, ``bit 1`` and so on; ``input_features`` is ignored."""
        self._check()
        return np.array([f"bit {number}" for number in range(self.n_bits)], dtype=object)


def has_rdkit() -> bool:
    """Whether RDKit is installed."""
    return find_spec("rdkit") is not None


def is_valid_smiles(smiles: ArrayLike) -> NDArray[np.bool_]:
    """Whether RDKit can read each SMILES of a column; False for a blank.

    Examples
    --------
    >>> from dm2l.chemistry import is_valid_smiles
    >>> is_valid_smiles(["CCO", "C1CC", ""])
    array([ True, False, False])
    """
    with _rdkit() as parse:
        found = [text != "" and parse(text) is not None for text in _texts(smiles)]
    return np.array(found, dtype=bool)


def scaffold_groups(smiles: ArrayLike) -> NDArray[np.intp]:
    """Number the scaffolds of molecules, for folds that keep a series of compounds together.

    Bemis-Murcko scaffolds, from 0 in the order of their first rows; molecules without a ring share
    one. What RDKit cannot read is a group of its own.

    Examples
    --------
    >>> from dm2l.chemistry import scaffold_groups
    >>> scaffold_groups(["Cc1ccccc1", "Oc1ccccc1", "C1CC", "CCO"])
    array([0, 0, 1, 2])
    """
    with _rdkit() as parse:
        murcko = import_module("rdkit.Chem.Scaffolds.MurckoScaffold")
        molecules = (parse(text) if text else None for text in _texts(smiles))
        return factorize(
            row if molecule is None else murcko.MurckoScaffoldSmiles(mol=molecule)
            for row, molecule in enumerate(molecules)
        )


def _texts(smiles: Any) -> list[str]:
    """SMILES of one column, without the spaces around them; what is missing is blank."""
    values = np.asarray(smiles, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"Molecules are one column of SMILES, got shape {values.shape}.")
    return ["" if value is None or value != value else str(value).strip() for value in values]


@contextmanager
def _rdkit() -> Iterator[Callable[[str], Any]]:
    """Parse SMILES with RDKit, which is silent: callers report what cannot be read."""
    if not has_rdkit():
        raise ImportError(ABSENT)
    with import_module("rdkit.rdBase").BlockLogs():
        yield import_module("rdkit.Chem").MolFromSmiles
