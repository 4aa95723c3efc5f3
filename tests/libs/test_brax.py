"""BraxEnv and BraxWrapper beside Brax itself. The smallest envs: compiling the others takes minutes."""

from __future__ import annotations

import functools

import brax.envs as brax_envs
import jax
import numpy as np
import pytest
import torch
from tensordict.nn import TensorDictModule

from rlnb.data import Bounded
from rlnb.envs import BraxEnv, BraxWrapper, ParallelEnv, check_env_specs, step_mdp
from tests.libs.wrappers import assert_keeps_promises, assert_same


class PointMass(brax_envs.Env):
    """A point that is pushed; differentiable. Its start is random, and it ends far from the origin."""

    action_size, observation_size, backend = 2, 4, "none"

    def reset(self, rng):
        q = jax.random.uniform(rng, (2,))
        zero = jax.numpy.zeros(())
        metrics, info = {"pushed": zero}, {"rng": rng, "count": jax.numpy.zeros((), int)}
        return brax_envs.State({"q": q, "qd": 0 * q}, self._seen(q, 0 * q), zero, zero, metrics, info)

    def _seen(self, q, qd):
        return jax.numpy.concatenate([q, qd])

    def step(self, state, action):
        q, qd = state.pipeline_state["q"], state.pipeline_state["qd"]
        qd = qd + 0.5 * action
        q = q + qd
        over = (jax.numpy.abs(q).max() > 1.2).astype(float)
        info = {**state.info, "count": state.info["count"] + 1}
        metrics = {"pushed": jax.numpy.abs(action).sum()}
        reward = -(q**2).sum()
        return brax_envs.State({"q": q, "qd": qd}, self._seen(q, qd), reward, over, metrics, info)


@pytest.fixture(scope="module")
def fast():
    return BraxEnv("fast")


@pytest.fixture(scope="module")
def points():
    return BraxWrapper(PointMass(), batch_size=[3])


def test_the_wrapper_keeps_its_promises():
    assert_keeps_promises(lambda: BraxWrapper(PointMass(), batch_size=[2]))


def test_specs_are_those_that_torchrl_documents(fast):
    assert isinstance(fast.action_spec, Bounded) and fast.full_action_spec["action"].shape == (1,)
    state = fast.state_spec["state"]
    assert set(state.keys()) == {"pipeline_state", "obs", "reward", "done"}
    assert state["pipeline_state", "x", "rot"].shape == (4,) and state["reward"].shape == (1,)
    assert fast.observation_spec["state"] == state and fast.observation_spec["observation"].shape == (2,)
    assert set(fast.done_keys) == {"done", "terminated"}
    check_env_specs(fast)


def merged(done, new, old):
    """Rows of new where done, else of old."""
    return jax.numpy.where(done.reshape(done.shape + (1,) * (old.ndim - done.ndim)), new, old)


@pytest.mark.parametrize("batch_size", [(), (3,), (2, 2)])
def test_the_data_are_those_of_the_own_loop(batch_size):
    own = PointMass()
    env = BraxWrapper(own, batch_size=batch_size)
    check_env_specs(env)
    env.set_seed(7)
    rollout = env.rollout(12, break_when_any_done=False)
    reset, step = own.reset, own.step
    for _ in batch_size:
        reset, step = jax.vmap(reset), jax.vmap(step)
    later = jax.random.PRNGKey(7)

    def fresh(later):
        later, now = jax.random.split(later)
        keys = jax.random.split(now, int(np.prod(batch_size))).reshape(*batch_size, 2) if batch_size else now
        return later, reset(keys)

    later, state = fresh(later)
    for t in range(12):
        row = rollout[..., t]
        np.testing.assert_allclose(row["observation"], state.obs, rtol=1e-6)
        state = step(state, row["action"].numpy())
        after = row["next"]
        np.testing.assert_allclose(after["observation"], state.obs, rtol=1e-6)
        np.testing.assert_allclose(after["reward"].squeeze(-1), state.reward, rtol=1e-6)
        np.testing.assert_array_equal(after["done"].squeeze(-1), np.asarray(state.done) > 0.5)
        np.testing.assert_allclose(after["state", "metrics", "pushed"].squeeze(-1), state.metrics["pushed"], rtol=1e-6)
        done = np.asarray(state.done) > 0.5
        if done.any():
            later, new = fresh(later)
            state = jax.tree_util.tree_map(functools.partial(merged, done), new, state)
    assert rollout["next", "done"].any(), "some episodes end"


def test_a_step_starts_from_any_earlier_data(points):
    td = points.rand_step(points.reset())
    action = td["action"].clone()
    points.rand_step(points.maybe_reset(step_mdp(td)))
    again = points.step(td.exclude("next").set("action", action))
    assert_same(again["next"], td["next"])


