"""Label correlation: correlations of the residuals of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from dm2l._utils.arrays import to_numpy
from dm2l.plots._canvas import (
    FONT,
    LINE,
    SMALL_FONT,
    Display,
    Numbers,
    check_names,
    tidy,
    write_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class CouplingDisplay(Display):
    r"""Heat map of label correlation: correlations of the residuals of labels.

    .. math:: r_{jk} = S_{jk} / \sqrt{S_{jj} S_{kk}}

    with the covariance :math:`S` of the residuals (``label_covariance_``). Where it is far from 0,
    a known label helps to impute the other one, beyond the features. Correlated labels are drawn
    next to each other.

    Parameters
    ----------
    correlation : ndarray of shape (n_labels, n_labels)
        Between -1 and 1.
    label_names : sequence of str
        One per label.

    Attributes
    ----------
    image_, colorbar_ : matplotlib AxesImage and Colorbar
        The heat map.
    order_ : ndarray of int
        The labels in the order in which they were drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.plots import CouplingDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, mood = rng.normal(size=(300, 3)), rng.normal(size=(300, 1))
    >>> Y = (X + [1.5, 0, 1.5] * mood > 0).astype(float)
    >>> display = CouplingDisplay.from_estimator(MaskedRidgeClassifier().fit(X, Y))
    >>> display.strongest(1)[0][:2]
    ('y0', 'y2')
    """

    correlation: Numbers
    _: KW_ONLY
    label_names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        label_names: Sequence[str] | None = None,
        max_labels: int = 200,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the label correlation of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted with ``coupling``, two labels or more.
        label_names : sequence of str, default=None
            None: those of the data frame that it was fitted to, or y0, y1, ...
        max_labels : int, default=200
            Of more labels those with the strongest correlations are drawn.
        """
        S = to_numpy(estimator.label_covariance_.matrix())
        if len(S) < 2 or max_labels < 2:
            raise ValueError(
                f"Coupling needs two labels or more, got {len(S)} and max_labels={max_labels}."
            )
        spread = np.sqrt(np.diag(S))
        correlation = np.clip(S / (spread[:, None] * spread), -1.0, 1.0)
        strength = np.abs(correlation - np.diag(np.diag(correlation))).max(axis=1)
        kept = np.sort(np.argsort(-strength, kind="stable")[:max_labels])
        names = check_names(estimator.label_names_ if label_names is None else label_names, len(S))
        chosen = [names[k] for k in kept]
        return cls(correlation[np.ix_(kept, kept)], label_names=chosen).plot(ax)

    def strongest(self, top: int = 10) -> list[tuple[str, str, float]]:
        """Pairs of labels with the strongest correlations, and these; at most ``top``."""
        rows, columns = np.triu_indices(len(self.correlation), 1)
        values = self.correlation[rows, columns]
        order = np.argsort(-np.abs(values), kind="stable")[:top]
        names = self.label_names
        return [(names[rows[i]], names[columns[i]], float(values[i])) for i in order]

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the heat map."""
        names = check_names(self.label_names, len(self.correlation))
        self.order_ = _together(np.asarray(self.correlation))
        side = float(np.clip(1.5 * LINE * len(names), 2.2, 9.0))
        panel: Any = self._axes(ax, side + 2.6, side + 1.6)
        picture = np.array(self.correlation, dtype=np.float64)[np.ix_(self.order_, self.order_)]
        np.fill_diagonal(picture, np.nan)  # always 1, and would outshine the rest
        # One scale on both sides of 0: white is uncorrelated.
        top = max(float(np.nanmax(np.abs(picture))), 0.05)
        panel.patch.set_facecolor("#bbbbbb")
        look: dict[str, Any] = {"cmap": "RdBu_r", "interpolation": "nearest"}
        self.image_ = panel.imshow(np.ma.masked_invalid(picture), vmin=-top, vmax=top, **look)
        tidy(panel, "", "", grid=False)
        self.colorbar_ = panel.figure.colorbar(self.image_, ax=panel, shrink=0.7)
        self.colorbar_.set_label("correlation of residuals", fontsize=FONT)
        self.colorbar_.ax.tick_params(labelsize=SMALL_FONT)
        write_names(panel, [names[k] for k in self.order_], "xy")
        return self


def _together(correlation: Numbers) -> Any:
    """An order of labels in which those that correlate are neighbours."""
    if len(correlation) < 3:
        return np.arange(len(correlation))
    far = 1 - (correlation + correlation.T) / 2
    np.fill_diagonal(far, 0.0)
    distances = squareform(np.maximum(far, 0.0), checks=False)
    return leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances))
