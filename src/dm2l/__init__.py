"""Multi-label classification when labels are missing.

Names with an underscore are private, and modules are loaded on demand. By topic, they are:

- estimators: :class:`AutoClassifier` and :class:`ScoreClassifier` (``_auto``),
  :class:`DM2LClassifier` (``_classifier``, ``_fitting``), :class:`DM2LClassifierCV` (``_search``),
  ``baselines``, ``extreme`` (thousands of labels), ``outofcore`` (data beyond memory), and their
  base class (``_base``)
- the method: ``features``, ``kernels``, ``nuclear`` norms, ``objective``, ``lbfgs`` in ``_solvers``
- labels: ``labels`` (:class:`~dm2l.labels.LabelMatrix`), ``simulate`` (missing labels)
- from scores to results: ``completion`` (calibration, label correlation, imputation, error-rate
  control, label errors), ``pu`` (positive-unlabelled labels)
- evaluation: ``metrics``, ``model_selection``, ``plots``, ``testing``
- files: ``io`` (readers), ``persistence`` (model files), ``deployment`` (ONNX), ``datasets``
- tables: ``tables`` (raw columns to models and completed tables), ``chemistry``
- networks: ``torch`` (losses for training loops)
- interactive use: ``active``, ``review``, ``labelstudio``, and the command ``dm2l`` in ``cli``
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dm2l._auto._classifier import AutoClassifier
    from dm2l._auto._score_classifier import ScoreClassifier
    from dm2l._classifier import DM2LClassifier
    from dm2l._search._search import DM2LClassifierCV
    from dm2l.labels import ConstantLabelWarning
    from dm2l.labels._rules import LabelRules

__version__ = "0.1.0"

__all__ = [
    "AutoClassifier",
    "ConstantLabelWarning",
    "DM2LClassifier",
    "DM2LClassifierCV",
    "LabelRules",
    "ScoreClassifier",
    "__version__",
]

# Loaded at the first access: `dm2l --help` needs neither numpy nor scikit-learn.
_HOMES = {
    "AutoClassifier": "dm2l._auto._classifier",
    "ConstantLabelWarning": "dm2l.labels",
    "DM2LClassifier": "dm2l._classifier",
    "DM2LClassifierCV": "dm2l._search._search",
    "LabelRules": "dm2l.labels._rules",
    "ScoreClassifier": "dm2l._auto._score_classifier",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dm2l' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
