"""Every estimator passes all of scikit-learn's common checks, but for what `why_not` names."""

import pytest
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import (
    check_classifiers_multilabel_output_format_predict_proba,
    parametrize_with_checks,
)

from all_estimators import ESTIMATORS
from dm2l import AutoClassifier
from dm2l.baselines import GLOCALClassifier, MaskedOneVsRestClassifier

INSIDE = check_classifiers_multilabel_output_format_predict_proba
EQUIVALENCE = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]


def why_not(estimator):
    """Checks that cannot pass; docs/guide/weights.md says the same of weights."""
    if isinstance(estimator, AutoClassifier):
        return dict.fromkeys(EQUIVALENCE, "scales, settings and folds go by rows")
    if isinstance(estimator, GLOCALClassifier):
        return dict.fromkeys(EQUIVALENCE, "starts from random numbers for every row")
    inner = getattr(estimator, "estimator", None)
    if isinstance(estimator, MaskedOneVsRestClassifier) and isinstance(
        inner, DecisionTreeClassifier
    ):
        # Trees say 0 and 1, and users get what they say.
        return {INSIDE.__name__: "probabilities are to lie strictly between 0 and 1"}
    return {}


# The checks fit degenerate data on purpose; what our warnings say about it is tested elsewhere.
@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=why_not)
def test_scikit_learn_common_check(estimator, check):
    check(estimator)


def test_scikit_learn_does_not_pass_that_check_itself():
    with pytest.raises(AssertionError, match=r"strictly ordered|not less-ordered"):
        INSIDE("OneVsRestClassifier", OneVsRestClassifier(DecisionTreeClassifier(random_state=0)))
