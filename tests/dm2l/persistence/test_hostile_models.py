"""Model files that lie about their sparse matrices, or make much of little."""

from __future__ import annotations

import hashlib
import io
import json
import time
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from crafted_models import save_unchecked, taken_apart
from dm2l import AutoClassifier, DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.persistence._reading import Reader
from dm2l.persistence._schema import parse
from dm2l.tables import make_table_pipeline

MANIFEST, HASH = "manifest.json", "manifest.sha256"
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
        name: {"sha256": hashlib.sha256(content).hexdigest()} for name, content in contents.items()
    }
    root = model if isinstance(model, str) else json.dumps(model)
    start = '{"format": "dm2l model", "version": 2, "members": '
    text = (start + json.dumps(records) + ', "model": ' + root + "}").encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    path.write_bytes(pack(contents | {MANIFEST: text, HASH: digest}))


def estimator(**parameters):
    settings = ("alpha", "fit_intercept", "solver", "missing_label", "missing_as")
    state = dict.fromkeys(settings) | parameters
    return {"kind": "object", "class": "MaskedRidgeClassifier", "state": state}


def array(name):
    return {"kind": "array", "member": name}


def refused_quickly(path, match):
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(ModelFileError, match=match) as caught:
            load_model(path)
        seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
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
    with pytest.raises(ModelFileError, match="is not a valid sparse matrix"):
        load_model(path)


def sigmoid_calibrator(n):
    names = {"rates": "r.npy", "fitted_labels": "f.npy", "slopes": "r.npy", "offsets": "r.npy"}
    state = {"method": "sigmoid"} | {key: array(name) for key, name in names.items()}
    node = {"kind": "object", "class": "Calibrator", "state": state}
    return node, {"r.npy": np.zeros(n), "f.npy": np.ones(n, dtype=bool)}


def test_curves_that_share_their_numbers_are_refused():
    n = 2000
    node, _ = sigmoid_calibrator(n)
    lengths = np.tile([n, 1 - n], 500)
    lengths[-1] = 1
    ones = np.ones(len(lengths))
    arrays = {"r.npy": ones, "f.npy": ones.astype(bool), "l.npy": lengths, "s.npy": np.zeros(n)}
    names = {"rates": "r.npy", "fitted_labels": "f.npy", "lengths": "l.npy"}
    names |= {"scores": "s.npy", "probabilities": "s.npy"}
    node["state"] = {"method": "isotonic"} | {key: array(name) for key, name in names.items()}
    with pytest.raises(ModelFileError, match="calibration curves whose lengths do not"):
        Reader(arrays.__getitem__, ()).read(node, parse("Calibrator"), "the curves", {})


@pytest.mark.parametrize("piece", ["[]", "{}", '{"kind": "tuple", "items": []}', "0"])
def test_a_manifest_of_very_many_small_things_is_refused(piece, tmp_path):
    many = "[" + ",".join([piece] * (30_000_000 // len(piece))) + "]"
    root = json.dumps(estimator(cv=0)).replace('"cv": 0', '"cv": ' + many)
    write(tmp_path / "bomb.dm2l", root, {})
    refused_quickly(tmp_path / "bomb.dm2l", "too many for a model|far more memory|more than")


def test_many_texts_are_read_at_once(tmp_path):
    names = {"kind": "objects", "shape": [500_000], "items": [f"w{k}" for k in range(500_000)]}
    write(tmp_path / "many.dm2l", estimator(cv=names) | {"kind": "unknown"}, {})
    refused_quickly(tmp_path / "many.dm2l", "not allowed there")
    reader = Reader({}.__getitem__, (), budget=16 * 10**7)
    start = time.process_time()
    assert len(reader.read(names, parse("O[n]"), "the names", {})) == 500_000
    assert time.process_time() - start < 2


def test_very_many_estimators_are_refused(tmp_path):
    steps = [{"kind": "tuple", "items": [f"s{k}", estimator()]} for k in range(8_000)]
    state = {"steps": steps, "memory": None, "verbose": False}
    write(tmp_path / "bomb.dm2l", {"kind": "object", "class": "Pipeline", "state": state}, {})
    refused_quickly(tmp_path / "bomb.dm2l", "far more memory than the size of the file")


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
    refused_quickly(
        tmp_path / "long.dm2l",
        "has the attribute|dtype|not exist|malformed|not allowed|too many",
    )


def test_sparse_nodes_inside_of_each_other_cost_no_more_than_their_length(tmp_path):
    node = {"kind": "float", "value": "y" * 5_000_000}
    for _ in range(100):
        node = {"kind": "sparse", "data": node, "shape": [1, 1], "format": "csr"}
    write(tmp_path / "deep.dm2l", estimator(cv=node), {})
    refused_quickly(tmp_path / "deep.dm2l", "an array None that does not exist")


@pytest.mark.parametrize("made", [CountVectorizer, TfidfVectorizer])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input", "filename"),
        ("input", "file"),
        ("token_pattern", "(a+)+$"),
        ("ngram_range", (1, 10**9)),
        ("encoding", "zlib"),
    ],
)
def test_a_vectoriser_that_does_harm_is_refused(made, name, value, tmp_path):
    path = tmp_path / "texts.dm2l"
    save_model(make_pipeline(made(), MaskedRidgeClassifier()), path)
    assert isinstance(load_model(path)[0], made)
    model = make_pipeline(made(**{name: value}), MaskedRidgeClassifier())
    with pytest.raises(TypeError, match=f"{name}.* is .*not allowed there"):
        save_model(model, path)
    save_unchecked(model, path)
    with pytest.raises(ModelFileError, match=f"{name}.* is .*not allowed there"):
        load_model(path)


