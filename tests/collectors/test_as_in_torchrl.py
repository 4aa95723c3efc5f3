"""What programs written for TorchRL expect of a collector: names, options, weights, hooks, nested end signals."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential

from rlnb import collectors
from rlnb.collectors import Collector, SyncDataCollector
from rlnb.data import Binary, Categorical, Composite, LazyTensorStorage, ReplayBuffer, Unbounded
from rlnb.envs import EnvBase, GymEnv, InitTracker, SerialEnv, TransformedEnv
from rlnb.modules import MLP, OrnsteinUhlenbeckProcessModule


def linear():
    return TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"])


def pendulum():
    return GymEnv("Pendulum-v1")


def test_the_old_name_is_the_same_class():
    assert SyncDataCollector is Collector is collectors.Collector and Collector.__name__ == "Collector"


# Weights --------------------------------------------------------------------------------------------------------------


def test_the_policy_of_the_learner_acts():
    policy = linear()
    collector = Collector(pendulum(), policy, frames_per_batch=5)
    collector.next()
    with torch.no_grad():
        policy.module.weight.zero_()
        policy.module.bias.fill_(0.5)
    assert collector.update_policy_weights_() is None
    assert (collector.next()["action"] == 0.5).all() and collector.policy is policy


@pytest.mark.parametrize("form", ["module", "tensordict", "state dict", "parameters only"])
def test_weights_that_are_given(form):
    collector = Collector(pendulum(), policy_factory=linear, frames_per_batch=5)
    policy = linear()
    weights = {
        "module": policy,
        "tensordict": TensorDict.from_module(policy),
        "state dict": policy.state_dict(),
        "parameters only": TensorDict.from_module(policy).data,
    }[form]
    collector.update_policy_weights_(weights)
    batch = collector.next()
    torch.testing.assert_close(batch["action"], policy.module(batch["observation"]).detach())


def test_weights_that_do_not_fit_change_nothing():
    collector = Collector(pendulum(), linear(), frames_per_batch=5)
    before = copy.deepcopy(collector.policy.state_dict())
    with pytest.raises(RuntimeError, match=r"^The weights do not fit the policy: .*'module.weight'"):
        collector.update_policy_weights_(torch.nn.Linear(3, 1))
    with pytest.raises(RuntimeError, match=r"^The weights do not fit the policy: .*\['module.weight'\]"):
        collector.update_policy_weights_({"module.weight": torch.zeros(3, 3), "module.bias": torch.zeros(1)})
    with pytest.raises(TypeError, match=r"^policy_or_weights must be a module, a TensorDict of parameters"):
        collector.update_policy_weights_(3)
    assert all((value == before[key]).all() for key, value in collector.policy.state_dict().items())
    with pytest.raises(TypeError, match=r"^update_policy_weights_ needs a policy that is a torch module"):
        Collector(pendulum(), frames_per_batch=5).update_policy_weights_(linear())


def test_a_copy_on_another_device_follows_the_policy(monkeypatch):
    policy = linear()
    # As if the collector's policy were on another device: the learner's own module must stay where it is.
    other = copy.deepcopy(policy)
    monkeypatch.setattr("rlnb.collectors.collector._on_device", lambda given, device: other)
    collector = Collector(pendulum(), policy, frames_per_batch=5, policy_device="cpu")
    with torch.no_grad():
        policy.module.bias.fill_(7.0)
    collector.update_policy_weights_()
    assert collector.policy is other and other.module.bias.item() == 7.0


def test_the_policy_of_the_learner_stays_on_its_device():
    policy = linear()
    moved = collectors.collector._on_device(policy, "meta")
    assert moved.module.weight.device.type == "meta" and policy.module.weight.device.type == "cpu"
    assert collectors.collector._on_device(policy, "cpu") is policy


# Options --------------------------------------------------------------------------------------------------------------


def test_options_without_an_effect():
    collector = Collector(
        pendulum(),
        None,
        frames_per_batch=10,
        total_frames=20,
        compile_policy=False,
        cudagraph_policy=None,
        no_cuda_sync=True,
        use_buffers=True,
        max_frames_per_traj=-1,
        init_random_frames=None,
        split_trajs=None,
        trust_policy=None,
        auto_register_policy_transforms=None,
        extend_buffer=True,
        reset_when_done=True,
        backend="direct",
        weight_sync_schemes=None,
        worker_idx=0,
    )
    assert [batch.shape for batch in collector] == [(10,)] * 2
    assert collector.stats() == {
        "frames": 20,
        "batches": 2,
        "total_frames": 20,
        "completed": True,
        "requested_frames_per_batch": 10,
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("compile_policy", True),
        ("compile_policy", {"mode": "reduce-overhead"}),
        ("cudagraph_policy", True),
        ("auto_register_policy_transforms", True),
        ("reset_when_done", False),
        ("backend", "ray"),
        ("num_collectors", 4),
        ("trajs_per_batch", 2),
        ("weight_updater", object()),
    ],
)
def test_options_that_cannot_be_kept_are_refused_by_name(option, value):
    with pytest.raises(
        ValueError, match=rf"^Collector\({option}={re.escape(repr(value))}\) is not supported: .* Fix: "
    ):
        Collector(pendulum(), frames_per_batch=10, **{option: value})


def test_unknown_options():
    with pytest.raises(TypeError, match=r"^Collector\(\) has no option 'total_frame'. Did you mean 'total_frames'\?"):
        Collector(pendulum(), frames_per_batch=10, total_frame=10)


def test_the_last_step_of_a_batch_can_be_marked_as_truncated():
    collector = Collector(SerialEnv(2, pendulum), frames_per_batch=20, set_truncated=True)
    first, second = collector.next(), collector.next()
    for batch in (first, second):
        for key in ("done", "truncated"):
            assert batch["next", key][..., 0].tolist() == [[False] * 9 + [True]] * 2
        assert not batch["next", "terminated"].any()
    # The episode goes on, and so does its id.
    assert (first["next", "observation"][:, -1] == second["observation"][:, 0]).all()
    assert not second["truncated"].any()
    assert first["collector", "traj_ids"].tolist() == second["collector", "traj_ids"].tolist()


def test_an_env_without_truncated_cannot_be_marked():
    with pytest.raises(ValueError, match=r"^set_truncated=True marks the last step of a batch as truncated"):
        Collector(nested_env(), frames_per_batch=10, set_truncated=True)


def test_batches_without_ids():
    batch = Collector(pendulum(), frames_per_batch=5, track_traj_ids=False).next()
    assert batch.get("collector", None) is None
    with pytest.raises(ValueError, match=r"^split_trajs=True splits batches by their trajectory ids"):
        Collector(pendulum(), frames_per_batch=5, track_traj_ids=False, split_trajs=True)


def test_hooks():
    seen = []
    buffer = ReplayBuffer(storage=LazyTensorStorage(100))
    collector = Collector(
        pendulum(),
        frames_per_batch=5,
        total_frames=10,
        replay_buffer=buffer,
        pre_collect_hook=lambda: seen.append("before"),
        post_collect_hook=lambda batch: seen.append(batch.shape[0]),
    )
    assert list(collector.iterator()) == [None, None] and seen == ["before", 5, "before", 5]
    collector.set_post_collect_hook(None)
    collector.next()
    assert seen[4:] == ["before"] and len(buffer) == 15
    assert collector.getattr_rb("_storage") is buffer._storage and collector.getattr_env("batch_size") == ()


def test_shutdown():
    env = pendulum()
    collector = Collector([lambda: env], linear(), frames_per_batch=5)
    collector.next()
    collector.shutdown(close_env=False)
    assert not env.is_closed and collector.getattr_policy("in_keys") == ["observation"]
    collector.async_shutdown(timeout=1.0)
    assert env.is_closed


# Envs and policies ----------------------------------------------------------------------------------------------------


def nested_env():
    class Nested(EnvBase):
        def __init__(self):
            super().__init__()
            self.observation_spec = Composite(agents=Composite(seen=Unbounded((2, 1)), shape=(2,)))
            self.action_spec = Composite(agents=Composite(action=Categorical(2, shape=(2,)), shape=(2,)))
            self.reward_spec = Composite(agents=Composite(reward=Unbounded((2, 1)), shape=(2,)))
            self.done_spec = Composite(
                agents=Composite(
                    done=Binary(1, shape=(2, 1), dtype=torch.bool),
                    terminated=Binary(1, shape=(2, 1), dtype=torch.bool),
                    shape=(2,),
                )
            )

        def _reset(self, tensordict=None, **kwargs):
            self.t = 0
            return TensorDict({"agents": TensorDict({"seen": torch.zeros(2, 1)}, [2])})

        def _step(self, tensordict):
            self.t += 1
            over = torch.full((2, 1), self.t == 4)
            seen = torch.full((2, 1), float(self.t))
            data = {"seen": seen, "reward": torch.ones(2, 1), "done": over, "terminated": over.clone()}
            return TensorDict({"agents": TensorDict(data, [2])})

        def _set_seed(self, seed):
            pass

    return Nested()


@pytest.mark.parametrize("make", [nested_env, lambda: SerialEnv(2, nested_env)], ids=["one", "two"])
def test_an_env_whose_only_end_signals_are_nested(make):
    env = make()
    collector = Collector(env, frames_per_batch=10 * env.batch_size.numel(), split_trajs=False)
    batch = collector.next()
    seen = batch["next", "agents", "seen"][..., 0, 0].reshape(-1, 10)
    assert seen.tolist() == [[1, 2, 3, 4, 1, 2, 3, 4, 1, 2]] * len(seen)
    ids = batch["collector", "traj_ids"].reshape(-1, 10)
    assert (ids[:, 1:] != ids[:, :-1]).tolist() == [[False] * 3 + [True] + [False] * 3 + [True] + [False]] * len(ids)
    again = collector.next()["collector", "traj_ids"].reshape(-1, 10)
    assert (again[:, 0] == ids[:, -1]).all() and len({*ids.flatten().tolist()}) == 3 * len(ids)


class WithoutKeys(TensorDictModuleBase):
    """A policy that does not say what it reads and writes."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, tensordict):
        return tensordict.set("action", self.scale * tensordict["observation"][..., :1].clamp(-1, 1))


