"""Model files that lie about their sparse matrices, or make much of little."""

from __future__ import annotations

import hashlib
import io
import json
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.persistence import ModelFileError, load_model, save_model

MANIFEST, HASH, PARTS = "manifest.json", "manifest.sha256", "sklearn.skops"
X, Y = make_missing_multilabel(30, 5, 4, n_implications=2, random_state=0)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def pack(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def unpack(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, model, arrays, others=()):
    """A file with right hashes, of a manifest text or tree and these arrays."""
    contents = {name: npy(array) for name, array in arrays.items()} | dict(others)
    records = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for name, content in contents.items()
    }
    for name, array in arrays.items():
        records[name] |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    root = model if isinstance(model, str) else json.dumps(model)
    start = '{"format": "dm2l model", "version": 1, "slots": [], "members": '
    text = (start + json.dumps(records) + ', "model": ' + root + "}").encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    path.write_bytes(pack(contents | {MANIFEST: text, HASH: digest}))


def estimator(**parameters):
    return {"kind": "object", "class": "MaskedRidgeClassifier", "parameters": parameters}


def array(name):
    return {"kind": "array", "member": name}


def refused_quickly(path, match):
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(ModelFileError, match=match) as caught:
            load_model(path)
        seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 3000
    assert seconds < 10  # with tracing, on any machine; without it is a tenth
    assert peak < path.stat().st_size * 3 + 2**27


LIES = [
    ("an indptr that ends with zero", [1.0], [0], [0, 2000, 0], (2, 2**31 - 1)),
    ("no data and an indptr beyond", [], [], [0, 2000, 0], (2, 2**31 - 1)),
    ("a difference that wraps", [1.0] * 3, [0, 1, 2], [0, 1, -(2**31), -1, 3], (4, 3)),
    ("an indptr that falls", [1.0] * 3, [0, 1, 2], [0, 3, 1, 3], (3, 3)),
    ("an indptr that starts late", [1.0] * 3, [0, 1, 2], [1, 2, 3], (2, 3)),
    ("an index below", [1.0] * 2, [0, -5], [0, 1, 2], (2, 4)),
    ("an index beyond", [1.0] * 2, [0, 4], [0, 1, 2], (2, 4)),
    ("fewer entries than places", [1.0], [0, 1], [0, 1, 2], (2, 4)),
    ("rows that are not there", [1.0] * 2, [0, 1], [0, 1, 2], (2**40, 4)),
    ("a negative shape", [], [], [0], (0, -4)),
    ("no indptr", [], [], [], (0, 4)),
]


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie[0])
def test_sparse_matrices_that_lie_are_refused(lie, form, tmp_path):
    _, data, indices, indptr, shape = lie
    arrays = {
        "a.npy": np.array(data, dtype=float),
        "b.npy": np.array(indices, dtype=np.int32),
        "c.npy": np.array(indptr, dtype=np.int32),
    }
    node = {
        "kind": "sparse",
        "format": form,
        "container": "array",
        "shape": list(shape if form == "csr" else shape[::-1]),
        "data": array("a.npy"),
        "indices": array("b.npy"),
        "indptr": array("c.npy"),
    }
    path = tmp_path / "lie.dm2l"
    write(path, estimator(cv=node), arrays)
    with pytest.raises(ModelFileError, match="sparse matrix that is not valid"):
        load_model(path)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie[0])
def test_sparse_matrices_that_lie_inside_of_skops_are_refused(lie, tmp_path):
    pytest.importorskip("skops", reason="skops is an extra")
    path = tmp_path / "lie.dm2l"
    save_model(MaskedOneVsRestClassifier(KNeighborsClassifier(2)).fit(sp.csr_array(X), Y), path)
    members = unpack(path.read_bytes())
    inner = unpack(members[PARTS])
    name = next(name for name in inner if name.endswith(".npz"))
    _, data, indices, indptr, shape = lie
    matrix = unpack(inner[name]) | {
        "data.npy": npy(np.array(data, dtype=float)),
        "indices.npy": npy(np.array(indices, dtype=np.int32)),
        "indptr.npy": npy(np.array(indptr, dtype=np.int32)),
        "shape.npy": npy(np.array(shape, dtype=np.int64)),
    }
    members[PARTS] = pack(inner | {name: pack(matrix)})
    manifest = json.loads(members[MANIFEST])
    manifest["members"][PARTS] = {
        "sha256": hashlib.sha256(members[PARTS]).hexdigest(),
        "size": len(members[PARTS]),
    }
    members[MANIFEST] = json.dumps(manifest).encode()
    members[HASH] = hashlib.sha256(members[MANIFEST]).hexdigest().encode()
    path.write_bytes(pack(members))
    with pytest.raises(ModelFileError, match="sparse matrix that is not valid"):
        load_model(path)


def sigmoid_calibrator(n):
    names = {"rates": "r.npy", "fitted": "f.npy", "slopes": "r.npy", "offsets": "r.npy"}
    return {
        "kind": "object",
        "class": "Calibrator",
        "parameters": {"method": "sigmoid"},
        "attributes": {key: array(name) for key, name in names.items()},
    }, {"r.npy": np.zeros(n), "f.npy": np.ones(n, dtype=bool)}


def test_one_array_in_many_calibrators_is_refused(tmp_path):
    node, arrays = sigmoid_calibrator(2000)
    write(tmp_path / "bomb.dm2l", estimator(cv=[node] * 400), arrays)
    refused_quickly(tmp_path / "bomb.dm2l", "too much of too few bytes")


