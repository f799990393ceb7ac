"""Quality of imputation: observed labels are hidden, filled in and compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import Interval
from dm2l.tables._measures import (
    MEASURES,
    Predictions,
    by_label,
    changes,
    hold_out,
    interval,
    intervals,
    measure,
    predictions,
)
from dm2l.tables._model import impute
from dm2l.tables._options import (
    FitOptions,
    Hyperparameters,
    Tell,
    check_learnable,
    fit_pipeline,
    quiet,
)
from dm2l.tables._output import OPEN, YES, Bar, Cell, block, grid
from dm2l.tables._preparation import table_inputs
from dm2l.tables._reading import Table

# The first two are one fit: with and without the known labels of the row.
COUPLED, ALONE = "DM2L", "features alone"
AUTOMATIC = "automatic"  # name of the first where it is not DM2L alone
NEGATIVES = "missing = negative"
METHODS = (COUPLED, ALONE, "masked ridge", NEGATIVES)


@dataclass(frozen=True)
class LabelQuality:
    """Hidden entries of a label, in all repetitions, and mean measures on them."""

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
    """Measures on hidden labels of each method, of which the first is that of the options.

    ``methods`` and ``gains``, the first method minus each other one, have intervals by method and
    measure; ``settings`` what each search chose, None for the automatic estimator.
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
    options: FitOptions | None = None,
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
    Four methods are compared: the automatic model, or DM2L where hyperparameters are fixed, which
    uses the features and the known labels of a row as :func:`complete_table` does; the same fit by
    features alone; ridge on the observed labels (``lambda_d = 0``); and ridge with missing labels
    taken as negative. Hyperparameters are chosen from the labels that are left. The first method
    ranks by probabilities, the others by scores.

    Parameters
    ----------
    table : Table
        What :func:`read_table` has returned, with labels.
    options : FitOptions, default=None
        Which model, and which hyperparameters are fixed.
    hide : float, default=0.2
        Share of the observed labels that is hidden.
    repetitions : int, default=5
        Number of repetitions.
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
    >>> frame["toxic"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> table = table_from_frame(frame, "toxic")
    >>> found = evaluate_table(table, FitOptions("linear", 0.1, 1.0), repetitions=2)
    >>> found.methods["DM2L"]["label_auc"].mean
    1.0
    >>> found.n_hidden
    15
    """
    options, tell = options or FitOptions(), tell or quiet
    if not 0 < hide < 1:
        raise ValueError(f"hide must be a share between 0 and 1, such as 0.2; got {hide}.")
    table = replace(table, Y=options.read(table.Y))
    inputs, uses, observed, together = table_inputs(table, kinds, drop, groups)
    check_learnable(observed, str(table.path), options)
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
    labels: dict[str, list[dict[str, NDArray[np.float64]]]] = {name: [] for name in METHODS}
    hidden_counts, chosen = [], []
    # Without observed negatives, wrong positives cannot be counted.
    unknown = dict.fromkeys(("f1_macro", "accuracy", "brier"), np.nan) if options.unlabelled else {}
    ours = AUTOMATIC if options.automatic else COUPLED
    called = {name: ours if name == COUPLED else name for name in METHODS}
    for repetition in range(repetitions):
        left, hidden = hold_out(observed, hide, options.random_state + repetition, together)
        where = f"{table.path} with {hide:.0%} of its labels hidden"
        check_learnable(left, where, options)
        if options.unlabelled:  # hidden positives are ranked among all unlabelled entries
            hidden = np.where(np.isnan(left), np.nan_to_num(hidden), np.nan)
        for name in METHODS:
            if name == ALONE:
                continue
            tell(f"repetition {repetition + 1} of {repetitions}: {called[name]}")
            Y = np.nan_to_num(left) if name == NEGATIVES else left
            ridge = replace(options, lambda_d=0.0, coupling=None)
            fixed = options if name == COUPLED else ridge
            if name == NEGATIVES:
                fixed = replace(fixed, missing_as="missing")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConstantLabelWarning)
                pipeline, settings = fit_pipeline(inputs, uses, Y, fixed, groups=together)
            X, model = pipeline[:-1].transform(inputs), pipeline[-1]
            answers = {ALONE if name == COUPLED else name: predictions(model, X)}
            if name == COUPLED:
                filled = impute(model, X, left)
                p = filled.probabilities
                answers[COUPLED] = Predictions(p, p, filled.positive)
                chosen.append(settings)
            for method, answer in answers.items():
                measured[method].append(measure(hidden, *answer, estimate=False) | unknown)
                labels[method].append(by_label(hidden, answer.scores))
        hidden_counts.append(hidden)
    stacked = np.stack(hidden_counts)
    return TableEvaluation(
        hide=hide,
        repetitions=repetitions,
        n_hidden=int((stacked[0] == 1 if options.unlabelled else ~np.isnan(stacked[0])).sum()),
        methods={called[name]: intervals(values, hide) for name, values in measured.items()},
        gains={name: changes(measured[COUPLED], measured[name], hide) for name in METHODS[1:]},
        labels=[
            LabelQuality(
                label,
                int((~np.isnan(stacked[:, :, k])).sum()),
                int((stacked[:, :, k] == 1).sum()),
                interval([found["auc"][k] for found in labels[COUPLED]], hide).mean,
                *(
                    interval([found["average_precision"][k] for found in labels[name]], hide).mean
                    for name in METHODS
                ),
            )
            for k, label in enumerate(table.label_names)
        ],
        settings=chosen,
    )
