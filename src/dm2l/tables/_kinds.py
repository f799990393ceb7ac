"""Use of each column as a feature, or the reason to leave it out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dm2l._utils import require
from dm2l._utils.inputs import check_choice
from dm2l.chemistry import ABSENT, has_rdkit, is_valid_smiles
from dm2l.io import _columns

# Dates with the year first, or last after day and month, or after month and day.
DATES = ("date", "date-dmy", "date-mdy")
KINDS = ("numeric", "boolean", "category", "text", "smiles", *DATES)
Kinds = Mapping[str, str] | None  # kinds by the name or pattern of columns
DATE_PARTS = ("year", "month", "weekday", "days")  # the features of a date

# How messages name a value of each kind.
_VALUES = {"numeric": "a number", "boolean": "yes or no", **dict.fromkeys(DATES, "a date")}
_VALUES["score"] = "a number"
# Prefix of the columns of kind "score", which are the scores of another model for a label.
SCORE_OF = "score of "
# Maximum number of distinct values of a category in any table, and in a table with many rows.
FEW, MOST = 20, 200
# Maximum share of other text ("<0.5", "n.d.") among the values of a column of numbers.
DIRTY = 0.1
NAMED = 20  # maximum number of rows with invalid SMILES in a message
TEXTS = 10  # minimum number of rows with text for features from words

_TIMES = "times of day or dates with two-digit years; write years with four digits"
_TIME = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2}( .*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_CLOCK = r"(?:[ T]\d{1,2}:\d{2}.*)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_CLOCK}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})[-/.](\d{{1,2}})[-/.](\d{{4}}){_CLOCK}")
# Names such as patient_id, id, Key, SeqID and rowNr, but not "acid".
_NAMED_ID = re.compile(r"(?i:(.*[\W_])?(id|uuid|guid|key|index|nr))|.*[a-z](ID|Id|UUID|Key|Nr)")
# Atoms, bonds, rings and branches of a molecule. At most four digits in a row are allowed, so that
# serial numbers such as SN22879191 are not taken for molecules.
_SMILES = re.compile(
    r"(\[[^\]\s]+\]|Br|Cl|[BCNOPSFIbcnops]|[-=#$:/\\.~()]|%\d\d|\d{1,4}(?!\d)|\*)+"
)
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class ColumnUse:
    """The kind of a column, the reason why it is left out, and a note on its values."""

    name: str
    kind: str
    reason: str = ""
    note: str = ""

    @property
    def inputs(self) -> list[str]:
        """The names of the prepared columns: the parts of a date, or the name of the column."""
        return [f"{self.name}: {p}" for p in DATE_PARTS] if self.kind in DATES else [self.name]

    @property
    def used(self) -> bool:
        """Whether the column is a feature."""
        return self.kind in (*KINDS, "score")


def column_kinds(
    frame: Any, kinds: Kinds = None, *, drop: Sequence[str] = (), decimal: str = "."
) -> list[ColumnUse]:
    """Detect how each column of a data frame is used; ``kinds`` overrides the detected kinds."""
    names = [str(name) for name in frame.columns]
    _columns.check_distinct(names, "The data frame")
    wanted = {}
    # Patterns come first, so that the kind of a column given by name overrides them.
    for asked, kind in sorted((kinds or {}).items(), key=lambda item: item[0] in names):
        check_choice(f"The kind of column {asked!r}", kind, *KINDS)
        meant = _columns.match_columns(names, asked, "The table without its labels")
        wanted.update(dict.fromkeys((names[j] for j in meant), kind))
    dropped = {
        names[j] for j in _columns.match_columns(names, drop, "The table without its labels")
    }
    added = _columns.added_columns(names) - wanted.keys()
    uses = []
    for j, name in enumerate(names):
        if name.startswith(SCORE_OF):
            uses.append(ColumnUse(name, "score"))
        elif name in dropped:
            uses.append(ColumnUse(name, "dropped", "dropped on request"))
        elif name in added:
            why = "an output of dm2l for a label; pass --kind to use the column"
            uses.append(ColumnUse(name, "unusable", why))
        else:
            column = frame.iloc[:, j]
            given = wanted.get(name)
            use = ColumnUse(name, given) if given else _guess(name, column, decimal)
            if given or use.kind == "smiles":
                use = replace(use, note=typed_column(column, use.kind, decimal)[1])
            uses.append(use)
    return uses


def typed_column(column: Any, kind: str, decimal: str = ".", first_row: int = 1) -> tuple[Any, str]:
    """Return a column converted to its kind, and a note on values that cannot be converted."""
    if kind in ("category", "text"):
        return as_text(column), ""
    if kind == "smiles":
        texts = as_text(column)
        molecules = np.where(is_valid_smiles(texts), texts, "")
        rows = np.flatnonzero(molecules == "")
        if not len(rows):
            return molecules, ""
        listed = ", ".join(map(str, rows[:NAMED] + first_row)) + ", ..." * (len(rows) > NAMED)
        have, are = ("row has", "is") if len(rows) == 1 else ("rows have", "are")
        return molecules, (
            f"{len(rows)} {have} invalid SMILES and {are} skipped (row {listed}; the first value "
            f"is {texts[rows[0]][:40]!r})"
        )
    if kind in DATES:
        values = as_days(column, kind)
    else:
        numbers = kind in ("numeric", "score")
        values = as_numbers(column, decimal) if numbers else as_booleans(column)
    lost = np.isnan(values)
    if not lost.any():
        return values, ""
    texts = as_text(column)
    odd = np.flatnonzero(lost & (texts != ""))
    if not len(odd):
        return values, ""
    first, count = texts[odd[0]], f" ({len(odd)} such values)" if len(odd) > 1 else ""
    comma = kind == "numeric" and _columns.as_number(first.replace(",", ".")) is not None
    return values, (
        f"{first[:40]!r} in row {odd[0] + first_row} is not {_VALUES[kind]}{count} and is read as "
        f"missing{'; pass --decimal=, to read decimal commas' if comma else ''}"
    )


def check_kinds(uses: Sequence[ColumnUse], kinds: Any, frame: Any, decimal: str) -> None:
    """Reject a kind that was given for a column without any value of that kind."""
    for use in uses if kinds else ():
        if use.kind not in _VALUES or not use.note:
            continue
        column = frame[use.name]
        if np.isnan(typed_column(column, use.kind, decimal)[0]).all():
            texts = as_text(column)
            first = np.flatnonzero(texts != "")[0]
            raise _columns.ColumnRequestError(
                f"Column {use.name!r} cannot be {use.kind}, because none of its values is "
                f"{_VALUES[use.kind]} (row {first + 1} has {texts[first][:40]!r}). Choose another "
                "kind with --kind (kinds=), or leave the column out with --drop (drop=)."
            )


def _guess(name: str, column: Any, decimal: str) -> ColumnUse:
    types = require("pandas", "io").api.types
    dtype, present = column.dtype, column.dropna()
    if len(present) == 0:
        return ColumnUse(name, "empty", "no values")
    numeric = types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)
    if types.is_bool_dtype(dtype) or numeric:
        kind = "boolean" if types.is_bool_dtype(dtype) else "numeric"
        if kind == "numeric" and _counts_rows(name, column):
            return ColumnUse(name, "identifier", "a different number in every row")
        values = present.unique()
        if len(values) == 1:
            return _one_value(name, kind, str(values[0]), len(column), len(present))
        return ColumnUse(name, kind)
    if types.is_datetime64_any_dtype(dtype):
        return ColumnUse(name, "date")
    for value in present.to_numpy(dtype=object):
        known = isinstance(value, (str, bool, int, float, np.number)) or hasattr(value, "year")
        if not known:
            return ColumnUse(name, "unusable", f"values have the type {type(value).__name__}")
    return _guess_text(name, column, decimal)


def _guess_text(name: str, column: Any, decimal: str) -> ColumnUse:
    texts = as_text(column)
    present = texts[texts != ""]
    n_rows, different = len(present), set(present)
    if n_rows == 0:
        return ColumnUse(name, "empty", "no values")
    if len(different) == 1:
        # Any other single word is a category, with blanks as the second category.
        kind = "category" if _columns.parse_mark_or_boolean(present[0]) is None else "boolean"
        return _one_value(name, kind, repr(present[0][:40]), len(texts), n_rows)
    if all(_columns.parse_boolean(text) in (0.0, 1.0) for text in different):
        return ColumnUse(name, "boolean")
    if _columns.are_codes(different):
        use = _guess_words(name, present)
        why = f"codes with leading zeros, such as {min(present)[:40]!r}"
        if not use.used:
            return replace(use, reason=f"{why}; {use.reason}")
        return replace(use, note="; ".join(filter(None, (why, use.note))))
    numbers, note = typed_column(column, "numeric", decimal)
    if np.sum(np.isnan(numbers) & (texts != "")) <= DIRTY * n_rows:
        return ColumnUse(name, "numeric", note=note)
    if decimal == "." and np.isfinite(as_numbers(column, ",")).sum() >= (1 - DIRTY) * n_rows:
        reason = "numbers with commas; if these are decimal commas, pass --decimal=, (decimal=)"
        return ColumnUse(name, "unusable", reason)
    for pattern in (_YEAR_FIRST, _YEAR_LAST, _TIME):
        found = [match for text in present if (match := pattern.fullmatch(text)) is not None]
        if len(found) >= (1 - DIRTY) * n_rows:
            return _guess_date(name, found)
    if _are_smiles(name, present):
        if has_rdkit():
            return ColumnUse(name, "smiles")
        return ColumnUse(name, "unusable", f"molecules as SMILES. {ABSENT[:-1]}")
    return _guess_words(name, present)


def _guess_date(name: str, dates: Sequence[re.Match[str]]) -> ColumnUse:
    """Return the use of a column of dates; an unclear order of day and month excludes it."""
    if dates[0].re is not _YEAR_LAST:
        first = dates[0].re is _YEAR_FIRST
        return ColumnUse(name, "date") if first else ColumnUse(name, "unusable", _TIMES)
    after_12 = [any(int(date[part]) > 12 for date in dates) for part in (1, 2)]
    if after_12[0] is not after_12[1]:
        return ColumnUse(name, "date-dmy" if after_12[0] else "date-mdy")
    why = "order of day and month is " + ("mixed" if after_12[0] else "unclear")
    which = f"pass --kind {name}=date-dmy or {name}=date-mdy (kinds=)"
    return ColumnUse(name, "unusable", f"dates whose {why}, such as {dates[0][0][:40]}; {which}")


def _guess_words(name: str, present: Any) -> ColumnUse:
    """Return the use of a column of words."""
    n_rows, different = len(present), len(set(present))
    words = float(np.mean([len(text.split()) for text in present]))
    if different == n_rows and words < 2:
        why = "a different single word in every row; pass --kind to use the column"
        return ColumnUse(name, "identifier", why)
    if different <= min(MOST, max(FEW, n_rows // 10)) and (words < 4 or 2 * different <= n_rows):
        return ColumnUse(name, "category")
    if words >= 2:
        if n_rows < TEXTS or not any(_WORD.search(text) for text in present):
            return ColumnUse(name, "unusable", f"text in only {n_rows} rows, too few to learn from")
        return ColumnUse(name, "text")
    if 2 * different <= n_rows:
        return ColumnUse(name, "category", note=f"a category with {different} values")
    why = f"{different} different values in {n_rows} rows, too many for categories"
    return ColumnUse(name, "unusable", why)


def _are_smiles(name: str, texts: Any) -> bool:
    """Return whether most texts look like SMILES that contain a ring, bond or branch."""
    sample = texts[:1000]
    if np.mean([_SMILES.fullmatch(text) is not None for text in sample]) <= 0.9:
        return False
    if "smiles" in name.lower():
        return True
    drawn = np.mean([any(sign in text for sign in "=#()1") for text in sample])
    if drawn <= 0.5 or np.mean(list(map(len, sample))) <= 8:
        return False
    return not has_rdkit() or bool(is_valid_smiles(sample).mean() > 0.5)


def as_text(column: Any) -> Any:
    """Convert a column to an array of stripped text; missing values become blank."""
    missing = column.isna().to_numpy()
    values = zip(column.to_numpy(dtype=object), missing, strict=True)
    texts = ("" if absent else str(value).strip() for value, absent in values)
    words = ["" if text.casefold() in _columns.MISSING_WORDS else text for text in texts]
    return np.array(words, dtype=object)


def as_numbers(column: Any, decimal: str = ".") -> Any:
    """Convert a column to float64; values that are not finite numbers become NaN."""
    pandas = require("pandas", "io")
    if column.dtype == object or pandas.api.types.is_string_dtype(column.dtype):
        texts = as_text(column)
        if decimal != ".":
            written = [isinstance(value, str) for value in column.to_numpy(dtype=object)]
            pairs = zip(texts, written, strict=True)
            texts = [_columns.with_point(text, decimal) if spelt else text for text, spelt in pairs]
        column = pandas.Series(texts, dtype=object)
    numbers = pandas.to_numeric(column, errors="coerce")
    numbers = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def as_days(column: Any, kind: str) -> Any:
    """Convert dates to days since 1970 as float64; other values become NaN."""
    pandas = require("pandas", "io")
    pattern, order = (_YEAR_FIRST, "ymd") if kind == "date" else (_YEAR_LAST, kind[-3:])
    found = pandas.Series(as_text(column), dtype=object).str.extract(rf"^{pattern.pattern}$")
    found.columns = [{"y": "year", "m": "month", "d": "day"}[part] for part in order]
    dates = pandas.to_datetime(found, errors="coerce")
    return ((dates - pandas.Timestamp(0)) / pandas.Timedelta(days=1)).to_numpy(dtype=np.float64)


def as_booleans(column: Any) -> Any:
    """Convert a column to 1 and 0; values that are neither yes nor no become NaN."""
    if column.dtype.kind in "bif" and column.dropna().isin((0, 1)).all():
        return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))
    answers = (_columns.parse_mark_or_boolean(text) for text in as_text(column))
    return np.array([np.nan if a is None or a < 0 else a for a in answers], dtype=np.float64)


def _counts_rows(name: str, column: Any) -> bool:
    """Return whether a column of distinct integers is consecutive or named like an ID."""
    if column.isna().any() or len(column) < 3 or column.nunique() < len(column):
        return False
    numbers = column.to_numpy(dtype=np.float64)
    if not (numbers == np.round(numbers)).all():
        return False
    return bool((np.diff(np.sort(numbers)) == 1).all()) or _NAMED_ID.fullmatch(name) is not None


def _one_value(name: str, kind: str, value: str, n_rows: int, n_known: int) -> ColumnUse:
    """Return the use of a column with a single value: a feature only if many cells are blank."""
    if n_rows - n_known <= DIRTY * n_rows:
        return ColumnUse(name, "constant", f"always {value}")
    return ColumnUse(name, kind, note=f"always {value} or blank; read as present or absent")
