"""Fingerprints and scaffolds of molecules, against what RDKit itself says."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from dm2l import DM2LClassifier, chemistry
from dm2l.chemistry import MorganFingerprints, is_valid_smiles, scaffold_groups
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
    with pytest.raises(ValueError, match=r"'C1CC' in row 1 is not a molecule .*is_valid_smiles"):
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
    for use in (is_valid_smiles, scaffold_groups, MorganFingerprints().fit_transform):
        with pytest.raises(ImportError, match=r"pip install 'dm2l\[chem\]'.*Without it"):
            use(["CCO"])