@pytest.mark.parametrize("made", [CountVectorizer, TfidfVectorizer])
@pytest.mark.parametrize("place", [2, -1, 5_000_000, 2**40])
def test_a_vectoriser_that_puts_words_outside_of_its_columns_is_not_saved(made, place, tmp_path):
    """A file cannot say it: it lists the words in the order of their columns."""
    path = tmp_path / "texts.dm2l"
    vectorizer = made().fit(["some words", "words"])
    save_model(make_pipeline(vectorizer, MaskedRidgeClassifier()), path)
    assert load_model(path)[0].vocabulary_ == {"some": 0, "words": 1}
    vectorizer.vocabulary_["some"] = place
    with pytest.raises(TypeError, match="must map the n terms to the indices"):
        save_model(make_pipeline(vectorizer, MaskedRidgeClassifier()), path)


def test_a_vectoriser_with_fewer_weights_than_words_is_refused(tmp_path):
    path = tmp_path / "texts.dm2l"
    vectorizer = TfidfVectorizer().fit(["some words", "words"])
    vectorizer._tfidf.idf_ = vectorizer._tfidf.idf_[:1]
    save_unchecked(make_pipeline(vectorizer, MaskedRidgeClassifier()), path)
    with pytest.raises(ModelFileError, match="has size 1, but the other arrays require 2"):
        load_model(path)


def test_a_calibrator_without_curves_is_refused():
    node = {"kind": "object", "class": "Calibrator", "state": {"method": "sigmoid"}}
    with pytest.raises(ModelFileError, match="is a Calibrator that is not fitted"):
        Reader({}.__getitem__, ()).read(node, parse("Calibrator[c]"), "the curves", {})


# --------------------------------------------------- attributes that are absent or do not agree

FRAME = pd.DataFrame(X[:, :2], columns=["mass", "charge"])
FRAME.iloc[:4, 0] = np.nan
FRAME["phase"] = np.where(X[:, 2] > 0, "gas", "solid")
FRAME["note"] = [f"some words {k % 7}" for k in range(len(X))]
RARE = ColumnTransformer([("one", OneHotEncoder(min_frequency=14), ["phase"])])
WHOLE = {
    "table": lambda: make_table_pipeline(FRAME, DM2LClassifier()).fit(FRAME, Y),
    "codes": lambda: make_table_pipeline(FRAME[["mass", "phase"]]).set_params(
        labels=AutoClassifier("quick", random_state=0)
    ),
    "rare": lambda: make_pipeline(RARE, DM2LClassifier(kernel="rbf")),
    "forest": lambda: make_pipeline(
        StandardScaler(), MaskedOneVsRestClassifier(RandomForestClassifier(2, max_depth=2))
    ),
    "boosted": lambda: make_pipeline(
        StandardScaler(), MaskedOneVsRestClassifier(HistGradientBoostingClassifier(max_iter=2))
    ),
}


