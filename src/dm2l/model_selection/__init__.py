"""Cross-validation with missing labels: splitters, out-of-fold scores, scorers, intervals.

scikit-learn's own tools stop at NaN in ``Y``: ``cv=5`` raises, ``cross_val_predict`` takes NaN
for a class. These plug into ``GridSearchCV`` and ``cross_validate`` by ``cv=`` and ``scoring=``.
"""

from dm2l.model_selection._cross_val import Interval, corrected_t_interval, cross_val_decision
from dm2l.model_selection._scorers import get_scorer, get_scorer_names
from dm2l.model_selection._splitters import MultilabelKFold, MultilabelShuffleSplit

__all__ = [
    "Interval",
    "MultilabelKFold",
    "MultilabelShuffleSplit",
    "corrected_t_interval",
    "cross_val_decision",
    "get_scorer",
    "get_scorer_names",
]
