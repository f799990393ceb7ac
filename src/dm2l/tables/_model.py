"""A model of a table: a pipeline of preparation and classifier, with its columns and labels."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dm2l._auto._classifier import AutoClassifier
from dm2l._utils.arrays import take_rows
from dm2l.io._columns import LabelNames
from dm2l.io._label_columns import LabelVocabulary, label_columns
from dm2l.labels import ConstantLabelWarning
from dm2l.labels._entries import Floats, Mask
from dm2l.labels._rules import LabelRules
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._measures import Estimate, Predictions, estimate_auto, estimate_rows, predictions
from dm2l.tables._options import FitOptions, Hyperparameters, Tell, check_learnable, fit_pipeline
from dm2l.tables._preparation import (
    Feature,
    check_columns,
    features_of,
    table_inputs,
    typed_frame,
    unread_rows,
)
from dm2l.tables._reading import Table, count_cells, made_up_names, read_table
from dm2l.tables._scores import add_scores

SAMPLE = 200  # training rows that a model stores for explanations
_NAMED = 3  # maximum number of labels or columns in a warning


@dataclass
class TableModel:
    """A fitted model of a table.

    Attributes
    ----------
    pipeline : Pipeline
        The step ``columns`` (transformers of scikit-learn) and the step ``labels``: an
        :class:`dm2l.AutoClassifier` or, with given parameters, a :class:`dm2l.DM2LClassifier`.
    uses : list of ColumnUse or None
        The use of every column; None if the features are a sparse matrix.
    feature_names, label_names : list of str
        Names of the raw feature columns and of the labels.
    settings : Hyperparameters or None
        The chosen hyperparameters; None for :class:`dm2l.AutoClassifier`.
    correlation : ndarray of shape (n_labels, n_labels)
        Correlation matrix of the scores of all labels on training rows.
    estimate : Estimate or None
        Cross-validated quality on held-out rows; None if it was not estimated.
    missing, words, zero_based
        How the table was read: values that mark missing labels, positive values and cutoffs, and
        whether feature indices of a .svm file start at 0.
    sample : array or sparse matrix, or None
        Prepared training rows, whose columns are shuffled to explain the model.
    """

    pipeline: Any
    uses: list[ColumnUse] | None
    feature_names: list[str]
    label_names: list[str]
    settings: Hyperparameters | None
    correlation: Floats
    estimate: Estimate | None = None
    missing: list[str] = field(default_factory=list)
    words: LabelVocabulary = field(default_factory=LabelVocabulary)
    zero_based: bool | None = None
    sample: Any = None

    @property
    def classifier(self) -> Any:
        """The classifier, which is the last step of the pipeline."""
        return self.pipeline[-1]

    @property
    def features(self) -> list[Feature]:
        """The features, in the order of the transformed columns."""
        return features_of(self.pipeline[0], self.feature_names)

    def set_rules(self, rules: LabelRules | None) -> None:
        """Replace the rules of the labels, but keep the rules of columns with several values."""
        found = FitOptions(rules=rules).with_rules(self).rules
        self.classifier.rules = self.classifier._completer.rules = found

    def inputs(self, table: Table) -> tuple[Any, list[str]]:
        """Return the raw features of a table for the pipeline, and warnings about their values."""
        names, present = self.feature_names, table.feature_names
        if (self.uses is None) is not (table.frame is None):
            kind = "a table with columns" if self.uses is not None else "a sparse matrix"
            raise ValueError(
                f"{table.path}: this model was fitted to {kind}, but the file holds another kind "
                "of data. Use a file in the format of the training table."
            )
        made_up = self.uses is None and names == made_up_names(len(names))
        # Columns of a file without names are matched by position.
        by_place = made_up or (table.bunch is not None and table.bunch.feature_names is None)
        if by_place and len(present) != len(names):
            raise ValueError(
                f"{table.path} has {len(present)} features, but the model needs {len(names)}. Use "
                "the feature columns of the training table in the same order."
            )
        if self.uses is not None:
            return typed_frame(table.frame, self.uses, str(table.path), table.decimal)
        if by_place or names == present:
            return table.matrix, []
        check_columns(names, present, str(table.path))
        places = {name: j for j, name in enumerate(present)}
        return table.matrix[:, [places[name] for name in names]], []

    @property
    def takes_scores(self) -> bool:
        """Whether the model needs scores of another model."""
        return any(use.kind == "score" for use in self.uses or ())

    def check_labels(self, table: Table) -> None:
        """Reject a table whose labels, or their order, differ from the labels of the model."""
        if table.label_names != self.label_names:
            raise ValueError(
                f"{table.path} was read with the labels {table.label_names}, but the model has the "
                f"labels {self.label_names}. Read the table with labels=model.label_names."
            )

    def prepared(self, table: Table) -> tuple[Any, Mask, list[str]]:
        """Return prepared features, a mask of rows with invalid SMILES, and warnings."""
        self.check_labels(table)
        inputs, odd = self.inputs(table)
        return self.pipeline[:-1].transform(inputs), unread_rows(inputs, self.uses), odd

    def answer(self, inputs: Any) -> Predictions:
        """Return predictions; rows with invalid SMILES have NaN scores and no positive labels."""
        found = predictions(self.classifier, self.pipeline[:-1].transform(inputs))
        none = unread_rows(inputs, self.uses)[:, None]
        scores, p = (np.where(none, np.nan, values) for values in found[:2])
        return Predictions(scores, p, found.positive & ~none)


def fit_table(
    table: Table,
    options: FitOptions | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[Any] = (),
    groups: Any = None,
    estimate_folds: int = 5,
    tell: Tell | None = None,
) -> TableModel:
    r"""Fit a model to a table and estimate its quality.

    Each column is prepared according to its kind, and probabilities are calibrated.

    Parameters
    ----------
    table : Table
        A table with labels, from :func:`read_table`.
    options : FitOptions, default=None
        The model and its fixed hyperparameters.
    kinds : mapping of str to str, default=None
        Kinds, by name or pattern of columns, that replace the detected kinds: "numeric", "boolean",
        "category", "text", "smiles", "date", "date-dmy" (day first) or "date-mdy" (month first).
    drop : sequence of str, default=()
        Names or patterns of columns to leave out.
    missing : sequence, default=()
        Values that mark missing labels, as passed when the table was read; the model stores them.
    groups : str or array-like of shape (n_rows,), default=None
        Rows to keep in the same fold, so that copies do not leak into the estimate: the name of a
        column, which is then not a feature; "duplicates" for rows with the same features;
        "scaffold" for molecules with the same scaffold; or a value for every row. If the table has
        SMILES, None keeps all rows of the same compound together.
    estimate_folds : int, default=5
        Number of folds for estimating the quality, with a new hyperparameter search in each fold;
        0 skips the estimate. :class:`dm2l.AutoClassifier` uses its own folds instead.
    tell : callable, default=None
        Function that is called with a line of text about each step.

    Returns
    -------
    TableModel
        The fitted pipeline with the columns and labels of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, None, 1, 1] * 20})
    >>> frame["phase"] = ["gas", "solid", "solid", "gas"] * 20
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions(kernel="linear", lambda_d=0.1, alpha=1.0))
    >>> [use.kind for use in model.uses]
    ['numeric', 'category']
    >>> model.estimate.values["label_auc"].mean
    1.0
    """
    options, tell = options or FitOptions(), tell or (lambda line: None)
    if not table.label_names:
        raise ValueError(f"{table.path} was read without labels. Name its labels with labels=.")
    options, names, table = options.with_rules(table), table.label_names, options.read(table)
    check_learnable(table.Y, str(table.path), options)
    inputs, uses, Y, together = table_inputs(table, kinds, drop, groups)
    check_learnable(Y, f"{table.path}, rows with valid SMILES", options)
    estimate = None
    alone = all(use.kind == "score" for use in uses or () if use.used) and uses is not None
    if estimate_folds and (alone or not options.automatic):
        estimate = estimate_rows(inputs, uses, Y, options, estimate_folds, names, together, tell)
    # Warnings of the fit are replaced by the warnings below.
    with warnings.catch_warnings(action="ignore", category=ConstantLabelWarning):
        pipeline, settings = fit_pipeline(
            inputs, uses, Y, options, label_names=names, groups=together, tell=tell
        )
    X, classifier = pipeline[:-1].transform(inputs), pipeline[-1]
    cannot = " cannot be learned because {lack}, so dm2l complete does not fill the blanks"
    for line in constant_warnings(classifier, names, cannot):
        warnings.warn(line, ConstantLabelWarning, stacklevel=2)
    sample = None
    if isinstance(classifier, AutoClassifier):
        if estimate_folds:
            tell("estimating the quality of each label")
            estimate = estimate_auto(classifier, Y, names)
        del classifier.held_out_, classifier.held_out_folds_
        order = np.random.default_rng(options.random_state).permutation(X.shape[0])
        sample = take_rows(X, np.sort(order[:SAMPLE]))
    if estimate is not None:
        estimate = replace(estimate, n_entries=count_cells(~np.isnan(Y), table.exclusive))
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
    scores: str | Path | None = None,
    row_id: str | None = None,
    **reading: Any,
) -> Table:
    """Read a table in the same way as the training table of a model, with or without labels."""
    if (scores is None) is model.takes_scores:
        need = "with --scores. Pass" if model.takes_scores else "without --scores. Omit"
        raise ValueError(f"{path}: the model was fitted {need} --scores.")
    text = ("category", "text", "smiles")
    table = read_table(
        path,
        LabelNames(label_columns(model)) if labels else None,
        missing=[*model.missing, *missing],
        positive=model.words.positive,
        cutoffs=model.words.cutoffs,
        written=model.words.written,
        groups=model.words.groups,
        as_text=[use.name for use in model.uses or () if use.kind in text],
        n_features=len(model.feature_names),
        zero_based=model.zero_based,
        features_only=not labels,
        labels_only=model.takes_scores,
        **reading,
    )
    return table if scores is None else add_scores(table, scores, model.label_names, row_id)


def score_correlation(scores: Floats) -> Floats:
    """Return the correlation matrix of score columns, with 0 for constant columns."""
    spread = scores - scores.mean(axis=0)
    length = np.linalg.norm(spread, axis=0)
    unit = np.divide(spread, length, out=np.zeros_like(spread), where=length > 1e-12 * len(scores))
    return unit.T @ unit


# Problem and remedy of a constant label, by the sign of its score.
_LACKS = {
    1.0: (
        "no entry is negative",
        "Add a few negative entries, or fit with --missing-as unlabelled if blanks are negative or "
        "overlooked positives",
    ),
    -1.0: ("no entry is positive", "Add a few positive entries"),
    0.0: ("no entry is observed", "Add a few positive and negative entries"),
}


def no_positive_warnings(names: Sequence[str], answered: Mask, positive: Mask) -> list[str]:
    """Warn about labels for which no prediction is positive."""
    without = answered.any(axis=0) & ~(positive & answered).any(axis=0)
    none = [names[k] for k in np.flatnonzero(without).tolist()]
    if not none:
        return []
    what = "label has" if len(none) == 1 else "labels have"
    return [
        f"{len(none)} {what} no predicted positive ({listed(none)}), because no "
        "probability reaches the threshold; sort by probability to find the likeliest positives"
    ]


def listed(names: Sequence[str]) -> str:
    """Return a text with the first names in quotes and the number of further names."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


def constant_warnings(
    classifier: Any, names: Sequence[str], text: str, missing: Mask | None = None
) -> list[str]:
    """Warn about labels with a single class and, if ``missing`` is given, with missing entries."""
    constant = ~np.asarray(classifier._learnable, dtype=bool)
    constant &= True if missing is None else missing.any(axis=0)
    found = []
    for score, (lack, remedy) in _LACKS.items():
        labels = np.flatnonzero(constant & (np.sign(classifier._constant) == score)).tolist()
        if not labels:
            continue
        n = 0 if missing is None else int(missing[:, labels].sum())
        called = f"{'label' if len(labels) == 1 else 'labels'} {listed([names[k] for k in labels])}"
        found.append(f"{called}{text.format(lack=lack, n=n)}. {remedy}.")
    return found