@pytest.fixture(scope="module", params=WHOLE)
def whole(request, tmp_path_factory):
    """Rows, a model that was fitted to them, and its file in parts."""
    rows = X if request.param in ("forest", "boosted") else FRAME
    model = WHOLE[request.param]().fit(rows, Y)
    path = tmp_path_factory.mktemp("whole") / "model.dm2l"
    save_model(model, path)
    return rows, model, unpack(path.read_bytes())


def objects(node):
    """All objects inside of a manifest."""
    if isinstance(node, dict) and node.get("kind") == "object":
        yield node
    for part in node.values() if isinstance(node, dict) else node if type(node) is list else ():
        yield from objects(part)


def rewritten(path, contents, root):
    """Write the members with another manifest, and only the arrays that it names."""
    text = json.dumps(root)
    others = {k: v for k, v in contents.items() if k.endswith(".npy") and f'"{k}"' in text}
    write(path, text, {}, others)


def test_a_model_without_an_attribute_is_refused_or_predicts_the_same(whole, tmp_path):
    rows, model, contents = whole
    root = json.loads(contents[MANIFEST])["model"]
    expected = model.predict_proba(rows)
    path, seen, loads = tmp_path / "model.dm2l", set(), set()
    for node in objects(root):
        for name in list(node["state"]):
            attribute = (node["class"], name)
            if attribute in seen:
                continue
            seen.add(attribute)
            value = node["state"].pop(name)
            rewritten(path, contents, root)
            node["state"][name] = value
            try:
                loaded = load_model(path)
            except ModelFileError:
                continue
            loads.add(attribute)
            if name != "feature_names_in_":  # rows of a frame are then refused
                np.testing.assert_array_equal(loaded.predict_proba(rows), expected)
    assert len(loads) < len(seen) / 3


@pytest.fixture
def table():
    """Parts of the file of a pipeline for a table, with its objects by class."""
    root, arrays = taken_apart(WHOLE["table"]())
    found = {node["class"]: node["state"] for node in objects(root)}
    return root, {name: npy(values) for name, values in arrays.items()}, found


def test_an_imputer_of_an_older_version_of_scikit_learn_loads(table, tmp_path):
    root, arrays, found = table
    found["SimpleImputer"].pop("_fill_dtype", None)
    rewritten(tmp_path / "older.dm2l", arrays, root)
    assert load_model(tmp_path / "older.dm2l").predict(FRAME).shape == Y.shape


def test_what_follows_from_the_steps_of_a_transformer_is_not_read_from_the_file(table, tmp_path):
    root, arrays, found = table
    found["ColumnTransformer"]["_transformer_to_input_indices"]["items"] = {"text1": [0]}
    found["ColumnTransformer"]["_columns"] = []
    rewritten(tmp_path / "other.dm2l", arrays, root)
    loaded = load_model(tmp_path / "other.dm2l")
    expected = WHOLE["table"]()
    assert vars(loaded[0].transformer_)["_columns"] == expected[0].transformer_._columns
    np.testing.assert_array_equal(loaded.predict(FRAME), expected.predict(FRAME))


def rename_step(found):
    found["ColumnTransformer"]["transformers"][0]["items"][0] = "other"


def rename_output(found):
    outputs = found["ColumnTransformer"]["output_indices_"]["items"]
    outputs["other"] = outputs.pop("numeric")


def rename_column(found):
    found["OneHotEncoder"]["feature_names_in_"]["items"][0] = "mass"


def nest_name(found):
    found["OneHotEncoder"]["feature_names_in_"]["items"][0] = ["phase"]


def nest_category(found):
    found["OneHotEncoder"]["categories_"][0]["items"] = [["gas"], "solid"]


def start_processes(found):
    found["ColumnTransformer"]["n_jobs"] = 4


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (rename_step, "has fitted steps whose names differ"),
        (rename_output, "has output_indices_ for steps that do not exist"),
        (rename_column, "passes columns to the step 'category' that were not"),
        (nest_name, r"feature_names_in_\[0\] is .*not allowed there"),
        (nest_category, r"categories_\[0\]\[0\] is .*not allowed there"),
        (start_processes, "n_jobs is 4, which is not allowed there"),
    ],
)
def test_steps_that_do_not_belong_together_are_refused(change, match, table, tmp_path):
    root, arrays, found = table
    change(found)
    rewritten(tmp_path / "other.dm2l", arrays, root)
    with pytest.raises(ModelFileError, match=match):
        load_model(tmp_path / "other.dm2l")
