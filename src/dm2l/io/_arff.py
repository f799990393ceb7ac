"""ARFF files of Mulan and MEKA: dense and sparse rows, read line by line."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l._utils.files import DataFileError, available_memory, check_memory
from dm2l.io._arff_header import Coding, Header, codings_of, read_header, read_label_names, tokens
from dm2l.io._columns import choose_labels, match_columns, split_columns
from dm2l.io._csv_file import check_encoding
from dm2l.io._label_reader import label_targets, make_bunch
from dm2l.io._unpacking import MEMORY_HINT, open_text, unpacked_name

_SPECIAL = frozenset("'\"%")


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

    Rows may be dense or sparse (``{index value, ...}``); in a sparse row an entry that is not
    listed is 0, or the first declared value of a nominal attribute. A nominal feature becomes
    one column of 0/1 a value, named ``name=value``; of two values only the later in the alphabet
    gets one, and ``{0,1}`` is a number. ``?`` is NaN, in a label as in a feature.

    Parameters
    ----------
    path : str or Path
        The ARFF file; one that ends in ``.gz``, ``.bz2``, ``.xz`` or ``.zip`` is unpacked.
    labels : int, str or list of str, default=None
        The last k attributes, or names or patterns as of :func:`read_csv`. None: what ``xml``
        lists, else MEKA's ``-C k`` in the relation, else what the ``.xml`` file beside the file
        lists.
    xml : str or Path, default=None
        Mulan's list of labels. Documents with a DOCTYPE are refused.
    drop, encoding
        As of :func:`read_csv`.
    features_only : bool, default=False
        Whether every attribute is a feature, as in rows that are to be predicted; ``target`` then
        has no columns.

    Returns
    -------
    Bunch
        ``data`` (float64; CSR if the rows are sparse), ``target`` (int8 0/1, or float64 with NaN
        where labels are missing), ``target_names``, ``feature_names``, ``relation``, and
        ``train_index``, ``test_index``, ``source``, which are None. Labels given as names come
        in that order, others in the order of the file.

    Raises
    ------
    ValueError
        If the file is not understood; the message names the line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.io import read_arff
    >>> text = '''@relation 'weather: -C 2'
    ... @attribute rain {0,1}
    ... @attribute wind {0,1}
    ... @attribute sky {clear,grey,dark}
    ... @attribute pressure numeric
    ... @data
    ... 1,0,dark,0.98
    ... ?,1,clear,1.02
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "weather.arff")
    ...     _ = path.write_text(text)
    ...     weather = read_arff(path)
    >>> weather.target_names, weather.feature_names
    (['rain', 'wind'], ['sky=clear', 'sky=grey', 'sky=dark', 'pressure'])
    >>> weather.target
    array([[ 1.,  0.],
           [nan,  1.]])
    """
    path = Path(path)
    check_encoding(encoding)
    # utf-8-sig also takes what an editor of Windows puts before the first line.
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    with open_text(path, codec, "an ARFF file") as text:
        lines = enumerate(text, start=1)
        header = read_header(lines, str(path))
        chosen = [] if features_only else _label_positions(header, labels, xml, path)
        kept = split_columns(header.names, chosen, drop, str(path))
        codings = codings_of(header, chosen, kept, path)
        matrix, sparse = _rows(lines, codings, path)
    slots = [coding.start for j in chosen if (coding := codings[j]) is not None]
    features = [coding for j in kept if (coding := codings[j]) is not None]
    columns = [c.start + k for c in features for k in range(len(c.names))]
    size = 9 * matrix.shape[0] * (len(slots) + (0 if sparse else len(columns)))
    what = f"a table of {matrix.shape[0]} rows, {len(columns)} features and {len(slots)} labels"
    check_memory(path, size, what, MEMORY_HINT)
    names = [header.names[j] for j in chosen]
    data = sp.csr_array(matrix[:, columns])
    data.eliminate_zeros()
    data.sort_indices()
    return make_bunch(
        data if sparse else data.toarray(),
        label_targets(matrix[:, slots].toarray(), names, str(path)),
        target_names=names,
        feature_names=[name for coding in features for name in coding.names],
        relation=header.relation,
    )


