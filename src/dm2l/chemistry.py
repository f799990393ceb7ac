"""Fingerprints, descriptors and groups of molecules given as SMILES; needs RDKit."""

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

MOST_BITS = 2**20  # limits the memory that a model file can ask for
FREQUENT = 1e-3  # share of molecules from which a count has a column, and at least two molecules
ABSENT = (
    "SMILES need RDKit, which is not installed: pip install 'dm2l[chem]'. Without it, leave the "
    "column out, or add fingerprints as columns of 0 and 1."
)


@dataclass(eq=False, repr=False)
class MorganFingerprints(TransformerMixin, BaseEstimator):
    """Morgan fingerprints of molecules given as SMILES, for ``kernel="tanimoto"``.

    A bit is 1 if the molecule contains a certain neighbourhood of an atom, of up to ``radius``
    bonds. ``radius=2`` corresponds to ECFP4.

    Parameters
    ----------
    radius : int, default=2
        Number of bonds around an atom.
    n_bits : int, default=2048
        Number of columns that neighbourhoods are hashed to.
    counts : bool, default=False
        Whether to add columns of 0 and 1 for frequent counts of 2, 3 and so on, so that the
        Tanimoto similarity of rows is the min-max similarity of their counts.
    salts : bool, default=True
        Whether salts and solvents count; False keeps the largest fragment only.

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
        """Check the parameters, and with ``counts`` find the frequent counts."""
        self._check()
        self.n_features_in_ = 1
        if self.counts:
            rows = self._places(X)
            places, found = np.unique(np.concatenate(rows), return_counts=True)
            places = places[found >= max(2, FREQUENT * len(rows))]
            self.columns_ = np.union1d(np.arange(self.n_bits), places)
        return self

    def _check(self) -> None:
        check_counts(self, "radius", "n_bits")
        if self.n_bits > MOST_BITS:
            raise ValueError(f"n_bits must be at most {MOST_BITS}, got {self.n_bits}.")

    def transform(self, X: ArrayLike) -> sp.csr_array:
        """Fingerprints of SMILES of shape (n,) or (n, 1), as a sparse matrix of 0 and 1.

        Blank SMILES have a row of zeros. SMILES that RDKit cannot read raise an error; use
        :func:`is_valid_smiles` to find them.
        """
        known = self._columns()
        bits = [np.flatnonzero(np.isin(known, row)) for row in self._places(X)]
        ends = np.cumsum([0, *map(len, bits)], dtype=np.int32)  # trees do not accept int64
        places = np.concatenate([[], *bits]).astype(np.int32)
        return sp.csr_array((np.ones(len(places)), places, ends), shape=(len(bits), len(known)))

    def _columns(self) -> NDArray[np.int64]:
        """Bit of each column, plus ``n_bits`` times the count less one."""
        self._check()  # again, because parameters may come from a model file
        if not self.counts:
            return np.arange(self.n_bits)
        check_is_fitted(self, "columns_")
        return self.columns_

    def _places(self, X: ArrayLike) -> list[NDArray[np.int64]]:
        """Bits and counts of each molecule, numbered as in ``_columns``."""
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
        """``bit 0``, ``bit 1`` and so on, then ``2 x bit 0``; ``input_features`` is ignored."""
        pairs = (divmod(place, self.n_bits) for place in self._columns())
        names = [f"{n + 1} x bit {bit}" if n else f"bit {bit}" for n, bit in pairs]
        return np.array(names, dtype=object)


@dataclass(eq=False, repr=False)
class MoleculeDescriptors(TransformerMixin, BaseEstimator):
    """The 2-D descriptors of RDKit, such as mass, charges and log P, of the largest fragment.

    A value ``x`` becomes ``sign(x) log(1 + |x|)``, because some values are huge. Values that RDKit
    cannot compute are NaN.

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
        """Descriptors of SMILES of shape (n,) or (n, 1); SMILES must be as for fingerprints."""
        check_is_fitted(self, "names_")
        with _rdkit() as parse:
            names = list(dict(import_module("rdkit.Chem.Descriptors").descList))
            found = [_described(text) for text, _ in _molecules(parse, X)]
        lacking = ", ".join(name for name in self.names_ if name not in names)
        if lacking:
            raise ValueError(f"RDKit lacks {lacking}. Install the version of the fit.")
        places = [names.index(name) for name in self.names_]
        return np.reshape(found, (-1, len(names)))[:, places]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the descriptors; ``input_features`` is ignored."""
        check_is_fitted(self, "names_")
        return np.array(self.names_, dtype=object)


@lru_cache(maxsize=2**15)  # a fit describes every molecule several times
def _described(smiles: str) -> NDArray[np.float64]:
    """All descriptors of the largest fragment; NaN for blank SMILES."""
    molecule = _largest(import_module("rdkit.Chem").MolFromSmiles(smiles))
    module = import_module("rdkit.Chem.Descriptors")
    found = module.CalcMolDescriptors(molecule, missingVal=np.nan) if smiles else {}
    values = np.array([found.get(name, np.nan) for name, _ in module.descList], dtype=np.float64)
    return np.where(np.isfinite(values), np.sign(values) * np.log1p(np.abs(values)), np.nan)


def has_rdkit() -> bool:
    """Whether RDKit is installed."""
    return find_spec("rdkit") is not None


def is_valid_smiles(smiles: ArrayLike) -> NDArray[np.bool_]:
    """Return whether RDKit can read each SMILES of a column; False for blank ones.

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
    """Number the Bemis-Murcko scaffolds of molecules, as groups for cross-validation.

    Scaffolds are numbered from 0 in the order of their first rows. Molecules without a ring share
    one number. Each row that RDKit cannot read has its own number.

    Examples
    --------
    >>> from dm2l.chemistry import scaffold_groups
    >>> scaffold_groups(["Cc1ccccc1", "Oc1ccccc1", "C1CC", "CCO"])
    array([0, 0, 1, 2])
    """
    module = "rdkit.Chem.Scaffolds.MurckoScaffold"
    return _numbered(smiles, lambda m: import_module(module).MurckoScaffoldSmiles(mol=m))


