"""Options of a fit, hyperparameter search on observed labels, and the fitted pipeline."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from dm2l._auto._base_models import TimeBudget
from dm2l._auto._classifier import AutoClassifier
from dm2l._auto._score_classifier import ScoreClassifier
from dm2l._classifier import DM2LClassifier
from dm2l._search._search import DM2LClassifierCV, search_stage
from dm2l._utils import require
from dm2l.io._columns import ColumnRequestError
from dm2l.io._label_columns import by_column, label_columns
from dm2l.labels import ConstantLabelWarning, LabelMatrix
from dm2l.labels._entries import Floats
from dm2l.labels._rules import LabelRules
from dm2l.model_selection import MultilabelKFold
from dm2l.tables._blocks import weigh_blocks
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._preparation import codes_of, preparation
from dm2l.tables._reading import Table

# Up to this number of rows, kernels are exact; with more rows, they are approximated with this
# number of components. A search fits dozens of models, so its limits are lower.
EXACT_ROWS, COMPONENTS = 10_000, 2000
SEARCH_ROWS, SEARCH_COMPONENTS = 1000, 500
KERNELS = ("auto", "linear", "rbf", "tanimoto")
LAMBDAS = (0.0, 0.02, 0.1, 0.3, 1.0, 3.0)

Tell = Callable[[str], None]


@dataclass(frozen=True)
class FitOptions:
    """The model to fit to a table, and its fixed hyperparameters.

    Attributes
    ----------
    kernel : {"auto", "linear", "rbf", "tanimoto"}
        "auto" fits :class:`dm2l.AutoClassifier`. If ``lambda_d``, ``alpha`` or ``scoring`` is
        given, "auto" fits :class:`dm2l.DM2LClassifier` with the better of the linear and the rbf
        kernel. Every other value fits DM2L with the named kernel.
    lambda_d, alpha : float or None
        Hyperparameters of DM2L; None selects them by cross-validation.
    scoring : str or None
        Metric that the search maximizes, as in :class:`dm2l.DM2LClassifierCV`.
    cv : int
        Number of folds of the search and of the calibration.
    random_state : int
        Seed of all folds and masks.
    calibration, coupling, effort
        As in :class:`dm2l.DM2LClassifier` and :class:`dm2l.AutoClassifier`.
    missing_as : {"missing", "unlabelled", "negative"}, or mapping
        Meaning of a missing label: unknown; negative or an overlooked positive, for which DM2L is
        fitted (see :doc:`/guide/positive-unlabelled`); or negative. With "negative", blank cells of
        tags stay missing. A mapping has a value for each name or pattern of label columns, and "*"
        stands for all other columns. The values "missing" and "unlabelled" cannot be combined.
    rules : LabelRules or None
        Rules that the labels obey, in addition to the rules of columns with several values.
    """

    kernel: str = "auto"
    lambda_d: float | None = None
    alpha: float | None = None
    calibration: str = "sigmoid"
    scoring: str | None = None
    cv: int = 5
    random_state: int = 0
    coupling: str | None = "residual"
    effort: str = "normal"
    missing_as: str | Mapping[str, str] = "missing"
    rules: LabelRules | None = None

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {KERNELS}; got {self.kernel!r}.")

    @property
    def by_label(self) -> dict[str, str]:
        """Values of ``missing_as`` by label; "*" stands for all other labels."""
        given = {"*": self.missing_as} if isinstance(self.missing_as, str) else self.missing_as
        return {"*": "missing", **given}

    @property
    def unlabelled(self) -> bool:
        """Whether labels are positive-unlabelled."""
        return "unlabelled" in self.by_label.values()

    @property
    def automatic(self) -> bool:
        """Whether the model is :class:`dm2l.AutoClassifier`."""
        fixed = (self.lambda_d, self.alpha, self.scoring) != (None,) * 3
        return self.kernel == "auto" and not fixed and not self.unlabelled

    def read(self, table: Table) -> Table:
        """Return a table in which missing labels are 0 if they are read as negative."""
        columns, Y, groups = label_columns(table), table.Y.copy(), list(table.words.groups)
        read = by_column(list(columns), self.by_label, str(table.path))
        first: dict[str, str] = {}
        for j, (name, (labels, group)) in enumerate(columns.items()):
            first.setdefault(read[j], name)
            if read[j] == "negative":
                missing = np.isnan(Y[:, labels])
                if group is not None and group.kind == "tags":
                    missing[missing.all(axis=1)] = False  # blank cells
                    groups[groups.index(group)] = replace(group, absent="negative")
                Y[:, labels] = np.where(missing, 0.0, Y[:, labels])
            elif read[j] not in ("missing", "unlabelled"):
                raise ColumnRequestError(
                    f"--missing-as (missing_as=) of {name!r} is {read[j]!r}. Choose missing, "
                    "unlabelled or negative."
                )
        if {"missing", "unlabelled"} <= first.keys():
            raise ColumnRequestError(
                f"--missing-as (missing_as=) is unlabelled for {first['unlabelled']!r}, but "
                f"missing for {first['missing']!r}. One model learns from the blanks of all "
                "labels, so all blanks must mean the same. Fit a separate model to each kind of "
                "labels with --labels, or choose negative for one kind."
            )
        return replace(table, Y=Y, words=replace(table.words, groups=tuple(groups)))

    def with_rules(self, table: Any) -> Self:
        """Add the rules of columns with several values; labels of rules must be in the table."""
        rules = [] if self.rules is None else list(self.rules._rules())
        rules += [rule for group in table.words.groups for rule in group.rules]
        return replace(self, rules=LabelRules._of(rules, table.label_names) if rules else None)

    def splitter(self, Y: Floats, groups: NDArray[np.intp] | None = None) -> MultilabelKFold:
        """Return a splitter with ``cv`` folds, or fewer if few rows or groups have labels."""
        seen = (~np.isnan(Y)).any(axis=1)
        most = int(seen.sum()) if groups is None else len(np.unique(groups[seen]))
        folds = max(2, min(self.cv, most))
        return MultilabelKFold(folds, random_state=self.random_state, groups=groups)


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of DM2L with their cross-validated score, which is None without a search."""

    kernel: str
    lambda_d: float
    alpha: float
    score: float | None


