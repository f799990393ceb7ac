"""Singular values of all rows and of the rows that share a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dm2l._utils.arrays import to_numpy
from dm2l.labels import LabelMatrix
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels
from dm2l.labels._structure import Spectrum
from dm2l.metrics._reading import check_scores
from dm2l.plots._canvas import (
    COLOURS,
    Display,
    Numbers,
    legend_above,
    marks_of,
    read_labels,
    series_styles,
    shorten,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = {
    "largest": "singular value / largest",
    "rows": r"singular value / $\sqrt{\mathrm{rows}}$",
    None: "singular value",
}


@dataclass(eq=False, repr=False)
class SingularValuesDisplay(Display):
    """Singular values of all rows, and of the rows that share a label.

    The objective of DM2L makes the nuclear norm (the sum of the singular values) small for the
    scores ``F_k`` of the rows in which label k is an observed positive, and large for all rows
    together. The thin lines of the groups should therefore fall faster than the thick line.

    Parameters
    ----------
    whole, groups : ndarray, and mapping of str to ndarray
        Singular values of all rows, and of the rows of each label, in descending order.
    n_rows, group_rows, n_labels : int, mapping of str to int, and int
        Number of all rows, numbers of rows of the groups, and number of labels.

    Attributes
    ----------
    whole_line_, group_lines_ : matplotlib Line2D, and dict of str to Line2D
        The line of all rows, and the lines of the groups by label.

    Examples
    --------
    >>> from dm2l.plots import SingularValuesDisplay
    >>> display = SingularValuesDisplay.from_labels([[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 0]])
    >>> {name: round(rank, 1) for name, rank in display.effective_ranks().items()}
    {'y0': 1.9, 'y1': 2.8, 'y2': 1.9}
    """

    whole: Numbers
    _: KW_ONLY
    groups: Mapping[str, Numbers]
    n_rows: int
    group_rows: Mapping[str, int]
    n_labels: int

    @classmethod
    def _of(cls, matrix: Numbers, T: Signs, names: Sequence[str]) -> Self:
        parts = {name: matrix[T[:, k] > 0] for k, name in enumerate(names) if (T[:, k] > 0).any()}
        return cls(
            Spectrum.of(matrix).singular_values,
            groups={name: Spectrum.of(part).singular_values for name, part in parts.items()},
            n_rows=len(matrix),
            group_rows={name: len(part) for name, part in parts.items()},
            n_labels=matrix.shape[1],
        )

    @classmethod
    def from_labels(
        cls,
        Y: Any,
        *,
        label_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the singular values of labels coded +1, -1, and 0 for missing entries.

        By default, ``label_names`` are those of the data frame, or y0, y1, ... ``options`` are
        those of :meth:`plot`.
        """
        T, names = read_labels(Y, label_names)
        return cls._of(T.astype(np.float64), T, names).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        scores: Any,
        *,
        label_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the singular values of scores, grouped by the observed positives in ``Y``.

        ``scores`` are the result of ``decision_function``. The other parameters are those of
        :meth:`from_labels`.
        """
        T, names = read_labels(Y, label_names)
        scores = check_scores(LabelMatrix.of_signs(T), scores, "scores")
        return cls._of(scores, T, names).plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, Y: Any, *, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Draw the singular values of the scores of a fitted estimator.

        ``Y`` is coded like the training labels. ``options`` are those of :meth:`from_predictions`.
        """
        labels = parse_labels(Y, **marks_of(estimator))
        scores = to_numpy(estimator.decision_function(X))
        return cls.from_predictions(labels, scores, ax=ax, **options)

    def effective_ranks(self) -> dict[str, float]:
        """Return ``(||F_k||_* / ||F_k||_F)^2`` of each group, which is 0 if all scores are 0."""
        return {name: self._spectrum(name).effective_rank for name in self.groups}

    def _spectrum(self, name: str | None) -> Spectrum:
        if name is None:
            return Spectrum((self.n_rows, self.n_labels), np.asarray(self.whole))
        return Spectrum((self.group_rows[name], self.n_labels), np.asarray(self.groups[name]))

    def plot(
        self,
        ax: Axes | None = None,
        *,
        normalize: Literal["largest", "rows"] | None = "largest",
        highlight: Sequence[str] = (),
    ) -> Self:
        """Draw a line per group and a thick line of all rows, each as long as its rank.

        ``normalize`` divides by the largest singular value, or by the square root of the number of
        rows. Labels in ``highlight`` get their own colour and marker.
        """
        if normalize not in _UNITS:
            raise ValueError(f"normalize must be 'largest', 'rows' or None, got {normalize!r}.")
        chosen = [highlight] if isinstance(highlight, str) else list(highlight)
        for name in chosen:
            if name not in self.groups:
                known = ", ".join(map(str, self.groups))
                raise ValueError(f"highlight has {name!r}, which is not a group. Groups: {known}.")
        panel: Any = self._axes(ax, height=3.9)
        ranks = self.effective_ranks()
        plain = [name for name in self.groups if name not in chosen]
        look: dict[str, Any] = {"color": COLOURS[4], "linewidth": 0.9, "alpha": 0.8}
        self.group_lines_ = {}
        for i, name in enumerate(plain):
            label = None if i else f"{shorten(name)}, effective rank {ranks[name]:.1f}"
            if not i and len(plain) > 1:
                mean = np.mean([ranks[other] for other in plain])
                what = f"rows of one label: {len(plain)} groups"
                label = f"{what}, effective rank {mean:.1f} on average"
            self.group_lines_[name] = self._draw(panel, name, normalize, label, **look)
        for name, style in series_styles(chosen).items():
            rows = f"{self.group_rows[name]:,} rows"
            label = f"{shorten(name)}: {rows}, effective rank {ranks[name]:.1f}"
            some = {"markersize": 4.0, "markevery": max(1, len(self.groups[name]) // 8)}
            self.group_lines_[name] = self._draw(panel, name, normalize, label, **(style | some))
        rank = self._spectrum(None).effective_rank
        label = f"all {self.n_rows:,} rows, effective rank {rank:.1f}"
        self.whole_line_ = self._draw(panel, None, normalize, label, color="black", linewidth=2.4)
        panel.set_yscale("log")
        panel.xaxis.get_major_locator().set_params(integer=True)
        tidy(panel, "number of the singular value, largest first", _UNITS[normalize])
        legend_above(panel, *panel.get_legend_handles_labels(), columns=1)
        return self

    def _draw(
        self, ax: Any, name: str | None, normalize: str | None, label: Any, **look: Any
    ) -> Any:
        spectrum = self._spectrum(name)
        values = spectrum.singular_values[: spectrum.rank]
        unit = {"largest": values[:1], "rows": np.sqrt(spectrum.shape[0]), None: 1.0}[normalize]
        if len(values) == 1:
            look = {"marker": "o", "markersize": 3} | look
        return ax.plot(np.arange(1, len(values) + 1), values / unit, label=label, **look)[0]
