"""Write ``api.md``: every public name of dm2l with its signature and the first line about it.

Run it where a change of the public API is meant, from the root of the repository::

    PYTHONPATH=src python tests/dm2l/stored/write_api.py

A name is public if it stands in ``__all__`` of a module without leading underscore in its path.
``tests/dm2l/test_stored_api.py`` compares the file with the code.
"""

import importlib
import inspect
import pkgutil
from functools import cached_property
from pathlib import Path
from typing import Any

import dm2l

FILE = Path(__file__).parent / "api.md"


def public_names() -> dict[str, Any]:
    """Objects by dotted path, modules in alphabetical order."""
    modules = pkgutil.walk_packages(dm2l.__path__, "dm2l.")
    paths = [path for _, path, _ in modules if not any(p[0] == "_" for p in path.split("."))]
    found = {}
    for path in ["dm2l", *sorted(paths)]:
        module = importlib.import_module(path)
        for name in sorted(getattr(module, "__all__", ())):
            found[f"{path}.{name}"] = getattr(module, name)
    return found


def members(value: Any) -> dict[str, Any]:
    """Public methods and properties of a class that code of dm2l defines."""
    if not inspect.isclass(value):
        return {}
    names = {
        name
        for part in value.__mro__
        if part.__module__.startswith("dm2l")
        for name, member in part.__dict__.items()
        if not name.startswith("_")
        and not name.endswith("_request")  # methods that scikit-learn writes
        and (callable(getattr(part, name)) or is_property(member))
    }
    return {name: _member(value, name) for name in sorted(names)}


def _member(value: Any, name: str) -> Any:
    """Like getattr, but class methods keep their first argument and properties are themselves."""
    member = inspect.getattr_static(value, name)
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if is_property(member) else getattr(value, name)


def is_property(value: Any) -> bool:
    return isinstance(value, property | cached_property)


def signature(value: Any) -> str:
    """Arguments without annotations; the type of a value that cannot be called."""
    if is_property(value):
        return ": property"
    if not callable(value):
        return f": {type(value).__name__}"
    try:
        found = inspect.signature(value)
    except ValueError:  # exceptions and warnings
        return "(...)"
    parameters = [_bare(parameter) for parameter in found.parameters.values()]
    found = found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return str(found)


def _bare(parameter: inspect.Parameter) -> inspect.Parameter:
    if inspect.isroutine(parameter.default):  # whose representation holds an address
        parameter = parameter.replace(default=parameter.default.__name__)
    return parameter.replace(annotation=inspect.Parameter.empty)


def first_line(value: Any) -> str:
    """The first line of the docstring; nothing for constants, which show that of their type."""
    if not (callable(value) or is_property(value)):
        return ""
    return (inspect.getdoc(value) or "").partition("\n")[0]


def describe() -> str:
    """The whole file."""
    names = public_names()
    lines = ["# Public names", "", f"{len(names)} names; `write_api.py` writes this file.", ""]
    for path, value in names.items():
        lines.append(_line(path, value))
        lines += [f"  {_line(name, member)}" for name, member in members(value).items()]
    return "\n".join(lines) + "\n"


def _line(name: str, value: Any) -> str:
    return f"- `{name}{signature(value)}` {first_line(value)}".rstrip()


if __name__ == "__main__":
    FILE.write_text(describe(), encoding="utf-8")
