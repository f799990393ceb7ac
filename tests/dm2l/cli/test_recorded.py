"""Every command prints and writes what was recorded: words and numbers apart."""

import json
from difflib import unified_diff

import pytest

from recorded_commands import (
    JOURNEYS,
    RECORDED,
    differences,
    packages,
    run_journey,
    without_numbers,
)


@pytest.mark.parametrize("name", JOURNEYS)
def test_commands_give_what_was_recorded(name, tmp_path, monkeypatch):
    for package in JOURNEYS[name].needs:
        pytest.importorskip(package, reason=f"needs {package}, an optional package")
    stored = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    if stored["packages"] != packages():
        pytest.skip("recorded with another version of scikit-learn, numpy, click or rich")
    monkeypatch.chdir(tmp_path)
    result = run_journey(name)
    found = list(differences(stored["steps"], json.loads(json.dumps(result.numbers))))
    assert not found, "\n".join(["numbers changed:", *found[:40]])
    then = without_numbers((RECORDED / f"{name}.txt").read_text(encoding="utf-8")).splitlines()
    now = without_numbers(result.words).splitlines()
    changes = list(unified_diff(then, now, "recorded", "now", lineterm="", n=1))
    assert not changes, "\n".join(
        [*changes, "If this wording is meant, run tests/dm2l/cli/record.py."]
    )
