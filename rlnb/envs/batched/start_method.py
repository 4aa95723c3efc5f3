"""How worker processes are started, and what they find then: the start method, and Gymnasium's registry."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import sys
import threading

import cloudpickle
import torch

#: Libraries with threads of their own, which a fork would lack.
_THREADED = frozenset({"jax", "tensorflow"})


def choose_start_method(sub_threads: int) -> str:
    """Choose how to start workers, where nobody says.

    A fork begins at once, with everything imported. But it has only the thread that forked: a lock that another thread
    held stays locked there, and neither CUDA nor torch's own threads survive. So it is chosen where there is nothing
    of that; else a fork server, which imports torch once; and where there is none, each worker is started anew.

    Args:
        sub_threads: how many threads torch may use in a worker.

    Returns:
        "fork", "forkserver" or "spawn".
    """
    alone = threading.active_count() == 1 and not _THREADED & sys.modules.keys()
    if sys.platform == "linux" and alone and sub_threads == 1 and not torch.cuda.is_initialized():
        return "fork"
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def dump_registered() -> dict[str, bytes]:
    """Pickle what was added to Gymnasium's registry, which a process that is not a fork has not.

    Returns:
        The pickled specs by the ids of their envs. One that cannot be pickled is left out.
    """
    gymnasium = sys.modules.get("gymnasium")
    found = {}
    for name, spec in [] if gymnasium is None else list(gymnasium.registry.items()):
        if not str(spec.entry_point).startswith("gymnasium.envs."):
            with contextlib.suppress(Exception):  # whatever its own pickling raises
                found[name] = cloudpickle.dumps(spec)
    return found


def register(pickled: dict[str, bytes]) -> None:
    """Add specs to Gymnasium's registry, unless there are such.

    Args:
        pickled: what :func:`dump_registered` returned. One that cannot be read is left out: who asks for its env is
            told that there is none.
    """
    if not pickled:
        return
    import gymnasium

    for name, spec in pickled.items():
        if name not in gymnasium.registry:
            with contextlib.suppress(Exception):  # such as a module that is not found here
                gymnasium.registry[name] = pickle.loads(spec)


__all__ = ["choose_start_method", "dump_registered", "register"]
