"""Exploration modules: rates, draws, annealing, masks, keys, restarts of noise, rollouts, errors."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, TensorSpec, Unbounded
from rlnb.envs import GymEnv, InitTracker, SerialEnv, TransformedEnv
from rlnb.envs.unwrapped import unwrapped
from rlnb.envs.utils import ExplorationType, set_exploration_type
from rlnb.modules import (
    Actor,
    AdditiveGaussianModule,
    EGreedyModule,
    OrnsteinUhlenbeckProcessModule,
    QValueActor,
    set_exploration_modules_spec_from_env,
)
from tests.examples import at_most

BOX = Bounded(-1.0, 1.0, (2,))
MODULES = [EGreedyModule, AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule]


def data(action: torch.Tensor, *batch: int, **more: Any) -> TensorDict:
    return TensorDict({"action": action, "is_init": torch.zeros(*batch, 1, dtype=torch.bool), **more}, batch)


# Annealing and exploration types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "name"), list(zip(MODULES, ("eps", "sigma", "eps"), strict=True)))
def test_steps_lead_from_the_first_to_the_last_value(module: Any, name: str) -> None:
    explore = module(BOX, 0.9, 0.1, 8)
    seen = []
    for frames in (0, 1, 3, 100, 1):
        explore.step(frames)
        seen.append(getattr(explore, name).item())
    assert seen == pytest.approx([0.9, 0.8, 0.5, 0.1, 0.1])
    shared = getattr(explore, name)
    twin = copy.deepcopy(explore)
    explore.load_state_dict(module(BOX, 0.9, 0.1).state_dict())
    assert shared.item() == pytest.approx(0.9)  # in place
    assert getattr(twin, name).item() == pytest.approx(0.1)
    assert {f"{name}_init", f"{name}_end", name} <= set(explore.state_dict())


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("kind", [None, *ExplorationType])
def test_only_random_and_unset_types_explore(module: Any, kind: Any) -> None:
    explore, td = module(BOX, 1.0, 1.0), data(torch.zeros(4, 2), 4)
    before = td["action"]
    with set_exploration_type(kind):
        out = explore(td)
    assert out is td
    assert bool(out["action"].all()) == (kind in (None, ExplorationType.RANDOM))
    assert not before.any()  # what the policy returned does not change


# Epsilon-greedy -------------------------------------------------------------------------------------------------------


@at_most(25)
@given(eps=st.floats(0, 1), seed=st.integers(0, 99))
def test_each_action_of_a_batch_is_replaced_as_a_whole_with_probability_eps(eps: float, seed: int) -> None:
    torch.manual_seed(seed)
    action = EGreedyModule(BOX, eps, eps)(data(torch.zeros(40, 50, 2), 40, 50))["action"]
    replaced = (action != 0).all(-1)
    assert torch.equal(replaced, (action != 0).any(-1))
    assert replaced.float().mean().item() == pytest.approx(eps, abs=0.06)
    assert BOX.is_in(action)


def test_a_single_action_is_replaced_with_probability_eps() -> None:
    torch.manual_seed(0)
    explore = EGreedyModule(Bounded(-1.0, 1.0, ()), 0.25, 0.25)
    actions = torch.stack([explore(data(torch.tensor(0.0)))["action"] for _ in range(2000)])
    assert (actions != 0).float().mean().item() == pytest.approx(0.25, abs=0.04)


def test_a_single_action_is_replaced_by_legal_ones() -> None:
    torch.manual_seed(0)
    explore = EGreedyModule(Categorical(4), 1.0, 1.0, action_mask_key="mask")
    mask = torch.tensor([False, True, False, True])
    drawn = {explore(data(torch.tensor(0), mask=mask))["action"].item() for _ in range(40)}
    assert drawn == {1, 3}


@pytest.mark.parametrize(
    "spec",
    [
        Categorical(3), Categorical(3, shape=(1,)), Categorical(3, dtype=torch.int32), OneHot(3),
        OneHot(3, dtype=torch.int64), MultiCategorical([2, 3]), MultiOneHot([2, 3]), BOX,
        Bounded(0, 4, (2,), dtype=torch.int64),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("batch", [(), (1,), (30,), (5, 6)], ids=str)
def test_random_actions_are_in_the_spec(spec: TensorSpec, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    for given_spec in (spec, Composite(action=spec), spec.expand(*batch, *spec.shape)):
        explore = EGreedyModule(given_spec, 1.0, 1.0)
        action = explore(data(spec.zero(batch), *batch))["action"]
        assert action.shape == (*batch, *spec.shape)
        assert action.dtype == spec.dtype
        assert spec.is_in(action)
        if len(batch) and batch != (1,):
            assert len(action.reshape(30, -1).unique(dim=0)) > 1
    integers = EGreedyModule(OneHot(3), 1.0, 1.0)(data(torch.zeros(9, 3, dtype=torch.int64), 9))["action"]
    assert integers.dtype == torch.int64  # the dtype of the policy stays


MASK = torch.tensor([[True, False, True], [False, True, False]])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("spec", [Categorical(3), OneHot(3)], ids=["categorical", "one-hot"])
def test_all_legal_actions_are_drawn_and_no_other(spec: Any, batched: bool) -> None:
    torch.manual_seed(0)
    given_spec = spec.expand(2, *spec.shape) if batched else spec
    explore, seen = EGreedyModule(given_spec, 1.0, 1.0, action_mask_key="mask"), set()
    assert explore.in_keys == ["action", "mask"]
    for _ in range(60):
        action = explore(data(spec.zero((2,)), 2, mask=MASK))["action"]
        index = action if action.ndim == 1 else action.to(torch.int64).argmax(-1)
        seen.add(tuple(index.tolist()))
    assert seen == {(0, 1), (2, 1)}
    assert explore.spec["action"].mask is None


def test_a_row_that_is_kept_may_have_no_legal_action() -> None:
    mask = MASK & torch.tensor([[True], [False]])
    kept = EGreedyModule(Categorical(3), 0.0, 0.0, action_mask_key="mask")
    assert kept(data(torch.tensor([0, 0]), 2, mask=mask))["action"].tolist() == [0, 0]
    explore = EGreedyModule(Categorical(3), 0.5, 0.5, action_mask_key="mask")
    chosen = set()
    for seed in range(40):
        torch.manual_seed(seed)
        try:
            chosen.add(tuple(explore(data(torch.tensor([1, 1]), 2, mask=mask))["action"].tolist()))
        except ValueError:
            torch.manual_seed(seed)
            assert torch.rand(2)[1] < 0.5  # it was drawn for the row without legal actions
    assert chosen == {(1, 1), (0, 1), (2, 1)}
    single = EGreedyModule(Categorical(3), 1.0, 1.0, action_mask_key="mask")
    assert single(data(torch.tensor(0), mask=MASK[1]))["action"].item() == 1


def test_agents_explore_on_their_own() -> None:
    torch.manual_seed(0)
    key = ("agents", "action")
    for spec in (BOX.expand(3, 2), Composite({key: BOX.expand(3, 2)})):
        explore = EGreedyModule(spec, 0.5, 0.5, action_key=key)
        td = TensorDict({"agents": TensorDict({"action": torch.zeros(50, 3, 2)}, [50, 3])}, [50])
        replaced = (explore(td)[key] != 0).all(-1)
        assert 0 < replaced.sum() < 150
        assert (replaced.sum(-1) % 3 != 0).any()
        assert explore.in_keys == explore.out_keys == [key]


# Noise ----------------------------------------------------------------------------------------------------------------


def test_gaussian_noise_has_its_moments_and_is_projected_if_safe() -> None:
    torch.manual_seed(0)
    td = data(torch.full((5000, 2), 0.4), 5000)
    free = AdditiveGaussianModule(BOX, 0.5, 0.5, mean=0.2, std=2.0)(td.clone())["action"]
    assert free.mean().item() == pytest.approx(0.4 + 0.5 * 0.2, abs=0.04)
    assert free.std().item() == pytest.approx(0.5 * 2.0, abs=0.04)
    assert not BOX.is_in(free)
    torch.manual_seed(1)
    free = AdditiveGaussianModule(BOX, 0.5, 0.5)(td.clone())["action"]
    torch.manual_seed(1)
    assert torch.equal(AdditiveGaussianModule(BOX, 0.5, 0.5, safe=True)(td)["action"], free.clamp(-1, 1))


@at_most(30)
@given(
    theta=st.floats(0, 1),
    mu=st.floats(-1, 1),
    sigma=st.floats(0, 1),
    dt=st.floats(0.01, 1),
    x0=st.none() | st.floats(-1, 1),
    ends=st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=1, max_size=6),
)
def test_ou_noise_follows_its_equation(
    theta: float, mu: float, sigma: float, dt: float, x0: float | None, ends: list[list[bool]]
) -> None:
    options = {"theta": theta, "mu": mu, "sigma": sigma, "dt": dt, "x0": x0, "safe": False}
    explore = OrnsteinUhlenbeckProcessModule(BOX, 0.7, 0.7, **options, sigma_min=sigma / 4, n_steps_annealing=3)
    first = 0.0 if x0 is None else x0
    noise, steps, state = torch.full((2, 2), first), torch.zeros(2), data(torch.zeros(2, 2), 2)
    for t, init in enumerate(ends):
        restart = torch.tensor(init) | (t == 0)
        noise[restart], steps[restart] = first, 0
        sigmas = (sigma - (sigma - sigma / 4) / 3 * steps).clamp_min(sigma / 4).unsqueeze(-1)
        torch.manual_seed(t)
        noise = noise + theta * (mu - noise) * dt + sigmas * dt**0.5 * torch.randn(2, 2)
        steps += 1
        state.update({"action": torch.full((2, 2), 0.1), "is_init": restart.unsqueeze(-1)})
        torch.manual_seed(t)
        state = explore(state)
        torch.testing.assert_close(state["action"], 0.1 + 0.7 * noise)
        assert torch.equal(state["_ou_steps"], steps.to(torch.int64))


def test_ou_noise_of_agents_restarts_with_their_env() -> None:
    key = ("agents", "action")
    explore = OrnsteinUhlenbeckProcessModule(BOX.expand(3, 2), mu=5.0, sigma=0.0, theta=1.0, dt=0.1, action_key=key)
    td = TensorDict({"agents": TensorDict({"action": torch.zeros(2, 3, 2)}, [2, 3])}, [2])
    td["is_init"] = torch.ones(2, 1, dtype=torch.bool)
    explore(td)["is_init"] = torch.tensor([[True], [False]])
    explore(td.set(key, torch.zeros(2, 3, 2)))
    assert td["_ou_steps"].tolist() == [[1, 1, 1], [2, 2, 2]]
    assert td["_ou_prev_noise"][:, 0, 0].tolist() == pytest.approx([0.5, 0.95])


def test_a_missing_start_is_warned_of_once() -> None:
    explore = OrnsteinUhlenbeckProcessModule(BOX)
    td = explore(TensorDict({"action": torch.zeros(2)}))
    with pytest.warns(UserWarning) as caught:
        explore(td)
    assert str(caught[0].message) == (
        "OrnsteinUhlenbeckProcessModule restarts its noise where 'is_init' is True, and the data has no such entry: "
        "the noise of an episode goes on from that of the one before. Fix: env = TransformedEnv(env, InitTracker())."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert explore(td)["_ou_steps"] == 3


# In rollouts ----------------------------------------------------------------------------------------------------------


def cartpole_policy(env: Any, eps: float) -> Any:
    torch.manual_seed(0)
    greedy = QValueActor(nn.Linear(4, 2), spec=env.action_spec)
    return TensorDictSequential(greedy, EGreedyModule(env.action_spec, eps, eps))


@pytest.mark.parametrize("make", [lambda: GymEnv("CartPole-v1"), lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1"))])
@pytest.mark.parametrize("categorical", [False, True])
def test_rollouts_explore_with_probability_eps(make: Any, categorical: bool) -> None:
    env = make()
    if categorical:
        env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(0)
    policy = cartpole_policy(env, 0.5)
    steps = env.rollout(300, policy, break_when_any_done=False)
    action = steps["action"] if categorical else steps["action"].to(torch.int64).argmax(-1)
    other = action != steps["action_value"].argmax(-1)
    assert other.float().mean().item() == pytest.approx(0.25, abs=0.06)
    assert {"action_value", "chosen_action_value"} <= set(steps.keys())
    with set_exploration_type("deterministic"):
        steps = env.rollout(50, policy, break_when_any_done=False)
    action = steps["action"] if categorical else steps["action"].to(torch.int64).argmax(-1)
    assert torch.equal(action, steps["action_value"].argmax(-1))


def test_collectors_explore_and_see_the_steps_of_annealing() -> None:
    env = GymEnv("CartPole-v1")
    policy = cartpole_policy(env, 1.0)
    others = []
    for steps in Collector(env, policy, frames_per_batch=200, total_frames=400):
        others.append((steps["action"].to(torch.int64).argmax(-1) != steps["action_value"].argmax(-1)).float().mean())
        policy[-1].eps.fill_(0.0)
    assert others[0].item() == pytest.approx(0.5, abs=0.15)
    assert others[1] == 0


@pytest.mark.parametrize("single", [False, True])
def test_ou_noise_restarts_at_resets_of_rollouts(single: bool) -> None:
    def make() -> Any:
        return GymEnv("Pendulum-v1", max_episode_steps=4)

    env = TransformedEnv(make() if single else SerialEnv(2, make), InitTracker())
    policy = TensorDictSequential(
        Actor(nn.Linear(3, 1), spec=env.action_spec),
        OrnsteinUhlenbeckProcessModule(env.action_spec),
        TensorDictModule(torch.clone, ["_ou_steps"], ["ou_steps"]),  # a collector leaves out what begins with "_"
    )
    for steps in (
        env.rollout(10, policy, break_when_any_done=False),
        next(iter(Collector(env, policy, frames_per_batch=10 * env.batch_size.numel(), total_frames=-1))),
    ):
        expected = torch.tensor([1, 2, 3, 4, 1, 2, 3, 4, 1, 2])
        assert torch.equal(steps["ou_steps"], expected.expand(*env.batch_size, 10))
        assert env.action_spec.is_in(steps["action"].movedim(-2, 0))


def test_specs_come_from_the_env() -> None:
    env = GymEnv("CartPole-v1")
    policy = TensorDictSequential(QValueActor(nn.Linear(4, 2), spec=env.action_spec), EGreedyModule(None))
    with pytest.raises(RuntimeError) as error:
        policy(env.reset())
    assert str(error.value).startswith(
        "EGreedyModule was made without a spec. Fix: set_exploration_modules_spec_from_env(policy, env), or "
        "spec=env.action_spec."
    )
    set_exploration_modules_spec_from_env(policy, env)
    assert policy[-1].spec["action"] == env.action_spec
    assert env.rollout(5, policy)["action"].sum(-1).eq(1).all()


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: EGreedyModule(BOX, 0.1, 0.5),
            ValueError,
            "EGreedyModule explores less and less, got eps_init=0.1 and eps_end=0.5. Fix: eps_init=0.5, eps_end=0.1.",
        ),
        (
            lambda: EGreedyModule(BOX, 2.0),
            ValueError,
            "eps_init of EGreedyModule is a probability, got 2. Fix: eps_init=1.0.",
        ),
        (
            lambda: AdditiveGaussianModule(BOX, annealing_num_steps=0),
            ValueError,
            "annealing_num_steps of AdditiveGaussianModule must be at least 1, got 0. Fix: for a constant sigma, "
            "sigma_end=sigma_init.",
        ),
        (
            lambda: EGreedyModule("one-hot"),
            TypeError,
            "The spec of EGreedyModule must be a spec, got str. Fix: spec=env.action_spec.",
        ),
        (
            lambda: EGreedyModule(Composite(move=BOX)),
            KeyError,
            "The spec of EGreedyModule needs an entry for the action 'action', it has ['move']. Fix: "
            "spec=env.action_spec, or the action_key= of the env.",
        ),
        (
            lambda: EGreedyModule(BOX, action_mask_key="mask"),
            ValueError,
            "A mask of actions needs a spec with finitely many actions, got a BoundedContinuous. "
            "Fix: action_mask_key=None.",
        ),
        (
            lambda: AdditiveGaussianModule(OneHot(2)),
            ValueError,
            "AdditiveGaussianModule adds noise to real numbers, and the spec of 'action' is a OneHot. "
            "Fix: EGreedyModule(spec) explores discrete actions.",
        ),
        (
            lambda: OrnsteinUhlenbeckProcessModule(BOX, sigma_min=0.5),
            ValueError,
            "sigma_min of OrnsteinUhlenbeckProcessModule is the smallest sigma, got sigma=0.2 and sigma_min=0.5. "
            "Fix: sigma_min=None keeps sigma.",
        ),
        (
            lambda: EGreedyModule(BOX)(TensorDict({"a": torch.zeros(2)})),
            KeyError,
            "EGreedyModule changes 'action', and the data has: 'a'. Fix: "
            "TensorDictSequential(policy, EGreedyModule(...)), where the policy writes the action first, or "
            "action_key= for another entry.",
        ),
        (
            lambda: EGreedyModule(OneHot(2), action_mask_key="mask")(TensorDict({"action": torch.zeros(2)})),
            KeyError,
            "EGreedyModule reads the mask 'mask', and the data has: 'action'. An env with masks writes it. Fix: "
            "action_mask_key=None, or the entry of the env.",
        ),
        (
            lambda: EGreedyModule(Categorical(3, shape=(5,)), 0.0, 0.0)(data(torch.zeros(2, dtype=torch.int64), 2)),
            ValueError,
            "The spec of 'action' in EGreedyModule has shape [5], and the action has shape [2]. Fix: "
            "spec=env.action_spec of the env that takes the action.",
        ),
    ],
)
def test_texts_of_errors(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as error:
        make()
    assert error.value.args[0] == text


def test_unbounded_actions_and_policies_without_specs() -> None:
    policy = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 1), ["observation"], ["action"]),
        AdditiveGaussianModule(Unbounded((1,)), safe=True),
    )
    out = policy(TensorDict({"observation": torch.zeros(4, 3)}, [4]))
    assert out["action"].requires_grad


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("kind", ["random", "mode"])
def test_rollouts_on_tensors_are_those_on_tensordicts(batched: bool, kind: str) -> None:
    def make() -> Any:
        return GymEnv("CartPole-v1")

    env = SerialEnv(2, make) if batched else make()
    masked = QValueActor(nn.Linear(4, 2), spec=env.action_spec)
    for policy in (cartpole_policy(env, 0.4), TensorDictSequential(masked), masked):
        twin = copy.deepcopy(policy)
        twin.register_forward_hook(lambda *_: None)  # a policy with a hook gets TensorDicts
        assert unwrapped(policy, env.batch_size) is not None
        assert unwrapped(twin, env.batch_size) is None
        rollouts = []
        for each in (policy, twin):
            torch.manual_seed(0)
            env.set_seed(0)
            with set_exploration_type(kind):
                rollouts.append(env.rollout(60, each, break_when_any_done=False))
        assert set(rollouts[0].keys(True, True)) == set(rollouts[1].keys(True, True))
        assert (rollouts[0] == rollouts[1]).all()


@pytest.mark.parametrize("safe", [False, True])
def test_noise_on_tensors_is_that_on_tensordicts(safe: bool) -> None:
    env = GymEnv("Pendulum-v1")
    actor = Actor(nn.Linear(3, 1), spec=env.action_spec, safe=safe)
    policy = TensorDictSequential(actor, AdditiveGaussianModule(env.action_spec, safe=True))
    twin = copy.deepcopy(policy)
    twin.register_forward_hook(lambda *_: None)
    env.rollout(1, policy)  # the first call checks that the outputs fit the spec
    assert (unwrapped(policy, env.batch_size) is None) == safe
    rollouts = []
    for each in (policy, twin):
        torch.manual_seed(0)
        env.set_seed(0)
        rollouts.append(env.rollout(30, each))
    assert (rollouts[0] == rollouts[1]).all()


def test_what_does_more_than_its_function_is_called_as_it_is() -> None:
    class Loud(EGreedyModule):
        def forward(self, tensordict: TensorDict) -> TensorDict:
            return super().forward(tensordict)

    spec, batch = Categorical(2), torch.Size([])
    assert unwrapped(EGreedyModule(spec), batch) is not None
    greedy = QValueActor(nn.Linear(4, 2), spec=spec)
    assert unwrapped(TensorDictSequential(greedy, EGreedyModule(spec)), batch) is not None
    hooked = QValueActor(nn.Linear(4, 2), spec=spec)
    hooked[0].register_forward_hook(lambda *_: None)
    for policy in (
        Loud(spec),
        TensorDictSequential(greedy, Loud(spec)),
        TensorDictSequential(hooked, EGreedyModule(spec)),
        TensorDictSequential(greedy, EGreedyModule(spec), inplace=False),
        TensorDictSequential(greedy, EGreedyModule(spec), partial_tolerant=True),
        QValueActor(nn.Linear(4, 2), spec=spec, safe=True),
        EGreedyModule(spec, action_key=("agents", "action")),
        OrnsteinUhlenbeckProcessModule(BOX),
        lambda td: td,
    ):
        assert unwrapped(policy, batch) is None


def test_dictionaries_within_a_sequence_are_written_by_name() -> None:
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    net = TensorDictModule(lambda x: {"b": x[..., 2:], "a": x[..., :2]}, ["observation"], ["a", "b"])
    policy = TensorDictSequential(
        net, QValueActor(TensorDictModule(nn.Identity(), ["a"], ["action_value"]), spec=env.action_spec)
    )
    steps = env.rollout(10, policy)
    assert torch.equal(steps["a"], steps["observation"][:, :2])
    assert torch.equal(steps["b"], steps["observation"][:, 2:])
    assert torch.equal(steps["action"], steps["a"].argmax(-1))
