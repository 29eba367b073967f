"""Fit a mixture to Parquet files with Dask, on a laptop or on a cluster.

python dask_cluster.py rows/ masses/                      # worker processes on this machine
python dask_cluster.py rows/ masses/ tcp://scheduler:8786 # workers on other machines, which see the same paths
"""

import sys

import dask.dataframe as dd
from distributed import Client

from egmm import EGMM


def main(rows_path: str, out_path: str, address: str | None = None) -> None:
    with Client(address):
        rows = dd.read_parquet(rows_path)
        # Keep the rows in the workers' memory; without this line every pass reads the files again.
        rows = rows.persist()
        model = EGMM(n_clusters=3, random_state=0, checkpoint="fit.checkpoint").fit(rows)
        print(f"{model.n_iter_} steps, EBIC {model.ebic_:.1f}")
        for label, weight in zip(model.focal_sets_.labels, model.weights_, strict=True):
            print(f"  {label:<10} {weight:.3f}")
        # Lazy: each worker assigns its rows and writes its own file.
        masses = model.predict_mass(rows)
        dd.from_dask_array(masses, columns=list(model.focal_sets_.labels)).to_parquet(out_path)
        model.save("model.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
