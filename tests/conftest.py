"""What holds for all tests."""

import re
from collections import Counter
from contextlib import suppress
from functools import cache

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from sklearn.base import BaseEstimator

# No test has a deadline: the machine may be busy with other tests.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Two questions that scikit-learn asks in each call take a fifth of the time of fits to a few rows:
# which parameters a class has, and, from 1.9 on, whether an array is a data frame of some library.
BaseEstimator._get_param_names = classmethod(cache(BaseEstimator._get_param_names.__func__))
with suppress(ImportError):
    from narwhals.stable.v2 import dependencies

    def _unless_array(question):
        return lambda data: not (type(data) is np.ndarray or sp.issparse(data)) and question(data)

    dependencies.is_into_dataframe = _unless_array(dependencies.is_into_dataframe)
    dependencies.is_into_series = _unless_array(dependencies.is_into_series)

# How to run what was skipped, by a word of the reason.
REMEDIES = {
    r"\btorch\b": "make test-torch",
    r"\bbrowser\b": "make browser, then make test",
    r"DM2L_DATA|\breal data\b": "make test DM2L_DATA=folder-with-the-data-sets",
    r"\blabel-studio\b": "make test-labelstudio",
    r"\bmlflow\b": ".venv/test/bin/pip install mlflow, then make test",
    r"\b(extra|optional|not installed|pip install)\b": "make test, whose environment has it",
    r"\bscikit-learn\b|\bnumpy\b": "another version of it: make test, make test-oldest",
    r"\bcheckout\b": "make test in a checkout",
    r"\b(system|machine|elsewhere|Linux|signals|processes|process groups)\b": "another system",
}


def remedy(reason):
    """How to run a test that was skipped for this reason; empty where it never applies."""
    return next((how for word, how in REMEDIES.items() if re.search(word, reason)), "")


def pytest_terminal_summary(terminalreporter):
    """After the results: what was not run, and how to run it."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("not run, and how to run it")
    for reason, count in sorted(reasons.items(), key=lambda item: (remedy(item[0]), item[0])):
        how = remedy(reason) or "does not apply"
        terminalreporter.write_line(f"{count:5} {reason}\n      -> {how}")
