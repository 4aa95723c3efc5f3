"""Common mistakes with actions, policies and the order of calls: each error explains the fix."""

from __future__ import annotations

import re

import gymnasium
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.data import Categorical, Composite
from rlnb.envs import CartPoleEnv, GymEnv, GymWrapper

ONE_HOT = GymEnv("CartPole-v1")
INDEX = GymEnv("CartPole-v1", categorical_action_encoding=True)
BOX = GymEnv("Pendulum-v1")

ACTIONS = {  # name: (env, action, error, text)
    "index for one-hot": (
        ONE_HOT,
        torch.tensor(1),
        ValueError,
        "The action 'action' must have shape (2,) and has (). An index was given where a one-hot vector of 2 is "
        "expected. Fix: env.action_spec.encode(index), or make the env with categorical_action_encoding=True.",
    ),
    "index with a dimension for one-hot": (
        ONE_HOT,
        torch.tensor([1]),
        ValueError,
        "The action 'action' must have shape (2,) and has (1,). An index was given where a one-hot vector of 2 is "
        "expected. Fix: env.action_spec.encode(index), or make the env with categorical_action_encoding=True.",
    ),
    "one-hot for index": (
        INDEX,
        torch.tensor([0, 1]),
        ValueError,
        "The action 'action' must have shape () and has (2,). A one-hot vector was given where an index (0 to 1) is "
        "expected. Fix: action.argmax(-1), or make the env without categorical_action_encoding=True.",
    ),
    "scores for one-hot": (
        ONE_HOT,
        torch.tensor([0.2, 0.8]),
        TypeError,
        "The action 'action' must have dtype torch.int64 and has torch.float32, which would cut the numbers off. "
        "Fix: if these are scores, env.action_spec.encode(scores.argmax(-1)) is the best action.",
    ),
    "float for index": (
        INDEX,
        torch.tensor(1.5),
        TypeError,
        "The action 'action' must have dtype torch.int64 and has torch.float32, which would cut the numbers off. "
        "Fix: action.long().",
    ),
    "two ones": (
        ONE_HOT,
        torch.tensor([1, 1]),
        ValueError,
        "The action [1, 1] is not one-hot: exactly one of its 2 numbers must be 1 and the others 0. "
        "Fix: env.action_spec.encode(index) makes one of an index.",
    ),
    "no one": (
        ONE_HOT,
        torch.tensor([0, 0]),
        ValueError,
        "The action [0, 0] is not one-hot: exactly one of its 2 numbers must be 1 and the others 0. "
        "Fix: env.action_spec.encode(index) makes one of an index.",
    ),
    "index out of range": (
        INDEX,
        torch.tensor(2),
        ValueError,
        "The action 2 is not an action of the env: it must be an integer from 0 to 1. "
        "Fix: is the policy's output as wide as the number of actions? See env.action_spec.",
    ),
    "a batch": (
        BOX,
        torch.zeros(7, 1),
        ValueError,
        "The action 'action' must have shape (1,) and has (7, 1). It has one dimension too many: is it a whole batch? "
        "Fix: action[0].",
    ),
    "a column": (
        INDEX,
        torch.tensor([1]),
        ValueError,
        "The action 'action' must have shape () and has (1,). It has one dimension too many at the end. "
        "Fix: action.squeeze(-1).",
    ),
    "something else": (
        BOX,
        torch.zeros(3),
        ValueError,
        "The action 'action' must have shape (1,) and has (3,). See env.action_spec.",
    ),
}


@pytest.mark.parametrize("way", ["step", "rollout", "rollout without out_keys"])
@pytest.mark.parametrize("name", ACTIONS)
def test_wrong_actions(name, way):
    env, action, error, text = ACTIONS[name]
    td = env.reset()
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        if way == "step":
            env.step(td.set("action", action))
        elif way == "rollout":
            env.rollout(3, TensorDictModule(lambda o: action, ["observation"], ["action"]))
        else:
            env.rollout(3, lambda td: td.set("action", action))
    assert "next" not in td
    assert env.rollout(3).batch_size == (3,)


