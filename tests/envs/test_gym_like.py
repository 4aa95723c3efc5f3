"""GymLikeEnv: backends of several dialects, read by overriding the part that differs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, OneHot, Unbounded
from rlnb.envs import GymLikeEnv, GymWrapper, check_env_specs
from rlnb.envs.gym_like import BaseInfoDictReader, default_info_dict_reader


class Backend:
    """Counts to three; every answer can be replaced."""

    def __init__(self, step=None, reset=None):
        self.answer, self.start, self.actions, self.closed, self.unit = step, reset, [], False, "metre"

    def reset(self, **kwargs):
        self.t, self.kwargs = 0, kwargs
        return self.start(self) if self.start else [0.0]

    def step(self, action):
        self.actions.append(action)
        self.t += 1
        return self.answer(self) if self.answer else ([float(self.t)], 1.0, self.t >= 3, {})

    def close(self):
        self.closed = True


class Like(GymLikeEnv):
    def __init__(self, backend, observation=None, action=None, **kwargs):
        super().__init__(backend, **kwargs)
        batch = tuple(self.batch_size)
        self.observation_spec = observation or Composite(observation=Unbounded(shape=(*batch, 1)), shape=batch)
        self.action_spec = action or OneHot(3, dtype=torch.int64)

    def _set_seed(self, seed):
        self.seeded = seed


def test_a_backend_of_the_old_kind():
    backend = Backend()
    env = Like(backend)
    check_env_specs(env)
    data = env.rollout(10)
    assert data.batch_size == (3,) and data["next", "observation"].flatten().tolist() == [1, 2, 3]
    assert data["next", "terminated"].flatten().tolist() == [False, False, True]
    assert not data["next", "truncated"].any() and data["next", "reward"].shape == (3, 1)
    assert [int(action) for action in backend.actions[-3:]] == data["action"].argmax(-1).tolist()
    assert data["observation"].dtype == torch.float32  # the spec's, and not numpy's


ENDS = {
    "done": ((True, {}), (True, False)),
    "done, of a time limit": ((True, {"TimeLimit.truncated": True}), (False, True)),
    "done, not of a time limit": ((True, {"TimeLimit.truncated": False}), (True, False)),
    "terminated": ((True, False, {}), (True, False)),
    "truncated": ((False, True, {}), (False, True)),
    "both": ((np.bool_(True), torch.tensor(True), {}), (True, True)),
    "none": ((False, False, {}), (False, False)),
}


@pytest.mark.parametrize("name", ENDS)
def test_end_signals(name):
    given, (terminated, truncated) = ENDS[name]
    env = Like(Backend(step=lambda b: ([0.0], 0.0, *given)))
    after = env.rand_step(env.reset())["next"]
    got = (after["terminated"].item(), after["truncated"].item(), after["done"].item())
    assert got == (terminated, truncated, terminated or truncated)


def test_read_done():
    env = Like(Backend(), batch_size=[2], action=OneHot(3, shape=(2, 3), dtype=torch.int64))
    for given, want in [
        ({"done": [True, False]}, ([True, False], [False, False], [True, False], True)),
        ({"done": [True, True], "truncated": [False, True]}, ([True, False], [False, True], [True, True], True)),
        ({"terminated": [False, False]}, ([False] * 2, [False] * 2, [False] * 2, False)),
        ({"truncated": torch.tensor([[True], [False]])}, ([False] * 2, [True, False], [True, False], True)),
    ]:
        *ends, over = env.read_done(**given)
        assert [end.flatten().tolist() for end in ends] == list(want[:3]) and over is want[3]
        assert all(end.shape == (2, 1) and end.dtype == torch.bool for end in ends)
    text = "The backend's step gave no end signal: read_done needs terminated, truncated or done."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.read_done()


def test_dictionaries_become_entries_and_the_rest_is_called_observation():
    observation = Composite(position=Unbounded(shape=(2,)), inner=Composite(flag=Categorical(2, dtype=torch.bool)))
    answer = {"position": np.array([1.0, 2.0]), "inner": {"flag": True}}
    env = Like(Backend(step=lambda b: (answer, 1, False, {}), reset=lambda b: (answer, {"ignored": 3})), observation)
    check_env_specs(env)
    data = env.rollout(2)
    assert data["inner", "flag"].tolist() == [True, True] and data["next", "position"].tolist() == [[1, 2]] * 2
    assert "ignored" not in data and list(Like(Backend()).read_obs([1.0])) == ["observation"]


def test_the_backends_memory_is_copied():
    memory = np.zeros(1, np.float32)
    tensor = torch.zeros(1)
    for shared in (memory, tensor):
        env = Like(Backend(reset=lambda b, s=shared: s))
        td = env.reset()
        shared[0] = 9
        assert td["observation"].item() == 0


def test_infos_are_read_by_readers_only():
    def make():
        return Like(Backend(step=lambda b: ([0.0], 1.0, b.t >= 3, {"speed": b.t / 2, "_hidden": b.t, "text": "x"})))

    assert set(make().rollout(3)["next"].keys()) == {"done", "observation", "reward", "terminated", "truncated"}
    env = make()
    assert env.set_info_dict_reader() is env and len(env.info_dict_reader) == 1
    data = env.rollout(3)
    assert data["next", "speed"].tolist() == [0.5, 1.0, 1.5] and "_hidden" not in data["next"]
    env = make().auto_register_info_dict(ignore_private=False)
    check_env_specs(env)
    assert env.rollout(3)["_hidden"].tolist() == [0, 1, 2]
    env = make().auto_register_info_dict(info_dict_reader=default_info_dict_reader(["speed"]))
    check_env_specs(env)
    assert set(env.observation_keys) == {"observation", "speed"}


def test_a_function_as_reader_and_a_reader_of_ones_own():
    infos = Backend(step=lambda b: ([0.0], 1.0, b.t >= 3, {"deep": {"speed": b.t}}))

    class Deep(BaseInfoDictReader):
        info_spec = Composite(speed=Unbounded(shape=(), dtype=torch.int64))

        def __call__(self, info_dict, tensordict):
            if info_dict:
                tensordict.set("speed", torch.tensor(info_dict["deep"]["speed"]))
            return tensordict

    def read(info, td):
        td.set("twice", torch.tensor(2 * info.get("deep", {"speed": 0})["speed"]))

    env = Like(infos).auto_register_info_dict(info_dict_reader=Deep()).set_info_dict_reader(read)
    data = env.rollout(3)
    assert data["next", "speed"].tolist() == [1, 2, 3] and data["next", "twice"].tolist() == [2, 4, 6]
    assert set(env.observation_keys) == {"observation", "speed"}


def test_finding_out_the_infos_costs_torchs_generator_nothing():
    env = Like(Backend(step=lambda b: ([0.0], 1.0, False, {"speed": 1.0})))
    before = torch.get_rng_state()
    env.set_info_dict_reader()
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(RuntimeError, match=r"^step was called before reset"):
        env.step(TensorDict({"action": torch.tensor([1, 0, 0])}))


def test_frame_skip():
    backend = Backend()
    env = Like(backend, frame_skip=2)
    data = env.rollout(5)
    assert data["next", "reward"].flatten().tolist() == [2, 1] and len(backend.actions) == 3
    with pytest.raises(ValueError, match=r"^frame_skip must be a positive integer and is 0\.$"):
        Like(Backend(), frame_skip=0)


def test_several_actions_go_to_the_backend_as_a_dictionary():
    backend = Backend()
    env = Like(backend, action=Composite(move=OneHot(3, dtype=torch.int64), force=Unbounded(shape=(2,))))
    td = env.rand_step(env.reset())
    taken = backend.actions[0]
    assert sorted(taken) == ["force", "move"] and taken["move"] == td["move"].argmax()
    assert np.array_equal(taken["force"], td["force"].numpy())


def test_overriding_what_takes_a_step_apart():
    class Terse(Like):
        def _output_transform(self, step_outputs_tuple):
            observation, done = step_outputs_tuple
            return observation, -1.0, done, None, None, {}

        def read_action(self, action):
            return "abc"[int(action.argmax())]

    backend = Backend(step=lambda b: ([b.t], b.t >= 2))
    env = Terse(backend)
    data = env.rollout(5)
    assert data["next", "reward"].flatten().tolist() == [-1, -1]
    assert backend.actions == ["abc"[i] for i in data["action"].argmax(-1)]


@pytest.mark.parametrize("outputs", [[[0.0], 1.0, False, {}], ([0.0], 1.0, False), None])
def test_a_step_of_another_form_is_refused(outputs):
    env = Like(Backend(step=lambda b: outputs))
    got = "a tuple of 3" if isinstance(outputs, tuple) else f"a {type(outputs).__name__}"
    text = (
        "The step of a gym-like backend returns (observation, reward, done, info) or (observation, reward, terminated, "
        f"truncated, info), and that of Like(env=Backend, batch_size=torch.Size([]), device=None) returned {got}. "
        "Fix: override _output_transform, which takes it apart."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        env.rand_step(env.reset())


@pytest.mark.parametrize(("batch", "reward"), [((), [1.0, 2.0]), ((), "much"), ((2,), 1.0), ((2,), None)])
def test_rewards_of_the_wrong_size_are_refused(batch, reward):
    zeros = np.zeros((*batch, 1))
    backend = Backend(step=lambda b: (zeros, reward, np.zeros(batch, bool), {}), reset=lambda b: zeros)
    env = Like(backend, action=OneHot(3, shape=(*batch, 3)), batch_size=batch)
    what, kind = ("2 numbers", "an array of 2 numbers") if batch else ("one number", "a float")
    text = (
        f"The reward must be {what} and is {reward!r}. Fix: let the env's step return (observation, reward, "
        f"terminated, truncated, info) with {kind} as reward."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rand_step(env.reset())


def test_a_batch_is_reset_as_a_whole_or_not_at_all():
    def step(backend):
        return np.full((2, 1), backend.t), np.ones(2), np.array([backend.t >= 2, backend.t >= 3]), {}

    env = Like(
        Backend(step=step, reset=lambda b: np.zeros((2, 1))),
        action=OneHot(3, shape=(2, 3), dtype=torch.int64),
        batch_size=[2],
    )
    data = env.rollout(9)
    assert data.batch_size == (2, 2) and data["next", "done"][:, -1].flatten().tolist() == [True, False]
    text = (
        "Like cannot reset some envs of its batch and leave the others: its backend resets all at once. Fix: override "
        "_restart(tensordict, **kwargs), or stop at the first end, env.rollout(n, break_when_any_done=True)."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(9, break_when_any_done=False)


def test_the_backend_is_reached_and_closed():
    backend = Backend()
    env = Like(backend)
    env.reset(options={"level": 2})
    assert backend.kwargs == {"options": {"level": 2}} and env.unit == "metre"
    assert repr(env) == "Like(env=Backend, batch_size=torch.Size([]), device=None)"
    with pytest.raises(AttributeError, match=r"^Neither Like nor the Backend in it has an attribute 'colour'\.$"):
        _ = env.colour
    env.close()
    assert backend.closed and env.is_closed


def test_gym_wrappers_are_gym_like():
    assert issubclass(GymWrapper, GymLikeEnv)
    import rlnb.envs

    assert rlnb.envs.GymLikeEnv is GymLikeEnv
    assert rlnb.envs.default_info_dict_reader is default_info_dict_reader


def test_a_constructor_that_failed_leaves_an_object_that_can_be_asked():
    class Failing(GymLikeEnv):
        def __init__(self):
            raise ValueError("no backend")

        def _set_seed(self, seed):
            pass

        def _backend_name(self):
            return self.name

    unmade = Failing.__new__(Failing)
    assert not hasattr(unmade, "is_closed") and not hasattr(unmade, "name")
