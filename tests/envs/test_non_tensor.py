"""Non-tensor observations, such as text: resets, steps, rollouts, batches and Gymnasium's envs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, NonTensor, Unbounded
from rlnb.envs import (
    EnvBase,
    GymEnv,
    GymLikeEnv,
    GymWrapper,
    ParallelEnv,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
    step_mdp,
)

LETTERS = spaces.Text(8, charset="t0123456789")


SPACES = {
    "Text": LETTERS,
    "Dict": spaces.Dict(text=LETTERS, x=spaces.Box(0, 9, (2,)), deep=spaces.Dict(text=LETTERS)),
    "Tuple": spaces.Tuple([spaces.Box(0, 9, (2,)), LETTERS]),
}
KEYS = {"Text": "observation", "Dict": ("deep", "text"), "Tuple": ("observation", "1")}


class Talking(EnvBase):
    """Says what time it is."""

    def __init__(self, length=3):
        super().__init__()
        self.length = length
        self.observation_spec = Composite(
            {"x": Unbounded((1,)), "text": NonTensor(shape=(), example_data="hi"), "deep": {"text": NonTensor(())}}
        )
        self.action_spec = Categorical(2)

    def _observe(self):
        return {"x": torch.full((1,), float(self.t)), "text": f"t{self.t}", "deep": {"text": f"d{self.t}"}}

    def _reset(self, tensordict=None):
        self.t = 0
        return TensorDict(self._observe())

    def _step(self, tensordict):
        self.t += 1
        done = torch.tensor([self.t >= self.length])
        return TensorDict({**self._observe(), "reward": torch.ones(1), "done": done})

    def _set_seed(self, seed):
        pass


class Backend(gymnasium.Env):
    """The same for Gymnasium, with the text at different places."""

    def __init__(self, length=3, kind="Dict"):
        self.length, self.kind = length, kind
        self.observation_space, self.action_space = SPACES[kind], spaces.Discrete(2)
        self.x = np.zeros(2, np.float32)

    def _observe(self):
        text = f"t{self.t}"
        self.x[:] = self.t
        return {"Text": text, "Dict": {"text": text, "x": self.x, "deep": {"text": text}}, "Tuple": (self.x, text)}[
            self.kind
        ]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        return self._observe(), 1.0, self.t >= self.length, False, {}


def roots(length, steps):
    return [f"t{t % length}" for t in range(steps)]


def nexts(length, steps):
    return [f"t{t % length + 1}" for t in range(steps)]


def listed(data, key):
    value = data.get(key)
    return value.tolist() if hasattr(value, "tolist") else value


def rollout(env, steps=7, **kwargs):
    return env.rollout(steps, break_when_any_done=False, **kwargs)


# One env --------------------------------------------------------------------------------------------------------------

MAKERS = {
    "EnvBase": (Talking, "text"),
    "transformed": (lambda *args: TransformedEnv(Talking(*args), StepCounter()), "text"),
    **{kind: (lambda *args, k=kind: GymWrapper(Backend(*args, kind=k)), key) for kind, key in KEYS.items()},
}
everyone = pytest.mark.parametrize("name", MAKERS)


@everyone
def test_reset_and_step(name):
    make, key = MAKERS[name]
    env = make()
    td = env.reset()
    assert td[key] == "t0"
    td = env.rand_step(td)
    assert td[key] == "t0" and td[("next", *key) if isinstance(key, tuple) else ("next", key)] == "t1"
    assert step_mdp(td)[key] == "t1"


@everyone
@pytest.mark.parametrize("contiguous", [True, False])
def test_rollout(name, contiguous):
    make, key = MAKERS[name]
    found = rollout(make(), return_contiguous=contiguous)
    assert listed(found, key) == roots(3, 7) and listed(found["next"], key) == nexts(3, 7)
    assert listed(step_mdp(found), key) == nexts(3, 7)
    assert list(found["next"][key]) == nexts(3, 7)


@everyone
def test_step_and_maybe_reset(name):
    make, key = MAKERS[name]
    env, said = make(), []
    td = env.reset()
    for _ in range(7):
        said.append(td[key])
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert said == roots(3, 7)


@everyone
def test_check_env_specs(name):
    check_env_specs(MAKERS[name][0]())


def test_check_env_specs_sees_text_that_is_not_in_the_space():
    env = Backend()
    env.observation_space = spaces.Dict(text=spaces.Text(1), x=spaces.Box(0, 9, (2,)), deep=spaces.Dict(text=LETTERS))
    with pytest.raises(AssertionError, match=r"reset\s+text\s+domain\s+Text\(1, 1, .*\s+'t0'"):
        check_env_specs(GymWrapper(env))


@everyone
@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_in_a_batch(name, batch):
    make, key = MAKERS[name]
    with batch(2, [make, lambda: make(2)]) as env:
        assert env._block is None
        assert env.reset().get(key).tolist() == ["t0", "t0"]
        for contiguous in (True, False):
            found = rollout(env, return_contiguous=contiguous)
            assert listed(found, key) == [roots(3, 7), roots(2, 7)]
            assert listed(found["next"], key) == [nexts(3, 7), nexts(2, 7)]
        check_env_specs(env)


@pytest.mark.parametrize("mask", [[True, False], [False, True], [True, True]], ids=str)
def test_partial_resets(mask):
    env = SerialEnv(2, Talking)
    root = step_mdp(env.rand_step(env.reset()))
    found = env.reset(root.set("_reset", torch.tensor(mask).unsqueeze(-1)))
    assert found["text"] == [("t0" if reset else "t1") for reset in mask]
    assert found["deep", "text"] == [("d0" if reset else "d1") for reset in mask]


# Gymnasium's own batches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode), ids=lambda mode: mode.value)
def test_vector_envs(kind, mode):
    makers = [lambda: Backend(3, kind), lambda: Backend(2, kind)]
    env = GymWrapper(gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode))
    key = KEYS[kind]
    found = rollout(env)
    assert listed(found, key) == [roots(3, 7), roots(2, 7)]
    assert listed(found["next"], key) == [nexts(3, 7), nexts(2, 7)]
    if kind == "Dict":
        assert found["x"][..., 0].tolist() == [[int(text[1:]) for text in row] for row in listed(found, key)]
    check_env_specs(env)


def test_vector_envs_in_processes():
    never = gymnasium.vector.AutoresetMode.DISABLED
    vector = gymnasium.vector.AsyncVectorEnv(
        [Backend, lambda: Backend(2)], shared_memory=False, autoreset_mode=never, context="fork"
    )
    env = GymWrapper(vector)
    try:
        assert listed(rollout(env), "text") == [roots(3, 7), roots(2, 7)]
    finally:
        env.close()


def test_shared_memory_that_would_give_old_text():
    text = (
        r"^The observation 'text' has the space Text\(.*\), which an AsyncVectorEnv with shared_memory=True reads once "
        r"and never again\. Fix: vectorization_mode='sync', or shared_memory=False and "
        r"autoreset_mode=gymnasium\.vector\.AutoresetMode\.DISABLED\.$"
    )
    vector = gymnasium.vector.AsyncVectorEnv([Backend, Backend], context="fork")
    try:
        # What Gymnasium gives is not what the envs say.
        vector.reset()
        assert vector.step([0, 0])[0]["text"] != ("t1", "t1")
        with pytest.raises(ValueError, match=text):
            GymWrapper(vector)
    finally:
        vector.close()


# Other data -----------------------------------------------------------------------------------------------------------

OTHERS = {
    "Sequence": spaces.Sequence(spaces.Box(0, 1, (2,))),
    "stacked Sequence": spaces.Sequence(spaces.Discrete(3), stack=True),
    "Graph": spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
}


@pytest.mark.parametrize("space", OTHERS.values(), ids=OTHERS)
def test_other_spaces(scripted, space):
    given = []

    def observe(t):
        given.append(space.sample())
        return given[-1]

    env = GymWrapper(scripted(space, observe=observe, length=3))
    found = env.rollout(3)
    after = [row.get("observation").data for row in found["next"].unbind(0)]
    assert all(space.contains(value) and value is not own for value, own in zip(after, given[1:], strict=True))
    assert [repr(value) for value in after] == [repr(value) for value in given[1:]]
    check_env_specs(env)


def test_gym_like_backends():
    class Says:
        def reset(self):
            self.t = 0
            return {"text": "t0"}

        def step(self, action):
            self.t += 1
            return {"text": f"t{self.t}"}, 1.0, self.t >= 3, {}

    class SaysEnv(GymLikeEnv):
        def __init__(self):
            super().__init__(Says())
            self.observation_spec = Composite(text=NonTensor(()))
            self.action_spec = Categorical(2)

        def _set_seed(self, seed):
            pass

    env = SaysEnv()
    assert listed(rollout(env), "text") == roots(3, 7)
    check_env_specs(env)


def test_by_id():
    gymnasium.register("rlnb-test/Talking-v0", Backend)
    try:
        env = GymEnv("rlnb-test/Talking-v0", num_envs=2, kind="Text")
        assert listed(rollout(env, 4), "observation") == [roots(3, 4)] * 2
    finally:
        del gymnasium.registry["rlnb-test/Talking-v0"]
