"""Networks of several agents, with shared or separate parameters, and mixers of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, TensorDictParams
from torch import nn

from rlnb.modules.models.convnet import ConvNet, Sizes
from rlnb.modules.models.mlp import MLP

Tensor = torch.Tensor

#: Activations that act on each number alone, so that agents can run side by side.
_ELEMENTWISE = (nn.ELU, nn.GELU, nn.Identity, nn.LeakyReLU, nn.ReLU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Tanh)


class MultiAgentNetBase(nn.Module):
    """Base class of networks that every agent runs on its own input, or all of them on all inputs.

    ``params`` holds the parameters as a TensorDict. With ``share_params=False`` they are those of all agents, stacked
    in their first dimension, and the agents run as one batch (``torch.vmap``).

    Args:
        n_agents: number of agents.
        centralized: whether each agent reads the inputs of all agents.
        share_params: whether all agents have the same parameters.
        agent_dim: the dimension of the agents in an input, counted from the end. The features follow it.
        vmap_randomness: whether dropout differs between agents with parameters of their own: ``"different"`` or
            ``"same"``.
        options: keywords of the network of one agent; see ``_build_single_net``.

    Raises:
        TypeError: If ``centralized`` or ``share_params`` is missing.

    Example:
        >>> class Linear(MultiAgentNetBase):
        ...     def _build_single_net(self, in_features):
        ...         return nn.Linear(in_features or 2, 1)
        >>> net = Linear(n_agents=3, centralized=False, share_params=False, agent_dim=-2, in_features=2)
        >>> net(torch.ones(5, 3, 2)).shape, net.params["weight"].shape
        (torch.Size([5, 3, 1]), torch.Size([3, 1, 2]))
    """

    #: The keyword of ``_build_single_net`` with the number of features that an agent reads.
    _size_name = "in_features"
    params: TensorDictParams

    def __init__(
        self,
        *,
        n_agents: int,
        centralized: bool | None = None,
        share_params: bool | None = None,
        agent_dim: int,
        vmap_randomness: str = "different",
        use_td_params: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        centralized = options.pop("centralised", centralized)  # the spelling of earlier versions
        for name, value in (("centralized", centralized), ("share_params", share_params)):
            if value is None:
                raise TypeError(
                    f"{type(self).__name__} needs {name}=True or {name}=False. Fix: centralized=False gives each agent "
                    "its own observation only, share_params=True gives all agents the same network."
                )
        if not use_td_params:
            raise NotImplementedError(
                f"{type(self).__name__} keeps its parameters in net.params, a TensorDict. Fix: use_td_params=True."
            )
        self.n_agents, self.agent_dim = n_agents, agent_dim
        self.centralized, self.share_params = bool(centralized), bool(share_params)
        self.vmap_randomness = vmap_randomness
        self._options = options
        nets = self._nets(options[self._size_name])
        self.params = TensorDictParams(self._stacked(nets), no_convert=True)
        self._lazy = any(map(nn.parameter.is_lazy, self.parameters()))
        self._keep_structure(nets[0])

    def _build_single_net(self, **options: Any) -> nn.Module:
        """Make the network of one agent. A size of None makes a lazy layer."""
        raise NotImplementedError

    def _nets(self, size: int | None) -> list[nn.Module]:
        """Make the networks of the agents, or the one that they share."""
        size = size * self.n_agents if self.centralized and size is not None else size
        options = self._options | {self._size_name: size}
        return [self._build_single_net(**options) for _ in range(1 if self.share_params else self.n_agents)]

    def _keep_structure(self, net: nn.Module) -> None:
        """Keep the network that the parameters are put into; it has none of its own, and is not a submodule."""
        self.__dict__["_net"] = deepcopy(net).to("meta").train(self.training)

    def _stacked(self, nets: Sequence[nn.Module]) -> TensorDictBase:
        """Return the parameters of networks, stacked if each agent has its own."""
        found = [TensorDict.from_module(net) for net in nets]
        if self.share_params:
            return found[0].clone(recurse=False)
        learned = {key for key, value in found[0].items(True, True) if isinstance(value, nn.Parameter)}
        stacked: Any = torch.stack(found)
        for key in learned:
            value = stacked.get(key)
            if not nn.parameter.is_lazy(value):
                stacked.set(key, nn.Parameter(value.detach().clone()))
        return stacked

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the agents.

        Args:
            inputs: tensors ``[*B, n_agents, ...]``, which are concatenated along their last dimension.

        Returns:
            The outputs ``[*B, n_agents, ...]``.

        Raises:
            ValueError: If there are more or fewer agents, or the features do not fit.
        """
        value = inputs[0] if len(inputs) == 1 else torch.cat(inputs, -1)
        dim = self.agent_dim
        if value.ndim < -dim or value.shape[dim] != self.n_agents:
            raise ValueError(
                f"{type(self).__name__} expects the {self.n_agents} agents in dimension {dim} of its input, and got "
                f"shape {list(value.shape)}. Fix: stack the observations of the agents, torch.stack(observations, "
                f"{dim}), or n_agents=..."
            )
        if self.centralized:
            value = value.flatten(dim, dim + 1)
        if self._lazy:
            self._materialize(value.shape[dim + 1])
        return self._run_agents(value)

    def _run_agents(self, value: Tensor) -> Tensor:
        """Run inputs ``[*B, n_agents, ...]``, or ``[*B, ...]`` with those of all agents if they are centralized."""
        if self.share_params:
            if self.centralized:
                found = self._run(self.params, value).unsqueeze(-2)
                return found.expand(*found.shape[:-2], self.n_agents, found.shape[-1])
            return self._run(self.params, value)
        run = torch.vmap(
            self._run,
            in_dims=(0, None if self.centralized else self.agent_dim),
            out_dims=-2,
            randomness=self.vmap_randomness,
        )
        return run(self.params, value)

    def _run(self, params: TensorDictBase, value: Tensor) -> Tensor:
        net = self.__dict__["_net"]
        with params.to_module(net):
            found: Tensor = net(value)
        return found

    @property
    def initialized(self) -> bool:
        """Whether the number of input features is known."""
        return not self._lazy

    def _materialize(self, size: int) -> None:
        """Make the parameters whose size the first input gives, in place, so that optimizers keep them."""
        size = size // self.n_agents if self.centralized else size
        self._options = self._options | {self._size_name: size}
        nets = self._nets(size)
        fresh = self._stacked(nets)
        with torch.no_grad():
            leaves: Any = self.params.items(True, True)
            for key, value in leaves:
                if nn.parameter.is_lazy(value):
                    made: Any = fresh.get(key)
                    value.materialize(made.shape if self.share_params else made.shape[1:])
                    value.copy_(made)
        self._lazy = False
        self._keep_structure(nets[0])

    def reset_parameters(self) -> None:
        """Reinitialize all parameters as the layers do, those of each agent separately."""
        with torch.no_grad():
            fresh = self._stacked(self._nets(self._options[self._size_name]))
            leaves: Any = self.params.items(True, True)
            for key, value in leaves:
                if not nn.parameter.is_lazy(value):
                    value.copy_(fresh.get(key))

    def get_stateful_net(self, copy: bool = True) -> nn.Module:
        """Return the network of an agent with the parameters of all agents, to initialize them in place.

        With ``share_params=False`` the parameters have the agents as their first dimension, and the network cannot be
        called.

        Args:
            copy: not needed; the network is a new one whose parameters are those of this module.

        Example:
            >>> net = MultiAgentMLP(3, 2, 4, centralized=False, share_params=False, num_cells=[8])
            >>> for layer in net.get_stateful_net():
            ...     if isinstance(layer, nn.Linear):
            ...         _ = nn.init.zeros_(layer.bias)
            >>> bool(net.params["0", "bias"].any())
            False
        """
        net: nn.Module = deepcopy(self.__dict__["_net"])
        self.params.to_module(net)
        return net

    def from_stateful_net(self, stateful_net: nn.Module) -> None:
        """Take over the parameters of a network that :meth:`get_stateful_net` has returned.

        Raises:
            ValueError: If they are not the parameters of such a network.
        """
        given = TensorDict.from_module(stateful_net)
        shapes = [{key: value.shape for key, value in td.items(True, True)} for td in (self.params, given)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{type(self).__name__} expects the parameters of net.get_stateful_net(), and got others: "
                f"{_listed(shapes[1])} instead of {_listed(shapes[0])}. Fix: net.from_stateful_net(snet) with the snet "
                "of snet = net.get_stateful_net()."
            )
        with torch.no_grad():
            for key, value in self.params.items(True, True):
                value.copy_(given.get(key))

    def train(self, mode: bool = True) -> MultiAgentNetBase:
        """Set the mode of training, or of evaluation."""
        super().train(mode)
        self.__dict__["_net"].train(mode)
        return self

    def extra_repr(self) -> str:
        """Return the network of an agent and the arguments."""
        return (
            f"{self.__dict__['_net']},\nn_agents={self.n_agents},\nshare_params={self.share_params},\n"
            f"centralized={self.centralized},\nagent_dim={self.agent_dim}"
        )

    def __repr__(self) -> str:
        """Return the text without the parameters."""
        lines = self.extra_repr().replace("\n", "\n    ")
        return f"{type(self).__name__}(\n    {lines})"