def _approximation(kernel: str, n_rows: int, *, search: bool = False) -> dict[str, Any]:
    """Return the parameters of a kernel approximation, or none if there are few rows."""
    most, size = (SEARCH_ROWS, SEARCH_COMPONENTS) if search else (EXACT_ROWS, COMPONENTS)
    exact = kernel == "linear" or n_rows <= most
    return {} if exact else {"approximation": "nystroem", "n_components": size}


def check_learnable(Y: Floats, where: str, options: FitOptions) -> None:
    """Raise an error if no label can be learned, because every label lacks a class."""
    both = (Y == 1).any(axis=0) & ((Y == 0).any(axis=0) | options.unlabelled)
    if both.any():
        return
    if not np.isfinite(Y).any():
        raise ValueError(
            f"{where}: every label entry is missing, so no model can be fitted. Pass other label "
            "columns with --labels (labels=)."
        )
    remedy = "Add positive entries."
    if (Y == 1).any():
        remedy = (
            "Add negative entries, or pass --missing-as unlabelled (missing_as=) if blanks are "
            "negative or overlooked positives."
        )
    raise ValueError(
        f"{where}: no label has both positive and negative entries, so no model can be fitted. "
        f"{remedy}"
    )


def choose_hyperparameters(
    X: Any, Y: Floats, options: FitOptions, tell: Tell = lambda line: None, groups: Any = None
) -> Hyperparameters:
    """Select all hyperparameters that are not given, by cross-validation on prepared features."""
    # The kernel is selected with masked ridge (lambda_d = 0), which is much cheaper than a path
    # over lambda_d for each kernel.
    alphas = None if options.alpha is None else [options.alpha]
    lambdas = LAMBDAS if options.lambda_d is None else (options.lambda_d,)
    if options.unlabelled:
        # The fit itself selects alpha, and nuclear norms improve positive-unlabelled fits little.
        alphas, lambdas = alphas or [1.0], (0.0,) if options.lambda_d is None else lambdas
    kernels = ("linear", "rbf") if options.kernel == "auto" else (options.kernel,)
    labels = LabelMatrix.from_array(Y)

    def search(kernel: str) -> DM2LClassifierCV:
        tell(f"searching hyperparameters of the {kernel} model")
        return DM2LClassifierCV(
            lambdas,
            alphas,
            kernel=kernel,
            scoring=options.scoring,
            **_approximation(kernel, len(Y), search=True),
            cv=options.splitter(Y, groups),
            missing_as="unlabelled" if options.unlabelled else None,
            refit=False,
            random_state=options.random_state,
        )

    if len(kernels) == 1:
        if alphas is not None and len(lambdas) == 1:
            return Hyperparameters(kernels[0], lambdas[0], alphas[0], None)
        best = search(kernels[0]).fit(X, labels)
    else:
        ridges = [search_stage(search(kernel)).fit(X, labels) for kernel in kernels]
        best = max(ridges, key=lambda found: found.best_score_)
        if tuple(lambdas) != (0.0,):
            best = search_stage(search(best.kernel), best, alphas).fit(X, labels)
    return Hyperparameters(best.kernel, best.lambda_d_, best.alpha_, best.best_score_)


