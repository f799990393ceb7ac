"""Every estimator passes all of scikit-learn's common checks, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from all_estimators import ESTIMATORS
from dm2l.baselines import GLOCALClassifier


# The checks fit degenerate data on purpose; what our warnings say about it is tested elsewhere.
@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([*ESTIMATORS, GLOCALClassifier(published=True, max_iter=3)])
def test_scikit_learn_common_check(estimator, check):
    check(estimator)
