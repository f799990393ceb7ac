"""Fits give the numbers that they gave when they were stored, to the last bit where that can be."""

import json
from functools import cache

import numpy as np
import pytest

from stored_fits import CASES, STORED, machine, record_case

FITS = json.loads((STORED / "fits.json").read_text(encoding="utf-8"))

# Relative: ``tol`` of the solvers, so that a new solver may take another way to the minimum.
OBJECTIVE = 1e-5
# Absolute; scores lie about -1 to 1. For the same solver: J fixes scores to the root of its
# tolerance only. Other BLAS kernels (Zen, Haswell, Nehalem instead of SkylakeX) and the oldest
# dependencies change them by at most 3e-9, and take the same number of iterations.
SCORES = 1e-6
# In single precision it is 1.2e-7, one unit in the last place.
OTHER_SCORES = {"linear_float32": 2e-6}


@cache
def record(name):
    return record_case(name)


@cache
def all_arrays():
    with np.load(STORED / "fits.npz") as file:
        return dict(file)


def stored_arrays(name):
    start = f"{name}."
    return {k.removeprefix(start): v for k, v in all_arrays().items() if k.startswith(start)}


def other_machine():
    """What is not as it was where the fits were stored, in words; nothing if all is."""
    then, now = FITS["machine"], machine()
    # Packages that are loaded by other tests bring BLAS libraries of their own.
    now["blas"] = [name for name in now["blas"] if name in then["blas"]]
    return ", ".join(
        f"{key}: {now[key]} (stored: {then[key]})" for key in then if now[key] != then[key]
    )


def test_every_case_is_stored():
    assert list(FITS["cases"]) == list(CASES)
    assert all("scores" in stored_arrays(name) for name in CASES)


@pytest.mark.parametrize("name", [name for name, fit in FITS["cases"].items() if fit["objective"]])
def test_objective_is_the_one_stored(name):
    stored = FITS["cases"][name]["objective"]
    assert record(name).objective == pytest.approx(stored, rel=OBJECTIVE)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_stored(name):
    found = record(name).arrays
    for key, array in stored_arrays(name).items():
        tolerance = OTHER_SCORES.get(name, SCORES)
        np.testing.assert_allclose(found[key], array, rtol=0, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_fit_is_the_one_stored_to_the_last_bit(name):
    if other := other_machine():
        pytest.skip(f"products are rounded as they were only where nothing differs; {other}")
    found, stored = record(name), FITS["cases"][name]
    # What is stored must be there and the same; a model may have learnt to say more since.
    assert {key: found.digests.get(key) for key in stored["digests"]} == stored["digests"]
    assert (found.objective, found.n_iter) == (stored["objective"], stored["n_iter"])
    for key, array in stored_arrays(name).items():
        np.testing.assert_array_equal(found.arrays[key], array, err_msg=key)