def fit_pipeline(
    inputs: Any,
    uses: Sequence[ColumnUse] | None,
    Y: Floats,
    options: FitOptions,
    *,
    label_names: Sequence[str] | None = None,
    groups: NDArray[np.intp] | None = None,
    tell: Tell = lambda line: None,
) -> tuple[Pipeline, Hyperparameters | None]:
    """Fit a pipeline of ``columns`` and ``labels``, and return it with its hyperparameters."""
    columns = preparation(uses, inputs, raw=options.automatic)
    X = columns.fit_transform(inputs)
    n_scores = sum(use.kind == "score" for use in uses or ())
    if n_scores and not options.automatic:
        raise ValueError(
            "--scores requires the automatic model. Omit --kernel, --lambda-d, --alpha, --scoring "
            "and --missing-as unlabelled."
        )
    labels: Any = Y
    if label_names is not None:
        labels = require("pandas", "io").DataFrame(Y, columns=list(label_names))
    settings, folds = None, options.splitter(Y, groups)
    if n_scores == X.shape[1]:
        model: Any = ScoreClassifier(coupling=options.coupling, cv=folds)
        fit: Callable[..., Any] = model.fit
    elif options.automatic:
        labels = LabelMatrix.from_array(labels)
        X = weigh_blocks(columns, X, labels.signs, groups, options.random_state)
        usual = groups is None and options.cv == FitOptions.cv
        own = ScoreClassifier(columns=list(range(X.shape[1] - n_scores, X.shape[1])))
        model = AutoClassifier(
            options.effort,
            categorical_features=codes_of(columns) or None,
            models=[("scores", own)] if n_scores else None,
            coupling=options.coupling,
            rules=options.rules,
            # By default, the effort decides the number of folds.
            cv=None if usual else folds,
            n_jobs=-1,
            random_state=options.random_state,
        )
        fit = partial(model._fit_arrays, budget=TimeBudget(None, tell))
    else:
        # The final fit warns once.
        with warnings.catch_warnings(action="ignore", category=ConstantLabelWarning):
            settings = choose_hyperparameters(X, Y, options, tell, groups)
        model = DM2LClassifier(
            settings.lambda_d,
            settings.alpha,
            kernel=settings.kernel,
            calibration=options.calibration,
            coupling=options.coupling,
            cv=folds,
            missing_as="unlabelled" if options.unlabelled else None,
            rules=options.rules,
            random_state=options.random_state,
            **_approximation(settings.kernel, len(Y)),
        )
        tell("fitting and calibrating")
        fit = model.fit
    with warnings.catch_warnings():
        # Commands report rows that contradict rules with the name of the file.
        warnings.filterwarnings("ignore", r"\d+ row\(s\) contradict")
        fit(X, labels)
    if groups is not None:
        model.cv = options.splitter(Y)
    return Pipeline([("columns", columns), ("labels", model)]), settings
