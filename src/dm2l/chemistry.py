"""Fingerprints, descriptors and groups of molecules given as SMILES; requires RDKit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dm2l._utils.arrays import factorize
from dm2l._utils.inputs import check_counts

__all__ = [
    "MoleculeDescriptors",
    "MorganFingerprints",
    "compound_groups",
    "is_valid_smiles",
    "scaffold_groups",
]

MOST_BITS = 2**20  # limit on the memory that a model file can request
FREQUENT = 1e-3  # a count has a column if this share of the molecules (at least two) reaches it
ABSENT = (
    "SMILES need RDKit, which is not installed. Run pip install 'dm2l[chem]', drop the column, or "
    "replace it by columns of fingerprints."
)


@dataclass(eq=False, repr=False)
class MorganFingerprints(TransformerMixin, BaseEstimator):
    """Morgan fingerprints of molecules given as SMILES, for ``kernel="tanimoto"``.

    Each bit stands for a neighbourhood of up to ``radius`` bonds, and is 1 if an atom of the
    molecule has this neighbourhood. ``radius=2`` corresponds to ECFP4.

    Parameters
    ----------
    radius : int, default=2
        Number of bonds to which a neighbourhood extends from its atom.
    n_bits : int, default=2048
        Number of columns to which neighbourhoods are hashed.
    counts : bool, default=False
        Whether to add 0/1 columns for frequent counts of neighbourhoods (2 or more, 3 or more ...).
        The Tanimoto similarity of two rows is then the min-max similarity of their counts.
    salts : bool, default=True
        Whether to include salts and solvents. False keeps only the largest fragment.

    Examples
    --------
    >>> from dm2l.chemistry import MorganFingerprints
    >>> bits = MorganFingerprints().fit_transform(["CCO", "OCC", "c1ccccc1"])
    >>> bits.shape, bool((bits[[0]] != bits[[1]]).nnz)
    ((3, 2048), False)
    """

    radius: int = 2
    n_bits: int = 2048
    counts: bool = False
    salts: bool = True

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the parameters and, if ``counts`` is true, find the counts to encode."""
        self._check()
        self.n_features_in_ = 1
        if self.counts:
            rows = self._places(X)
            places, found = np.unique(np.concatenate(rows), return_counts=True)
            places = places[found >= max(2, FREQUENT * len(rows))]
            self.columns_ = np.union1d(np.arange(self.n_bits), places)
        return self

    def _check(self) -> None:
        check_counts(radius=self.radius, n_bits=self.n_bits)
        if self.n_bits > MOST_BITS:
            raise ValueError(f"n_bits must be at most {MOST_BITS}, got {self.n_bits}.")

    def transform(self, X: ArrayLike) -> sp.csr_array:
        """Convert SMILES of shape (n,) or (n, 1) to a sparse matrix of 0 and 1.

        Blank SMILES get a row of zeros. SMILES that RDKit cannot read raise an error; use
        :func:`is_valid_smiles` to find them.
        """
        known = self._columns()
        bits = [np.flatnonzero(np.isin(known, row)) for row in self._places(X)]
        ends = np.cumsum([0, *map(len, bits)], dtype=np.int32)  # trees reject int64
        places = np.concatenate([[], *bits]).astype(np.int32)
        return sp.csr_array((np.ones(len(places)), places, ends), shape=(len(bits), len(known)))

    def _columns(self) -> NDArray[np.int64]:
        """Return the code of each column: its bit plus ``n_bits`` times (its count minus one)."""
        self._check()  # checked again, because parameters may come from a model file
        if not self.counts:
            return np.arange(self.n_bits)
        check_is_fitted(self, "columns_")
        return self.columns_

    def _places(self, X: ArrayLike) -> list[NDArray[np.int64]]:
        """Return the codes of the bits and counts of each molecule, as in ``_columns``."""
        with _rdkit() as parse:
            module = import_module("rdkit.Chem.rdFingerprintGenerator")
            generator = module.GetMorganGenerator(radius=self.radius, fpSize=self.n_bits)
            found = []
            for _, molecule in _molecules(parse, X):
                part = molecule if self.salts else _largest(molecule)
                counts = generator.GetCountFingerprint(part).GetNonzeroElements()
                levels = ((b, range(n if self.counts else 1)) for b, n in counts.items())
                places = [bit + self.n_bits * level for bit, some in levels for level in some]
                found.append(np.array(places, dtype=np.int64))
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names such as ``bit 0`` and ``2 x bit 0``; ``input_features`` is ignored."""
        pairs = (divmod(place, self.n_bits) for place in self._columns())
        names = [f"{n + 1} x bit {bit}" if n else f"bit {bit}" for n, bit in pairs]
        return np.array(names, dtype=object)


@dataclass(eq=False, repr=False)
class MoleculeDescriptors(TransformerMixin, BaseEstimator):
    """RDKit's 2-D descriptors of each molecule's largest fragment, such as mass and log P.

    Because some values are very large, each value ``x`` becomes ``sign(x) log(1 + |x|)``. Values
    that RDKit cannot compute are NaN.

    Examples
    --------
    >>> from dm2l.chemistry import MoleculeDescriptors
    >>> found = MoleculeDescriptors().fit_transform(["CCO", "CCO.Cl"])
    >>> bool((found[0] == found[1]).all())
    True
    """

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Store the names of the descriptors, which depend on the version of RDKit."""
        with _rdkit():
            self.names_ = list(dict(import_module("rdkit.Chem.Descriptors").descList))
        self.n_features_in_ = 1
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the descriptors of SMILES of shape (n,) or (n, 1), which RDKit must accept."""
        check_is_fitted(self, "names_")
        with _rdkit() as parse:
            names = list(dict(import_module("rdkit.Chem.Descriptors").descList))
            found = [_described(text) for text, _ in _molecules(parse, X)]
        lacking = ", ".join(name for name in self.names_ if name not in names)
        if lacking:
            raise ValueError(f"RDKit has no descriptor {lacking}. Install the version used to fit.")
        places = [names.index(name) for name in self.names_]
        return np.reshape(found, (-1, len(names)))[:, places]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the descriptors; ``input_features`` is ignored."""
        check_is_fitted(self, "names_")
        return np.array(self.names_, dtype=object)


