"""The same fit gives the same bundle, byte by byte, in any process."""

import os
import subprocess
import sys

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
}
for kind, chosen in options.items():
    model = fit_table(table, chosen, estimate_folds=2)
    save_bundle(model, f"{sys.argv[2]}-{kind}.dm2l")
"""


def test_two_fits_give_the_same_bytes(tmp_path):
    columns, truth, observed = make_table(40)
    (tmp_path / "in.csv").write_text(as_csv(columns, spell(truth, observed, "Yes", "No")))
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", FIT, tmp_path / "in.csv", tmp_path / seed],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        )
    for kind in ("given", "search", "auto"):
        first, second = ((tmp_path / f"{seed}-{kind}.dm2l").read_bytes() for seed in "12")
        assert first == second, kind
