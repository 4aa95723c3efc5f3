"""A separate Ray instance for each test file in this folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NO_RAY = 'it cannot be imported; install it with `pip install "rlnb[ray]"`'
#: Of Ray itself: it asks nothing of the network, notices within five seconds that a node is gone, and starts no process
#: before an actor needs it, which halves the time of a processor that the tests take. Its actors do not wait behind all
#: other processes, where a busy machine would give them next to no time.
ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_METRICS_COLLECTION": "0"}
SETTINGS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 200,
    "health_check_failure_threshold": 25,
    "prestart_worker_first_driver": False,
    "enable_worker_prestart": False,
    "worker_niceness": 0,
}


def node_options(cpus: int) -> dict[str, Any]:
    """Options of a small node: no dashboard, no autoscaler, no logs, and ports that no other node uses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(4)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
    names = ("metrics_agent_port", "dashboard_agent_listen_port", "runtime_env_agent_port", "metrics_export_port")
    quiet = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    return {"num_cpus": cpus, "object_store_memory": 100 << 20, **quiet, **dict(zip(names, ports, strict=True))}


def add_node(cluster: Any, cpus: int, **options: Any) -> Any:
    """Start a node. Its daemon gives its agent 15 s to start, and on a machine that is busy some attempts fail."""
    for left in (2, 1, 0):
        before = ray_processes()
        try:
            return cluster.add_node(**node_options(cpus), **options)
        except Exception as error:
            for pid in ray_processes().keys() - before:  # the cluster does not know them
                os.kill(pid, signal.SIGKILL)
            if "timed out during startup" not in str(error) or not left:
                raise


@pytest.fixture(scope="module")
def cluster(missing: Callable[..., Any]) -> Iterator[Any]:
    """A cluster of one node with two CPUs, to which this process is connected."""
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        missing("ray", NO_RAY, optional=sys.platform != "linux")
    before = ray_processes()
    kept = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    made = Cluster()
    try:
        add_node(made, 2, _system_config=SETTINGS, resources={"first": 10})
        ray.init(address=made.address, log_to_driver=False, logging_level="error")
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    until = time.monotonic() + 60  # on a busy machine they take their time
    while (left := ray_processes().keys() - before) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left, f"processes of Ray outlive the tests: {[ray_processes().get(pid) for pid in left]}"


def ray_processes() -> dict[int, bytes]:
    """Find the processes of Ray on this machine, of actors among them, and how they were called."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            if b"raylet" in line or b"gcs_server" in line or line.startswith(b"ray::"):
                found[int(path.parent.name)] = line[:200]
    return found
