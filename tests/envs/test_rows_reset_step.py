"""Reset, step and partial resets, over envs of every kind."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.data.ted.keys import as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import GymEnv, PendulumEnv, SpreadEnv, step_mdp
from tests.envs.kinds import KINDS, make

EVERY = pytest.mark.parametrize("kind", KINDS)
BATCHED = pytest.mark.parametrize("kind", ["vector", "batch", "agents"])


def same(a, b) -> bool:
    """Whether two TensorDicts have the same entries, to the bit."""
    keys = set(leaf_keys(a))
    return keys == set(leaf_keys(b)) and all(torch.equal(a[key], b[key]) for key in keys)


# Reset --------------------------------------------------------------------------------------------------------------


@EVERY
def test_a_reset_gives_observations_and_ends_that_are_false(kind):
    env = make(kind)
    td = env.reset()
    assert set(leaf_keys(td)) == {*env.observation_keys, *env.done_keys}  # and no reward
    assert not any(td[key].any() for key in env.done_keys)
    assert td.batch_size == env.batch_size and env.observation_spec.is_in(td)


@EVERY
def test_a_reset_writes_into_what_it_is_given(kind):
    env, other = make(kind), make(kind)
    td = TensorDict({"mine": torch.ones(*env.batch_size, 1)}, env.batch_size)
    assert env.reset(td) is td
    assert td["mine"].all() and same(td.exclude("mine"), other.reset())


def test_keywords_of_a_reset_go_to_the_env(counter):
    class Told(counter):
        def _reset(self, tensordict=None, *, start=0.0, **kwargs):
            self.more = kwargs
            return TensorDict({"observation": torch.full((1,), start)})

    env = Told()
    assert env.reset(start=2.0, why="because")["observation"].item() == 2 and env.more == {"why": "because"}
    low = GymEnv("CartPole-v1").reset(options={"low": 0.01, "high": 0.02})["observation"]
    assert bool(((low >= 0.01) & (low <= 0.02)).all())
    assert torch.equal(make("batch").reset(state=torch.ones(3, 4))["observation"], torch.ones(3, 4))


# Step ---------------------------------------------------------------------------------------------------------------


@EVERY
def test_a_step_writes_under_next_and_returns_its_input(kind):
    env = make(kind)
    td = env.rand_action(env.reset())
    root = td.clone()
    assert env.step(td) is td
    assert same(td.exclude("next"), root)
    assert set(leaf_keys(td["next"])) == {*env.observation_keys, *env.done_keys, *env.reward_keys}


@EVERY
def test_what_stands_under_next_prevails(kind):
    env, other = make(kind), make(kind)
    td, plain = env.rand_action(env.reset()), other.rand_action(other.reset())
    mine = torch.full_like(other.step(plain)["next"][env.reward_key], 42.0)
    td["next"] = TensorDict({as_key(as_tuple(env.reward_key)): mine}, env.batch_size)
    after = env.step(td)["next"]
    assert torch.equal(after[env.reward_key], mine)
    assert same(after.exclude(env.reward_key), plain["next"].exclude(env.reward_key))


@EVERY
def test_the_private_step_is_out_of_place(kind):
    env = make(kind)
    td = env.rand_action(env.reset())
    before, keys = td.clone(), set(leaf_keys(td))
    result = env._step(td)
    assert result is not td and same(td, before) and set(leaf_keys(td)) == keys
    assert "next" not in result and set(env.reward_keys) <= set(leaf_keys(result))
    assert "done" in result and set(env.observation_keys) <= set(leaf_keys(result))


@EVERY
def test_calling_an_env_is_a_step(kind):
    env, other = make(kind), make(kind)
    assert same(env(env.rand_action(env.reset())), other.step(other.rand_action(other.reset())))


@EVERY
def test_random_actions(kind):
    env = make(kind)
    alone = env.rand_action()
    assert set(leaf_keys(alone)) == set(env.action_keys) and env.full_action_spec.is_in(alone)
    td = env.reset()
    before = td.clone()
    assert env.rand_action(td) is td and env.full_action_spec.is_in(td)
    assert same(td.exclude(*env.action_keys), before)
    drawn = torch.stack([env.rand_action()[env.action_key].float() for _ in range(20)])
    assert drawn.std(0).max() > 0


@EVERY
def test_random_steps(kind):
    env, other = make(kind), make(kind)
    td = env.reset()
    assert env.rand_step(td) is td
    assert same(td, other.step(other.rand_action(other.reset())))
    if kind != "stateless":  # which has no state but that of its input
        new = env.rand_step()
        assert set(leaf_keys(new)) == {*env.action_keys, *(("next", *as_tuple(k)) for k in leaf_keys(td["next"]))}


@EVERY
def test_step_mdp_makes_the_next_root(kind):
    env = make(kind)
    td = env.rand_step(env.reset().set("mine", torch.ones(*env.batch_size, 1)))
    keys = {"reward_keys": env.reward_keys, "action_keys": env.action_keys, "done_keys": env.done_keys}
    after = step_mdp(td, **keys)
    assert same(after.exclude("mine"), td["next"].exclude(*env.reward_keys)) and after["mine"].all()
    assert "mine" not in step_mdp(td, **keys, keep_other=False)
    assert env.reward_key in set(leaf_keys(step_mdp(td, **keys, exclude_reward=False)))
    assert not set(leaf_keys(step_mdp(td, **keys, exclude_done=True))) & set(env.done_keys)
    kept = step_mdp(td, **keys, exclude_action=False)
    assert torch.equal(kept[env.action_key], td[env.action_key])
    target = TensorDict({}, env.batch_size)
    assert step_mdp(td, target, **keys) is target and same(target, after)


@EVERY
def test_step_and_maybe_reset_is_a_rollout_that_goes_on(kind):
    env, other = make(kind), make(kind)
    td_, steps = env.reset(), []
    for _ in range(40):
        td, td_ = env.step_and_maybe_reset(env.rand_action(td_))
        assert "next" in td and "next" not in td_
        assert not any(td_[key].any() for key in env.done_keys if as_tuple(key)[:-1] == ())
        steps.append(td)
    assert same(torch.stack(steps, env.ndim), other.rollout(40, break_when_any_done=False))


@BATCHED
def test_maybe_reset_resets_where_the_env_is_done(kind):
    env = make(kind)
    data = env.rollout(200)
    td = step_mdp(data[:, -1], reward_keys=env.reward_keys, action_keys=env.action_keys)
    done = td["done"].squeeze(-1)
    assert int(done.sum()) > 0
    again = env.maybe_reset(td)
    assert same(again[~done], td[~done]) and not again["done"].any()
    key = env.observation_keys[0]
    assert not torch.equal(again[done][key], td[done][key])
    assert env.maybe_reset(again) is again


@EVERY
def test_maybe_reset_returns_its_input_where_nothing_is_done(kind):
    env = make(kind)
    td = env.reset()
    assert env.maybe_reset(td) is td


# Partial resets -----------------------------------------------------------------------------------------------------

MARKS = [[True, False, False], [False, True, True], [False, False, False], [True, True, True]]


def stepped(env):
    """The input of the second step, with numbers in it that no reset gives."""
    td = env.rand_step(env.reset())
    return step_mdp(td, reward_keys=env.reward_keys, action_keys=env.action_keys)


@pytest.mark.parametrize("marks", MARKS)
@BATCHED
def test_only_what_is_marked_is_reset(kind, marks):
    env = make(kind)
    td = stepped(env)
    before, mask = td.clone(), torch.tensor(marks)
    out = env.reset(td.set("_reset", mask.unsqueeze(-1)))
    assert out is td and "_reset" not in out
    assert same(out[~mask], before[~mask])
    key = env.observation_keys[0]
    assert all(not torch.equal(out[key][i], before[key][i]) for i in mask.nonzero().flatten())


@BATCHED
def test_without_a_mask_everything_is_reset(kind):
    env = make(kind)
    td = stepped(env)
    before = td.clone()
    env.reset(td)
    key = env.observation_keys[0]
    assert all(not torch.equal(td[key][i], before[key][i]) for i in range(3))


@EVERY
def test_a_mask_stands_beside_a_done(kind):
    env = make(kind)
    td = stepped(env)
    before = td.clone()
    td[("elsewhere", "_reset")] = torch.ones_like(td["done"])
    text = r"The entry \('elsewhere', '_reset'\) has no 'done' beside it, so there is nothing to reset\."
    with pytest.raises(ValueError, match=f"^{text}"):
        env.reset(td)
    assert same(td.exclude("elsewhere"), before)


def agents():
    env = SpreadEnv(2, 5, batch_size=[2], agent_done=True, seed=1)
    return env, stepped(env)


def test_a_nested_mask_resets_its_level():
    env, td = agents()
    before = td.clone()
    mask = torch.zeros_like(td["agents", "done"])
    mask[0, 1] = True
    out = env.reset(td.set(("agents", "_reset"), mask))
    assert not any(as_tuple(key)[-1] == "_reset" for key in leaf_keys(out))
    moved = (out["agents", "observation"] != before["agents", "observation"]).any(-1)
    assert moved.tolist() == [[False, True], [False, False]]


def test_a_mask_at_the_root_overrides_those_below():
    env, td = agents()
    before = td.clone()
    td["agents", "_reset"] = torch.tensor([[[False], [False]], [[True], [True]]])
    out = env.reset(td.set("_reset", torch.tensor([[True], [False]])))
    assert not any(as_tuple(key)[-1] == "_reset" for key in leaf_keys(out))
    assert same(out[1], before[1])
    assert not torch.equal(out[0]["agents", "observation"], before[0]["agents", "observation"])


def test_what_is_not_reset_is_what_the_caller_passed(counter):
    def reset(env):  # whatever a reset makes of the rows that are not marked
        return TensorDict({"observation": torch.full((3, 1), -9.0)}, [3])

    env = counter((3,), reset=reset)
    td = TensorDict({"observation": torch.tensor([[0.1], [0.2], [0.3]])}, [3])
    out = env.reset(td.set("_reset", torch.tensor([[False], [True], [False]])))
    assert torch.equal(out["observation"], torch.tensor([[0.1], [-9.0], [0.3]]))


def test_gradients_flow_through_steps():
    env = PendulumEnv(seed=0)
    gain = torch.tensor(0.5, requires_grad=True)
    td = env.reset()
    for _ in range(3):
        td = env._step_mdp(env.step(td.set("action", (gain * td["thdot"]).unsqueeze(-1))))
    td["th"].backward()
    assert gain.grad.item() != 0
