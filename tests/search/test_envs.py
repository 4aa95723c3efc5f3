"""A search works on any env that is stateless or can be copied, and leaves it unchanged."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import (
    CartPoleEnv,
    ConnectFourEnv,
    GridWorldEnv,
    GymEnv,
    ParallelEnv,
    PendulumEnv,
    SerialEnv,
    TicTacToeEnv,
    step_mdp,
)
from rlnb.search import MCTS, PUCT, Network, RandomRollout
from tests.pairwise import sampled

MAP = ["S.#.", ".H..", "...G"]
SMALL_MAP = ["S.H", "#.G"]
ROLLOUT = RandomRollout(max_steps=12)


@pytest.mark.parametrize(("one_hot", "mask"), sampled([True, False], [True, False], strength=1))
def test_a_grid_world_is_solved_by_searching_at_each_step(one_hot, mask):
    env = GridWorldEnv(SMALL_MAP, action_mask=mask, categorical_action_encoding=not one_hot, seed=0, max_steps=15)
    td, steps = env.reset(), 0
    search = MCTS(env, discount=0.9, evaluation=ROLLOUT, seed=0)
    while True:
        action = search.reset(td).run(80).best_action
        encoded = torch.nn.functional.one_hot(torch.tensor(action), 4) if one_hot else torch.tensor(action)
        after = env.step(td.set("action", encoded))
        td, steps = step_mdp(after), steps + 1
        if after["next", "done"]:
            break
    assert float(after["next", "reward"]) == 1 and steps == 3


@pytest.mark.parametrize("make", [CartPoleEnv, lambda: GymEnv("CartPole-v1")], ids=["CartPoleEnv", "GymEnv"])
def test_a_falling_pole_is_pushed_back_and_the_env_is_left_alone(make):
    env, twin = make(), None
    env.set_seed(0)
    td = env.reset()
    right = torch.tensor([0, 1])
    for _ in range(6):  # pushed to the right, the pole leans to the left
        td = step_mdp(env.step(td.set("action", right)))
    twin = copy.deepcopy(env)
    search = MCTS(env, value_range=(0, 20), evaluation=RandomRollout(max_steps=20), seed=0).reset(td).run(40)
    assert int(search.best_action) == 0
    for _ in range(2):
        one, other = env.step(td.set("action", right)), twin.step(td.clone().set("action", right))
        assert torch.equal(one["next", "observation"], other["next", "observation"])


def test_copies_continue_the_episode_exactly():
    env = GymEnv("CartPole-v1")
    env.set_seed(3)
    td = env.reset()
    search = MCTS(env, value_range=(0, 10), evaluation=RandomRollout(max_steps=5), seed=0).reset(td).run(30)
    node = int(search.nodes.children[0, 0, 1])
    grandchild = int(search.nodes.children[0, node, 0])
    for action in (1, 0):
        after = env.step(td.set("action", torch.nn.functional.one_hot(torch.tensor(action), 2)))
        td = step_mdp(after)
    found = search.game.observe(search.nodes.states[0, [grandchild]])
    assert torch.equal(found["observation"][0], td["observation"])
    assert search.nodes.reward[0, grandchild] == 1


def test_chance_is_drawn_once_for_each_node_and_the_env_draws_as_before():
    env = GridWorldEnv(MAP, slip=0.5, seed=0)
    td = env.reset()
    state = env.generator.get_state()
    one, other = (MCTS(env, evaluation=ROLLOUT, seed=1).reset(td).run(40) for _ in range(2))
    assert one.visits.tolist() == other.visits.tolist()
    assert torch.equal(env.generator.get_state(), state)


def test_a_stateless_env_and_its_rules_on_bits_grow_one_tree():
    from rlnb.search.env_game import EnvGame

    def network(td):
        cells = td["board"].flatten(1).float()
        weight = torch.arange(9.0)
        return cells * 0.3 + weight / 9, (cells * weight).sum(-1) / 40

    env = TicTacToeEnv()
    td = env.reset(TensorDict(batch_size=[2, 2]))
    fast, slow = (
        MCTS(game, rule=PUCT(), evaluation=Network(network)).reset(td).run(60) for game in (env, EnvGame(env))
    )
    assert fast.visits.shape == (2, 2, 9) and fast.best_action.shape == (2, 2)
    assert fast.visits.tolist() == slow.visits.tolist()
    np.testing.assert_allclose(fast.q_values, slow.q_values)


def test_a_new_episode_is_begun_without_a_tensordict():
    env = CartPoleEnv(seed=0)
    search = MCTS(env, value_range=(0, 10), evaluation=RandomRollout(max_steps=5), seed=0).reset().run(5)
    assert search.nodes.visits[0, 0] == 6
    assert env._state is None  # the env itself was not reset


class Locked(GridWorldEnv):
    """An env that cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle '_io.TextIOWrapper' object")


