"""Errors of losses, word for word."""

from __future__ import annotations

import pytest
import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical, Normal

from rlnb.data import Bounded, Unbounded
from rlnb.data import Categorical as CategoricalSpec
from rlnb.modules import MLP, ProbabilisticActor, ValueOperator, VDNMixer
from rlnb.objectives import (
    A2CLoss,
    ClipPPOLoss,
    DDPGLoss,
    DiscreteSACLoss,
    DQNLoss,
    HardUpdate,
    KLPENPPOLoss,
    PPOLoss,
    QMixerLoss,
    ReinforceLoss,
    SACLoss,
    SoftUpdate,
    TD3Loss,
    ValueEstimators,
    group_optimizers,
)
from rlnb.objectives.value import GAE, TD0Estimator, TD1Estimator
from tests.objectives.golden.make import (
    OBS,
    choice,
    critic,
    data,
    gaussian,
    greedy,
    plain,
    qvalue,
    qvalues,
    with_advantage,
)
from tests.objectives.test_losses import OFF_POLICY, by_index, made, mixed, team


def fails(error, call):
    with pytest.raises(error) as info:
        call()
    return info.value.args[0]


def normal_actor(spec=None, **options):
    net = nn.Sequential(nn.Linear(OBS, 4), NormalParamExtractor())
    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    return ProbabilisticActor(module, ["loc", "scale"], spec=spec, **options)


