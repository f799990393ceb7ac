"""Labelling configurations of Label Studio, and the labels of a model among their choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from xml.etree import ElementTree as ET

# Tags, what their results are called, and what the values of these are called.
KINDS = {"Choices": "choices", "Taxonomy": "taxonomy"}
# Steps of a path in a taxonomy.
MOST_STEPS = 50
# Where the columns of a row are in the data of a task.
COLUMNS = "columns"

ChoicePath = tuple[str, ...]


class Control(NamedTuple):
    """A tag with choices, and the labels that they are, by path (one step but in a taxonomy)."""

    name: str
    to_name: str
    kind: str
    labels: Mapping[ChoicePath, str]


@lru_cache(maxsize=8)
def read_config(text: str, label_names: tuple[str, ...]) -> tuple[Control, ...]:
    """The controls of a configuration whose choices are labels.

    A choice is the label of its name; in a taxonomy that of its path (``animals/cats``), or of its
    last step. Other choices, and other labels, are ignored.
    """
    # Entities can expand to gigabytes, and a configuration needs none.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("The labelling configuration must not declare a document type.")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(f"The labelling configuration is not XML: {error}.") from error
    found: list[Control] = []
    seen: set[str] = set()
    for tag in root.iter():
        kind, name, to_name = KINDS.get(tag.tag), tag.get("name"), tag.get("toName")
        if kind is None or not name or not to_name:
            continue
        labels = _labels(tag, set(label_names))
        if twice := seen & set(labels.values()):
            raise ValueError(f"{min(twice)!r} is a choice of two tags of the configuration.")
        seen |= set(labels.values())
        if labels:
            found.append(Control(name, to_name.split(",")[0], kind, labels))
    if not found:
        raise ValueError(
            "No choice of the labelling configuration (Choices, Taxonomy) is a label of the model: "
            f"{', '.join(label_names[:5])}{', ...' if len(label_names) > 5 else ''}."
        )
    return tuple(found)


def _labels(tag: ET.Element, names: set[str]) -> dict[ChoicePath, str]:
    paths = list(_paths(tag))
    found = {path: "/".join(words) for path, words in paths if "/".join(words) in names}
    taken = set(found.values())
    for path, words in paths:
        if path not in found and words[-1] in names - taken:
            found[path] = words[-1]
    if len(set(found.values())) < len(found):
        raise ValueError("A label is in two places of the taxonomy: name labels by their paths.")
    return found


def _paths(tag: ET.Element) -> Iterator[tuple[ChoicePath, ChoicePath]]:
    """Paths of choices as results have them, and in words."""
    waiting: list[tuple[ET.Element, ChoicePath, ChoicePath]] = [(tag, (), ())]
    while waiting:
        parent, path, words = waiting.pop()
        if len(path) > MOST_STEPS:
            raise ValueError(f"A taxonomy may have at most {MOST_STEPS} levels.")
        for choice in parent.findall("Choice"):
            if value := choice.get("value"):
                here = (*path, choice.get("alias") or value), (*words, value)
                yield here
                waiting.append((choice, *here))


def make_config(label_names: Sequence[str]) -> str:
    """A configuration that shows the columns of a row and asks for all labels.

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