def test_random_keys_and_counters_are_part_of_the_state(points):
    td = points.reset()
    assert td["state", "info", "rng"].dtype == torch.int32 and td["state", "info", "rng"].shape == (3, 2)
    assert td["state", "info", "count"].shape == (3, 1)
    assert not torch.equal(td["observation"][0], td["observation"][1]), "each env has its own key"


def test_the_data_own_their_memory(points):
    td = points.reset()
    before = td.clone()
    td["observation"] += 5
    assert torch.equal(td["state", "obs"], before["state", "obs"])
    after = points.rand_step(td)["next"]
    after["reward"] += 5
    assert not torch.equal(after["reward"], after["state", "reward"])


def test_gradients_flow_through_the_simulator():
    env = BraxWrapper(PointMass(), batch_size=[2], requires_grad=True, cache_clear_frequency=100)
    start = env.reset()
    actions = torch.zeros(3, 2, 2, requires_grad=True)
    end = env.rollout(3, actions=actions.unbind(0), tensordict=start, auto_reset=False, break_when_any_done=False)
    end["next", "reward"].sum().backward()

    def total(actions, q):
        qd, found = 0 * q, 0.0
        for action in actions:
            qd = qd + 0.5 * action
            q = q + qd
            found = found - (q**2).sum()
        return found

    want = torch.zeros(3, 2, 2, requires_grad=True)
    total(want, start["state", "pipeline_state", "q"]).backward()
    torch.testing.assert_close(actions.grad, want.grad)
    policy = TensorDictModule(torch.nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])
    env.rollout(3, policy)["next", "reward"].mean().backward()
    assert policy.module.weight.grad.abs().sum() > 0
    assert not env.reset()["observation"].requires_grad


def test_frame_skip_adds_rewards_and_stops_at_the_end():
    env = BraxWrapper(PointMass(), frame_skip=3)
    single = BraxWrapper(PointMass())
    push = torch.tensor([1.0, 0.0])
    td = env.reset()
    rewards = []
    now = td.clone()
    for _ in range(3):
        now = single.step(now.set("action", push))
        rewards.append(now["next", "reward"])
        if now["next", "done"]:
            break
        now = step_mdp(now)
    after = env.step(td.set("action", push))["next"]
    torch.testing.assert_close(after["reward"], sum(rewards))
    torch.testing.assert_close(
        after["observation"], now["next", "observation"] if "next" in now else now["observation"]
    )
    assert len(rewards) < 3 and after["done"], "it leaves the area early"


def test_a_time_limit_of_brax_truncates():
    env = BraxWrapper(brax_envs.training.EpisodeWrapper(PointMass(), episode_length=2, action_repeat=1))
    still = torch.zeros(2)
    ends = env.rollout(3, actions=[still] * 3, break_when_any_done=False)["next"]
    assert ends["truncated"].flatten().tolist() == [False, True, False]
    assert ends["done"].flatten().tolist() == [False, True, False] and not ends["terminated"].any()


def test_registered_with_gymnasium():
    import gymnasium

    BraxEnv.register_gym("tests/Fast-v0", env_name="fast", batch_size=[2], info_keys=["state"])
    env = gymnasium.make("tests/Fast-v0")
    seen, info = env.reset(seed=0)
    assert set(seen) == {"observation"} and seen["observation"].shape == (2, 2) and "state" in info
    seen, reward, *_ = env.step(env.action_space.sample())
    assert reward.shape == (2, 1)


def test_names_and_objects_that_are_not_an_env(fast):
    assert {"ant", "fast", "inverted_pendulum"} < set(BraxEnv.available_envs)
    assert repr(fast) == "BraxEnv(env=fast, batch_size=torch.Size([]), device=None)"
    with pytest.raises(ValueError, match=r"^There is no environment 'fasst' in Brax. Did you mean 'fast'"):
        BraxEnv("fasst")
    with pytest.raises(TypeError) as error:
        BraxWrapper("fast")
    assert str(error.value) == (
        "BraxWrapper wraps an environment of Brax and got a str. "
        'Fix: BraxWrapper(brax.envs.get_environment("ant")), or BraxEnv("ant").'
    )
    with pytest.raises(ValueError) as error:
        BraxWrapper(brax_envs.training.VmapWrapper(PointMass()))
    assert str(error.value) == (
        "BraxWrapper batches and resets the env itself, and this one is in Brax's VmapWrapper. Fix: "
        "brax.envs.create(name, auto_reset=False), and BraxWrapper(env, batch_size=[n])."
    )


def test_a_step_without_its_state(points):
    td = points.rand_action(points.reset()).exclude("state")
    with pytest.raises(KeyError) as error:
        points.step(td)
    assert error.value.args[0] == (
        "A step of Brax starts from the state in the TensorDict, the entry 'state', and there is none. "
        "Fix: td = env.reset(), or keep the entry: step_mdp(td)."
    )


def test_workers():
    env = ParallelEnv(1, lambda: BraxEnv("fast", batch_size=[2]), mp_start_method="spawn")
    try:
        assert env.rollout(3).batch_size == (1, 2, 3)
    finally:
        env.close()