@pytest.mark.parametrize("value", [True, 1])
def test_harmless_dtypes_are_taken(value):
    ONE_HOT.step(
        ONE_HOT.reset().set("action", torch.tensor([0, value], dtype=torch.bool if value is True else torch.int8))
    )
    BOX.step(BOX.reset().set("action", torch.zeros(1, dtype=torch.float64)))


def test_an_action_that_is_not_a_tensor_is_rejected():
    text = (
        "The action 'action' must be a tensor of dtype torch.int64 and is a str. Fix: env.action_spec.encode(action)."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        INDEX.step(INDEX.reset().set_non_tensor("action", "left"))


def test_no_action():
    td = INDEX.reset()
    text = (
        "step needs the action 'action', and the TensorDict has ['done', 'observation', 'terminated', 'truncated']. "
        "Fix: td = env.rand_action(td), or td['action'] = ..., before env.step(td)."
    )
    with pytest.raises(KeyError, match=re.escape(text)):
        INDEX.step(td)
    assert "next" not in td


def wrong_key(td):
    return td.set("act", torch.tensor(0))


def nothing(td):
    return td


LOGITS = TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"])
POLICIES = {
    "The policy wrong_key wrote no action: the env reads ['action'], and it wrote ['act']. ": wrong_key,
    "The policy nothing wrote no action: the env reads ['action'], and it wrote nothing new. ": nothing,
    "The policy TensorDictModule wrote no action: the env reads ['action'], and it wrote ['logits']. ": LOGITS,
}


@pytest.mark.parametrize("text", POLICIES)
def test_a_policy_without_an_action(text):
    fix = "Fix: let the policy write 'action', for example TensorDictModule(net, ['observation'], ['action'])."
    with pytest.raises(KeyError, match=re.escape(text + fix)):
        INDEX.rollout(3, POLICIES[text])


def test_step_before_reset():
    env = GymEnv("CartPole-v1")
    text = (
        "step was called before reset: GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None) has no state to "
        "step from. Fix: td = env.reset(), then write an action into td, then env.step(td)."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rand_step()


def test_after_close():
    env = GymEnv("CartPole-v1")
    td = env.rand_action(env.reset())
    env.close()
    text = "step was called on a closed GymEnv. Fix: td = env.reset(), which starts it again."
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.step(td)
    assert env.rollout(3).shape == (3,)


@pytest.mark.parametrize(
    ("env", "whose"),
    [(GymEnv("CartPole-v1"), "whose episode is"), (CartPoleEnv(batch_size=[2]), "all of whose episodes are")],
)
def test_a_step_of_an_env_that_is_done(env, whose):
    td = env.rand_action(env.reset()).set("done", torch.ones(*env.batch_size, 1, dtype=torch.bool))
    text = (
        f"step was called on a {type(env).__name__} {whose} over: 'done' is True, so there is no next state. Fix: "
        "td = env.maybe_reset(td) before the step, or env.step_and_maybe_reset(td), which resets by itself."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.step(td)
    assert "next" not in td
    td["done"][0] = False
    env.step(td)  # one of the batch may go on while the others wait


def test_a_policy_on_another_device():
    env = GymEnv("CartPole-v1", device="cpu")
    text = (
        "The policy Linear has its parameters on meta, and the data of the env is on cpu. "
        "Fix: policy.to('cpu'), or rollout(..., auto_cast_to_device=True)."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(2, torch.nn.Linear(4, 2, device="meta"))


UNKNOWN = {
    "CartPole-v7": "CartPole has the versions v0, v1. Fix: GymEnv('CartPole-v1').",
    "Cartpole-v1": "Did you mean CartPole-v1",
    "qqqqqqqqqqqq": "GymEnv.available_envs lists all ids.",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_env(name):
    text = f"There is no environment {name!r} in Gymnasium's registry"
    with pytest.raises(gymnasium.error.UnregisteredEnv, match=f"^{re.escape(text)}[.:] {re.escape(UNKNOWN[name])}"):
        GymEnv(name)


def test_wrapping_an_object_that_is_not_an_env():
    text = (
        "GymWrapper wraps a gymnasium.Env and got a str. "
        "Fix: GymWrapper(gymnasium.make('CartPole-v1')), or GymEnv('CartPole-v1')."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        GymWrapper("CartPole-v1")


def test_pixels_of_an_env_that_renders_none():
    text = (
        "from_pixels=True needs an env that renders frames, and this one has render_mode=None. "
        "Fix: gymnasium.make(id, render_mode='rgb_array'), or GymEnv(id, from_pixels=True)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        GymWrapper(gymnasium.make("CartPole-v1"), from_pixels=True)


# Envs whose data is not what their spaces say -------------------------------------------------------------------------

FIRST_DATA = {
    "shape": (
        lambda t: torch.zeros(4).numpy(),
        "The data of GymWrapper's first reset does not fit its specs:\n  - observation: expected shape [3], got [4].",
    ),
}


@pytest.mark.parametrize("name", FIRST_DATA)
def test_the_first_reset_is_checked(scripted, box, name):
    observe, text = FIRST_DATA[name]
    env = GymWrapper(scripted(box, observe=observe))
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        env.rollout(3)


@pytest.mark.parametrize("way", ["step", "rollout"])
def test_the_first_step_is_checked(scripted, box, way):
    env = GymWrapper(scripted(box, observe=lambda t: torch.zeros(3 + t).numpy()))
    text = "The data of GymWrapper's first step does not fit its specs:\n  - observation: expected shape [3], got [4]."
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        env.rollout(3) if way == "rollout" else env.rand_step(env.reset())


def test_the_first_step_of_an_own_env_is_checked(counter):
    data = {"observation": torch.zeros(1, dtype=torch.int64), "done": torch.zeros(1, dtype=torch.bool)}
    env = counter(step=lambda env, td: TensorDict(data))
    text = "The data of Counter's first step does not fit its specs:\n"
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}") as caught:
        env.rollout(3)
    said = str(caught.value)
    for entry in ("observation: expected dtype", "reward: missing"):
        assert f"  - {entry}" in said
    assert said.endswith("proposes specs that fit; run_type_checks=False disables this check.")


def test_a_locked_tensordict_changes_nothing():
    env = CartPoleEnv(seed=0)
    td = env.rand_action(env.reset())
    state = env._state.clone()
    for call in (env.reset, env.step):
        what = call.__name__
        given = {"reset": "td.clone()", "step": 'td.exclude("next")'}[what]
        text = f"{what} writes to the TensorDict that it is given, and this one is locked. Fix: env.{what}({given})."
        with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
            call(td.clone().lock_())
        assert torch.equal(env._state, state)


def test_a_base_that_was_not_made():
    class Forgetful(CartPoleEnv):
        def __init__(self):
            self.size = self.observation_spec.shape

    text = (
        "Forgetful.__init__ reads an attribute that EnvBase.__init__ sets. Fix: call "
        "super().__init__(batch_size=..., device=...) first."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        Forgetful()


def test_a_batch_size_that_is_a_number():
    text = "batch_size must be a sequence of integers, got 3. Fix: batch_size=[3]."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        CartPoleEnv(batch_size=3)


def test_an_end_signal_of_another_name():
    env = CartPoleEnv()
    env.done_spec = Composite(finished=Categorical(2, shape=(1,), dtype=torch.bool))
    text = (
        "done_spec has an entry 'finished', and the key of an end signal ends with one of "
        "('done', 'terminated', 'truncated'). Fix: rename it, or put it into observation_spec."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.reset()
