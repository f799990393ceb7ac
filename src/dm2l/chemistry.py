"""Molecules as features: Morgan fingerprints of SMILES, and groups by scaffold; needs RDKit."""

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

MOST_BITS = 2**20  # limits the memory that a model file can ask for
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
        """Fingerprints of SMILES of shape (n,) or (n, 1), as a sparse matrix of 0 and 1.

        Blank SMILES have a row of zeros. SMILES that RDKit cannot read raise an error; use
        :func:`is_valid_smiles` to find them.
        """
        self._check()  # again, because parameters may come from a model file
        texts = _texts(X)
        with _rdkit() as parse:
            module = import_module("rdkit.Chem.rdFingerprintGenerator")
            generator = module.GetMorganGenerator(radius=self.radius, fpSize=self.n_bits)
            bits: list[Any] = []
            for number, text in enumerate(texts):
                molecule = parse(text)
                if molecule is None:
                    raise ValueError(
                        f"{text!r} in row {number} is not a molecule that RDKit can read. Leave "
                        "out the rows where dm2l.chemistry.is_valid_smiles is False."
                    )
                bits.append(generator.GetFingerprint(molecule).GetOnBits())
        ends = np.cumsum([0, *map(len, bits)], dtype=np.int32)  # trees do not accept int64
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
    with _rdkit() as parse:
        murcko = import_module("rdkit.Chem.Scaffolds.MurckoScaffold")
        molecules = (parse(text) if text else None for text in _texts(smiles))
        return factorize(
            row if molecule is None else murcko.MurckoScaffoldSmiles(mol=molecule)
            for row, molecule in enumerate(molecules)
        )


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