def _listed(shapes: dict[Any, torch.Size]) -> str:
    return ", ".join(f"{key!r} {list(shape)}" for key, shape in sorted(shapes.items(), key=str)) or "none"


class MultiAgentMLP(MultiAgentNetBase):
    """An :class:`MLP` of several agents, from ``[*B, n_agents, n_agent_inputs]`` to ``[*B, n_agents, outputs]``.

    Args:
        n_agent_inputs: number of input features of an agent. None: that of the first input.
        n_agent_outputs: number of output features of an agent.
        n_agents: number of agents.
        centralized: whether each agent reads the inputs of all agents, as a critic may.
        share_params: whether all agents have the same parameters.
        device: device of the parameters.
        depth: number of hidden layers; see :class:`MLP`.
        num_cells: their sizes.
        activation_class: what makes an activation.
        use_td_params: True; the parameters are in ``net.params``.
        kwargs: further keywords of :class:`MLP`.

    Raises:
        TypeError: If ``centralized`` or ``share_params`` is missing.
        ValueError: If an input does not fit when the module is called.

    Example:
        >>> net = MultiAgentMLP(3, 2, n_agents=4, centralized=False, share_params=False, num_cells=[8])
        >>> net(torch.ones(5, 4, 3)).shape, net.params["0", "weight"].shape
        (torch.Size([5, 4, 2]), torch.Size([4, 8, 3]))
    """

    _size_name = "n_agent_inputs"

    def __init__(
        self,
        n_agent_inputs: int | None,
        n_agent_outputs: int,
        n_agents: int,
        *,
        centralized: bool | None = None,
        share_params: bool | None = None,
        device: Any = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Callable[..., nn.Module] = nn.Tanh,
        use_td_params: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            n_agents=n_agents,
            centralized=centralized,
            share_params=share_params,
            agent_dim=-2,
            use_td_params=use_td_params,
            n_agent_inputs=n_agent_inputs,
            out_features=n_agent_outputs,
            device=device,
            depth=depth,
            num_cells=num_cells,
            activation_class=activation_class,
            **kwargs,
        )
        self.n_agent_inputs, self.n_agent_outputs = n_agent_inputs, n_agent_outputs

    def _build_single_net(self, *, n_agent_inputs: int | None, **options: Any) -> nn.Module:  # type: ignore[override]
        return MLP(n_agent_inputs, **options)

    def _run_agents(self, value: Tensor) -> Tensor:
        layers = list(self.__dict__["_net"])
        first: Any = self.params.get(("0", "weight"))
        fits = value.shape[-1] == first.shape[-1] and value.dtype == first.dtype
        if not fits or any(type(layer) not in (nn.Linear, *_ELEMENTWISE) for layer in layers):
            return super()._run_agents(value)
        # A product for each layer takes a fourth of the time of vmap for three layers of 64 cells.
        batch, own = value.shape[: -1 if self.centralized else -2], not self.share_params
        if own and self.centralized:
            value = value.reshape(1, -1, value.shape[-1]).expand(self.n_agents, -1, -1)
        elif own:
            value = value.movedim(-2, 0).reshape(self.n_agents, -1, value.shape[-1])
        for i, layer in enumerate(layers):
            if type(layer) is not nn.Linear:
                value = layer(value)
                continue
            weight: Any = self.params.get((str(i), "weight"))
            bias: Any = self.params.get((str(i), "bias"), None)
            if not own:
                value = nn.functional.linear(value, weight, bias)
            elif bias is None:
                value = value @ weight.mT
            else:
                value = torch.baddbmm(bias.unsqueeze(1), value, weight.mT)
        if own:
            return value.reshape(self.n_agents, *batch, value.shape[-1]).movedim(0, -2)
        if self.centralized:
            return value.unsqueeze(-2).expand(*batch, self.n_agents, value.shape[-1])
        return value


