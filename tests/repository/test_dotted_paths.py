"""The dotted paths that programs written for TorchRL import from lead to the same objects as ours."""

from __future__ import annotations

import importlib

import pytest

PATHS = {
    "rlnb._utils": "logger",
    "rlnb.collectors.collectors": "Collector SyncDataCollector",
    "rlnb.collectors.utils": "split_trajectories",
    "rlnb.data.postprocs": "MultiStep",
    "rlnb.data.replay_buffers.replay_buffers": "ReplayBuffer TensorDictReplayBuffer TensorDictPrioritizedReplayBuffer",
    "rlnb.data.replay_buffers.samplers": "PrioritizedSampler RandomSampler SamplerWithoutReplacement SliceSampler",
    "rlnb.data.replay_buffers.storages": "LazyMemmapStorage LazyTensorStorage ListStorage",
    "rlnb.data.replay_buffers.utils": "Flat2TED H5Combine H5Split Nested2TED TED2Flat TED2Nested",
    "rlnb.data.replay_buffers.writers": "RoundRobinWriter TensorDictMaxValueWriter",
    "rlnb.data.tensor_specs": "Binary Bounded Categorical Composite MultiCategorical OneHot TensorSpec Unbounded "
    "BoundedTensorSpec CompositeSpec DiscreteTensorSpec OneHotDiscreteTensorSpec UnboundedContinuousTensorSpec",
    "rlnb.data.utils": "DEVICE_TYPING",
    "rlnb.envs.batched_envs": "BatchedEnvBase ParallelEnv SerialEnv",
    "rlnb.envs.common": "EnvBase",
    "rlnb.envs.env_creator": "EnvCreator",
    "rlnb.envs.gym_like": "GymLikeEnv default_info_dict_reader",
    "rlnb.envs.libs.gym": "GymEnv GymWrapper set_gym_backend",
    "rlnb.envs.transforms.transforms": "Compose ObservationNorm Transform TransformedEnv _apply_to_composite",
    "rlnb.envs.utils": "ExplorationType RandomPolicy check_env_specs set_exploration_type step_mdp",
    "rlnb.modules.models": "ConvNet DuelingCnnDQNet DuelingMlpDQNet MLP MultiAgentMLP QMixer VDNMixer",
    "rlnb.modules.models.models": "ConvNet DdpgMlpActor DdpgMlpQNet DuelingCnnDQNet DuelingMlpDQNet MLP",
    "rlnb.modules.models.multiagent": "MultiAgentConvNet MultiAgentMLP MultiAgentNetBase QMixer VDNMixer",
    "rlnb.modules.models.utils": "SquashDims Squeeze2dLayer",
    "rlnb.modules.tensordict_module": "GRUModule LSTMModule RandomPolicy",
    "rlnb.objectives.multiagent": "QMixerLoss",
}


@pytest.mark.parametrize("path", PATHS)
def test_names_are_found_and_have_one_home(path: str) -> None:
    module, package = importlib.import_module(path), importlib.import_module(".".join(path.split(".")[:2]))
    for name in PATHS[path].split():
        found = getattr(module, name)
        assert getattr(package, name, found) is found
