"""The same fit gives the same bundle, byte by byte, in any process."""

import os
import subprocess
import sys

import pytest

from half_labelled import as_csv, make_table, spell

FIT = """
import sys, warnings
warnings.simplefilter("ignore")
from dm2l.tables import FitOptions, fit_table, read_table, save_bundle
table = read_table(sys.argv[1], "topic_*")
options = {
    "given": FitOptions("linear", 0.1, 1.0, cv=2),
    "search": FitOptions(kernel="rbf", cv=2),
    "auto": FitOptions(effort="quick"),
}[sys.argv[3]]
model = fit_table(table, options, estimate_folds=2)
save_bundle(model, sys.argv[2])
"""


@pytest.mark.parametrize("kind", ["given", "search", "auto"])
def test_two_fits_give_the_same_bytes(kind, tmp_path):
    columns, truth, observed = make_table(40)
    (tmp_path / "in.csv").write_text(as_csv(columns, spell(truth, observed, "Yes", "No")))
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", FIT, tmp_path / "in.csv", tmp_path / f"{seed}.dm2l", kind],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        )
    assert (tmp_path / "1.dm2l").read_bytes() == (tmp_path / "2.dm2l").read_bytes()
