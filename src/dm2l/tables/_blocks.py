"""Cross-validated weights for the features of each text column and of all other columns."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer

from dm2l._auto._base_models import choose
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.model_selection import MultilabelKFold

# Number of rows on which weights are chosen, and the factors by which each weight is varied.
SAMPLE = 1000
FACTORS = (0.1, 0.3, 3.0)


def blocks_of(columns: ColumnTransformer) -> list[list[str]]:
    """Return blocks of step names: one block per text column, and one for all other columns."""
    names = [name for name, *_ in columns.transformers]
    letters = [name for name in names if name.startswith("letters")]
    if not letters:
        return []
    blocks = [[name.replace("letters", "text"), name] for name in letters]
    # The scores of other models keep their scale.
    others = [name for name in names if not name.startswith(("text", "letters", "score"))]
    return [*blocks, others] if others else blocks


def weigh_blocks(
    columns: ColumnTransformer, X: Any, T: NDArray[np.int8], groups: Any, random_state: int
) -> Any:
    """Choose a weight for each block of features, and return the weighted features."""
    blocks = blocks_of(columns)
    if len(blocks) < 2:
        return X
    X, block_of = sp.csr_array(X), np.full(X.shape[1], len(blocks))
    for number, block in enumerate(blocks):
        for name in block:
            block_of[columns.output_indices_[name]] = number
    # With the initial weights, the mean squared length of a row is 1 in every block.
    square = np.ravel(X.multiply(X).sum(axis=0)) / X.shape[0]
    lengths = np.bincount(block_of, square, len(blocks) + 1)[:-1]
    weights = np.append(1 / np.sqrt(np.maximum(lengths, 1e-12)), 1.0)
    rows = np.random.default_rng(random_state).permutation(len(T))[:SAMPLE]
    rows = np.sort(rows)
    rows, labels = LearnableMask.of(T[rows]).apply(rows, LabelMatrix.of_signs(T[rows]))
    groups = np.arange(len(rows)) if groups is None else groups[rows]
    folds = min(3, len(np.unique(groups)))
    if folds > 1:
        cv = MultilabelKFold(folds, random_state=random_state, groups=groups)

        def score(weights: NDArray[np.float64]) -> float:
            scaled = X[rows] @ sp.diags_array(weights[block_of])
            return float(choose((sp.csr_array(scaled), labels, cv), "linear").best_score_)

        best = score(weights)
        for number in range(len(blocks)):
            start = weights
            for factor in FACTORS:
                other = start.copy()
                other[number] *= factor
                found = score(other)
                if found > best:
                    best, weights = found, other
    columns.transformer_weights = {
        name: float(weight)
        for block, weight in zip(blocks, weights[:-1], strict=True)
        for name in block
    }
    return sp.csr_array(X @ sp.diags_array(weights[block_of]))
