"""Error rates from a random sample: exact intervals, their coverage, and the file of answers."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import hypergeom
from statsmodels.stats.proportion import proportion_confint

from dm2l.cli._ask import complete_command
from dm2l.review import Journal, ReviewSession
from dm2l.review._sample import Sample, error_bounds
from dm2l.tables import (
    Completion,
    FitOptions,
    complete_table,
    fit_table,
    read_table,
    save_bundle,
)


def brute(wrong, checked, size, skipped, tail):
    """All numbers of errors that neither tail of the sample excludes."""
    kept = []
    for errors in range(size + 1):
        draws = hypergeom(size, errors, checked)
        p = draws.pmf(np.arange(checked + 1))
        if p[wrong:].sum() > tail and p[: wrong + skipped + 1].sum() > tail:
            kept.append(errors)
    return min(kept), max(kept)


@pytest.mark.parametrize("size", [1, 7, 25])
def test_bounds_are_those_of_all_numbers_of_errors_that_the_sample_does_not_exclude(size):
    for checked in {1, size // 2, size} - {0}:
        for wrong in range(checked + 1):
            for skipped in {0, checked - wrong}:
                found = error_bounds(wrong, checked, size, skipped)
                assert found == brute(wrong, checked, size, skipped, 0.025 - 1e-10)


def test_bounds_of_many_entries_are_those_of_clopper_and_pearson():
    low, high = np.array(error_bounds(3, 25, 10**6)) / 10**6
    assert (low, high) == pytest.approx(proportion_confint(3, 25, method="beta"), abs=2e-4)


def test_bounds_hold_in_at_least_95_percent_of_samples():
    for size, errors, checked in ((60, 6, 25), (500, 20, 25), (30, 15, 30)):
        wrong = np.arange(checked + 1)
        p = hypergeom(size, errors, checked).pmf(wrong)
        bounds = [error_bounds(k, checked, size) for k in wrong.tolist()]
        covered = [low <= errors <= high for low, high in bounds]
        assert p[covered].sum() >= 0.95
    assert error_bounds(4, 30, 30) == (4, 4)  # all entries are known


def completion_of(positive):
    every = np.ones_like(positive)
    names = [f"t{k}" for k in range(positive.shape[1])]
    p = np.where(positive, 0.9, 0.1)
    return Completion(names, every, positive, ~every, p, [])


def test_every_filled_entry_of_an_answer_is_sampled_equally_often():
    positive = np.arange(60).reshape(20, 3) % 6 == 0
    counts = np.zeros(positive.shape)
    for seed in range(2000):
        sample = Sample.draw(completion_of(positive), 12, seed)
        assert sample.filled == {"yes": 10, "no": 50}
        assert sorted(sample.entries.values()) == ["no"] * 6 + ["yes"] * 6
        for (row, label), answer in sample.entries.items():
            assert positive[row - 1, int(label[1])] == (answer == "yes")
            counts[row - 1, int(label[1])] += 1
    for part, share in ((positive, 0.6), (~positive, 0.12)):
        error = np.abs(counts[part] / 2000 - share)
        assert error.max() < 4.5 * np.sqrt(share * (1 - share) / 2000)
    first = list(Sample.draw(completion_of(positive), 12, 0).entries.values())
    assert first != sorted(first)  # the answers are mixed
    few = Sample.draw(completion_of(positive), 50, 0)
    assert sorted(few.entries.values()) == ["no"] * 40 + ["yes"] * 10


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A table with positives only, its model, and its complete labels."""
    folder, rng = tmp_path_factory.mktemp("sample"), np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    truth = X @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(150, 3)) > 0.5
    known = truth & (rng.random(truth.shape) < 0.5)
    frame = pd.DataFrame({f"tag_{k}": np.where(known[:, k], 1.0, np.nan) for k in range(3)})
    frame.insert(0, "id", [f"F{i:03d}" for i in range(150)])
    pd.DataFrame(X, columns=["a", "b"]).join(frame).to_csv(folder / "tags.csv", index=False)
    table = read_table(folder / "tags.csv", "tag_*")
    options = FitOptions("linear", 0.0, cv=3, missing_as="unlabelled")
    model = fit_table(table, options, estimate_folds=0)
    save_bundle(model, folder / "tags.dm2l")
    return folder, table, model, truth


