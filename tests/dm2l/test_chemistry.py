"""Fingerprints and scaffolds of molecules, against what RDKit itself says."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from dm2l import DM2LClassifier, chemistry
from dm2l._solvers.kernels import Kernel
from dm2l.chemistry import (
    MoleculeDescriptors,
    MorganFingerprints,
    compound_groups,
    is_valid_smiles,
    scaffold_groups,
)
from dm2l.persistence import load_model, save_model

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the extra chem (RDKit)")
SMILES = ["CCO", "OCC", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "[Na+].[Cl-]", "C#N", ""]


@pytest.mark.parametrize(("radius", "n_bits"), [(2, 2048), (1, 64)])
def test_bits_are_those_of_rdkit(radius, n_bits):
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    found = MorganFingerprints(radius, n_bits).fit_transform(SMILES)
    generator = GetMorganGenerator(radius=radius, fpSize=n_bits)
    expected = [generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in SMILES]
    assert found.shape == (len(SMILES), n_bits)
    assert np.array_equal(found.toarray(), np.array(expected))
    assert np.array_equal(found.toarray()[0], found.toarray()[1])
    assert not found.toarray()[-1].any()
    assert found.indices.dtype == found.indptr.dtype == np.int32  # as trees want it


def test_a_column_may_be_a_table_of_one_and_have_spaces_and_holes():
    plain = MorganFingerprints().fit_transform(["CCO", ""]).toarray()
    column = np.array([[" CCO "], [None]], dtype=object)
    assert np.array_equal(MorganFingerprints().fit_transform(column).toarray(), plain)
    with pytest.raises(ValueError, match="one column"):
        MorganFingerprints().fit_transform(np.array([["C", "C"]], dtype=object))


def test_what_cannot_be_read_is_named_and_rdkit_itself_is_silent(capfd):
    assert is_valid_smiles(["CCO", "C1CC", "", None, "CC(=O)O[AlH3](O)O"]).tolist() == [
        *(True, False, False, False, False),
    ]
    with pytest.raises(ValueError, match=r"molecule 'C1CC' in row 1.*is_valid_smiles"):
        MorganFingerprints().fit_transform(["CCO", "C1CC"])
    assert capfd.readouterr() == ("", "")


def test_scaffolds_keep_a_series_together():
    smiles = ["Cc1ccccc1", "Oc1ccccc1CCN", "CCO", "CCN", "C1CC", "", "CC1CCCCC1"]
    assert scaffold_groups(smiles).tolist() == [0, 0, 1, 1, 2, 3, 4]


@pytest.mark.parametrize("parameters", [{"radius": 0}, {"n_bits": 1.5}, {"n_bits": 2**40}])
def test_parameters_are_checked(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        MorganFingerprints(**parameters).fit(SMILES)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        MorganFingerprints(**parameters).transform(SMILES)


def test_it_is_a_part_of_pipelines_and_of_their_files(tmp_path):
    Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, np.nan], [np.nan, 0], [0, 0]])
    pipeline = make_pipeline(MorganFingerprints(n_bits=128), DM2LClassifier(kernel="tanimoto"))
    pipeline = clone(pipeline).fit(SMILES, Y)
    save_model(pipeline, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again[0].get_params() == pipeline[0].get_params()
    assert np.array_equal(again.decision_function(SMILES), pipeline.decision_function(SMILES))
    assert pipeline[0].get_feature_names_out()[127] == "bit 127"


def test_without_rdkit_it_says_what_to_install_and_what_happens_without(monkeypatch):
    monkeypatch.setattr(chemistry, "find_spec", lambda name: None)
    several = (is_valid_smiles, scaffold_groups, compound_groups, MoleculeDescriptors().fit)
    for use in (*several, MorganFingerprints().fit_transform):
        with pytest.raises(ImportError, match=r"pip install 'dm2l\[chem\]'.*drop the column"):
            use(["CCO"])


SALTS = ["CCO", "OCC.Cl", "[Na+].[Na+].CC(=O)Oc1ccccc1C([O-])=O", "CCCCCCCC", "CCCCCC", "c1ccccc1O"]


def rdkit_counts(radius, n_bits):
    """Counts of the bits of every largest fragment, which is written out by hand."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=radius, fpSize=n_bits)
    alone = ["CCO", "CCO", "CC(=O)Oc1ccccc1C([O-])=O", *SALTS[3:]]
    found = [generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in alone]
    return np.array(found, dtype=float)


