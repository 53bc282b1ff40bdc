"""Test support: a Ray cluster of several nodes on this machine, each with a directory of its own.

``python -m cpu_support.nodes ADDRESS_FILE TEMPORARY FOLDER...`` starts a head without CPUs, to
which a driver connects and on which nothing else can run, and a node to train on per folder. It
ends when it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ray.cluster_utils import Cluster


def main(address_file: Path, temporary: str, folders: list[Path]) -> None:
    """Starts the nodes, writes the address and waits."""
    (Path(temporary) / "ray").mkdir(exist_ok=True)  # where Ray notes the address, too
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "temp_dir": temporary, "include_dashboard": False},
    )
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        cluster.add_node(num_cpus=8, num_gpus=1)
    address_file.write_text(str(cluster.address))
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [Path(folder) for folder in sys.argv[3:]])
