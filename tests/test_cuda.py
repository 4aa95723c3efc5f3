"""The library on a CUDA device: envs, transforms, buffers, losses and searches give the results of the CPU."""

from __future__ import annotations

import copy
import itertools
from functools import partial

import pytest
import rlnb_widgets as widgets
import torch

from rlnb.collectors import Collector
from rlnb.collectors.utils import split_trajectories
from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictReplayBuffer,
)
from rlnb.data.specs.normalize import as_device
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import (
    BanditEnv,
    CartPoleEnv,
    ConnectFourEnv,
    DeviceCastTransform,
    GridWorldEnv,
    GymEnv,
    InitTracker,
    MountainCarEnv,
    ParallelEnv,
    PendulumEnv,
    SerialEnv,
    SpreadEnv,
    StepCounter,
    TicTacToeEnv,
    TransformedEnv,
    VecNorm,
    check_env_specs,
    step_mdp,
)
from rlnb.modules import (
    MLP,
    AdditiveGaussianModule,
    EGreedyModule,
    GRUModule,
    LSTMModule,
    OrnsteinUhlenbeckProcessModule,
    QValueActor,
    TanhNormal,
    ValueOperator,
    set_recurrent_mode,
)
from rlnb.objectives import DQNLoss, SACLoss, SoftUpdate
from rlnb.objectives.value import GAE
from rlnb.search import MCTS
from tests.objectives.golden.make import qvalue
from tests.objectives.test_errors import normal_actor
from tests.objectives.test_estimators import KINDS, make_data
from tests.objectives.test_estimators import critic as exact_critic
from tests.objectives.test_losses import LOSSES, ON_POLICY


def pendulums(batch_size=(), device=None, seed=0):
    return PendulumEnv(PendulumEnv.gen_params(batch_size=list(batch_size)), seed=seed, device=device)


ENVS = {
    "Bandit": BanditEnv,
    "CartPole": CartPoleEnv,
    "ConnectFour": ConnectFourEnv,
    "GridWorld": GridWorldEnv,
    "MountainCar": MountainCarEnv,
    "Pendulum": pendulums,
    "Spread": SpreadEnv,
    "TicTacToe": TicTacToeEnv,
}
# What another device changes: the order of sums, and so the last digits.
NEAR = {"rtol": 1e-4, "atol": 1e-5}


def assert_near(found, expected):
    """See that two TensorDicts have the same entries, near each other, wherever they are."""
    assert set(leaf_keys(found)) == set(leaf_keys(expected))
    for key in leaf_keys(expected):
        if isinstance(expected.get(key), torch.Tensor):
            named = partial("{}: {}".format, key)
            torch.testing.assert_close(found.get(key).cpu(), expected.get(key).cpu(), **NEAR, msg=named)


def all_on(data, device):
    return all(data.get(key).device == device for key in leaf_keys(data) if isinstance(data.get(key), torch.Tensor))


