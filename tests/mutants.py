"""Damaged copies of a file, the same ones every time."""

from __future__ import annotations

import numpy as np

# Bytes that mean something to some format, and numbers at the edges of theirs.
_TELLING = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b'"',
    b",",
    b"\n",
    b"{",
    b"-",
)
_TELLING += (b"1e999", b"99999999999", b"nan", b"\x80\x00\x00\x00", b"\xef\xbb\xbf", b"%", b"?")


def mutants(content: bytes, count: int, seed: int = 0):
    """So many copies with bytes changed, put in, taken out, moved, or the end cut off."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        made = bytearray(content)
        for _ in range(1 + int(rng.integers(3))):
            place = int(rng.integers(len(made) + 1))
            size = int(rng.integers(1, 9))
            way = int(rng.integers(6))
            if way == 0:
                made[place : place + 1] = bytes([int(rng.integers(256))])
            elif way == 1:
                made[place : place + 1] = bytes(
                    b ^ (1 << int(rng.integers(8))) for b in made[place : place + 1]
                )
            elif way == 2:
                telling = _TELLING[int(rng.integers(len(_TELLING)))]
                made[place : place + len(telling)] = telling
            elif way == 3:
                del made[place : place + size]
            elif way == 4:
                other = int(rng.integers(len(made) + 1))
                made[place:place] = made[other : other + size]
            elif rng.random() < 0.3:
                del made[place:]
            else:
                made[place : place + size] = bytes(size)
        yield bytes(made)
