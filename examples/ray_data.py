"""Keep the picks of a Ray dataset.

python examples/ray_data.py
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import gmmatch


def main():
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog"], 1000)
    vectors = (rng.normal(size=(2000, 16)) + 2.0 * (labels == "dog")[:, None]).astype(np.float32)
    file = Path(tempfile.mkdtemp()) / "rows.parquet"
    columns = {"id": np.arange(2000), "label": labels, "vector": list(vectors)}
    pq.write_table(pa.table(columns), file)

    # Select from the file; the ids say which rows of the Ray dataset to keep.
    kept = gmmatch.select(file, keep="5%", labels="label", ids="id", embedding="vector")
    wanted = {int(name) for name in kept.ids}
    dataset = ray.data.read_parquet(str(file)).filter(lambda row: row["id"] in wanted)
    print(f"{dataset.count()} rows of the Ray dataset, {len(kept)} picks")


if __name__ == "__main__":
    # A small cluster of its own; on yours: ray.init().
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        main()
    finally:
        ray.shutdown()
