"""What a release is made of, without making one: that takes minutes (`make release`)."""

import importlib
import json
import os
import re
import shutil
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import dm2l
from dm2l.cli._commands import COMMANDS

pytest.importorskip("hatchling", reason="hatchling is not installed, and is in every lock")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed, and comes with dask")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EPOCH = 1_700_000_000


@pytest.fixture(scope="module")
def parts():
    """The modules of the folder ``release``."""
    sys.path.insert(0, str(ROOT))
    names = ("archives", "components", "smoke")
    yield {name: importlib.import_module(f"release.{name}") for name in names}
    sys.path.remove(str(ROOT))


# ------------------------------------------------------------------------------------- archives


def copy_of_the_sources(folder):
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    (folder / "src/dm2l").mkdir(parents=True)
    for name in ("__init__.py", "simulate.py", "py.typed"):
        shutil.copy(ROOT / "src/dm2l" / name, folder / "src/dm2l")
    return folder


@pytest.mark.slow
def test_two_builds_of_the_same_files_have_the_same_bytes(parts, tmp_path):
    build, compare = parts["archives"].build, parts["archives"].compare
    one = copy_of_the_sources(tmp_path / "one")
    two = copy_of_the_sources(tmp_path / "of another length" / "two")
    for number, path in enumerate(sorted(two.rglob("*.py"))):
        os.utime(path, (EPOCH - number, EPOCH + 7 * number))
        path.chmod(0o600)
    first = build(one, tmp_path / "first", EPOCH)
    assert {name.split("-")[1].removesuffix(".tar.gz") for name in first} == {dm2l.__version__}
    compare(first, build(two, tmp_path / "second", EPOCH), "the same")
    (two / "src/dm2l/simulate.py").write_text("# another content\n")
    with pytest.raises(SystemExit, match=r"the other: dm2l-.*whl, dm2l-.*gz came out otherwise"):
        compare(first, build(two, tmp_path / "third", EPOCH), "the other")


def test_the_wheel_is_tried_with_the_versions_of_the_lock(parts):
    pins = parts["archives"].pins().splitlines()
    assert any(re.fullmatch(r"numpy==[\d.]+( ; .*)?", line.strip()) for line in pins)
    assert not [line for line in pins if "--hash" in line or "\\" in line]


# ------------------------------------------------------------------- the version, in one place


def test_the_version_stands_in_one_place():
    assert "version" not in PROJECT
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert "version" not in citation
    assert "@VERSION@" in (ROOT / "release/recipe.yaml").read_text()
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## \[(\d.*?)\]", changes, flags=re.MULTILINE)[0] == dm2l.__version__


