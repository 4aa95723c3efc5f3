"""DMControlWrapper around a stand-in with dm_control's interface, and errors for missing packages and tasks.

The stand-in follows dm_control 1.0's ``rl.control.Environment`` and dm_env 1.6, described in
https://github.com/google-deepmind/dm_env/blob/master/docs/index.md. tests/libs/test_dm_control.py has the real library.
"""

from __future__ import annotations

import re
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlnb.envs import DMControlEnv, DMControlWrapper, check_env_specs
from rlnb.envs.libs import dm_control


def step_of(kind, observation, reward=None, discount=None):
    return SimpleNamespace(
        observation=observation,
        reward=reward,
        discount=discount,
        last=lambda: kind == "last",
        first=lambda: kind == "first",
    )


def array(shape, dtype=np.float64, **bounds):
    return SimpleNamespace(shape=shape, dtype=np.dtype(dtype), **bounds)


class Physics:
    """Renders the number of the step."""

    model = SimpleNamespace(ncam=0)

    def __init__(self):
        self.t, self.asked, self.failure = 0, [], None

    def render(self, **camera):
        self.asked.append(camera)
        if self.failure is not None:
            raise self.failure
        return np.full((camera["height"], camera["width"], 3), self.t, np.uint8)


class Environment:
    """Ends after four steps: by its task if ``dies``, otherwise by the time."""

    def __init__(self, dies=False, flat=False, seeded=True):
        self.dies, self.flat, self.physics = dies, flat, Physics()
        self.task = SimpleNamespace(random=np.random.RandomState()) if seeded else SimpleNamespace()
        self.t = None

    def observation_spec(self):
        if self.flat:
            return array((2,))
        return {
            "place": array((2,)), "height": array(()), "touch": array((), bool), "count": array((), np.int32),
            "arm": {"angle": array((1,), np.float32, minimum=-1, maximum=1)},
        }  # fmt: skip

    def action_spec(self):
        return array((2,), minimum=np.array([-1, -2]), maximum=1)

    def _see(self):
        self.physics.t = self.t
        if self.flat:
            return np.array([self.t, self.start], float)
        return {
            "place": np.array([self.t, self.start], float), "height": np.float64(self.t), "touch": self.t > 2,
            "count": self.t, "arm": {"angle": np.array([0.5], np.float32)},
        }  # fmt: skip

    def reset(self):
        self.t, self.start = 0, getattr(self.task, "random", np.random).uniform()
        return step_of("first", self._see())

    def step(self, action):
        if self.t in (None, 4):
            return self.reset()
        assert action.dtype == np.float64 and action.shape == (2,)
        self.t += 1
        last = self.t == 4
        return step_of("last" if last else "mid", self._see(), action[0], 0.0 if last and self.dies else 1.0)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("dies", [True, False])
def test_steps_are_entries_and_the_discount_tells_how_it_ends(dies, rows):
    env = DMControlWrapper(Environment(dies))
    check_env_specs(env)
    env.run_type_checks = not rows
    assert env._fills_rows is rows
    data = env.rollout(6, break_when_any_done=False)
    assert data["next", "place"][:, 0].tolist() == [1, 2, 3, 4, 1, 2]
    assert data["next", "height"].tolist() == [[1], [2], [3], [4], [1], [2]]
    assert data["next", "touch"].squeeze(-1).tolist() == [False, False, True, True, False, False]
    assert data["next", "count"].dtype is torch.int32 and data["arm", "angle"].shape == (6, 1)
    assert torch.equal(data["next", "reward"], data["action"][:, :1]) and data["next", "reward"].dtype is torch.float64
    ends = [False, False, False, True, False, False]
    assert data["next", "terminated" if dies else "truncated"].squeeze(-1).tolist() == ends
    assert not data["next", "truncated" if dies else "terminated"].any()


def test_specs_are_those_of_the_library():
    env = DMControlWrapper(Environment())
    assert env.action_spec.low.tolist() == [-1, -2] and env.action_spec.dtype is torch.float64
    assert env.observation_spec["place"].dtype is torch.float64 and env.observation_spec["arm", "angle"].low == -1
    flat = DMControlWrapper(Environment(flat=True))
    check_env_specs(flat)
    assert list(flat.observation_spec.keys()) == ["observation"]


def test_a_step_after_the_end_is_refused():
    env = DMControlWrapper(Environment())
    env.rollout(4)
    with pytest.raises(RuntimeError) as caught:
        env._env.step(np.zeros(2))
    assert str(caught.value) == (
        "step was called on an environment of dm_control whose episode is over, and it began the next one. "
        "Fix: env.reset(), or env.step_and_maybe_reset(td)."
    )


