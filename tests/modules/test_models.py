"""Networks: layers and parameters, lazy sizes, agents, mixers, and errors."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.modules import (
    MLP,
    ConvNet,
    DdpgMlpActor,
    DdpgMlpQNet,
    DuelingCnnDQNet,
    DuelingMlpDQNet,
    MultiAgentConvNet,
    MultiAgentMLP,
    QMixer,
    SquashDims,
    VDNMixer,
)
from rlnb.modules.models.ddpg import ddpg_init_last_layer
from tests.pairwise import sampled


def parameters(net):
    return sum(value.numel() for value in net.parameters())


# MLP -----------------------------------------------------------------------------------------------------------------


def test_an_mlp_computes_what_a_sequential_of_the_same_weights_computes():
    net = MLP(3, 2, num_cells=[8, 5], activation_class=nn.ReLU)
    plain = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2))
    plain.load_state_dict(net.state_dict())
    data = torch.randn(7, 4, 3)
    assert torch.equal(net(data), plain(data))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3 * 2 + 2),
        ({"depth": 2}, 3 * 32 + 32 + 32 * 32 + 32 + 32 * 2 + 2),
        ({"depth": 2, "num_cells": 4}, 3 * 4 + 4 + 4 * 4 + 4 + 4 * 2 + 2),
        ({"num_cells": (4, 5)}, 3 * 4 + 4 + 4 * 5 + 5 + 5 * 2 + 2),
        ({"num_cells": [4], "bias_last_layer": False}, 3 * 4 + 4 + 4 * 2),
        ({"num_cells": [4], "single_bias_last_layer": True}, 3 * 4 + 4 + 4 * 2 + 1),
        ({"num_cells": [4], "layer_kwargs": {"bias": False}}, 3 * 4 + 4 * 2),
    ],
)
def test_depth_and_sizes_decide_the_number_of_parameters(options, expected):
    assert parameters(MLP(3, 2, **options)) == expected


def test_a_hidden_layer_is_linear_dropout_norm_activation():
    norms = {"norm_class": nn.LayerNorm, "norm_kwargs": [{"normalized_shape": 4}, {"normalized_shape": 2}]}
    net = MLP(3, 2, num_cells=[4], dropout=0.1, activate_last_layer=True, **norms)
    assert [type(layer) for layer in net] == [nn.Linear, nn.Dropout, nn.LayerNorm, nn.Tanh] * 2


def test_a_lazy_mlp_takes_its_size_from_the_first_input_and_keeps_its_parameters():
    net = MLP(out_features=2, num_cells=[4])
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    data = torch.ones(5, 3)
    before = net(data).detach()
    assert net[0].weight.shape == (4, 3)
    net(data).sum().backward()
    optimizer.step()
    assert not torch.equal(net(data), before)


def test_several_inputs_are_concatenated():
    net = MLP(5, 2, num_cells=[4])
    state, action = torch.randn(7, 3), torch.randn(7, 2)
    assert torch.equal(net(state, action), net(torch.cat([state, action], -1)))


def test_the_output_has_the_shape_that_out_features_say():
    net = MLP(3, (2, 4))
    flat = nn.Sequential(*net)(torch.ones(5, 3))
    assert torch.equal(net(torch.ones(5, 3)), flat.reshape(5, 2, 4))
    assert MLP(3, [])(torch.ones(5, 3)).shape == (5,)


def test_a_slice_of_a_network_is_a_sequential_of_the_same_layers():
    net = MLP(3, 2, num_cells=[4])
    assert type(net[:-1]) is nn.Sequential
    assert [id(layer) for layer in net[:-1]] == [id(layer) for layer in net][:-1]


def test_the_device_is_that_of_the_parameters():
    net = MLP(3, 2, num_cells=[4], norm_class=nn.LayerNorm, norm_kwargs={"normalized_shape": 4}, device="meta")
    assert {value.device.type for value in net.parameters()} == {"meta"}
    assert {value.device.type for value in MLP(3, 2).parameters()} == {"cpu"}


# ConvNet and the networks made of both -------------------------------------------------------------------------------


def test_a_convnet_computes_what_a_sequential_of_the_same_weights_computes():
    net = ConvNet(3, num_cells=[4, 5], kernel_sizes=[4, (2, 3)], strides=[2, 1], paddings=[0, 1])
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 4, 2), nn.ELU(), nn.Conv2d(4, 5, (2, 3), 1, 1), nn.ELU(), nn.Flatten()
    )  # fmt: skip
    plain.load_state_dict(net.state_dict())
    data = torch.randn(6, 3, 10, 10)
    assert torch.equal(net(data), plain(data))
    assert torch.allclose(net(data.reshape(2, 3, 3, 10, 10)), plain(data).reshape(2, 3, -1), atol=1e-6)
    assert torch.allclose(net(data[0]), plain(data)[0], atol=1e-6)


def test_three_convolutions_are_the_default_and_lists_set_the_depth():
    assert [layer.out_channels for layer in ConvNet(3) if isinstance(layer, nn.Conv2d)] == [32, 32, 32]
    assert [layer.stride for layer in ConvNet(3, num_cells=4, strides=[1, 2])[::2][:2]] == [(1, 1), (2, 2)]


def test_the_last_convolution_can_have_no_bias():
    net = ConvNet(3, num_cells=[4, 5], bias_last_layer=False)
    assert [layer.bias is None for layer in net if isinstance(layer, nn.Conv2d)] == [False, True]


def test_a_convnet_can_end_with_an_image_or_with_a_pool():
    data = torch.ones(2, 3, 8, 8)
    assert ConvNet(3, num_cells=[4], aggregator_class=None)(data).shape == (2, 4, 6, 6)
    pool = {"aggregator_class": nn.AdaptiveAvgPool2d, "aggregator_kwargs": {"output_size": (1, 1)}}
    assert ConvNet(3, num_cells=[4], **pool, squeeze_output=True)(data[:1]).shape == (1, 4)


def test_dims_are_squashed_from_the_end():
    assert SquashDims(2)(torch.ones(5, 2, 3, 4)).shape == (5, 2, 12)


@pytest.mark.parametrize("kind", ["vectors", "images"])
def test_advantages_of_a_dueling_network_have_mean_zero(kind):
    if kind == "vectors":
        net, data = DuelingMlpDQNet(3), torch.randn(5, 4)
    else:
        net, data = DuelingCnnDQNet(3, mlp_kwargs={"num_cells": 8}), torch.randn(5, 2, 40, 40)
    values, features = net(data), net.features(data)
    assert torch.allclose(values.mean(-1, keepdim=True), net.value(features), atol=1e-5)
    gaps = net.advantage(features)
    assert torch.allclose(values[:, 0] - values[:, 1], gaps[:, 0] - gaps[:, 1], atol=1e-5)


def test_a_dueling_network_of_several_factors_adds_the_value_of_each_state():
    net, data = DuelingMlpDQNet((3, 2)), torch.randn(5, 4)
    values, features = net(data), net.features(data)
    assert values.shape == (5, 3, 2)
    assert torch.allclose(values.mean(-1), net.value(features).expand(5, 3), atol=1e-5)


def test_the_last_layers_of_ddpg_begin_near_zero():
    actor, critic = DdpgMlpActor(2), DdpgMlpQNet()
    obs, action = torch.randn(5, 3), torch.randn(5, 2)
    assert actor(obs).shape == (5, 2)
    assert critic(obs, action).shape == (5, 1)
    for layer in (actor.mlp[-1], critic.mlp2[-1]):
        assert 0 < layer.weight.abs().max() <= 0.003
        assert 0 < layer.bias.abs().max() <= 0.003
    assert actor.mlp[2].weight.abs().max() > 0.01


def test_the_critic_of_ddpg_reads_the_action_behind_its_first_layer():
    critic, obs, action = DdpgMlpQNet(), torch.randn(5, 3), torch.randn(5, 2)
    value = critic(obs, action)
    assert critic.mlp1[0].in_features == 3
    assert torch.equal(value, critic.mlp2(torch.cat([critic.mlp1(obs), action], -1)))


# Several agents ------------------------------------------------------------------------------------------------------


def agents(share_params, centralized, lazy=False, **options):
    torch.manual_seed(0)
    how = {"share_params": share_params, "centralized": centralized, "num_cells": [5], **options}
    net = MultiAgentMLP(None if lazy else 3, 2, 4, **how)
    net.more = options
    return net


#: Options that decide whether the agents run in products of matrices or with vmap.
MORE = {
    "tanh": {},
    "relu": {"activation_class": nn.ReLU},
    "no bias": {"layer_kwargs": {"bias": False}},
    "mish": {"activation_class": nn.Mish},
    "norm": {"norm_class": nn.LayerNorm, "norm_kwargs": {"normalized_shape": 5}},
}


def single(net, agent):
    """The network of one agent, as a plain MLP with its weights."""
    made = MLP(12 if net.centralized else 3, 2, num_cells=[5], **net.more)
    params = net.params if net.share_params else net.params[agent]
    params.data.to_module(made)
    return made


@pytest.mark.parametrize(
    ("share_params", "centralized", "lazy", "more"), sampled([True, False], [True, False], [True, False], MORE)
)
def test_each_agent_computes_what_its_own_mlp_computes(share_params, centralized, lazy, more):
    net, data = agents(share_params, centralized, lazy, **more), torch.randn(6, 7, 4, 3)
    output = net(data)
    assert output.shape == (6, 7, 4, 2)
    assert torch.allclose(net(data[0, 0]), output[0, 0], atol=1e-6)
    assert net(data[:0]).shape == (0, 7, 4, 2)
    for i in range(4):
        given = data.flatten(-2) if centralized else data[..., i, :]
        assert torch.allclose(output[..., i, :], single(net, i)(given), atol=1e-6)


def test_agents_with_parameters_of_their_own_begin_with_different_ones():
    net, data = agents(False, True), torch.ones(4, 3)
    output = net(data)
    assert len({tuple(row.tolist()) for row in output}) == 4
    assert parameters(net) == 4 * parameters(single(net, 0))


def test_a_gradient_of_one_agent_reaches_only_its_own_parameters():
    net = agents(False, False)
    net(torch.ones(5, 4, 3))[:, 2].sum().backward()
    for value in net.params.values(True, True):
        assert [bool(each.any()) for each in value.grad] == [False, False, True, False]


@pytest.mark.parametrize("share_params", [True, False])
def test_only_a_centralized_agent_sees_the_others(share_params):
    data = torch.randn(4, 3)
    changed = data.clone()
    changed[3] += 1.0
    for centralized in (True, False):
        net = agents(share_params, centralized)
        moved = (net(data) != net(changed)).any(-1).tolist()
        assert moved == ([True] * 4 if centralized else [False, False, False, True])


def test_inputs_of_agents_are_concatenated():
    net, data = agents(False, False), torch.randn(5, 4, 3)
    assert torch.equal(net(data[..., :1], data[..., 1:]), net(data))


def test_a_lazy_network_keeps_its_parameters_so_that_an_optimizer_can_be_made_before():
    net = agents(False, True, lazy=True)
    assert not net.initialized
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    data = torch.ones(5, 4, 3)
    before = net(data).detach()
    assert net.initialized
    assert net.params["0", "weight"].shape == (4, 5, 12)
    net(data).sum().backward()
    optimizer.step()
    assert not torch.allclose(net(data), before)


def test_dropout_follows_the_mode_and_differs_between_agents():
    net = agents(False, True, dropout=0.5)
    data = torch.ones(50, 4, 3)
    assert not torch.equal(net(data), net(data))
    net.eval()
    assert torch.equal(net(data), net(data))


def test_a_network_of_agents_is_pickled_copied_and_loaded():
    net, data = agents(False, False), torch.randn(5, 4, 3)
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert torch.equal(other(data), net(data))
        assert not {p.data_ptr() for p in other.parameters()} & {p.data_ptr() for p in net.parameters()}
    fresh = MultiAgentMLP(3, 2, 4, share_params=False, centralized=False, num_cells=[5])
    assert not torch.equal(fresh(data), net(data))
    fresh.load_state_dict(net.state_dict())
    assert torch.equal(fresh(data), net(data))
    assert list(net.state_dict()) == ["params.0.weight", "params.0.bias", "params.2.weight", "params.2.bias"]


@pytest.mark.parametrize("net", [MLP(3, 2, num_cells=[4]), ConvNet(3, num_cells=[4]), QMixer((3,), 4, 2)])
def test_networks_are_pickled(net):
    inputs = {MLP: [torch.ones(5, 3)], ConvNet: [torch.ones(5, 3, 6, 6)]}
    given = inputs.get(type(net), [torch.ones(5, 2, 1), torch.ones(5, 3)])
    assert torch.equal(pickle.loads(pickle.dumps(net))(*given), net(*given))


@pytest.mark.parametrize("share_params", [True, False])
def test_parameters_are_initialized_through_a_stateful_net(share_params):
    net = agents(share_params, False)
    stateful = net.get_stateful_net()
    nn.init.zeros_(stateful[2].weight)
    assert not net.params["2", "weight"].any()
    stateful[0].bias = nn.Parameter(torch.ones_like(stateful[0].bias))
    net.from_stateful_net(stateful)
    assert bool((net.params["0", "bias"] == 1).all())


def test_reset_draws_other_parameters_in_place():
    net = agents(False, True, lazy=True)
    net(torch.ones(4, 3))
    before, tensors = net.params.data.clone(), [id(value) for value in net.parameters()]
    net.reset_parameters()
    assert [id(value) for value in net.parameters()] == tensors
    weights = net.params["0", "weight"]
    assert not torch.equal(weights, before["0", "weight"])
    assert not torch.equal(weights[0], weights[1])


@pytest.mark.parametrize("share_params", [True, False])
@pytest.mark.parametrize("centralized", [True, False])
def test_images_of_agents_go_through_a_convnet_each(share_params, centralized):
    net = MultiAgentConvNet(2, centralized, share_params, num_cells=[4], kernel_sizes=3, strides=1)
    data = torch.randn(5, 2, 3, 6, 6)
    output = net(data)
    assert output.shape == (5, 2, 64)
    for i in range(2):
        one = ConvNet(6 if centralized else 3, num_cells=[4])
        (net.params if share_params else net.params[i]).data.to_module(one)
        given = data.flatten(1, 2) if centralized else data[:, i]
        assert torch.allclose(output[:, i], one(given), atol=1e-5)


# Mixers --------------------------------------------------------------------------------------------------------------


def test_vdn_adds_up_the_values():
    values = torch.randn(6, 5, 4, 1)
    assert torch.equal(VDNMixer(4)(values), values.sum(-2))


def test_qmix_is_the_equation_of_the_paper():
    mixer = QMixer((3, 2), 5, 4)
    values, state = torch.randn(7, 4, 1), torch.randn(7, 3, 2)
    flat = state.flatten(1)
    for i in range(7):
        first = mixer.hyper_w_1(flat[i]).abs().reshape(4, 5)
        hidden = nn.functional.elu(values[i].T @ first + mixer.hyper_b_1(flat[i]))
        expected = hidden @ mixer.hyper_w_final(flat[i]).abs()[:, None] + mixer.V(flat[i])
        assert torch.allclose(mixer(values, state)[i], expected[0], atol=1e-6)


def test_qmix_grows_with_the_value_of_each_agent():
    mixer = QMixer((3,), 8, 4)
    values = torch.randn(50, 4, 1, requires_grad=True)
    mixer(values, torch.randn(50, 3)).sum().backward()
    assert bool((values.grad >= 0).all())
    assert bool((values.grad > 0).any())


def test_mixers_run_in_a_tensordict_module():
    keys = {"in_keys": [("agents", "chosen_action_value"), "state"], "out_keys": ["chosen_action_value"]}
    data = TensorDict({"agents": {"chosen_action_value": torch.ones(5, 4, 1)}, "state": torch.ones(5, 3)}, [5])
    assert TensorDictModule(QMixer((3,), 8, 4), **keys)(data)["chosen_action_value"].shape == (5, 1)


# What errors say -----------------------------------------------------------------------------------------------------


def fails(error, call):
    with pytest.raises(error) as info:
        call()
    return str(info.value)


ERRORS = {
    "out_features": (
        ValueError,
        lambda: MLP(3),
        "MLP must know the number of its output features. Fix: MLP(in_features, out_features), such as "
        "out_features=env.action_spec.shape[-1].",
    ),
    "depth": (
        ValueError,
        lambda: MLP(3, 2, num_cells=64),
        "MLP got num_cells=64, the size of each hidden layer, without their number. Fix: depth=2, or "
        "num_cells=[64, 64].",
    ),
    "depth and sizes": (
        ValueError,
        lambda: MLP(3, 2, depth=3, num_cells=[4]),
        "MLP got depth=3, and num_cells=[4] makes it 1. Fix: leave out depth, or give one number as num_cells.",
    ),
    "negative depth": (
        ValueError,
        lambda: MLP(3, 2, depth=-1),
        "MLP expects a depth of 0 or more, and got -1. Fix: depth=2.",
    ),
    "lists": (
        ValueError,
        lambda: MLP(3, 2, num_cells=[4], layer_kwargs=[{}]),
        "MLP expects a dictionary as layer_kwargs, or a list of 2, one for each layer, and got 1. "
        "Fix: layer_kwargs={...} gives all layers the same.",
    ),
    "norm": (
        TypeError,
        lambda: MLP(3, 2, num_cells=[4, 5], norm_class=nn.LayerNorm),
        "MLP could not make norm_class=LayerNorm with norm_kwargs {}: LayerNorm.__init__() missing 1 required "
        "positional argument: 'normalized_shape'. A normalization of features must know their number. "
        "Fix: norm_kwargs=[{'normalized_shape': 4}, {'normalized_shape': 5}].",
    ),
    "lazy layer_class": (
        ValueError,
        lambda: MLP(out_features=2, layer_class=nn.Identity),
        "MLP cannot make its first layer without in_features: only nn.Linear takes its size from the first input, and "
        "layer_class is 'Identity'. Fix: in_features=..., the size of the observation.",
    ),
    "features": (
        ValueError,
        lambda: MLP(3, 2)(torch.ones(5, 4)),
        "MLP expects 3 features in dimension -1 of its input, and got 4: an input of shape [5, 4]. Likely cause: "
        "in_features is not the size of the observation, or the inputs are given in part. Fix: in_features=None takes "
        "the size from the first input.",
    ),
    "dtype": (
        ValueError,
        lambda: MLP(3, 2)(torch.ones(5, 3, dtype=torch.float64)),
        "MLP has parameters of torch.float32, and got an input of torch.float64. Fix: net(data.to(torch.float32)), or "
        "a transform of the env: DoubleToFloat(), or ToTensorImage() for pixels.",
    ),
    "dtype of agents": (
        ValueError,
        lambda: agents(False, False)(torch.ones(5, 4, 3, dtype=torch.float64)),
        "MLP has parameters of torch.float32, and got an input of torch.float64. Fix: net(data.to(torch.float32)), or "
        "a transform of the env: DoubleToFloat(), or ToTensorImage() for pixels.",
    ),
    "features of an agent": (
        ValueError,
        lambda: agents(False, True)(torch.ones(5, 4, 2)),
        "MLP expects 12 features in dimension -1 of its input, and got 8: an input of shape [5, 8]. Likely cause: "
        "in_features is not the size of the observation, or the inputs are given in part. Fix: in_features=None takes "
        "the size from the first input.",
    ),
    "channels": (
        ValueError,
        lambda: ConvNet(3, num_cells=[4])(torch.ones(5, 8, 8, 3)),
        "ConvNet expects 3 features in dimension -3 of its input, and got 8: an input of shape [5, 8, 8, 3]. Likely "
        "cause: in_features is not the size of the observation, or the inputs are given in part. Fix: in_features=None "
        "takes the size from the first input.",
    ),
    "kernels": (
        ValueError,
        lambda: ConvNet(3, num_cells=[4], kernel_sizes=(3, 5)),
        "ConvNet expects one number as kernel_sizes, or a list of 1, one for each convolution, and got [3, 5]. Fix: a "
        "kernel that is not square is a pair in the list, kernel_sizes=[(3, 5), ...].",
    ),
    "no convolution": (
        ValueError,
        lambda: ConvNet(3, num_cells=[]),
        "ConvNet needs one convolution at least. Fix: num_cells=[32, 64, 64].",
    ),
    "dueling": (
        ValueError,
        lambda: DuelingMlpDQNet(3, 2),
        "A dueling network adds one value to the advantages of 3 actions, and got out_features_value=2. "
        "Fix: out_features_value=1.",
    ),
    "last layer": (
        ValueError,
        lambda: ddpg_init_last_layer(nn.Sequential(nn.Tanh())),
        "ddpg_init_last_layer found no layer with a weight. Fix: give it an MLP.",
    ),
    "centralized": (
        TypeError,
        lambda: MultiAgentMLP(3, 2, 4, share_params=True),
        "MultiAgentMLP needs centralized=True or centralized=False. Fix: centralized=False gives each agent its own "
        "observation only, share_params=True gives all agents the same network.",
    ),
    "use_td_params": (
        NotImplementedError,
        lambda: MultiAgentMLP(3, 2, 4, share_params=True, centralized=True, use_td_params=False),
        "MultiAgentMLP keeps its parameters in net.params, a TensorDict. Fix: use_td_params=True.",
    ),
    "agents": (
        ValueError,
        lambda: agents(True, False)(torch.ones(5, 3, 3)),
        "MultiAgentMLP expects the 4 agents in dimension -2 of its input, and got shape [5, 3, 3]. Fix: stack the "
        "observations of the agents, torch.stack(observations, -2), or n_agents=...",
    ),
    "stateful": (
        ValueError,
        lambda: agents(False, False).from_stateful_net(nn.Linear(1, 1)),
        "MultiAgentMLP expects the parameters of net.get_stateful_net(), and got others: 'bias' [1], 'weight' [1, 1] "
        "instead of ('0', 'bias') [4, 5], ('0', 'weight') [4, 5, 3], ('2', 'bias') [4, 2], ('2', 'weight') [4, 2, 5]. "
        "Fix: net.from_stateful_net(snet) with the snet of snet = net.get_stateful_net().",
    ),
    "mixer inputs": (
        ValueError,
        lambda: QMixer((3,), 4, 2)(torch.ones(5, 2, 1)),
        "QMixer reads the values of the agents and the state, and got 1 inputs. Fix: TensorDictModule(qmixer, "
        "in_keys=[('agents', 'chosen_action_value'), 'state'], out_keys=['chosen_action_value']).",
    ),
    "mixer values": (
        ValueError,
        lambda: VDNMixer(4)(torch.ones(5, 4)),
        "VDNMixer expects the values of 4 agents, [*B, 4, 1], and got shape [5, 4]. Fix: "
        "chosen_action_value.unsqueeze(-1) if the last dimension is missing, or n_agents=...",
    ),
    "mixer state": (
        ValueError,
        lambda: QMixer((3,), 4, 2)(torch.ones(5, 2, 1), torch.ones(5, 4)),
        "QMixer expects a state of shape [5, 3] beside values of shape [5, 2, 1], and got [5, 4]. Fix: "
        "state_shape=env.observation_spec['state'].shape, without batch dimensions.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_what_to_write(name):
    error, call, text = ERRORS[name]
    assert fails(error, call) == text


def test_a_failure_of_a_layer_that_the_input_does_not_explain_is_not_renamed():
    class Broken(nn.Module):
        def forward(self, value):
            raise RuntimeError("broken")

    assert fails(RuntimeError, lambda: MLP(3, 2, num_cells=[4], activation_class=Broken)(torch.ones(5, 3))) == "broken"
