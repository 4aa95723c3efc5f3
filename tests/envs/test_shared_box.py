"""The loop of TorchRL's TensorDict page: two processes step envs by hand over one shared TensorDict.

What a step returns is right in both libraries; what reaches the other process depends on what is written where. A new
entry of a slice is not in the shared memory, and an old "next" that ``step`` is given prevails over what it computes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest
import torch

from rlnb.data import TensorDict
from rlnb.envs import GymEnv, step_mdp

STEPS = 4


def flat_step(env: GymEnv, box: TensorDict) -> None:
    """The page's container: observation, action, reward and done side by side."""
    box.update_(env.step(box.clone())["next"])


def ted_step(env: GymEnv, box: TensorDict) -> None:
    """A container with "next", as a rollout has it."""
    if box["next", "reward"].any():  # not before the first step
        box.update_(step_mdp(box))
    box["next"].update_(env.step(box.exclude("next"))["next"])


def worker(parent: Any, pipe: Any, box: TensorDict, seed: int, step: Callable[[GymEnv, TensorDict], None]) -> None:
    parent.close()
    env = GymEnv("Pendulum-v1")
    env.set_seed(seed)
    box.update_(env.reset())
    pipe.send("ready")
    while pipe.recv() == "step":
        step(env, box)
        pipe.send("step done")
    env.close()
    pipe.close()


def drive(box: TensorDict, step: Callable[[GymEnv, TensorDict], None], actions: torch.Tensor) -> TensorDict:
    """Step one env for each row of ``box`` in a process of its own, as the page does; return ``[envs, steps]``."""
    context = multiprocessing.get_context("fork")
    pipes, processes, out = [], [], []
    for i in range(len(box)):
        here, there = context.Pipe()
        process = context.Process(target=worker, args=(here, there, box[i], i, step), daemon=True)
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    for pipe in pipes:
        assert pipe.poll(60) and pipe.recv() == "ready"
    for t in range(STEPS):
        box["action"].copy_(actions[:, t])  # in place: box["action"] = ... would be another tensor
        for pipe in pipes:
            pipe.send("step")
        for pipe in pipes:
            assert pipe.poll(60) and pipe.recv() == "step done"
        out.append(box.clone())
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send("close")
        process.join(60)
        assert process.exitcode == 0
    assert not out[0].is_shared()
    return torch.stack(out, 1)


@pytest.fixture(scope="module")
def wanted() -> TensorDict:
    """What the same envs give in this process, for the same actions."""
    rows = []
    for seed in range(2):
        env = GymEnv("Pendulum-v1")
        env.set_seed(seed)
        rows.append(env.rollout(STEPS))
    return torch.stack(rows, 0).contiguous()


@pytest.fixture(autouse=True)
def forks(missing: Callable[..., Any]) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        missing("fork", "processes share memory with this one")


def empty(data: TensorDict) -> TensorDict:
    """Make the container: one row for each env, in shared memory."""
    return data[:, 0].clone().zero_().share_memory_()


def test_rewards_of_the_page_s_container(wanted: TensorDict) -> None:
    box = wanted.exclude("next")
    box["reward"] = wanted["next", "reward"]
    found = drive(empty(box), flat_step, wanted["action"])
    assert wanted["next", "reward"].all() and torch.equal(found["reward"], wanted["next", "reward"])
    assert torch.equal(found["observation"], wanted["next", "observation"]) and found.shape == (2, STEPS)


def test_rewards_of_a_container_with_next(wanted: TensorDict) -> None:
    found = drive(empty(wanted), ted_step, wanted["action"])
    assert (found == wanted).all()


def test_an_old_next_in_the_container_prevails_and_step_says_so(wanted: TensorDict) -> None:
    """The zeros of the container, which a clone takes along, are what an override of the step looks like."""
    env, box = GymEnv("Pendulum-v1"), empty(wanted)[0]
    env.set_seed(0)
    box.update_(env.reset())
    box["action"].copy_(wanted["action"][0, 0])
    with pytest.warns(UserWarning) as caught:
        zeros = env.step(box.clone())["next"]
    assert not zeros["reward"].any() and not zeros["observation"].any()
    assert [str(each.message) for each in caught] == [
        'The TensorDict given to step has a "next" with all that the step computes, so the result of the step is '
        'dropped: entries under "next" prevail. Likely they are of the step before, or of memory made to hold a step. '
        'Fix: env.step(td.exclude("next")).'
    ]


def test_a_step_into_the_container_itself(wanted: TensorDict) -> None:
    """Shared memory is locked, so that no entry is replaced by one that only this process sees."""
    env, container = GymEnv("Pendulum-v1"), empty(wanted.exclude("next"))
    env.reset()
    with pytest.raises(RuntimeError, match=r'this one is locked\. Fix: env\.step\(td\.exclude\("next"\)\)'):
        env.step(container[0])
    row = container[0].unlock_()
    assert "next" in env.step(row).keys() and "next" not in container.keys()  # noqa: SIM118 - TensorDict iterates over rows
