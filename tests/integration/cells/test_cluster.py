"""Several cells' ledgers in one Valkey Cluster: the hash tag in MATMUL_KEY_PREFIX puts each into one slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.states import JobState
from tests.support.workers.workers import WorkerBench, running_worker, until

SLOTS = 16384
TAGS = ("m:{c00}:", "m:{c01}:")


class Cluster:
    """Primaries that share the slots."""

    def __init__(self, directory: Path, count: int) -> None:
        options = ("cluster-enabled yes", "cluster-node-timeout 20000")
        buses = [free_port() for _ in range(count)]  # by default 10,000 above the other: where connections have theirs
        self.nodes = [
            EmbeddedServer(directory / f"node-{i}", options=(*options, f"cluster-port {bus}"), key_prefix="m:")
            for i, bus in enumerate(buses)
        ]
        for node in self.nodes:
            node.start()
        edges = [SLOTS * i // count for i in range(count + 1)]
        for node, begin, end in zip(self.nodes, edges, edges[1:], strict=False):
            with node.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, buses[0])
        until(self._is_whole, timeout_s=60, what="a cluster that knows all its slots")

    def _is_whole(self) -> bool:
        for node in self.nodes:
            with node.client() as client:
                info = cast(dict[str, Any], client.cluster("info"))
            if info["cluster_state"] != "ok" or int(info["cluster_known_nodes"]) != len(self.nodes):
                return False
        return True

    def home_of(self, prefix: str) -> EmbeddedServer:
        """The node that has the slot of a prefix's keys: what the cell's MATMUL_REDIS_URL names."""
        with self.nodes[0].client() as client:
            slot = int(client.cluster("keyslot", f"{prefix}x"))
        return self.nodes[slot * len(self.nodes) // SLOTS]

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), 3)
    yield made
    made.stop()


def test_cells_share_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """A product from its submission to its end, through Celery, in one cell, beside a job that waits in the other."""
    first, second = (cluster.home_of(prefix) for prefix in TAGS)
    assert first is not second, "the tags of these cells are of different nodes"
    a = np.arange(30_000, dtype=np.float32).reshape(100, 300) % 7
    other = WorkerBench(second, tmp_path, overrides={"key_prefix": TAGS[1], "store": "redis"})
    waiting = other.submit(a, a.T.copy())
    with running_worker(first, tmp_path, overrides={"key_prefix": TAGS[0], "store": "redis"}) as bench:
        ended = bench.ended(bench.submit(a, a.T.copy()))
        assert ended.record.state is JobState.SUCCEEDED
        np.testing.assert_array_equal(bench.product(ended), a @ a.T)
        kept = cast(list[bytes], bench.client.keys("*"))
        assert kept and all(key.decode().startswith(TAGS[0]) for key in kept), "all keys are in the cell's slot"
    assert other.ledger.claim(waiting, 1, worker="a worker", lease_s=5.0) is not None
    other.client.close()
