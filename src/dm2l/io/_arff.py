"""Line-by-line reader of the ARFF files of Mulan and MEKA, which have dense or sparse rows."""

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l._utils.files import (
    MEMORY_HINT,
    DataFileError,
    available_memory,
    check_memory,
    check_regular,
    open_text,
    translate_errors,
    unpacked_name,
)
from dm2l.io import _columns
from dm2l.io._table import check_encoding

_VALUE_BYTES = 50  # bytes of memory per value, including its copies
_SPECIAL = frozenset("'\"%")
_TOKEN = re.compile(
    r"""\s*(?: '(?P<single>(?:[^'\\]|\\.)*)'
             | "(?P<double>(?:[^"\\]|\\.)*)"
             | (?P<mark>[,{}%])
             | (?P<word>[^\s,{}%'"][^\s,{}%]*) )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}
_MEKA = re.compile(r"(?:^|\s)-C\s+(-?\d+)(?=\s|$)")
_NUMERIC = {"numeric", "real", "integer"}
# The name of an attribute, and its type or, if it is nominal, its values.
_Attribute = tuple[str, str | tuple[str, ...]]


def read_arff(
    path: str | Path,
    labels: Any = None,
    xml: str | Path | None = None,
    *,
    drop: str | Iterable[str] = (),
    encoding: str = "utf-8",
    features_only: bool = False,
) -> Bunch:
    """Read a multi-label ARFF file of Mulan or MEKA.

    Rows may be dense or sparse (``{index value, ...}``). In a sparse row, an attribute that is not
    listed is 0 or, if it is nominal, has its first declared value. A nominal feature becomes one
    0/1 column per value, named ``name=value``. A feature with two values becomes one 0/1 column, in
    which the alphabetically later value is 1. A feature ``{0,1}`` is numeric. ``?`` is read as NaN.

    Parameters
    ----------
    path : str or Path
        The ARFF file, which may be compressed as in :func:`read_csv`.
    labels : int, str or list of str, default=None
        The label attributes, as in :func:`read_csv`. If None, the labels come from ``xml``, from
        MEKA's option ``-C k`` of ``@relation``, or from the ``.xml`` file of the same name.
    xml : str or Path, default=None
        Mulan's XML list of labels. Files with a DOCTYPE are rejected.
    drop, encoding
        As in :func:`read_csv`.
    features_only : bool, default=False
        If True, every attribute is a feature, and ``target`` has no columns.

    Returns
    -------
    Bunch
        The same keys as in :func:`read_csv`, and ``relation``; ``data`` is CSR if a row is sparse.
        Labels have the order of ``labels`` if it lists names, otherwise the order of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.io import read_arff
    >>> text = '''@relation 'weather: -C 1'
    ... @attribute rain {0,1}
    ... @attribute sky {clear,grey,dark}
    ... @data
    ... 1,dark
    ... ?,clear
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "weather.arff")
    ...     _ = path.write_text(text)
    ...     weather = read_arff(path)
    >>> weather.feature_names, weather.target_names, weather.target.tolist()
    (['sky=clear', 'sky=grey', 'sky=dark'], ['rain'], [[1.0], [nan]])
    """
    path = Path(path)
    check_encoding(encoding)
    # utf-8-sig skips the byte order mark that editors on Windows may write.
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    with open_text(path, codec, "an ARFF file") as text:
        lines = enumerate(text, start=1)
        relation, attributes = _read_header(lines, path)
        names = [name for name, _ in attributes]
        chosen = [] if features_only else _label_positions(relation, names, labels, xml, path)
        kept = _columns.split_columns(names, chosen, drop, str(path))
        codings: dict[int, _Coding] = {}
        start, is_label = 0, set(chosen)
        for j in sorted((*chosen, *kept)):
            codings[j] = _coding(*attributes[j], start, j in is_label, path)
            start += len(codings[j].names)
        matrix, sparse = _rows(lines, codings, len(names), path)
    slots = [codings[j].start for j in chosen]
    features = [codings[j] for j in kept]
    columns = [c.start + k for c in features for k in range(len(c.names))]
    size = 9 * matrix.shape[0] * (len(slots) + (0 if sparse else len(columns)))
    what = f"a table of {matrix.shape[0]} rows, {len(columns)} features and {len(slots)} labels"
    check_memory(path, size, what)
    label_names = [names[j] for j in chosen]
    data = sp.csr_array(matrix[:, columns])
    data.eliminate_zeros()
    data.sort_indices()
    return _columns.make_bunch(
        data if sparse else data.toarray(),
        _columns.label_targets(matrix[:, slots].toarray(), label_names, str(path)),
        target_names=label_names,
        feature_names=[name for coding in features for name in coding.names],
        relation=relation,
    )


def _read_header(lines: Iterable[tuple[int, str]], path: Path) -> tuple[str, list[_Attribute]]:
    """Return the relation and all attributes; ``lines`` then continues at the first data row."""
    relation, attributes = "", []
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        keyword = text.split(maxsplit=1)[0].lower()
        rest = text[len(keyword) :]
        try:
            if keyword == "@relation":
                relation = " ".join(word for word, _ in _tokens(rest))
            elif keyword == "@attribute":
                attributes.append(_attribute(rest))
            elif keyword == "@data":
                return relation, attributes
            else:
                known = "@relation, @attribute or @data"
                raise ValueError(f"expected {known}, found {text[:40]!r}")
        except ValueError as error:
            raise DataFileError(path, str(error), place=f"line {number}") from None
    raise DataFileError(path, "the file has no @data line. It is incomplete, or not an ARFF file")


def _attribute(text: str) -> _Attribute:
    words = list(_tokens(text))
    if len(words) < 2:
        raise ValueError(f"an @attribute line needs a name and a type, found {text.strip()!r}")
    (name, _), (kind, quoted), *rest = words
    if kind != "{" or quoted:
        return name, kind.lower()
    if not rest or rest[-1] != ("}", False):
        raise ValueError(f"the list of values of attribute {name!r} has no closing '}}'")
    values = tuple(word for word, quoted in rest[:-1] if quoted or word != ",")
    if not values:
        raise ValueError(f"attribute {name!r} declares no values")
    return name, values


def _label_positions(
    relation: str, names: list[str], labels: Any, xml: str | Path | None, path: Path
) -> list[int]:
    if labels is not None and xml is not None:
        raise ValueError("labels= and xml= cannot be combined. Pass only one of them.")
    if labels is not None:
        return _columns.choose_labels(names, labels, str(path))
    if xml is None:
        size, option = len(names), _MEKA.search(relation)
        if option is not None:  # the first k attributes, or the last -k
            count = int(option[1])
            if not 1 <= abs(count) < size:
                reason = f"the option -C {count} is too large for a file with {size} attributes"
                raise DataFileError(path, reason)
            return list(range(count) if count > 0 else range(size + count, size))
        xml = unpacked_name(path).with_suffix(".xml")
        if not xml.exists():
            where = f"the line @relation has no option -C, and {xml.name} does not exist"
            hint = "Pass the XML file as xml=, or the names or number of labels as labels=."
            reason = f"the label attributes are unknown: {where}"
            raise DataFileError(path, reason, hint=hint)
    listed = _read_label_names(xml)
    declared = set(names)
    unknown = [name for name in listed if name not in declared]
    if unknown:
        reason = f"the file lists {len(unknown)} label(s) not declared in {path}: {unknown[:5]}"
        raise DataFileError(xml, reason)
    return sorted(_columns.match_columns(names, listed, str(path)))


def _read_label_names(path: str | Path) -> list[str]:
    """Return the names of all labels in a Mulan XML file, including nested ones, in file order."""
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: Any) -> NoReturn:
        reason = "the file has a DOCTYPE declaration, which can be unsafe. Remove the declaration"
        raise DataFileError(path, reason)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(" ")[2] == "label":
            if "name" not in attributes:
                place = f"line {parser.CurrentLineNumber}"
                raise DataFileError(path, "a <label> element has no name=", place=place)
            names.append(attributes["name"])

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    check_regular(path)
    with translate_errors(path, "well-formed XML", expat.ExpatError), Path(path).open("rb") as file:
        parser.ParseFile(file)
    if not names:
        raise DataFileError(path, 'the file lists no labels. Add elements <label name="...">')
    return names


@dataclass(frozen=True)
class _Coding:
    """Numeric columns that encode one attribute; ``start`` is the index of the first column."""

    start: int
    names: tuple[str, ...]
    codes: dict[str, tuple[int, float]] | None  # value -> (column, number); None if numeric
    omitted: tuple[int, float] = (0, 0.0)  # (column, number) in a sparse row that does not list it

    def entries(self, text: str, quoted: bool) -> Iterable[tuple[int, float]]:
        if text == "?" and not quoted:
            return [(self.start + k, np.nan) for k in range(len(self.names))]
        if self.codes is None:
            value = _columns.as_number(text)
            if value is None or "_" in text:  # float() would accept 1_000
                raise ValueError(f"attribute {self.names[0]!r} must be numeric, found {text!r}")
            return ((self.start, value),)
        if text not in self.codes:
            name = self.names[0].partition("=")[0]
            raise ValueError(f"{name!r} must be one of {sorted(self.codes)[:8]}, found {text!r}")
        return (self.codes[text],)


def _coding(
    name: str, values: str | tuple[str, ...], start: int, is_label: bool, path: Path
) -> _Coding:
    if values in _NUMERIC:
        return _Coding(start, (name,), None)
    if isinstance(values, str):
        reason = f"attribute {name!r} has type {values}, but must be numeric or nominal"
        raise DataFileError(path, reason, hint=f"To ignore it, pass drop=[{name!r}].")
    names: tuple[str, ...] = (name,)
    if is_label:
        words = {value: _columns.parse_boolean(value) for value in values}
        numbers = set(words.values())
        if not numbers <= {0.0, 1.0} and not numbers <= {-1.0, 1.0}:
            pairs = "0/1, -1/1, no/yes, false/true, inactive/active or negative/positive"
            reason = f"label {name!r} declares {list(values)[:8]}; its values must be {pairs}"
            raise DataFileError(path, reason)
        codes = {value: (start, float(number == 1)) for value, number in words.items()}
    elif len(values) > 2:
        names = tuple(f"{name}={value}" for value in values)
        codes = {value: (start + k, 1.0) for k, value in enumerate(values)}
    else:
        # The value that is coded as 1 must not depend on the order of the two values in the file.
        numeric = set(values) <= {"0", "1"}
        one = "1" if numeric else max(values)
        names = (name if numeric else f"{name}={one}",)
        codes = {value: (start, float(value == one)) for value in values}
    return _Coding(start, names, codes, codes[values[0]])


def _rows(
    lines: Iterator[tuple[int, str]], codings: dict[int, _Coding], size: int, path: Path
) -> tuple[sp.csr_array, bool]:
    """Return the encoded rows as a CSR matrix, and whether a row is in the sparse format."""
    values, indices, indptr = array("d"), array("i"), array("q", [0])
    # A sparse row omits the first declared value of an attribute even if the value is coded as 1.
    implied = {j: c.omitted for j, c in codings.items() if c.omitted[1]}
    sparse = False
    most = available_memory() / _VALUE_BYTES
    for number, line in lines:
        text = line.strip()
        if not text or text[0] == "%":
            continue
        entries: list[tuple[int, float]] = []
        try:
            if text[0] == "{":
                sparse = True
                cells = _sparse_cells(text, size)
                listed = {j for j, _, _ in cells}
                if len(listed) < len(cells):
                    raise ValueError("a sparse row lists an attribute twice")
                entries += [implied[j] for j in implied.keys() - listed]
            else:
                cells = _dense_cells(text, size)
            for j, word, quoted in cells:
                if j in codings:
                    entries += codings[j].entries(word, quoted)
        except ValueError as error:
            raise DataFileError(path, str(error), place=f"line {number}") from None
        indices.extend(column for column, _ in entries)
        values.extend(value for _, value in entries)
        if len(values) > most:
            reason = "the file does not fit into memory"
            raise DataFileError(path, reason, place=f"line {number}", hint=MEMORY_HINT)
        indptr.append(len(values))
    if len(indptr) == 1:
        raise DataFileError(path, "there are no rows after @data. Add data rows")
    width = sum(len(coding.names) for coding in codings.values())
    parts = (np.array(values), np.array(indices), np.array(indptr))
    return sp.csr_array(parts, shape=(len(indptr) - 1, width)), sparse


def _tokens(line: str) -> Iterator[tuple[str, bool]]:
    """Yield each token of a line up to a comment, and whether the token is in quotes."""
    position, line = 0, line.rstrip()
    while position < len(line):
        found = _TOKEN.match(line, position)
        if found is None:
            raise ValueError(f"a quote is not closed: {line[position : position + 40]!r}")
        if found["mark"] == "%":
            return
        position = found.end()
        quoted = found["single"] if found["single"] is not None else found["double"]
        if quoted is not None:
            yield _ESCAPE.sub(_unescape, quoted), True
        else:
            yield found["mark"] or found["word"], False


def _unescape(escape: re.Match[str]) -> str:
    text = escape[1]
    return chr(int(text[1:], 16)) if len(text) == 5 else _CONTROL.get(text, text)


def _dense_cells(text: str, size: int) -> list[tuple[int, str, bool]]:
    cells: list[tuple[str, bool]] = []
    if _SPECIAL.isdisjoint(text):
        cells = [(word.strip(), False) for word in text.split(",")]
    if len(cells) != size:  # quotes, a comment, or values separated by blanks
        cells = [(word, quoted) for word, quoted in _tokens(text) if quoted or word != ","]
    if len(cells) != size:
        braces = any(word == "{" and not quoted for word, quoted in cells)
        hint = "; row weights are not supported" if braces else ""
        raise ValueError(f"expected {size} values, found {len(cells)}{hint}")
    return [(j, word, quoted) for j, (word, quoted) in enumerate(cells)]


def _sparse_cells(text: str, size: int) -> list[tuple[int, str, bool]]:
    if _SPECIAL.isdisjoint(text) and text.find("}") == len(text) - 1:
        words = [(word, False) for word in text[1:-1].replace(",", " ").split()]
    else:
        words = list(_tokens(text))
        if words.count(("}", False)) != 1 or words[-1] != ("}", False):
            raise ValueError("a sparse row must end at its only '}'; row weights are not supported")
        words = [(word, quoted) for word, quoted in words[1:-1] if quoted or word != ","]
    if len(words) % 2:
        raise ValueError("the last index of a sparse row has no value. Write INDEX VALUE pairs")
    cells = []
    for (index, _), (word, quoted) in zip(words[::2], words[1::2], strict=True):
        if not index.isdecimal() or int(index) >= size:
            raise ValueError(f"attribute index {index!r} is not in the range 0 to {size - 1}")
        cells.append((int(index), word, quoted))
    return cells
