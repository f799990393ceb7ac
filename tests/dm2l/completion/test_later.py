"""Values that are made when they are first asked for."""

import copy
import pickle

from dm2l.completion._later import Later


def test_a_value_is_made_once_when_it_is_asked_for():
    made = []
    late = Later.by(lambda: made.append(1) or len(made))
    assert not made
    assert (late.value, late.value) == (1, 1)
    assert made == [1]


def test_copies_and_files_hold_the_value():
    late = Later.by(lambda: 3)
    assert copy.deepcopy(late).value == 3
    assert pickle.loads(pickle.dumps(late)).value == 3


def test_a_value_that_could_be_called_is_not():
    # A model file may put anything there that files hold, a kernel for instance.
    assert Later(list).value is list
    assert pickle.loads(pickle.dumps(Later.by(lambda: list))).value is list
