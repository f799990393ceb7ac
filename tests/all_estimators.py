"""Every estimator of the library in the settings that the common suites run over."""

from dataclasses import replace

from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV
from dm2l._auto._base_models import EFFORTS
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.extreme import ExtremeDM2LClassifier

# Without a search for the weight of the norms, which took a third of the time of these fits.
EFFORTS["least"] = replace(EFFORTS["quick"], labels=0)

# Not here: kernel="precomputed" (the checks hand it matrices that are no kernels, or not square)
# and calibration= (a check wants predict to follow the sign of the raw score).
# Coupling takes most of the time of a fit to a few rows: some settings go without.
ESTIMATORS = [
    DM2LClassifier(),
    DM2LClassifier(kernel="rbf"),
    DM2LClassifier(solver="cccp", max_iter=20, coupling=None),
    DM2LClassifier(discriminant=False, coupling=None),
    DM2LClassifier.published(),
    DM2LClassifier(kernel="rbf", approximation="nystroem", n_components=40, random_state=0),
    DM2LClassifier(
        kernel="rbf", approximation="fourier", n_components=40, random_state=0, coupling=None
    ),
    DM2LClassifierCV(lambda_ds=[0.0, 0.3], alphas=[1.0], cv=2, coupling=None),
    AutoClassifier("least", cv=2, random_state=0),
    ExtremeDM2LClassifier(),
    ExtremeDM2LClassifier(rank=4, alpha=1.0),
    MaskedRidgeClassifier(),
    DM2LClassifier(coupling="joint"),
    MaskedRidgeClassifier(coupling="joint"),
    MaskedOneVsRestClassifier(LogisticRegression(), coupling="residual", cv=2),
    LEMLClassifier(),
    LEMLClassifier(loss="logistic"),
    LEMLClassifier(loss="squared_hinge"),
    LEMLClassifier(missing="neutral", fit_intercept=False),
    MLLRCClassifier(),
    MLLRCClassifier(missing="neutral"),
    GLOCALClassifier(),
    LSMLClassifier(),
    LSMLClassifier(missing="neutral", fit_intercept=False),
    MaskedOneVsRestClassifier(LogisticRegression()),
    MaskedOneVsRestClassifier(Ridge()),
    MaskedOneVsRestClassifier(DecisionTreeClassifier(random_state=0)),
]
