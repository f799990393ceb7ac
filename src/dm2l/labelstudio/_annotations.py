"""Results of Label Studio as answers, and beliefs as results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.labelstudio._config import Control, Path


def answers_of(
    annotation: Any, controls: Iterable[Control], unchosen: str = "no"
) -> dict[str, str]:
    """What an annotation says about labels: yes, no, or skip if it was cancelled.

    A choice within a taxonomy is one for what it lies in, too. ``unchosen`` is "no", or "skip" if
    a choice that was not made says nothing; then it is left out.
    """
    if not isinstance(annotation, Mapping) or not isinstance(annotation.get("result"), list):
        raise ValueError("An annotation has a list of results.")
    if annotation.get("was_cancelled"):
        return {label: "skip" for control in controls for label in control.labels.values()}
    found = {}
    for control in controls:
        chosen = set()
        for result in annotation["result"]:
            if isinstance(result, Mapping) and result.get("from_name") == control.name:
                for path in _chosen(result, control.kind):
                    chosen |= {path[: k + 1] for k in range(len(path))}
        for path, label in control.labels.items():
            if path in chosen or unchosen == "no":
                found[label] = "yes" if path in chosen else "no"
    return found


def _chosen(result: Mapping[str, Any], kind: str) -> list[Path]:
    value = result.get("value")
    chosen = value.get(kind) if isinstance(value, Mapping) else None
    if not isinstance(chosen, list):
        raise ValueError(f"A result of {kind} has a list of them.")
    paths = [one if isinstance(one, list) else [one] for one in chosen]
    if not all(isinstance(step, str) for path in paths for step in path):
        raise ValueError(f"Values of {kind} must be text.")
    return [tuple(path) for path in paths]


def prediction_of(
    probabilities: NDArray[np.float64],
    known: NDArray[np.bool_],
    label_names: list[str],
    controls: Iterable[Control],
    version: str,
) -> dict[str, Any]:
    """Choices that are more likely than not, and how sure the model is of its row on average."""
    p = dict(zip(label_names, probabilities.tolist(), strict=True))
    results = []
    for control in controls:
        paths = [list(path) for path, label in control.labels.items() if p[label] >= 0.5]
        chosen = paths if control.kind == "taxonomy" else [path[-1] for path in paths]
        if chosen:  # as an annotation that chooses nothing has no result
            results.append(
                {
                    "from_name": control.name,
                    "to_name": control.to_name,
                    "type": control.kind,
                    "value": {control.kind: chosen},
                }
            )
    open_ = probabilities[~known]
    score = float(np.maximum(open_, 1 - open_).mean()) if len(open_) else 1.0
    return {"result": results, "score": round(score, 6), "model_version": version}
