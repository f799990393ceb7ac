"""A chemist's table at a terminal: SMILES in, blanks where they cannot be read, groups of rows."""

import json

import numpy as np
import pandas as pd
import pytest

from assays import LABELS, make_assays
from dm2l.chemistry import is_valid_smiles
from dm2l.cli._ask import predict_command
from dm2l.cli._learn import evaluate_command, fit_command, inspect_command
from terminal import command_runner

pytest.importorskip("rdkit", reason="molecules need the extra chem (RDKit)")
FIXED = ("--kernel", "rbf", "--lambda-d", "0.1", "--alpha", "1", "--folds", "3")


def invoke(command, *arguments):
    runner = command_runner()
    return runner.invoke(command, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("assays") / "assays.csv"
    pd.DataFrame(make_assays(150)).to_csv(path, index=False)
    return path


def test_from_smiles_to_predictions(path):
    model, scores = path.with_name("model.dm2l"), path.with_name("scores.csv")
    fitted = invoke(
        *(fit_command, path, "--labels", LABELS, "-o", model, "--estimate-folds", 2),
        *("--groups", "scaffold", *FIXED),
    )
    assert fitted.exit_code == 0, (fitted.stderr, fitted.exception)
    assert "column 'smiles': 8 rows have invalid SMILES" in fitted.stderr
    assert "features from 1 column." in fitted.stdout
    told = invoke(predict_command, model, path, "-o", scores, "--keep", "mol_id")
    assert told.exit_code == 0, (told.stderr, told.exception)
    assert "8 rows have invalid SMILES" in told.stderr
    found, table = pd.read_csv(scores), pd.read_csv(path)
    assert found["mol_id"].tolist() == table["mol_id"].tolist()
    blank = ~is_valid_smiles(table["smiles"])
    assert np.array_equal(found.drop(columns=["row", "mol_id"]).isna().all(axis=1), blank)
    assert found.loc[~blank].notna().all().all()


def test_inspect_names_the_groups_that_evaluate_takes(path):
    seen = invoke(inspect_command, path, "--labels", LABELS, "--json")
    told = json.loads(seen.stdout)
    assert told["n_duplicates"] > 1
    assert not any("--groups duplicates" in line for line in told["warnings"])
    common = ("--labels", LABELS, "--repetitions", 2, *FIXED, "--json")
    plain, grouped = (
        json.loads(invoke(evaluate_command, path, *common, *more).stdout)
        for more in ((), ("--groups", "scaffold"))
    )
    assert plain["methods"].keys() == grouped["methods"].keys()
    assert plain["n_hidden"] != grouped["n_hidden"]
    wrong = invoke(evaluate_command, path, *common, "--groups", "nobody")
    assert wrong.exit_code == 2
    assert "'duplicates'" in wrong.stderr