class MultiAgentConvNet(MultiAgentNetBase):
    """A :class:`ConvNet` of several agents, from images ``[*B, n_agents, channels, height, width]`` to features.

    Args:
        n_agents: number of agents.
        centralized: whether each agent reads the images of all agents, as further channels.
        share_params: whether all agents have the same parameters.
        in_features: number of channels of an agent. None: that of the first input.
        device: device of the parameters.
        num_cells: numbers of channels of the convolutions. Default: three with 32.
        kernel_sizes: their kernel sizes; see :class:`ConvNet`.
        strides: their strides.
        paddings: their paddings.
        activation_class: what makes an activation.
        use_td_params: True; the parameters are in ``net.params``.
        kwargs: further keywords of :class:`ConvNet`.

    Raises:
        TypeError: If ``centralized`` or ``share_params`` is missing.
        ValueError: If an input does not fit when the module is called.

    Example:
        >>> net = MultiAgentConvNet(4, centralized=False, share_params=True, num_cells=[8, 8])
        >>> net(torch.ones(5, 4, 3, 20, 20)).shape
        torch.Size([5, 4, 32])
    """

    def __init__(
        self,
        n_agents: int,
        centralized: bool | None = None,
        share_params: bool | None = None,
        *,
        in_features: int | None = None,
        device: Any = None,
        num_cells: Sequence[int] | int | None = None,
        kernel_sizes: Sizes = 5,
        strides: Sizes = 2,
        paddings: Sizes = 0,
        activation_class: Callable[..., nn.Module] = nn.ELU,
        use_td_params: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            n_agents=n_agents,
            centralized=centralized,
            share_params=share_params,
            agent_dim=-4,
            use_td_params=use_td_params,
            in_features=in_features,
            device=device,
            num_cells=num_cells,
            kernel_sizes=kernel_sizes,
            strides=strides,
            paddings=paddings,
            activation_class=activation_class,
            **kwargs,
        )

    def _build_single_net(self, **options: Any) -> nn.Module:
        return ConvNet(**options)


