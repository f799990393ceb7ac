"""From the scores of any model to probabilities, decisions, imputed labels and label errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dm2l.completion._calibration import Calibrator, best_f1_thresholds, plain_probability
from dm2l.completion._correlation import LabelCorrelation
from dm2l.completion._error_rate import check_max_error_rate
from dm2l.completion._label_errors import LabelErrors, suspects
from dm2l.completion._training_rows import TrainingRows, overfits, row_digests, row_keys
from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]

# With fewer positives the best cutoff is noise, often "predict all of them".
FEWEST_POSITIVES = 5


class Imputation(NamedTuple):
    """Scores, probabilities and decisions of all entries, and the missing ones that are filled."""

    scores: Floats
    probabilities: Floats
    positive: NDArray[np.bool_]
    chosen: NDArray[np.bool_]
    expected_wrong: float


def check_threshold(threshold: Any) -> None:
    """Refuse a threshold that is neither a number nor "f1"."""
    number = isinstance(threshold, Real) and np.isfinite(float(threshold))
    if not (threshold is None or number or (isinstance(threshold, str) and threshold == "f1")):
        raise ValueError(f"threshold must be None, a finite number or 'f1', got {threshold!r}.")


class LabelCompleter:
    """What an estimator does with scores, whatever model they come from.

    Scores are arrays (n, c) on the scale of the signs ``T``: ``+1`` positive, ``-1`` negative,
    ``0`` missing. ``thresholds`` are cutoffs of the scores, and scores of labels that are not
    ``learnable`` are constant. If there is a ``calibrator``, its probabilities decide, unless
    ``by_probability`` is False. Without one, ``curves`` give probabilities that decisions do not
    follow. ``curves`` and ``correlation`` may be functions, which are called at first use: most
    fits are of searches and cross-validations, which ask for scores alone.
    """

    def __init__(
        self,
        thresholds: Floats,
        learnable: NDArray[np.bool_],
        calibrator: Calibrator | None = None,
        by_probability: bool = True,
        training_rows: TrainingRows | None = None,
        curves: Calibrator | Callable[[], Calibrator] | None = None,
        correlation: LabelCorrelation | Callable[[], LabelCorrelation] | None = None,
    ) -> None:
        self.thresholds = thresholds
        self.learnable = learnable
        self.calibrator = calibrator
        self.by_probability = by_probability
        self.training_rows = training_rows
        self._curves = curves
        self._correlation = correlation

    @classmethod
    def fit(
        cls,
        X: Any,
        T: Signs,
        scores: Floats | None,
        learnable: NDArray[np.bool_],
        *,
        held_out: Callable[[], Floats],
        own_scores: Callable[[Any], Any],
        threshold: Any = None,
        calibration: Any = None,
        weights: Floats | None = None,
        pairwise: bool = False,
    ) -> Self:
        """Learn from held-out ``scores`` of known entries, NaN where there are none.

        Label correlation needs them. ``held_out`` gives those for ``calibration`` and
        ``threshold="f1"``, ``own_scores`` those of the model itself for some rows of ``X``, which
        is a kernel matrix if ``pairwise``. ``weights`` are those of the entries.
        """
        calibrator = rows = curves = correlation = None
        if calibration is not None:
            calibrator = Calibrator(calibration).fit(held_out(), T, weights)
        if threshold == "f1":
            thresholds = best_f1_thresholds(held_out(), T, FEWEST_POSITIVES, weights)
        else:
            thresholds = np.full(T.shape[1], float(threshold or 0))
        if scores is not None:
            known, digests = np.where(learnable, T, 0), row_digests(X)
            # Rows of a kernel matrix depend on the order of all rows, so they give no order.
            keys = row_digests(known), row_keys(digests, known)
            order = None if pairwise else np.lexsort(keys)
            better = overfits(X, T, scores, own_scores, order)
            rows = TrainingRows.of(digests, T, scores if better else None, order)
            if calibration is None:
                # The observed rate of a label with few rows would discard its scores.
                curves = partial(Calibrator("sigmoid").fit, scores, known, weights, flat=False)
            correlation = partial(LabelCorrelation.fit, T, scores, threshold, order)
        return cls(thresholds, learnable, calibrator, threshold is None, rows, curves, correlation)

    @property
    def curves(self) -> Calibrator | None:
        """Probabilities from held-out scores, learnt at first use."""
        if callable(self._curves):
            self._curves = self._curves()
        return self._curves

    @property
    def correlation(self) -> LabelCorrelation | None:
        """Label correlation, learnt at first use; None without ``coupling``."""
        if callable(self._correlation):
            self._correlation = self._correlation()
        return self._correlation

    def state(self) -> dict[str, Any]:
        """Arguments of the constructor, with everything learnt that was left for later."""
        names = ("thresholds", "learnable", "calibrator", "by_probability", "training_rows")
        return {name: getattr(self, name) for name in (*names, "curves", "correlation")}

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and files hold what was learnt from the training labels, not the labels.
        return partial(type(self), **self.state()), ()

    # -- features alone -------------------------------------------------------------------------

    def decide(self, scores: Floats) -> NDArray[np.bool_]:
        """Whether entries are positive, by features alone."""
        if self.by_probability and self.calibrator is not None:
            return self.calibrator.predict(scores) > 0.5
        return np.asarray(scores > self.thresholds)

    def probabilities(self, scores: Floats) -> Floats:
        """Probabilities of a positive, by features alone."""
        calibrator = self.calibrator or self.curves
        return plain_probability(scores) if calibrator is None else calibrator.predict(scores)

    # -- features and known labels --------------------------------------------------------------

    def check_bound(self, max_error_rate: Any, method: str) -> float | tuple[float, float]:
        """A bound on the error rate, if there can be one."""
        bound, coupled = check_max_error_rate(max_error_rate), self._correlation is not None
        if not coupled or method != "predict":
            need = "method='predict'" if coupled else "a fit with coupling"
            raise ValueError(f"max_error_rate needs {need}.")
        return bound

    def impute(
        self,
        X: Any,
        T: Signs,
        scores: Floats,
        probabilities: Floats | None = None,
        max_error_rate: Any = None,
    ) -> Imputation:
        """Scores, probabilities and decisions of all entries, given the known labels of their rows.

        Training rows are recognised by ``X``; ``scores`` and ``probabilities`` are by features
        alone. ``max_error_rate`` chooses the missing entries that are filled.
        """
        missing, learnt, correlation = T == 0, self.learnable, self.correlation
        if correlation is None or (learnt.sum() < 2 and max_error_rate is None):
            p = self.probabilities(scores) if probabilities is None else probabilities
            return Imputation(scores, p, self.decide(scores), missing, np.nan)
        if self.training_rows is not None:
            scores = self.training_rows.hold_out(X, T, scores)
        mean, p = correlation.predict(np.where(learnt, T, 0), scores)
        rates = correlation.rates
        p = np.where(learnt, p, self.calibrator.predict(scores) if self.calibrator else rates)
        positive, predicted = correlation.decide(mean, p), self.decide(scores)
        # Rows without a known label use the features alone: conditional probabilities are learnt
        # from known entries, of which such rows have none.
        bare = ~(T[:, learnt] != 0).any(axis=1)
        if bare.any():
            own = self.probabilities(scores[bare]) if probabilities is None else probabilities[bare]
            p[bare] = np.where(learnt, own, p[bare])
        apart = ~learnt | bare[:, None]
        positive = np.where(apart, predicted, positive)
        p = np.where(apart & (predicted != (p > 0.5)), 0.5, p)
        chosen, expected = missing, np.nan
        if max_error_rate is not None:
            confidence = np.where(positive, p, 1 - p)
            chosen, expected = correlation.error_rates.choose(
                confidence, positive, missing & learnt, max_error_rate
            )
        return Imputation(np.where(learnt, mean, scores), p, positive, chosen, expected)

    def find_label_errors(self, T: Signs, scores: Floats, *, refit: bool) -> LabelErrors:
        """Observed entries that features and the other labels of their row contradict.

        ``refit``: learn the label correlation from these rows; their scores must be held out.
        """
        T = T * self.learnable.astype(np.int8)
        T = np.where(np.isfinite(scores), T, 0)
        scores = np.where(np.isfinite(scores), scores, 0.0)
        correlation = self.correlation or LabelCorrelation.fit(T, scores)
        # Suspected errors are no evidence about the other labels of their row.
        others = np.where(suspects(T, correlation.predict(T, scores)[1]), 0, T)
        if refit:
            correlation = LabelCorrelation.fit(others, scores)
        return LabelErrors.of(T, correlation.predict(others, scores)[1])