@pytest.mark.parametrize(("radius", "n_bits"), [(2, 2048), (1, 16)])
def test_tanimoto_of_counts_is_the_min_max_similarity(radius, n_bits):
    twice = SALTS * 2  # every count is in two molecules, and has a column
    found = MorganFingerprints(radius, n_bits, counts=True, salts=False).fit(twice)
    X, counts = found.transform(SALTS), rdkit_counts(radius, n_bits)
    assert np.array_equal(X.toarray()[:, :n_bits], counts > 0)
    assert X.shape[1] > n_bits
    expected = [[np.minimum(a, b).sum() / np.maximum(a, b).sum() for b in counts] for a in counts]
    for rows in (X, X.toarray()):
        similarity = 1 + np.log(Kernel("tanimoto", 2.0)(rows, rows)) / 2
        assert similarity == pytest.approx(np.array(expected), abs=1e-12)
    names = found.get_feature_names_out()
    assert len(names) == X.shape[1] == len(set(names))
    for name, column in zip(names[n_bits:], X.toarray().T[n_bits:], strict=True):
        count, bit = name.split(" x bit ")
        assert np.array_equal(column, counts[:, int(bit)] >= int(count))


def test_rare_counts_have_no_column():
    found = MorganFingerprints(counts=True).fit(["CCCCCC", "CCCCCC", "C1CCCCCCCCC1"])
    names = [name for name in found.get_feature_names_out() if " x " in name]
    assert names
    assert max(int(name.split()[0]) for name in names) <= 6
    assert MorganFingerprints(counts=True).fit(["C"] * 2).transform(["CC"]).shape == (1, 2048)


def test_salts_are_compounds_and_tautomers_are_not():
    smiles = [
        *SALTS[:3],
        "CC(=O)Oc1ccccc1C(=O)[O-]",
        "",
        "C1CC",
        "Oc1ccccn1",
        "O=c1cccc[nH]1",
        None,
    ]
    assert compound_groups(smiles).tolist() == [0, 0, 1, 1, 2, 3, 4, 5, 6]
    assert compound_groups(["CCN.CCO", "CCO.CCN"]).tolist() == [0, 0]  # of equal sizes


def test_descriptors_are_those_of_rdkit_for_the_largest_fragment():
    from rdkit.Chem import Crippen, Descriptors, rdMolDescriptors

    found = MoleculeDescriptors().fit(SALTS)
    names, values = found.get_feature_names_out().tolist(), found.transform(SALTS)
    assert values.shape == (len(SALTS), len(names)) == (len(SALTS), len(Descriptors.descList))
    by_hand = {
        "MolWt": Descriptors.MolWt,
        "MolLogP": Crippen.MolLogP,
        "TPSA": rdMolDescriptors.CalcTPSA,
        "HeavyAtomCount": lambda molecule: molecule.GetNumHeavyAtoms(),
        "RingCount": rdMolDescriptors.CalcNumRings,
    }
    alone = ["CCO", "CCO", "CC(=O)Oc1ccccc1C([O-])=O", *SALTS[3:]]
    for name, function in by_hand.items():
        raw = np.array([function(Chem.MolFromSmiles(text)) for text in alone])
        assert values[:, names.index(name)] == pytest.approx(np.sign(raw) * np.log1p(abs(raw)))
    assert values[0] == pytest.approx(values[1], nan_ok=True)  # of other orders of atoms


def test_descriptors_that_cannot_be_computed_are_missing():
    found = MoleculeDescriptors().fit_transform(["CCO", "[Na+]", "", "[U]"])
    gaps = np.isnan(found)
    assert not gaps[0].any()
    assert gaps[1].any()
    assert not gaps[1].all()
    assert gaps[2].all()
    assert not np.isinf(found).any()
    with pytest.raises(ValueError, match=r"molecule 'C1CC' in row 1.*is_valid_smiles"):
        MoleculeDescriptors().fit_transform(["CCO", "C1CC"])


def test_descriptors_go_by_name_and_a_missing_one_is_named():
    found = MoleculeDescriptors().fit(SALTS)
    expected = found.transform(SALTS)[:, [5, 3]]
    found.names_ = [found.names_[5], found.names_[3]]
    assert np.array_equal(found.transform(SALTS), expected, equal_nan=True)
    found.names_ = ["NoSuchNumber"]
    with pytest.raises(ValueError, match=r"RDKit has no descriptor NoSuchNumber\. Install"):
        found.transform(SALTS)


def test_counts_and_descriptors_are_part_of_files(tmp_path):
    for step in (MorganFingerprints(counts=True, salts=False), MoleculeDescriptors()):
        save_model(make_pipeline(step, SimpleImputer()).fit(SALTS), tmp_path / "model")
        again = load_model(tmp_path / "model")
        assert again[0].get_params() == step.get_params()
        assert np.array_equal(again[0].get_feature_names_out(), step.get_feature_names_out())
