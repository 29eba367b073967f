"""Numbers of clusters of the wider field, by `select_model`."""

import numpy as np
import pytest

from checks import three_groups
from egmm import select_model
from egmm.cluster import CCM, CECM, EVCLUS, MECM, NNEVCLUS, RECM, TECM, CatECM, ECMdd, EKNNClus, MultiViewECM
from egmm.cluster import MultiViewECMdd as WeightedMedoids


@pytest.mark.parametrize(
    "estimator",
    [CCM(), CECM(), EVCLUS(tol=1e-6), MECM(), NNEVCLUS(tol=1e-4), RECM(), TECM(), ECMdd(), MultiViewECM()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_nonspecificity_chooses_the_number_of_clusters(estimator):
    X = three_groups()[:120]
    selection = select_model(X, range(2, 5), estimator=estimator, random_state=0, n_jobs=1)
    assert (selection.criterion, selection.higher_is_better) == ("ans", False)
    values = [row["ans"] for row in selection.table()]
    assert selection.n_clusters == 2 + int(np.argmin(values))
    assert selection.best.ans_ == min(values)


def test_the_others_have_the_same_index():
    X = three_groups()[:120].round()
    for estimator in (CatECM(), WeightedMedoids(views=[1, 1])):
        assert select_model(X, [2, 3], estimator=estimator, random_state=0, n_jobs=1).criterion == "ans"


def test_a_clusterer_that_finds_the_number_itself_is_not_searched():
    with pytest.raises(TypeError, match=r"estimator must be one of FCM, ECM, .*; got EKNNClus"):
        select_model(three_groups(), [2, 3], estimator=EKNNClus())
