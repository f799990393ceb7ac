"""A model of a table: preparation and classifier in one pipeline, and what it knows of labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l._auto._classifier import AutoClassifier
from dm2l._utils.arrays import take_rows
from dm2l.io._columns import LabelNames
from dm2l.io._label_reader import LabelVocabulary
from dm2l.labels import ConstantLabelWarning
from dm2l.tables._groups import row_groups
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._measures import Estimate, estimate_held_out, estimate_rows
from dm2l.tables._preparation import (
    Feature,
    check_columns,
    features_of,
    table_inputs,
    typed_frame,
    unread_rows,
)
from dm2l.tables._reading import read_table
from dm2l.tables._settings import FitOptions, Hyperparameters, Tell, check_learnable, fit_pipeline
from dm2l.tables._table import Table, made_up_names
from dm2l.tables._unlearnt import fit_warnings, learnt

SAMPLE = 200  # rows that a model remembers for explanations


class Filled(NamedTuple):
    """What the holes of labels are filled with, given what their rows know.

    Attributes
    ----------
    probabilities : ndarray of shape (n_rows, n_labels)
        That a label is positive; 0 or 1 where it was observed.
    positive, left : ndarray of bool of shape (n_rows, n_labels)
        Holes that are filled with yes, and holes that a bound on wrong answers leaves open.
    expected_wrong : float
        Share of wrong ones to expect among the filled; NaN without a bound.
    """

    probabilities: NDArray[np.float64]
    positive: NDArray[np.bool_]
    left: NDArray[np.bool_]
    expected_wrong: float


class Answer(NamedTuple):
    """Scores, probabilities and decisions for the rows of a table, one column per label.

    NaN, and no, for rows without a molecule.
    """

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    positive: NDArray[np.bool_]


@dataclass
class TableModel:
    """A fitted model of a table.

    Attributes
    ----------
    pipeline : Pipeline
        ``columns`` (scikit-learn's transformers) and ``labels`` (a :class:`dm2l.AutoClassifier`,
        or a :class:`dm2l.DM2LClassifier` where settings were given).
    uses : list of ColumnUse or None
        What every column is used for; None if the features are a sparse matrix.
    feature_names, label_names : list of str
        Raw columns and labels.
    missing : list of str
        Further marks of a label that was not observed.
    words : Words
        Positive values and cutoffs of the labels, and how these write yes and no.
    settings : Settings or None
        What was chosen; None where the automatic estimator did, which has a leaderboard.
    correlation : ndarray of shape (n_labels, n_labels)
        Of the scores on the rows it was fitted to.
    estimate : Estimate or None
        Quality on rows that the models of a cross-validation had not seen.
    zero_based : bool or None
        Whether the first feature of the .svm file that it was fitted to has index 0; None if it
        was fitted to no such file.
    sample : array or sparse matrix, or None
        Some prepared rows, which an explanation shuffles.
    """

    pipeline: Any
    uses: list[ColumnUse] | None
    feature_names: list[str]
    label_names: list[str]
    settings: Hyperparameters | None
    correlation: NDArray[np.float64]
    estimate: Estimate | None = None
    missing: list[str] = field(default_factory=list)
    words: LabelVocabulary = field(default_factory=LabelVocabulary)
    zero_based: bool | None = None
    sample: Any = None

    @property
    def classifier(self) -> Any:
        """The last step of the pipeline."""
        return self.pipeline[-1]

    @property
    def features(self) -> list[Feature]:
        """The transformed columns."""
        return features_of(self.pipeline[0], self.feature_names)

    @property
    def text_columns(self) -> list[str]:
        """Columns that must be read as text, whatever they hold."""
        return [use.name for use in self.uses or () if use.kind in ("category", "text", "smiles")]

    def inputs(self, table: Table) -> tuple[Any, list[str]]:
        """Raw features of a table as the pipeline takes them, and what to warn about."""
        if self.uses is None and table.frame is None:
            return self._columns(table), []
        if self.uses is None or table.frame is None:
            kind = "a table with columns" if self.uses is not None else "a sparse matrix"
            raise ValueError(f"This model was fitted to {kind}; {table.path} is not one.")
        if table.unnamed:
            self._check_width(table)
        return typed_frame(table.frame, self.uses, str(table.path), table.decimal)

    def _columns(self, table: Table) -> Any:
        """The columns of a sparse matrix, by name if both the model and the table know names."""
        wanted, present = self.feature_names, table.feature_names
        if table.unnamed or wanted == made_up_names(len(wanted)):
            self._check_width(table)
            return table.matrix
        check_columns(wanted, present, str(table.path))
        if wanted == present:
            return table.matrix
        places = {name: j for j, name in enumerate(present)}
        return table.matrix[:, [places[name] for name in wanted]]

    def _check_width(self, table: Table) -> None:
        if len(table.feature_names) != len(self.feature_names):
            raise ValueError(
                f"{table.path} has {len(table.feature_names)} features, the model takes "
                f"{len(self.feature_names)}."
            )

    def check_labels(self, table: Table) -> None:
        """Refuse a table that was read with other labels, or with these in another order."""
        if table.label_names != self.label_names:
            raise ValueError(
                f"{table.path} was read with the labels {table.label_names}, the model has "
                f"{self.label_names}."
            )

    def answer(self, inputs: Any) -> Answer:
        """Scores, probabilities and decisions for what :meth:`inputs` has returned."""
        X = self.pipeline[:-1].transform(inputs)
        classifier, unread = self.classifier, self.unread(inputs)[:, None]
        return Answer(
            np.where(unread, np.nan, classifier.decision_function(X)),
            np.where(unread, np.nan, classifier.predict_proba(X)),
            ~unread & (classifier.predict(X) == 1),
        )

    def unread(self, inputs: Any) -> NDArray[np.bool_]:
        """Rows of what :meth:`inputs` has returned that have no molecule, and get no answer."""
        return unread_rows(inputs, self.uses)

    def lowest_error_rate(self, inputs: Any, Y: NDArray[np.float64]) -> float:
        """The smallest ``max_error_rate`` with which :meth:`fill` would fill anything."""
        return lowest_error_rate(self.classifier, self.pipeline[:-1].transform(inputs), Y)

    def fill(
        self, inputs: Any, Y: NDArray[np.float64], max_error_rate: float | None = None
    ) -> Filled:
        """Fill the holes of ``Y``, rows of which are those of what :meth:`inputs` has returned.

        The known labels of a row have a say in its holes, if the model was fitted with coupling.
        Holes of rows without a molecule are left.
        """
        X, unread = self.pipeline[:-1].transform(inputs), self.unread(inputs)
        found = fill_holes(self.classifier, X, Y, max_error_rate)
        if not unread.any():
            return found
        holes = unread[:, None] & np.isnan(Y)
        p = np.where(holes, np.nan, found.probabilities)
        return Filled(p, found.positive & ~holes, found.left | holes, found.expected_wrong)


def lowest_error_rate(classifier: Any, X: Any, Y: NDArray[np.float64]) -> float:
    """The smallest share of wrong answers with which any hole of ``Y`` could be filled."""
    p = np.array(classifier.complete(X, Y, method="predict_proba"))
    positive = np.asarray(classifier.complete(X, Y)) == 1
    holes = np.isnan(Y) & learnt(classifier)
    return float(
        classifier._completer.correlation.error_rates.least(np.where(positive, p, 1 - p), holes)
    )


def fill_holes(
    classifier: Any, X: Any, Y: NDArray[np.float64], max_error_rate: float | None = None
) -> Filled:
    """Fill the holes of ``Y`` from prepared features and the known labels of each row."""
    if max_error_rate is not None and getattr(classifier, "missing_as", None) == "unlabelled":
        raise ValueError(
            "A bound on wrong answers takes known labels that are like the blanks, by which wrong "
            "ones are counted. This model was fitted with --blank unlabelled: what is known there "
            "was ticked because it is a yes. Complete without the bound; the probabilities say "
            "how sure each answer is."
        )
    if max_error_rate is not None and not hasattr(classifier, "label_covariance_"):
        raise ValueError(
            "A bound on wrong answers takes a model that couples labels, which this one does not: "
            "fit it again with this version of dm2l."
        )
    filled, filling = classifier.complete(X, Y, max_error_rate=max_error_rate, return_summary=True)
    p = np.array(classifier.complete(X, Y, method="predict_proba"))
    return Filled(
        p,
        np.isnan(Y) & (filled == 1),
        np.isnan(filled),
        filling.expected_wrong,
    )


def fit_table(
    table: Table,
    wishes: FitOptions | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[Any] = (),
    groups: Any = None,
    estimate_folds: int = 5,
    tell: Tell | None = None,
) -> TableModel:
    r"""Fit a model to a table: prepare columns, choose and combine, calibrate, estimate quality.

    Parameters
    ----------
    table : Table
        What :func:`read_table` has returned, with labels.
    wishes : Wishes, default=None
        Settings that are fixed, and how the others are chosen.
    kinds : mapping of str to str, default=None
        Kinds of columns that should not be guessed, see :func:`column_kinds`.
    drop : sequence of str, default=()
        Columns to leave out, by name or pattern.
    missing : sequence, default=()
        Marks of missing labels with which the table was read; the model remembers them.
    groups : str or array-like of shape (n_rows,), default=None
        Rows that folds keep together, so that the estimate is not one by copies: a column, which is
        then no feature; "duplicates", rows whose features are the same; "scaffold", molecules of
        one scaffold; or a value for every row.
    estimate_folds : int, default=5
        Folds of the estimate, in each of which settings are chosen anew; 0 for no estimate. The
        automatic estimator has its own, of its own folds.
    tell : callable, default=None
        Gets a line about each step.

    Returns
    -------
    TableModel
        The pipeline and what it knows of the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.tables import FitOptions, fit_table, read_table
    >>> rows = [
    ...     f"{i % 7},{'gas' if i % 2 else 'solid'},{i % 2},{'' if i % 3 else 1 - i % 2}"
    ...     for i in range(60)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.csv")
    ...     _ = path.write_text("\n".join(["mass,phase,tox_a,tox_b", *rows]))
    ...     table = read_table(path, labels="tox_*")
    >>> model = fit_table(table, Wishes(kernel="linear", lambda_d=0.1, alpha=1.0))
    >>> [use.kind for use in model.uses]
    ['numeric', 'category']
    >>> answer = model.answer(model.inputs(table)[0])
    >>> bool((answer.positive[:, 0] == (table.Y[:, 0] == 1)).all())
    True
    >>> model.estimate.values["label_auc"].mean
    1.0
    """
    wishes = FitOptions() if wishes is None else wishes
    if not table.label_names:
        raise ValueError(f"{table.path}: no column is a label; say which with labels=.")
    check_learnable(table.Y, str(table.path), ticks=wishes.ticks)
    inputs, uses, Y = table_inputs(table, kinds, drop, groups)
    together = row_groups(table, inputs, uses, groups)
    check_learnable(Y, f"{table.path}, rows with a molecule", ticks=wishes.ticks)
    names, estimate = table.label_names, None
    if estimate_folds and not wishes.automatic:
        estimate = estimate_rows(inputs, uses, Y, wishes, estimate_folds, names, together, tell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantLabelWarning)  # said below, in a table's words
        pipeline, settings = fit_pipeline(
            inputs, uses, Y, wishes, label_names=names, groups=together, tell=tell
        )
    for line in fit_warnings(pipeline[-1], names):
        warnings.warn(line, ConstantLabelWarning, stacklevel=2)
    X, classifier = pipeline[:-1].transform(inputs), pipeline[-1]
    sample = None
    if isinstance(classifier, AutoClassifier):
        if estimate_folds:
            if tell is not None:
                tell("measuring how well each label is told")
            estimate = estimate_held_out(classifier, Y, names)
        del classifier.held_out_, classifier.held_out_folds_  # what is told of them stays
        order = np.random.default_rng(wishes.seed).permutation(X.shape[0])
        sample = take_rows(X, np.sort(order[:SAMPLE]))
    return TableModel(
        pipeline=pipeline,
        uses=uses,
        feature_names=table.feature_names,
        label_names=names,
        settings=settings,
        correlation=score_correlation(classifier.decision_function(X)),
        estimate=estimate,
        missing=[str(mark) for mark in missing],
        words=table.words,
        zero_based=None if table.bunch is None else table.bunch.get("zero_based"),
        sample=sample,
    )


def read_for(
    model: TableModel,
    path: str | Path,
    *,
    labels: bool = True,
    missing: Sequence[Any] = (),
    as_text: Sequence[str] = (),
    **reading: Any,
) -> Table:
    """Read a table as the one that a model was fitted to: its labels, columns of text, words.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    path : str or Path
        The file.
    labels : bool, default=True
        Whether the table has the model's label columns; if not, its features alone are read.
    missing, as_text, **reading
        As in :func:`read_table`; marks and columns of text of the model come on top.

    Returns
    -------
    Table
        What the model takes.
    """
    return read_table(
        path,
        LabelNames(model.label_names) if labels else None,
        missing=[*model.missing, *missing],
        positive=model.words.positive,
        cutoffs=model.words.cutoffs,
        written=model.words.written,
        as_text=[*model.text_columns, *as_text],
        n_features=len(model.feature_names),
        zero_based=model.zero_based,
        features_only=not labels,
        **reading,
    )


def score_correlation(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of columns; 0 with a constant one."""
    spread = scores - scores.mean(axis=0)
    length = np.linalg.norm(spread, axis=0)
    unit = np.divide(spread, length, out=np.zeros_like(spread), where=length > 1e-12 * len(scores))
    return unit.T @ unit
