"""Networks of world models: encoder and decoder of images, the recurrent state-space model (RSSM), Dreamer's actor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import NormalParamExtractor, TensorDictModuleBase
from torch import nn

from rlnb._tensordict import shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.stacking import stack_steps
from rlnb.modules.models.mlp import MLP

Tensor = torch.Tensor


class DreamerActor(nn.Module):
    """Network of Dreamer's actor, from a latent state to location and scale of the action's distribution.

    Hafner et al., Dream to Control, 2020 (arXiv:1912.01603), appendix A. Put a :class:`TanhNormal` behind it.

    Args:
        out_features: length of the action.
        depth: number of hidden layers.
        num_cells: size of each hidden layer.
        activation_class: what makes an activation.
        std_bias: scale where the network outputs 0.
        std_min_val: smallest scale.
        device: device of the parameters.

    Example:
        >>> actor = DreamerActor(2)
        >>> loc, scale = actor(torch.zeros(10, 30), torch.zeros(10, 200))
        >>> loc.shape, scale.shape
        (torch.Size([10, 2]), torch.Size([10, 2]))
    """

    def __init__(
        self,
        out_features: int,
        depth: int = 4,
        num_cells: int | Sequence[int] = 200,
        activation_class: Callable[..., nn.Module] = nn.ELU,
        std_bias: float = 5.0,
        std_min_val: float = 1e-4,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.backbone = MLP(
            out_features=2 * out_features,
            depth=depth,
            num_cells=num_cells,
            activation_class=activation_class,
            device=device,
        )
        self.backbone.append(_extractor(f"biased_softplus_{std_bias}_{std_min_val}", std_min_val))

    def forward(self, state: Tensor, belief: Tensor) -> tuple[Tensor, Tensor]:
        """Compute location and scale ``[*B, out_features]`` of states ``[*B, S]`` and beliefs ``[*B, H]``."""
        loc, scale = self.backbone(state, belief)
        return loc, scale


class ObsEncoder(nn.Module):
    """Convolutional encoder of images, whose layers halve the size and double the channels.

    Ha and Schmidhuber, World Models, 2018 (arXiv:1803.10122), appendix A.1: four convolutions of kernel 4 and stride 2.
    A frame of 64 x 64 pixels becomes ``32 * channels`` features.

    Args:
        channels: number of output channels of the first layer.
        num_layers: number of layers.
        in_channels: number of channels of an image. None: that of the first image.
        depth: another name of ``channels``, which it replaces.
        device: device of the parameters.

    Raises:
        ValueError: If ``num_layers`` is not positive. At a call, if the image is too small.

    Example:
        >>> ObsEncoder(channels=8)(torch.zeros(5, 2, 3, 64, 64)).shape
        torch.Size([5, 2, 256])
    """

    def __init__(
        self,
        channels: int = 32,
        num_layers: int = 4,
        in_channels: int | None = None,
        depth: int | None = None,
        device: Any = None,
    ) -> None:
        _positive("ObsEncoder", num_layers)
        super().__init__()
        channels = channels if depth is None else depth
        layers: list[nn.Module] = []
        with _on(device):
            for i in range(num_layers):
                size = channels * 2**i
                before = size // 2 if i else in_channels
                if before is None:
                    layers.append(nn.LazyConv2d(size, kernel_size=4, stride=2))
                else:
                    layers.append(nn.Conv2d(before, size, kernel_size=4, stride=2))
                layers.append(nn.ReLU())
        self.encoder = nn.Sequential(*layers)

    def forward(self, observation: Tensor) -> Tensor:
        """Compute the features ``[*B, features]`` of images ``[*B, channels, height, width]``, floats."""
        *batch, channels, height, width = observation.shape
        size = min(height, width)
        for _ in range(len(self.encoder) // 2):
            size = (size - 4) // 2 + 1
        if size < 1:
            raise ValueError(
                f"ObsEncoder of {len(self.encoder) // 2} layers cannot encode an image of {height} x {width} pixels: "
                "each layer halves its size. Fix: Resize(64, 64) around the env, or num_layers=2."
            )
        found: Tensor = self.encoder(observation.reshape(-1, channels, height, width))
        return found.reshape(*batch, -1)


class ObsDecoder(nn.Module):
    """Decoder of images from a latent state, the counterpart of :class:`ObsEncoder`.

    Ha and Schmidhuber, World Models, 2018 (arXiv:1803.10122), appendix A.1. With the default layers, an image has
    64 x 64 pixels.

    Args:
        channels: number of output channels of the last hidden layer.
        num_layers: number of transposed convolutions, of stride 2.
        kernel_sizes: their kernel sizes, or that of each. Default: ``[5, 5, 6, 6]`` for four layers, otherwise 5.
        latent_dim: length of state and belief together. None: that of the first input.
        out_channels: number of channels of an image.
        depth: another name of ``channels``, which it replaces.
        device: device of the parameters.

    Raises:
        ValueError: If ``num_layers`` is not positive, or there is not one kernel size for each layer.

    Example:
        >>> ObsDecoder(channels=8)(torch.zeros(5, 2, 30), torch.zeros(5, 2, 200)).shape
        torch.Size([5, 2, 3, 64, 64])
    """

    def __init__(
        self,
        channels: int = 32,
        num_layers: int = 4,
        kernel_sizes: int | Sequence[int] | None = None,
        latent_dim: int | None = None,
        out_channels: int = 3,
        depth: int | None = None,
        device: Any = None,
    ) -> None:
        _positive("ObsDecoder", num_layers)
        if kernel_sizes is None:
            kernel_sizes = [5, 5, 6, 6] if num_layers == 4 else 5
        kernels = [kernel_sizes] * num_layers if isinstance(kernel_sizes, int) else list(kernel_sizes)
        if len(kernels) != num_layers:
            raise ValueError(
                f"ObsDecoder needs one kernel size for each of its {num_layers} layers, got {kernels}. "
                "Fix: kernel_sizes=5, or a list of that length."
            )
        super().__init__()
        channels = channels if depth is None else depth
        features = 32 * channels
        sizes = [features, *(channels * 2**i for i in reversed(range(num_layers - 1))), out_channels]
        layers: list[nn.Module] = []
        with _on(device):
            first = nn.LazyLinear(features) if latent_dim is None else nn.Linear(latent_dim, features)
            for i, kernel in enumerate(kernels):
                layers += [nn.ConvTranspose2d(sizes[i], sizes[i + 1], kernel, stride=2), nn.ReLU()]
        self.state_to_latent = nn.Sequential(first, nn.ReLU())
        self.decoder = nn.Sequential(*layers[:-1])

    def forward(self, state: Tensor, rnn_hidden: Tensor) -> Tensor:
        """Compute images ``[*B, channels, height, width]`` of states ``[*B, S]`` and beliefs ``[*B, H]``."""
        latent: Tensor = self.state_to_latent(torch.cat([state, rnn_hidden], -1))
        *batch, features = latent.shape
        found: Tensor = self.decoder(latent.reshape(-1, features, 1, 1))
        return found.reshape(*batch, *found.shape[1:])


class RSSMPrior(nn.Module):
    """Prior of the recurrent state-space model: what comes next, without an observation.

    Hafner et al., Learning Latent Dynamics for Planning from Pixels, 2019 (arXiv:1811.04551), section 3. The belief is
    the deterministic part of the latent state, which a GRU computes. The state is the stochastic part, drawn from a
    normal distribution that depends on the belief.

    Args:
        action_spec: spec of the action, a vector.
        hidden_dim: size of the hidden layers, and of the GRU's input.
        rnn_hidden_dim: length of the belief.
        state_dim: length of the state.
        scale_lb: smallest standard deviation.
        action_dim: length of the action. Default: the last dimension of ``action_spec``.
        device: device of the parameters.

    Raises:
        TypeError: If ``action_spec`` is not a spec.
        ValueError: If its action is not a vector.

    Example:
        >>> from rlnb.data import Bounded
        >>> prior = RSSMPrior(Bounded(-1, 1, (2,)))
        >>> mean, std, state, belief = prior(torch.zeros(10, 30), torch.zeros(10, 200), torch.zeros(10, 2))
        >>> mean.shape, std.shape, state.shape, belief.shape
        (torch.Size([10, 30]), torch.Size([10, 30]), torch.Size([10, 30]), torch.Size([10, 200]))
    """

    def __init__(
        self,
        action_spec: TensorSpec,
        hidden_dim: int = 200,
        rnn_hidden_dim: int = 200,
        state_dim: int = 30,
        scale_lb: float = 0.1,
        action_dim: int | None = None,
        device: Any = None,
    ) -> None:
        if not isinstance(action_spec, TensorSpec):
            raise TypeError(
                f"RSSMPrior needs the spec of the action, got a {type(action_spec).__name__}. "
                "Fix: RSSMPrior(env.action_spec)."
            )
        if action_dim is None and not action_spec.shape:
            raise ValueError(
                f"RSSMPrior needs an action that is a vector, and the spec has shape {tuple(action_spec.shape)}. "
                "Fix: encode a discrete action as one-hot: GymEnv(..., categorical_action_encoding=False)."
            )
        super().__init__()
        action_dim = action_spec.shape[-1] if action_dim is None else action_dim
        self.state_dim, self.rnn_hidden_dim, self.action_shape = state_dim, rnn_hidden_dim, action_spec.shape
        with _on(device):
            self.rnn = nn.GRUCell(hidden_dim, rnn_hidden_dim)
            self.action_state_projector = nn.Sequential(nn.Linear(state_dim + action_dim, hidden_dim), nn.ELU())
            self.rnn_to_prior_projector = _normal(rnn_hidden_dim, hidden_dim, state_dim, scale_lb)

    def forward(
        self, state: Tensor, belief: Tensor, action: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the next state and belief, with the parameters of the state's distribution.

        Args:
            state: the state, ``[*B, S]``.
            belief: the belief, ``[*B, H]``.
            action: the action, ``[*B, A]``.
            noise: standard normal numbers, ``[*B, S]``. Default: they are drawn.

        Returns:
            Mean and standard deviation of the next state ``[*B, S]``, the state itself ``[*B, S]``, and the next
            belief ``[*B, H]``.
        """
        moved = self.action_state_projector(torch.cat([state, action], -1))
        # A GRUCell takes one batch dimension at most.
        many = belief.ndim > 2
        lead = belief.shape[:-1]
        belief = self.rnn(moved.flatten(0, -2), belief.flatten(0, -2)) if many else self.rnn(moved, belief)
        belief = belief.unflatten(0, lead) if many else belief
        mean, std = self.rnn_to_prior_projector(belief)
        return mean, std, _draw(mean, std, noise), belief