WEIGHT = nn.Parameter(torch.ones(1))
ERRORS = {
    "run GAE first": (
        KeyError,
        lambda: PPOLoss(gaussian(), critic())(with_advantage().select("observation", "action")),
        "PPOLoss needs the entry 'advantage'; a value estimator writes it. Fix: run GAE first, GAE(gamma=0.99, "
        "lmbda=0.95, value_network=critic)(data). The data has 'action', 'observation'.",
    ),
    "no log-probability in the data": (
        KeyError,
        lambda: PPOLoss(gaussian(), critic())(with_advantage().select("observation", "action", "advantage")),
        "PPOLoss needs the entry 'action_log_prob'; the policy writes it while data is collected. Fix: make the policy "
        "with return_log_prob=True, or name its key: set_keys(sample_log_prob=...). The data has 'action', "
        "'advantage', 'observation'.",
    ),
    "a policy without log-probabilities": (
        TypeError,
        lambda: ClipPPOLoss(plain(), critic()),
        "ClipPPOLoss needs the log-probabilities of a stochastic policy, a module with get_dist, and got a "
        "TensorDictModule. Fix: ProbabilisticActor(module, in_keys=[...], distribution_class=..., "
        "return_log_prob=True).",
    ),
    "no policy": (
        TypeError,
        lambda: A2CLoss(critic_network=critic()),
        "A2CLoss needs a policy. Fix: A2CLoss(actor_network=policy, critic_network=critic).",
    ),
    "not a network": (
        TypeError,
        lambda: DDPGLoss(lambda x: x, qvalue()),
        "DDPGLoss needs actor_network, a TensorDictModule, and got a function. "
        "Fix: TensorDictModule(net, in_keys=['observation'], out_keys=[...]).",
    ),
    "one log-probability for each number": (
        ValueError,
        lambda: A2CLoss(normal_actor(distribution_class=Normal), critic())(with_advantage()),
        "A2CLoss expects one log-probability for each step: the advantage has shape [24, 1], and the log-probability "
        "of the actions [24, 2]. A distribution over several numbers must join them. Fix: "
        "torch.distributions.Independent(Normal(loc, scale), 1), or IndependentNormal.",
    ),
    "reduction": (
        ValueError,
        lambda: DQNLoss(nn.Linear(3, 2), action_space="categorical", reduction="average"),
        "reduction must be one of 'mean', 'sum', 'none', and got 'average'.",
    ),
    "loss_function": (
        ValueError,
        lambda: DQNLoss(nn.Linear(3, 2), action_space="categorical", loss_function="huber"),
        "The loss function must be one of 'l1', 'l2', 'smooth_l1', and got 'huber'.",
    ),
    "action_space": (
        ValueError,
        lambda: DQNLoss(nn.Linear(3, 2)),
        "DQNLoss must know the action space, and found none in its network. Fix: action_space='categorical' for "
        "indices, 'one-hot', or action_space=env.action_spec.",
    ),
    "kind of action_space": (
        ValueError,
        lambda: DQNLoss(nn.Linear(3, 2), action_space=Bounded(-1, 1, (2,))),
        "DQNLoss must know the action space, and found BoundedContinuous. Fix: action_space='categorical' for indices, "
        "'one-hot', or action_space=env.action_spec.",
    ),
    "double DQN": (
        ValueError,
        lambda: DQNLoss(nn.Linear(3, 2), action_space="categorical", delay_value=False, double_dqn=True),
        "double_dqn needs a target network, which delay_value=False leaves out. Fix: delay_value=True.",
    ),
    "value key": (
        KeyError,
        lambda: DQNLoss(qvalues("q"), action_space="categorical")(by_index()),
        "DQNLoss expects the values of all actions at 'action_value', but the value network writes ['q']. "
        "Fix: loss.set_keys(action_value='q').",
    ),
    "local value key": (
        KeyError,
        lambda: QMixerLoss(
            TensorDictModule(nn.Linear(OBS, 4), [("agents", "observation")], ["q"]),
            VDNMixer(2),
            action_space="categorical",
        )(team()),
        "QMixerLoss expects the values of all actions of each agent at ('agents', 'action_value'), but the local value "
        "network writes ['q']. Fix: loss.set_keys(action_value='q').",
    ),
    "mixed value key": (
        KeyError,
        lambda: mixed(TensorDictModule(VDNMixer(2), [("agents", "chosen_action_value")], ["total"]))(team()),
        "QMixerLoss expects the mixed value at 'chosen_action_value', but the mixer writes ['total']. "
        "Fix: loss.set_keys(global_value='total').",
    ),
    "target entropy": (
        ValueError,
        lambda: SACLoss(gaussian(), qvalue()),
        "SACLoss cannot tell how many numbers an action has, which target_entropy='auto' needs: the policy has no "
        "spec. Fix: action_spec=env.action_spec, or target_entropy=-n for n numbers.",
    ),
    "number of actions": (
        ValueError,
        lambda: DiscreteSACLoss(choice(), qvalues(), action_space="categorical"),
        "DiscreteSACLoss must know the number of actions for target_entropy='auto'. Fix: num_actions=4, or "
        "action_space=env.action_spec.",
    ),
    "alpha": (
        ValueError,
        lambda: SACLoss(gaussian(), qvalue(), target_entropy=-2.0, alpha_init=0),
        "alpha_init must be positive, and got 0. Fix: alpha_init=1.0.",
    ),
    "bounds": (
        ValueError,
        lambda: TD3Loss(plain(), qvalue()),
        "TD3Loss needs one of bounds and action_spec, and got neither. Fix: action_spec=env.action_spec.",
    ),
    "no bounds": (
        ValueError,
        lambda: TD3Loss(plain(), qvalue(), action_spec=Unbounded((2,))),
        "TD3Loss clips actions to the bounds of action_spec, and got a UnboundedContinuous, which has none. "
        "Fix: bounds=(-1.0, 1.0), or DQNLoss for a choice between actions.",
    ),
    "clip_epsilon": (
        ValueError,
        lambda: ClipPPOLoss(gaussian(), critic(), clip_epsilon=1.5),
        "clip_epsilon must be in (0, 1), or a pair of them for below and above 1, and got 1.5. Fix: clip_epsilon=0.2.",
    ),
    "clip_value": (
        ValueError,
        lambda: ClipPPOLoss(gaussian(), critic(), clip_epsilon=(0.1, 0.2), clip_value=True),
        "clip_value=True takes clip_epsilon, which is a pair here. Fix: clip_value=0.2.",
    ),
    "increment": (
        ValueError,
        lambda: KLPENPPOLoss(gaussian(), critic(), increment=0.5),
        "increment must be at least 1 and decrement at most 1, and got 0.5 and 0.5. Fix: increment=2, decrement=0.5.",
    ),
    "discount": (
        ValueError,
        lambda: DQNLoss(nn.Linear(3, 2), action_space="categorical", gamma=99),
        "gamma must be in [0, 1], and got 99. With more than 1, the later a reward comes the more it would count. "
        "Fix: gamma=0.99.",
    ),
    "no target": (
        ValueError,
        lambda: SoftUpdate(DQNLoss(nn.Linear(3, 2), action_space="categorical", delay_value=False), tau=0.1),
        "This DQNLoss has no target network to update. Fix: DQNLoss(..., delay_value=True), or delay_qvalue or "
        "delay_actor where it has them.",
    ),
    "tau and eps": (
        ValueError,
        lambda: SoftUpdate(DQNLoss(nn.Linear(3, 2), action_space="categorical"), tau=0.1, eps=0.9),
        "SoftUpdate needs one of eps and tau = 1 - eps, and got both. Fix: tau=0.005.",
    ),
    "tau": (
        ValueError,
        lambda: SoftUpdate(DQNLoss(nn.Linear(3, 2), action_space="categorical"), tau=1.5),
        "tau must be in [0, 1], and got 1.5. Fix: tau=0.005, or eps=0.995.",
    ),
    "optimizers of two classes": (
        ValueError,
        lambda: group_optimizers(torch.optim.Adam([WEIGHT]), torch.optim.SGD([nn.Parameter(torch.ones(1))])),
        "group_optimizers takes optimizers of one class, and got Adam and SGD. "
        "Fix: make them of one class, or call step and zero_grad of each.",
    ),
    "no optimizers": (
        ValueError,
        group_optimizers,
        "group_optimizers takes optimizers of one class, and got none. "
        "Fix: make them of one class, or call step and zero_grad of each.",
    ),
    "not an optimizer": (
        TypeError,
        lambda: group_optimizers([torch.optim.Adam([WEIGHT])]),
        "group_optimizers takes optimizers, and got a list. "
        "Fix: group_optimizers(torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())).",
    ),
    "a parameter of two optimizers": (
        ValueError,
        lambda: group_optimizers(torch.optim.Adam([WEIGHT]), torch.optim.Adam([WEIGHT])),
        "A parameter is in two of the optimizers, and would be updated twice in a step. "
        "Fix: leave it out of one of them.",
    ),
    "interval": (
        ValueError,
        lambda: HardUpdate(DQNLoss(nn.Linear(3, 2), action_space="categorical"), value_network_update_interval=0),
        "value_network_update_interval must be at least 1, and got 0. Fix: value_network_update_interval=1000.",
    ),
}

