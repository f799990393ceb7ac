"""How well holes of a table are filled: observed labels are hidden, filled in and compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.labels import ConstantLabelWarning
from dm2l.metrics import label_table
from dm2l.model_selection import Interval
from dm2l.tables._groups import row_groups
from dm2l.tables._html import OPEN, YES, Bar, Cell, block, grid
from dm2l.tables._measures import (
    MEASURES,
    changes,
    interval,
    intervals,
    keep_back,
    label_precision,
    measure,
)
from dm2l.tables._model import fill_holes
from dm2l.tables._preparation import table_inputs
from dm2l.tables._settings import FitOptions, Hyperparameters, Tell, check_learnable, fit_pipeline
from dm2l.tables._table import Table

# The first two are one fit: with and without what the row's known labels say about its holes.
COUPLED, ALONE = "DM2L", "features alone"
AUTOMATIC = "automatic"  # what the first is called where it is no DM2L, or not that alone
METHODS = (COUPLED, ALONE, "masked ridge", "holes are negatives")


@dataclass(frozen=True)
class LabelQuality:
    """A label's entries that were hidden, all repetitions together, and mean measures on them."""

    label: str
    n_hidden: int
    n_positive: int
    auc: float
    average_precision: float
    features_average_precision: float
    ridge_average_precision: float
    negatives_average_precision: float


@dataclass(frozen=True)
class TableEvaluation:
    """Measures on hidden labels.

    Attributes
    ----------
    hide : float
        Share of the observed labels that was hidden each time.
    repetitions : int
        How often.
    n_hidden : int
        Labels hidden each time.
    methods : dict of str to dict of str to Interval
        Measures of each method; "automatic", or "DM2L" where settings of it are fixed, comes first.
    gains : dict of str to dict of str to Interval
        The first less each other one, on the same hidden labels.
    labels : list of LabelQuality
        One for each label.
    settings : list of Settings or None
        What DM2L chose in each repetition, from the labels that were left; None where the
        automatic estimator did.
    """

    hide: float
    repetitions: int
    n_hidden: int
    methods: dict[str, dict[str, Interval]]
    gains: dict[str, dict[str, Interval]]
    labels: list[LabelQuality]
    settings: list[Hyperparameters | None]

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        ours = next(iter(self.methods), "")
        for key, words, up in MEASURES:
            for name, values in self.methods.items():
                value = values[key]
                sure = f"[{value.low:.3f}, {value.high:.3f}]" if value.low == value.low else ""
                bar = Bar(((value.mean, YES if name == ours else OPEN),), f"{value.mean:.3f}")
                first = f"{words} {'↑' if up else '↓'}" if name == ours else ""
                rows.append([first, name, value.mean, sure, bar])
        by_label: list[list[Cell]] = []
        for label in self.labels:
            bar = Bar(((label.average_precision, YES),), f"{label.average_precision:.3f}")
            counts: list[Cell] = [label.label, label.n_hidden, label.n_positive, label.auc]
            by_label.append([*counts, label.average_precision, bar])
        return block(
            f"{self.n_hidden:,} observed labels hidden ({self.hide:.0%}), {self.repetitions} times",
            grid(("measure", "method", "mean", "95 % interval", ""), rows),
            grid(("label", "hidden", "yes", "AUC", "average precision", ""), by_label),
        )


