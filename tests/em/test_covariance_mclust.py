"""Singletons only, from given labels: the classical mixtures as R's mclust fits them."""

import json
from pathlib import Path

import numpy as np
import pytest

from egmm.em.covariance import MODELS, n_covariance_parameters
from em.covariance_cases import fit

PEERS = json.loads((Path(__file__).parents[1] / "reference" / "r_peers.json").read_text())

# Where we end higher, by how much at least. Orientations have local optima, and both programs iterate inside the M-step
# of VVE and stop there before the optimum, so that their paths part; EEV, VEV and EVV part on two sets.
HIGHER = {
    ("iris", "VVE"): 1.18,
    ("seeds", "VVE"): 0.93,
    ("newthyroid", "VVE"): 17.1,
    ("newthyroid", "EEV"): 2.84,
    ("ecoli", "VVE"): 2.67,
    ("ecoli", "VEV"): 36.7,
    ("ecoli", "EVV"): 2.31,
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["iris", "seeds", "newthyroid", "ecoli"])
def test_reaches_the_likelihood_of_mclust(uci, name, model):
    peer = PEERS[name]
    labels = np.array(peer["labels0"]) - min(peer["labels0"])
    run = fit(uci(name).X, labels, "singletons", model)
    difference = run.log_likelihood - peer["mclust_me"][model]["loglik"]
    if (name, model) in HIGHER:
        assert difference > HIGHER[name, model]
    else:
        assert abs(difference) < 1e-3
        np.testing.assert_allclose(np.sort(run.params.weights), np.sort(peer["mclust_me"][model]["pro"]), atol=1e-3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["iris", "seeds", "newthyroid", "ecoli"])
def test_counts_the_parameters_of_mclust(name, model):
    peer = PEERS[name]
    n_clusters, n_features = peer["c"], peer["d"]
    count = n_clusters - 1 + n_clusters * n_features + n_covariance_parameters(model, n_clusters, n_features)
    assert count == peer["mclust_me"][model]["df"]
