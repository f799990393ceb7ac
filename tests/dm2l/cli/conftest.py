"""What tests of commands share."""

import pytest

from dm2l.cli import _learn


@pytest.fixture
def evaluated_once(monkeypatch):
    """Let commands that differ in nothing but what they print share one evaluation."""
    plain, found = _learn.evaluate_table, {}

    def evaluate(table, options, *, tell, **others):
        key = repr((table.Y.tobytes(), options, others))
        if key not in found:
            found[key] = plain(table, options, tell=tell, **others)
        return found[key]

    monkeypatch.setattr(_learn, "evaluate_table", evaluate)
