"""Check that the built pages need nothing but each other.

    python docs/local_links.py build/docs/html

Every link within the site leads to a file and, behind a #, to a place in it; no script, style or
picture comes from elsewhere.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links, loaded files and places of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found.get("id", ""), found.get("name", "")}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.add(found["href"])
        elif "src" in found:
            self.loaded.add(found["src"])


def problems(root: Path) -> list[str]:
    """What is wrong, a line each."""
    # What the theme keeps in _static are templates, not pages.
    paths = (path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: Page(path) for path in paths}
    found = []
    for path, page in pages.items():
        for address in sorted(page.links | page.loaded):
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if address in page.loaded:
                    found.append(f"{path.relative_to(root)} loads {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.is_file():
                found.append(f"{path.relative_to(root)}: no file {address}")
            elif place and target in pages and place not in pages[target].places:
                found.append(f"{path.relative_to(root)}: no place {address}")
    return found


if __name__ == "__main__":
    complaints = problems(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(complaints) if complaints else 0)
