"""ARFF files of Mulan and MEKA: dense and sparse rows, read line by line."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l.readers._arff_coding import Coding, codings_of
from dm2l.readers._arff_header import Header, read_header, read_label_names, tokens
from dm2l.readers._columns import (
    as_patterns,
    choose_labels,
    label_targets,
    make_bunch,
    match_columns,
)

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
        The ARFF file.
    labels : int, str or list of str, default=None
        The last k attributes, or names or patterns such as ``"tag_*"``. None: what ``xml`` lists,
        else MEKA's ``-C k`` in the relation, else what the ``.xml`` file beside the file lists.
    xml : str or Path, default=None
        Mulan's list of labels. Documents with a DOCTYPE are refused.
    drop : str or list of str, default=()
        Attributes to leave out, by name or pattern: identifiers, texts, dates.
    encoding : str, default="utf-8"
        Encoding of the ARFF file.
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
    >>> from dm2l.readers import read_arff
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
    with _lines(path, encoding) as lines:
        header = read_header(lines, str(path))
        chosen = [] if features_only else _label_positions(header, labels, xml, path)
        codings = codings_of(header, chosen, as_patterns(drop), path)
        matrix, sparse = _rows(lines, codings, path)
    order = [codings[j] for j in chosen]
    slots = [coding.start for coding in order if coding is not None]
    is_label = set(chosen)
    features = [c for j, c in enumerate(codings) if c is not None and j not in is_label]
    columns = [c.start + k for c in features for k in range(len(c.names))]
    if not columns:
        raise ValueError(f"{path}: every attribute is a label or dropped; no features are left.")
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


def attribute_names(path: Path, encoding: str) -> list[str]:
    """Names of all attributes, in their order."""
    with _lines(path, encoding) as lines:
        return read_header(lines, str(path)).names


@contextmanager
def _lines(path: Path, encoding: str) -> Iterator[Iterator[tuple[int, str]]]:
    """Numbered lines of a file."""
    try:
        # utf-8-sig also takes what an editor of Windows puts before the first line.
        with path.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding) as file:
            yield enumerate(file, start=1)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not encoded in {encoding}: {error}. Try encoding='latin-1'."
        ) from error


def _label_positions(header: Header, labels: Any, xml: str | Path | None, path: Path) -> list[int]:
    if labels is not None and xml is not None:
        raise ValueError("labels= and xml= both say which attributes are labels; pass one.")
    if labels is not None:
        return choose_labels(header.names, labels, str(path))
    if xml is None:
        try:
            positions = header.meka_labels()
        except ValueError as error:
            raise ValueError(f"{path}: {error}.") from None
        if positions is not None:
            return positions
        xml = path.with_suffix(".xml")
        if not xml.exists():
            raise ValueError(
                f"{path} does not say which attributes are labels: there is no -C in its relation "
                f"and no {xml.name} beside it. Pass xml=, or labels= as names or as the number of "
                "last attributes."
            )
    listed = read_label_names(xml)
    declared = set(header.names)
    unknown = [name for name in listed if name not in declared]
    if unknown:
        raise ValueError(
            f"{xml} lists {len(unknown)} label(s) that {path} does not declare: {unknown[:5]}."
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
            raise ValueError(f"{path}, line {number}: {error}.") from None
        indptr.append(len(values))
    if len(indptr) == 1:
        raise ValueError(f"{path} has no rows after @data.")
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
            raise ValueError(f"index {index!r} is none of the {size} attributes, 0 to {size - 1}")
        cells.append((int(index), word, quoted))
    return cells
