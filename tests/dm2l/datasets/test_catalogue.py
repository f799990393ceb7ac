"""The catalogue, the cache and fetching: nothing unchecked is opened, nothing partial is kept."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import sys
import tarfile
import threading
import zipfile
from dataclasses import FrozenInstanceError, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.io import savemat

from dm2l.datasets import (
    DataSetCard,
    _load,
    _unpack,
    catalogue,
    content_hash,
    duplicate_groups,
    load_dataset,
)
from dm2l.datasets._unpack import unpack

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
        assert (card.url is None) == (card.file_sha256 is None)
    assert len({card.sha256 for card in cards.values()}) == len(cards)


def test_cards_cannot_be_changed_by_accident():
    cards = catalogue()
    with pytest.raises(FrozenInstanceError):
        cards["Arts"].n = 1
    del cards["Arts"]
    assert "Arts" in catalogue()


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="DM2L_DATA does not name a folder with the data sets")
@pytest.mark.parametrize("name", sorted(PAPER | OTHERS))
def test_a_card_describes_the_set_that_is_there(name):
    bunch, card = load_dataset(name, verify=True, download=False), catalogue()[name]
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
        (np.eye(3), np.eye(2), r"X of shape \(3, 3\) and Y of shape \(2, 2\) are no data set"),
        (np.eye(2), 2 * np.eye(2), "label 0 holds 2"),
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
def places(tmp_path, monkeypatch):
    """A data folder and a cache folder of the test's own, and a catalogue with one card."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("DM2L_DATA", str(data))
    monkeypatch.setenv("DM2L_CACHE", str(cache))
    monkeypatch.setattr(_load, "catalogue", lambda: {"tiny": TINY})
    return data, cache


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []


def test_the_data_folder_comes_before_the_cache(places):
    data, cache = places
    cache.mkdir()
    (cache / "tiny.npz").write_bytes(npz_bytes(source=np.array("cache")))
    assert load_dataset("tiny").source == "cache"
    (data / "tiny.npz").write_bytes(npz_bytes(source=np.array("data")))
    assert load_dataset("tiny").source == "data"


def test_the_cache_serves_without_a_data_folder(places, monkeypatch):
    _, cache = places
    monkeypatch.delenv("DM2L_DATA")
    cache.mkdir()
    (cache / "tiny.npz").write_bytes(npz_bytes())
    assert load_dataset("tiny", verify=True).data.shape == (2, 3)


def test_files_as_their_homes_hand_them_out_are_found_by_name(places):
    data, _ = places
    savemat(data / "tiny.mat", {"data": X_TINY, "target": (2 * Y_TINY - 1).T})
    assert load_dataset("tiny", verify=True).target_names is None
    (data / "tiny.arff").write_text(ARFF)
    (data / "tiny.xml").write_text(XML)
    assert load_dataset("tiny", verify=True).target_names == ["y", "z"]
    (data / "tiny.npz").write_bytes(npz_bytes(label_names=np.array(["p", "q"])))
    assert load_dataset("tiny", verify=True).target_names == ["p", "q"]


def test_another_edition_is_found_out_when_asked(places):
    data, _ = places
    (data / "tiny.npz").write_bytes(npz_bytes(X=2 * X_TINY))
    assert load_dataset("tiny").data.max() == 4
    with pytest.raises(ValueError, match=r"does not hold tiny .*hash .*another edition"):
        load_dataset("tiny", verify=True)


def test_a_set_without_a_card_cannot_be_verified(places):
    data, _ = places
    (data / "own.npz").write_bytes(npz_bytes())
    assert load_dataset("own").data.shape == (2, 3)
    with pytest.raises(ValueError, match="'own' is not in the catalogue"):
        load_dataset("own", verify=True)


def test_a_set_that_cannot_be_fetched_says_where_it_lives_and_belongs(places, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("tiny")
    text = str(caught.value)
    assert f"No tiny.npz in DM2L_DATA={places[0]}. Present: none." in text
    assert "no file to fetch" in text
    assert TINY.home in text
    assert "tiny.npz, tiny.arff with tiny.xml, or tiny.mat" in text
    monkeypatch.delenv("DM2L_DATA")
    with pytest.raises(FileNotFoundError, match=r"export DM2L_DATA=(.|\n)*example\.org"):
        load_dataset("tiny")
    with pytest.raises(FileNotFoundError, match="export DM2L_DATA=") as caught:
        load_dataset("other")
    assert "Get it from" not in str(caught.value)


def test_without_pooch_files_are_found_and_fetching_names_the_extra(places, monkeypatch):
    data, _ = places
    monkeypatch.delenv("DM2L_CACHE")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match="no file to fetch"):
        load_dataset("tiny")
    card = replace(TINY, url="http://127.0.0.1:9/tiny.npz", file_sha256="0" * 64)
    monkeypatch.setattr(_load, "catalogue", lambda: {"tiny": card})
    with pytest.raises(ImportError, match=r"needs pooch.*pip install 'dm2l\[data\]'"):
        load_dataset("tiny")
    (data / "tiny.npz").write_bytes(npz_bytes())
    assert load_dataset("tiny").data.shape == (2, 3)


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch):
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("DM2L_CACHE", raising=False)
    from dm2l.datasets._fetch import cache_folder

    assert cache_folder() == pooch.os_cache("dm2l")


