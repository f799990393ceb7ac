"""A table as people have it: texts, numbers, categories, and topics of which many are blank."""

import csv
import io

import numpy as np

# Topics and the words that speak of them; a topic may imply another one (one way).
TOPICS = {
    "billing": "invoice charge amount paid bill",
    "refund": "refund money back return reimburse",
    "login": "password login account locked sign",
    "security": "hacked breach token suspicious leaked",
    "delivery": "parcel courier late delivery arrived",
    "damage": "broken cracked damaged scratched dented",
    "bug": "crash error freeze stacktrace exception",
    "mobile": "phone android screen tablet app",
    "praise": "great thanks lovely excellent happy",
    "legal": "lawyer contract gdpr court clause",
}
IMPLIES = {"refund": "billing", "security": "login", "damage": "delivery", "mobile": "bug"}
LABELS = [f"topic_{name}" for name in TOPICS]
FILLER = ["the", "a", "please", "we", "our", "with", "for", "since", "today", "not", "it", "is"]
CHANNELS = ["e-mail", "phone, landline", 'chat "live"', "Büro"]


def make_table(n_rows=400, seed=0, blank=0.4):
    """Columns of features, complete labels, and a mask of what was observed.

    Clerks tick what applies and are in a hurry on two of the channels: there most of what applies
    stays blank. Blanks thus hide positives.
    """
    rng = np.random.RandomState(seed)
    names = list(TOPICS)
    rates = np.array([0.25, 0.2, 0.25, 0.15, 0.3, 0.2, 0.25, 0.2, 0.15, 0.12])
    truth = rng.uniform(size=(n_rows, len(names))) < rates
    for first, second in IMPLIES.items():
        truth[:, names.index(second)] |= truth[:, names.index(first)]
    channel = rng.randint(len(CHANNELS), size=n_rows)
    texts = []
    for row in truth:
        words = list(rng.choice(FILLER, size=rng.randint(4, 9)))
        for k in np.flatnonzero(row):
            words += list(rng.choice(TOPICS[names[k]].split(), size=rng.randint(1, 3)))
        words += list(rng.choice(" ".join(TOPICS.values()).split(), size=1))
        texts.append(" ".join(rng.permutation(words)))
    amount = 20 + 30 * truth[:, 0] + 40 * truth[:, 1] + 15 * rng.normal(size=n_rows)
    hours = 5 + 10 * truth[:, 6] + 4 * rng.normal(size=n_rows)
    columns = {
        "ticket": [f"T{10000 + i}" for i in range(n_rows)],
        "opened": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(n_rows)],
        "text": texts,
        "channel": [CHANNELS[c] for c in channel],
        "amount": [f"{value:.2f}" for value in amount],
        "hours": ["" if rng.uniform() < 0.1 else f"{value:.3f}" for value in hours],
        "vip": list(rng.choice(["yes", "no"], size=n_rows)),
    }
    hurry = (channel < 2)[:, None]
    chance = np.where(truth, np.where(hurry, 0.95, 0.25), np.where(hurry, 0.4, 0.3))
    chance *= blank / chance.mean()
    observed = rng.uniform(size=truth.shape) >= np.minimum(chance, 0.98)
    return columns, truth, observed


def as_csv(columns, labels=None, newline="\n", separator=","):
    """The table as text, quoted where it has to be."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator=newline, delimiter=separator)
    table = columns | (labels or {})
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return file.getvalue()


def spell(truth, observed, yes="1", no="0", blank=""):
    """Label columns as text."""
    return {
        name: [(yes if truth[i, k] else no) if observed[i, k] else blank for i in range(len(truth))]
        for k, name in enumerate(LABELS)
    }
