"""What the paper shows of a data set beside its tables."""

import importlib

import numpy as np

from dm2l_lab.paper import study as _study


def test_studies_are_of_the_splits_of_the_protocols(studied):
    _, found, told = studied
    assert told[-1] == "tiny: sensitivity, repetition 2 of 2"
    assert found.ranks.whole.shape[0] == 80
    assert set(found.course.courses) == {"lbfgs", "cccp", "published"}
    for model in (*found.lambda_ds.values(), found.sigmas):
        for table in model.scores.values():
            assert table.shape[0] == 2
            assert np.isfinite(table).all()
    # The weight and the width that stay fixed are the ones that the other figure passes.
    _, by_weight = found.lambda_ds["DM2L kernel"].along("lambda_d", "ranking_loss")
    _, by_width = found.sigmas.along("sigma", "ranking_loss")
    at = list(_study.LAMBDA_DS).index(_study.LAMBDA_D)
    np.testing.assert_allclose(by_weight[:, at], by_width[:, 2])


def test_stored_studies_are_what_was_computed(studied, tmp_path, monkeypatch):
    stored = importlib.import_module("dm2l_lab.paper.studies")
    monkeypatch.setattr(stored, "PATH", tmp_path / "studies.json")
    stored.write([studied[1]])
    (found,) = stored.read()
    for new, old in zip(_numbers(found), _numbers(studied[1]), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9)


def _numbers(part):
    """All that a study holds, in order."""
    if hasattr(part, "__dataclass_fields__"):
        part = [getattr(part, name) for name in part.__dataclass_fields__]
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple) and not all(np.isscalar(item) for item in part):
        return [number for item in part for number in _numbers(item)]
    return [] if part is None or isinstance(part, str) else [np.asarray(part, dtype=float)]
