"""What is delivered with a package: a bill of materials (CycloneDX 1.6) and licences."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Extras of people who work on the project.
OF_DEVELOPERS = {"test", "lint", "docs", "dev"}


class Components:
    """The packages that ``name`` needs, as they are installed in the folder ``site``."""

    def __init__(self, name: str, site: Path) -> None:
        found = distributions(path=[str(site)])
        self.installed = {canonicalize_name(one.metadata["Name"]): one for one in found}
        self.name = name
        extras = self.installed[name].metadata.get_all("Provides-Extra") or []
        self.extras = sorted(set(extras) - OF_DEVELOPERS)
        self.required = self._closure(())
        self.optional = self._closure(self.extras) - self.required

    def needs(self, name: str, extras: tuple[str, ...] | list[str]) -> Iterator[Requirement]:
        """Requirements of a package that hold here, those of ``extras`` among them."""
        if name not in self.installed:
            return
        for text in self.installed[name].requires or []:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                yield requirement

    def _closure(self, extras: tuple[str, ...] | list[str]) -> set[str]:
        seen: set[tuple[str, tuple[str, ...]]] = set()
        ahead = [(self.name, tuple(extras))]
        while ahead:
            here = ahead.pop()
            if here not in seen:
                seen.add(here)
                ahead += [
                    (canonicalize_name(one.name), tuple(sorted(one.extras)))
                    for one in self.needs(*here)
                ]
        return {name for name, _ in seen} - {self.name}

    def licence(self, name: str) -> str:
        """In the words of the package, the shortest that it has, or the first line of the text."""
        if name not in self.installed:
            return ""
        about = self.installed[name].metadata
        # Some put the whole text where its name belongs; it begins with the name.
        first, *more = (about.get("License") or "").strip().splitlines() or [""]
        classes = [
            line.split(" :: ")[-1]
            for line in about.get_all("Classifier") or []
            if line.startswith("License :: ") and not line.endswith("OSI Approved")
        ]
        texts = (text.strip().splitlines() for text in licence_files(self.installed[name]).values())
        named = ["" if more else first, " and ".join(classes), first, *(t[0] for t in texts if t)]
        return about.get("License-Expression") or next(filter(None, named), "")

    def entry(self, name: str) -> dict[str, Any]:
        """A component of the bill of materials."""
        one = self.installed.get(name)
        version = {"version": one.version} if one else {}
        found: dict[str, Any] = {"type": "library", "bom-ref": self._url(name), "name": name}
        found |= {**version, "purl": self._url(name)}
        if one and one.metadata.get("License-Expression"):
            found["licenses"] = [{"expression": one.metadata["License-Expression"]}]
        elif self.licence(name):
            found["licenses"] = [{"license": {"name": self.licence(name)}}]
        return found

    def _url(self, name: str) -> str:
        one = self.installed.get(name)
        return f"pkg:pypi/{name}@{one.version}" if one else f"pkg:pypi/{name}"

    def bill(self, epoch: int) -> dict[str, Any]:
        """The bill of materials; the same for the same packages at the same time."""
        entries = [
            self.entry(name) | {"scope": "required" if name in self.required else "optional"}
            for name in sorted(self.required | self.optional)
        ]
        edges = []
        for name in (self.name, *sorted(self.required | self.optional)):
            needs = self.needs(name, self.extras if name == self.name else ())
            names = {canonicalize_name(one.name) for one in needs} - {self.name}
            edges.append({"ref": self._url(name), "dependsOn": sorted(map(self._url, names))})
        number = uuid.uuid5(uuid.NAMESPACE_URL, f"{epoch} {[one['bom-ref'] for one in entries]}")
        return {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{number}",
            "version": 1,
            "metadata": {
                "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
                "component": self.entry(self.name),
            },
            "components": entries,
            "dependencies": edges,
        }

    def licences(self) -> str:
        """A list of all licences, and after it their texts as the packages carry them."""
        names = sorted(self.required | self.optional)
        table = [
            f"{self._url(name).removeprefix('pkg:pypi/'):40} "
            f"{self.licence(name) or 'not installed here'}"
            for name in names
        ]
        texts = [
            f"{'=' * 100}\n{name}, {place}\n{'=' * 100}\n\n{text}"
            for name in names
            if name in self.installed
            for place, text in licence_files(self.installed[name]).items()
        ]
        return "\n".join([*table, "", *texts])


def licence_files(package: Distribution) -> Mapping[str, str]:
    """Texts that a package says are its licence, by the name of the file."""
    kept = r"(.*/)?[^/]*\.dist-info/(.*/)?[^/]*(licen[cs]e|copying|notice)[^/]*"
    return {
        str(path): path.read_text(encoding="utf-8")
        for path in package.files or []
        if re.fullmatch(kept, str(path), flags=re.IGNORECASE)
    }
