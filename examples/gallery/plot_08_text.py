"""
Texts with TF-IDF
=================

TF-IDF turns texts into a sparse matrix with thousands of columns. The linear model keeps the matrix
sparse, and its weights show which words indicate a label.
"""

# %%
# The reports are simulated from phrases. Of the topic labels, 25 % are observed.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from dm2l import DM2LClassifier
from dm2l.metrics import evaluate
from dm2l.model_selection import cross_val_decision
from dm2l.simulate import simulate_uniform

phrases = {
    "engine": "engine stalled|oil pressure dropped|turbine blade cracked|loss of thrust",
    "weather": "heavy rain|strong crosswind|ice on the wing|thunderstorm ahead",
    "runway": "runway lights failed|aircraft left the runway|runway was wet|taxiway closed",
    "crew": "pilot was tired|crew missed the call|checklist skipped|captain took over",
    "damage": "wing tip bent|landing gear broken|window cracked|paint scratched",
}
filler = "departed on time|no injuries were reported|a report was filed|the tower was told"
topics = list(phrases)
rng = np.random.default_rng(0)
truth = (rng.random((600, len(topics))) < 0.3).astype(int)
truth[:, 4] |= truth[:, 2] & (rng.random(600) < 0.7)  # off the runway: mostly damage
texts = []
for row in truth:
    parts = [rng.choice(phrases[t].split("|")) for t, yes in zip(topics, row, strict=True) if yes]
    parts += list(rng.choice(filler.split("|"), 2))
    # Half of the texts mention something that is no topic of theirs.
    if rng.random() < 0.5:
        parts.append(rng.choice(phrases[rng.choice(topics)].split("|")))
    texts.append(". ".join(rng.permutation(parts)))
Y = simulate_uniform(truth, rho=0.25, random_state=0)
print(texts[0])
print(dict(zip(topics, Y[0].tolist(), strict=True)))

# %%
# The model is a pipeline of a vectorizer and the linear model. Its quality is estimated from
# out-of-fold scores and observed labels only. The true labels serve to check this estimate.

model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), DM2LClassifier())
held_out = cross_val_decision(model, texts, Y, cv=5)
for name in ("label_auc", "label_ranking_average_precision", "ranking_loss"):
    estimate, actual = evaluate(Y, held_out)[name], evaluate(truth, held_out)[name]
    print(f"{name:18s} estimate {estimate.value:.3f}, truth {actual.value:.3f}")

# %%
# The estimates agree with the metrics on the true labels, because labels are missing at random.
#
# The figure shows the words with the largest weights for each topic:

model.fit(texts, Y)
words = model[0].get_feature_names_out()
figure, axes = plt.subplots(1, len(topics), figsize=(13, 3.2), layout="constrained")
for ax, topic, weights in zip(axes, topics, model[-1].coef_, strict=True):
    best = np.argsort(weights)[-7:]
    ax.barh(words[best], weights[best])
    ax.set_title(topic)
    ax.set_xticks([])
plt.show()