def test_pages_say_to_install_from_an_index_once_something_was_released():
    dated = r"^## \[\d.*\] - \d{4}-\d\d-\d\d$"
    released = re.search(dated, (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [page.name for page in pages if re.search(r"pip install ['\"]?dm2l", page.read_text())]
    if released:
        assert {"README.md", "quickstart.md"} <= set(found)
    else:
        assert found == []


# ------------------------------------------------------------------------ recipe and workflows


@pytest.mark.parametrize("folder", ["", "https://example.org/v1"])
def test_the_recipe_asks_for_what_the_project_asks_for(parts, tmp_path, monkeypatch, folder):
    monkeypatch.setenv("SOURCE_AT", folder)
    source = tmp_path / "dm2l-1.tar.gz"
    source.write_bytes(b"")
    recipe = yaml.safe_load(parts["archives"].recipe(source, "1"))
    assert recipe["context"]["version"] == "1"
    assert recipe["source"]["sha256"].startswith("e3b0c44298fc1c14")  # of nothing
    name = "https://example.org/v1/dm2l-1.tar.gz" if folder else "dm2l-1.tar.gz"
    assert recipe["source"]["url" if folder else "path"] == name
    wanted = [*PROJECT["dependencies"]]
    wanted += [*PROJECT["optional-dependencies"]["cli"], *PROJECT["optional-dependencies"]["io"]]
    run = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert run == {"python>=${{python_min}}", *wanted}
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]


def test_workflows_run_targets_that_exist_and_actions_that_cannot_move():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    texts = [path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")]
    assert len(texts) == 2
    for text in texts:
        jobs = yaml.safe_load(text)["jobs"].values()
        steps = [step for job in jobs for step in job["steps"]]
        used = [step["uses"] for step in steps if "uses" in step]
        assert used
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used)
        named = set(re.findall(r"run: make ([a-z-]+)", text))
        for job in jobs:
            matrix = job.get("strategy", {}).get("matrix", {"target": [], "include": []})
            named |= {*matrix["target"], *(one["target"] for one in matrix["include"])}
        assert named
        assert named <= targets


# -------------------------------------------------------------------------------- the smoke run


def test_the_smoke_run_has_every_command(parts):
    assert set(parts["smoke"].COMMANDS) == set(COMMANDS)


# --------------------------------------------------------------- bill of materials and licences


def package(folder, name, *lines, texts=()):
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    about = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 1", *lines]
    (info / "METADATA").write_text("\n".join(about) + "\n")
    for text in texts:
        (info / text).write_text(f"the {text} of {name}")
    files = [f"{name}-1.dist-info/{text},," for text in ("METADATA", *texts)]
    (info / "RECORD").write_text("\n".join(files) + "\n")


@pytest.fixture
def made(tmp_path, parts):
    package(
        tmp_path, "whole", "License-Expression: MIT", "Provides-Extra: more", "Provides-Extra: dev",
        "Requires-Dist: Needed[deep]>=1", "Requires-Dist: other; extra == 'more'",
        "Requires-Dist: absent; extra == 'more'", "Requires-Dist: tool; extra == 'dev'",
        "Requires-Dist: never; python_version < '3'",
    )  # fmt: skip
    package(
        tmp_path, "Needed", "License: BSD", "Provides-Extra: deep",
        "Requires-Dist: below; extra == 'deep'", "Requires-Dist: unwanted; extra == 'broad'",
        texts=["LICENSE.txt"],
    )  # fmt: skip
    package(tmp_path, "below", "Classifier: License :: OSI Approved :: MIT License")
    package(tmp_path, "other", "License: Short name\n        and a text that goes on")
    package(tmp_path, "tool", "Classifier: License :: OSI Approved", texts=["LICENSE"])
    for name in ("never", "unwanted"):
        package(tmp_path, name)
    return parts["components"].Components("whole", tmp_path)


def test_the_bill_has_all_that_is_needed_and_nothing_else(made):
    assert made.required == {"needed", "below"}
    assert made.optional == {"other", "absent"}
    bill = made.bill(EPOCH)
    assert json.dumps(bill) == json.dumps(made.bill(EPOCH))
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert bill["metadata"]["component"]["licenses"] == [{"expression": "MIT"}]
    found = {one["name"]: (one["purl"], one["scope"]) for one in bill["components"]}
    assert found == {
        "absent": ("pkg:pypi/absent", "optional"),
        "below": ("pkg:pypi/below@1", "required"),
        "needed": ("pkg:pypi/needed@1", "required"),
        "other": ("pkg:pypi/other@1", "optional"),
    }
    edges = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert edges["pkg:pypi/whole@1"] == ["pkg:pypi/absent", "pkg:pypi/needed@1", "pkg:pypi/other@1"]
    assert set(edges) == {"pkg:pypi/whole@1", *(purl for purl, _ in found.values())}


def test_licences_are_named_by_name_and_their_texts_follow(made):
    found = {name: made.licence(name) for name in ("needed", "below", "other", "absent")}
    assert found == {"needed": "BSD", "below": "MIT License", "other": "Short name", "absent": ""}
    assert made.licence("tool") == "the LICENSE of tool"  # the first line of its text
    text = made.licences()
    assert "the LICENSE.txt of Needed" in text
    assert re.search(r"^absent +not installed here$", text, flags=re.MULTILINE)


def test_the_bill_of_the_project_lists_every_runtime_dependency(parts):
    name = re.compile(r"[A-Za-z0-9-]+")
    site = Path(sysconfig.get_path("purelib"))
    if not list(site.glob("dm2l-*.dist-info")):
        pytest.skip("dm2l is not installed in this environment")
    found = parts["components"].Components("dm2l", site)
    assert {name.match(line)[0] for line in PROJECT["dependencies"]} <= found.required
    extras = PROJECT["optional-dependencies"]
    direct = {name.match(line)[0] for key in found.extras for line in extras[key]}
    assert direct - {"dm2l"} <= found.required | found.optional
