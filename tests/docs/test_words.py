"""Pages, docstrings, messages and public names use the terms of the field."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = ROOT / "docs" / "retired_words.txt"
WORDS = dict(
    line.split(": ", 1)
    for line in LIST.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)
RETIRED = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, WORDS))})s?(?![\w-])", re.IGNORECASE)
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md"]
PROGRAMS = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples" / "gallery").glob("*.py")]


def prose_of_page(text: str) -> str:
    """The text without code and addresses; code keeps its line ends."""
    for code in (r"^```.*?^```$", r"`[^`]*`", r"\]\([^)]*\)", r"<!--.*?-->"):
        text = re.sub(code, lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    return text


def texts_of_program(text: str) -> Iterator[tuple[int, str]]:
    """String literals, among them docstrings and messages, and names of functions and classes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, re.sub(r"``[^`]*``", "", node.value)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name.replace("_", " ")


def comments_of_program(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        _, found, comment = line.partition("# ")
        if found:
            yield number, comment


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_pages_have_no_retired_word(path):
    lines = prose_of_page(path.read_text(encoding="utf-8")).splitlines()
    found = [(i, m[0]) for i, line in enumerate(lines, 1) for m in RETIRED.finditer(line)]
    assert not found, f"docs/retired_words.txt has better words: {found}"


@pytest.mark.parametrize("path", PROGRAMS, ids=relative)
def test_programs_have_no_retired_word(path):
    text = path.read_text(encoding="utf-8")
    places = [*texts_of_program(text), *comments_of_program(text)]
    found = [(line, m[0]) for line, words in places for m in RETIRED.finditer(words)]
    assert not found, f"docs/retired_words.txt has better words: {found}"


@pytest.mark.parametrize("word", ["a hole", "Ticks", "a doubtful label", "two-way rankings"])
def test_a_retired_word_is_found(word):
    assert RETIRED.search(word)


@pytest.mark.parametrize("word", ["whole", "xticks", "set_ticks", "wholes", "doubtless"])
def test_other_words_are_not(word):
    assert not RETIRED.search(word)
