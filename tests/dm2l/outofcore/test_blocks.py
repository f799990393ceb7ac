"""Row blocks: the same rows and labels from every source, pass after pass."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from dm2l.labels._matrix import LabelForm, parse_labels
from dm2l.outofcore import RowBlocks

N, D, C = 23, 4, 3


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    Y = rng.choice([0.0, 1.0, np.nan], size=(N, C))
    Y[:2] = [[0, 1, 0], [1, 0, 1]]
    return X, Y


def frame_of(X, Y):
    columns = {f"x{j}": X[:, j] for j in range(D)} | {f"y{j}": Y[:, j] for j in range(C)}
    return pd.DataFrame(columns)


def write_parquet(path, X, Y, group=5):
    table = pa.table(
        {f"x{j}": X[:, j] for j in range(D)}
        | {
            f"y{j}": pa.array(np.nan_to_num(Y[:, j]).astype(np.int8), mask=np.isnan(Y[:, j]))
            for j in range(C)
        }
    )
    pq.write_table(table, path, row_group_size=group)


def write_svmlight(path, X, Y):
    lines = []
    for x, y in zip(X, Y, strict=True):
        labels = ",".join(str(j) for j in range(C) if y[j] == 1)
        lines.append(f"{labels} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(x.tolist())))
    path.write_text("\n".join(lines) + "\n")


def make_source(kind, folder, X, Y, rows=7):
    if kind == "arrays":
        return RowBlocks.from_arrays(X, Y, rows=rows)
    if kind == "frames":
        frame = frame_of(X, Y)
        return RowBlocks.from_arrays(frame.iloc[:, :D], frame.iloc[:, D:], rows=rows)
    if kind == "callable":
        starts = range(0, N, rows)
        return RowBlocks(lambda: ((X[i : i + rows], Y[i : i + rows]) for i in starts))
    if kind == "npy":
        np.save(folder / "X.npy", X)
        np.save(folder / "Y.npy", Y)
        return RowBlocks.open(folder / "X.npy", folder / "Y.npy", rows=rows)
    if kind in ("npz", "npz by columns"):
        order = "F" if kind == "npz by columns" else "C"
        np.savez(folder / "both.npz", other=np.arange(5), X=np.asarray(X, order=order), Y=Y)
        return RowBlocks.open(folder / "both.npz", rows=rows)
    if kind == "parquet":
        write_parquet(folder / "table.parquet", X, Y)
        return RowBlocks.open(folder / "table.parquet", labels="y*", rows=rows)
    if kind == "two parquet":
        write_parquet(folder / "a.parquet", X[:11], Y[:11])
        write_parquet(folder / "b.parquet", X[11:], Y[11:])
        return RowBlocks.open([folder / "a.parquet", folder / "b.parquet"], labels=C)
    if kind == "csv":
        frame_of(X, Y).to_csv(folder / "table.csv", index=False)
        return RowBlocks.open(folder / "table.csv", labels="y*", rows=rows)
    raise AssertionError(kind)


KINDS = (
    "arrays",
    "frames",
    "callable",
    "npy",
    "npz",
    "npz by columns",
    "parquet",
    "two parquet",
    "csv",
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_rows_in_every_pass(kind, data, tmp_path):
    X, Y = data
    source = make_source(kind, tmp_path, X, Y)
    for _ in range(3):
        blocks = list(source)
        assert len(blocks) > 1
        np.testing.assert_allclose(np.concatenate([b.X for b in blocks]), X, rtol=1e-13)
        np.testing.assert_array_equal(np.concatenate([b.T for b in blocks]), parse_labels(Y).signs)
    assert (source.n_rows, source.n_features, source.n_labels) == (N, D, C)
    named = kind not in ("arrays", "callable", "npy", "npz", "npz by columns")
    assert (source.feature_names is not None) == named
    if named:
        assert list(source.feature_names) == [f"x{j}" for j in range(D)]
        assert list(source.labels.names) == [f"y{j}" for j in range(C)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 7, 12, N, 100])
def test_the_head_is_the_first_rows(kind, rows, data, tmp_path):
    X, Y = data
    blocks = list(make_source(kind, tmp_path, X, Y).head(rows))
    np.testing.assert_allclose(np.concatenate([b.X for b in blocks]), X[:rows], rtol=1e-13)
    np.testing.assert_array_equal(
        np.concatenate([b.T for b in blocks]), parse_labels(Y).signs[:rows]
    )


def test_svmlight_lists_positives_and_says_nothing_of_the_rest(data, tmp_path):
    X, Y = data
    write_svmlight(tmp_path / "rows.svm", X, Y)
    for absent, other in (("negative", -1), ("missing", 0)):
        source = RowBlocks.open(
            tmp_path / "rows.svm", range(C), n_features=D, rows=6, missing_as=absent
        )
        blocks = list(source)
        assert len(blocks) == 4
        assert sp.issparse(source.first().X)
        np.testing.assert_allclose(sp.vstack([b.X for b in blocks]).toarray(), X)
        expected = np.where(Y == 1, 1, other)
        np.testing.assert_array_equal(np.concatenate([b.T for b in blocks]), expected)
    with pytest.raises(ValueError, match=r"label 2 of this file is not listed in labels="):
        list(RowBlocks.open(tmp_path / "rows.svm", [0, 1], n_features=D))


def test_svmlight_blocks_are_made_of_rows_not_of_lines(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("# head\n#\n#\n1 1:1\n \n# note\n0 2:3\n 1:4\n \n\n\n")
    blocks = list(RowBlocks.open(path, [0, 1], n_features=2, rows=2))
    X = sp.vstack([block.X for block in blocks]).toarray()
    np.testing.assert_array_equal(X, [[1, 0], [0, 0], [0, 3], [4, 0], [0, 0]])
    assert [len(block.T) for block in blocks] == [2, 2, 1]
    path.write_text("1 1:1\n0 2:1\n1 0:1\n")
    with pytest.raises(
        ValueError, match=r"rows\.svm, line 3: .* 0, but indices must be from 1 to 2"
    ):
        list(RowBlocks.open(path, [0, 1], n_features=2, rows=2))


def test_numbers_of_parquet_keep_their_precision(data, tmp_path):
    X, Y = data
    for dtype, expected in ((np.float32, np.float32), (np.float64, np.float64)):
        write_parquet(tmp_path / "t.parquet", X.astype(dtype), Y)
        block = RowBlocks.open(tmp_path / "t.parquet", labels="y*").first()
        assert block.X.dtype == expected
    mixed = pa.table({"a": [1, 2], "b": [True, False], "y": [True, None], "note": ["p", "q"]})
    pq.write_table(mixed, tmp_path / "mixed.parquet")
    with pytest.raises(ValueError, match=r"'note' has the type string"):
        RowBlocks.open(tmp_path / "mixed.parquet", labels="y")
    block = RowBlocks.open(tmp_path / "mixed.parquet", labels="y", drop="note").first()
    np.testing.assert_array_equal(block.X, [[1, 1], [2, 0]])
    np.testing.assert_array_equal(block.T, [[1], [0]])


@pytest.mark.parametrize("group", [1, 3, 4, 50])
@pytest.mark.parametrize("rows", [2, 7, 23])
def test_row_groups_and_blocks_need_not_match(group, rows, data, tmp_path):
    X, Y = data
    write_parquet(tmp_path / "t.parquet", X, Y, group)
    blocks = list(RowBlocks.open(tmp_path / "t.parquet", labels="y*", rows=rows))
    np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), X)
    assert max(len(b.T) for b in blocks) <= max(1.5 * rows, group / max(1, round(group / rows)) + 1)


def test_compressed_archives_cannot_be_mapped(data, tmp_path):
    X, Y = data
    np.savez_compressed(tmp_path / "small.npz", X=X, Y=Y)
    with pytest.raises(ValueError, match=r"compressed.*numpy\.savez"):
        RowBlocks.open(tmp_path / "small.npz")
    np.savez(tmp_path / "other.npz", A=X)
    with pytest.raises(ValueError, match=r"no array 'X', but has A"):
        RowBlocks.open(tmp_path / "other.npz")


def test_a_pass_that_differs_from_the_first_is_an_error(data):
    X, Y = data
    left = [3, 3, 2]

    def read():
        for i in range(left.pop(0)):
            yield X[i : i + 2], Y[i : i + 2]

    source = RowBlocks(read)
    assert sum(len(b.T) for b in source) == 6
    assert sum(len(b.T) for b in source) == 6
    with pytest.raises(
        ValueError, match="4 rows in 2 blocks, but the first pass returned 6 rows in 3"
    ):
        list(source)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_generator_that_is_used_up_is_named_as_the_cause(ahead, data):
    X, Y = data
    generator = ((X[i : i + 5], Y[i : i + 5]) for i in range(0, N, 5))
    source = RowBlocks(lambda: generator, ahead=ahead)
    assert len(list(source)) == 5
    with pytest.raises(ValueError, match="only once"):
        list(source)
    with pytest.raises(TypeError, match="lambda"):
        RowBlocks(generator)


def test_blocks_have_to_fit_together(data):
    X, Y = data
    cases = {
        "Block 1: .*has 3 features": (X[:, :3], Y),
        "Block 1: .*2 labels .*earlier blocks had 3": (X, Y[:, :2]),
        "X has 23 rows, but Y has 22": (X, Y[1:]),
        "Block 1: .*codes negatives as -1": (X, np.where(Y == 0, -1, Y)),
        "Block 1: .*contains 7": (X, np.where(np.isnan(Y), 7, Y)),
        "Block 1: .*NaN": (np.where(X > 1, np.nan, X), Y),
    }
    for message, block in cases.items():
        source = RowBlocks(lambda block=block: [(X, Y), block])
        with pytest.raises(ValueError, match=message):
            list(source)


@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_while_reading_reaches_the_reader(ahead, data):
    X, Y = data

    def read():
        yield X, Y
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(RowBlocks(read, ahead=ahead))


def test_what_is_read_ahead_is_one_block_and_its_thread_ends(data):
    X, Y = data
    read = []

    def pieces():
        for i in range(5):
            read.append(i)
            yield X, Y

    before = threading.active_count()
    blocks = iter(RowBlocks(pieces))
    for i in range(4):
        next(blocks)
        assert len(read) <= i + 2
    blocks.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("rows", [None, 4])
def test_masks_and_marks_hide_labels_block_by_block(rows, data):
    X, Y = data
    mask = np.random.default_rng(1).random(Y.shape) < 0.5
    filled = np.nan_to_num(Y, nan=-7.0)
    source = RowBlocks.from_arrays(X, filled, label_mask=mask, rows=rows, missing_label=-7)
    found = np.concatenate([block.T for block in source])
    np.testing.assert_array_equal(found, np.where(mask, parse_labels(Y).signs, 0))


def test_a_class_for_every_row_needs_all_classes(data):
    X, _ = data
    y = np.array(["a", "b", "c"])[np.arange(N) % 3]
    source = RowBlocks.from_arrays(X, y, rows=2)
    T = np.concatenate([block.T for block in source])
    np.testing.assert_array_equal(T, np.where(y[:, None] == ["a", "b", "c"], 1, -1))
    assert source.labels.kind == "multiclass"
    with pytest.raises(ValueError, match=r"needs classes="):
        list(RowBlocks(lambda: [(X, y)]))
    with pytest.raises(ValueError, match=r"'c', which is not among"):
        list(RowBlocks(lambda: [(X, y)], classes=["a", "b"]))
    head = source.head(1)
    assert head.labels.n_labels == 3


def test_labels_keep_one_form_over_blocks():
    form = LabelForm()
    form.read(np.array([[1, 1]], dtype=np.int8))
    assert form.labels.negative == 0
    assert form.labels.dtype == np.int8
    form.read(np.array([[np.nan, -1.0]]))
    assert form.labels.negative == -1
    assert form.labels.dtype == np.int64
    with pytest.raises(ValueError, match="codes negatives as 0"):
        form.read([[0, 1]])
    np.testing.assert_array_equal(form.read([[np.nan, np.nan]]), [[0, 0]])
    # Positives only say nothing new among signed labels, and would be refused alone.
    np.testing.assert_array_equal(form.read(sp.csr_array([[1.0, 0.0]])), [[1, 0]])
    with pytest.raises(ValueError, match="positives only"):
        LabelForm().read(sp.csr_array([[1.0, 0.0]]))


def test_names_of_labels_must_not_change():
    form = LabelForm()
    form.read(pd.DataFrame({"a": [1], "b": [0]}))
    form.read([[1, 0]])
    with pytest.raises(ValueError, match="'b', 'a'"):
        form.read(pd.DataFrame({"b": [1], "a": [0]}))


def test_csv_knows_words_and_names_what_it_cannot_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,tag,note\n1,2,yes,p\n3,4,?,q\n5,6,no,r\n")
    source = RowBlocks.open(path, labels="tag", drop="note", rows=2)
    blocks = list(source)
    np.testing.assert_array_equal(np.concatenate([b.T for b in blocks]), [[1], [0], [-1]])
    with pytest.raises(ValueError, match="feature 'note' has a value that is not a number"):
        list(RowBlocks.open(path, labels="tag"))
    path.write_text("a,tag\n1,perhaps\n")
    with pytest.raises(ValueError, match="label 'tag' holds 'perhaps'"):
        list(RowBlocks.open(path, labels="tag"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n1,2,1\n3,4\n5,6,0\n", "line 3: row 2 has 2 cells, but the header has 3"),
        ("a,b,y\n1,2,1\n3,4,5,1\n5,6,0\n", "line 3: row 2 has 4 cells, but the header has 3"),
        ("a,b,y\n1,2,1,\n3,4,0,\n", "line 2: row 1 has 4 cells, but the header has 3"),
        ('a,b,y\n\n1,2,1\n"3",4,0\n5\n', "line 5: row 3 has 1 cells, but the header has 3"),
        ("a,y,y\n1,0,0\n", "several columns named 'y'"),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 50])
def test_csv_rows_that_do_not_fit_the_header_are_refused(tmp_path, text, message, rows):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        list(RowBlocks.open(path, labels=["y"], rows=rows))


def test_csv_rows_with_quotes_and_blank_lines_fit_the_header(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text('a,note,y\n1,"x, y\n\n1,2",yes\n\n2,,\n   \n')
    second.write_text('a,note,y\n3,5" pipe,no\n4, "p,q" ,no\n')
    source = RowBlocks.open([first, second], labels="y", drop="note", rows=1)
    for _ in range(2):
        blocks = list(source)
        np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]).ravel(), [1, 2, 3, 4])
        np.testing.assert_array_equal(np.concatenate([b.T for b in blocks]).ravel(), [1, 0, -1, -1])


@pytest.mark.parametrize("rows", [0, -1, 2.5, "many"])
def test_numbers_of_rows_are_checked(rows, data):
    with pytest.raises(ValueError, match="rows must be an integer >= 1"):
        RowBlocks.from_arrays(*data, rows=rows)


def test_files_of_unknown_formats_and_options_of_other_formats_are_refused(data, tmp_path):
    X, Y = data
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "both.npz", X=X[:, 0], Y=Y)
    with pytest.raises(ValueError, match=r"rows\.xml: files of this type.*\.parquet, \.pq, \.csv"):
        RowBlocks.open(tmp_path / "rows.xml", "y*")
    with pytest.raises(TypeError, match=r"\.npy files have no option cutoffs"):
        RowBlocks.open(tmp_path / "X.npy", tmp_path / "X.npy", cutoffs=["y>1"])
    with pytest.raises(ValueError, match="file of the labels as labels="):
        RowBlocks.open(tmp_path / "X.npy")
    with pytest.raises(ValueError, match="2-D array, got shape"):
        RowBlocks.open(tmp_path / "both.npz")
    with pytest.raises(ValueError, match="list of files to read is empty"):
        RowBlocks.open([], "y*")
    with pytest.raises(ValueError, match="one or more distinct label numbers"):
        RowBlocks.open(tmp_path / "rows.svm", n_features=3)