def test_a_policy_without_keys():
    policy = WithoutKeys()
    batch = Collector(SerialEnv(2, pendulum), policy, frames_per_batch=10, init_random_frames=10).next()
    assert batch.shape == (2, 5)
    batch = Collector(pendulum(), policy, frames_per_batch=10).next()
    torch.testing.assert_close(batch["action"], batch["observation"][..., :1].clamp(-1, 1))
    assert pendulum().rollout(3, policy).shape == (3,)


def test_private_entries_stay_with_the_policy():
    env = TransformedEnv(pendulum(), InitTracker())
    noise = OrnsteinUhlenbeckProcessModule(spec=env.action_spec)
    steps = []
    noise.register_forward_hook(lambda module, inputs, out: steps.append(out["_ou_steps"].item()))
    collector = Collector(env, TensorDictSequential(linear(), noise), frames_per_batch=5, init_random_frames=5)
    keys = {str(key) for batch in (collector.next(), collector.next(), collector.next()) for key in batch.keys(True)}
    assert "is_init" in keys and not [key for key in keys if "_ou" in key]
    assert steps[-10:] == [*range(1, 11)]


# Lazy layers ----------------------------------------------------------------------------------------------------------


def lazy(n=1):
    return TensorDictModule(MLP(out_features=n, num_cells=[8]), ["observation"], ["action"])


