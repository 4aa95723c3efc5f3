"""JumanjiEnv and JumanjiWrapper beside Jumanji itself. Small envs: compiling a large one takes a minute."""

from __future__ import annotations

import functools
import subprocess
import sys

import jax
import jumanji
import numpy as np
import pytest
import torch

from rlnb.data import Binary, Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot
from rlnb.envs import ActionMask, JumanjiEnv, JumanjiWrapper, ParallelEnv, check_env_specs, step_mdp
from tests.libs.wrappers import assert_keeps_promises, assert_same


def small_snake(**kwargs):
    return JumanjiEnv("Snake-v1", num_rows=3, num_cols=3, **kwargs)


@pytest.fixture(scope="module")
def snake():
    return small_snake(batch_size=[2])


@pytest.fixture(scope="module")
def game_2048():
    return JumanjiEnv("Game2048-v1")


def test_the_wrapper_keeps_its_promises():
    # Each env would compile for itself.
    assert_keeps_promises(lambda: small_snake(batch_size=[2], jit=False), steps=4)


def test_specs_are_those_that_torchrl_documents(snake, game_2048):
    spec = snake.observation_spec
    assert isinstance(spec["grid"], Bounded) and spec["grid"].shape == (2, 3, 3, 5)
    assert isinstance(spec["action_mask"], Binary) and spec["action_mask"].shape == (2, 4)
    assert isinstance(spec["step_count"], Categorical) and spec["step_count"].dtype == torch.int32
    assert spec["state", "head_position", "row"].shape == (2,) and spec["state", "key"].dtype == torch.int32
    assert snake.state_spec["state"] == spec["state"] and snake.reward_spec.shape == (2, 1)
    assert isinstance(snake.action_spec, Categorical) and snake.action_spec.dtype == torch.int32
    check_env_specs(game_2048)


@pytest.mark.parametrize("batch_size", [(), (2,)])
def test_the_data_are_those_of_the_own_loop(batch_size):
    own = jumanji.make("Snake-v1", num_rows=3, num_cols=3)
    env = JumanjiWrapper(own, batch_size=batch_size)
    env.set_seed(7)
    rollout = env.rollout(12, break_when_any_done=False)
    reset, step = own.reset, own.step
    for _ in batch_size:
        reset, step = jax.vmap(reset), jax.vmap(step)
    reset, step = jax.jit(reset), jax.jit(step)

    def fresh(later):
        later, now = jax.random.split(later)
        return later, reset(jax.random.split(now, 2) if batch_size else now)

    later, (state, timestep) = fresh(jax.random.PRNGKey(7))
    for t in range(12):
        row = rollout[..., t]
        for name in timestep.observation._fields:
            np.testing.assert_array_equal(row[name], getattr(timestep.observation, name))
        state, timestep = step(state, row["action"].numpy())
        after, last = row["next"], np.asarray(timestep.last())
        np.testing.assert_array_equal(after["grid"], timestep.observation.grid)
        np.testing.assert_array_equal(after["state", "body_state"], state.body_state)
        np.testing.assert_array_equal(after["reward"].squeeze(-1), timestep.reward)
        np.testing.assert_array_equal(after["done"].squeeze(-1), last)
        np.testing.assert_array_equal(after["terminated"].squeeze(-1), last & (np.asarray(timestep.discount) == 0))
        if last.any():
            later, new = fresh(later)
            state, timestep = jax.tree_util.tree_map(functools.partial(merged, last), new, (state, timestep))
    assert rollout["next", "done"].any(), "some episodes end"


def merged(done, new, old):
    """Rows of new where done, else of old."""
    return jax.numpy.where(done.reshape(done.shape + (1,) * (old.ndim - done.ndim)), new, old)


def test_a_step_starts_from_any_earlier_data(snake):
    td = snake.rand_step(snake.reset())
    action = td["action"].clone()
    snake.rand_step(snake.maybe_reset(step_mdp(td)))
    again = snake.step(td.exclude("next").set("action", action))
    assert_same(again["next"], td["next"])


