"""Multi-label learning when labels are missing.

The rooms of the library, in reading order:

ground
    ``arrays`` (array libraries), ``files`` (written whole or not at all), ``threads`` (BLAS and
    workers), ``parameters`` (refused before any data is touched).
the method, read downwards
    :mod:`dm2l.labels`: the contract of labels with holes, dense, sparse and in blocks;
    :mod:`dm2l.features`: the operator ``Phi`` and the ridge; :mod:`dm2l.kernels`: kernels, their
    factors, feature maps; :mod:`dm2l.nuclear`: norms; :mod:`dm2l.objective`: what is minimised;
    :mod:`dm2l.solvers`: how; :mod:`dm2l.calibration`: from scores to probabilities;
    :mod:`dm2l.coupling`: what the known labels of a row say about its holes; :mod:`dm2l.base`: the
    label contract around a matrix of scores; :mod:`dm2l.fitting`: feature map, problem, solution,
    weights; :mod:`dm2l.classifier`: :class:`DM2LClassifier`; :mod:`dm2l.search`:
    :class:`DM2LClassifierCV`.
beside it
    :mod:`dm2l.masks` (labels to hide), :mod:`dm2l.metrics`, :mod:`dm2l.model_selection`,
    :mod:`dm2l.baselines`, :mod:`dm2l.extreme` (very many labels), :mod:`dm2l.scale` (more rows than
    memory), :mod:`dm2l.testing` (checks for estimators of one's own).
data and files
    :mod:`dm2l.readers` (one for every format), :mod:`dm2l.datasets`, :mod:`dm2l.persistence`.
for people
    :mod:`dm2l.plots`, :mod:`dm2l.tables`, :mod:`dm2l.review`, and the command ``dm2l`` in ``cli``.

Rooms are loaded when they are needed: ``import dm2l`` loads none, :class:`DM2LClassifier` the method
alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dm2l.classifier import DM2LClassifier
    from dm2l.labels import ConstantLabelWarning
    from dm2l.search import DM2LClassifierCV

__version__ = "0.1.0"

__all__ = ["ConstantLabelWarning", "DM2LClassifier", "DM2LClassifierCV", "__version__"]

# Loaded when asked for: `dm2l --help` needs neither numpy nor scikit-learn.
_HOMES = {
    "ConstantLabelWarning": "dm2l.labels",
    "DM2LClassifier": "dm2l.classifier",
    "DM2LClassifierCV": "dm2l.search",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dm2l' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