class Mixer(nn.Module):
    """Base class of mixers, which make one value of those of the agents' chosen actions.

    Subclasses write ``mix(value)``, or ``mix(value, state)`` if they read the state.

    Args:
        n_agents: number of agents.
        needs_state: whether the mixer reads the state.
        state_shape: shape of a state, without batch dimensions.
        device: device of the parameters.

    Raises:
        ValueError: If the values or the state do not fit when the module is called, or the state is missing.

    Example:
        >>> class Greatest(Mixer):
        ...     def mix(self, chosen_action_value, state=None):
        ...         return chosen_action_value.amax(-2)
        >>> Greatest(n_agents=2, needs_state=False)(torch.tensor([[1.0], [3.0]]))
        tensor([3.])
    """

    def __init__(
        self, n_agents: int, needs_state: bool, state_shape: Iterable[int] | None = None, device: Any = None
    ) -> None:
        super().__init__()
        self.n_agents, self.needs_state, self.device = n_agents, needs_state, device
        self.state_shape = torch.Size(state_shape or ())

    def forward(self, *inputs: Tensor) -> Tensor:
        """Mix values ``[*B, n_agents, 1]`` to ``[*B, 1]``, with the state ``[*B, *state_shape]`` if it is needed."""
        name = type(self).__name__
        if len(inputs) != 1 + self.needs_state:
            wanted = "the values of the agents and the state" if self.needs_state else "the values of the agents alone"
            keys = ", 'state'" if self.needs_state else ""
            raise ValueError(
                f"{name} reads {wanted}, and got {len(inputs)} inputs. Fix: TensorDictModule({name.lower()}, "
                f"in_keys=[('agents', 'chosen_action_value'){keys}], out_keys=['chosen_action_value'])."
            )
        value = inputs[0]
        if value.shape[-2:] != (self.n_agents, 1):
            raise ValueError(
                f"{name} expects the values of {self.n_agents} agents, [*B, {self.n_agents}, 1], and got shape "
                f"{list(value.shape)}. Fix: chosen_action_value.unsqueeze(-1) if the last dimension is missing, or "
                "n_agents=..."
            )
        if self.needs_state and inputs[1].shape != (*value.shape[:-2], *self.state_shape):
            raise ValueError(
                f"{name} expects a state of shape {[*value.shape[:-2], *self.state_shape]} beside values of shape "
                f"{list(value.shape)}, and got {list(inputs[1].shape)}. Fix: state_shape=env.observation_spec['state']"
                ".shape, without batch dimensions."
            )
        return self.mix(*inputs)

    def mix(self, chosen_action_value: Tensor, *state: Tensor) -> Tensor:
        """Mix values that fit."""
        raise NotImplementedError


