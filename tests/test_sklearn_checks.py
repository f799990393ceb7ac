"""Every estimator passes all of scikit-learn's common checks, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier

# Not here: kernel="precomputed" (the checks hand it matrices that are no kernels, or not square)
# and calibration= (a check wants predict to follow the sign of the raw score).
ESTIMATORS = [
    DM2LClassifier(),
    DM2LClassifier(kernel="rbf"),
    DM2LClassifier(solver="cccp", max_iter=20),
    DM2LClassifier(discriminant=False),
    DM2LClassifier.published(),
    MaskedRidgeClassifier(),
]


# The checks fit degenerate data on purpose; what our warnings say about it is tested elsewhere.
@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_common_check(estimator, check):
    check(estimator)
