"""Start methods of workers, and Gymnasium's registry in workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import threading
import types

import pytest
import torch

from rlnb._start_method import choose_start_method
from rlnb.envs import ParallelEnv
from rlnb.envs.batched.pickling import dump_registered, load_registered
from rlnb.envs.batched.processes import main_hidden
from tests.envs.batched.kinds import Counter
from tests.envs.batched.running import run
from tests.pairwise import few


@pytest.fixture
def alone(monkeypatch):
    """A process on Linux without other threads, whatever the test runs in."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])
    for name in ("OpenGL", "jax", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_process_without_threads_is_forked(alone):
    assert choose_start_method(1) == "fork"


def test_workers_fork_workers_of_their_own():
    """Their only other thread ends them with the process of their pool."""

    class Asked(Counter):
        def chosen(self):
            return choose_start_method(1)

    with ParallelEnv(1, Asked, mp_start_method="forkserver") as env:
        assert env.chosen() == ["fork" if sys.platform == "linux" else "forkserver"]


@pytest.mark.parametrize("why", ["thread", "jax", "OpenGL", "cuda", "sub_threads", "platform"])
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_what_a_fork_would_break_is_not_forked(alone, monkeypatch, why, method):
    if why == "thread":
        monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread(), threading.Thread()])
    elif why in ("jax", "OpenGL"):
        monkeypatch.setitem(sys.modules, why, types.ModuleType(why))
    elif why == "cuda":
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    elif why == "platform":
        monkeypatch.setattr(sys, "platform", "darwin")
    known = ["fork", "spawn", *{"forkserver": ["forkserver"], "spawn": []}[method]]
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: known)
    assert choose_start_method(2 if why == "sub_threads" else 1) == method


def test_the_main_module_comes_back():
    main = sys.modules["__main__"]
    with contextlib.suppress(ValueError), main_hidden():
        assert sys.modules["__main__"] is not main
        raise ValueError
    assert sys.modules["__main__"] is main


@pytest.mark.deep
def test_the_choice_is_made_when_the_workers_start(tmp_path):
    ran = run(
        tmp_path,
        """
import threading
import rlnb.envs
rlnb.envs.grown = 0  # what only a fork has

def grown(): return hasattr(rlnb.envs, "grown")

class Asked(Counter):
    forked = property(lambda self: grown())

env = ParallelEnv(1, lambda: Asked())
print(env.forked)
env.close()
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print(env.forked)
env.close()
""",
    )
    assert ran.lines == ["[True]", "[False]"]


@pytest.mark.parametrize("method", few(["fork", "forkserver", "spawn"]))
def test_what_was_registered_here_is_registered_there(tmp_path, method):
    ran = run(
        tmp_path,
        f"""
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
from rlnb.envs import GymEnv

class Mine(CartPoleEnv):
    pass

gymnasium.register("Mine-v0", Mine, max_episode_steps=4)
gymnasium.register("ByName-v0", "gymnasium.wrappers:Autoreset")  # never made
gymnasium.register("Unpicklable-v0", lambda: threading.Lock(), kwargs={{"lock": __import__("threading").Lock()}})
with ParallelEnv(2, lambda: GymEnv("Mine-v0"), mp_start_method={method!r}) as env:
    print(list(env.rollout(9).shape))
""",
    )
    assert ran.lines == ["[2, 4]"]


def test_only_what_is_missing_is_registered():
    import gymnasium

    registry = gymnasium.registry
    before = set(dump_registered())
    gymnasium.register("Mine-v0", "some.module:Env")
    pickled = dump_registered()
    try:
        assert set(pickled) - before == {"Mine-v0"}
        spec = registry.pop("Mine-v0")
        load_registered({**pickled, "CartPole-v1": pickled["Mine-v0"], "Broken-v0": b"cut short"})
        assert registry["Mine-v0"] == spec
        assert registry["CartPole-v1"].id == "CartPole-v1"
        assert "Broken-v0" not in registry
    finally:
        registry.pop("Mine-v0", None)
