"""What the paper shows of a data set beside its tables."""

import numpy as np
import pytest

from experiments import studies


def test_studies_are_of_the_splits_of_the_protocols(studied):
    found = studied
    assert found.ranks.whole.shape[0] == 80
    assert set(found.course.courses) == {"lbfgs", "cccp", "published"}
    for model in (*found.lambda_ds.values(), found.sigmas):
        for table in model.scores.values():
            assert table.shape[0] == 2
            assert np.isfinite(table).all()
    # The weight and the width that stay fixed are the ones that the other figure passes.
    _, by_weight = found.lambda_ds["DM2L kernel"].along("lambda_d", "ranking_loss")
    _, by_width = found.sigmas.along("sigma", "ranking_loss")
    at = list(studies.LAMBDA_DS).index(studies.LAMBDA_D)
    np.testing.assert_allclose(by_weight[:, at], by_width[:, 2])


def test_stored_studies_are_what_was_computed(studied, tmp_path):
    studies.write([studied], tmp_path / "studies.json")
    (found,) = studies.read(tmp_path / "studies.json")
    for new, old in zip(_numbers(found), _numbers(studied), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9)


def test_the_stored_studies_can_be_read_and_drawn():
    pytest.importorskip("matplotlib", reason="figures need the extra plot")
    stored = studies.read()
    assert [found.dataset for found in stored] == list(studies.DATASETS)
    names = [name for name, _, figure in studies.figures(stored[0]) if figure.axes]
    assert names == ["arts-label-ranks", "arts-convergence", "arts-lambda", "arts-sigma"]


def _numbers(part):
    """All that a study holds, in order."""
    if hasattr(part, "__dataclass_fields__"):
        part = [getattr(part, name) for name in part.__dataclass_fields__]
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple) and not all(np.isscalar(item) for item in part):
        return [number for item in part for number in _numbers(item)]
    return [] if part is None or isinstance(part, str) else [np.asarray(part, dtype=float)]