def test_curves_that_share_their_numbers_are_refused(tmp_path):
    n = 2000
    node, _ = sigmoid_calibrator(n)
    lengths = np.tile([n, 1 - n], 500)
    lengths[-1] = 1
    arrays = {"r.npy": np.zeros(n), "f.npy": np.ones(n, dtype=bool), "l.npy": lengths}
    node["parameters"]["method"] = "isotonic"
    node["attributes"] = {"rates": array("r.npy"), "fitted": array("f.npy")} | {
        key: array("r.npy") for key in ("scores", "probabilities")
    }
    node["attributes"]["lengths"] = array("l.npy")
    write(tmp_path / "bomb.dm2l", estimator(cv=node), arrays)
    refused_quickly(tmp_path / "bomb.dm2l", "curves of wrong lengths")


@pytest.mark.parametrize("piece", ["[]", "{}", '{"kind": "tuple", "items": []}', "0"])
def test_a_manifest_of_very_many_small_things_is_refused(piece, tmp_path):
    many = "[" + ",".join([piece] * (30_000_000 // len(piece))) + "]"
    root = json.dumps(estimator(cv=0)).replace('"cv": 0', '"cv": ' + many)
    write(tmp_path / "bomb.dm2l", root, {})
    refused_quickly(tmp_path / "bomb.dm2l", "too many for their length|too much of too few")


def test_a_schema_of_skops_of_very_many_small_things_is_refused(tmp_path):
    pytest.importorskip("skops", reason="skops is an extra")
    schema = b"[" + b"[]," * 10_000_000 + b"[]]"
    parts = pack({"schema.json": schema})
    path = tmp_path / "bomb.dm2l"
    write(path, {"kind": "sklearn", "part": 0}, {}, {PARTS: parts}.items())
    refused_quickly(path, "too many for their length")


def test_very_many_estimators_are_refused(tmp_path):
    write(tmp_path / "bomb.dm2l", estimator(cv=[estimator()] * 60_000), {})
    refused_quickly(tmp_path / "bomb.dm2l", "too much of too few bytes")


@pytest.mark.parametrize("place", ["kind", "class", "key", "dtype", "member", "format"])
def test_a_very_long_text_is_refused_in_a_short_message(place, tmp_path):
    long = "x " * 10_000_000
    inside = {
        "kind": {"kind": long},
        "class": {"kind": "object", "class": long},
        "key": estimator(**{long: 1}),
        "dtype": {"kind": "dtype", "name": "i4," * 2_000_000},
        "member": array(long),
        "format": {"kind": "float", "value": long},
    }[place]
    write(tmp_path / "long.dm2l", estimator(cv=inside), {})
    refused_quickly(tmp_path / "long.dm2l", "unknown|no parameter|dtype|not there|malformed")


def test_sparse_nodes_inside_of_each_other_cost_no_more_than_their_length(tmp_path):
    node = {"kind": "float", "value": "y" * 5_000_000}
    for _ in range(100):
        node = {"kind": "sparse", "data": node, "shape": [1, 1], "format": "csr"}
    write(tmp_path / "deep.dm2l", estimator(cv=node), {})
    refused_quickly(tmp_path / "deep.dm2l", "malformed")


@pytest.mark.parametrize("made", [CountVectorizer, TfidfVectorizer])
def test_a_vectoriser_that_opens_files_is_refused(made, tmp_path):
    pytest.importorskip("skops", reason="skops is an extra")
    path = tmp_path / "texts.dm2l"
    save_model(make_pipeline(made(), MaskedRidgeClassifier()), path)
    assert isinstance(load_model(path)[0], made)
    for setting in ("filename", "file"):
        save_model(make_pipeline(made(input=setting), MaskedRidgeClassifier()), path)
        with pytest.raises(ModelFileError, match=f"input='{setting}' and would open"):
            load_model(path)


@pytest.mark.parametrize("made", [CountVectorizer, TfidfVectorizer])
@pytest.mark.parametrize("place", [2, -1, 5_000_000, 2**40, 1.0, None])
def test_a_vectoriser_that_puts_words_outside_of_its_columns_is_refused(made, place, tmp_path):
    pytest.importorskip("skops", reason="skops is an extra")
    path = tmp_path / "texts.dm2l"
    vectoriser = made().fit(["some words", "words"])
    save_model(make_pipeline(vectoriser, MaskedRidgeClassifier()), path)
    assert load_model(path)[0].vocabulary_ == {"some": 0, "words": 1}
    vectoriser.vocabulary_["some"] = place
    save_model(make_pipeline(vectoriser, MaskedRidgeClassifier()), path)
    with pytest.raises(ModelFileError, match="does not number its words from 0 on"):
        load_model(path)


def test_a_vectoriser_with_fewer_weights_than_words_is_refused(tmp_path):
    pytest.importorskip("skops", reason="skops is an extra")
    path = tmp_path / "texts.dm2l"
    vectoriser = TfidfVectorizer().fit(["some words", "words"])
    vectoriser._tfidf.idf_ = vectoriser._tfidf.idf_[:1]
    save_model(make_pipeline(vectoriser, MaskedRidgeClassifier()), path)
    with pytest.raises(ModelFileError, match=r"weights of shape \(1,\) for 2 words"):
        load_model(path)


def test_ten_thousand_labels_with_curves_load(tmp_path):
    """What real models need is far from what is refused."""
    made = DM2LClassifier(calibration="sigmoid", cv=2).fit(X, Y)
    n = 10_000
    calibrator = made._calibrator
    calibrator._maps = [calibrator._maps[k % 4] for k in range(n)]
    calibrator._rates = np.tile(calibrator._rates, n // 4)
    save_model(made, tmp_path / "many.dm2l")
    assert len(load_model(tmp_path / "many.dm2l")._calibrator._maps) == n
