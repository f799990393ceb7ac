"""Rules between labels: reading and writing, closure, propagation and contradictions."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dm2l.io import DataFileError
from dm2l.labels import LabelRules

NAMES = list("abcdef")
pairs = st.lists(st.lists(st.sampled_from(NAMES), min_size=2, max_size=2, unique=True), max_size=4)
groups = st.lists(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True), max_size=2)
all_rules = st.fixed_dictionaries(
    {"implications": pairs, "exclusions": pairs, "at_most_one": groups, "exactly_one": groups}
)


def consistent(**rules):
    """LabelRules, if these rules do not contradict each other."""
    try:
        return LabelRules(**rules)
    except ValueError:
        assume(False)


def models(rules):
    """All assignments of NAMES that obey the rules, by brute force."""
    at = NAMES.index
    obeyed = []
    for row in product([-1, 1], repeat=len(NAMES)):
        yes = [sum(row[at(name)] > 0 for name in group) for group in rules.exactly_one]
        most = [sum(row[at(name)] > 0 for name in group) for group in rules.at_most_one]
        both = [sum(row[at(name)] > 0 for name in pair) for pair in rules.exclusions]
        implied = all(row[at(a)] <= row[at(b)] for a, b in rules.implications)
        if implied and all(n == 1 for n in yes) and all(n <= 1 for n in [*most, *both]):
            obeyed.append(row)
    return np.array(obeyed, dtype=int).reshape(-1, len(NAMES))


def entailed(worlds, row):
    """Signs that all worlds have which agree with a row; None if there is no such world."""
    agree = worlds[((row == 0) | (worlds == row)).all(axis=1)]
    if not len(agree):
        return None
    return np.where((agree == agree[0]).all(axis=0), agree[0], 0)


def signs(seed, n=12, rate=0.3):
    rng = np.random.default_rng(seed)
    return rng.choice([-1, 0, 1], size=(n, len(NAMES)), p=[rate / 2, 1 - rate, rate / 2]).astype(
        np.int8
    )


@settings(deadline=None, max_examples=50)
@given(all_rules, st.integers(0, 10))
def test_propagation_against_all_assignments(parts, seed):
    rules = consistent(**parts, label_names=NAMES)
    T, worlds = signs(seed), models(rules)
    found, against = rules._logic.propagate(T)
    for row, filled, bad in zip(T, found, against, strict=True):
        truth = entailed(worlds, row)
        if bad:
            assert truth is None
            assert (filled == row).all()
        elif truth is not None:
            assert ((filled == 0) | (filled == truth)).all()
        if not any(len(group) > 2 for group in rules.exactly_one):  # complete for two literals
            assert bad == (truth is None)
            assert bad or (filled == truth).all()


@settings(deadline=None, max_examples=50)
@given(all_rules, st.integers(0, 10))
def test_propagation_is_monotone_and_idempotent(parts, seed):
    logic = consistent(**parts, label_names=NAMES)._logic
    T = signs(seed)
    fewer = np.where(np.random.default_rng(seed).random(T.shape) < 0.5, T, 0).astype(np.int8)
    found, against = logic.propagate(T)
    again, still = logic.propagate(found)
    np.testing.assert_array_equal(again, found)
    np.testing.assert_array_equal(still, against)
    less, bad = logic.propagate(fewer)
    assert not (bad & ~against).any()
    assert ((less == 0) | (less == found))[~against].all()


@settings(deadline=None, max_examples=50)
@given(all_rules, st.integers(0, 10), st.permutations(range(len(NAMES))))
def test_order_of_labels_and_rules_does_not_matter(parts, seed, order):
    rules = consistent(**parts, label_names=NAMES)
    turned = {field: value[::-1] for field, value in parts.items()}
    turned = LabelRules(**turned, label_names=[NAMES[k] for k in order])
    T = signs(seed)
    found, against = rules._logic.propagate(T)
    other, bad = turned._logic.propagate(T[:, order])
    np.testing.assert_array_equal(other, found[:, order])
    np.testing.assert_array_equal(bad, against)


@settings(deadline=None, max_examples=50)
@given(all_rules)
def test_rules_that_are_refused_have_a_label_that_is_never_positive(parts):
    try:
        rules = LabelRules(**parts)
    except ValueError as error:
        if "contradict" in str(error):
            rules = LabelRules()
            for field, value in parts.items():
                object.__setattr__(rules, field, value)
            assert (models(rules) > 0).any(axis=0).sum() < len(NAMES)
        return
    if not any(len(group) > 2 for group in rules.exactly_one):
        assert (models(rules) > 0).any(axis=0).all()


def test_rows_that_contradict_are_listed_with_the_chain():
    rules = LabelRules([("snake", "reptile"), ("reptile", "animal")], [("animal", "plant")])
    Y = pd.DataFrame([[1, np.nan, np.nan, 1], [1, np.nan, np.nan, np.nan], [1, np.nan, 0, np.nan]])
    Y.columns = ["snake", "reptile", "animal", "plant"]
    assert rules.contradictions(Y) == {
        0: "'snake' is yes and 'plant' is yes, which contradicts 'snake => reptile', "
        "'reptile => animal' and 'not both: animal, plant'",
        2: "'snake' is yes and 'animal' is no, which contradicts 'snake => reptile' "
        "and 'reptile => animal'",
    }
    filled = rules.propagate(Y)
    assert isinstance(filled, pd.DataFrame)
    np.testing.assert_array_equal(filled.iloc[1], [1, 1, 1, 0])
    pd.testing.assert_frame_equal(filled.iloc[[0, 2]], Y.iloc[[0, 2]], check_dtype=False)


def test_a_label_that_all_members_of_a_group_imply_is_always_positive():
    rules = LabelRules([("cat", "animal"), ("dog", "animal")], exactly_one=[("cat", "dog")])
    names = ["cat", "dog", "animal"]
    np.testing.assert_array_equal(rules.propagate([[np.nan] * 3], names), [[np.nan, np.nan, 1]])
    assert rules.contradictions([[np.nan, np.nan, 0]], names) == {
        0: "'animal' is no, which contradicts 'dog => animal', 'cat => animal' "
        "and 'exactly one: cat, dog'"
    }


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"implications": [("a", "b"), ("b", "c"), ("c", "a")]},
            "cycle: 'a => b', 'b => c' and 'c",
        ),
        (
            {"implications": [("a", "b"), ("a", "c")], "exclusions": [("b", "c")]},
            "'a' can never be positive, as this contradicts 'a => c', 'a => b' and 'not",
        ),
        ({"implications": [("a", "a")]}, "'a => a' needs two different labels"),
        ({"exclusions": [("a", "b", "c")]}, "two different labels. For more, use 'at most one'"),
        ({"exactly_one": [("a",)]}, "at least two different labels"),
        ({"exactly_one": [("a", "")]}, "an empty or multi-line label name"),
    ],
)
def test_contradictory_rules_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        LabelRules(**parts)


def test_names_must_not_be_a_single_text():
    with pytest.raises(TypeError, match="at_most_one must be a sequence of tuples"):
        LabelRules(at_most_one=["ab"])


def test_an_unknown_label_is_refused_with_the_nearest_one():
    rules = LabelRules([("snake", "reptile")])
    with pytest.raises(ValueError, match=r"unknown label 'snake'. Did you mean 'snakes'\?"):
        rules.propagate([[1.0, 0.0]], ["snakes", "reptile"])
    with pytest.raises(ValueError, match="Two labels are called 'reptile'"):
        rules.propagate([[1.0, 0.0]], ["reptile", "reptile"])
    with pytest.raises(ValueError, match=r"unknown label 'snake'.* 'y0', 'y1'"):
        rules.propagate([[1.0, 0.0]])
    with pytest.raises(ValueError, match="2 columns, got 1 names"):
        rules.propagate([[1.0, 0.0]], ["reptile"])


def test_names_of_plain_arrays_are_stored_in_the_rules():
    rules = LabelRules([("snake", "reptile")], label_names=["reptile", "snake"])
    np.testing.assert_array_equal(rules.propagate([[0, None]]), [[0, 0]])
    np.testing.assert_array_equal(LabelRules([("y1", "y0")]).propagate([[0, None]]), [[0, 0]])
    with pytest.raises(ValueError, match="unknown label 'snake'"):
        LabelRules([("snake", "reptile")], label_names=["reptile"])


# -- construction and files ---------------------------------------------------------------------


def test_taxonomies():
    paths = LabelRules.from_taxonomy(["animal/reptile/snake", "animal/mammal", "animal/reptile"])
    pairs = (("reptile", "animal"), ("snake", "reptile"), ("mammal", "animal"))
    assert paths.implications == pairs
    assert LabelRules.from_taxonomy(edges=pairs) == paths
    named = LabelRules.from_names(["1", "1/2/3", "1/2/3/4", "5/6"])
    assert named.implications == (("1/2/3", "1"), ("1/2/3/4", "1/2/3"))


name = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=8)
name = name.map(str.strip).filter(bool)


@settings(deadline=None, max_examples=50)
@given(st.lists(name, min_size=4, max_size=6, unique=True))
def test_text_round_trip(tmp_path_factory, names):
    a, b, *rest = names
    rules = LabelRules([(a, b)], [(a, rest[0])], [rest], [(b, *rest)])
    path = tmp_path_factory.mktemp("rules") / "rules.txt"
    path.write_text(f"# made by a test\n\n{rules.to_text()}", encoding="utf-8")
    assert LabelRules.read(path) == rules


def test_text_format(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text(
        'GO:0008150 => "a, b"   # a comment\nexactly one: x, "C#", "say ""hi""" \n'
        "at most one:COLOUR=red,COLOUR=blue\nnot both: x, y"
    )
    rules = LabelRules.read(path)
    assert rules.implications == (("GO:0008150", "a, b"),)
    assert rules.exactly_one == (("x", "C#", 'say "hi"'),)
    assert rules.at_most_one == (("COLOUR=red", "COLOUR=blue"),)
    assert rules.exclusions == (("x", "y"),)


