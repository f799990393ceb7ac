"""Labelling configurations, annotations as answers, probabilities as predictions."""

import numpy as np
import pytest

from dm2l.labelstudio import make_config
from dm2l.labelstudio._tasks import answers_of, prediction_of, read_config

CHOICES = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="topic" toName="text" choice="multiple">
    <Choice value="bill"/><Choice value="login" alias="access"/><Choice value="other"/>
  </Choices>
</View>"""
TAXONOMY = """
<View>
  <Text name="text" value="$text"/>
  <Taxonomy name="kinds" toName="text">
    <Choice value="animals"><Choice value="cats"/><Choice value="dogs"/></Choice>
    <Choice value="plants"><Choice value="cats"/></Choice>
  </Taxonomy>
</View>"""


def chosen(name, kind, values):
    return {"from_name": name, "to_name": "text", "type": kind, "value": {kind: values}}


def test_choices_are_labels_by_name_and_results_have_their_alias():
    (control,) = read_config(CHOICES, ("login", "bill", "missing"))
    assert control.labels == {("bill",): "bill", ("access",): "login"}
    annotation = {"result": [chosen("topic", "choices", ["access", "other"])]}
    assert answers_of(annotation, [control]) == {"bill": "no", "login": "yes"}
    assert answers_of(annotation, [control], "skip") == {"login": "yes"}
    assert answers_of({"result": []}, [control]) == {"bill": "no", "login": "no"}
    assert answers_of({"result": [], "was_cancelled": True}, [control]) == {
        "bill": "skip",
        "login": "skip",
    }


def test_a_choice_in_a_taxonomy_is_one_for_what_it_lies_in():
    names = ("animals", "animals/cats", "dogs", "plants/cats")
    (control,) = read_config(TAXONOMY, names)
    assert control.labels == {
        ("animals",): "animals",
        ("animals", "cats"): "animals/cats",
        ("animals", "dogs"): "dogs",
        ("plants", "cats"): "plants/cats",
    }
    annotation = {"result": [chosen("kinds", "taxonomy", [["animals", "dogs"]])]}
    assert answers_of(annotation, [control]) == {
        "animals": "yes",
        "animals/cats": "no",
        "dogs": "yes",
        "plants/cats": "no",
    }
    p = np.array([0.9, 0.2, 0.8, 0.5])
    known = np.array([True, False, False, False])
    said = prediction_of((p, known), list(names), [control], "v1")
    paths = said["result"][0]["value"]["taxonomy"]
    assert sorted(paths) == [["animals"], ["animals", "dogs"], ["plants", "cats"]]
    assert said["score"] == pytest.approx((0.8 + 0.8 + 0.5) / 3)
    assert said["model_version"] == "v1"


def test_the_configuration_that_is_made_is_read_and_holds_any_name():
    names = ("plain", 'quote " & <tag>', "ünïcode\n", "a/b")
    (control,) = read_config(make_config(names), names)
    assert list(control.labels.values()) == list(names)
    assert (control.name, control.to_name, control.kind) == ("labels", "row", "choices")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<View", "not valid XML"),
        ("", "not valid XML"),
        ("<View/>", "No choice"),
        (CHOICES.replace("bill", "x").replace("login", "y"), "No choice"),
        (f"<View>{CHOICES}{CHOICES}</View>", "Two tags"),
        ('<!DOCTYPE v [<!ENTITY a "b">]><View/>', "DOCTYPE or ENTITY"),
        ("<View>" * 100_000, "not valid XML"),
    ],
)
def test_what_is_no_configuration_for_the_model_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        read_config(text, ("bill", "login"))


def test_a_label_in_two_places_of_a_taxonomy_is_refused():
    with pytest.raises(ValueError, match="2 choices match the label 'cats'"):
        read_config(TAXONOMY, ("cats",))


def test_choices_that_are_nested_without_end_are_refused():
    deep = '<Choice value="a">' * 20_000 + "</Choice>" * 20_000
    text = f'<View><Taxonomy name="t" toName="x">{deep}</Taxonomy></View>'
    with pytest.raises(ValueError, match="at most 50 levels"):
        read_config(text, ("b",))


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        [],
        {},
        {"result": {}},
        {"result": [chosen("topic", "choices", "bill")]},
        {"result": [chosen("topic", "choices", [1])]},
        {"result": [chosen("topic", "choices", [["bill", 2]])]},
        {"result": [{"from_name": "topic"}]},
        {"result": [{"from_name": "topic", "value": []}]},
    ],
)
def test_what_is_no_annotation_is_refused(annotation):
    with pytest.raises(ValueError, match=r"has no list|must have a list|must be text"):
        answers_of(annotation, read_config(CHOICES, ("bill", "login")))


def test_results_of_other_controls_say_nothing():
    annotation = {"result": [chosen("other", "choices", ["bill"]), "odd", 3]}
    assert answers_of(annotation, read_config(CHOICES, ("bill",))) == {"bill": "no"}
