"""Series can be told apart by everybody, on screens and on paper."""

from itertools import combinations

import numpy as np
import pytest

from dm2l.plots._canvas import COLOURS, series_styles


def test_series_differ_without_their_colours_too():
    styles = series_styles([str(i) for i in range(55)])
    grey = {(style["marker"], style["linestyle"]) for style in styles.values()}
    assert len(grey) == 55
    for style in list(styles.values())[:7]:
        assert style["markerfacecolor"] == style["color"]
    for style in list(styles.values())[7:14]:
        assert style["markerfacecolor"] == "white"


# Machado, Oliveira and Fernandes (2009): linear RGB as seen with one kind of cone lacking.
VISION = {
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def cielab(colour, vision):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(VISION[vision]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ seen / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_colours_can_be_told_apart_by_readers_of_every_colour_vision(vision):
    seen = [cielab(colour, vision) for colour in COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) >= 20


def test_colours_are_dark_enough_for_a_white_page():
    assert max(cielab(colour, "normal")[0] for colour in COLOURS) < 72


def test_the_first_four_colours_differ_in_grey():
    lightness = sorted(cielab(colour, "normal")[0] for colour in COLOURS[:4])
    assert min(np.diff(lightness)) > 14
