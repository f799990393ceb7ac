"""The catalogue, the content of data sets, and files that are found by name."""

from __future__ import annotations

import hashlib
import io
import os
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.io import savemat

from dm2l.datasets import (
    DataSetCard,
    catalogue,
    content_hash,
    duplicate_groups,
    load_dataset,
)

FOLDER = os.environ.get("DM2L_DATA")
PAPER = {"Arts", "Business", "Recreation", "Social", "Enron", "Image", "Tmc2007-500"}
PAPER |= {"Tmc2007-500-old", *(f"Corel16k{k:03d}" for k in range(1, 11))}
OTHERS = {"emotions", "scene", "yeast", "bibtex", "delicious", "rcv1subset1"}

# -------------------------------------------------------------------------------------------- cards


def test_the_catalogue_has_a_card_for_every_set():
    cards = catalogue()
    assert set(cards) == PAPER | OTHERS
    for name, card in cards.items():
        assert card.name == name
        assert len(bytes.fromhex(card.sha256)) == 32
        assert min(card.n, card.d, card.c) > 1
        assert 0 < card.cardinality < card.c
        assert card.home.startswith(("https://", "http://"))
    assert len({card.sha256 for card in cards.values()}) == len(cards)


def test_cards_cannot_be_changed_by_accident():
    cards = catalogue()
    with pytest.raises(AttributeError):
        cards["Arts"].n = 1
    del cards["Arts"]
    assert "Arts" in catalogue()


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="DM2L_DATA does not name a folder with the data sets")
@pytest.mark.parametrize("name", sorted(PAPER | OTHERS))
def test_a_card_describes_the_set_that_is_there(name):
    bunch, card = load_dataset(name, verify=True), catalogue()[name]
    assert bunch.data.shape == (card.n, card.d)
    assert bunch.target.shape == (card.n, card.c)
    assert bunch.target.sum(axis=1).mean() == pytest.approx(card.cardinality, abs=1e-4)


# ------------------------------------------------------------------------------------- content hash


def plain_hash(X, Y):
    """The documented bytes, one number after the other."""
    indptr, indices, values = [0], [], []
    for row in X:
        for j, value in enumerate(row):
            if value != 0:
                indices.append(j)
                values.append(value)
        indptr.append(len(indices))
    packed = [b"dm2l-content-1\n", struct.pack("<3q", len(X), len(X[0]), len(Y[0]))]
    packed += [struct.pack("<q", number) for number in indptr + indices]
    for value in values:
        packed.append(bytes([0] * 6 + [0xF8, 0x7F]) if value != value else struct.pack("<d", value))
    for row in Y:
        packed += [struct.pack("b", -1 if y != y else max(int(y), 0)) for y in row]
    return hashlib.sha256(b"".join(packed)).hexdigest()


values = st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e-300, float("nan"), float("inf")])
labels = st.sampled_from([0.0, 1.0, float("nan")])


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    n=st.integers(1, 5),
    d=st.integers(1, 4),
    c=st.integers(1, 3),
)
def test_the_hash_is_that_of_the_documented_bytes_in_every_packing(data, n, d, c):
    X = data.draw(arrays(np.float64, (n, d), elements=values))
    Y = data.draw(arrays(np.float64, (n, c), elements=labels))
    expected = plain_hash(X.tolist(), Y.tolist())
    assert content_hash(X, Y) == expected
    assert content_hash(sp.csc_array(X), Y.astype(object)) == expected
    assert content_hash(np.asfortranarray(X), np.where(Y == 0, -1, Y)) == expected
    stored_zeros = sp.csr_array(
        (X.ravel(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)), shape=(n, d)
    )
    assert content_hash(stored_zeros, Y) == expected
    if not np.isnan(Y).any():
        assert content_hash(X, sp.csr_array(Y.astype(np.int8))) == expected


def test_the_hash_does_not_depend_on_the_blocks_it_is_made_in():
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 2, (2500, 3)), rng.integers(0, 2, (2500, 2))
    assert content_hash(X.astype(np.int8), Y) == plain_hash(X.tolist(), Y.tolist())


