"""check_env_specs: silent for correct envs, and one report of all problems for others."""

from __future__ import annotations

import re

import gymnasium
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import EnvBase, GymEnv, GymWrapper, check_env_specs


class Wrong(EnvBase):
    """Gets seven things wrong."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(
            position=Bounded(-1, 1, shape=(2,)), velocity=Unbounded(shape=(3,)), lost=Unbounded(shape=(1,))
        )
        self.action_spec = Categorical(3)

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"position": torch.zeros(2), "velocity": torch.zeros(4), "extra": torch.zeros(1)})

    def _step(self, tensordict):
        return TensorDict(
            {
                "position": torch.tensor([0.0, 3.5]),
                "velocity": torch.zeros(4).double(),
                "reward": torch.ones(2),
                "done": torch.tensor([True]),
                "terminated": torch.tensor([False]),
            }
        )

    def _set_seed(self, seed):
        pass


REPORT = """\
Wrong does not keep to its specs: 7 problems.

  seen at  entry     problem  expected                                              got
  reset    velocity  shape    [3]                                                   [4]
  reset    lost      missing  a tensor of shape [1] and dtype torch.float32         nothing
  reset    extra     extra    'position', 'velocity', 'lost', 'done', 'terminated'  Tensor
  step 1   position  domain   [-1, 1]                                               3.5 at index (1,)
  step 1   velocity  dtype    torch.float32                                         torch.float64
  step 1   reward    shape    [1]                                                   [2]
  step 1   done      domain   terminated, which is False                            True at index (0,)

What to do:
  - velocity: Change the data, or the shape of the spec.
  - lost: Write it before returning the data.
  - extra: Remove it, or add it to the spec: spec['extra'] = ...
  - position: Clip it with spec.project(value), or widen the bounds of the spec.
  - velocity: Cast it: value.to(torch.float32).
  - reward: Change the data, or the shape of the spec.
  - done: done is the union of the end signals: return terminated and truncated, and leave done out.