def test_csv_format(tmp_path):
    path = tmp_path / "rules.csv"
    path.write_text('\ufeffchild,parent\nsnake,reptile\n"a, b",c\n\n')
    assert LabelRules.read(path).implications == (("snake", "reptile"), ("a, b", "c"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a => b\nsnake", r"rules.txt, line 2: 'snake' is not a rule. Expected 'child => parent'"),
        ("a => b => c", "line 1: the rule 'a => b => c' needs two different labels"),
        (
            "a => b, c",
            "line 1: 'a => b, c' is not a rule. .* quotes around names that contain a comma",
        ),
        ("not both: a => b", "line 1: .* is not a rule"),
        ("\nexactly one: a", "line 2: the rule 'exactly one: a' needs at least two"),
        ('"a => b', "line 1: '\"a => b' is not a rule"),
        ("a => ", "line 1: 'a =>' is not a rule"),
        ("child,parent\na,b,c", "line 2: expected the names of a child and a parent, got 'a,b,c'"),
        ("child,parent\na,", "line 2: expected the names of a child and a parent, got 'a,'"),
        ("child,parent\n,a", "got ',a'"),
        ("a => b\nb => a", r"'a => b' \(rules.txt, line 1\) and 'b => a' \(rules.txt, line 2\)"),
        ("a => b\nnot both: a, b", r"'not both: a, b' \(rules.txt, line 2\)"),
    ],
)
def test_bad_files_are_refused_with_their_line(tmp_path, text, message):
    path = tmp_path / "rules.txt"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        LabelRules.read(path)


def test_unknown_label_of_a_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("a => b\nnot both: a, c\n")
    with pytest.raises(ValueError, match=r"\(rules.txt, line 2\) has an unknown label 'c'"):
        LabelRules.read(path).propagate([[1.0, 0.0]], ["a", "b"])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"implications": [(f"y{k}", f"y{k + 1}") for k in range(4000)]}, "that follow from rules"),
        ({"exactly_one": [[f"y{k}" for k in range(1100)]]}, "pairs of labels in groups"),
        ({"exclusions": [(f"y{k}", f"z{k}") for k in range(5000)]}, "labels in rules"),
    ],
)
def test_rules_that_cost_too_much_are_refused_before_they_are_combined(rules, message):
    with pytest.raises(ValueError, match=f"There are up to .* {message}, more than"):
        LabelRules(**rules)


def test_a_message_shows_only_some_of_many_rules():
    chain = [(f"y{k}", f"y{k + 1}") for k in range(40)]
    with pytest.raises(ValueError, match="and 32 other rules") as caught:
        LabelRules([*chain, ("y40", "y0")])
    assert len(str(caught.value)) < 1000
