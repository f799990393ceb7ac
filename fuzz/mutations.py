"""Changes to the bytes of a file: blind ones, and ones that know numbers, arrays, archives."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import random
import re
import warnings
import zipfile
from collections.abc import Callable

import numpy as np

from dm2l._utils.files import FAULTS

NUMBERS = (b"0", b"-1", b"1e308", b"-1e308", b"nan", b"inf", b"2147483647", b"2147483648")
NUMBERS += (
    b"-2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"99999999999999999999",
    b"1e-320",
)
TOKENS = (
    b'"',
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\0",
    b"\xff\xfe",
    b"\r",
    b"?",
    b"%",
    b"=cmd()",
)
JUNK = (
    None,
    True,
    -1,
    0,
    2**31,
    10**30,
    1.5,
    "x",
    "",
    "__class__",
    [],
    [1],
    [[]],
    {},
    {"kind": "x"},
)

FLOATS = (0.0, -1.0, 1e308, -1e308, float("nan"), float("inf"), 1e-320, 1e100)
INTEGERS = (0, 1, -1, 2, 127, -128, 2**31 - 1, -(2**31), 2**62, -(2**63))

Mutation = Callable[[bytes, random.Random], bytes]


def flip(content: bytes, rng: random.Random) -> bytes:
    """Change a few bits."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 32])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(content: bytes, rng: random.Random) -> bytes:
    """Leave a part out, or the end."""
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.choice([1, 4, 64, len(content)]) :]


def overwrite(content: bytes, rng: random.Random) -> bytes:
    """Zeros, ones or noise over a few bytes: lengths and places in binary files."""
    start, length = rng.randrange(len(content)), rng.choice([1, 2, 4, 8, 64])
    new = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])
    return content[:start] + new + content[start + length :]


def repeat(content: bytes, rng: random.Random) -> bytes:
    """A part many times."""
    start = rng.randrange(len(content))
    part = content[start : start + rng.randrange(1, 100)]
    return content[:start] + part * rng.choice([2, 50, 1000]) + content[start:]


def token(content: bytes, rng: random.Random) -> bytes:
    """Something that means something, anywhere."""
    start = rng.randrange(len(content))
    return content[:start] + rng.choice(TOKENS) + content[start + rng.randrange(2) :]


def number(content: bytes, rng: random.Random) -> bytes:
    """Another number in place of one."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content[:200_000]))
    if not found:
        return flip(content, rng)
    chosen = rng.choice(found)
    return content[: chosen.start()] + rng.choice(NUMBERS) + content[chosen.end() :]


BLIND: tuple[Mutation, ...] = (flip, cut, overwrite, repeat, token, number)


def members(content: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(parts: dict[str, bytes]) -> bytes:
    """An archive of these members, nothing compressed."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def inside(content: bytes, rng: random.Random) -> bytes:
    """Change a member of an archive, whose checksums are then right again."""
    parts = members(content)
    texts = [name for name in parts if name.endswith(".json")]
    name = rng.choice(texts if texts and rng.random() < 0.4 else sorted(parts))
    if parts[name][:2] == b"PK" and rng.random() < 0.8:
        parts[name] = inside(parts[name], rng)
    elif name.endswith(".json"):
        parts[name] = document(parts[name], rng)
    elif parts[name][:6] == b"\x93NUMPY" and rng.random() < 0.7:
        parts[name] = array(parts[name], rng)
    elif parts[name]:
        parts[name] = rng.choice(BLIND)(parts[name], rng)
    return pack(signed(parts))


def array(content: bytes, rng: random.Random) -> bytes:
    """Other numbers in an array, or another shape or type."""
    values = np.load(io.BytesIO(content), allow_pickle=False)
    kind = rng.randrange(6)
    if kind < 3 and values.size and values.dtype.kind in "biuf":
        flat = values.ravel()
        extremes = FLOATS if values.dtype.kind == "f" else INTEGERS
        for _ in range(rng.choice([1, 1, 3])):
            one = rng.choice([*extremes, flat[rng.randrange(flat.size)]])
            with np.errstate(all="ignore"):
                flat[rng.randrange(flat.size)] = np.array(one).astype(values.dtype)
        values = flat.reshape(values.shape)
    elif kind == 3:
        values = rng.choice([values.T, values.ravel(), values[:1], values[..., :-1], values[None]])
    elif kind == 4:
        values = np.repeat(values, rng.choice([0, 2, 9]), axis=0) if values.ndim else values[None]
    elif values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            values = values.astype(rng.choice(["i1", "u8", ">f8", "f2", "c16", "U3", "?", "i4"]))
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def signed(parts: dict[str, bytes]) -> dict[str, bytes]:
    """Hashes of a model file made right, as one who means harm would do it."""
    if "manifest.json" not in parts:
        return parts
    try:
        manifest = json.loads(parts["manifest.json"])
        for name, record in manifest["members"].items():
            record["sha256"] = hashlib.sha256(parts[name]).hexdigest()
        parts["manifest.json"] = json.dumps(manifest).encode()
    except (ValueError, LookupError, TypeError, AttributeError):
        pass  # the manifest is what was changed, beyond recognition
    parts["manifest.sha256"] = hashlib.sha256(parts["manifest.json"]).hexdigest().encode()
    return parts


def document(content: bytes, rng: random.Random) -> bytes:
    """Replace, rename or remove something in JSON."""
    try:
        tree = json.loads(content)
    except ValueError:
        return rng.choice(BLIND)(content, rng)
    places = list(_places(tree))
    if not places:
        return b"[]"
    holder, key = rng.choice(places)
    if rng.random() < 0.7 or isinstance(holder, list):
        holder[key] = rng.choice(JUNK)
    elif rng.random() < 0.5:
        holder[rng.choice(["x", "kind", "class", "parameters"])] = holder.pop(key)
    else:
        del holder[key]
    return json.dumps(tree).encode()


def _places(value: object) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    waiting = [value]
    while waiting:
        here = waiting.pop()
        keys = (
            list(here)
            if isinstance(here, dict)
            else range(len(here))
            if isinstance(here, list)
            else ()
        )
        for key in keys:
            found.append((here, key))
            waiting.append(here[key])
    return found


def mutate(content: bytes, rng: random.Random) -> bytes:
    """One to three changes that suit the file."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if not content:
            return content
        zipped = content[:2] == b"PK" and rng.random() < 0.8
        try:
            content = inside(content, rng) if zipped else rng.choice(BLIND)(content, rng)
        except (*FAULTS, OSError):
            content = flip(content, rng)  # no whole archive any more
    return content


PACKERS = {b"\x1f\x8b": gzip, b"BZ": bz2, b"\xfd7": lzma}


def unpacked(content: bytes, rng: random.Random) -> bytes:
    """Half of the time a change of what is packed, which is then packed again."""
    packer = PACKERS.get(content[:2])
    if packer is None or rng.random() < 0.5:
        return mutate(content, rng)
    return packer.compress(mutate(packer.decompress(content), rng))
