"""Resets of some envs, and their keyword arguments."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import CartPoleEnv, GymEnv, ParallelEnv, PendulumEnv, SerialEnv, SpreadEnv, TicTacToeEnv
from tests.envs.batched.kinds import Counter

KINDS = {
    "rows": lambda: GymEnv("Pendulum-v1"),
    "torch": CartPoleEnv,
    "stateless": PendulumEnv,
    "counter": Counter,
}


@pytest.fixture(scope="module", params=["serial", "parallel", "two a process", "messages"])
def made(request):
    """Make batches of one kind, each kind once."""
    options = {"two a process": {"num_processes": 2}, "messages": {"use_buffers": False}}.get(request.param, {})
    batch, known = SerialEnv if request.param == "serial" else ParallelEnv, {}

    def get(kind, n=3):
        if (kind, n) not in known:
            known[kind, n] = batch(n, KINDS[kind], **options)
        return known[kind, n]

    yield get
    for env in known.values():
        env.close()


@pytest.mark.parametrize("kind", KINDS)
def test_partial_reset(made, kind):
    env = made(kind)
    env.set_seed(0)
    td = env.rollout(3)[:, -1].get("next").exclude("reward")
    before = td.clone()
    after = env.reset(td.set("_reset", torch.tensor([[True], [False], [True]])))
    assert "_reset" not in after
    key = env.observation_keys[0]
    assert torch.equal(after[1][key], before[1][key])
    assert not torch.equal(after[0][key], before[0][key]) and not torch.equal(after[2][key], before[2][key])


def test_only_the_marked_envs_are_reset(made):
    env = made("counter")
    td = env.reset()
    resets = env.resets
    td = env.rand_step(td)
    td = env._step_mdp(td).set("_reset", torch.tensor([[False], [True], [False]]))
    td = env.reset(td)
    assert env.resets == [resets[0], resets[1] + 1, resets[2]]
    assert td["count"].tolist() == [[1.0], [0.0], [1.0]]
    assert env.rand_step(td)["next", "count"].tolist() == [[2.0], [1.0], [2.0]]


def test_nothing_marked(made):
    env = made("counter")
    td, resets = env.reset(), env.resets
    env.reset(td.set("_reset", torch.zeros(3, 1, dtype=torch.bool)))
    assert env.resets == resets


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_nested_partial_reset(batch):  # "_reset" of single agents
    with batch(2, lambda: SpreadEnv(2, 3, agent_done=True, max_steps=30)) as env:
        env.set_seed(0)
        td = env._step_mdp(env.rollout(2)[:, -1])
        level = next(key[:-1] for key in env.reset_keys if isinstance(key, tuple))
        mask = torch.tensor([[[True], [False]], [[False], [False]]])
        before = td.clone()
        after = env.reset(td.set((*level, "_reset"), mask))
        seen = next(key for key in env.observation_keys if isinstance(key, tuple))
        assert (*level, "_reset") not in after.keys(True)
        assert not torch.equal(after[seen][0, 0], before[seen][0, 0])
        assert torch.equal(after[seen][0, 1], before[seen][0, 1]) and torch.equal(after[seen][1], before[seen][1])


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_wrong_masks_are_refused(batch):
    with batch(2, Counter) as env:
        td = env.reset()
        with pytest.raises(ValueError, match="The mask '_reset' must have the shape and dtype of 'done', "):
            env.reset(td.clone().set("_reset", torch.ones(2, dtype=torch.bool)))
        assert env.resets == [1, 1]


def test_keyword_arguments(made):
    env = made("counter")
    env.reset(place="here")
    assert [options[-1] for options in env.options] == [{"place": "here"}] * 3
    env.reset(list_of_kwargs=[{"place": 0}, {}, {"place": 2}], time=1)
    assert [o[-1] for o in env.options] == [{"time": 1, "place": 0}, {"time": 1}, {"time": 1, "place": 2}]


def test_keyword_arguments_of_envs_that_are_not_reset_are_ignored(made):
    env = made("counter")
    td = env.reset().set("_reset", torch.tensor([[False], [True], [False]]))
    before = [len(options) for options in env.options]
    env.reset(td, list_of_kwargs=[{"place": i} for i in range(3)])
    assert [len(options) for options in env.options] == [before[0], before[1] + 1, before[2]]
    assert env.options[1][-1] == {"place": 1}


def test_seeds_at_reset(made):
    env = made("rows")
    seen = env.reset(list_of_kwargs=[{"seed": 1}, {"seed": 1}, {"seed": 2}])["observation"]
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])
    assert torch.equal(seen[0], GymEnv("Pendulum-v1").reset(seed=1)["observation"])
    again = env.rand_step(env.reset())
    assert not torch.equal(again["next", "observation"][0], again["next", "observation"][1])


def test_wrong_lists(made):
    env = made("counter")
    with pytest.raises(ValueError) as caught:
        env.reset(list_of_kwargs=[{}])
    assert str(caught.value) == (
        "list_of_kwargs must have one value for each of the 3 envs, got a list of 1. "
        "Fix: a list of that length, or a single value for all envs."
    )
    with pytest.raises(TypeError) as caught_type:
        env.reset(list_of_kwargs=[{}, 1, {}])
    assert str(caught_type.value) == "list_of_kwargs must hold keyword arguments by name, got a int for env 1."


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_stateless_envs_go_on_from_what_they_are_given(batch):
    with batch(2, PendulumEnv) as env:
        td = env.reset()
        a = env.step(td.clone().set("action", torch.zeros(2, *env.action_spec.shape[1:])))
        env.rollout(3)
        b = env.step(td.clone().set("action", torch.zeros(2, *env.action_spec.shape[1:])))
        assert (a == b).all()


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_a_game_goes_on_from_a_board(batch):
    with batch(2, TicTacToeEnv) as env:
        played = env._step_mdp(env.rand_step(env.reset()))
        board = played["board"]
        given = TensorDict({"board": board}, [2])
        assert torch.equal(env.reset(given)["board"], board)
        marked = played.clone().set("_reset", torch.tensor([[True], [False]]))
        after = env.reset(marked)["board"]
        assert not torch.equal(after[0], board[0]) and torch.equal(after[1], board[1])