def transitions(n=60, device=None):
    """Steps of three poles one after the other."""
    env = TransformedEnv(CartPoleEnv(batch_size=[3], seed=0, device=device), StepCounter(20))
    return env.rollout(n // 3, break_when_any_done=False).reshape(-1)


# Environments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (4,)])
@pytest.mark.parametrize("name", ENVS)
def test_an_env_keeps_to_its_specs_and_stays_there(cuda, name, batch):
    env = ENVS[name](batch_size=batch, device=cuda, seed=0)
    check_env_specs(env)
    found = env.rollout(12, break_when_any_done=False)
    assert found.device == cuda and all_on(found, cuda) and found.shape == (*batch, 12)


@pytest.mark.parametrize("name", [name for name in ENVS if name != "Bandit"])
def test_the_same_actions_lead_to_the_same_steps(cuda, name):
    here = ENVS[name](batch_size=[4], seed=0)
    at = here.reset()
    there, other = copy.deepcopy(here).to(cuda), at.to(cuda)
    for _ in range(4):
        at = here.rand_action(at)
        other = other.update(at.select(*here.action_keys).to(cuda))
        at, other = here.step(at), there.step(other)
        assert other.device == cuda
        assert_near(other["next"], at["next"])
        at, other = step_mdp(at), step_mdp(other)


@pytest.mark.parametrize("make", [pendulums, partial(GymEnv, "Pendulum-v1")])
def test_a_seed_repeats_episodes_and_leaves_the_generator_of_the_device_alone(cuda, make):
    env = make(device=cuda)
    env.set_seed(3)
    state = torch.cuda.get_rng_state(cuda)
    first = env.rollout(5)
    env.set_seed(3)
    assert_near(env.rollout(5), first)
    if make is pendulums:
        assert_near(copy.deepcopy(env).rollout(5), env.rollout(5))
    assert torch.equal(torch.cuda.get_rng_state(cuda), state)
    env.set_seed(4)
    assert not torch.equal(env.rollout(5)["action"], first["action"])


@pytest.mark.parametrize("made", [SerialEnv, ParallelEnv])
@pytest.mark.parametrize("inner", ["cpu", "cuda"])
def test_envs_in_a_batch_give_their_data_there(cuda, made, inner):
    env = made(
        2,
        lambda: CartPoleEnv(device=inner),
        device=cuda,
        **({"mp_start_method": "spawn"} if made is ParallelEnv else {}),
    )
    try:
        check_env_specs(env, seed=0)
        found = env.rollout(12, break_when_any_done=False)
        assert all_on(found, cuda) and found.shape == (2, 12)
    finally:
        env.close()


def test_a_gymnasium_env_gives_its_data_there(cuda):
    env = GymEnv("Pendulum-v1", device=cuda)
    check_env_specs(env, seed=0)
    assert all_on(env.rollout(5), cuda)


# Transforms -----------------------------------------------------------------------------------------------------------


def test_running_statistics_are_those_of_the_cpu(cuda):
    def rollout(device):
        torch.manual_seed(0)
        env = TransformedEnv(GymEnv("Pendulum-v1"), DeviceCastTransform(device)).append_transform(VecNorm())
        env.set_seed(0)
        return env.rollout(20, policy=lambda td: td.set("action", torch.full((1,), 0.5, device=device)))

    assert_near(rollout(cuda), rollout(torch.device("cpu")))


# Data -----------------------------------------------------------------------------------------------------------------

STORAGES = {
    "list": lambda cuda: ListStorage(100),
    "cpu": lambda cuda: LazyTensorStorage(100),
    "cuda": lambda cuda: LazyTensorStorage(100, device=cuda),
    "auto": lambda cuda: LazyTensorStorage(100, device="auto"),
    "memmap": lambda cuda: LazyMemmapStorage(100),
}
SAMPLERS = {
    "random": RandomSampler,
    "without replacement": SamplerWithoutReplacement,
    "prioritized": lambda: PrioritizedSampler(100, 0.7, 0.5),
    "slices": lambda: SliceSampler(num_slices=2, end_key=("next", "done"), strict_length=False),
}


# Slices are of storages of tensors.
@pytest.mark.parametrize(
    ("storage", "sampler"), [pair for pair in itertools.product(STORAGES, SAMPLERS) if pair != ("list", "slices")]
)
def test_a_buffer_gives_back_what_it_was_given(cuda, storage, sampler):
    rb = TensorDictReplayBuffer(storage=STORAGES[storage](cuda), sampler=SAMPLERS[sampler](), batch_size=8)
    given = transitions(device=cuda)
    rb.extend(given)
    assert len(rb) == 60
    assert_near(rb[:].exclude("index"), given)
    expected = torch.device("cpu") if storage in ("cpu", "memmap") else cuda
    for _ in range(10):
        batch = rb.sample()
        assert batch["observation"].device == expected
        index = batch["index"].cpu()
        index = index if index.ndim == 1 else index[..., 0]
        torch.testing.assert_close(batch["observation"].cpu(), given["observation"].cpu()[index])
        if sampler == "prioritized":
            batch["td_error"] = torch.rand(len(batch), device=cuda)
            rb.update_tensordict_priority(batch)


def test_transforms_of_a_buffer_move_its_batches(cuda, tmp_path):
    rb = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=8, transform=DeviceCastTransform(cuda))
    rb.extend(transitions())
    assert rb.sample()["observation"].device == cuda
    pinned = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=8, pin_memory=True, prefetch=2)
    pinned.extend(transitions())
    assert pinned.sample()["observation"].is_pinned()