@pytest.mark.parametrize("batch", [0, 2])
def test_a_lazy_policy_gets_its_sizes(batch):
    policy = lazy()
    env = SerialEnv(batch, pendulum) if batch else pendulum()
    Collector(env, policy, frames_per_batch=10)
    assert [value.shape for value in policy.parameters()] == [(8, 3), (8,), (1, 8), (1,)]


def test_sizes_change_no_episode():
    plain = linear()
    batches = []
    for seed, policy in ((0, plain), (0, copy.deepcopy(plain))):
        env = pendulum()
        env.set_seed(seed)
        if batches:
            net = torch.nn.LazyLinear(1)
            policy = TensorDictModule(net, ["observation"], ["action"])
            collector = Collector(env, policy, frames_per_batch=10)
            net.load_state_dict(plain.module.state_dict())
        else:
            collector = Collector(env, policy, frames_per_batch=10)
        batches.append(collector.next())
    assert (batches[0] == batches[1]).all()


def test_a_policy_that_refuses_zeros_is_left_to_the_first_batch():
    def positive(observation):
        if not observation.any():
            raise ValueError("zeros")
        return net(observation)

    net = torch.nn.LazyLinear(1)
    policy = torch.nn.ModuleList([net])
    policy.forward = positive
    collector = Collector(pendulum(), TensorDictModule(policy, ["observation"], ["action"]), frames_per_batch=10)
    assert torch.nn.parameter.is_lazy(net.weight)
    collector.next()
    assert net.weight.shape == (1, 3)


def test_postproc_is_called_with_what_was_split():
    seen = []
    env, ends = pendulum(), {"frames_per_batch": 10, "total_frames": 10, "max_frames_per_traj": 4}
    (batch,) = Collector(env, split_trajs=True, postproc=lambda data: seen.append(data) or data, **ends)
    assert seen[0] is batch and batch.shape == (3, 4) and batch["collector", "mask"].sum() == 10