def fix(env_name, why):
    return (
        "A search tries actions and takes them back. It needs an env that keeps no state (its step reads all from the "
        f"TensorDict, as TicTacToeEnv's does) or one that copy.deepcopy can copy, and this {env_name} is neither: "
        f"{why}\nFix: search a single env in this process, such as GymEnv('CartPole-v1'), or give your env a "
        "__deepcopy__."
    )


CASES = {
    "not copyable": (Locked, fix("Locked", "TypeError: cannot pickle '_io.TextIOWrapper' object")),
    "continuous": (
        PendulumEnv,
        "A search tries one action after the other, so there must be a number of them, and the action_spec of this "
        "PendulumEnv is a BoundedContinuous of shape (1,). Fix: an env with a Categorical or OneHot action_spec of "
        "one action.",
    ),
    "batched": (
        lambda: CartPoleEnv(batch_size=[3]),
        "This CartPoleEnv keeps the states of a batch of [3] envs, and a search copies one episode at a time. Fix: an "
        "env without a batch_size, and a search for each.",
    ),
    "serial": (
        lambda: SerialEnv(2, CartPoleEnv),
        "This SerialEnv keeps the states of a batch of [2] envs, and a search copies one episode at a time. Fix: an "
        "env without a batch_size, and a search for each.",
    ),
    "no env": (
        lambda: 3,
        "A search takes an env or a Game, and got a int. Fix: MCTS(TicTacToeEnv()), or MCTS(GymWrapper(env)) for a "
        "Gymnasium env.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_env_that_cannot_be_searched(case):
    make, text = CASES[case]
    with pytest.raises(TypeError) as caught:
        MCTS(make())
    assert str(caught.value) == text


def test_workers_cannot_be_copied():
    env = ParallelEnv(2, CartPoleEnv)
    try:
        with pytest.raises(TypeError, match=r"keeps the states of a batch of \[2\] envs"):
            MCTS(env)
    finally:
        env.close(raise_if_closed=False)


def test_an_env_with_a_state_has_one_root():
    env = CartPoleEnv()
    with pytest.raises(ValueError) as caught:
        MCTS(env).reset(TensorDict({"observation": torch.zeros(2, 4)}, [2]))
    assert str(caught.value) == (
        "reset got a TensorDict of batch size [2], and this CartPoleEnv keeps one state, which is the only root that "
        "it can be searched from. Fix: search.reset(td) with what env.reset() or env.step() returned last."
    )


def test_an_episode_that_has_ended():
    env = GridWorldEnv(["SG"])
    after = env.rollout(1, lambda cell: torch.tensor([0, 0, 1, 0]))[-1]
    with pytest.raises(ValueError) as caught:
        MCTS(env).reset(after)
    assert str(caught.value) == (
        'The episode of root 0 has ended ("done" is True), so there is nothing to search. '
        "Fix: search.reset(env.reset())."
    )


def test_roots_that_grow_to_different_depths_are_searched_together():
    env = ConnectFourEnv(rows=8, columns=8)  # too large for bits, so the env itself is stepped
    boards = torch.full((2, 8, 8), -1, dtype=torch.int32)
    boards[1, :, 0] = torch.tensor([1, 0] * 4)  # one column is full: this root has seven actions
    roots = TensorDict({"board": boards}, [2])
    for given in (roots, env.reset(roots), env.reset(roots).exclude("done", "terminated", "truncated")):
        search = MCTS(env, evaluation=RandomRollout(max_steps=1), seed=0).reset(given).run(20)
        assert search.visits.sum(-1).tolist() == [20, 20] and search.visits[1, 0] == 0
    observed = search.game.observe(search.nodes.states[0, :21])
    assert observed["board"].shape == (21, 8, 8)
