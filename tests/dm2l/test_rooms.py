"""Private modules are private: a room uses of another what that one shows."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def imports(package):
    """Every module that a module of the package imports from."""
    for path in sorted((SOURCE / package).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield (
                    parts,
                    [
                        (*node.module.split("."), alias.name)
                        for alias in node.names
                        if not node.level
                    ],
                )
            elif isinstance(node, ast.Import):
                yield parts, [tuple(alias.name.split(".")) for alias in node.names]


@pytest.mark.parametrize("package", ["dm2l", "dm2l_lab"])
def test_no_room_imports_what_another_keeps_to_itself(package):
    found = [
        f"{'.'.join(importer)} imports {'.'.join(imported)}"
        for importer, names in imports(package)
        for imported in names
        if imported[0] in ("dm2l", "dm2l_lab")
        and imported[:2] != importer[:2]
        and (imported[0] == "dm2l" or importer[0] != "dm2l_lab")
        and any(part.startswith("_") and not part.startswith("__") for part in imported)
    ]
    assert found == []
