"""Which labels come with which, and the spectrum of label matrices, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dm2l.labels._structure import Cooccurrence, Implication, Spectrum

SIGNS = arrays(
    np.int8, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.integers(-1, 1)
)


@settings(deadline=None)
@given(SIGNS)
def test_a_spectrum_has_the_rank_and_the_norms_that_numpy_finds(T):
    spectrum = Spectrum.of(T)
    assert spectrum.shape == T.shape
    assert spectrum.rank == np.linalg.matrix_rank(T.astype(float))
    if T.any():
        ratio = np.linalg.norm(T.astype(float), "nuc") / np.linalg.norm(T)
        assert spectrum.effective_rank == pytest.approx(ratio**2)
        assert 1 - 1e-9 <= spectrum.effective_rank <= spectrum.rank + 1e-9
    else:
        assert spectrum.effective_rank == 0


@settings(deadline=None)
@given(SIGNS, st.integers(1, 3))
def test_pairs_of_labels_are_counted_where_both_were_observed(T, min_rows):
    found, (n, c) = Cooccurrence.of(T), T.shape
    implications = []
    for j in range(c):
        for k in range(c):
            rows = [i for i in range(n) if T[i, j] > 0 and T[i, k] != 0]
            both = [i for i in rows if T[i, k] > 0]
            seen = [i for i in range(n) if T[i, k] != 0]
            base = sum(T[i, k] > 0 for i in seen) / len(seen) if seen else np.nan
            share = len(both) / len(rows) if rows else np.nan
            assert found.count[j, k] == len(rows)
            assert found.base[k] == pytest.approx(base, nan_ok=True)
            assert found.probability[j, k] == pytest.approx(share, nan_ok=True)
            if j != k and len(rows) >= min_rows and share >= max(0.8, base + 0.1):
                implications.append(Implication(str(j), str(k), share, len(rows), base))
    least = {"min_rows": min_rows, "min_probability": 0.8, "min_gain": 0.1}
    names, told = [str(k) for k in range(c)], np.argwhere(found.implied(**least)).tolist()
    assert {found.implication(names, j, k) for j, k in told} == set(implications)
