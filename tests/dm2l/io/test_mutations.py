"""Every reader meets hundreds of damaged files: each is read, or refused as a file should be."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from dm2l._utils.files import DataFileError
from dm2l.io import read_arff, read_csv, read_npz, read_parquet, read_svmlight
from dm2l.io._columns import ColumnRequestError
from dm2l.outofcore._block_readers import csv_blocks
from dm2l.tables import read_table
from mutants import mutants

CSV = b'id,mass,"a, b",tox_a,tox_b\n1,2.5,x,yes,\n2,-1e3,"y ""z""",no,1\n3,?,w,NA,0\n'
NUMBERS = b"mass;charge;tox_a;tox_b\n2.5;1;yes;\n-1e3;2;no;1\n3;?;NA;0\n"
ARFF = (
    b"@relation 'r: -C -2'\n@attribute f numeric\n@attribute 'g h' {a,'b c',d}\n"
    b"@attribute y {0,1}\n@attribute z {no,yes}\n@data\n1.5,a,1,yes\n?,'b c',?,no\n"
    b"{0 2.5,1 d,3 yes}\n% end\n"
)
SVM = b"# head\n2,5 1:0.5 3:1\n5 2:2\n \n2 1:1e3 4:-7 # note\n"


def npz(*, sparse, packed):
    X = sp.csr_array(np.array([[0, 2.0, 0], [1, 0, 3]]))
    parts = {"X": X.toarray()}
    if sparse:
        parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr}
        parts["X_shape"] = np.array(X.shape)
    file = io.BytesIO()
    save = np.savez_compressed if packed else np.savez
    save(file, **parts, Y=np.eye(2), label_names=np.array(["a", "b"]), source=np.array("s"))
    return file.getvalue()


def parquet():
    table = pa.table({"x": [1.5, None, 3.0], "s": ["a", "b", None], "y": [True, None, False]})
    file = pa.BufferOutputStream()
    pq.write_table(table, file)
    return file.getvalue().to_pybytes()


READERS = {
    "csv": (CSV, "t.csv", lambda p: read_table(p, "tox_*")),
    "csv of numbers": (NUMBERS, "t.csv", lambda p: read_csv(p, "tox_*")),
    "csv in blocks": (NUMBERS, "t.csv", lambda p: list(csv_blocks([p], "tox_*", rows=2)[0]())),
    "parquet": (parquet(), "t.parquet", lambda p: read_table(p, "y")),
    "parquet of numbers": (parquet(), "t.parquet", lambda p: read_parquet(p, "y", drop="s")),
    "arff": (ARFF, "t.arff", read_arff),
    "svmlight": (SVM, "t.svm", read_svmlight),
    "dense npz": (npz(sparse=False, packed=True), "t.npz", read_npz),
    "sparse npz": (npz(sparse=True, packed=True), "t.npz", read_npz),
    "plain npz": (npz(sparse=True, packed=False), "t.npz", lambda p: read_table(p)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_read_or_refused(tmp_path, reader):
    content, name, read = READERS[reader]
    path = tmp_path / name
    path.write_bytes(content)
    read(path)
    refusals = 0
    for mutant in mutants(content, 300):
        path.write_bytes(mutant)
        try:
            # What numpy warns of in numbers like 1e999 is not the subject.
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                read(path)
        except (DataFileError, ColumnRequestError) as error:
            refusals += 1
            assert "\n" not in str(error)  # noqa: PT017 - that it is raised is not required
    assert refusals > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_damaged_matlab_file_is_read_or_refused_even_if_its_reader_dies():
    script = Path(__file__).with_name("mutated_mat.py")
    tests = str(Path(__file__).parents[2])
    path = os.pathsep.join([tests, *sys.path])
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", str(script), "50"],
        env=os.environ | one_thread | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["sound"] == 6
    assert found["read"] + found["refused"] + found.get("killed", 0) == 300
    assert found["refused"] > 50