def complete(folder, answers, *options):
    arguments = [folder / "tags.dm2l", folder / "tags.csv", "-o", answers.with_suffix(".csv")]
    arguments = [*map(str, arguments), "--verified", str(answers), *options]
    return CliRunner().invoke(complete_command, arguments)


def test_a_checked_sample_estimates_the_error_rate_of_a_table_with_positives_only(case, tmp_path):
    folder, table, model, truth = case
    path = tmp_path / "answers.jsonl"
    with Journal(path, table) as journal:
        session = ReviewSession(model, table, journal)
        entry = session.question()
        session.answer(entry.row, {entry.label: "skip"})
        no_sample = complete(folder, path)
        assert "is open in another review" in no_sample.output
        session.start_sample(30)
        session.start_sample(30)
        with pytest.raises(
            ValueError, match="has a sample of 30 entries that was drawn with another size"
        ):
            session.start_sample(40)
    assert "are not checked yet" in complete(folder, path).output
    said = {}
    with Journal(path, table) as journal:
        session = ReviewSession(model, table, journal)
        while (entry := session.question(queue="sample")) is not None:
            assert entry.prediction is None
            key = entry.row, entry.label
            said[key] = "yes" if truth[entry.row - 1, int(entry.label[-1])] else "no"
            assert session.question(len(session.asked("sample")), "sample") == entry
            session.answer(entry.row, {entry.label: said[key]}, "sample")
        filled = journal.sample.entries
        counts = journal.sample.filled
    completion = complete_table(model, table)
    wrong = (completion.positive != truth) & completion.missing
    assert len(said) in (29, 30)  # an entry may be the skipped one
    output = complete(folder, path, "--json").output
    found = json.loads(output[output.index("{") :])["verified"]
    for line in found:
        words = [
            said.get(key, "skip") for key, answer in filled.items() if answer == line["answer"]
        ]
        assert line["filled"] == counts[line["answer"]]
        assert line["checked"] == len(words) == 15
        assert line["skipped"] == words.count("skip")
        assert line["wrong"] == 15 - words.count("skip") - words.count(line["answer"])
        part = completion.positive if line["answer"] == "yes" else ~completion.positive
        assert line["low"] <= (wrong & part).sum() <= line["high"]
    written = pd.read_csv(path.with_suffix(".csv"))
    assert all(written[label][row - 1] == (word == "yes") for (row, label), word in said.items())
    text = complete(folder, path, "--force").output
    assert "Filled with yes: " in text
    assert "95% confidence interval of the error rate: " in text


