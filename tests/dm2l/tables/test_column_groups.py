"""Label columns that hold several labels: values, ordered values and tags."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm2l.io import DataFileError, read_labels
from dm2l.tables import FitOptions, fit_table, read_table, table_from_frame
from dm2l.tables._suggestion import table_values

NAN = np.nan


def test_every_value_of_a_column_is_a_label():
    frame = pd.DataFrame(
        {"stage": ["II", "I", None, "III", "II"], "sick": ["yes", "no", "", "no", ""]}
    )
    found = read_labels(frame)
    assert list(found.columns) == ["stage=I", "stage=II", "stage=III", "sick"]
    np.testing.assert_array_equal(
        found, [[0, 1, 0, 1], [1, 0, 0, 0], [NAN] * 4, [0, 0, 1, 0], [0, 1, 0, NAN]]
    )
    whole = read_labels(pd.DataFrame({"n": [0, 10, 2, 2, 0, NAN]}))
    assert list(whole.columns) == ["n=0", "n=2", "n=10"]


def test_ordered_values_are_labels_for_each_step():
    cells = ["mid", "low", None, "high"]
    found = read_labels(pd.DataFrame({"pain": cells}), values="pain=low<mid<high")
    assert list(found.columns) == ["pain>=mid", "pain>=high"]
    np.testing.assert_array_equal(found, [[1, 0], [0, 0], [NAN, NAN], [1, 1]])


@pytest.mark.parametrize("json_lists", [False, True])
@pytest.mark.parametrize("absent", ["missing", "negative"])
def test_tags_are_labels_and_blank_cells_are_missing(json_lists, absent):
    cells = ["war, drama", None, "drama", "[]" if json_lists else ""]
    if json_lists:
        cells = [c if c in (None, "[]") else json.dumps(c.split(", ")) for c in cells]
    table = table_from_frame(
        pd.DataFrame({"x": range(4), "genres": cells}), "genres", split=None if json_lists else ","
    )
    table = FitOptions(missing_as={"genre*": absent}).read(table)
    assert table.label_names == ["genres=drama", "genres=war"]
    no = 0.0 if absent == "negative" else NAN
    np.testing.assert_array_equal(table.Y, [[1, 1], [NAN, NAN], [1, no], [NAN, NAN]])
    assert table.words.groups[0].absent == absent


@given(data=st.data(), kind=st.sampled_from(["values", "ordered"]))
def test_labels_become_the_same_cells_again(data, kind):
    values = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=8, unique=True))
    cells = data.draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=20))
    order = f"y={'<'.join(values)}" if kind == "ordered" else "y"
    frame = pd.DataFrame({"x": range(len(cells)), "y": cells})
    table = table_from_frame(frame, "y", values=order)
    if any(cells):
        (group,) = table.words.groups
        known = [cell is not None for cell in cells]
        np.testing.assert_array_equal(known, ~np.isnan(table.Y).any(axis=1))
        assert [group.cell(y == 1) for y in table.Y[known]] == [cell for cell in cells if cell]


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (
            [f"v{i}" for i in range(51)] * 2,
            {},
            r"51 different values.*--cutoff.*--split",
        ),
        ([*range(60)] * 2, {}, "60 different values"),
        (["yes", "no", "maybe"] * 2, {}, r"'y' holds 'maybe' in row 2.*--values"),
        (["0.5", "2", "7.25"] * 2, {}, r"'y' holds '0.5' in row 0.*--cutoff"),
        (["<1", "5", "7"] * 2, {}, r"'y' holds '<1' in row 0"),
        (["a", "b", "c"], {}, "'y' holds 'a' in row 0"),  # as identifiers would
        (["low", "mid", "hgih"], {"values": "y=low<mid<high"}, r"'hgih' in row 2.*low, mid, high"),
        (["a"], {"values": "y=low<low"}, "must be COLUMN=LOW<MID<HIGH"),
        ([" ".join(map(str, range(2000)))], {"split": " "}, "2000 different tags.* at most 1000"),
        (["a" * 101, "b", "c"] * 2, {}, "3 different values.*100 characters"),
        (["[" * 100_000] * 2, {}, r"'y' holds '\[\["),
        (["a,b", "y=a"], {"split": ",", "values": "y"}, None),
    ],
)
def test_other_columns_are_refused(cells, options, message):
    frame = pd.DataFrame({"y": cells})
    if message is None:
        assert list(read_labels(frame, **options).columns) == ["y=a", "y=b", "y=y=a"]
        return
    with pytest.raises((DataFileError, ValueError), match=message):
        read_labels(frame, **options)


def test_labels_of_two_columns_with_one_name_are_refused():
    frame = pd.DataFrame({"y": list("aabbcc"), "y=a": [0, 1, 0, 1, 0, 1]})
    with pytest.raises(DataFileError, match="several labels named 'y=a'"):
        read_labels(frame)


def test_a_word_for_missing_labels_is_no_step_of_an_order():
    frame = pd.DataFrame({"pain": ["none", "low", "high"] * 3})
    with pytest.raises(ValueError, match="Rename values called none"):
        read_labels(frame, values="pain=none<low<high")


def test_a_mark_of_missing_labels_is_no_value(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n3,-9\n4,c\n5,NA\n6,a\n")
    table = read_table(tmp_path / "t.csv", "y", missing=-9)
    assert table.words.groups[0].values == ("a", "b", "c")
    assert np.isnan(table.Y).all(axis=1).tolist() == [False, False, True, False, True, False]


def test_rules_make_no_score_steeper_than_it_is():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2)).round(3)
    stage = np.array(["low", "mid", "high"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    frame = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "stage": stage})
    frame.loc[rng.random(150) < 0.3, "stage"] = None
    table = table_from_frame(frame, "stage")
    model = fit_table(table, FitOptions(effort="quick"), estimate_folds=0)
    # The derivative of (1 + score) / 2 is 0.5. With probabilities that obey the rule beside scores
    # that do not, some derivatives would be over 20, and values of answers over all missing cells.
    assert table_values(model, table)[0].slope.max() < 3