def _label_positions(header: Header, labels: Any, xml: str | Path | None, path: Path) -> list[int]:
    if labels is not None and xml is not None:
        raise ValueError("labels= and xml= both say which attributes are labels; pass one.")
    if labels is not None:
        return choose_labels(header.names, labels, str(path))
    if xml is None:
        try:
            positions = header.meka_labels()
        except ValueError as error:
            raise DataFileError(path, str(error)) from None
        if positions is not None:
            return positions
        xml = unpacked_name(path).with_suffix(".xml")
        if not xml.exists():
            raise DataFileError(
                path,
                f"it does not say which attributes are labels: there is no -C in its relation and "
                f"no {xml.name} beside it",
                hint="Pass xml=, or labels= as names or as the number of last attributes.",
            )
    listed = read_label_names(xml)
    declared = set(header.names)
    unknown = [name for name in listed if name not in declared]
    if unknown:
        raise DataFileError(
            xml, f"{len(unknown)} label(s) that {path} does not declare are listed: {unknown[:5]}"
        )
    return sorted(match_columns(header.names, listed, str(path)))


def _rows(
    lines: Iterator[tuple[int, str]], codings: list[Coding | None], path: Path
) -> tuple[sp.csr_array, bool]:
    """All rows as one CSR matrix over the columns of the codings, and whether any was sparse."""
    values, indices, indptr = array("d"), array("i"), array("q", [0])
    # Listed in no sparse row although they are not zero there: first values that count as 1.
    implied = {j: c.omitted for j, c in enumerate(codings) if c is not None and c.omitted[1]}
    sparse = False
    most = (
        available_memory() / 50
    )  # bytes of a value: here, as an array, and in the part that is a feature
    for number, line in lines:
        text = line.strip()
        if not text or text[0] == "%":
            continue
        try:
            if text[0] == "{":
                sparse = True
                cells = _sparse_cells(text, len(codings))
                listed = {j for j, _, _ in cells}
                if len(listed) < len(cells):
                    raise ValueError("an attribute is listed twice")
                for j in implied.keys() - listed:
                    indices.append(implied[j][0])
                    values.append(implied[j][1])
            else:
                cells = _dense_cells(text, len(codings))
            for j, word, quoted in cells:
                coding = codings[j]
                if coding is not None:
                    for column, value in coding.entries(word, quoted):
                        indices.append(column)
                        values.append(value)
        except ValueError as error:
            raise DataFileError(path, str(error), place=f"line {number}") from None
        if len(values) > most:
            reason = "its values, a column each, do not fit into memory"
            raise DataFileError(path, reason, place=f"line {number}", hint=MEMORY_HINT)
        indptr.append(len(values))
    if len(indptr) == 1:
        raise DataFileError(path, "there are no rows after @data")
    width = sum(len(coding.names) for coding in codings if coding is not None)
    parts = (np.array(values), np.array(indices), np.array(indptr))
    return sp.csr_array(parts, shape=(len(indptr) - 1, width)), sparse


def _dense_cells(text: str, size: int) -> list[tuple[int, str, bool]]:
    cells: list[tuple[str, bool]] = []
    if _SPECIAL.isdisjoint(text):
        cells = [(word.strip(), False) for word in text.split(",")]
    if len(cells) != size:  # quotes, a comment, or blanks between the values
        cells = [(word, quoted) for word, quoted in tokens(text) if quoted or word != ","]
    if len(cells) != size:
        braces = any(word == "{" and not quoted for word, quoted in cells)
        hint = "; weights of rows are not supported" if braces else ""
        raise ValueError(f"expected {size} values, found {len(cells)}{hint}")
    return [(j, word, quoted) for j, (word, quoted) in enumerate(cells)]


def _sparse_cells(text: str, size: int) -> list[tuple[int, str, bool]]:
    if _SPECIAL.isdisjoint(text) and text.find("}") == len(text) - 1:
        words = [(word, False) for word in text[1:-1].replace(",", " ").split()]
    else:
        words = list(tokens(text))
        if words.count(("}", False)) != 1 or words[-1] != ("}", False):
            raise ValueError("a sparse row is one {...}; weights of rows are not supported")
        words = [(word, quoted) for word, quoted in words[1:-1] if quoted or word != ","]
    if len(words) % 2:
        raise ValueError("a sparse row lists pairs of an index and a value")
    cells = []
    for (index, _), (word, quoted) in zip(words[::2], words[1::2], strict=True):
        if not index.isdecimal() or int(index) >= size:
            raise ValueError(
                f"index {index!r} is not one of the {size} attributes, 0 to {size - 1}"
            )
        cells.append((int(index), word, quoted))
    return cells
