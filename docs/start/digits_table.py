"""Write tables of digit images: digits.csv with missing labels, truth.csv with all labels.

The program also writes forms.csv, with two yes/no labels and a label column with four values.
"""

import pandas as pd

from dm2l.datasets import load_digit_attributes
from dm2l.simulate import simulate_uniform

LABELS = ["even", "prime", "has a loop", "greater than 4", "straight strokes only", "leans right"]

digits = load_digit_attributes()
columns = [f"label_{name.replace(' ', '_')}" for name in LABELS]
chosen = [list(digits.target_names).index(name) for name in LABELS]
truth = digits.target[:600, chosen]
observed = simulate_uniform(truth, rho=0.3, random_state=0)

pixels = pd.DataFrame((16 * digits.data[:600]).astype(int), columns=digits.feature_names)
pixels.insert(0, "image", [f"img{i:03d}" for i in range(600)])
for name, labels in {"digits.csv": observed, "truth.csv": truth}.items():
    frame = pd.DataFrame(labels, columns=columns).astype(object).replace({1.0: "yes", 0.0: "no"})
    pd.concat([pixels, frame], axis=1).to_csv(name, index=False)

few = pd.read_csv("digits.csv").drop(columns=columns[2:])
values = pd.Series(digits.target[:600, :10].argmax(axis=1)).floordiv(3)  # 0-2, 3-5, 6-8, 9
names = values.map({0: "low", 1: "middle", 2: "high", 3: "nine"})
few.assign(group=names.where(few["label_even"].notna())).to_csv("forms.csv", index=False)
