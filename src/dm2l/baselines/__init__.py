"""Methods that DM2L is compared with."""

from dm2l.base import MissingLabelClassifier
from dm2l.baselines._filling import HolesAreNegatives
from dm2l.baselines._glocal import GLOCALClassifier
from dm2l.baselines._leml import LEMLClassifier
from dm2l.baselines._lsml import LSMLClassifier
from dm2l.baselines._masked_ridge import MaskedRidgeClassifier
from dm2l.baselines._mllrc import MLLRCClassifier
from dm2l.baselines._one_vs_rest import OneVsRestMasked

__all__ = [
    "GLOCALClassifier",
    "HolesAreNegatives",
    "LEMLClassifier",
    "LSMLClassifier",
    "MLLRCClassifier",
    "MaskedRidgeClassifier",
    "OneVsRestMasked",
    "available",
]


def available() -> dict[str, type[MissingLabelClassifier]]:
    """Return the compared methods by name.

    Returns
    -------
    dict
        From the name of a method to its class.

    Examples
    --------
    >>> from dm2l.baselines import available
    >>> list(available())
    ['MaskedRidge', 'LEML', 'ML-LRC', 'GLOCAL', 'LSML', 'OneVsRestMasked']
    >>> available()["LEML"](rank=5)
    LEMLClassifier(rank=5)
    """
    return {
        "MaskedRidge": MaskedRidgeClassifier,
        "LEML": LEMLClassifier,
        "ML-LRC": MLLRCClassifier,
        "GLOCAL": GLOCALClassifier,
        "LSML": LSMLClassifier,
        "OneVsRestMasked": OneVsRestMasked,
    }