def test_seeds_repeat():
    found = []
    for seed in (3, 3, 4, 2**63):
        env = DMControlWrapper(Environment())
        env.set_seed(seed)
        found.append(env.reset()["place"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert found[0][1] == np.random.RandomState(3).uniform()
    env = DMControlWrapper(Environment(seeded=False))
    env.set_seed(3)
    with pytest.raises(RuntimeError) as caught:
        env.reset()
    assert str(caught.value) == (
        "SimpleNamespace has no random generator that could be seeded. "
        "Fix: DMControlEnv(domain, task), or an env whose task has an attribute `random`."
    )


@pytest.mark.parametrize("pixels_only", [True, False])
def test_frames(pixels_only):
    inner = Environment()
    env = DMControlWrapper(inner, from_pixels=True, pixels_only=pixels_only, height=4, width=5)
    check_env_specs(env)
    assert env.rollout(3)["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert ("place" in env.observation_spec.keys()) is not pixels_only  # noqa: SIM118
    assert env.render().shape == (4, 5, 3)
    assert inner.physics.asked[-1] == {"height": 4, "width": 5, "camera_id": -1}  # the model has no camera 0


def test_without_a_renderer_the_error_says_what_to_install(monkeypatch):
    env = DMControlWrapper(Environment())
    env.reset()
    env.physics.failure = OSError("no libOSMesa\nlong story")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(RuntimeError) as caught:
        env.render()
    rest = (
        " Without a display it needs EGL or OSMesa. Fix: apt-get install libegl1 (or libosmesa6), and set "
        "MUJOCO_GL=egl (or osmesa) before Python starts."
    )
    assert str(caught.value) == f"dm_control cannot render frames with MUJOCO_GL=osmesa: no libOSMesa.{rest}"
    monkeypatch.delenv("MUJOCO_GL")
    env.physics.failure = AttributeError()
    with pytest.raises(RuntimeError, match=r"^dm_control cannot render frames with MUJOCO_GL is not set: AttributeErr"):
        env.render()
    env.physics.failure = ValueError("Camera 7 does not exist")
    with pytest.raises(ValueError, match=r"^Camera 7 does not exist$"):
        env.render()


def test_everything_else_is_the_environments():
    inner = Environment()
    env = DMControlWrapper(inner, frame_skip=2)
    assert env.physics is inner.physics and env._env.physics is inner.physics and env.task is inner.task
    assert env.rollout(9)["next", "place"][:, 0].tolist() == [2, 4]
    assert repr(env) == "DMControlWrapper(task=SimpleNamespace, batch_size=torch.Size([]), device=None)"
    env.close()
    assert inner.closed


def test_an_object_that_is_not_an_environment_is_rejected():
    text = (
        "DMControlWrapper wraps an environment of dm_control and got a str. "
        'Fix: DMControlWrapper(suite.load("cheetah", "run")), or DMControlEnv("cheetah", "run").'
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        DMControlWrapper("cheetah")


@pytest.fixture
def suite(monkeypatch):
    """Stands for the module, with two domains."""
    whole, made = types.ModuleType("dm_control"), types.ModuleType("dm_control.suite")
    made.ALL_TASKS = (("cheetah", "run"), ("cartpole", "swingup"), ("cartpole", "balance"))
    made.loaded = []

    def load(domain, task, task_kwargs=None, environment_kwargs=None):
        made.loaded.append((domain, task, task_kwargs, environment_kwargs))
        env = Environment()
        env.task.random = np.random.RandomState((task_kwargs or {}).get("random"))
        return env

    made.load = load
    monkeypatch.setitem(sys.modules, "dm_control", whole)
    monkeypatch.setitem(sys.modules, "dm_control.suite", made)
    return made


def test_tasks_are_loaded_by_their_names(suite):
    env = DMControlEnv("cartpole", "balance", environment_kwargs={"flat_observation": True}, time_limit=5)
    assert repr(env) == "DMControlEnv(env=cartpole, task=balance, batch_size=torch.Size([]), device=None)"
    env.set_seed(7)
    start = env.reset()["place"][1]
    assert suite.loaded == [
        ("cartpole", "balance", {"time_limit": 5}, {"flat_observation": True}),
        ("cartpole", "balance", {"time_limit": 5, "random": 7}, {"flat_observation": True}),
    ]
    assert start == np.random.RandomState(7).uniform()
    assert DMControlEnv.available_envs == [("cartpole", ["balance", "swingup"]), ("cheetah", ["run"])]


@pytest.mark.parametrize("workers", [-1, 1.5, True])
def test_workers_are_counted(suite, workers):
    with pytest.raises(ValueError) as caught:
        DMControlEnv("cheetah", "run", num_workers=workers)
    assert str(caught.value) == (
        f"num_workers must be a non-negative integer and is {workers!r}. "
        'Fix: DMControlEnv("cheetah", "run", num_workers=2) for two processes.'
    )


def test_unknown_names_propose_near_ones(suite):
    with pytest.raises(ValueError) as caught:
        DMControlEnv("cheeta", "run")
    assert str(caught.value) == "There is no environment 'cheeta' in dm_control's suite. Did you mean 'cheetah'?"
    with pytest.raises(ValueError) as caught:
        DMControlEnv("cartpole", "run")
    assert str(caught.value) == (
        "There is no environment 'run' in the domain 'cartpole' of dm_control's suite. "
        "dict(DMControlEnv.available_envs)['cartpole'] lists all."
    )


@pytest.mark.parametrize(("installed", "chosen"), [("EGL", "egl"), ("OSMesa", "osmesa"), ("", None)])
def test_without_a_display_a_renderer_is_chosen(monkeypatch, installed, chosen):
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(dm_control.sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "dm_control", raising=False)
    monkeypatch.setattr(dm_control.ctypes.util, "find_library", lambda name: name if name == installed else None)
    monkeypatch.setattr(dm_control, "import_library", lambda *names: names)
    monkeypatch.setenv("MUJOCO_GL", "")
    assert dm_control._suite() == ("dm_control.suite", "DMControlEnv")
    assert dm_control.os.environ["MUJOCO_GL"] == (chosen or "")


def test_a_renderer_that_is_named_and_not_there_is_told_when_dm_control_is_imported(monkeypatch):
    def fail(*names):
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    monkeypatch.setattr(dm_control, "import_library", fail)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(RuntimeError, match=r"^dm_control cannot render frames with MUJOCO_GL=osmesa: 'NoneType'"):
        DMControlEnv("cheetah", "run")


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control", None)  # as if it could not be found
    assert DMControlEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        DMControlEnv("cheetah", "run")
    assert str(caught.value) == ("DMControlEnv needs dm_control, which is not installed. Fix: pip install dm_control.")
