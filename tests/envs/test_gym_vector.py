"""Vector envs: every row of a rollout equals that of a single env, in every autoreset mode."""

from __future__ import annotations

import os
import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from tensordict import TensorDict

from rlnb.envs import GymEnv, GymWrapper, check_env_specs, step_mdp
from tests.pairwise import sampled

MODES = list(AutoresetMode)
VECTORS = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}


@pytest.fixture
def vector(request):
    """Make vector envs, and close them."""
    made = []

    def make(functions, kind="sync", mode=AutoresetMode.NEXT_STEP, **kwargs):
        env = GymWrapper(
            VECTORS[kind](functions, autoreset_mode=mode, **kwargs.pop("vector", {})),
            **{"categorical_action_encoding": True, **kwargs},
        )
        made.append(env)
        return env

    yield make
    for env in made:
        env.close()


def single_rows(make, seed: int, actions: torch.Tensor) -> list[tuple]:
    """What Gymnasium's single env does with these actions, reset once at each end."""
    env = make()
    observation, _ = env.reset(seed=seed)
    rows = []
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action.numpy() if action.ndim else action.item())
        rows.append((observation, after, reward, terminated, truncated))
        observation = env.reset()[0] if terminated or truncated else after
    return rows


def assert_is_single(data: TensorDict, make, seed: int) -> None:
    for i, row in enumerate(data):
        for t, (observation, after, reward, terminated, truncated) in enumerate(
            single_rows(make, seed + i, row["action"])
        ):
            assert np.array_equal(row["observation"][t].numpy(), observation), (i, t)
            assert np.array_equal(row["next", "observation"][t].numpy(), after), (i, t)
            assert row["next", "reward"][t].item() == np.float32(reward)
            assert row["next", "terminated"][t].item() == terminated
            assert row["next", "truncated"][t].item() == truncated
            assert row["next", "done"][t].item() == (terminated or truncated)


def cart_pole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1", max_episode_steps=25)


def pendulum() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1", max_episode_steps=7)


@pytest.mark.parametrize(("make", "kind", "mode"), sampled([cart_pole, pendulum], list(VECTORS), MODES))
def test_every_row_is_a_single_env(vector, kind, mode, make):
    env = vector([make] * 3, kind, mode)
    assert env.batch_size == (3,)
    env.set_seed(7)
    data = env.rollout(60, break_when_any_done=False)
    assert data.batch_size == (3, 60) and data.names == [None, "time"]
    assert data["next", "done"].sum() > 6
    assert_is_single(data, make, 7)


@pytest.mark.parametrize("mode", MODES)
def test_rollouts_that_stop_at_an_end_go_on_with_a_full_reset(vector, mode):
    env = vector([cart_pole] * 3, mode=mode)
    env.set_seed(0)
    for _ in range(3):
        data = env.rollout(100)
        assert data["next", "done"][:, -1].any() and not data["next", "done"][:, :-1].any()
        assert data["observation"][:, 0].abs().max() <= 0.05  # the range in which CartPole starts
        inside = data["next", "observation"][:, :-1] == data["observation"][:, 1:]
        assert inside.all()


@pytest.mark.parametrize("mode", MODES)
def test_step_and_maybe_reset_is_the_rollout(vector, mode):
    envs = [vector([cart_pole] * 2, mode=mode) for _ in range(2)]
    for env in envs:
        env.set_seed(3)
    data = envs[0].rollout(50, break_when_any_done=False)
    td_, steps = envs[1].reset(), []
    for _ in range(50):
        td, td_ = envs[1].step_and_maybe_reset(envs[1].rand_action(td_))
        steps.append(td)
    assert bool((torch.stack(steps, 1) == data).all())


@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("mode", MODES)
def test_a_partial_reset_leaves_the_others_alone(vector, kind, mode):
    env = vector([cart_pole] * 3, kind, mode)
    env.set_seed(0)
    td = step_mdp(env.rand_step(env.reset()))
    before = td["observation"].clone()
    mask = torch.tensor([[False], [True], [False]])
    td = env.reset(td.set("_reset", mask))
    assert "_reset" not in td
    assert torch.equal(td["observation"][[0, 2]], before[[0, 2]])
    assert not torch.equal(td["observation"][1], before[1]) and td["observation"][1].abs().max() <= 0.05
    td["action"] = torch.tensor([0, 1, 1])
    after = env.step(td)["next", "observation"]
    # One step on from each row: position + 0.02 * velocity, after one push.
    position, velocity = td["observation"][:, 0], td["observation"][:, 1]
    assert torch.allclose(after[:, 0], position + 0.02 * velocity, atol=1e-6)