Or, if the data is right and the specs are wrong, specs that fit what was seen:
  env.observation_spec = Composite({
      'position': Bounded(-1, 3.5, shape=(2,), dtype=torch.float32),
      'extra': Unbounded(shape=(1,), dtype=torch.float32),
  }, shape=())
  env.reward_spec = Composite({
      'reward': Unbounded(shape=(2,), dtype=torch.float32),
  }, shape=())"""


def report_on(env, **kwargs) -> str:
    with pytest.raises(AssertionError) as caught:
        check_env_specs(env, **kwargs)
    return str(caught.value)


def test_everything_in_one_report():
    assert report_on(Wrong()) == REPORT


def test_the_proposed_code_runs_and_fits():
    class Repaired(Wrong):
        def _step(self, tensordict):
            return super()._step(tensordict).exclude("done").set("extra", torch.zeros(1))

        def _reset(self, tensordict=None, **kwargs):
            data = super()._reset(tensordict, **kwargs)
            return data.set("velocity", data["velocity"].double())

    env = Repaired()
    code = report_on(env).split("specs that fit what was seen:\n")[1]
    code = "\n".join(line[2:] for line in code.splitlines())
    exec(code, {"env": env, "torch": torch, "Composite": Composite, "Bounded": Bounded, "Unbounded": Unbounded})
    check_env_specs(env)


def test_entries_that_are_right_keep_their_spec_in_the_proposal(counter):
    def data():
        return {"right": torch.ones(1), "wrong": torch.ones(3)}

    env = counter(
        reset=lambda env: TensorDict(data()),
        step=lambda env, td: TensorDict({**data(), "reward": torch.ones(1), "done": torch.zeros(1) > 0}),
    )
    env.observation_spec = Composite(right=Unbounded(shape=(1,)), wrong=Bounded(0, 1, shape=(2,)))
    text = report_on(env)
    assert "'right': env.full_observation_spec['right']," in text
    assert "'wrong': Bounded(0, 1, shape=(3,), dtype=torch.float32)," in text


def test_no_proposal_where_no_spec_fits(counter):
    env = counter()
    env.observation_spec = Composite(observation=Unbounded(shape=(1,)), missing=Bounded(0, 1, shape=(2,)))
    text = report_on(env)
    assert "missing" in text and "specs that fit" not in text


def test_a_truncated_signal_that_the_spec_lacks(counter):
    def step(env, td):
        flags = {key: torch.zeros(1) > 0 for key in ("done", "terminated", "truncated")}
        return TensorDict({"observation": td["observation"], "reward": torch.ones(1), **flags})

    env = counter(step=step)
    text = report_on(env)
    assert text.endswith("specs that fit what was seen:\n  env.add_truncated_keys()")
    env.add_truncated_keys()
    check_env_specs(env)


@pytest.mark.parametrize(
    ("given", "what"),
    [("CartPole-v1", "a str"), (GymEnv, "the class GymEnv"), (gymnasium.make("CartPole-v1"), "a TimeLimit")],
)
def test_an_object_that_is_not_an_env_is_rejected(given, what):
    text = (
        f"check_env_specs checks an env of rlnb and got {what}. "
        "Fix: check_env_specs(GymEnv('CartPole-v1')), or GymWrapper(env) around one of Gymnasium."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        check_env_specs(given)


def test_a_seed_that_is_still_to_be_used_is_left():
    env = GymEnv("CartPole-v1")
    env.set_seed(7)
    expected = env.rollout(20)
    env.set_seed(7)
    check_env_specs(env)
    assert bool((env.rollout(20) == expected).all())


def test_the_seed_argument_is_used():
    env = GymEnv("FrozenLake-v1")
    seen = []
    env._set_seed = seen.append
    check_env_specs(env, seed=11)
    assert seen[0] == 11


@pytest.mark.parametrize(
    ("name", "spec", "value", "rows"),
    [
        ("nan", Bounded(-1, 1, shape=(2,)), torch.tensor([0.0, float("nan")]), "nan at index (1,)"),
        ("integer", Categorical(3), torch.tensor(3), "3"),
        ("lower", Bounded(0, 1, shape=(1,)), torch.tensor([-0.5]), "-0.5 at index (0,)"),
    ],
)
def test_values_out_of_their_domain(counter, name, spec, value, rows):
    def data():
        return {"observation": value.clone()}

    env = counter(
        reset=lambda env: TensorDict(data()),
        step=lambda env, td: TensorDict({**data(), "reward": torch.ones(1), "done": torch.zeros(1) > 0}),
    )
    env.observation_spec = Composite(observation=spec)
    text = report_on(env)
    assert "1 problem." in text and "reset    observation  domain" in text and rows in text


def test_dtype_can_be_left_out(counter):
    env = counter(reset=lambda env: TensorDict({"observation": torch.zeros(1).double()}))
    assert "torch.float64" in report_on(env)
    env.step_function = lambda env, td: TensorDict(
        {"observation": torch.zeros(1).double(), "reward": torch.ones(1), "done": torch.zeros(1) > 0}
    )
    env._unchecked = set()
    check_env_specs(env, check_dtype=False)


def test_a_gymnasium_env_that_lies_about_its_space(scripted, box):
    env = GymWrapper(scripted(box, observe=lambda t: box.sample() + 10))
    text = report_on(env)
    assert "observation  domain   [-1, 1]" in text and text.startswith(
        "GymWrapper does not keep to its specs: 1 problem."
    )


def test_all_that_is_wrong_with_a_dict_env(scripted):
    space = spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Discrete(3))
    env = GymWrapper(
        scripted(space, observe=lambda t: {"a": torch.full((2,), 2.0).numpy(), "b": t}, length=9),
        categorical_action_encoding=True,
    )
    text = report_on(env)
    assert "a      domain" in text and "b      domain" in text and "2 problems." in text


def test_generators_are_left_as_they_were():
    env = GymEnv("CartPole-v1")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    check_env_specs(env, seed=0)
    assert torch.equal(before, torch.get_rng_state())


def test_the_first_step_check_is_still_due_afterwards(counter):
    env = counter()
    with pytest.raises(AssertionError):
        check_env_specs(Wrong())
    check_env_specs(env)
    assert env.rollout(2).batch_size == (2,)
    wrong = Wrong()
    report_on(wrong)
    with pytest.raises(RuntimeError, match="first reset does not fit its specs"):
        wrong.reset()


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_batched_envs(counter, batch):
    check_env_specs(counter(batch))
    check_env_specs(counter(batch), return_contiguous=False)