@lru_cache(maxsize=2**15)  # cached, because folds and the final fit use the same molecules
def _described(smiles: str) -> NDArray[np.float64]:
    """Return all descriptors of a molecule's largest fragment; NaN for blank SMILES."""
    molecule = _largest(import_module("rdkit.Chem").MolFromSmiles(smiles))
    module = import_module("rdkit.Chem.Descriptors")
    found = module.CalcMolDescriptors(molecule, missingVal=np.nan) if smiles else {}
    values = np.array([found.get(name, np.nan) for name, _ in module.descList], dtype=np.float64)
    return np.where(np.isfinite(values), np.sign(values) * np.log1p(np.abs(values)), np.nan)


def has_rdkit() -> bool:
    """Return whether RDKit is installed."""
    return find_spec("rdkit") is not None


def is_valid_smiles(smiles: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask of the SMILES that RDKit can read; blank SMILES give False.

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
    """Return each molecule's group for cross-validation: its Bemis-Murcko scaffold as a number.

    Scaffolds are numbered from 0 in the order of their first rows. All molecules without a ring
    have the same number. Each row that RDKit cannot read has its own number.

    Examples
    --------
    >>> from dm2l.chemistry import scaffold_groups
    >>> scaffold_groups(["Cc1ccccc1", "Oc1ccccc1", "C1CC", "CCO"])
    array([0, 0, 1, 2])
    """
    module = "rdkit.Chem.Scaffolds.MurckoScaffold"
    return _numbered(smiles, lambda m: import_module(module).MurckoScaffoldSmiles(mol=m))


def compound_groups(smiles: ArrayLike) -> NDArray[np.intp]:
    """Return each molecule's group for cross-validation: its compound as a number.

    Molecules are the same compound if their largest fragments have equal SMILES. Salts therefore
    share a number, but tautomers do not. Compounds are numbered as in :func:`scaffold_groups`.

    Examples
    --------
    >>> from dm2l.chemistry import compound_groups
    >>> compound_groups(["CCO", "OCC.Cl", "C1CC", "CC=O"])
    array([0, 0, 1, 2])
    """
    return _numbered(smiles, lambda m: import_module("rdkit.Chem").MolToSmiles(_largest(m)))


def _numbered(smiles: ArrayLike, name: Callable[[Any], str]) -> NDArray[np.intp]:
    """Return a group number for each row; rows with equal ``name(molecule)`` share it."""
    with _rdkit() as parse:
        molecules = (parse(text) if text else None for text in _texts(smiles))
        names = (row if m is None else name(m) for row, m in enumerate(molecules))
        return factorize(names)


def _molecules(parse: Callable[[str], Any], smiles: Any) -> Iterator[tuple[str, Any]]:
    """Yield each SMILES with its molecule; raise an error if RDKit cannot read a SMILES."""
    for number, text in enumerate(_texts(smiles)):
        molecule = parse(text)
        if molecule is None:
            raise ValueError(
                f"RDKit cannot read the molecule {text!r} in row {number}. Correct it, or "
                "drop the rows where dm2l.chemistry.is_valid_smiles is False."
            )
        yield text, molecule


def _largest(molecule: Any) -> Any:
    """Return the fragment with the most atoms other than hydrogen."""
    module = import_module("rdkit.Chem")
    parts = module.GetMolFrags(molecule, asMols=True)
    if len(parts) < 2:
        return molecule
    # Among equally large fragments, take the last in the order of canonical SMILES.
    return max(parts, key=lambda part: (part.GetNumHeavyAtoms(), module.MolToSmiles(part)))


def _texts(smiles: Any) -> list[str]:
    """Return the SMILES of one column without surrounding spaces; missing SMILES become ""."""
    values = np.asarray(smiles, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"SMILES must be in one column, got shape {values.shape}. Pass one column, such as "
            "X[['smiles']]."
        )
    return ["" if value is None or value != value else str(value).strip() for value in values]


@contextmanager
def _rdkit() -> Iterator[Callable[[str], Any]]:
    """Yield RDKit's parser, and suppress RDKit's log messages, as callers report errors."""
    if not has_rdkit():
        raise ImportError(ABSENT)
    with import_module("rdkit.rdBase").BlockLogs():
        yield import_module("rdkit.Chem").MolFromSmiles