def test_the_hash_tells_one_entry_from_another():
    X, Y = np.eye(3), np.eye(3)
    hashes = {content_hash(X, Y), content_hash(2 * X, Y), content_hash(X, 1 - Y)}
    hashes |= {content_hash(X[:, ::-1], Y), content_hash(X, np.where(Y == 1, Y, np.nan))}
    assert len(hashes) == 5


def test_every_nan_is_the_same_nan():
    bits = np.array([[0x7FF8000000000000], [0x7FF8000000000001], [0xFFF8000000000000]], np.uint64)
    one, other, negative = bits.view(np.float64)[:, None]
    assert np.isnan([one, other, negative]).all()
    for nan in (other, negative):
        assert content_hash(nan, [[1]]) == content_hash(one, [[1]])
    assert duplicate_groups(bits.view(np.float64)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (
            np.eye(3),
            np.eye(2),
            r"the same number of rows; got the shapes \(3, 3\) and \(2, 2\)",
        ),
        (np.eye(2), 2 * np.eye(2), "label 1 holds 2"),
    ],
)
def test_what_is_no_data_set_has_no_hash(X, Y, message):
    with pytest.raises(ValueError, match=message):
        content_hash(X, Y)


# ---------------------------------------------------------------------------------- finding, verify

X_TINY = np.array([[0.0, 2.0, 0.5], [1.0, 0.0, 0.0]])
Y_TINY = np.array([[1, 0], [0, 1]])
TINY = DataSetCard(
    name="tiny",
    n=2,
    d=3,
    c=2,
    cardinality=1.0,
    sha256=plain_hash(X_TINY.tolist(), Y_TINY.tolist()),
    home="https://example.org/tiny.html",
)
ARFF = """@relation tiny
@attribute a numeric
@attribute b numeric
@attribute c numeric
@attribute y {0,1}
@attribute z {0,1}
@data
0,2,0.5,1,0
1,0,0,0,1
"""
XML = '<labels><label name="y"/><label name="z"/></labels>'


def npz_bytes(**parts):
    file = io.BytesIO()
    np.savez(file, **{"X": X_TINY, "Y": Y_TINY, **parts})
    return file.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder of the test's own, and a catalogue with one card."""
    monkeypatch.setenv("DM2L_DATA", str(tmp_path))
    monkeypatch.setattr("dm2l.datasets.catalogue", lambda: {"tiny": TINY})
    return tmp_path


def test_files_as_their_homes_hand_them_out_are_found_by_name(folder):
    savemat(folder / "tiny.mat", {"data": X_TINY, "target": (2 * Y_TINY - 1).T})
    assert load_dataset("tiny", verify=True).target_names is None
    (folder / "tiny.arff").write_text(ARFF)
    (folder / "tiny.xml").write_text(XML)
    assert load_dataset("tiny", verify=True).target_names == ["y", "z"]
    (folder / "tiny.npz").write_bytes(npz_bytes(label_names=np.array(["p", "q"])))
    assert load_dataset("tiny", verify=True).target_names == ["p", "q"]


def test_another_edition_is_found_out_when_asked(folder):
    (folder / "tiny.npz").write_bytes(npz_bytes(X=2 * X_TINY))
    assert load_dataset("tiny").data.max() == 4
    with pytest.raises(ValueError, match=r"the hash .* tiny has .*another version"):
        load_dataset("tiny", verify=True)


def test_a_set_without_a_card_cannot_be_verified(folder):
    (folder / "own.npz").write_bytes(npz_bytes())
    assert load_dataset("own").data.shape == (2, 3)
    with pytest.raises(ValueError, match="'own' is not in the catalogue"):
        load_dataset("own", verify=True)


def test_a_set_that_is_not_there_says_where_it_lives_and_belongs(folder, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("tiny")
    text = str(caught.value)
    assert f"DM2L_DATA={folder} has no data set tiny. Its data sets are: none." in text
    assert TINY.home in text
    assert "tiny.npz, tiny.arff with tiny.xml, or tiny.mat" in text
    monkeypatch.delenv("DM2L_DATA")
    with pytest.raises(FileNotFoundError, match=r"export DM2L_DATA=(.|\n)*example\.org"):
        load_dataset("tiny")
    with pytest.raises(FileNotFoundError, match="export DM2L_DATA=") as caught:
        load_dataset("other")
    assert "Get other" not in str(caught.value)
