"""All losses: equations of the papers, gradients, keywords, reductions, targets and keys."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.data import Categorical as CategoricalSpec
from rlnb.data.ted.keys import as_tuple
from rlnb.modules import (
    MLP,
    IndependentNormal,
    MultiAgentMLP,
    ProbabilisticActor,
    QMixer,
    QValueActor,
    TanhNormal,
    VDNMixer,
)
from rlnb.objectives import (
    A2CLoss,
    ClipPPOLoss,
    DDPGLoss,
    DiscreteIQLLoss,
    DiscreteSACLoss,
    DQNLoss,
    HardUpdate,
    IQLLoss,
    KLPENPPOLoss,
    PPOLoss,
    QMixerLoss,
    ReinforceLoss,
    SACLoss,
    SoftUpdate,
    TD3Loss,
)
from rlnb.objectives.value import GAE
from tests.objectives.golden.make import (
    CHOICES,
    OBS,
    choice,
    critic,
    data,
    gaussian,
    greedy,
    plain,
    qvalue,
    qvalues,
    wave,
    with_advantage,
    with_old_policy,
)

GAMMA = 0.9


def steps():
    return data((12,))


def by_index():
    return data((12,), "index")


def team(batch=(12,)):
    """Transitions of two agents with four actions each, and a state."""
    found = data(batch)
    for where, start in ((found, 1.0), (found["next"], 2.0)):
        where["agents"] = {"observation": wave(*batch, 2, OBS, start=start)}
        where["state"] = wave(*batch, 3, start=start)
    found["agents", "action"] = (10 * wave(*batch, 2, start=3).abs()).long() % CHOICES
    return found.exclude("observation", "action", ("next", "observation"))


def mixed(mixer=None, **options):
    net = MLP(OBS, CHOICES, num_cells=[8])
    return QMixerLoss(net, QMixer((3,), 5, 2) if mixer is None else mixer, action_space="categorical", **options)


#: How each loss is made, and its data.
LOSSES = {
    "A2CLoss": (lambda **k: A2CLoss(gaussian(), critic(), **k), with_advantage),
    "ClipPPOLoss": (lambda **k: ClipPPOLoss(gaussian(), critic(), **k), with_advantage),
    "DDPGLoss": (lambda **k: DDPGLoss(plain(), qvalue(), delay_actor=True, **k), steps),
    "DQNLoss": (lambda **k: DQNLoss(greedy(), action_space="categorical", **k), by_index),
    "DiscreteIQLLoss": (
        lambda **k: DiscreteIQLLoss(choice(), qvalues("state_action_value"), critic(), action_space="categorical", **k),
        by_index,
    ),
    "DiscreteSACLoss": (
        lambda **k: DiscreteSACLoss(choice(), qvalues(), action_space="categorical", num_actions=CHOICES, **k),
        by_index,
    ),
    "IQLLoss": (lambda **k: IQLLoss(gaussian(), qvalue(), critic(), **k), steps),
    "KLPENPPOLoss": (lambda **k: KLPENPPOLoss(gaussian(), critic(), increment=1, decrement=1, **k), with_old_policy),
    "PPOLoss": (lambda **k: PPOLoss(gaussian(), critic(), **k), with_advantage),
    "QMixerLoss": (mixed, team),
    "ReinforceLoss": (lambda **k: ReinforceLoss(gaussian(), critic(), **k), with_advantage),
    "SACLoss": (lambda **k: SACLoss(gaussian(), qvalue(), target_entropy=-2.0, **k), steps),
    "TD3Loss": (lambda **k: TD3Loss(plain(), qvalue(), bounds=(-1.0, 1.0), policy_noise=0.0, **k), steps),
}
ON_POLICY = {"A2CLoss", "ClipPPOLoss", "KLPENPPOLoss", "PPOLoss", "ReinforceLoss"}
OFF_POLICY = sorted(set(LOSSES) - ON_POLICY)


def made(name, **options):
    torch.manual_seed(0)
    return LOSSES[name][0](**options), LOSSES[name][1]()


def apart(loss):
    """Move the targets away from the networks, so that a loss which takes the wrong ones is found."""
    with torch.no_grad():
        for _, targets in loss.target_pairs():
            for i, value in enumerate(targets):
                value.add_(0.2 * wave(*value.shape, start=5.0 + i))
    return loss


def all_losses(terms):
    return {key: value for key, value in terms.items() if key.startswith("loss")}


def tensors(loss):
    return {name: value.detach().clone() for name, value in [*loss.named_parameters(), *loss.named_buffers()]}


# What every loss does ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_a_call_with_keywords_gives_the_same_terms(name):
    loss, batch = made(name)
    terms = loss(batch.copy())
    given = {"_".join(as_tuple(key)): batch[key] for key in loss.in_keys if batch.get(key, None) is not None}
    found = made(name)[0]
    found.load_state_dict(loss.state_dict())
    if name in ON_POLICY:  # the advantage is no input by keyword: the loss runs its own value estimator
        terms = loss(batch.exclude("advantage", "value_target"))
    values = found(**given)
    values = values if isinstance(values, tuple) else (values,)
    assert len(values) == len(loss.out_keys)
    for key, value in zip(loss.out_keys, values, strict=True):
        assert torch.allclose(value, terms[key], atol=1e-6), key


def test_a_call_with_keywords_finds_the_batch_size_of_observations_of_one_feature():
    loss = DQNLoss(nn.Linear(1, 2), action_space="categorical")
    flag = torch.zeros(5, 1, dtype=torch.bool)
    after = {"observation": torch.ones(5, 1), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
    batch = TensorDict({"observation": torch.ones(5, 1), "action": torch.zeros(5, 1).long(), "next": after}, [5])
    given = {"_".join(as_tuple(key)): batch[key] for key in loss.in_keys}
    assert torch.equal(loss(**given), loss(batch)["loss"])


def test_a_call_with_keywords_finds_the_batch_size_beside_a_nested_one():
    loss, batch = mixed(), team((4, 6))
    given = {"_".join(as_tuple(key)): batch[key] for key in loss.in_keys}
    assert torch.equal(loss(**given), loss(batch)["loss"])


#: The networks that each term teaches.
TAUGHT = {
    "loss_objective": {"actor_network"},
    "loss_entropy": {"actor_network"},
    "loss_critic": {"critic_network"},
    "loss_actor": {"actor_network"},
    "loss_qvalue": {"qvalue_network"},
    "loss_value": {"value_network"},
    "loss_alpha": {"log_alpha"},
    "loss": {"value_network"},
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_reach_the_networks_of_a_term_and_no_others(name):
    loss, batch = made(name)
    taught = TAUGHT | {"ReinforceLoss": {"loss_value": {"critic_network"}}}.get(name, {})
    taught |= {"QMixerLoss": {"loss": {"local_value_network", "mixer_network"}}}.get(name, {})
    names = {name for names in taught.values() for name in names}
    terms = all_losses(loss(batch))
    assert terms
    for key, term in terms.items():
        loss.zero_grad()
        term.backward(retain_graph=True)
        reached = {n.split(".")[0].removesuffix("_params") for n, v in loss.named_parameters() if v.grad is not None}
        with_zeros = {
            n.split(".")[0].removesuffix("_params")
            for n, v in loss.named_parameters()
            if v.grad is not None and not bool(v.grad.any())
        }
        assert reached - with_zeros == taught[key], key
        assert reached - taught[key] == set(), key
    assert all(n.split(".")[0].removesuffix("_params") in names for n, _ in loss.named_parameters())
    assert not any(value.requires_grad for value in loss.buffers())


@pytest.mark.parametrize("name", LOSSES)
def test_reductions_are_those_of_the_terms_of_single_steps(name):
    terms = {reduction: all_losses(made(name, reduction=reduction)[0](made(name)[1])) for reduction in ("none", "mean")}
    terms["sum"] = all_losses(made(name, reduction="sum")[0](made(name)[1]))
    for key, each in terms["none"].items():
        assert each.shape == made(name)[1].shape, key
        assert torch.allclose(terms["mean"][key], each.mean(), atol=1e-5), key
        assert torch.allclose(terms["sum"][key], each.sum(), atol=1e-4), key


@pytest.mark.parametrize("name", LOSSES)
def test_padded_steps_do_not_count(name):
    loss, batch = made(name)
    count = len(batch)
    mask = torch.arange(count) < count - 4
    whole = all_losses(loss(batch.clone().set(("collector", "mask"), mask)))
    part = all_losses(loss(batch[: count - 4].clone()))
    for key, term in whole.items():
        assert torch.allclose(term, part[key], atol=1e-5), key


@pytest.mark.parametrize("name", OFF_POLICY)
def test_a_loss_writes_td_errors_into_the_data_and_nothing_else(name):
    loss, batch = made(name)
    before = batch.clone()
    loss(batch)
    changed = batch.exclude("td_error")
    assert set(changed.keys(True, True)) == set(before.keys(True, True))
    assert (changed == before).all()
    assert batch["td_error"].shape[: batch.ndim] == batch.shape
    assert not batch["td_error"].requires_grad


@pytest.mark.parametrize("name", [*OFF_POLICY, "ReinforceLoss"])
def test_only_an_updater_moves_targets(name):
    options = {"delay_value": True} if name == "ReinforceLoss" else {}
    loss, batch = made(name, **options)
    before = {key: value for key, value in tensors(loss).items() if key.startswith("target_")}
    before = {key: value for key, value in before.items() if not key.startswith("target_entropy")}
    assert before
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.5)
    sum(all_losses(loss(batch)).values()).backward()
    optimizer.step()
    after = tensors(loss)
    assert all(torch.equal(after[key], value) for key, value in before.items())
    SoftUpdate(loss, tau=0.25).step()
    moved = tensors(loss)
    for key, value in before.items():
        source = after[key.removeprefix("target_")]
        assert torch.allclose(moved[key], 0.25 * source + 0.75 * value, atol=1e-6), key
        if not key.endswith("last.bias"):
            assert not torch.equal(moved[key], value) or torch.equal(source, value)
    updater = HardUpdate(loss, value_network_update_interval=2)
    updater.step()
    assert all(torch.equal(tensors(loss)[key], moved[key]) for key in before)
    updater.step()
    assert all(torch.equal(tensors(loss)[key], after[key.removeprefix("target_")]) for key in before)


@pytest.mark.parametrize("name", LOSSES)
def test_keys_can_be_renamed(name):
    loss, batch = made(name)
    wanted = loss(batch.clone())
    roles = {"reward": "r", "done": "d", "terminated": "t", "advantage": "a", "value_target": "v", "priority": "p"}
    roles = {role: key for role, key in roles.items() if hasattr(loss.tensor_keys, role)}
    renamed = batch.clone()
    for role, key in roles.items():
        old = getattr(loss.tensor_keys, role)
        for prefix in ((), ("next",)):
            if renamed.get((*prefix, old), None) is not None:
                renamed.rename_key_((*prefix, old) if prefix else old, (*prefix, key) if prefix else key)
    other = made(name)[0]
    other.load_state_dict(loss.state_dict())
    other.set_keys(**roles)
    found = other(renamed)
    assert all(torch.allclose(found[key], wanted[key], equal_nan=True) for key in wanted.keys())  # noqa: SIM118
    if name in OFF_POLICY:
        assert "p" in renamed.keys()  # noqa: SIM118 - a TensorDict iterates over its rows
        assert "td_error" not in renamed.keys()  # noqa: SIM118


@pytest.mark.parametrize("name", LOSSES)
def test_an_unknown_key_is_refused_and_changes_nothing(name):
    loss, _ = made(name)
    before = loss.tensor_keys
    with pytest.raises(ValueError, match=rf"{name}.set_keys knows no key 'rewards'\. Fix: one of .*reward"):
        loss.set_keys(reward="r", rewards="x")
    assert loss.tensor_keys == before


@pytest.mark.parametrize("name", OFF_POLICY)
def test_each_missing_entry_is_named_with_its_writer(name):
    loss, batch = made(name)
    ends = {("next", "done"), ("next", "terminated")}  # one of them is enough
    needed = set(loss.in_keys) - ends - {"priority_weight", ("next", "action")}
    assert needed >= {("next", "reward")}
    for key in needed:
        with pytest.raises(KeyError) as info:
            loss(batch.exclude(key))
        assert f"{name} needs the entry {key!r}; " in str(info.value), key
        assert "Fix: " in str(info.value)
    with pytest.raises(KeyError, match="the env writes it under 'next'"):
        loss(batch.exclude(*ends))


@pytest.mark.parametrize("name", sorted(ON_POLICY))
def test_an_on_policy_loss_without_an_advantage_says_run_gae_first(name):
    loss, batch = made(name)
    for key in ("advantage", "value_target"):
        with pytest.raises(KeyError) as info:
            loss(batch.exclude(key, ("next", "reward")))
        assert f"{name} needs the entry {key!r}; a value estimator writes it. Fix: run GAE first" in str(info.value)


@pytest.mark.parametrize("name", LOSSES)
def test_a_term_that_is_nan_is_named_and_parameters_keep(name):
    loss, batch = made(name)
    broken = "advantage" if name in ON_POLICY else ("next", "reward")
    batch[broken][3] = float("nan")
    before = tensors(loss)
    with pytest.raises(FloatingPointError) as info:
        loss(batch)
    named = {
        "ReinforceLoss": "loss_actor", "DDPGLoss": "loss_value", "DQNLoss": "loss", "QMixerLoss": "loss",
    }.get(name, "loss_objective" if name in ON_POLICY else "loss_qvalue")  # fmt: skip
    assert str(info.value).startswith(f"{name} is not finite: '{named}' is NaN or infinite")
    assert all(torch.equal(value, before[key]) for key, value in tensors(loss).items())
    assert all(value.grad is None for value in loss.parameters())
    loss.check_finite = False
    assert bool(loss(batch)[named].isnan())


@pytest.mark.parametrize("name", OFF_POLICY)
def test_a_reward_of_the_wrong_shape_is_refused(name):
    loss, batch = made(name)
    for shape in ((12,), (12, 2), (12, 1, 1)):
        wrong = batch.clone()
        wrong["next", "reward"] = torch.ones(shape)
        with pytest.raises(ValueError, match="shape"):
            loss(wrong)


@pytest.mark.parametrize("name", LOSSES)
def test_a_discount_outside_0_and_1_is_refused(name):
    loss, _ = made(name)
    for gamma in (1.5, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\]"):
            loss.make_value_estimator(gamma=gamma)


def test_a_loss_uses_an_estimator_that_is_made_already():
    loss, estimator = A2CLoss(gaussian(), critic()), GAE(gamma=0.5, lmbda=0.7, value_network=critic())
    loss.set_keys(advantage="adv")
    assert loss.make_value_estimator(estimator) is loss
    assert loss.value_estimator is estimator
    assert estimator.tensor_keys.advantage == "adv"
    batch = data()
    assert torch.equal(loss(batch)["loss_objective"], loss(estimator(batch.clone()))["loss_objective"])


@pytest.mark.parametrize("name", sorted({*OFF_POLICY} - {"IQLLoss", "DiscreteIQLLoss"}))
def test_priority_weights_weigh_the_steps(name):
    loss, batch = made(name)
    weight = wave(12, start=1).abs()
    single = all_losses(made(name, reduction="none")[0](batch.clone()))
    weighted = all_losses(loss(batch.clone().set("priority_weight", weight)))
    for key, term in weighted.items():
        assert torch.allclose(term, (single[key] * weight).sum() / weight.sum(), atol=1e-5), key


# The equations of the papers -----------------------------------------------------------------------------------------


def normal_log_prob(loc, scale, action):
    return (-((action - loc) ** 2) / (2 * scale**2) - scale.log() - 0.5 * math.log(2 * math.pi)).sum(-1)


def policy_of(loss, observation, network="actor_network"):
    """Parameters of the policy, which is a network and NormalParamExtractor."""
    return getattr(loss, network)[0].module(observation)


def smooth(error):
    error = error.abs()
    return torch.where(error < 1, 0.5 * error**2, error - 0.5)


def target_of(batch, next_value, gamma=0.99):
    """The TD target, step by step."""
    after = batch["next"]
    rows = zip(after["reward"], after["terminated"], next_value, strict=True)
    return torch.stack([r[0] + (0.0 if bool(end) else gamma * v) for r, end, v in rows])


def ensemble(loss, name, i):
    """The function of one network of an ensemble: of the observation, or of the observation and the action."""
    net = copy.deepcopy(loss.__dict__[name.removeprefix("target_")]).to_empty(device="cpu")
    getattr(loss, f"{name}_params").data[i].to_module(net)
    return net.module


@pytest.mark.parametrize("name", sorted(ON_POLICY))
def test_policy_gradient_losses_are_their_equations(name):
    loss, batch = made(name)
    terms = loss(batch.clone())
    loc, scale = policy_of(loss, batch["observation"])
    log_prob = normal_log_prob(loc, scale, batch["action"])
    advantage, target = batch["advantage"][:, 0], batch["value_target"][:, 0]
    ratio = (log_prob - batch["action_log_prob"]).exp()
    value = loss.critic_network.module(batch["observation"])[:, 0]
    expected = {"loss_critic": smooth(value - target).mean()}
    entropy = (0.5 + 0.5 * math.log(2 * math.pi) + scale.log()).sum(-1).mean()
    expected["loss_entropy"] = -0.01 * entropy
    if name == "A2CLoss":
        expected["loss_objective"] = -(log_prob * advantage).mean()
    elif name == "ReinforceLoss":
        expected = {"loss_actor": -(log_prob * advantage).mean(), "loss_value": expected["loss_critic"]}
    elif name == "PPOLoss":
        expected["loss_objective"] = -(ratio * advantage).mean()
    elif name == "ClipPPOLoss":
        gains = [min(r * a, min(max(r, 0.8), 1.2) * a) for r, a in zip(ratio.tolist(), advantage.tolist(), strict=True)]
        expected["loss_objective"] = -torch.tensor(gains).mean()
        assert 0 < float(terms["clip_fraction"]) < 1
        assert torch.allclose(terms["ESS"], ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum()))
    else:
        old_loc, old_scale = batch["loc"], batch["scale"]
        kl = ((scale / old_scale).log() + (old_scale**2 + (old_loc - loc) ** 2) / (2 * scale**2) - 0.5).sum(-1)
        expected["loss_objective"] = -(ratio * advantage - kl).mean()
    for key, value in expected.items():
        assert torch.allclose(terms[key], value, atol=1e-4), key
    assert set(all_losses(terms)) == set(expected)


def test_numbers_for_logs_of_a_ratio_whose_square_is_too_large():
    loss, batch = made("ClipPPOLoss")
    batch["action_log_prob"][0] -= 60
    terms = loss(batch.clone())
    assert float(terms["ESS"]) == pytest.approx(1 / len(batch))
    assert 1e20 < float(terms["max_ratio"]) < math.inf
    assert float(terms["mean_ratio"]) == pytest.approx(float(terms["max_ratio"]) / len(batch))


@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss", "KLPENPPOLoss"])
def test_a_single_step_without_batch_dimensions_has_a_loss(name):
    loss, batch = made(name)
    loss.log_explained_variance = False  # one number has no variance
    one, several = loss(batch[0].clone()), loss(batch[:1].clone())
    for key in ("loss_objective", "loss_critic", "kl_approx"):
        assert torch.allclose(one[key], several[key], atol=1e-6), key


@pytest.mark.parametrize(("dtarg", "factor"), [(1e-6, 2.0), (1e6, 0.5)])
def test_the_weight_of_the_divergence_adapts(dtarg, factor):
    loss = KLPENPPOLoss(gaussian(), critic(), dtarg=dtarg, beta=3.0)
    loss(with_old_policy())
    assert float(loss.beta) == 3.0 * factor
    loss.reset()
    assert float(loss.beta) == 3.0


@pytest.mark.parametrize("double", [False, True])
def test_dqn_is_its_equation(double):
    loss, batch = made("DQNLoss", double_dqn=double)
    apart(loss)
    terms, rows = loss(batch), torch.arange(12)
    online, target = loss.value_network[0].module, loss.target_value_network[0].module
    value = online(batch["observation"])[rows, batch["action"]]
    after = target(batch["next", "observation"])
    best = online(batch["next", "observation"]).argmax(-1) if double else after.argmax(-1)
    error = value - target_of(batch, after[rows, best])
    assert torch.allclose(terms["loss"], (error**2).mean(), atol=1e-5)
    assert torch.allclose(batch["td_error"][:, 0], error**2, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"double_dqn": True}, {"reduction": "none"}])
def test_dqn_takes_rewards_without_a_last_dimension(options):
    loss, batch = made("DQNLoss", **options)
    flat = batch.clone()
    for key in ("reward", "done", "terminated"):
        flat["next", key] = flat["next", key].squeeze(-1)
    assert torch.equal(loss(flat)["loss"], loss(batch)["loss"])
    assert torch.equal(flat["td_error"], batch["td_error"])


def test_the_target_of_double_dqn_differs():
    losses = [apart(made("DQNLoss", double_dqn=double)[0])(by_index())["loss"] for double in (False, True)]
    assert not torch.equal(*losses)


def test_dqn_discounts_by_the_steps_between():
    loss, batch = made("DQNLoss", gamma=GAMMA)
    count = torch.arange(12).reshape(12, 1) % 3 + 1
    after = loss.target_value_network[0].module(batch["next", "observation"]).max(-1).values
    value = loss.value_network[0].module(batch["observation"])[torch.arange(12), batch["action"]]
    target = batch["next", "reward"][:, 0] + GAMMA ** count[:, 0] * after * ~batch["next", "terminated"][:, 0]
    terms = loss(batch.set("steps_to_next_obs", count))
    assert torch.allclose(terms["loss"], ((value - target) ** 2).mean(), atol=1e-5)


def test_dqn_takes_no_actions_that_are_masked():
    torch.manual_seed(0)
    net = TensorDictModule(nn.Linear(OBS, 3), ["observation"], ["action_value"])
    actor = QValueActor(net, spec=CategoricalSpec(3), action_mask_key="action_mask")
    loss = DQNLoss(actor, gamma=GAMMA)
    batch = data((12,), "index")
    batch["action"] = batch["action"] % 2 * 2
    mask = torch.tensor([True, False, True]).expand(12, 3)
    batch["action_mask"], batch["next", "action_mask"] = mask, mask
    values = net.module(batch["next", "observation"])
    target = target_of(batch, values[:, [0, 2]].max(-1).values, GAMMA)
    value = net.module(batch["observation"])[torch.arange(12), batch["action"]]
    assert torch.allclose(loss(batch)["loss"], ((value - target) ** 2).mean(), atol=1e-5)


def test_ddpg_is_its_equations():
    loss, batch = made("DDPGLoss")
    apart(loss)
    terms = loss(batch)
    obs, after = batch["observation"], batch["next", "observation"]
    q, mu = loss.value_network.module, loss.actor_network.module
    next_value = loss.target_value_network.module(after, loss.target_actor_network.module(after))[:, 0]
    error = q(obs, batch["action"])[:, 0] - target_of(batch, next_value)
    assert torch.allclose(terms["loss_value"], (error**2).mean(), atol=1e-5)
    assert torch.allclose(terms["loss_actor"], -q(obs, mu(obs)).mean(), atol=1e-5)


def test_td3_is_its_equations():
    loss, batch = made("TD3Loss")
    apart(loss)
    terms = loss(batch)
    obs, after = batch["observation"], batch["next", "observation"]
    action = loss.target_actor_network.module(after).clamp(-1, 1)
    targets = [ensemble(loss, "target_qvalue_network", i)(after, action)[:, 0] for i in range(2)]
    target = target_of(batch, torch.minimum(*targets))
    values = [ensemble(loss, "qvalue_network", i)(obs, batch["action"])[:, 0] for i in range(2)]
    assert torch.allclose(terms["loss_qvalue"], sum(smooth(v - target).mean() for v in values), atol=1e-5)
    first = ensemble(loss, "qvalue_network", 0)(obs, loss.actor_network.module(obs))
    assert torch.allclose(terms["loss_actor"], -first.mean(), atol=1e-5)


def test_the_noise_of_td3_is_clipped_and_stays_in_the_bounds():
    torch.manual_seed(0)
    seen = []

    class Q(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, observation, action):
            seen.append(action.detach().clone())
            return action.sum(-1, keepdim=True) * self.scale

    net = TensorDictModule(Q(), ["observation", "action"], ["state_action_value"])
    loss = TD3Loss(plain(), net, bounds=(-0.95, 0.95), policy_noise=5.0, noise_clip=0.1)
    batch = data((500,))
    loss.value_loss(batch)
    mean = loss.target_actor_network.module(batch["next", "observation"])
    assert seen[-1].abs().max() <= 0.95
    inside = (mean.abs() < 0.8).all(-1)
    assert bool(inside.any())
    gaps = (seen[-1] - mean)[inside].abs()
    assert gaps.max() <= 0.1 + 1e-6
    assert (gaps > 0.0999).float().mean() > 0.9  # nearly all of so much noise is clipped


@pytest.mark.parametrize("first_version", [False, True])
def test_sac_is_its_equations(first_version):
    torch.manual_seed(0)
    given = (critic(),) if first_version else ()
    loss = apart(SACLoss(gaussian(), qvalue(), *given, target_entropy=-2.0, alpha_init=0.3))
    batch = steps()
    terms = loss(batch)
    obs, after = batch["observation"], batch["next", "observation"]

    def drawn(where):
        loc, scale = policy_of(loss, where)
        action = loc + scale * wave(*loc.shape, start=0.1)  # as Fixed draws
        return action, normal_log_prob(loc, scale, action)

    action, log_prob = drawn(obs)
    online = [ensemble(loss, "qvalue_network", i) for i in range(2)]
    targets = [ensemble(loss, "target_qvalue_network", i) for i in range(2)]
    if first_version:
        next_value = loss.target_value_network.module(after)[:, 0]
        goal = torch.minimum(*(q(obs, action)[:, 0] for q in targets)) - 0.3 * log_prob
        value = loss.value_network.module(obs)[:, 0]
        assert torch.allclose(terms["loss_value"], smooth(value - goal).mean(), atol=1e-5)
    else:
        next_action, next_log_prob = drawn(after)
        next_value = torch.minimum(*(q(after, next_action)[:, 0] for q in targets)) - 0.3 * next_log_prob
    target = target_of(batch, next_value)
    values = [q(obs, batch["action"])[:, 0] for q in online]
    soft = torch.minimum(*(q(obs, action)[:, 0] for q in online))
    assert torch.allclose(terms["loss_qvalue"], sum(smooth(v - target).mean() for v in values), atol=1e-5)
    assert torch.allclose(terms["loss_actor"], (0.3 * log_prob - soft).mean(), atol=1e-5)
    assert torch.allclose(terms["loss_alpha"], -math.log(0.3) * (log_prob - 2.0).mean(), atol=1e-5)
    assert torch.allclose(terms["entropy"], -log_prob.mean(), atol=1e-5)


def test_sac_takes_the_log_probability_of_the_number_that_was_drawn():
    """At the bounds of a TanhNormal many numbers become the same action, which does not say which one it was."""
    torch.manual_seed(0)
    net = TensorDictModule(nn.Linear(3, 4), ["observation"], ["out"])
    split = TensorDictModule(lambda out: (12.0 + out[..., :2], 0.1 * out[..., 2:].sigmoid()), ["out"], ["loc", "scale"])
    actor = ProbabilisticActor(
        TensorDictSequential(net, split), in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True
    )
    batch = steps()
    terms = SACLoss(actor, qvalue(), target_entropy=-2.0)(batch)
    assert -70 < terms["entropy"] < -20  # thousands, if it is computed from the action
    terms["loss_actor"].backward()
    assert all(value.grad.isfinite().all() for value in net.parameters())


def test_discrete_sac_is_its_equations():
    loss, batch = made("DiscreteSACLoss", alpha_init=0.3)
    apart(loss)
    terms = loss(batch)
    obs, after = batch["observation"], batch["next", "observation"]

    def probs(where):
        return loss.actor_network[0].module(where).softmax(-1)

    online = [ensemble(loss, "qvalue_network", i)(obs) for i in range(2)]
    later = torch.minimum(*(ensemble(loss, "target_qvalue_network", i)(after) for i in range(2)))
    p, p_next = probs(obs), probs(after)
    target = target_of(batch, (p_next * (later - 0.3 * p_next.log())).sum(-1))
    values = [q[torch.arange(12), batch["action"]] for q in online]
    assert torch.allclose(terms["loss_qvalue"], sum(smooth(v - target).mean() for v in values), atol=1e-5)
    actor = (p * (0.3 * p.log() - torch.minimum(*online))).sum(-1).mean()
    assert torch.allclose(terms["loss_actor"], actor, atol=1e-5)
    goal = 0.98 * math.log(CHOICES)
    alpha = -math.log(0.3) * ((p * p.log()).sum(-1) + goal).mean()
    assert torch.allclose(terms["loss_alpha"], alpha, atol=1e-5)


@pytest.mark.parametrize("discrete", [False, True])
def test_iql_is_its_equations(discrete):
    options = {"expectile": 0.8, "temperature": 3.0}
    loss, batch = made("DiscreteIQLLoss" if discrete else "IQLLoss", **options)
    apart(loss)
    terms, rows = loss(batch), torch.arange(12)
    obs, after, action = batch["observation"], batch["next", "observation"], batch["action"]

    def q(name, i):
        net = ensemble(loss, name, i)
        return net(obs)[rows, action] if discrete else net(obs, action)[:, 0]

    best = torch.minimum(*(q("target_qvalue_network", i) for i in range(2)))
    value = loss.value_network.module(obs)[:, 0]
    gap = best - value
    weight = torch.where(gap < 0, 0.2, 0.8)
    assert torch.allclose(terms["loss_value"], (weight * gap**2).mean(), atol=1e-5)
    target = target_of(batch, loss.value_network.module(after)[:, 0])
    values = [q("qvalue_network", i) for i in range(2)]
    assert torch.allclose(terms["loss_qvalue"], sum(smooth(v - target).mean() for v in values), atol=1e-5)
    if discrete:
        log_prob = loss.actor_network[0].module(obs).log_softmax(-1)[rows, action]
    else:
        log_prob = normal_log_prob(*policy_of(loss, obs), action)
    assert torch.allclose(terms["loss_actor"], -((3.0 * gap).exp().clamp_max(100) * log_prob).mean(), atol=1e-4)


@pytest.mark.parametrize("mixer", [QMixer((3,), 5, 2), VDNMixer(2)])
def test_qmix_is_its_equation_agent_by_agent(mixer):
    torch.manual_seed(0)
    loss, batch = apart(mixed(copy.deepcopy(mixer), gamma=GAMMA)), team()
    terms = loss(batch)
    online, target = loss.local_value_network.module, loss.target_local_value_network.module
    mix, target_mix = loss.mixer_network.module, loss.target_mixer_network.module
    errors = []
    for i in range(12):
        now, after = batch[i]["agents", "observation"], batch[i]["next", "agents", "observation"]
        values = torch.stack([online(now[k])[batch[i]["agents", "action"][k]] for k in range(2)])
        best = torch.stack([target(after[k]).max() for k in range(2)])
        state, next_state = ([batch[i]["state"]], [batch[i]["next", "state"]]) if mix.needs_state else ([], [])
        goal = (
            batch[i]["next", "reward"]
            + GAMMA * target_mix(best[:, None], *next_state) * ~batch[i]["next", "terminated"]
        )
        errors.append(mix(values[:, None], *state) - goal)
    errors = torch.stack(errors)
    assert torch.allclose(terms["loss"], (errors**2).mean(), atol=1e-5)
    assert torch.allclose(batch["td_error"], errors**2, atol=1e-5)


# Networks of several agents ------------------------------------------------------------------------------------------


def several(inputs, outputs, agents, **how):
    return MultiAgentMLP(inputs, outputs, agents, share_params=False, num_cells=[8], **how)


def test_agents_with_parameters_of_their_own_learn_with_qmix():
    torch.manual_seed(0)
    net = several(OBS, CHOICES, 2, centralized=False)
    values = TensorDictModule(net, [("agents", "observation")], [("agents", "action_value")])
    loss = QMixerLoss(values, QMixer((3,), 5, 2), action_space="categorical")
    before = tensors(loss)
    loss(team())["loss"].backward()
    assert all(bool(value.grad.any()) for name, value in loss.named_parameters() if "local" in name)
    torch.optim.SGD(loss.parameters(), lr=0.5).step()
    weight = "local_value_network.module.params.0.weight"
    assert torch.equal(tensors(loss)[f"target_{weight}"], before[weight])
    SoftUpdate(loss, tau=0.5).step()
    assert torch.allclose(tensors(loss)[f"target_{weight}"], (before[weight] + net.params["0", "weight"]) / 2)


def test_agents_with_parameters_of_their_own_learn_with_sac():
    torch.manual_seed(0)

    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = several(OBS + 2, 1, 3, centralized=True)

        def forward(self, observation, action):
            return self.net(observation, action)

    net = nn.Sequential(several(OBS, 4, 3, centralized=False), NormalParamExtractor())
    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(module, ["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True)
    value = TensorDictModule(Critic(), ["observation", "action"], ["state_action_value"])
    loss = SACLoss(actor, value, target_entropy=-2.0)
    weight = loss.qvalue_network_params["module", "net", "params", "0", "weight"]
    assert weight.shape == (2, 3, 8, 3 * (OBS + 2))
    assert not torch.equal(weight[0], weight[1])
    sum(all_losses(loss(data((12, 3)))).values()).backward()
    assert all(value.grad is not None and bool(value.grad.any()) for value in loss.parameters() if value.ndim)
