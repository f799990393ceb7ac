"""Logical rules between labels: implications, exclusions, and groups with one positive label."""

import csv
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import AnyPath, DataFileError, translate_errors
from dm2l.labels._entries import Signs
from dm2l.labels._logic import FIELDS, HEADS, RuleLogic, RuleText
from dm2l.labels._matrix import LabelMatrix, fill_with_labels, frame_like

_FORMAT = (
    "Expected 'child => parent', 'not both: a, b', 'at most one: a, b' or 'exactly one: a, b', "
    "with quotes around names that contain a comma, # or =>."
)
_HEAD = rf"\s*({'|'.join(HEADS)})\s*:"
_NAME = r'\s*(?:"(?:[^"]|"")+"\s*|(?!\s)(?:(?!=>)[^",#])+)'
_CHAIN = rf"(?!{_HEAD})({_NAME}(?:=>{_NAME})+)"
_RULE = re.compile(rf"(?:{_CHAIN}|{_HEAD}({_NAME}(?:,{_NAME})*)|\s*)(?:#.*)?")


@dataclass(frozen=True, repr=False)
class LabelRules:
    """Logical rules that the labels of every row obey.

    Estimators with rules fill in missing labels that follow from known labels. The probabilities
    and labels that such estimators predict obey the rules.

    Parameters
    ----------
    implications : sequence of (str, str), default=()
        Pairs of a child and a parent label. If the child is positive, so is the parent.
    exclusions : sequence of (str, str), default=()
        Pairs of labels that are never positive together.
    at_most_one, exactly_one : sequence of sequences of str, default=()
        Groups in which at most one label, or exactly one label, is positive.
    label_names : sequence of str, default=None
        Names of all label columns in order, for labels that are plain arrays. The column names of a
        data frame take precedence. By default, columns are called "y0", "y1", ...
    places : mapping of str to str, default=None
        Maps the text of each rule to its place in a file, for messages. :meth:`read` sets it.

    Examples
    --------
    >>> from dm2l import LabelRules
    >>> rules = LabelRules([("snake", "reptile"), ("cat", "mammal")], [("reptile", "mammal")])
    >>> rules.propagate([[1, None, None, None]], ["snake", "reptile", "cat", "mammal"])
    array([[1, 1, 0, 0]])
    >>> print(rules.to_text(), end="")
    snake => reptile
    cat => mammal
    not both: reptile, mammal
    """

    implications: Sequence[Sequence[str]] = ()
    exclusions: Sequence[Sequence[str]] = ()
    at_most_one: Sequence[Sequence[str]] = ()
    exactly_one: Sequence[Sequence[str]] = ()
    label_names: Sequence[str] | None = None
    places: Mapping[str, str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for kind in FIELDS:
            given = getattr(self, kind)
            if isinstance(given, str) or any(isinstance(names, str) for names in given):
                raise TypeError(f"{kind} must be a sequence of tuples of names, got {given!r}.")
            object.__setattr__(self, kind, tuple(tuple(map(str, names)) for names in given))
        for rule in self._rules():
            rule.check()
        if self.label_names is not None:
            object.__setattr__(self, "label_names", tuple(map(str, self.label_names)))
        _ = self._logic  # this raises an error if the rules contradict each other

    def __repr__(self) -> str:
        counts = (f"{kind}={len(getattr(self, kind))}" for kind in FIELDS)
        return f"<LabelRules {' '.join(counts)}>"

    @classmethod
    def _of(cls, rules: Iterable[RuleText], label_names: Sequence[str] | None) -> Self:
        """Make rules from texts in any order."""
        found: dict[str, list[tuple[str, ...]]] = {kind: [] for kind in FIELDS}
        places: dict[str, str] = {}
        for rule in rules:
            found[rule.field].append(rule.names)
            places.setdefault(str(rule), rule.place)
        return cls(**found, label_names=label_names, places=places)

    @classmethod
    def from_taxonomy(
        cls,
        paths: Iterable[str] = (),
        *,
        edges: Iterable[tuple[str, str]] = (),
        separator: str = "/",
    ) -> Self:
        """Make the implications of a taxonomy, in which every level of a path is a label.

        Parameters
        ----------
        paths : iterable of str, default=()
            Paths such as ``"animal/reptile/snake"``, in which each level is the name of a label.
        edges : iterable of (str, str), default=()
            Pairs of a child and a parent label.
        separator : str, default="/"
            Text between two levels.
        """
        levels = [[part.strip() for part in path.split(separator)] for path in paths]
        found = [pair for path in levels for pair in zip(path[1:], path[:-1], strict=True)]
        return cls(list(dict.fromkeys([*found, *map(tuple, edges)])))

    @classmethod
    def from_names(cls, label_names: Iterable[Any], separator: str = "/") -> Self:
        """Make the implications between labels whose names are paths: ``"01/03"`` implies ``"01"``.

        Parameters
        ----------
        label_names : iterable of str
            Names of the labels. If the parent's path is not a label, the next higher level is used.
        separator : str, default="/"
            Text between two levels.
        """
        names = list(map(str, label_names))
        known, found = set(names), list[tuple[str, str]]()
        for name in names:
            levels = name.split(separator)
            above = [separator.join(levels[:k]) for k in range(len(levels) - 1, 0, -1)]
            found += [(name, parent) for parent in above if parent in known][:1]
        return cls(found, label_names=names)

    @classmethod
    def read(cls, path: AnyPath) -> Self:
        """Read rules from a text file, or implications from a CSV file.

        Parameters
        ----------
        path : str or Path
            A text file with one rule per line, as written by :meth:`to_text`, in which ``#`` starts
            a comment; or a CSV file with the header ``child,parent``.
        """
        with translate_errors(path, "a UTF-8 text file"):
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        found, parse = list[RuleText](), _parse
        if lines and re.fullmatch(r"\s*child\s*,\s*parent\s*", lines[0], re.IGNORECASE):
            lines[0], parse = "", _parse_csv
        for number, line in enumerate(lines, start=1):
            place = f"line {number}"
            try:
                if rule := parse(line):
                    rule.check()
                    found.append(rule._replace(place=f"{Path(path).name}, {place}"))
            except ValueError as error:
                raise DataFileError(path, str(error), place=place) from error
        try:
            return cls._of(found, None)
        except ValueError as error:
            raise DataFileError(path, str(error)) from error

    def to_text(self) -> str:
        """Return the rules as text, one per line, in the format that :meth:`read` reads."""
        return "".join(f"{rule}\n" for rule in self._rules())

    def propagate(self, Y: Any, label_names: Iterable[Any] | None = None) -> Any:
        """Fill in the missing labels that follow from known labels.

        Parameters
        ----------
        Y : array-like or data frame of shape (n_rows, n_labels)
            Labels with missing entries.
        label_names : iterable of str, default=None
            Names of the labels. By default, the column names of a data frame, or the
            ``label_names`` of the rules.

        Returns
        -------
        ndarray or data frame
            ``Y`` with the implied labels filled in. A row that contradicts the rules is not
            changed; see :meth:`contradictions`.
        """
        labels, logic = self._labels(Y, label_names)
        filled = logic.propagate(labels.signs).signs
        return frame_like(fill_with_labels(labels, filled > 0, filled == 0, float("nan")), Y)

    def contradictions(self, Y: Any, label_names: Iterable[Any] | None = None) -> dict[int, str]:
        """Find the rows that contradict the rules.

        Returns a mapping from each row number, counted from 0, to a text with the known labels and
        the rules that they contradict. See :meth:`propagate` for parameters.
        """
        labels, logic = self._labels(Y, label_names)
        rows = logic.propagate(labels.signs).contradictory.nonzero()[0]
        return {int(row): logic.explain(labels.signs[row]) for row in rows}

    def violations(self, Y: Any, label_names: Iterable[Any] | None = None) -> NDArray[np.intp]:
        """Count the rules that each row violates.

        ``Y`` usually contains predicted labels. Missing labels violate no rule. See
        :meth:`propagate` for parameters.
        """
        labels, logic = self._labels(Y, label_names)
        known = labels.signs[:, logic.columns]
        return logic.coherence.violations(known > 0, known == 0)

    def _warn(self, T: Signs) -> None:
        """Warn about rows that contradict the rules."""
        rows = self._logic.propagate(T).contradictory.nonzero()[0]
        if len(rows):
            warnings.warn(
                f"{len(rows)} row(s) contradict the rules. In row {rows[0]} (counted from 0), "
                f"{self._logic.explain(T[rows[0]])}. Correct one of these labels; "
                "LabelRules.contradictions lists all such rows.",
                UserWarning,
                stacklevel=5,
            )

    def _labels(self, Y: Any, label_names: Iterable[Any] | None) -> tuple[Any, RuleLogic]:
        labels = LabelMatrix.from_array(Y)
        return labels, self._named(labels, label_names)._logic

    def _named(self, labels: Any, label_names: Iterable[Any] | None = None) -> Self:
        """Return a copy of the rules with the label names of a label matrix."""
        plain = [f"y{k}" for k in range(labels.n_labels)]
        names = label_names, labels.names, self.label_names, plain
        found = next(list(some) for some in names if some is not None)
        if len(found) != labels.n_labels or labels.kind != "multilabel":
            raise ValueError(
                f"Rules need a label matrix and a name for each of its {labels.n_labels} columns, "
                f"got {len(found)} names. Pass a data frame, or label_names."
            )
        return self._of(self._rules(), found)

    def _rules(self) -> Iterator[RuleText]:
        """Yield all rules, each with its place in a file."""
        for kind in FIELDS:
            for names in getattr(self, kind):
                rule = RuleText(kind, names)
                yield rule._replace(place=(self.places or {}).get(str(rule), ""))

    @cached_property
    def _logic(self) -> RuleLogic:
        """The rules for label columns in the order of ``label_names``."""
        named = dict.fromkeys(name for rule in self._rules() for name in rule.names)
        return RuleLogic(list(self._rules()), list(self.label_names or named))


def _parse(line: str) -> RuleText | None:
    """Return the rule in a line of text, or None if the line has no rule."""
    found = _RULE.fullmatch(line)
    if found is None:
        raise ValueError(f"{line.strip()!r} is not a rule. {_FORMAT}")
    _, chain, head, group = found.groups()
    names = [name.strip() for name in re.findall(rf"({_NAME})(?:=>|,|$)", chain or group or "")]
    plain = (name[1:-1].replace('""', '"') if name[0] == '"' else name for name in names)
    return RuleText(HEADS.get(head, "implications"), tuple(plain)) if names else None


def _parse_csv(line: str) -> RuleText | None:
    """Return the implication in a line of a CSV file, or None if the line is empty."""
    cells = tuple(cell.strip() for cell in next(csv.reader([line]), []))
    if any(cells) and (len(cells) != 2 or not all(cells)):
        raise ValueError(f"expected the names of a child and a parent, got {line!r}")
    return RuleText("implications", cells) if any(cells) else None