def test_without_compiling_the_data_are_the_same(game_2048):
    td = game_2048.rand_action(game_2048.reset())
    compiled = game_2048.step(td.clone())
    game_2048.jit = False
    try:
        assert_same(game_2048.step(td.clone())["next"], compiled["next"])
    finally:
        game_2048.jit = True


def test_masks_of_legal_actions_are_followed(game_2048):
    env = game_2048.append_transform(ActionMask())
    rollout = env.rollout(50)
    assert rollout["action_mask"].gather(-1, rollout["action"].long().unsqueeze(-1)).all()
    assert not rollout["action_mask"].all()


@pytest.mark.parametrize(("categorical", "kinds"), [(True, MultiCategorical), (False, MultiOneHot)])
def test_several_choices_at_once(categorical, kinds):
    env = JumanjiEnv("Minesweeper-v0", categorical_action_encoding=categorical)
    assert isinstance(env.action_spec, kinds)
    check_env_specs(env)
    td = env.rand_action(env.reset())
    choice = td["action"] if categorical else env.action_spec.to_categorical(td["action"])
    board = env.step(td)["next", "board"]
    assert board[tuple(choice.tolist())] >= -1 and (board != -1).sum() == 1, "the chosen cell is open"


def test_one_hot_actions_are_the_same_moves(snake):
    one_hot = small_snake(batch_size=[2], categorical_action_encoding=False)
    assert isinstance(one_hot.action_spec, OneHot)
    check_env_specs(one_hot)
    td = snake.reset()
    action = torch.tensor([1, 2], dtype=torch.int32)
    want = snake.step(td.clone().set("action", action))["next", "grid"]
    start = one_hot.reset()
    start["state"] = td["state"]
    found = one_hot.step(start.set("action", torch.nn.functional.one_hot(action.long(), 4).int()))["next", "grid"]
    assert torch.equal(found, want)


def test_a_reward_for_each_agent():
    env = JumanjiEnv("LevelBasedForaging-v0", jit=False)
    check_env_specs(env)
    assert env.reward_spec.shape == (2,) and env.rollout(2)["next", "reward"].shape == (2, 2)


def test_frames(snake):
    td = snake.reset()
    frame = snake.render()
    assert frame.dtype == np.uint8 and frame.shape[-1] == 3 and frame.std() > 0
    snake.rand_step(td.clone())
    assert np.array_equal(snake.render(td), frame)
    import matplotlib.pyplot

    assert not matplotlib.pyplot.get_fignums(), "no figure is left"


def test_names_and_objects_that_are_not_an_env(game_2048):
    assert {"Snake-v1", "Game2048-v1"} < set(JumanjiEnv.available_envs)
    assert repr(game_2048) == "JumanjiEnv(env=Game2048-v1, batch_size=torch.Size([]), device=None)"
    with pytest.raises(ValueError, match=r"^There is no environment 'Snak-v1' in Jumanji. Did you mean 'Snake-v1'"):
        JumanjiEnv("Snak-v1")
    with pytest.raises(TypeError) as error:
        JumanjiWrapper("Snake-v1")
    assert str(error.value) == (
        "JumanjiWrapper wraps an environment of Jumanji and got a str. "
        'Fix: JumanjiWrapper(jumanji.make("Snake-v1")), or JumanjiEnv("Snake-v1").'
    )
    with pytest.raises(KeyError) as error:
        game_2048.step(game_2048.rand_action(game_2048.reset()).exclude("state"))
    assert error.value.args[0] == (
        "A step of Jumanji starts from the state in the TensorDict, the entry 'state', and there is none. "
        "Fix: td = env.reset(), or keep the entry: step_mdp(td)."
    )


def test_workers():
    env = ParallelEnv(1, lambda: small_snake(jit=False), mp_start_method="spawn")
    try:
        assert env.rollout(3, break_when_any_done=False).batch_size == (1, 3)
    finally:
        env.close()


def test_it_is_imported_in_a_notebook_without_a_backend_of_matplotlib_that_it_asks_for():
    program = (
        "import builtins; builtins.__IPYTHON__ = True\n"
        "from rlnb.envs import JumanjiEnv\n"
        "JumanjiEnv('Snake-v1'); print(builtins.__IPYTHON__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n", done.stderr