class VDNMixer(Mixer):
    """Adds up the values of the agents.

    Sunehag et al., Value-Decomposition Networks for Cooperative Multi-Agent Learning, 2017 (arXiv:1706.05296),
    equation 2.

    Args:
        n_agents: number of agents.
        device: not needed; the mixer has no parameters.

    Example:
        >>> VDNMixer(2)(torch.tensor([[1.0], [3.0]]))
        tensor([4.])
    """

    def __init__(self, n_agents: int, device: Any = None) -> None:
        super().__init__(n_agents, needs_state=False, device=device)

    def mix(self, chosen_action_value: Tensor) -> Tensor:  # type: ignore[override]  # without a state
        """Add up ``[*B, n_agents, 1]`` to ``[*B, 1]``."""
        return chosen_action_value.sum(-2)


class QMixer(Mixer):
    r"""Mixes the values of the agents with a network whose weights a state gives, and are not negative.

    .. math::
        Q_{tot} = |W_2(s)|^T \; elu(|W_1(s)|^T q + b_1(s)) + V(s)

    So the joint value is greatest where the value of each agent is. Rashid et al., QMIX: Monotonic Value Function
    Factorisation for Deep Multi-Agent Reinforcement Learning, 2018 (arXiv:1803.11485), section 4.

    Args:
        state_shape: shape of a state, without batch dimensions.
        mixing_embed_dim: number of cells of the hidden layer.
        n_agents: number of agents.
        device: device of the parameters.

    Example:
        >>> mixer = QMixer(state_shape=(6, 2), mixing_embed_dim=8, n_agents=4)
        >>> mixer(torch.ones(5, 4, 1), torch.ones(5, 6, 2)).shape
        torch.Size([5, 1])
    """

    def __init__(self, state_shape: Iterable[int], mixing_embed_dim: int, n_agents: int, device: Any = None) -> None:
        super().__init__(n_agents, needs_state=True, state_shape=state_shape, device=device)
        self.embed_dim = mixing_embed_dim
        size = math.prod(self.state_shape)
        self.hyper_w_1 = nn.Linear(size, mixing_embed_dim * n_agents, device=device)
        self.hyper_w_final = nn.Linear(size, mixing_embed_dim, device=device)
        self.hyper_b_1 = nn.Linear(size, mixing_embed_dim, device=device)
        hidden = nn.Linear(size, mixing_embed_dim, device=device)
        self.V = nn.Sequential(hidden, nn.ReLU(), nn.Linear(mixing_embed_dim, 1, device=device))

    def mix(self, chosen_action_value: Tensor, state: Tensor) -> Tensor:  # type: ignore[override]  # with a state
        """Mix ``[*B, n_agents, 1]`` to ``[*B, 1]``."""
        batch = chosen_action_value.shape[:-2]
        flat = state.reshape(*batch, -1)
        first = self.hyper_w_1(flat).abs().reshape(*batch, self.n_agents, self.embed_dim)
        hidden = nn.functional.elu((chosen_action_value * first).sum(-2) + self.hyper_b_1(flat))
        return (hidden * self.hyper_w_final(flat).abs()).sum(-1, keepdim=True) + self.V(flat)
