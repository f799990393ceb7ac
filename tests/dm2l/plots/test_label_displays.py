"""Displays of labels: numbers against loops over entries, and what is drawn of them."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes, make_missing_multilabel
from dm2l.labels import LabelMatrix
from dm2l.plots import CooccurrenceDisplay, MissingnessDisplay, SingularValuesDisplay
from dm2l.plots._labels import _order_by_pattern
from dm2l.tables import inspect_table, table_from_frame

matplotlib = pytest.importorskip("matplotlib", reason="plots need the extra plot")
matplotlib.use("Agg")

NAN = np.nan
SIGNS = hnp.arrays(
    np.int8, st.tuples(st.integers(1, 12), st.integers(2, 5)), elements=st.integers(-1, 1)
)


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def half(n=80, c=5, seed=0):
    """Signs with holes, of which the first label implies the second."""
    rng = np.random.default_rng(seed)
    T = np.where(rng.random((n, c)) < 0.4, 1, -1)
    T[T[:, 0] > 0, 1] = 1
    T[rng.random((n, c)) < 0.3] = 0
    return T


def nan_coded(T):
    return np.where(T == 0, NAN, (T > 0).astype(float))


# -- missingness --------------------------------------------------------------------------------


def containers(T):
    """The same labels in every form of the contract."""
    Y = nan_coded(T)
    garbage = np.where(T == 0, 1, (T > 0).astype(int))
    frame = pd.DataFrame(Y, columns=list("abcde")).astype("Int8")
    return {
        "nan": Y,
        "mark": LabelMatrix.from_array(np.where(T == 0, -9, (T > 0).astype(int)), missing_label=-9),
        "mask": LabelMatrix.from_array(garbage, mask=T != 0),
        "masked array": np.ma.array(garbage, mask=T == 0),
        "frame": frame,
        "signed csr": sp.csr_array(T.astype(float)),
        "list": Y.tolist(),
    }


@pytest.mark.parametrize("kind", containers(half()))
def test_the_map_is_the_same_for_every_container(kind):
    T = half()
    display = MissingnessDisplay.from_labels(containers(T)[kind])
    assert (display.signs == T[display.rows]).all()
    names = list("abcde") if kind == "frame" else [f"y{k}" for k in range(5)]
    assert display.label_names == names
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == names


def test_shares_are_those_of_all_rows_though_few_are_drawn():
    T = half(n=1000)
    display = MissingnessDisplay.from_labels(nan_coded(T), max_rows=7)
    assert display.signs.shape == (7, 5)
    for k in range(5):
        column = T[:, k].tolist()
        assert display.share_positive[k] == pytest.approx(column.count(1) / 1000)
        assert display.share_negative[k] == pytest.approx(column.count(-1) / 1000)
        yes, no = (bars[k] for bars in display.bars_)
        assert yes.get_height() == pytest.approx(column.count(1) / 10)
        assert no.get_y() == pytest.approx(yes.get_height())
        assert no.get_y() + no.get_height() == pytest.approx(100 - column.count(0) / 10)
    assert display.ax_.get_ylabel() == "7 of 1,000 rows"
    assert display.margin_ax_.get_ylim() == (0, 100)


def test_drawn_rows_are_spread_evenly_over_the_data():
    display = MissingnessDisplay.from_labels(nan_coded(half(n=1000)), max_rows=4, sort=None)
    assert display.rows.tolist() == [125, 375, 625, 875]
    whole = MissingnessDisplay.from_labels(nan_coded(half(n=1000)), max_rows=1000, sort=None)
    assert whole.rows.tolist() == list(range(1000))
    assert whole.ax_.get_ylabel() == "1,000 rows"


@settings(deadline=None)
@given(SIGNS)
def test_rows_with_the_same_holes_lie_together(T):
    order = _order_by_pattern(T)
    assert sorted(order.tolist()) == list(range(len(T)))
    patterns = [tuple(row) for row in (T[order] != 0).tolist()]
    changes = sum(a != b for a, b in pairwise(patterns))
    assert changes == len(set(patterns)) - 1


def test_blocks_of_holes_become_blocks_of_the_picture():
    rng = np.random.default_rng(0)
    T = rng.choice([-1, 1], size=(300, 6))
    group = rng.integers(3, size=300)
    T[group == 1, 3:] = 0
    T[group == 2, :3] = 0
    display = MissingnessDisplay.from_labels(nan_coded(T))
    drawn = group[display.rows]
    assert (np.diff(drawn) != 0).sum() == 2
    assert set(drawn[[0, -1]]) == {1, 2}  # those that have nothing in common are furthest apart


@pytest.mark.parametrize("c", range(2, 12))
def test_the_more_complete_rows_are_on_top(c):
    # One row after the other loses its last labels; the direction of an eigenvector is arbitrary.
    counts = np.random.default_rng(c).integers(1, c + 1, size=60)
    T = np.where(np.arange(c) < counts[:, None], 1, 0)
    assert (np.diff(counts[_order_by_pattern(T)]) <= 0).all()


def test_colours_differ_in_grey():
    display = MissingnessDisplay.from_labels(nan_coded(half()))
    shades = [display.image_.cmap(i)[:3] @ np.array([0.299, 0.587, 0.114]) for i in range(3)]
    no, missing, yes = shades
    assert missing - no > 0.25
    assert no - yes > 0.25


def test_a_hundred_thousand_rows():
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((100_000, 8)) < 0.5, NAN, rng.random((100_000, 8)) < 0.1)
    display = MissingnessDisplay.from_labels(Y)
    assert display.image_.get_array().shape == (500, 8)
    assert len(set(display.rows.tolist())) == 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sort": "name"}, "sort must be one of None, 'pattern'; got 'name'"),
        ({"max_rows": 0}, "max_rows must be an integer >= 1, got 0"),
    ],
)
def test_wrong_options_of_the_map(options, message):
    with pytest.raises(ValueError, match=message):
        MissingnessDisplay.from_labels(nan_coded(half()), **options)


def test_labels_without_an_observed_entry_are_refused():
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        MissingnessDisplay.from_labels(np.full((80, 5), NAN))


def test_classes_of_a_one_dimensional_y_are_its_labels():
    display = MissingnessDisplay.from_labels(["cat", "dog", "cow", "cat"])
    assert display.label_names == ["cat", "cow", "dog"]


# -- co-occurrence ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=15)
@given(SIGNS)
def test_probabilities_count_rows_in_which_both_were_observed(T):
    import matplotlib.pyplot as plt

    if not T.any():
        return
    display = CooccurrenceDisplay.from_labels(nan_coded(T), min_rows=1)
    plt.close("all")
    for j, k in product(range(T.shape[1]), repeat=2):
        told = [row for row in T.tolist() if row[j] == 1 and row[k] != 0]
        assert display.count[j, k] == len(told)
        if told:
            expected = sum(row[k] == 1 for row in told) / len(told)
            assert display.probability[j, k] == pytest.approx(expected)
        else:
            assert np.isnan(display.probability[j, k])


def test_arrows_are_the_implications_of_an_inspection_that_hold_one_way():
    T = half(n=300)
    names = list("abcde")
    T[:, 4] = np.where(T[:, 3] != 0, T[:, 3], T[:, 4])  # d and e imply each other
    frame = pd.DataFrame(nan_coded(T), columns=names)
    table = table_from_frame(frame.assign(feature=np.arange(300)), names)
    listed = [rule.rule for rule in inspect_table(table).rules if "=>" in rule.rule]
    assert set(listed) & {"d => e", "e => d"}
    assert "a => b" in listed
    found = CooccurrenceDisplay.from_labels(frame).one_way()
    assert [(i.label, i.implied) for i in found] == [("a", "b")]


def test_digits_imply_their_attributes():
    digits = load_digit_attributes()
    display = CooccurrenceDisplay.from_labels(digits.target, label_names=digits.target_names)
    arrows = {(i.label, i.implied) for i in display.one_way()}
    assert ("is 4", "even") in arrows
    assert ("even", "is 4") not in arrows
    assert ("is 4", "prime") not in arrows
    assert len(display.arrows_) == len(arrows)
    drawn = {tuple(text.get_position()) for text in display.arrows_}
    at = digits.target_names.index
    assert drawn == {(at(implied), at(label)) for label, implied in arrows}


def test_pairs_with_few_rows_are_left_blank():
    T = half(n=300)
    T[5:, 2] = -1
    T[:5, 2] = 1
    T[:5, 3] = 1
    shown = CooccurrenceDisplay.from_labels(nan_coded(T), min_rows=10)
    picture = np.ma.filled(shown.image_.get_array(), NAN)
    assert np.isnan(picture[2]).all()  # five rows have label 2
    assert np.isnan(np.diag(picture)).all()
    assert not np.isnan(picture[0, 1:]).any()
    assert all(i.label != "y2" for i in shown.one_way())
    all_shown = CooccurrenceDisplay.from_labels(nan_coded(T), min_rows=5)
    assert ("y2", "y3") in {(i.label, i.implied) for i in all_shown.one_way()}


def test_hidden_entries_do_not_matter():
    T = half()
    masks = [(T != 0), (T != 0)]
    values = [np.where(T == 0, fill, T > 0).astype(int) for fill in (0, 1)]
    one, other = (
        CooccurrenceDisplay.from_labels(LabelMatrix.from_array(v, mask=m))
        for v, m in zip(values, masks, strict=True)
    )
    np.testing.assert_array_equal(one.probability, other.probability)
    np.testing.assert_array_equal(one.base, other.base)


def test_of_many_labels_the_frequent_ones_are_drawn_in_their_order():
    T = half(c=5)
    T[:, 1] = -1
    T[0, 1] = 1
    display = CooccurrenceDisplay.from_labels(nan_coded(T), max_labels=4)
    assert display.label_names == ["y0", "y2", "y3", "y4"]
    assert display.probability.shape == (4, 4)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (1, {}, "at least two labels, got 1"),
        (5, {"max_labels": 1}, "max_labels=1"),
    ],
)
def test_wrong_options_of_the_cooccurrence(columns, options, message):
    with pytest.raises(ValueError, match=message):
        CooccurrenceDisplay.from_labels(nan_coded(half())[:, :columns], **options)


# -- singular values ----------------------------------------------------------------------------


def gram_values(Z):
    """Singular values by the eigenvalues of the smaller Gram matrix."""
    S = Z @ Z.T if Z.shape[0] < Z.shape[1] else Z.T @ Z
    return np.sqrt(np.maximum(np.linalg.eigvalsh(S)[::-1], 0))


def test_groups_are_the_rows_with_an_observed_yes():
    T = half().astype(float)
    scores = np.random.default_rng(1).normal(size=T.shape)
    for matrix, display in (
        (T, SingularValuesDisplay.from_labels(nan_coded(T))),
        (scores, SingularValuesDisplay.from_predictions(nan_coded(T), scores)),
    ):
        np.testing.assert_allclose(display.whole, gram_values(matrix), atol=1e-6)
        assert list(display.groups) == [f"y{k}" for k in range(5)]
        for k, name in enumerate(display.groups):
            rows = [i for i in range(len(T)) if T[i, k] == 1]
            assert display.group_rows[name] == len(rows)
            np.testing.assert_allclose(display.groups[name], gram_values(matrix[rows]), atol=1e-6)
            norms = np.linalg.norm(matrix[rows], "nuc") / np.linalg.norm(matrix[rows])
            assert display.effective_ranks()[name] == pytest.approx(norms**2)


def test_hidden_positives_are_in_no_group():
    T = half()
    truth = np.where(T == 0, 1, T > 0).astype(int)
    scores = np.random.default_rng(1).normal(size=T.shape)
    masked = SingularValuesDisplay.from_predictions(
        LabelMatrix.from_array(truth, mask=T != 0), scores
    )
    assert list(masked.group_rows.values()) == (T > 0).sum(axis=0).tolist()


def test_a_label_without_yes_has_no_group():
    T = half()
    T[:, 2] = np.where(T[:, 2] > 0, 0, T[:, 2])
    assert list(SingularValuesDisplay.from_labels(nan_coded(T)).groups) == ["y0", "y1", "y3", "y4"]


def test_lines_end_at_the_rank_and_are_scaled():
    T = half()
    T[:, 4] = T[:, 3]
    display = SingularValuesDisplay.from_labels(nan_coded(T))
    rank = np.linalg.matrix_rank(T.astype(float))
    assert rank == 4
    x, y = display.whole_line_.get_data()
    assert x.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(
        y, gram_values(T.astype(float))[:4] / gram_values(T.astype(float))[0]
    )
    assert display.ax_.get_yscale() == "log"
    lines = [display.whole_line_, *display.group_lines_.values()]
    assert [line.get_ydata()[0] for line in lines] == [1.0] * 6


def test_an_estimator_is_asked_for_its_scores():
    X, Y = make_missing_multilabel(n_samples=120, random_state=0)[:2]
    model = DM2LClassifier().fit(X, Y)
    one = SingularValuesDisplay.from_estimator(model, X, Y)
    other = SingularValuesDisplay.from_predictions(Y, model.decision_function(X))
    np.testing.assert_allclose(one.whole, other.whole)
    assert one.group_rows == other.group_rows


def test_an_estimator_reads_its_own_mark():
    X, Y = make_missing_multilabel(n_samples=120, random_state=0)[:2]
    marked = np.where(np.isnan(Y), 7, Y).astype(int)
    model = DM2LClassifier(missing_label=7).fit(X, marked)
    display = SingularValuesDisplay.from_estimator(model, X, marked)
    assert sum(display.group_rows.values()) == int((Y == 1).sum())


def test_highlighted_groups_have_a_look_of_their_own():
    display = SingularValuesDisplay.from_labels(nan_coded(half()), highlight=["y1", "y3"])
    lines = display.group_lines_
    assert lines["y1"].get_color() != lines["y3"].get_color()
    assert lines["y1"].get_marker() != lines["y3"].get_marker()
    assert lines["y0"].get_color() == lines["y2"].get_color() == lines["y4"].get_color()
    (legend,) = [a.get_legend() for a in display.ax_.child_axes]
    assert len(legend.get_texts()) == 4  # the other three, two of their own, all rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"highlight": ["y9"]}, "highlight contains 'y9', but the groups are"),
    ],
)
def test_wrong_options_of_the_singular_values(options, message):
    with pytest.raises(ValueError, match=message):
        SingularValuesDisplay.from_labels(nan_coded(half()), **options)


def test_scores_of_another_shape_are_refused():
    with pytest.raises(
        ValueError, match=r"scores must have the shape of the labels, \(80, 5\), got \(80, 4\)"
    ):
        SingularValuesDisplay.from_predictions(nan_coded(half()), np.zeros((80, 4)))
