"""The source and the path of one call keep to the limits of ``make walk`` that they have met."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

WALK = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "walk.py"))
# Figures of the source that are within their limits; one that has got there is added here.
MET = [
    "public names",
    "import layers",
    "lines of experiments",
    "lines of the longest file",
    "lines of the base class",
    "functions that only forward",
    "uses of __dict__ and vars",
]

# Counts of calls and modules, which do not depend on time.
COUNTED = [
    "modules of dm2l after from dm2l import DM2LClassifier",
    "fit: functions",
    "fit: files",
    "dm2l fit: openings of the table",
    "dm2l fit: readings of labels",
]
# The calls are counted in a process of its own, without the tracers and modules of the tests.
COUNT = """
import json, runpy, sys
walk, found = runpy.run_path(sys.argv[1]), {}
for part in ("loaded_modules", "call_figures", "command_figures"):
    for figure, value in walk[part]():
        found[figure] = value
        if figure in sys.argv[2:]:
            break  # what a part counts next takes seconds and is not asked for
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def counts():
    command = [sys.executable, "-c", COUNT, WALK["__file__"], COUNTED[0], COUNTED[2]]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("figure", COUNTED)
def test_a_count_of_one_call_stays_within_its_limit(figure, counts):
    assert counts[figure] <= WALK["LIMITS"][figure]


@pytest.fixture(scope="module")
def figures():
    return dict(WALK["source_figures"]())


@pytest.mark.parametrize("figure", MET)
def test_a_figure_stays_within_its_limit(figure, figures):
    assert figures[figure] <= WALK["LIMITS"][figure]


@pytest.mark.parametrize(
    ("code", "forwards"),
    [
        ("def f(self, x, *, y=1):\n    return self._f(x, y=y)", True),
        ("def f(x):\n    'Words.'\n    g(x, 2)", True),
        ("def f(x):\n    return g(x + 1)", False),
        ("def f(x):\n    return x", False),
        ("def f(x):\n    y = h(x)\n    return g(y)", False),
    ],
)
def test_functions_that_only_forward_are_told_apart(code, forwards):
    assert bool(WALK["forwarding"](WALK["ast"].parse(code))) is forwards