def test_a_checkpoint_of_one_device_is_read_on_the_other(cuda, tmp_path):
    there = ReplayBuffer(storage=LazyTensorStorage(100, device=cuda), batch_size=8)
    there.extend(transitions(device=cuda))
    there.dumps(tmp_path / "a")
    here = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=8)
    here.loads(tmp_path / "a")
    assert_near(here[:], there[:])
    here.dumps(tmp_path / "b")
    again = ReplayBuffer(storage=LazyTensorStorage(100, device=cuda), batch_size=8)
    again.loads(tmp_path / "b")
    assert_near(again[:], there[:])
    assert again[:]["observation"].device == cuda


def test_trajectories_are_split_there(cuda):
    data = Collector(CartPoleEnv(batch_size=[3], seed=0, device=cuda), frames_per_batch=60, max_frames_per_traj=7)
    batch = next(iter(data))
    split = split_trajectories(batch)
    assert split.device == cuda and all_on(split, cuda)
    assert_near(split, split_trajectories(batch.cpu()))


# Policies and collectors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_device", ["cpu", "cuda"])
@pytest.mark.parametrize("policy_device", ["cpu", "cuda"])
@pytest.mark.parametrize("storing_device", [None, "cpu", "cuda"])
def test_a_collector_acts_and_stores_where_it_is_told(cuda, env_device, policy_device, storing_device):
    env = CartPoleEnv(batch_size=[4], categorical_action_encoding=True, seed=0, device=env_device)
    actor = QValueActor(MLP(4, 2, num_cells=[8]), spec=env.action_spec_unbatched).to(policy_device)
    collector = Collector(
        env, actor, frames_per_batch=40, total_frames=80, policy_device=policy_device, env_device=env_device,
        storing_device=storing_device,
    )  # fmt: skip
    for batch in collector:
        assert all_on(batch, as_device(storing_device or env_device)) and batch.shape == (4, 10)


@pytest.mark.parametrize("module", [EGreedyModule, AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule])
def test_noise_is_drawn_there(cuda, module):
    env = TransformedEnv(pendulums(batch_size=[4], seed=0, device=cuda), InitTracker())
    options = {} if module is EGreedyModule else {"safe": True}
    explore = module(env.action_spec, 1.0, 0.5, 10, device=cuda, **options)
    td = env.reset().set("action", torch.zeros(4, 1, device=cuda))
    found = explore(td)
    assert found["action"].device == cuda and bool(env.action_spec.is_in(found["action"]))
    explore.step(5)


@pytest.mark.parametrize("kind", [GRUModule, LSTMModule])
def test_recurrent_modules_go_over_sequences_there(cuda, kind):
    torch.manual_seed(0)
    module = kind(input_size=4, hidden_size=4, in_key="observation", out_key="features")
    env = TransformedEnv(CartPoleEnv(batch_size=[4], seed=0), InitTracker()).append_transform(
        module.make_tensordict_primer()
    )
    data = env.rollout(10, break_when_any_done=False)
    with torch.no_grad(), set_recurrent_mode(True):
        here = module(data.clone())
        there = module.to(cuda)(data.to(cuda))
    torch.testing.assert_close(there["features"].cpu(), here["features"], **NEAR)


# Learning -------------------------------------------------------------------------------------------------------------


def loss_and_gradients(name, device):
    torch.manual_seed(0)
    if name == "SACLoss":  # the one of the table draws its noise on the CPU
        loss = SACLoss(normal_actor(distribution_class=TanhNormal), qvalue(), target_entropy=-2.0).to(device)
    else:
        loss = LOSSES[name][0]().to(device)
    torch.manual_seed(0)
    terms = loss(LOSSES[name][1]().to(device))
    total = sum(value for key, value in terms.items() if key.startswith("loss"))
    total.backward()
    gradients = {name: p.grad.cpu() for name, p in loss.named_parameters() if p.grad is not None}
    return {key: value.detach().cpu() for key, value in terms.items() if value.ndim == 0}, gradients, terms


