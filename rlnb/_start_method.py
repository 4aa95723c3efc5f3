"""The start method of processes that is fast and safe at once."""

from __future__ import annotations

import multiprocessing
import sys
import threading

import torch

#: Libraries with threads of their own, which a fork would not have, and OpenGL, whose drivers hang in a fork.
_THREADED = frozenset({"OpenGL", "jax", "tensorflow"})

#: Name of the thread that ends a worker with the process of its pool. It holds no lock, and each worker starts its own.
WATCHER = "rlnb-watcher"


def choose_start_method(sub_threads: int) -> str:
    """Choose the fastest start method that is safe in this process, for workers with ``sub_threads`` torch threads.

    A fork starts at once, with everything imported. But it has only the thread that forked: a lock that another thread
    held stays locked, and neither CUDA nor OpenGL nor torch's own threads survive. So a fork is chosen only if this
    process uses neither other threads nor CUDA nor OpenGL. Otherwise a fork server is chosen, which imports torch once,
    and "spawn" on systems without one. A worker that starts workers of its own would import torch for each of its
    pools, for seconds, so its ``WATCHER`` is not counted.
    """
    alone = sum(thread.name != WATCHER for thread in threading.enumerate()) == 1 and not _THREADED & sys.modules.keys()
    if sys.platform == "linux" and alone and sub_threads == 1 and not torch.cuda.is_initialized():
        return "fork"
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
