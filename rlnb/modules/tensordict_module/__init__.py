"""Modules that read and write TensorDicts: actors, value functions, recurrent modules."""

from rlnb.envs.policies import RandomPolicy
from rlnb.modules import recurrent
from rlnb.modules.recurrent import *  # noqa: F403 - the list of recurrent parts has one home, recurrent.__all__
from rlnb.modules.tensordict_module.actors import (
    Actor,
    ActorCriticOperator,
    ActorCriticWrapper,
    ActorValueOperator,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
    ValueOperator,
)
from rlnb.modules.tensordict_module.common import SafeModule
from rlnb.modules.tensordict_module.exploration import (
    AdditiveGaussianModule,
    EGreedyModule,
    OrnsteinUhlenbeckProcessModule,
    set_exploration_modules_spec_from_env,
)
from rlnb.modules.tensordict_module.probabilistic import SafeProbabilisticModule, SafeProbabilisticTensorDictSequential
from rlnb.modules.tensordict_module.sequence import SafeSequential
from rlnb.modules.tensordict_module.tanh import TanhModule
from rlnb.modules.tensordict_module.world_models import WorldModelWrapper

__all__ = [
    "Actor", "ActorCriticOperator", "ActorCriticWrapper", "ActorValueOperator", "AdditiveGaussianModule",
    "EGreedyModule", "OrnsteinUhlenbeckProcessModule", "ProbabilisticActor", "QValueActor", "QValueModule",
    "RandomPolicy", "SafeModule", "SafeProbabilisticModule", "SafeProbabilisticTensorDictSequential",
    "SafeSequential", "TanhModule", "ValueOperator", "WorldModelWrapper", "set_exploration_modules_spec_from_env",
    *recurrent.__all__,
]  # fmt: skip
