"""Multi-label learning when labels are missing.

The rooms of the library, in reading order; each is loaded when it is needed.

ground
    ``arrays``           array libraries, and what their standard lacks
    ``files``            written whole or not at all
    ``threads``          BLAS limits, workers
    ``parameters``       refused before any data is touched

the method, read downwards
    ``labels``           the contract of labels with holes: dense, sparse, in blocks
    ``features``         the operator ``Phi``, the usual ridge
    ``kernels``          kernels, their factors, feature maps
    ``nuclear``          norms
    ``objective``        what is minimised
    ``solvers``          how
    ``calibration``      from scores to probabilities and decisions
    ``coupling``         what the known labels of a row say about its holes
    ``base``             the label contract around a matrix of scores
    ``fitting``          feature map, problem, solution, weights
    ``classifier``       :class:`DM2LClassifier`
    ``search``           :class:`DM2LClassifierCV` and the search in two stages
    ``auto``             :class:`AutoClassifier`: these and trees, tried and combined

beside it
    ``masks``            labels to hide
    ``metrics``          of complete labels, estimated where some are missing
    ``model_selection``  splitters and scorers that take holes
    ``baselines``        the methods to compare with
    ``extreme``          very many labels
    ``scale``            more rows than memory: blocks, statistics, passes, a cluster
    ``testing``          the contract as checks, for estimators of one's own

data
    ``readers``          one for every format
    ``datasets``         catalogue, digits, synthetic
    ``persistence``      models in files
    ``deployment``       models as ONNX graphs

for people
    ``plots``, ``tables``, ``review``, and the command ``dm2l`` in ``cli``
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dm2l._auto._classifier import AutoClassifier
    from dm2l._classifier import DM2LClassifier
    from dm2l._search._search import DM2LClassifierCV
    from dm2l.labels import ConstantLabelWarning

__version__ = "0.1.0"

__all__ = [
    "AutoClassifier",
    "ConstantLabelWarning",
    "DM2LClassifier",
    "DM2LClassifierCV",
    "__version__",
]

# Loaded when asked for: `dm2l --help` needs neither numpy nor scikit-learn.
_HOMES = {
    "AutoClassifier": "dm2l._auto",
    "ConstantLabelWarning": "dm2l.labels",
    "DM2LClassifier": "dm2l._classifier",
    "DM2LClassifierCV": "dm2l._search",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dm2l' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
