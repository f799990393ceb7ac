"""Archives: what is written is read again, and what is damaged is refused."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l.datasets import content_hash, load_digit_attributes
from dm2l.io import DataFileError, read_arff, read_npz, read_svmlight, write_npz
from reader_checks import NAN, check

DENSE = "@relation r\n@attribute f numeric\n@attribute y {0,1}\n@data\n0.5,1\n2,?\n"
SPARSE = DENSE.replace("0.5,1", "{0 0.5,1 1}").replace("2,?", "{0 2,1 ?}")


def test_an_archive_holds_what_was_written(tmp_path, write):
    for bunch in (
        load_digit_attributes(),
        read_arff(write(SPARSE), labels=1),
        read_svmlight(write("1,2 1:0.25 900:3\n2 1:5\n", "set.svm")),
    ):
        write_npz(tmp_path / "again.npz", bunch)
        again = read_npz(tmp_path / "again.npz")
        assert sp.issparse(again.data) == sp.issparse(bunch.data)
        assert again.data.dtype == np.float64
        assert again.target.dtype == bunch.target.dtype
        assert content_hash(again.data, again.target) == content_hash(bunch.data, bunch.target)
        assert again.target_names == bunch.target_names
        assert again.feature_names == bunch.feature_names


def test_a_failed_write_leaves_the_old_archive_and_nothing_else(tmp_path, write, monkeypatch):
    path = tmp_path / "set.npz"
    write_npz(path, read_arff(write(DENSE), labels=1))
    before = path.read_bytes()

    def fail(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write_npz(path, load_digit_attributes())
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set.arff", "set.npz"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"X": np.eye(3), "Y": np.eye(2)}, "X has 3 rows, but Y has 2"),
        ({"X": np.eye(2), "Y": 2 * np.eye(2)}, "label 1 holds 2 in row 1"),
        (
            {
                "X_data": np.ones(2),
                "X_indices": np.array([0, 7]),
                "X_indptr": np.array([0, 1, 2]),
                "X_shape": np.array([2, 2]),
                "Y": np.eye(2),
            },
            "do not form a valid CSR matrix",
        ),
    ],
)
def test_an_archive_that_does_not_fit_together_is_refused(tmp_path, parts, message):
    np.savez(tmp_path / "set.npz", **parts)
    with pytest.raises(ValueError, match=message):
        read_npz(tmp_path / "set.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_refused_by_name_and_without_advice_to_trust_it(tmp_path, save):
    save(tmp_path / "whole.npz", X=np.eye(30), Y=np.eye(30))
    content = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "part.npz"
    flipped = [bytearray(content) for _ in range(0, 300, 4)]
    for i, one in enumerate(flipped):
        one[4 * i] ^= 255
    np.save(tmp_path / "array.npy", np.eye(2))
    array = (tmp_path / "array.npy").read_bytes()
    said = []
    for broken in (b"", b"hello", array, content[:100], content[:-5], *flipped):
        path.write_bytes(broken)
        try:
            read_npz(path)
        except DataFileError as error:
            said.append(str(error))
    assert len(said) > 50
    assert all("part.npz" in text and "unsafely" not in text for text in said)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X", "hello")
    with pytest.raises(ValueError, match=r"part\.npz: the file must have the array X or"):
        read_npz(path)
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "none.npz")


def test_an_archive_may_have_holes(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.eye(2), Y=np.array([[1, NAN], [-1, 1]]))
    check(read_npz(tmp_path / "set.npz"), np.eye(2), [[1, NAN], [0, 1]], sparse=False)