class RSSMPosterior(nn.Module):
    """Posterior of the recurrent state-space model: the state, given the belief and what was observed.

    Hafner et al., Learning Latent Dynamics for Planning from Pixels, 2019 (arXiv:1811.04551), section 3.

    Args:
        hidden_dim: size of the hidden layer.
        state_dim: length of the state.
        scale_lb: smallest standard deviation.
        rnn_hidden_dim: length of the belief. None, or without ``obs_embed_dim``: that of the first input.
        obs_embed_dim: length of an encoded observation. None: as for ``rnn_hidden_dim``.
        device: device of the parameters.

    Example:
        >>> posterior = RSSMPosterior()
        >>> mean, std, state = posterior(torch.zeros(10, 200), torch.zeros(10, 1024))
        >>> mean.shape, std.shape, state.shape
        (torch.Size([10, 30]), torch.Size([10, 30]), torch.Size([10, 30]))
    """

    def __init__(
        self,
        hidden_dim: int = 200,
        state_dim: int = 30,
        scale_lb: float = 0.1,
        rnn_hidden_dim: int | None = None,
        obs_embed_dim: int | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        known = rnn_hidden_dim is not None and obs_embed_dim is not None
        with _on(device):
            size = rnn_hidden_dim + obs_embed_dim if known else None  # type: ignore[operator]  # neither is None
            self.obs_rnn_to_post_projector = _normal(size, hidden_dim, state_dim, scale_lb)

    def forward(self, belief: Tensor, obs_embedding: Tensor, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        """Draw a state, with the parameters of its distribution.

        Args:
            belief: the belief, ``[*B, H]``.
            obs_embedding: the encoded observation, ``[*B, features]``.
            noise: standard normal numbers, ``[*B, S]``. Default: they are drawn.

        Returns:
            Mean, standard deviation and the state, each ``[*B, S]``.
        """
        mean, std = self.obs_rnn_to_post_projector(torch.cat([belief, obs_embedding], -1))
        return mean, std, _draw(mean, std, noise)


class RSSMRollout(TensorDictModuleBase):
    """Runs the recurrent state-space model along the observations of a trajectory.

    At each step the prior moves the latent state on, and the posterior corrects it by what was observed. What they
    write under "next" is the input of the following step: state and belief at the root of later steps are replaced,
    those of the first step are where the trajectory begins. End signals do not matter: sample slices that do not
    cross the end of an episode.

    Args:
        rssm_prior: module over TensorDicts, such as a :class:`RSSMPrior` that reads "state", "belief" and "action" and
            writes ``("next", "belief")``.
        rssm_posterior: module over TensorDicts, such as a :class:`RSSMPosterior` that reads ``("next", "belief")`` and
            an encoded observation, and writes ``("next", "state")``.
        use_scan: no effect: the steps are computed in a loop.
        compile_step: whether to compile a step with ``torch.compile``.
        compile_backend: backend of ``torch.compile``.
        compile_mode: mode of ``torch.compile``.

    Raises:
        ValueError: If no input of the prior is written under "next", so that nothing would move on.

    Example:
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> prior = TensorDictModule(
        ...     RSSMPrior(Bounded(-1, 1, (2,)), rnn_hidden_dim=5, state_dim=3),
        ...     ["state", "belief", "action"],
        ...     [("next", "prior_mean"), ("next", "prior_std"), "_", ("next", "belief")],
        ... )
        >>> posterior = TensorDictModule(
        ...     RSSMPosterior(state_dim=3),
        ...     [("next", "belief"), ("next", "encoded")],
        ...     [("next", "posterior_mean"), ("next", "posterior_std"), ("next", "state")],
        ... )
        >>> steps = {"state": torch.zeros(4, 10, 3), "belief": torch.zeros(4, 10, 5), "action": torch.zeros(4, 10, 2)}
        >>> steps = TensorDict({**steps, "next": {"encoded": torch.ones(4, 10, 7)}}, [4, 10])
        >>> data = RSSMRollout(prior, posterior)(steps)
        >>> data["next", "state"].shape, torch.equal(data["state"][:, 1:], data["next", "state"][:, :-1])
        (torch.Size([4, 10, 3]), True)
    """

    def __init__(
        self,
        rssm_prior: Any,
        rssm_posterior: Any,
        use_scan: bool = False,
        compile_step: bool = False,
        compile_backend: str = "inductor",
        compile_mode: str | None = None,
    ) -> None:
        super().__init__()
        parts = (rssm_prior, rssm_posterior)
        out_keys: list[Any] = [as_key(as_tuple(key)) for part in parts for key in part.out_keys if key != "_"]
        first: list[Any] = [as_key(as_tuple(key)) for key in rssm_prior.in_keys]
        carried = [key for key in first if as_key(("next", *as_tuple(key))) in out_keys]
        if not carried:
            raise ValueError(
                f"RSSMRollout carries what is written under 'next' to the following step: the prior reads {first}, and "
                f"the modules write {out_keys}. Fix: TensorDictModule(RSSMPrior(...), ['state', 'belief', 'action'], "
                "['_', '_', '_', ('next', 'belief')]), and ('next', 'state') from the posterior."
            )
        later = [as_key(as_tuple(key)) for key in rssm_posterior.in_keys]
        self.in_keys = first + [key for key in later if key not in first and key not in out_keys]
        self.out_keys = list(dict.fromkeys(out_keys))
        self.rssm_prior, self.rssm_posterior = rssm_prior, rssm_posterior
        self._carried: list[tuple[NestedKey, NestedKey]] = [(as_key(("next", *as_tuple(key))), key) for key in carried]
        self._options: Any = {"backend": compile_backend, "mode": compile_mode} if compile_step else None
        self._compiled: Any = None

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the latent states of trajectories.

        Args:
            tensordict: of batch size ``[*B, T]``, with the state and belief of the first step. It is not changed.

        Returns:
            A new TensorDict of the same batch size, with the outputs of both modules.

        Raises:
            KeyError: If an input is missing.
        """
        missing = [key for key in self.in_keys if tensordict.get(key, None) is None]
        if missing:
            raise KeyError(
                f"RSSMRollout reads {missing}, and the data it was given has "
                f"{sorted(tensordict.keys(True, True), key=str)}. Fix: data['belief'] = torch.zeros(*data.shape, "
                "rnn_hidden_dim), and the same for the state, before the first step."
            )
        step = self._step
        if self._options is not None:
            if self._compiled is None:
                self.__dict__["_compiled"] = torch.compile(self._step, **self._options)
            step = self._compiled
        done: list[TensorDictBase] = []
        for data in tensordict.unbind(-1):
            data = shallow_copy(data)
            for source, key in self._carried if done else ():
                data.set(key, done[-1].get(source))
            done.append(step(data))
        names: list[Any] = list(tensordict.names)
        return stack_steps(done, tensordict.ndim - 1, names if any(names) else None)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        found: TensorDictBase = self.rssm_posterior(self.rssm_prior(tensordict))
        return found


def _normal(size_in: int | None, hidden: int, size: int, bound: float) -> nn.Sequential:
    """Make a network of one hidden layer that ends with mean and standard deviation."""
    first = nn.LazyLinear(hidden) if size_in is None else nn.Linear(size_in, hidden)
    return nn.Sequential(first, nn.ELU(), nn.Linear(hidden, 2 * size), _extractor("softplus", bound))


def _extractor(mapping: str, bound: Any) -> NormalParamExtractor:
    return NormalParamExtractor(scale_mapping=mapping, scale_lb=bound)


def _draw(mean: Tensor, std: Tensor, noise: Tensor | None) -> Tensor:
    """Draw from a normal distribution, so that gradients reach its parameters."""
    return mean + std * (torch.randn_like(std) if noise is None else noise)


def _on(device: Any) -> AbstractContextManager[Any]:
    return nullcontext() if device is None else torch.device(device)


def _positive(name: str, num_layers: int) -> None:
    if num_layers < 1:
        raise ValueError(f"{name} needs one layer at least, got num_layers={num_layers}. Fix: num_layers=4.")
