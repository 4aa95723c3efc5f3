"""The dotted paths that programs written for TorchRL import from lead to the same objects as ours."""

from __future__ import annotations

import importlib

import pytest

PATHS = {
    "rlnb._utils": "logger",
    "rlnb.collectors.collectors": "Collector SyncDataCollector MultiSyncDataCollector MultiaSyncDataCollector "
    "aSyncDataCollector AsyncCollector MultiAsyncCollector MultiCollector MultiSyncCollector",
    "rlnb.collectors.distributed": "RayCollector",
    "rlnb.collectors.utils": "split_trajectories",
    "rlnb.data.datasets": "AtariDQNExperienceReplay BaseDatasetExperienceReplay D4RLExperienceReplay "
    "GenDGRLExperienceReplay LeRobotExperienceReplay MinariExperienceReplay OpenMLExperienceReplay "
    "OpenXExperienceReplay RobosetExperienceReplay VD4RLExperienceReplay lerobot_columns_to_tensordict",
    "rlnb.data.datasets.atari_dqn": "AtariDQNExperienceReplay",
    "rlnb.data.datasets.common": "BaseDatasetExperienceReplay",
    "rlnb.data.datasets.d4rl": "D4RLExperienceReplay",
    "rlnb.data.datasets.gen_dgrl": "GenDGRLExperienceReplay",
    "rlnb.data.datasets.lerobot": "LeRobotExperienceReplay lerobot_columns_to_tensordict",
    "rlnb.data.datasets.minari_data": "MinariExperienceReplay",
    "rlnb.data.datasets.openml": "OpenMLExperienceReplay",
    "rlnb.data.datasets.openx": "OpenXExperienceReplay",
    "rlnb.data.datasets.roboset": "RobosetExperienceReplay",
    "rlnb.data.datasets.vd4rl": "VD4RLExperienceReplay",
    "rlnb.data.llm": "AdaptiveKLController ConstantKLController PairwiseDataset PromptData PromptTensorDictTokenizer "
    "RewardData RolloutFromModel TensorDictTokenizer TokenizedDatasetLoader create_infinite_iterator get_dataloader",
    "rlnb.data.llm.dataset": "TensorDictTokenizer TokenizedDatasetLoader create_infinite_iterator get_dataloader",
    "rlnb.data.llm.prompt": "PromptData PromptTensorDictTokenizer",
    "rlnb.data.llm.reward": "PairwiseDataset RewardData pre_tokenization_hook",
    "rlnb.data.llm.utils": "AdaptiveKLController ConstantKLController KLControllerBase RolloutFromModel",
    "rlnb.data.postprocs": "MultiStep",
    "rlnb.data.replay_buffers.ray_buffer": "RayReplayBuffer",
    "rlnb.data.replay_buffers.replay_buffers": "ReplayBuffer TensorDictReplayBuffer TensorDictPrioritizedReplayBuffer",
    "rlnb.data.replay_buffers.samplers": "PrioritizedSampler RandomSampler SamplerWithoutReplacement SliceSampler",
    "rlnb.data.replay_buffers.storages": "LazyMemmapStorage LazyTensorStorage ListStorage",
    "rlnb.data.replay_buffers.utils": "Flat2TED H5Combine H5Split Nested2TED TED2Flat TED2Nested",
    "rlnb.data.replay_buffers.writers": "RoundRobinWriter TensorDictMaxValueWriter",
    "rlnb.data.rlhf": "AdaptiveKLController ConstantKLController PairwiseDataset PromptData PromptTensorDictTokenizer "
    "RewardData RolloutFromModel TensorDictTokenizer TokenizedDatasetLoader create_infinite_iterator get_dataloader",
    "rlnb.data.rlhf.dataset": "TensorDictTokenizer TokenizedDatasetLoader create_infinite_iterator get_dataloader",
    "rlnb.data.rlhf.prompt": "PromptData PromptTensorDictTokenizer",
    "rlnb.data.rlhf.reward": "PairwiseDataset RewardData pre_tokenization_hook",
    "rlnb.data.rlhf.utils": "AdaptiveKLController ConstantKLController KLControllerBase RolloutFromModel",
    "rlnb.data.tensor_specs": "Binary Bounded Categorical Composite MultiCategorical OneHot TensorSpec Unbounded "
    "BoundedTensorSpec CompositeSpec DiscreteTensorSpec OneHotDiscreteTensorSpec UnboundedContinuousTensorSpec",
    "rlnb.data.utils": "DEVICE_TYPING",
    "rlnb.envs.batched_envs": "BatchedEnvBase ParallelEnv SerialEnv",
    "rlnb.envs.common": "EnvBase",
    "rlnb.envs.env_creator": "EnvCreator",
    "rlnb.envs.gym_like": "GymLikeEnv default_info_dict_reader",
    "rlnb.envs.libs.gym": "GymEnv GymWrapper set_gym_backend",
    "rlnb.envs.model_based": "DreamerDecoder DreamerEnv ModelBasedEnvBase",
    "rlnb.envs.model_based.common": "ModelBasedEnvBase",
    "rlnb.envs.model_based.dreamer": "DreamerDecoder DreamerEnv",
    "rlnb.envs.transforms.llm": "KLRewardTransform",
    "rlnb.envs.transforms.rlhf": "KLRewardTransform",
    "rlnb.envs.transforms.transforms": "Compose ObservationNorm Transform TransformedEnv _apply_to_composite",
    "rlnb.envs.utils": "ExplorationType RandomPolicy check_env_specs set_exploration_type step_mdp",
    "rlnb.modules.models": "ConvNet DuelingCnnDQNet DuelingMlpDQNet MLP MultiAgentMLP QMixer VDNMixer",
    "rlnb.modules.models.model_based": "DreamerActor ObsDecoder ObsEncoder RSSMPosterior RSSMPrior RSSMRollout",
    "rlnb.modules.models.models": "ConvNet DdpgMlpActor DdpgMlpQNet DuelingCnnDQNet DuelingMlpDQNet MLP",
    "rlnb.modules.models.multiagent": "MultiAgentConvNet MultiAgentMLP MultiAgentNetBase QMixer VDNMixer",
    "rlnb.modules.models.utils": "SquashDims Squeeze2dLayer",
    "rlnb.objectives.multiagent": "QMixerLoss",
    "rlnb.modules.distributions": "Delta IndependentNormal MaskedCategorical OneHotCategorical TanhDelta TanhNormal "
    "TruncatedNormal NormalParamExtractor",
    "rlnb.modules.distributions.continuous": "Delta IndependentNormal TanhDelta TanhNormal TruncatedNormal",
    "rlnb.modules.distributions.discrete": "MaskedCategorical MaskedOneHotCategorical OneHotCategorical",
    "rlnb.modules.tensordict_module": "Actor ActorCriticOperator ActorValueOperator EGreedyModule GRUModule LSTMModule "
    "ProbabilisticActor QValueModule RandomPolicy SafeModule SafeSequential ValueOperator",
    "rlnb.modules.tensordict_module.actors": "Actor ActorCriticOperator ActorCriticWrapper ActorValueOperator "
    "ProbabilisticActor QValueActor QValueModule ValueOperator",
    "rlnb.modules.tensordict_module.common": "SafeModule",
    "rlnb.modules.tensordict_module.exploration": "AdditiveGaussianModule EGreedyModule OrnsteinUhlenbeckProcessModule "
    "set_exploration_modules_spec_from_env",
    "rlnb.modules.tensordict_module.probabilistic": "SafeProbabilisticModule SafeProbabilisticTensorDictSequential",
    "rlnb.modules.tensordict_module.sequence": "SafeSequential",
    "rlnb.modules.tensordict_module.world_models": "WorldModelWrapper",
    "rlnb.objectives.a2c": "A2CLoss",
    "rlnb.objectives.common": "LossModule",
    "rlnb.objectives.ddpg": "DDPGLoss",
    "rlnb.objectives.dqn": "DQNLoss",
    "rlnb.objectives.iql": "DiscreteIQLLoss IQLLoss",
    "rlnb.objectives.ppo": "ClipPPOLoss KLPENPPOLoss PPOLoss",
    "rlnb.objectives.reinforce": "ReinforceLoss",
    "rlnb.objectives.sac": "DiscreteSACLoss SACLoss",
    "rlnb.objectives.td3": "TD3Loss",
    "rlnb.objectives.utils": "HardUpdate SoftUpdate ValueEstimators default_value_kwargs distance_loss hold_out_net "
    "group_optimizers hold_out_params TargetNetUpdater",
    "rlnb.objectives.value": "GAE TD0Estimator TD1Estimator TDLambdaEstimator ValueEstimatorBase",
    "rlnb.objectives.value.advantages": "GAE TD0Estimator TD1Estimator TDLambdaEstimator ValueEstimatorBase",
    "rlnb.objectives.value.functional": "generalized_advantage_estimate td0_advantage_estimate td0_return_estimate "
    "reward2go td1_advantage_estimate td1_return_estimate td_lambda_advantage_estimate td_lambda_return_estimate",
    "rlnb.record": "CSVLogger MLFlowLogger PixelRenderTransform TensorDictRecorder TensorboardLogger VideoRecorder "
    "WandbLogger",
    "rlnb.record.loggers": "CSVLogger Logger MLFlowLogger TensorboardLogger WandbLogger generate_exp_name get_logger",
    "rlnb.record.loggers.common": "Logger",
    "rlnb.record.loggers.csv": "CSVLogger",
    "rlnb.record.loggers.mlflow": "MLFlowLogger",
    "rlnb.record.loggers.tensorboard": "TensorboardLogger TensorBoardLogger",
    "rlnb.record.loggers.utils": "generate_exp_name get_logger",
    "rlnb.record.loggers.wandb": "WandbLogger",
    "rlnb.record.recorder": "PixelRenderTransform TensorDictRecorder VideoRecorder",
}


@pytest.mark.parametrize("path", PATHS)
def test_names_are_found_and_have_one_home(path: str) -> None:
    module, package = importlib.import_module(path), importlib.import_module(".".join(path.split(".")[:2]))
    for name in PATHS[path].split():
        found = getattr(module, name)
        assert getattr(package, name, found) is found