def compound_groups(smiles: ArrayLike) -> NDArray[np.intp]:
    """Number compounds, as groups for cross-validation: largest fragments of the same SMILES.

    Salts of a compound have the same number, tautomers do not. Compounds are numbered from 0 in the
    order of their first rows. Each row that RDKit cannot read has its own number.

    Examples
    --------
    >>> from dm2l.chemistry import compound_groups
    >>> compound_groups(["CCO", "OCC.Cl", "C1CC", "CC=O"])
    array([0, 0, 1, 2])
    """
    return _numbered(smiles, lambda m: import_module("rdkit.Chem").MolToSmiles(_largest(m)))


def _numbered(smiles: ArrayLike, name: Callable[[Any], str]) -> NDArray[np.intp]:
    """Number the names of molecules; rows without a molecule have their own numbers."""
    with _rdkit() as parse:
        molecules = (parse(text) if text else None for text in _texts(smiles))
        names = (row if m is None else name(m) for row, m in enumerate(molecules))
        return factorize(names)


def _molecules(parse: Callable[[str], Any], smiles: Any) -> Iterator[tuple[str, Any]]:
    """Yield SMILES and molecules; raise an error where RDKit cannot read one."""
    for number, text in enumerate(_texts(smiles)):
        molecule = parse(text)
        if molecule is None:
            raise ValueError(
                f"{text!r} in row {number} is not a molecule that RDKit can read. Leave "
                "out the rows where dm2l.chemistry.is_valid_smiles is False."
            )
        yield text, molecule


def _largest(molecule: Any) -> Any:
    """The fragment with the most atoms other than hydrogen."""
    module = import_module("rdkit.Chem")
    parts = module.GetMolFrags(molecule, asMols=True)
    if len(parts) < 2:
        return molecule
    # Of fragments with as many atoms, the last in the order of canonical SMILES.
    return max(parts, key=lambda part: (part.GetNumHeavyAtoms(), module.MolToSmiles(part)))


def _texts(smiles: Any) -> list[str]:
    """SMILES of one column without surrounding spaces; missing ones are blank."""
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
    """The parser of RDKit without its log messages, because callers report errors."""
    if not has_rdkit():
        raise ImportError(ABSENT)
    with import_module("rdkit.rdBase").BlockLogs():
        yield import_module("rdkit.Chem").MolFromSmiles