def test_a_sample_of_another_completion_and_a_damaged_one_are_refused(case, tmp_path):
    folder, table, model, _ = case
    path = tmp_path / "answers.jsonl"
    with Journal(path, table) as journal:
        assert journal.sample is None
    assert "has no random sample. Draw a sample" in complete(folder, path).output
    completion = complete_table(model, table)
    row, label = (int(place[0]) for place in np.nonzero(completion.missing & completion.positive))
    key, n = (row + 1, f"tag_{label}"), int(completion.missing.sum())
    with Journal(path, table) as journal:
        journal.start_sample(Sample({key: "no"}, {"yes": 0, "no": n}))
        journal.add(*key, "no")
    assert "drawn from other filled entries" in complete(folder, path).output
    with Journal(path, table) as journal:
        assert journal.sample == Sample({key: "no"}, {"yes": 0, "no": n})
        for sample, filled in (
            ([[*key, "skip"]], {"yes": 1, "no": 1}),
            ([[*key, "no"]], {"yes": 1, "no": 0}),
            ([[*key, "no"], [*key, "no"]], {"yes": 1, "no": 2}),
            ([[0, key[1], "no"]], {"yes": 1, "no": 1}),
            ([[*key]], {"yes": 1, "no": 1}),
            (5, {"yes": 1, "no": 1}),
            ([[*key, "no"]], [1, 2]),
            ([[[], {}, "no"]], {"yes": 1, "no": 1}),
            ([[*key, "no"]], {"yes": True, "no": "1"}),
        ):
            with pytest.raises(ValueError, match="random sample is invalid"):
                journal._parsed({"sample": sample, "filled": filled})


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A table with a yes/no label and columns with several values, its model, and its truth."""
    folder, rng, n = tmp_path_factory.mktemp("graded"), np.random.default_rng(3), 240
    X = rng.normal(size=(n, 3))
    near = X + 0.5 * rng.normal(size=X.shape)
    truth = pd.DataFrame({"old": np.where(near[:, 0] > 0, "yes", "no")})
    truth["size"] = np.array(["S", "M", "L"])[np.digitize(near[:, 1], [-0.6, 0.6])]
    truth["place"] = np.array(["air", "land", "sea"])[np.digitize(near[:, 2], [-0.6, 0.6])]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).join(truth.mask(rng.random(truth.shape) < 0.4))
    frame.to_csv(folder / "tags.csv", index=False)
    table = read_table(folder / "tags.csv", list(truth), values="size=S<M<L")
    model = fit_table(table, FitOptions("linear", 0.1, 1.0, cv=3), estimate_folds=0)
    save_bundle(model, folder / "tags.dm2l")
    return folder, table, model, truth


@pytest.mark.parametrize("limit", [None, 0.15])
def test_cells_with_several_values_are_sampled_and_rated_at_any_limit(graded, tmp_path, limit):
    folder, table, model, truth = graded
    path, bound = tmp_path / "a.jsonl", () if limit is None else ("--max-error-rate", str(limit))
    with Journal(path, table) as journal:
        session = ReviewSession(model, table, journal)
        session.start_sample(18, limit)
        session.start_sample(18, limit)
        with pytest.raises(ValueError, match="drawn with another size, model or --max-error-rate"):
            session.start_sample(18, 0.3)
        n = 0
        while (entry := session.question(queue="sample")) is not None:
            value = truth[entry.label][entry.row - 1]
            session.answer(
                entry.row, {entry.label: f"={value}" if entry.choices else value}, "sample"
            )
            n += 1
        assert n == 18
        entries = journal.sample.entries
        assert session.progress.answered == 18
    if limit is not None:
        assert "drawn from other filled entries" in complete(folder, path).output
    output = complete(folder, path, "--json", *bound).output
    found = json.loads(output[output.index("{") :])["verified"]
    assert [line["answer"] for line in found] == ["yes", "no", "values"]
    written = complete_table(model, table, max_error_rate=limit)
    cells = written.filled.copy()
    for labels, _ in written.exclusive:
        cells[:, labels[1:]] = False
    assert sum(line["filled"] for line in found) == cells.sum() == written.count(written.filled)
    assert sum(line["checked"] for line in found) == 18
    wrong = {
        key: word.removeprefix("=") != truth[key[1]][key[0] - 1] for key, word in entries.items()
    }
    several = [bad for (_, name), bad in wrong.items() if name != "old"]
    assert found[2]["wrong"] == sum(several)
    assert found[2]["checked"] == len(several) > 3
    assert sum(line["wrong"] for line in found) == sum(wrong.values())
    assert "Filled with one of several values: " in complete(folder, path, "--force", *bound).output


def test_a_sample_takes_values_equally_often_and_every_kind_of_answer(graded):
    _, table, model, _ = graded
    completion, counts = complete_table(model, table), {}
    for seed in range(600):
        sample = Sample.draw(completion, 12, seed)
        assert len(sample.entries) == 12
        assert sample.matches(completion)
        for key, word in sample.entries.items():
            if word.startswith("="):
                counts[key] = counts.get(key, 0) + 1
    n = sample.filled["values"]
    assert n == sum(table.cells[name].isna().sum() for name in ("size", "place"))
    assert len(counts) == n
    assert abs(np.array([*counts.values()]) / 600 - 4 / n).max() < 5 * np.sqrt(4 / n / 600)
    few = Sample.draw(completion, 10**6, 0)
    assert len(few.entries) == sum(few.filled.values()) == completion.count(completion.filled)
