"""Names of the chosen sets in tables."""

import numpy as np
import pytest

from egmm import FocalSets
from egmm.belief.tables import set_names

SINGLE = FocalSets.of("singletons", 3)
# With a reward of 0.8 for two clusters, {1,2} is worth 0.8 * 0.96 = 0.768 in the first row and 0.8 * 0.97 = 0.776 in
# the second, more than {1} alone with 0.5 and less than {2} alone with 0.95. Three clusters are worth less than two.
MASS = np.array([[0.50, 0.46, 0.04], [0.02, 0.95, 0.03]])


@pytest.mark.parametrize(
    ("rule", "names"), [("heaviest", ["{1}", "{2}"]), ("utility", ["{1,2}", "{2}"]), ("dominance", ["{1}", "{2}"])]
)
def test_the_chosen_set_is_named_even_if_it_is_no_focal_set(rule, names) -> None:
    assert set_names(MASS, SINGLE, rule, 0.8).tolist() == names