ERRORS |= {
    "estimator of another kind": (
        TypeError,
        lambda: A2CLoss(gaussian(), critic()).make_value_estimator(0.99),
        "A value estimator is chosen by a member of ValueEstimators, its name, a class or an estimator, and got a "
        "float. Fix: loss.make_value_estimator(ValueEstimators.TD0, gamma=0.99).",
    ),
    "no steps": (
        ValueError,
        lambda: ClipPPOLoss(gaussian(), critic())(with_advantage()[:0]),
        "ClipPPOLoss got a batch without steps, of batch size [0]. Likely cause: an index or a mask that chose "
        "nothing. Fix: call the loss only if data.numel() > 0.",
    ),
    "one-hot actions for indices": (
        ValueError,
        lambda: DQNLoss(greedy(), action_space="categorical")(data((12,), "one-hot")),
        "With action_space='categorical' each action is one index, and got actions of shape [12, 4] for values of "
        "shape [12, 4]. Likely cause: the env takes one-hot vectors. "
        "Fix: action_space='one-hot', or action_space=env.action_spec.",
    ),
    "indices for one-hot actions": (
        ValueError,
        lambda: DQNLoss(greedy(), action_space="one-hot")(by_index()),
        "With action_space='one_hot' actions are vectors of 4 numbers, and got actions of shape [12] for values of "
        "shape [12, 4]. Likely cause: the env takes indices, or has another number of actions. "
        "Fix: action_space='categorical', or action_space=env.action_spec.",
    ),
    "actions of another policy": (
        ValueError,
        lambda: ClipPPOLoss(gaussian(), critic())(with_advantage().set("action", torch.zeros(24, 3))),
        "ClipPPOLoss expects actions of shape [24, 2], as its policy draws them, and got [24, 3] at 'action'. Likely "
        "cause: the data is that of another policy, or its actions are one-hot vectors where the policy draws indices, "
        "or the other way round. Fix: a policy for the action_spec of the env that the data is from.",
    ),
    "value targets without their last dimension": (
        ValueError,
        lambda: ClipPPOLoss(gaussian(), critic())(with_advantage().set("value_target", torch.zeros(24))),
        "ClipPPOLoss expects value targets of the shape of the critic's values, [24, 1], and got [24] at "
        "'value_target'. Likely cause: the targets were squeezed, or computed for other steps. "
        "Fix: value_target.unsqueeze(-1), or run GAE on this data.",
    ),
    "clip_value of a loss without clip_epsilon": (
        ValueError,
        lambda: PPOLoss(gaussian(), critic(), clip_value=True),
        "clip_value must be a number, the largest change of a value that counts, and got True. "
        "Fix: clip_value=0.2, or None for no clipping.",
    ),
    "bonus of another loss": (
        TypeError,
        lambda: ReinforceLoss(gaussian(), critic(), entropy_bonus=True),
        "ReinforceLoss has no argument 'entropy_bonus'. Fix: A2CLoss, which has one.",
    ),
    "argument of an estimator": (
        TypeError,
        lambda: GAE(gamma=0.9, lmbda=0.9, value_network=None, value_chunk_size=8),
        "GAE has no argument 'value_chunk_size'. Fix: one of gamma, lmbda, value_network, average_gae, vectorized, "
        "auto_reset_env, shifted, differentiable, skip_existing, advantage_key, value_target_key, value_key, device, "
        "time_dim, deactivate_vmap.",
    ),
    "argument of an estimator of a loss": (
        TypeError,
        lambda: A2CLoss(gaussian(), critic()).make_value_estimator("TD0", lmbda=0.9),
        "TD0Estimator has no argument 'lmbda'. Fix: one of average_rewards, value_network, gamma, shifted, "
        "differentiable, skip_existing, advantage_key, value_target_key, value_key, device, time_dim, deactivate_vmap.",
    ),
    "lmbda of full returns": (
        TypeError,
        lambda: TD1Estimator(gamma=0.9, lmbda=0.9, value_network=None),
        "TD1Estimator has no argument 'lmbda', which is 1 here. Fix: TDLambdaEstimator(lmbda=...).",
    ),
    "arguments of an estimator that is made": (
        TypeError,
        lambda: A2CLoss(gaussian(), critic()).make_value_estimator(TD0Estimator(gamma=0, value_network=None), gamma=1),
        "make_value_estimator takes no arguments for an estimator that is made already, and got a TD0Estimator and "
        "gamma=1. Fix: make_value_estimator(TD0Estimator, gamma=1).",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_what_to_write(name):
    error, call, text = ERRORS[name]
    assert fails(error, call) == text


def test_a_term_that_is_not_finite_says_where_to_look():
    loss, batch = made("DQNLoss")
    batch["next", "reward"][0] = float("inf")
    assert fails(FloatingPointError, lambda: loss(batch)) == (
        "DQNLoss is not finite: 'loss' is NaN or infinite (loss inf). No parameter was changed. Likely causes: rewards "
        "or observations that are NaN (data.isfinite().all() names the entry), a learning rate that is too large, or "
        "actions at the bounds of a TanhNormal. Fix: look at the batch that this loss got, or clip with "
        "nn.utils.clip_grad_norm_ before the step."
    )


@pytest.mark.parametrize("name", OFF_POLICY)
def test_a_loss_of_single_transitions_refuses_gae(name):
    loss, _ = made(name)
    instance = GAE(gamma=0.9, lmbda=0.9, value_network=critic())
    for kind in (ValueEstimators.GAE, "GAE", GAE, instance):
        assert fails(ValueError, lambda kind=kind: loss.make_value_estimator(kind)) == (
            f"{name} computes the values of next states alone, and GAE needs those of the states, too. "
            "Fix: one of ValueEstimators.TD0, TD1, TDLambda."
        )


def test_a_value_of_the_wrong_shape_is_refused():
    wide = TensorDictModule(nn.Linear(OBS, 2), ["observation"], ["state_value"])
    flat = TensorDictModule(lambda observation: observation.sum(-1), ["observation"], ["state_value"])
    for network in (wide, flat):
        text = fails(ValueError, lambda network=network: A2CLoss(gaussian(), network)(with_advantage()))
        assert text.startswith("A2CLoss expects values of the shape of the reward, [24, 1], and got [24")


@pytest.mark.parametrize("name", ["DQNLoss", "DiscreteSACLoss", "DiscreteIQLLoss", "QMixerLoss"])
def test_a_loss_of_indices_refuses_other_actions(name):
    loss, batch = made(name)
    key = loss.tensor_keys.action
    with pytest.raises(ValueError, match=r"action_space='categorical' each action|expects actions of shape \[12\]"):
        loss(batch.set(key, torch.nn.functional.one_hot(batch[key], 4)))


@pytest.mark.parametrize("name", ["A2CLoss", "PPOLoss", "ReinforceLoss"])
def test_an_action_that_would_be_broadcast_is_refused(name):
    loss, batch = made(name)
    text = fails(ValueError, lambda: loss(batch.set("action", batch["action"][:, :1])))
    assert text.startswith(f"{name} expects actions of shape [{len(batch)}, 2], as its policy draws them, and got")


def test_an_action_spec_that_does_not_fit_the_distribution_is_refused_where_the_policy_is_made():
    assert fails(ValueError, lambda: normal_actor(CategoricalSpec(4), distribution_class=Normal)) == (
        "The spec of 'action' is a Categorical and Normal draws real numbers, which the env would not take. "
        "Fix: distribution_class=torch.distributions.Categorical, with in_keys=['logits']."
    )


def test_a_policy_of_indices_has_a_loss_of_its_own():
    logits = TensorDictModule(nn.Linear(OBS, 4), ["observation"], ["logits"])
    actor = ProbabilisticActor(logits, ["logits"], distribution_class=Categorical)
    batch = TensorDictSequential(actor)(by_index())
    with pytest.raises(NotImplementedError):
        SACLoss(actor, qvalue(), target_entropy=-1.0)(batch)


def test_a_network_that_is_copied_needs_its_sizes():
    lazy = TensorDictModule(MLP(out_features=2), ["observation"], ["action_value"])
    with pytest.raises(ValueError) as info:
        DQNLoss(lazy, action_space="one-hot", delay_value=True)
    assert str(info.value) == (
        "DQNLoss copies value_network, and its parameter 'module.0.weight' has no size yet: the layer is lazy, and the "
        "network was never run. Fix: value_network(env.reset()) before the loss is made, or a network with "
        "in_features, such as MLP(in_features=4, out_features=2)."
    )
    DQNLoss(lazy, action_space="one-hot", delay_value=False)
    with pytest.raises(ValueError, match="SACLoss copies qvalue_network"):
        SACLoss(gaussian(), ValueOperator(MLP(out_features=1), ["observation", "action"]))


def test_arguments_of_old_programs():
    for kind in (ClipPPOLoss, A2CLoss):
        for name, fix in [
            ("critic_coef", " Fix: critic_coeff=..."),
            ("entropy_coef", " Fix: entropy_coeff=..."),
            ("advantage_key", " Fix: loss.set_keys(advantage=...) after the loss is made."),
            ("delay_actor", " Fix: leave it out; the policy is compared with the one that collected the data."),
            ("delay_value", " Fix: leave it out; the value estimator uses the critic itself."),
            ("advantage_norm", " Fix: normalize_advantage=True in the losses of PPO, or GAE(average_gae=True, ...)."),
            (
                "max_importance_ratio",
                " Fix: leave it out; clip_epsilon of ClipPPOLoss limits what a large ratio counts.",
            ),
            ("epsilon", ""),
        ]:
            with pytest.raises(TypeError) as info:
                kind(gaussian(), critic(), **{name: 1.0})
            assert str(info.value) == f"{kind.__name__} has no argument {name!r}.{fix}"
