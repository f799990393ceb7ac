"""Parts of an Excel file: packed XML, parsed within limits that follow the size of the file."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from typing import Any, NoReturn
from xml.parsers import expat

from dm2l._utils.files import DataFileError, check_memory, check_regular

_PIECE = 2**16
_LONGEST = 2**20  # bytes of one tag or comment, which expat reads as a whole
# Tags and attributes are what costs time and memory. Zeros, the same text in every cell and the
# like have up to 3.7 of them and 24 bytes of XML for a byte of the file if cells have references.
_MARKS_PER_BYTE = 6
_BYTES, _BYTES_PER_BYTE = 2**25, 100
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class LocalNames(dict[str, str]):
    """Names of tags without their prefix: ``c`` of ``x:c``."""

    def __missing__(self, tag: str) -> str:
        self[tag] = tag.rpartition(":")[2]
        return self[tag]


class Parts:
    """The parts of an archive, for all of which together there is a limit.

    ``marks`` is the number of tags and attributes that the smallest file may have, and ``factor``
    says how many bytes of memory a byte of XML takes.
    """

    def __init__(
        self, path: str | os.PathLike[str], archive: zipfile.ZipFile, *, marks: int, factor: float
    ) -> None:
        self.path, self.packed = path, check_regular(path)
        self._archive, self._factor, self._taken = archive, factor, 0.0
        self.members = {info.filename: info for info in archive.infolist()}
        self._marks = marks + _MARKS_PER_BYTE * self.packed
        self._bytes = _BYTES + _BYTES_PER_BYTE * self.packed

    def refuse(self, reason: str, place: str = "") -> NoReturn:
        """Raise what is wrong with the file."""
        raise DataFileError(
            self.path, reason, place=place, hint="Save the table as .csv and read that."
        )

    def parse(
        self,
        name: str,
        start: Callable[[str, dict[str, str]], Any],
        end: Callable[[str], Any] | None = None,
        text: Callable[[str], Any] | None = None,
    ) -> None:
        """Call ``start``, ``end`` and ``text`` for what stands in a part, if it is there."""
        info = self.members.get(name)
        if info is None:
            return
        self._bytes -= info.file_size  # no more than this is unpacked
        if self._bytes < 0:
            self.refuse("its content is packed more tightly than that of tables")
        self._taken += info.file_size * self._factor
        check_memory(self.path, self._taken, "a sheet of this size")
        if info.compress_type not in _PACKINGS:
            self.refuse(f"{name} is packed in a way that Excel does not use")
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CharacterDataHandler = text
        fed = 0
        with self._archive.open(info) as file:
            while piece := file.read(_PIECE):
                self._marks -= piece.count(b"<") + piece.count(b"=")
                if self._marks < 0:
                    self.refuse("it has more tags than a table of its size")
                parser.Parse(piece)
                fed += len(piece)
                if fed - parser.CurrentByteIndex > _LONGEST:
                    self.refuse(f"a tag or a comment of more than {_LONGEST} bytes")
            parser.Parse(b"", True)

    def _refuse_doctype(self, *_: object) -> NoReturn:
        self.refuse("there is a DOCTYPE declaration, which can hide attacks")
