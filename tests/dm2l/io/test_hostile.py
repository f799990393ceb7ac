"""Files that would crash, fill memory or mislead: one line that names them, and nothing else."""

from __future__ import annotations

import gzip
import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from dm2l._utils import files
from dm2l._utils.files import DataFileError, check_regular, translate_errors
from dm2l.io import (
    _matrix_files,
    read_arff,
    read_csv,
    read_mat,
    read_npz,
    read_parquet,
    read_svmlight,
)
from dm2l.outofcore import RowBlocks
from dm2l.tables import read_table

GIB = 2**30


@pytest.fixture
def two_gigabytes(monkeypatch):
    """A machine of which two gigabytes are free, whatever this one has."""
    monkeypatch.setattr(files, "_probe", lambda: 2 * GIB)


def refused(read, *arguments, match, most=2**26, **options):
    """The file is refused in one line, and little is allocated on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match=match) as caught:
            read(*arguments, **options)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    return caught.value


# ------------------------------------------------------------------------------------- the error


def test_an_error_of_a_file_says_file_place_reason_and_way_out_also_elsewhere():
    error = DataFileError("a.csv", "a quote is open", place="line 3", hint="Close it.")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert (one.file, one.place, one.reason, one.hint) == (
            "a.csv",
            "line 3",
            "a quote is open",
            "Close it.",
        )
        assert str(one) == "a.csv, line 3: a quote is open. Close it."


def test_what_libraries_throw_is_turned_and_what_the_system_says_is_not():
    for fault in (ValueError("x"), EOFError(), SystemError("x"), zipfile.BadZipFile("x")):
        whole = r"a.bin: this is not a box, or the file is damaged"
        with pytest.raises(DataFileError, match=whole), translate_errors("a.bin", "a box"):
            raise fault
    with (
        pytest.raises(DataFileError, match="does not fit into memory"),
        translate_errors("a", "a box"),
    ):
        raise MemoryError
    with pytest.raises(FileNotFoundError), translate_errors("a.bin", "a box"):
        raise FileNotFoundError(2, "No such file")
    with pytest.raises(KeyboardInterrupt), translate_errors("a.bin", "a box"):
        raise KeyboardInterrupt


# ----------------------------------------------------------------------------- sparse parts: npz


def sparse_parts(**changes):
    parts = {
        "X_data": np.ones(3),
        "X_indices": np.array([0, 1, 2], dtype=np.int32),
        "X_indptr": np.array([0, 1, 3], dtype=np.int32),
        "X_shape": np.array([2, 3]),
        "Y": np.eye(2),
    }
    return {key: value for key, value in (parts | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # 2,000 numbers of the process's memory came out as data.
        (
            {
                "X_data": np.array([]),
                "X_indices": np.array([], dtype=np.int32),
                "X_indptr": np.array([0, 2000, 0], dtype=np.int32),
                "X_shape": np.array([2, 2**31 - 1]),
            },
            "indptr must not decrease",
        ),
        (
            {
                "X_indptr": np.array([0, 1, -(2**31), -1, 3], dtype=np.int32),
                "X_shape": np.array([4, 3]),
                "Y": np.eye(4),
            },
            "indptr must not decrease",
        ),
        ({"X_indices": None}, "must have the array X or X_data, X_indices"),
        ({"X_shape": np.array(3)}, "two integers"),
        ({"X_shape": np.array([2.0, 3.0])}, "two integers"),
        ({"X_data": np.array(1.0)}, "X_data, .* 0-D"),
        ({"X_data": np.ones(3) * 1j}, "complex"),
        ({"Y": np.array(1.0)}, "Y must be .* 0 dimensions"),
        ({"Y": np.eye(2) * 1j}, "Y must be a matrix of real numbers, but is of type complex"),
        ({"Y": np.array([["0", "1"], ["1", "0"]])}, "but is of type <U1"),
        ({"label_names": np.array(["a", "a"])}, "several labels named 'a'"),
        (
            {"label_names": np.array(["a"])},
            r"label_names must have the shape \(2,\), got \(1,\)",
        ),
        ({"label_names": np.array("ab")}, r"label_names must have the shape \(2,\), got \(\)"),
        ({"feature_names": np.array([["a", "b", "c"]])}, "feature_names must have the shape"),
        ({"train_index": np.array([0, 2])}, "train_index must hold row numbers from 0 to 1"),
        ({"test_index": np.array([0.5])}, "test_index must hold row numbers"),
    ],
)
def test_parts_of_archives_that_mislead_are_refused(tmp_path, changes, message):
    np.savez(tmp_path / "set.npz", **sparse_parts(**changes))
    refused(read_npz, tmp_path / "set.npz", match=message)


def test_an_archive_of_complex_features_is_refused_and_not_halved(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.eye(2) + 1j, Y=np.eye(2))
    refused(read_npz, tmp_path / "set.npz", match="but is of type complex128")


# ------------------------------------------------------------------------------------ sizes: npz


def zip_of(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_head(shape, descr="|i1"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def test_an_archive_that_unpacks_to_all_memory_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "set.npz"
    zip_of(path, X=npy(np.zeros((4000, 4000), dtype=np.int8)), Y=npy(np.zeros((4000, 1))))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(files, "_probe", lambda: 2**26)  # int8 and float64: 144 MB
    refused(read_npz, path, match="the content of the archive takes about", most=2**22)
    monkeypatch.setattr(files, "_probe", lambda: 2 * GIB)
    assert read_npz(path).data.shape == (4000, 4000)


@pytest.mark.parametrize("shape", [(2**20, 2**13), (2**62, 2**62), (4, 4)])
def test_an_array_that_announces_more_than_there_is_is_refused(tmp_path, shape):
    zip_of(tmp_path / "set.npz", X=npy_head(shape) + bytes(8), Y=npy(np.eye(2)))
    refused(read_npz, tmp_path / "set.npz", match="does not match its content")
    with zipfile.ZipFile(tmp_path / "plain.npz", "w") as archive:
        archive.writestr("X.npy", npy_head(shape) + bytes(8))
        archive.writestr("Y.npy", npy(np.eye(2)))
    with pytest.raises(DataFileError, match=r"plain\.npz"):
        RowBlocks.open(tmp_path / "plain.npz")


@pytest.mark.parametrize("content", [b"", b"hello", npy_head((2**40, 2**9)) + bytes(8)])
def test_a_damaged_npy_file_is_refused(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    np.save(tmp_path / "y.npy", np.eye(2))
    with pytest.raises(
        DataFileError, match=r"x\.npy: this is not an npy file, or the file is damaged"
    ):
        RowBlocks.open(tmp_path / "x.npy", tmp_path / "y.npy")


def test_a_narrow_file_of_endless_columns_is_refused(tmp_path, two_gigabytes):
    wide = sparse_parts(X_shape=np.array([2, 2**31 - 1]))
    np.savez(tmp_path / "set.npz", **wide)
    refused(read_npz, tmp_path / "set.npz", match="a table of 2147483647 features takes")


# --------------------------------------------------------------------------------------- svmlight


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1 2147483646:1", "a table of 2147483646 features takes about"),
        ("1 1:1 100000000000:1\n", "set.svm"),
        ("1 1:1 99999999999999999999999:1\n", "line 1: .*"),
        ("nan 1:1\n", "line 1: a label is not a finite number"),
        ("1 1:1\ninf,2 1:1\n", "line 2: a label is not a finite number"),
        ("# nothing\n", "no rows"),
        ("1.0000000000000002,1 1:1\n", "several labels named '1'"),
    ],
)
def test_svmlight_rows_that_mislead_are_refused(write, two_gigabytes, text, message):
    refused(read_svmlight, write(text, "set.svm"), match=message)
    with pytest.raises(DataFileError, match=r"set\.svm"):
        read_table(write(text, "set.svm"))


def test_svmlight_with_many_labels_is_refused_before_they_are_made(write, monkeypatch):
    many = ",".join(map(str, range(30_000)))
    path = write(f"{many} 1:1\n" + "1 1:1\n" * 3000, "set.svm")
    monkeypatch.setattr(files, "_probe", lambda: 2**29)
    refused(read_svmlight, path, match="30000 labels for 3001 rows takes about")


# ------------------------------------------------------------------------------------------- ARFF


def test_an_arff_file_of_endless_columns_is_refused(write, monkeypatch):
    """On a machine of which little is free, so that a small file suffices to see both refusals."""
    values = ",".join(f"v{i}" for i in range(2000))
    head = f"@relation r\n@attribute f {{{values}}}\n@attribute y {{0,1}}\n@data\n"
    dense = write(head + "v1,1\n" * 2000, "dense.arff")
    monkeypatch.setattr(files, "_probe", lambda: 2**24)
    refused(read_arff, dense, 1, match="a table of 2000 rows, 2000 features and 1 labels takes")
    holes = write(head + "?,1\n" * 2000, "holes.arff")
    refused(read_arff, holes, 1, match=r"line \d+: the file does not fit")
    monkeypatch.undo()
    assert read_arff(dense, 1).data.shape == (2000, 2000)


def test_half_a_megabyte_of_arff_that_announces_thirty_gigabytes_is_refused(write, monkeypatch):
    """With sixteen gigabytes free, whatever this machine has: it might really make the table."""
    monkeypatch.setattr(files, "_probe", lambda: 16 * GIB)
    n = 60_000
    head = f"@relation r\n@attribute f {{{','.join(map(str, range(n)))}}}\n@attribute y {{0,1}}\n"
    path = write(f"{head}@data\n" + "7,1\n" * n, "set.arff")
    assert path.stat().st_size < 900_000
    with pytest.raises(DataFileError, match=r"60000 features and 1 labels takes about 30\.\d GiB"):
        read_arff(path, 1)


def test_an_encoding_that_is_none_is_refused(write):
    text = "@relation r\n@attribute f numeric\n@attribute y {0,1}\n@data\n1,1\n"
    with pytest.raises(ValueError, match="'foo' is not a text encoding"):
        read_arff(write(text), 1, encoding="foo")
    for encoding in ("foo", "utf-7", "shift_jis"):
        xml = write(f'<?xml version="1.0" encoding="{encoding}"?><labels/>', "set.xml")
        refused(read_arff, write(text), xml=xml, match=r"set\.xml")


# ------------------------------------------------------------------------------- Parquet and text


def test_a_hundred_million_rows_in_a_small_parquet_file_are_refused(tmp_path, monkeypatch):
    """With four gigabytes free, whatever this machine has: it might really make the table."""
    monkeypatch.setattr(files, "_probe", lambda: 4 * GIB)
    path, n = tmp_path / "set.parquet", 2**22
    group = pa.table({"x": pa.nulls(n, pa.float64()), "y": pa.nulls(n, pa.bool_())})
    with pq.ParquetWriter(path, group.schema) as writer:
        for _ in range(24):
            writer.write_table(group, row_group_size=n)
    assert path.stat().st_size < 1_000_000
    match = "a table of 100663296 rows and 2 columns takes about 6.0 GiB"
    refused(read_parquet, path, 1, match=match)
    refused(read_table, path, 1, match=match)


def test_a_parquet_file_of_repeated_rows_is_refused_unread(tmp_path, two_gigabytes):
    """On a machine with two gigabytes free: values that are there, not only announced."""
    path = tmp_path / "set.parquet"
    group = pa.table({"x": pa.repeat(1.5, 2**20), "y": pa.repeat(True, 2**20)})
    with pq.ParquetWriter(path, group.schema) as writer:
        for _ in range(64):
            writer.write_table(group, row_group_size=2**20)
    assert path.stat().st_size < 2**20
    match = "a table of 67108864 rows and 2 columns takes about 4.0 GiB"
    refused(read_parquet, path, 1, match=match)
    refused(read_table, path, 1, match=match)


def test_a_long_text_that_a_parquet_file_repeats_is_kept_once(tmp_path):
    path = tmp_path / "set.parquet"
    codes = pa.array([0, None] * 5000, pa.int32())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 50_000]))
    table = pa.table({"s": texts, "x": np.arange(10_000.0), "y": [1, 0] * 5000})
    pq.write_table(table, path, store_schema=False)  # which would say that it is a dictionary
    assert pq.read_schema(path).field("s").type == pa.string()
    assert path.stat().st_size < 200_000
    before = pa.default_memory_pool().max_memory()  # of this process so far
    frame = read_table(path, "y").frame
    assert pa.default_memory_pool().max_memory() - before < 2**24
    assert {len(text) for text in frame["s"].dropna()} == {50_000}
    assert len({id(text) for text in frame["s"].dropna()}) == 1
    assert frame["s"].isna().sum() == 5000


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(20) + b"PAR1", b"hello" * 9])
def test_what_is_no_parquet_file_is_refused(tmp_path, content):
    path = tmp_path / "set.parquet"
    path.write_bytes(content)
    for read in (read_parquet, read_table, RowBlocks.open):
        refused(read, path, 1, match="not a Parquet file, or the file is damaged")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no endless device")
@pytest.mark.parametrize(
    ("read", "suffix"),
    [
        (lambda path: read_csv(path, 1), ".csv"),
        (lambda path: read_table(path, 1), ".csv"),
        (lambda path: RowBlocks.open(path, 1), ".csv"),
        (lambda path: read_parquet(path, 1), ".parquet"),
        (lambda path: read_arff(path, 1), ".arff"),
        (read_svmlight, ".svm"),
        (read_npz, ".npz"),
        (read_mat, ".mat"),
    ],
)
def test_a_file_that_has_no_end_is_refused(tmp_path, read, suffix):
    path = tmp_path / f"set{suffix}"
    path.symlink_to("/dev/zero")
    refused(read, path, match="not a regular file")
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    refused(read, folder, match="not a regular file")


def test_links_to_files_are_followed(write, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(write("x,y\n1,0\n", "set.csv"))
    assert check_regular(link) == 8
    assert read_csv(link, 1).data.tolist() == [[1.0]]


def test_a_header_longer_than_a_cell_may_be_for_the_csv_module_is_read(write):
    name = "n" * 200_000
    path = write(f"{name},y\n1,0\n2,\n", "set.csv")  # the hole has the rows counted
    assert read_csv(path, 1).feature_names == [name]
    assert read_table(path, 1).feature_names == [name]
    blocks = RowBlocks.open(path, 1)
    assert list(blocks.feature_names) == [name]
    assert next(iter(blocks)).X.shape == (2, 1)


def test_a_quote_that_opens_in_the_header_does_not_take_the_square_of_the_file(write):
    path = write('"x,y\n' + "1,0\n" * 200_000, "set.csv")
    refused(read_csv, path, 1, match=r"set\.csv: this is not a table")


def test_a_packed_table_is_unpacked_up_to_what_memory_holds(tmp_path, monkeypatch):
    path = tmp_path / "set.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + b"1,0\n" * 1_000_000))
    monkeypatch.setattr(files, "_probe", lambda: 2**22)
    for read in (read_csv, read_table):
        refused(read, path, 1, match="the unpacked content does not fit into memory")
    path.write_bytes(gzip.compress(b"x,y\n1,0\n")[:-4])
    for read in (read_csv, read_table):
        refused(
            read, path, 1, match=r"set\.csv\.gz: this is not a \.gz file, or the file is damaged"
        )


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_file_larger_than_memory_is_still_read_in_blocks(tmp_path, monkeypatch, packed):
    pack = gzip.compress if packed else bytes
    csv, svm = tmp_path / f"set.csv{packed}", tmp_path / f"set.svm{packed}"
    csv.write_bytes(pack(b"x,y\n" + b"1,0\n2,1\n" * 1000))
    svm.write_bytes(pack(b"1 1:1\n2 1:2\n" * 1000))
    monkeypatch.setattr(files, "_probe", lambda: 3000)
    for blocks in (RowBlocks.open(csv, 1), RowBlocks.open(svm, [1, 2], n_features=1)):
        assert sum(len(block.T) for block in blocks) == 2000
    with pytest.raises(DataFileError, match="memory"):
        read_csv(csv, 1)
    with pytest.raises(DataFileError, match="memory"):
        read_svmlight(svm)


# ----------------------------------------------------------------------------------------- MATLAB


def mat_of(path, **changes):
    X = sp.csc_matrix(np.eye(6, 4))
    for part, value in changes.items():
        setattr(X, part, np.array(value, dtype=np.int32))
    savemat(path, {"X": X, "Y": np.eye(6, 2)})
    return path


@pytest.mark.parametrize(
    ("part", "value"),
    [("indices", [0, 1, 2, -5]), ("indices", [0, 1, 2, 6]), ("indices", [0, 1, 2, 2**30])],
)
def test_indices_of_a_matlab_file_that_point_elsewhere_are_refused(tmp_path, part, value):
    path = mat_of(tmp_path / "set.mat", **{part: value})
    refused(read_mat, path, match=r"set\.mat: .*(indices go from|damaged)")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ended with: Segmentation fault"),
        ("raise MemoryError", "file is damaged .*MemoryError"),
        ("print('{')", "set.mat"),
        ("import os; os.write(1, b'{\"there\": [], ')", "file is damaged"),
    ],
)
def test_a_reader_of_matlab_files_that_dies_takes_nothing_with_it(
    tmp_path, monkeypatch, code, message
):
    path = mat_of(tmp_path / "set.mat")
    script = tmp_path / "_mat_child.py"
    script.write_text(code)
    monkeypatch.setattr(_matrix_files, "_SCRIPT", script)
    refused(read_mat, path, match=message)


def test_the_reader_of_matlab_files_has_limits(tmp_path, monkeypatch):
    path = tmp_path / "set.mat"
    savemat(path, {"X": np.zeros((4000, 4000)), "Y": np.ones((4000, 1))}, do_compression=True)
    monkeypatch.setattr(files, "_probe", lambda: 2**28)
    refused(read_mat, path, match=r"set\.mat: .*memory")


def test_a_sparse_matrix_with_a_billion_rows_takes_no_memory_for_them(tmp_path):
    X = sp.csc_matrix(np.eye(24, 4))
    X._shape = (2**30 + 24, 4)
    savemat(tmp_path / "m.mat", {"X": X, "Y": np.eye(24, 2)})
    match = r"'X' of shape \(1073741848, 4\) and 'Y' of shape \(24, 2\) differ in sample counts"
    refused(read_mat, tmp_path / "m.mat", match=match)


def test_other_variables_of_a_matlab_file_are_not_even_read(tmp_path):
    path = tmp_path / "set.mat"
    savemat(path, {"X": np.eye(3), "Y": np.eye(3, 2), "cell": np.array([1, "a"], dtype=object)})
    assert read_mat(path).target.tolist() == np.eye(3, 2).tolist()
    refused(read_mat, path, X="cell", match="'cell' must be a matrix of numbers")
    savemat(path, {"X": np.eye(3) * 1j, "Y": np.eye(3, 2)})
    refused(read_mat, path, match="'X' must be a matrix of numbers, got dtype complex128")