def test_same_step_ends_and_other_resets_in_one_call(vector, scripted, box):
    functions = [
        lambda n=n: scripted(box, length=n, observe=lambda t: np.full(3, t / 10, np.float32)) for n in (2, 9, 9)
    ]
    env = vector(functions, mode=AutoresetMode.SAME_STEP)
    td = env.reset()
    for _ in range(2):
        td = step_mdp(env.rand_step(td))
    assert td["done"].flatten().tolist() == [True, False, False]
    assert td["observation"][:, 0].tolist() == pytest.approx([0.2, 0.2, 0.2])
    td = env.reset(td.set("_reset", torch.tensor([[True], [False], [True]])))
    assert td["observation"][:, 0].tolist() == pytest.approx([0.0, 0.2, 0.0])
    after = env.rand_step(td)["next", "observation"]
    assert after[:, 0].tolist() == pytest.approx([0.1, 0.3, 0.1])


@pytest.mark.parametrize("mode", MODES)
def test_a_step_of_an_env_that_is_done_is_refused(vector, mode):
    env = vector([cart_pole] * 2, mode=mode)
    env.set_seed(0)
    data = env.rollout(100)
    td = step_mdp(data[:, -1])
    number = int(td["done"].flatten().int().argmax())
    text = (
        f"step was called on an env that is done: number {number} of 2 ended and was not reset. "
        "Fix: td = env.maybe_reset(step_mdp(td)) before the next step, or env.step_and_maybe_reset(td)."
    )
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
            env.rand_step(td.clone())
    env.rand_step(env.maybe_reset(td))


@pytest.mark.parametrize("how", ["sync", "vector_entry_point"])
def test_a_partial_reset_before_the_first_reset_is_refused(how):
    env = GymEnv("CartPole-v1", num_envs=2, vectorization_mode=how)
    td = env.fake_tensordict().exclude("next").set("_reset", torch.tensor([[True], [False]]))
    text = (
        f"A partial reset was requested of a {type(env._env).__name__} that was never reset: the sub-envs that are not "
        "marked have no state to keep. Fix: call env.reset() first."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.reset(td)
    with pytest.raises(RuntimeError, match=r"^step was called before reset"):
        env.rand_step(env.fake_tensordict().exclude("next"))


def test_a_seed_outlives_a_reset_that_fails():
    env = GymWrapper(own_cart_poles(2))
    env.reset()
    env.set_seed(0)
    mask = torch.tensor([[True], [False]])
    with pytest.raises(RuntimeError, match=r"^CartPoleVectorEnv takes a seed and options only when all"):
        env.reset(env.fake_tensordict().exclude("next").set("_reset", mask))
    other = GymWrapper(own_cart_poles(2))
    other.set_seed(0)
    assert torch.equal(env.reset()["observation"], other.reset()["observation"])


def test_a_seeded_partial_reset_seeds_the_marked_ones(vector):
    env = vector([cart_pole] * 2, mode=AutoresetMode.SAME_STEP)
    td = env.reset()
    env.set_seed(4)
    td = env.reset(td.set("_reset", torch.tensor([[False], [True]])))
    assert np.array_equal(td["observation"][1].numpy(), cart_pole().reset(seed=5)[0])


# Envs with their own batched implementation ---------------------------------------------------------------------------


def own_cart_poles(n: int = 4) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point", max_episode_steps=30)


def test_own_implementation_of_cart_pole():
    env = GymWrapper(own_cart_poles(), categorical_action_encoding=True)
    assert type(env._env).__name__ == "CartPoleVectorEnv"
    check_env_specs(env)
    env.set_seed(0)
    data = env.rollout(200, break_when_any_done=False)
    done = data["next", "done"][..., 0]
    assert done.sum() > 20 and data["next", "truncated"].any()
    assert (data["next", "reward"] == 1).all()  # a reset in disguise has reward 0
    last = data["next", "observation"][data["next", "terminated"][..., 0]]
    assert ((last[:, 0].abs() > 2.4) | (last[:, 2].abs() > 12 * np.pi / 180)).all()
    assert (data["observation"][:, 1:][done[:, :-1]].abs() <= 0.05).all()
    single = gymnasium.make("CartPole-v1").unwrapped
    single.reset()
    for row in data.reshape(-1)[::7]:
        single.steps_beyond_terminated = None
        single.state = row["observation"].double().numpy()
        after = single.step(row["action"].item())[0]
        assert np.allclose(after, row["next", "observation"].numpy(), atol=1e-5)


def test_own_implementation_is_reproducible():
    rollouts = []
    for _ in range(2):
        env = GymWrapper(own_cart_poles(), categorical_action_encoding=True)
        env.set_seed(5)
        rollouts.append(env.rollout(80, break_when_any_done=False))
    assert bool((rollouts[0] == rollouts[1]).all())


class OwnVector(gymnasium.vector.VectorEnv):
    """Counts up; row i ends after i + 2 steps, and is reset in the next step, whatever it is asked."""

    def __init__(self, mode=AutoresetMode.NEXT_STEP):
        self.num_envs = 2
        self.metadata = {} if mode is None else {"autoreset_mode": mode}
        self.single_observation_space = spaces.Box(0, 99, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, 2)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, 2)

    def reset(self, *, seed=None, options=None):
        self.t, self.over = np.zeros((2, 1), np.float32), np.zeros(2, bool)
        return self.t, {}

    def step(self, actions):
        self.t += 1
        self.t[self.over] = 0
        self.over = self.t[:, 0] >= np.array([2, 3])
        return self.t, np.ones(2), self.over, np.zeros(2, bool), {}


