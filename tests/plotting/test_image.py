"""Figures of approximations: colours where they belong, one panel per cluster."""

import matplotlib as mpl
import numpy as np
import pytest

from egmm.image import make_brain_phantom, segment
from egmm.plotting.image import LOWER, UPPER, plot_approximations, rough_colours

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def test_red_is_sure_blue_is_possible_and_the_rest_grey() -> None:
    grey = np.array([[0.0, 100.0, 100.0, 0.0]])
    colours = rough_colours(grey, np.array([[True, True, False, False]]), np.array([[True, True, True, False]]))
    assert (colours[0, :2].argmax(axis=-1) == 0).all()
    assert colours[0, 2].argmax() == 2
    assert np.ptp(colours[0, 3]) == 0
    assert (colours[0, 1] >= colours[0, 0]).all()  # the image shines through


def test_one_panel_per_cluster_with_counts() -> None:
    brain = make_brain_phantom((64, 54))
    result = segment(brain.t1, brain.mask, 2, names=("CSF", "tissue"))
    axes = result.plot()
    lower, upper = result.lower(), result.upper()
    assert len(axes) == 2
    for cluster, (ax, name) in enumerate(zip(axes, result.names, strict=True)):
        sure, both = int(lower[..., cluster].sum()), int((upper & ~lower)[..., cluster].sum())
        assert ax.get_title().replace("\u202f", "") == f"{name}\n{sure} sure, {both} open"
    legend = axes[0].figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["surely in the cluster", "possibly (open)"]
    assert [handle.get_color() for handle in legend.legend_handles] == [LOWER, UPPER]
    plt.close("all")


def test_a_slice_of_a_volume_is_drawn_on_given_axes() -> None:
    brain = make_brain_phantom((20, 24, 16), supersampling=1)
    _, ax = plt.subplots()
    drawn = segment(brain.t1, brain.mask, 2).plot(1, at=3, axis=0, axes=ax)
    assert drawn[0] is ax
    assert ax.images[0].get_array().shape == (24, 16, 3)
    plt.close("all")


def test_too_few_axes_are_named() -> None:
    _, ax = plt.subplots()
    sure = np.zeros((2, 2), dtype=bool)
    with pytest.raises(ValueError, match="axes must be 2 Axes, got 1"):
        plot_approximations(np.zeros((2, 2)), [sure, sure], [sure, sure], axes=ax)
    plt.close("all")