def evaluate_table(
    table: Table,
    wishes: FitOptions | None = None,
    *,
    hide: float = 0.2,
    repetitions: int = 5,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    groups: Any = None,
    tell: Tell | None = None,
) -> TableEvaluation:
    """Hide observed labels, fill them in from the rest, and measure.

    Each repetition hides the same share of the positives and of the negatives of every label.
    Settings are chosen from what is left, for each method alike: the automatic model, or DM2L where
    settings of it are fixed, which fills a hole by the features and the known labels of its row as
    :func:`complete_table` does; the same fit by features alone; ridge on the observed labels
    (``lambda_d = 0``); the same ridge on a table whose holes are written as negatives. The last two
    go by features alone as well. The first ranks by the probabilities that would be written, the
    others by scores.

    Parameters
    ----------
    table : Table
        What :func:`read_table` has returned, with labels.
    wishes : Wishes, default=None
        Settings that are fixed, and how the others are chosen.
    hide : float, default=0.2
        Share of the observed labels that is hidden.
    repetitions : int, default=5
        How often.
    kinds, drop, groups
        As in :func:`fit_table`; a label is hidden in all rows of a group or in none.
    tell : callable, default=None
        Gets a line about each step.

    Returns
    -------
    TableEvaluation
        Means and confidence intervals, of the methods and of gains of the first over the others.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, evaluate_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> found = evaluate_table(table, Wishes("linear", 0.1, 1.0), repetitions=2)
    >>> found.methods["DM2L"]["label_auc"].mean
    1.0
    >>> found.n_hidden
    15
    """
    wishes = FitOptions() if wishes is None else wishes
    if not 0 < hide < 1:
        raise ValueError(f"hide, the share of labels to hide, must be between 0 and 1; got {hide}.")
    inputs, uses, observed = table_inputs(table, kinds, drop, groups)
    together = row_groups(table, inputs, uses, groups)
    check_learnable(observed, str(table.path), ticks=wishes.ticks)
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
    precision: dict[str, list[NDArray[np.float64]]] = {name: [] for name in METHODS}
    aucs, hidden_counts, chosen = [], [], []
    # Of what is not ticked nobody knows whether a yes is wrong.
    unknown = dict.fromkeys(("f1_macro", "accuracy", "brier"), np.nan) if wishes.ticks else {}
    ours = AUTOMATIC if wishes.automatic else COUPLED
    called = {name: ours if name == COUPLED else name for name in METHODS}
    for repetition in range(repetitions):
        left, hidden = keep_back(observed, hide, wishes.seed + repetition, together)
        check_learnable(
            left, f"{table.path} with {hide:.0%} of its labels hidden", ticks=wishes.ticks
        )
        if wishes.ticks:  # hidden ticks are looked for among all that is not ticked
            hidden = np.where(np.isnan(left), np.nan_to_num(hidden), np.nan)
        for name in METHODS:
            if name == ALONE:
                continue
            if tell is not None:
                tell(f"repetition {repetition + 1} of {repetitions}: {called[name]}")
            Y = np.nan_to_num(left) if name == "holes are negatives" else left
            ridge = replace(wishes, lambda_d=0.0, coupling=None)
            fixed = wishes if name == COUPLED else ridge
            if name == "holes are negatives":
                fixed = replace(fixed, blank="missing")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConstantLabelWarning)
                pipeline, settings = fit_pipeline(inputs, uses, Y, fixed, groups=together)
            X, model = pipeline[:-1].transform(inputs), pipeline[-1]
            if name == COUPLED:
                filled = fill_holes(model, X, left)
                p = filled.probabilities
                found = measure(hidden, p, p, filled.positive, estimate=False)
                measured[COUPLED].append(found | unknown)
                precision[COUPLED].append(label_precision(hidden, p))
                aucs.append(label_table(hidden, p)["auc"])
                chosen.append(settings)
            scores = model.decision_function(X)
            yes = model.predict(X) == 1
            found = measure(hidden, scores, model.predict_proba(X), yes, estimate=False)
            plain = ALONE if name == COUPLED else name
            measured[plain].append(found | unknown)
            precision[plain].append(label_precision(hidden, scores))
        hidden_counts.append(hidden)
    stacked = np.stack(hidden_counts)
    return TableEvaluation(
        hide=hide,
        repetitions=repetitions,
        n_hidden=int((stacked[0] == 1 if wishes.ticks else ~np.isnan(stacked[0])).sum()),
        methods={called[name]: intervals(values, hide) for name, values in measured.items()},
        gains={name: changes(measured[COUPLED], measured[name], hide) for name in METHODS[1:]},
        labels=[
            LabelQuality(
                label,
                int((~np.isnan(stacked[:, :, k])).sum()),
                int((stacked[:, :, k] == 1).sum()),
                interval([auc[k] for auc in aucs], hide).mean,
                *(interval([p[k] for p in precision[name]], hide).mean for name in METHODS),
            )
            for k, label in enumerate(table.label_names)
        ],
        settings=chosen,
    )
