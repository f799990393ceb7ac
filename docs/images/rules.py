"""Draw docs/images/rules.svg: probabilities of a row before and after the projection on rules."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dm2l import LabelRules

NAMES = ["animal", "reptile", "snake", "mammal", "small", "large"]
RULES = LabelRules(
    [("snake", "reptile"), ("reptile", "animal"), ("mammal", "animal")],
    [("reptile", "mammal")],
    exactly_one=[("small", "large")],
    label_names=NAMES,
)


def main() -> None:
    before = np.array([[0.75, 0.45, 0.7, 0.55, 0.5, 0.3]])
    after = RULES._logic.project(before, np.zeros(before.shape, dtype=np.int8))
    plt.rcParams["svg.hashsalt"] = "rules"
    figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    place = np.arange(len(NAMES))
    axes.bar(place - 0.2, before[0], 0.4, label="model", color="#bbbbbb")
    axes.bar(place + 0.2, after[0], 0.4, label="with rules", color="#2a6fbb")
    axes.set(xticks=place, ylabel="probability", ylim=(0, 1))
    axes.set_xticklabels(NAMES)
    axes.set_title(
        "snake implies reptile, which implies animal; not both reptile and mammal;\n"
        "exactly one of small and large",
        fontsize=9,
    )
    axes.legend(loc="upper right", fontsize=8, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("rules.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