def test_where_partial_resets_are_impossible_they_are_refused():
    env = GymWrapper(OwnVector())
    data = env.rollout(9)
    assert data["next", "observation"][..., 0].tolist() == [[1, 2], [1, 2]]  # the backend's buffer was copied
    assert env.rollout(9).shape == (2, 2)
    text = (
        "OwnVector cannot reset some of its sub-envs and leave the others: its autoreset mode is NextStep. Fix: make "
        "it of single envs, GymEnv(id, num_envs=n), or stop at the first end, env.rollout(n, break_when_any_done=True)."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(9, break_when_any_done=False)


def test_an_env_that_does_not_tell_its_mode_is_refused():
    text = (
        'OwnVector must say how it resets sub-envs that are done, and its metadata["autoreset_mode"] is None. Fix: '
        'env.metadata = {**env.metadata, "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP} '
        "(or SAME_STEP, or DISABLED: what the env does)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        GymWrapper(OwnVector(None))


def test_same_step_without_the_last_observation_is_refused():
    env = GymWrapper(OwnVector(AutoresetMode.SAME_STEP))
    text = (
        "OwnVector resets its sub-envs in the step that ends them (SameStep), and its info has no "
        '"final_obs" to read the last observation from.'
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(3)


def test_workers_that_reset_twice_are_refused():
    backend = AsyncVectorEnv([cart_pole] * 2, shared_memory=False)
    text = (
        "AsyncVectorEnv with shared_memory=False resets its sub-envs twice in the autoreset mode NextStep, and the "
        "second reset would look like a step. Fix: leave shared_memory=False out, or give "
        "autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        GymWrapper(backend)
    backend.close()


class Crashing(gymnasium.Env):
    """Ends its process at the second step."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == 2:
            os._exit(9)
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Still(Crashing):
    """Ends nothing."""

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_a_worker_that_dies_is_named():
    backend = AsyncVectorEnv([Still, Crashing])
    text = (
        "The worker processes of the AsyncVectorEnv that ran these sub-envs have died: 1 (exit code 9). Likely causes: "
        "the simulator crashed, or memory ran out (exit code -9). Fix: run one env in this process to see what "
        "happens, and make the vector env again."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        GymWrapper(backend).rollout(5)
    for process in backend.processes:
        process.join(10)
        assert process.exitcode is not None


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_workers_without_shared_memory(vector, mode):
    env = vector([cart_pole] * 2, "async", mode, vector={"shared_memory": False})
    env.set_seed(2)
    assert_is_single(env.rollout(60, break_when_any_done=False), cart_pole, 2)


def test_wrappers_around_a_vector_env():
    backend = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync", max_episode_steps=20)
    env = GymWrapper(gymnasium.wrappers.vector.RecordEpisodeStatistics(backend), categorical_action_encoding=True)
    env.set_seed(4)
    data = env.rollout(60, break_when_any_done=False)
    assert_is_single(data, lambda: gymnasium.make("CartPole-v1", max_episode_steps=20), 4)
    ends = [int(n) for n in env._env.length_queue]
    assert sum(ends) <= 180 and ends.count(0) == 0
    lengths = []
    for t in range(60):
        for i in range(3):
            if data["next", "done"][i, t]:
                start = max((s + 1 for s in range(t) if data["next", "done"][i, s]), default=0)
                lengths.append(t + 1 - start)
    assert ends == lengths


# GymEnv(num_envs=...) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [None, "async"])
def test_num_envs_makes_rows_of_single_envs(how):
    env = GymEnv("CartPole-v1", num_envs=3, categorical_action_encoding=True, vectorization_mode=how)
    assert env.batch_size == (3,) and env._env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert repr(env) == "GymEnv(env=CartPole-v1, batch_size=torch.Size([3]), device=None)"
    env.set_seed(11)
    data = env.rollout(60, break_when_any_done=False)
    assert_is_single(data, lambda: gymnasium.make("CartPole-v1"), 11)
    for i in range(3):
        single = GymEnv("CartPole-v1", categorical_action_encoding=True)
        single.set_seed(11 + i)
        actions = iter(data[i]["action"])
        alone = single.rollout(60, lambda td, a=actions: td.set("action", next(a)), break_when_any_done=False)
        assert bool((alone == data[i]).all())
    env.close()


def test_num_envs_of_one_has_a_batch_and_of_zero_has_none():
    assert GymEnv("CartPole-v1", num_envs=1).rollout(2).batch_size == (1, 2)
    assert GymEnv("CartPole-v1", num_envs=0).rollout(2).batch_size == (2,)


@pytest.mark.parametrize("value", [-1, 1.5, True, "4"])
def test_num_envs_must_be_a_count(value):
    with pytest.raises(
        ValueError, match=rf"^num_envs must be a non-negative integer and is {re.escape(repr(value))}\.$"
    ):
        GymEnv("CartPole-v1", num_envs=value)


def test_num_envs_takes_the_constructors_arguments_and_its_own_implementation():
    env = GymEnv("Pendulum-v1", num_envs=2, g=3.5)
    assert env._env.get_attr("g") == (3.5, 3.5)
    env = GymEnv("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point", sutton_barto_reward=True)
    assert type(env._env).__name__ == "CartPoleVectorEnv"
    assert env.rollout(3)["next", "reward"].eq(0).all()


def test_an_autoreset_mode_that_is_asked_for_is_taken():
    env = GymEnv("CartPole-v1", num_envs=2, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
    assert env._env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    check_env_specs(env)


def test_frame_skip_repeats_in_each_sub_env():
    env = GymEnv("CartPole-v1", num_envs=3, frame_skip=4, categorical_action_encoding=True)
    assert env.frame_skip == 4
    env.set_seed(0)
    data = env.rollout(40, break_when_any_done=False)
    assert data["next", "reward"].max() == 4 and data["next", "reward"][data["next", "done"]].min() < 4
    for i in range(3):
        single = GymEnv("CartPole-v1", frame_skip=4, categorical_action_encoding=True)
        single.set_seed(i)
        actions = iter(data[i]["action"])
        alone = single.rollout(40, lambda td, a=actions: td.set("action", next(a)), break_when_any_done=False)
        assert bool((alone == data[i]).all())


def test_frame_skip_around_a_vector_env_is_refused(vector):
    text = (
        "frame_skip cannot repeat the actions of a vector env, whose sub-envs end at different times. "
        "Fix: GymEnv(id, num_envs=n, frame_skip=k), which repeats them in each sub-env."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        vector([cart_pole], frame_skip=2)


def test_buffers_of_the_vector_env_are_copied(vector):
    env = vector([cart_pole] * 2, vector={"copy": False}, mode=AutoresetMode.SAME_STEP)
    env.set_seed(1)
    assert_is_single(env.rollout(60, break_when_any_done=False), cart_pole, 1)


def test_a_rollout_until_all_were_done_once(vector):
    env = vector([cart_pole] * 3)
    env.set_seed(0)
    done = env.rollout(400, break_when_all_done=True)["next", "done"][..., 0]
    assert done.any(1).all() and not done[:, :-1].any(1).all()
