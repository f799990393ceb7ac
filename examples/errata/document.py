"""Write the output of the demonstrations into docs/research/errata.md, or check it.

python examples/errata/document.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "research" / "errata.md"
RESULTS = HERE / "results.json"


def block(name: str, entry: dict[str, Any]) -> str:
    return "\n".join(["```text", f"$ python examples/errata/{name}.py", *entry["printed"], "```"])


def versions(record: dict[str, Any]) -> str:
    found = {json.dumps(entry["versions"]) for entry in record.values()}
    texts = sorted(", ".join(f"{k} {v}" for k, v in json.loads(one).items()) for one in found)
    minutes = sum(entry["seconds"] for entry in record.values()) / 60
    return f"Versions: {'; '.join(texts)}. The scripts took {minutes:.0f} minutes."


def fill(page: str, record: dict[str, Any]) -> str:
    """Return the page with the recorded blocks between its comment marks."""
    texts = {name: block(name, entry) for name, entry in record.items()}
    texts["versions"] = versions(record)
    for name, text in texts.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        found = marks.search(page)
        if found is None:
            raise ValueError(
                f"The page has no place for {name}. Add <!-- {name} --> and <!-- end --> to it."
            )
        head, foot = found[1], found[2]
        page = page[: found.start()] + f"{head}{text}\n{foot}" + page[found.end() :]
    return page


def main() -> None:
    old = PAGE.read_text()
    new = fill(old, json.loads(RESULTS.read_text()))
    if "--check" not in sys.argv:
        partial = PAGE.with_suffix(".partial")
        partial.write_text(new)
        partial.replace(PAGE)
    elif new != old:
        sys.exit(f"{PAGE.name} does not match {RESULTS.name}: run document.py")


if __name__ == "__main__":
    main()
