"""The same fit gives the same bundle, byte by byte, in any process."""

import os
import subprocess
import sys
import warnings

from half_labelled import as_csv, make_table, spell

FIT = """
import sys, warnings
from dataclasses import replace
from dm2l._auto._base_models import EFFORTS
warnings.simplefilter("ignore")
from dm2l.tables import FitOptions, fit_table, read_table, save_bundle
table = read_table(sys.argv[1], "topic_*")
EFFORTS["brief"] = replace(EFFORTS["quick"], labels=0)  # the search above has the norms
options = {
    "given": FitOptions("linear", 0.1, 1.0, cv=2),
    "search": FitOptions(kernel="rbf", cv=2),
    "auto": FitOptions(effort="brief"),
}
for kind, chosen in options.items():
    model = fit_table(table, chosen, estimate_folds=2)
    save_bundle(model, f"{sys.argv[2]}-{kind}.dm2l")
"""


def test_two_fits_give_the_same_bytes(tmp_path, monkeypatch):
    """In a new process, and in this one, which has other hashes and ran other tests."""
    columns, truth, observed = make_table(40)
    table = tmp_path / "in.csv"
    table.write_text(as_csv(columns, spell(truth, observed, "Yes", "No")))
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", FIT, table, tmp_path / "1"], env=environment, check=True)
    monkeypatch.setattr(sys, "argv", ["", str(table), str(tmp_path / "2")])
    with warnings.catch_warnings():
        exec(FIT, {})
    for kind in ("given", "search", "auto"):
        first, second = ((tmp_path / f"{seed}-{kind}.dm2l").read_bytes() for seed in "12")
        assert first == second, kind