@pytest.mark.parametrize(
    "name", sorted(ON_POLICY | {"DQNLoss", "DDPGLoss", "IQLLoss", "DiscreteIQLLoss", "QMixerLoss", "TD3Loss"})
)
def test_a_loss_and_its_gradients_are_those_of_the_cpu(cuda, name):
    terms, gradients, there = loss_and_gradients(name, cuda)
    expected, expected_gradients, _ = loss_and_gradients(name, torch.device("cpu"))
    assert all(value.device == cuda for value in there.values())
    assert terms.keys() == expected.keys() and gradients.keys() == expected_gradients.keys()
    for key in expected:
        if "entropy" not in key:  # estimated from draws where there is no closed form
            torch.testing.assert_close(terms[key], expected[key], **NEAR)
    assert gradients


@pytest.mark.parametrize("name", ["SACLoss", "DiscreteSACLoss"])
def test_losses_that_draw_actions_run_there(cuda, name):
    _, gradients, there = loss_and_gradients(name, cuda)
    assert gradients and all(bool(value.isfinite().all()) and value.device == cuda for value in there.values())


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_gives_what_it_gives_on_the_cpu(cuda, kind):
    data = make_data(3, 12, seams=0.1)
    here = KINDS[kind](value_network=exact_critic())(data.clone())
    there = KINDS[kind](value_network=exact_critic().to(cuda)).to(cuda)(data.to(cuda))
    assert there.device == cuda
    assert_near(there, here)


def test_dqn_is_trained_there(cuda):
    torch.manual_seed(0)
    env = CartPoleEnv(batch_size=[8], categorical_action_encoding=True, seed=0, device=cuda)
    actor = QValueActor(MLP(4, 2, num_cells=[32], device=cuda), spec=env.action_spec_unbatched)
    loss = DQNLoss(actor, action_space="categorical", delay_value=True)
    loss.make_value_estimator(gamma=0.99)
    updater = SoftUpdate(loss, tau=0.1)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(1_000, device=cuda), batch_size=64, prefetch=2)
    seen = []
    for batch in Collector(env, actor, frames_per_batch=80, total_frames=800):
        rb.extend(batch.reshape(-1))
        for _ in range(4):
            terms = loss(rb.sample())
            optimizer.zero_grad()
            terms["loss"].backward()
            optimizer.step()
            updater.step()
        seen.append(terms["loss"].item())
    assert len(seen) == 10 and all(value == value for value in seen)


def test_gae_and_a_critic_share_the_device_of_the_data(cuda):
    data = Collector(CartPoleEnv(batch_size=[4], seed=0, device=cuda), frames_per_batch=40)
    critic = ValueOperator(MLP(4, 1, num_cells=[8], device=cuda), in_keys=["observation"])
    batch = GAE(gamma=0.9, lmbda=0.9, value_network=critic)(next(iter(data)))
    assert batch["advantage"].device == cuda and bool(batch["advantage"].isfinite().all())


# Search and pictures --------------------------------------------------------------------------------------------------


def test_a_search_of_an_env_there(cuda):
    env = GridWorldEnv(["S.H", ".#.", "..G"], device=cuda, seed=0)
    search = MCTS(env, seed=0).reset(env.reset()).run(30)
    assert search.visits.sum() == 30


def test_widgets_take_data_from_there(cuda):
    env = CartPoleEnv(device=cuda, seed=0)
    data = env.rollout(10)
    assert (
        widgets.RolloutPlayer(data).to_html()
        and widgets.TEDExplorer(data).to_html()
        and widgets.SpecExplorer(env).to_html()
    )
    rb = ReplayBuffer(storage=LazyTensorStorage(100, device=cuda), batch_size=8)
    rb.extend(data)
    assert widgets.BufferExplorer(rb).to_html()
