"""Ray, where it is installed: the connection to it, and objects packed for its object store."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import torch


def import_ray(what: str) -> Any:
    """Import Ray; ``what`` needs it.

    Raises:
        ImportError: If Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            f'{what} runs on Ray, which cannot be imported ({error}). Fix: pip install "rlnb[ray]".'
        ) from error
    return ray


def connect(what: str, config: Mapping[str, Any] | None) -> Any:
    """Import Ray, and connect to a cluster, or start Ray on this machine, unless this process is connected already.

    Args:
        what: what needs Ray, for errors.
        config: keyword arguments of ``ray.init``.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If the cluster does not answer.
    """
    ray = import_ray(what)
    if not ray.is_initialized():
        given = dict(config or {})
        try:
            ray.init(**given)
        except (ConnectionError, OSError) as error:
            raise ConnectionError(
                f"{what} could not connect to Ray with ray_init_config={given!r}: {error}. Likely cause: no cluster "
                "runs at this address. Fix: ray start --head on its first machine, or leave the address out, so that "
                "Ray starts on this machine."
            ) from error
    return ray


def session_of(ray: Any) -> tuple[str, str]:
    """Identify the connection of this process to Ray: what was made in another one is gone."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_job_id()


def is_connected(ray: Any, session: tuple[str, str]) -> bool:
    """Return whether this process has the same connection to Ray as :func:`session_of` found."""
    return bool(ray.is_initialized()) and session_of(ray) == session


class ActorPlace(NamedTuple):
    """Where an actor runs."""

    actor: str  # its id
    pid: int
    ip: str
    node: str  # id of the node

    def __str__(self) -> str:
        return f"actor {self.actor[:8]}, process {self.pid} on node {self.ip} ({self.node[:8]})"

    @classmethod
    def here(cls) -> ActorPlace:
        """Describe the actor that runs in this process."""
        import os

        import ray

        context = ray.get_runtime_context()
        return cls(context.get_actor_id() or "", os.getpid(), ray.util.get_node_ip_address(), context.get_node_id())


def how_it_was_lost(ray: Any, place: ActorPlace | None, error: BaseException | None) -> str:
    """Say whether an actor was lost with its node or alone, as far as Ray knows yet; ``error`` is Ray's."""
    if place is not None and any(node["NodeID"] == place.node and not node["Alive"] for node in ray.nodes()):
        return "its node is lost"
    if isinstance(error, ray.exceptions.ActorUnavailableError):  # Ray takes seconds to find that a node is lost
        return "its process or its node cannot be reached"
    return "its process has ended"


def why_not_placed(ray: Any, asked: Mapping[str, Any], no_room: str, more_time: str) -> str:
    """Say why an actor does not run yet, and what helps.

    Args:
        ray: the module.
        asked: options of the actor; only its resources count.
        no_room: what to say if the cluster has less free than the actor asked for.
        more_time: what gives it more time.
    """
    free = ray.available_resources()
    wanted = {"CPU": asked.get("num_cpus", 1), "GPU": asked.get("num_gpus"), "memory": asked.get("memory")}
    wanted |= asked.get("resources") or {}
    if any(count > free.get(name, 0) for name, count in wanted.items() if count):
        return no_room
    return (
        "Likely cause: the machine is busy, and Ray lets its processes wait behind all others (niceness 15). Fix: "
        f"{more_time}, or RAY_worker_niceness=0 in the environment before Ray starts."
    )


# Objects ----------------------------------------------------------------------------------------------------------


class Packed(NamedTuple):
    """A pickled object, whose tensors are apart, so that Ray copies each into its object store once.

    Ray itself pickles a tensor by ``torch.save``, which makes two more copies, and adds a file of 400 bytes to each.
    """

    pickled: bytes
    buffers: list[np.ndarray]  # bytes of the tensors

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return len(self.pickled) + sum(buffer.nbytes for buffer in self.buffers)


class _Pickler(cloudpickle.Pickler):
    """Pickles plain tensors as NumPy arrays, whose memory pickle's protocol 5 leaves apart."""

    def __init__(self, file: io.BytesIO, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffer_callback)

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.Tensor and _is_plain(obj):
            return _tensor, (obj.contiguous().reshape(-1).view(torch.uint8).numpy(), obj.dtype, obj.shape)
        return super().reducer_override(obj)


def _is_plain(tensor: torch.Tensor) -> bool:
    special = tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not special


def _tensor(array: np.ndarray, dtype: torch.dtype, shape: torch.Size) -> torch.Tensor:
    return torch.from_numpy(array).view(dtype).reshape(shape)


def pack(content: Any) -> Packed:
    """Pack an object for Ray's object store, functions and classes of a notebook by value.

    Example:
        >>> packed = pack({"reward": torch.ones(1000)})
        >>> packed.nbytes, unpack(packed)["reward"].sum()
        (4..., tensor(1000.))
    """
    found: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, found.append).dump(content)
    return Packed(file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in found])


def unpack(packed: Packed) -> Any:
    """Unpack the result of :func:`pack`. Its tensors are copies: the object store is read-only, and freed earlier."""
    return pickle.loads(packed.pickled, buffers=[buffer.copy() for buffer in packed.buffers])