# ----------------------------------------------------------------------------------------- fetching


@pytest.fixture
def server(places, monkeypatch):
    """Serve bytes on loopback; ``serve(name, body)`` puts their address and hash on the card."""
    pytest.importorskip("pooch")
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    bodies, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = bodies.get(self.path)
            if body is None:
                self.send_error(404)
                return
            cut = self.path.startswith("/cut/")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{http.server_port}"

        def serve(path, body, **changes):
            bodies[path] = body
            digest = hashlib.sha256(body or b"").hexdigest()
            card = replace(TINY, **{"url": address + path, "file_sha256": digest, **changes})
            monkeypatch.setattr(_load, "catalogue", lambda: {"tiny": card})

        serve.asked = asked
        yield serve
        http.shutdown()


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return file.getvalue()


def tarred(members, mode="w:gz"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, body in members.items():
            if isinstance(body, tarfile.TarInfo):
                archive.addfile(body)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return file.getvalue()


def mat_bytes():
    file = io.BytesIO()
    savemat(file, {"X": X_TINY, "Y": Y_TINY})
    return file.getvalue()


FORMS = {
    "/tiny.npz": npz_bytes(),
    "/some%20where/TINY.MAT?raw=1": mat_bytes(),
    "/tiny.zip": zipped(
        {"tiny/Tiny.arff": ARFF, "tiny/Tiny.xml": XML, "tiny/tiny-train.arff": "x"}
    ),
    "/tiny.tar.gz": tarred({"only.npz": npz_bytes(), "README": b"read me"}),
    "/tiny.tgz": tarred(
        {"./a/tiny.MAT": mat_bytes(), "./b/notes.txt": b"x", "./a/other.npz": b"x"}
    ),
}


@pytest.mark.parametrize("path", FORMS)
def test_a_set_is_fetched_once_and_kept_as_one_archive(server, places, path):
    _, cache = places
    server(path, FORMS[path])
    for _ in range(2):
        bunch = load_dataset("tiny", verify=True)
        np.testing.assert_array_equal(bunch.data, X_TINY)
        np.testing.assert_array_equal(bunch.target, Y_TINY)
        assert bunch.source.endswith(path)
    assert len(server.asked) == 1
    assert files(cache) == ["tiny.npz"]


def test_nothing_is_fetched_when_it_is_not_allowed(server, places):
    server("/tiny.npz", npz_bytes())
    with pytest.raises(FileNotFoundError, match=r"not fetched \(download=False\)"):
        load_dataset("tiny", download=False)
    assert server.asked == []
    assert files(places[1]) == []


def bomb():
    return zipped({"tiny.arff": bytes(200_000)})


@pytest.mark.parametrize(
    ("path", "body", "changes", "error", "message"),
    [
        ("/tiny.npz", npz_bytes(), {"file_sha256": "0" * 64}, ValueError, "does not match"),
        ("/tiny.npz", npz_bytes(), {"sha256": "0" * 64}, ValueError, "does not hold tiny"),
        ("/tiny.npz", npz_bytes(X=-X_TINY), {}, ValueError, "does not hold tiny"),
        ("/cut/tiny.npz", npz_bytes(), {}, ConnectionError, "could not be fetched"),
        ("/gone.npz", None, {}, ConnectionError, "could not be fetched"),
        ("/tiny.rar", b"Rar!", {}, ValueError, "'tiny.rar' is in no form"),
        ("/tiny.zip", b"no archive", {}, ValueError, "neither a zip nor a tar"),
        ("/tiny.zip", zipped({"a.txt": "x"}), {}, ValueError, "no single file for tiny.*none"),
        ("/tiny.zip", zipped({"a.mat": "x", "b.mat": "x"}), {}, ValueError, "readable .*a, b"),
        ("/tiny.zip", zipped({"../tiny.npz": "x"}), {}, ValueError, "'..' in its path"),
        ("/tiny.zip", bomb(), {}, ValueError, "unpacks to more than it may"),
    ],
    ids=[*map(str, range(11))],  # an archive knows the time it was made at
)
def test_a_failed_fetch_leaves_nothing_behind(
    server, places, monkeypatch, path, body, changes, error, message
):
    monkeypatch.setattr(_unpack, "MAX_BYTES", 100_000)
    server(path, body, **changes)
    with pytest.raises(error, match=message):
        load_dataset("tiny")
    assert files(places[1]) == []


def test_a_hash_that_does_not_match_is_noticed_before_the_file_is_opened(
    server, places, monkeypatch
):
    def opened(*_):
        pytest.fail("opened a file that was not what it should be")

    monkeypatch.setattr("dm2l.datasets._fetch._open", opened)
    server("/tiny.npz", npz_bytes(), file_sha256="0" * 64)
    with pytest.raises(ValueError, match="does not match"):
        load_dataset("tiny")


def test_offline_the_message_says_what_to_do(server, places):
    server("/tiny.npz", npz_bytes(), url="http://127.0.0.1:9/tiny.npz")
    with pytest.raises(ConnectionError) as caught:
        load_dataset("tiny")
    text = str(caught.value)
    assert "http://127.0.0.1:9/tiny.npz" in text
    assert TINY.home in text
    assert "folder that DM2L_DATA names" in text
    assert files(places[1]) == []


# ---------------------------------------------------------------------------------------- unpacking


def link(name, kind, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link():
    info = zipfile.ZipInfo("tiny.npz")
    info.external_attr = 0o120777 << 16
    return zipped_info(info)


def zipped_info(info, flags=0):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    raw = bytearray(file.getvalue())
    raw[raw.index(b"PK\x01\x02") + 8] |= flags  # in the central directory
    return bytes(raw)


HOSTILE = {
    "zip, absolute": (zipped({"good.npz": "x", "/tmp/tiny.npz": "x"}), "absolute path"),
    "zip, parent": (zipped({"good.npz": "x", "a/../../tiny.npz": "x"}), r"'\.\.'"),
    "zip, backslashes": (zipped({"good.npz": "x", "..\\tiny.npz": "x"}), "path"),
    "zip, drive": (zipped({"good.npz": "x", "C:/tiny.npz": "x"}), "another system"),
    "zip, link": (zip_link(), "link"),
    "zip, encrypted": (zipped_info(zipfile.ZipInfo("tiny.npz"), flags=1), "encrypted"),
    "zip, twice": (zipped({"a/tiny.npz": "x", "b/tiny.npz": "x"}), "two files named 'tiny.npz'"),
    "zip, many": (zipped({f"{k}.txt": "" for k in range(11)}), "more than 10 members"),
    "zip, big": (zipped({"tiny.npz": bytes(2000)}), "more than it may"),
    "tar, absolute": (tarred({"/tmp/tiny.npz": b"x"}), "absolute path"),
    "tar, parent": (tarred({"../tiny.npz": b"x"}), r"'\.\.'"),
    "tar, symbolic link": (tarred({"l": link("tiny.npz", tarfile.SYMTYPE)}), "link"),
    "tar, hard link": (tarred({"l": link("tiny.npz", tarfile.LNKTYPE)}), "link"),
    "tar, pipe": (tarred({"l": link("tiny.npz", tarfile.FIFOTYPE)}), "special file"),
    "tar, device": (tarred({"l": link("tiny.npz", tarfile.CHRTYPE)}), "special file"),
    "tar, many": (tarred({f"{k}.txt": b"" for k in range(11)}), "more than 10 members"),
    "tar, big": (tarred({"tiny.npz": bytes(2000)}), "more than it may"),
    "no archive": (b"GIF89a", "neither a zip nor a tar"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_writes_nothing_outside_and_little_inside(tmp_path, monkeypatch, case):
    body, message = HOSTILE[case]
    monkeypatch.setattr(_unpack, "MAX_MEMBERS", 10)
    monkeypatch.setattr(_unpack, "_CHUNK", 100)
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "set.archive").write_bytes(body)
    with pytest.raises(ValueError, match=message):
        unpack(tmp_path / "set.archive", inside, {".npz"}, max_bytes=1000)
    assert files(tmp_path) in (
        ["inside", "set.archive"],
        ["inside", "inside/tiny.npz", "set.archive"],
    )
    assert sum(path.stat().st_size for path in inside.iterdir()) <= 1000


@pytest.mark.parametrize("make", [zipped, tarred, lambda m: tarred(m, "w:xz")])
def test_only_the_wanted_members_are_written_side_by_side(tmp_path, make):
    members = {"a/b/One.NPZ": b"1", "two.xml": b"22", "a/notes.txt": b"333", "c/run.sh": b"4"}
    (tmp_path / "set.archive").write_bytes(make(members))
    inside = tmp_path / "inside"
    inside.mkdir()
    written = unpack(tmp_path / "set.archive", inside, {".npz", ".xml"})
    assert {path.name: path.read_bytes() for path in written} == {"One.NPZ": b"1", "two.xml": b"22"}
    assert files(inside) == ["One.NPZ", "two.xml"]
