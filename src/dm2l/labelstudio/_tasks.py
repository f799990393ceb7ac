"""Export of table rows as Label Studio tasks, and import of annotations as answers."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from dm2l._utils import require
from dm2l._utils.files import atomic_write, translate_errors
from dm2l.labels._entries import Floats, Mask
from dm2l.review import ReviewSession
from dm2l.review._question import row_columns
from dm2l.tables import Table, TableModel


class AnnotationSession(ReviewSession):
    """A :class:`dm2l.review.ReviewSession` for Label Studio, with the same parameters."""

    measured = False  # refits compute no quality, because Label Studio does not show it

    @property
    def version(self) -> str:
        """The version name of the current model; the name is the same after a restart."""
        with self._lock:
            content = self.learnt.tobytes() + self.model.correlation.round(6).tobytes()
            new = ~np.isnan(self.learnt) & (self.learnt != self.table.Y)
            return f"dm2l-{int(new.sum())}-{hashlib.sha256(content).hexdigest()[:8]}"

    def open_rows(self) -> list[int]:
        """Return the rows with undecided missing labels, the most valuable row first."""
        with self._lock:
            return (self._predictions.values.rank_rows(self.journal.left())[0] + 1).tolist()

    def annotate(self, row: int, answers: Mapping[str, str], *, again: bool = True) -> int:
        """Save the new answers (by label) of an annotation; return the number of new answers.

        Rows are counted from 1. Answers to observed labels confirm or correct these labels. "skip"
        never replaces an earlier answer. With ``again=False``, earlier answers stay unchanged. If a
        yes implies another label by rules, the answer to that label is also yes. If all answers to
        an exactly-one group are no, these answers are not saved.
        """
        with self._lock:
            made, new = self.journal.made, dict[str, str]()
            for label, answer in self._implied(answers).items():
                observed, earlier = self.journal.observed(row, label), made.get((row, label))
                self.journal.check(row, label, answer, bool(observed))
                before = earlier.answer if earlier else observed
                if (again or not earlier) and answer != before and (answer != "skip" or not before):
                    new[label] = answer
            if new:
                self._save(row, new)
            return len(new)

    def _implied(self, answers: Mapping[str, str]) -> Mapping[str, str]:
        """Replace no by yes where rules imply yes, and drop exactly-one groups that are all no."""
        if (logic := self.journal._logic) is None:
            return answers
        names = self.table.label_names
        yes = np.array([[answers.get(name) == "yes" for name in names]], dtype=np.int8)
        implied = {names[k] for k in np.flatnonzero(logic.propagate(yes).signs[0] > 0)}
        found = {k: "yes" if a == "no" and k in implied else a for k, a in answers.items()}
        groups = [rule.names for rule, _ in logic.rules if rule.field == "exactly_one"]
        empty = {k for group in groups if {found.get(k) for k in group} == {"no"} for k in group}
        return {label: answer for label, answer in found.items() if label not in empty}

    def row_probabilities(self, row: int) -> tuple[Floats, Mask]:
        """Return the probabilities of all labels of a row, and a mask of its known labels."""
        with self._lock:
            known = self.journal.labels(row)
            p = self._predictions.values.probability[row - 1]
            return np.where(np.isnan(known), p, known), ~np.isnan(known)


KINDS = {"Choices": "choices", "Taxonomy": "taxonomy"}  # type of result for each tag
MOST_STEPS = 50  # maximum depth of a taxonomy
# Keys in the data of a task: its columns, its row number, and the start of the table's hash.
COLUMNS, ROW, TABLE = "columns", "dm2l_row", "dm2l_table"

ChoicePath = tuple[str, ...]


class Control(NamedTuple):
    """A tag of a labelling configuration; ``labels`` maps the path of a choice to a label."""

    name: str
    to_name: str
    kind: str
    labels: Mapping[ChoicePath, str]


Controls = tuple[Control, ...]


@lru_cache(maxsize=8)
def read_config(text: str, label_names: tuple[str, ...]) -> Controls:
    """Find the tags that offer labels of the model in a labelling configuration."""
    # XML entities could expand to gigabytes, and configurations do not need them.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("The labelling configuration has a DOCTYPE or ENTITY. Remove it.")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(f"The labelling configuration is not valid XML: {error}.") from error
    found: list[Control] = []
    seen: set[str] = set()
    for tag in root.iter():
        kind, name, to_name = KINDS.get(tag.tag), tag.get("name"), tag.get("toName")
        if kind is None or not name or not to_name:
            continue
        labels = _labels(tag, set(label_names))
        if twice := seen & set(labels.values()):
            raise ValueError(
                f"Two tags of the labelling configuration have the choice {min(twice)!r}. Remove "
                "the choice from one tag."
            )
        seen |= set(labels.values())
        if labels:
            found.append(Control(name, to_name.split(",")[0], kind, labels))
    if not found:
        raise ValueError(
            "No choice (Choices, Taxonomy) of the labelling configuration is a label of the model. "
            f"Add choices for: {', '.join(label_names[:5])}{', ...' * (len(label_names) > 5)}."
        )
    return tuple(found)


def _labels(tag: ET.Element, names: set[str]) -> dict[ChoicePath, str]:
    paths = list(_paths(tag))
    found = {path: "/".join(words) for path, words in paths if "/".join(words) in names}
    taken = set(found.values())
    for path, words in paths:
        if path not in found and words[-1] in names - taken:
            found[path] = words[-1]
    label, count = Counter(found.values()).most_common(1)[0] if found else ("", 0)
    if count > 1:
        raise ValueError(f"{count} choices match the label {label!r}. Use full paths as names.")
    return found


def _paths(tag: ET.Element) -> Iterator[tuple[ChoicePath, ChoicePath]]:
    """Yield two paths of each choice: with aliases, as in results, and without aliases."""
    waiting: list[tuple[ET.Element, ChoicePath, ChoicePath]] = [(tag, (), ())]
    while waiting:
        parent, path, words = waiting.pop()
        if len(path) > MOST_STEPS:
            raise ValueError(f"A taxonomy has too many levels. Use at most {MOST_STEPS} levels.")
        for choice in parent.findall("Choice"):
            if value := choice.get("value"):
                here = (*path, choice.get("alias") or value), (*words, value)
                yield here
                waiting.append((choice, *here))


def make_config(label_names: Sequence[str]) -> str:
    """Return a labelling configuration that shows the columns of a row and asks for all labels.

    Examples
    --------
    >>> from dm2l.labelstudio import make_config
    >>> print(make_config(["liver", "skin"]))
    <View>
      <Table name="row" value="$columns" />
      <Choices name="labels" toName="row" choice="multiple">
        <Choice value="liver" />
        <Choice value="skin" />
      </Choices>
    </View>
    """
    view = ET.Element("View")
    ET.SubElement(view, "Table", name="row", value=f"${COLUMNS}")
    choices = ET.SubElement(view, "Choices", name="labels", toName="row", choice="multiple")
    for name in label_names:
        ET.SubElement(choices, "Choice", value=name)
    ET.indent(view)
    return ET.tostring(view, encoding="unicode")


def answers_of(annotation: Any, controls: Controls, unchosen: str = "no") -> dict[str, str]:
    """Return answers by label; a selected choice in a taxonomy includes all choices above it."""
    if not isinstance(annotation, Mapping) or not isinstance(annotation.get("result"), list):
        raise ValueError("An annotation has no list 'result'. Export JSON, not JSON-MIN.")
    if annotation.get("was_cancelled"):
        return {label: "skip" for control in controls for label in control.labels.values()}
    found = {}
    for control in controls:
        chosen = set()
        for result in annotation["result"]:
            if isinstance(result, Mapping) and result.get("from_name") == control.name:
                for path in _chosen(result, control.kind):
                    chosen |= {path[: k + 1] for k in range(len(path))}
        for path, label in control.labels.items():
            if path in chosen or unchosen == "no":
                found[label] = "yes" if path in chosen else "no"
    return found


def _chosen(result: Mapping[str, Any], kind: str) -> list[ChoicePath]:
    value = result.get("value")
    chosen = value.get(kind) if isinstance(value, Mapping) else None
    if not isinstance(chosen, list):
        raise ValueError(f"A result of type {kind} must have a list of values, got {chosen!r:.40}.")
    paths = [one if isinstance(one, list) else [one] for one in chosen]
    if not all(isinstance(step, str) for path in paths for step in path):
        raise ValueError(f"Values of {kind} must be text.")
    return [tuple(path) for path in paths]


def prediction_of(
    row: tuple[Any, Mask], names: list[str], controls: Controls, version: str, logic: Any = None
) -> dict[str, Any]:
    """Return a prediction for Label Studio: likely choices that obey rules, and mean confidence."""
    probabilities, known = row
    positive = probabilities >= 0.5
    if logic is not None:
        T = np.where(known, 2 * positive - 1, 0).astype(np.int8)[None]
        closed, against = logic.propagate(T)
        if not against[0]:
            positive = logic.decide(positive[None], probabilities[None], closed)[0]
    yes = dict(zip(names, positive.tolist(), strict=True))
    results = []
    for control in controls:
        paths = [list(path) for path, label in control.labels.items() if yes[label]]
        chosen = paths if control.kind == "taxonomy" else [path[-1] for path in paths]
        if chosen:  # like Label Studio, add no result if nothing is chosen
            to, value = {"to_name": control.to_name}, {control.kind: chosen}
            results.append({"from_name": control.name, **to, "type": control.kind, "value": value})
    open_ = probabilities[~known]
    score = float(np.maximum(open_, 1 - open_).mean()) if len(open_) else 1.0
    return {"result": results, "score": round(score, 6), "model_version": version}


def export_tasks(session: AnnotationSession, output: str | Path, top: int | None = None) -> int:
    """Write open rows (most valuable first) and answered rows, and return the number of tasks."""
    table, version, logic = session.table, session.version, session.journal._logic
    controls = read_config(make_config(table.label_names), tuple(table.label_names))
    open_rows = session.open_rows()
    tasks = []
    for row in [*open_rows[:top], *(r for r in session.journal.rows() if r not in open_rows)]:
        found = session.row_probabilities(row)
        predicted = prediction_of(found, table.label_names, controls, version, logic)
        columns = {column.name: column.text for column in row_columns(table, row, None)}
        data = {COLUMNS: columns, ROW: row, TABLE: session.journal.digest[:12]}
        done = {"annotations": [{"result": predicted["result"]}]}
        tasks.append({"data": data, **(done if found[1].all() else {"predictions": [predicted]})})
    with atomic_write(Path(output)) as unfinished:
        unfinished.write_text(json.dumps(tasks, ensure_ascii=False), encoding="utf-8")
    return len(tasks)


def import_annotations(
    session: AnnotationSession, path: str | Path, config: str | None = None, unchosen: str = "no"
) -> tuple[int, int]:
    """Save the answers of a Label Studio export; return numbers of answers and unknown tasks."""
    names = session.table.label_names
    controls = read_config(make_config(names) if config is None else config, tuple(names))
    with translate_errors(path, "JSON of Label Studio", RecursionError):
        tasks = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise ValueError(f"{path} must contain a list of tasks. Export the project as JSON.")
    known = {control.name for control in controls}
    rows = [row_of(task, session) for task in tasks]
    made = []
    for row, task in zip(rows, tasks, strict=True):  # read all tasks before saving any answer
        for annotation in annotations_of(task):
            made.append((row, answers_of(annotation, controls, unchosen)))
            results = (one for one in annotation["result"] if isinstance(one, dict))
            used = {str(one.get("from_name")) for one in results}
            if annotation["result"] and not used & known:
                raise ValueError(
                    f"{path} has results of the tags {', '.join(sorted(map(repr, used)))}, but the "
                    f"labelling configuration has the tags {', '.join(sorted(map(repr, known)))}. "
                    "Pass the configuration of the project with --config."
                )
    n_answers = sum(session.annotate(row, answers) for row, answers in made if row is not None)
    return n_answers, rows.count(None)


def row_of(task: Mapping[str, Any], session: AnnotationSession) -> int | None:
    """Return the row number (from 1) of a task, or None if the task is not a row of this table."""
    data = task.get("data")
    if not isinstance(data, Mapping) or data.get(TABLE) != session.journal.digest[:12]:
        return None
    row = data.get(ROW)
    return row if type(row) is int and 1 <= row <= session.table.n_rows else None


def annotations_of(task: Mapping[str, Any]) -> list[Any]:
    """Return the annotations of a task, from the oldest to the newest."""
    found = task.get("annotations")
    made = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return sorted(made, key=lambda one: str(one.get("updated_at", "")))


def predict_tasks(
    session: AnnotationSession, tasks: Sequence[Mapping[str, Any]], controls: Controls
) -> list[dict[str, Any]]:
    """Return predictions for tasks, which are rows of the table or contain new rows."""
    names, version, logic = session.table.label_names, session.version, session.journal._logic
    rows = [row_of(task, session) for task in tasks]
    others = [task for row, task in zip(rows, tasks, strict=True) if row is None]
    p_others = iter(_by_columns(session.model, others) if others else ())
    none = np.zeros(len(names), dtype=bool)
    found = (session.row_probabilities(row) if row else (next(p_others), none) for row in rows)
    return [prediction_of(mine, names, controls, version, logic) for mine in found]


def _by_columns(model: TableModel, tasks: Sequence[Mapping[str, Any]]) -> Any:
    if model.uses is None:
        raise ValueError(
            "This model needs sparse features, so all tasks must be rows of its table. Export the "
            "tasks with dm2l review --export labelstudio."
        )
    names = [use.name for use in model.uses if use.used]
    rows = []
    for task in tasks:
        data = task.get("data")
        columns = data.get(COLUMNS, data) if isinstance(data, Mapping) else None
        if not isinstance(columns, Mapping):
            raise ValueError(f"The data of a task and its {COLUMNS!r} must be JSON objects.")
        # Nested values count as missing.
        simple = {name: v for name, v in columns.items() if isinstance(v, (str, int, float))}
        rows.append({name: str(simple[name]) if name in simple else None for name in names})
    for name in names:
        if all(row[name] is None for row in rows):
            raise ValueError(f"No task has the column {name!r} of the model. Add the column.")
    frame = require("pandas", "io").DataFrame(rows, columns=names, dtype=object)
    Y = np.full((len(rows), len(model.label_names)), np.nan)
    table = Table(Path("tasks"), frame, None, names, model.label_names, Y)
    return model.answer(model.inputs(table)[0]).probabilities
