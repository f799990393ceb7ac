"""The lines of a journal: JSON objects, each sealed with a digest of itself and all before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_SEAL = "seal"


class Line(NamedTuple):
    """A line that was read: its number in the file, what it says, and its seal."""

    number: int
    content: dict[str, Any]
    seal: str


class Lines(NamedTuple):
    """The lines of a file, how many bytes they take, and what of a torn line comes after them."""

    whole: list[Line]
    size: int
    torn: bytes


def write_line(content: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """A line with its end, and its seal, which the next line builds on."""
    text = json.dumps(content, ensure_ascii=False)
    seal = _seal(previous, text)
    return f'{text[:-1]}, "{_SEAL}": "{seal}"}}\n'.encode(), seal


def read_lines(path: Path, data: bytes) -> Lines:
    """Cut a journal into its lines.

    A crash can leave the beginning of a last line, which nobody was told to be safe. Everything
    else that is not as it was written is an error: an answer that is missing, changed or moved
    would go unnoticed otherwise.
    """
    found: list[Line] = []
    size, previous = 0, ""
    for number, raw in enumerate(data.splitlines(keepends=True), 1):
        if not raw.endswith(b"\n") and size + len(raw) == len(data) and _incomplete(raw):
            return Lines(found, size, raw)
        content, seal = _read_line(path, number, raw, previous)
        found.append(Line(number, content, seal))
        size, previous = size + len(raw), seal
    return Lines(found, size, b"")


def damaged(path: Path, number: int, why: str) -> ValueError:
    """The error for a line that is not as it was written."""
    return ValueError(
        f"{path}, line {number}: {why}. A journal is only ever added to; restore the file as "
        "it was (an answer is changed by answering again), or begin a new one."
    )


def _read_line(path: Path, number: int, raw: bytes, previous: str) -> tuple[dict[str, Any], str]:
    try:
        # Whoever opens the file in an editor may lose the last line's end, or change all ends.
        content = json.loads(raw.decode().rstrip("\r\n"))
        seal = content.pop(_SEAL, None) if isinstance(content, dict) else None
        sealed = _seal(previous, json.dumps(content, ensure_ascii=False))
    except (ValueError, RecursionError) as error:  # nested deeper than Python goes
        raise damaged(path, number, f"{_short(raw)} is not JSON ({error})") from error
    if not isinstance(seal, str):
        raise damaged(path, number, f"{_short(raw)} is not a line of a journal")
    if seal != sealed:
        raise damaged(path, number, "this line, or one before it, was changed or left out")
    return content, seal


def _incomplete(raw: bytes) -> bool:
    """Whether this is no more than the beginning of a line."""
    try:
        json.JSONDecoder().raw_decode(raw.decode(errors="replace"))
    except json.JSONDecodeError:
        return True
    except (ValueError, RecursionError):  # much of a line, and none that was written here
        return False
    return False


def _seal(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()[:16]


def _short(raw: bytes) -> str:
    return repr(raw[:40].decode(errors="replace"))
