"""``DreamerEnv``, an environment that imagines in the latent space of a world model, and its decoder of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import entry
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.base import EnvBase
from rlnb.envs.model_based.common import ModelBasedEnvBase
from rlnb.envs.transforms.transform import Transform

LATENT = ("state", "belief")


class DreamerEnv(ModelBasedEnvBase):
    """Environment that imagines in a latent space of a stochastic "state" and a deterministic "belief".

    Hafner et al., Dream to Control, 2020 (arXiv:1912.01603): a policy learns from imagined rollouts of a fixed length,
    which start from states that the world model has inferred from real data. So the env is never done: end signals in
    its input do not matter, and :meth:`maybe_reset` resets nothing.

    A reset starts from the "state" and "belief" of its input, of any batch size. Where they are missing, or a "_reset"
    mask is given, it draws them from ``state_spec``.

    Args:
        world_model: module over TensorDicts that reads "state", "belief" and the action, and writes the next "state"
            and "belief" and the "reward".
        prior_shape: shape of the state.
        belief_shape: shape of the belief.
        obs_decoder: module over TensorDicts that reads "state" and "belief" and writes what is seen there, such as
            "reco_pixels"; for :meth:`decode_obs` and :class:`DreamerDecoder`.
        device: device of the world model and of the returned tensors.
        batch_size: the batch size of the env, as a shape. Default: ``torch.Size([])``.

    Raises:
        TypeError: If ``world_model`` or ``obs_decoder`` is not a torch module.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> from rlnb.modules import MLP, RSSMPrior, WorldModelWrapper
        >>> from tensordict.nn import TensorDictModule
        >>> real = GymEnv("Pendulum-v1")
        >>> prior = RSSMPrior(real.action_spec, hidden_dim=16, rnn_hidden_dim=16, state_dim=4)
        >>> reward = MLP(16 + 4, 1, num_cells=[16])
        >>> world_model = WorldModelWrapper(
        ...     TensorDictModule(prior, ["state", "belief", "action"], ["_", "_", "state", "belief"]),
        ...     TensorDictModule(reward, ["state", "belief"], ["reward"]),
        ... )
        >>> env = DreamerEnv(world_model, prior_shape=(4,), belief_shape=(16,))
        >>> env.set_specs_from_env(real)
        >>> start = TensorDict({"state": torch.zeros(8, 4), "belief": torch.zeros(8, 16)}, [8])
        >>> env.rollout(15, tensordict=start)["next", "reward"].shape
        torch.Size([8, 15, 1])
    """

    def __init__(
        self,
        world_model: torch.nn.Module,
        prior_shape: Sequence[int],
        belief_shape: Sequence[int],
        obs_decoder: torch.nn.Module | None = None,
        device: torch.device | str | int | None = "cpu",
        batch_size: Sequence[int] | None = None,
    ) -> None:
        if obs_decoder is not None and not isinstance(obs_decoder, torch.nn.Module):
            raise TypeError(
                f"obs_decoder must be a module over TensorDicts, got a {type(obs_decoder).__name__}. Fix: "
                "TensorDictModule(ObsDecoder(), in_keys=['state', 'belief'], out_keys=['reco_pixels'])."
            )
        super().__init__(world_model, device=device, batch_size=batch_size, allow_done_after_reset=True)
        self.obs_decoder = obs_decoder if obs_decoder is None or self.device is None else obs_decoder.to(self.device)
        self.prior_shape, self.belief_shape = torch.Size(prior_shape), torch.Size(belief_shape)
        self.observation_spec = self._latent_specs(Composite(shape=self.batch_size))
        self.state_spec = self.observation_spec.clone()

    def _latent_specs(self, known: Composite) -> Composite:
        """Return the specs of state and belief: those of a real env where it has them."""
        latent = Composite(shape=self.batch_size, device=self.device)
        for name, shape in zip(LATENT, (self.prior_shape, self.belief_shape), strict=True):
            spec = known.get(name, None)
            if spec is None:
                spec = Unbounded(shape=(*self.batch_size, *shape), device=self.device)
            elif spec.shape[self.ndim :] != shape:
                argument = "prior_shape" if name == "state" else "belief_shape"
                raise ValueError(
                    f"The real env has an entry {name!r} of shape {tuple(spec.shape[self.ndim :])}, and {argument} is "
                    f"{tuple(shape)}. Fix: {argument}={tuple(spec.shape[self.ndim :])} if they are the same latent, or "
                    f"rename the entry first: RenameTransform([{name!r}], ['real_{name}'])."
                )
            latent.set(name, spec)
        return latent

    def set_specs_from_env(self, env: EnvBase) -> None:
        """Take over the specs of a real env: those of its actions, rewards and end signals.

        Of its observations, those stay that the world model writes. State and belief have the shapes that the env was
        made with.

        Args:
            env: the real env, such as the one that the policy will act in. It is not changed.

        Raises:
            TypeError: If ``env`` is not an env.
            ValueError: If it has an entry "state" or "belief" of another shape.
        """
        specs = self._specs_of(env)
        observed = specs["full_observation_spec"]
        latent = self._latent_specs(observed)
        out_keys = getattr(self.world_model, "out_keys", ())
        seen = latent.clone()
        for key in out_keys:
            spec = observed.get(key, None)
            if spec is not None and key not in LATENT:
                seen.set(key, spec)
        self._take_over({**specs, "full_observation_spec": seen, "full_state_spec": latent})

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        given: dict[str, Any] = {}
        if tensordict is not None and entry(tensordict, "_reset") is None:
            given = {name: entry(tensordict, name) for name in LATENT if entry(tensordict, name) is not None}
        if len(given) < len(LATENT):
            with self.own_randomness():
                drawn = self.state_spec.rand(batch[: len(batch) - self.ndim])
            given = {**{name: drawn.get(name) for name in LATENT}, **given}
        return TensorDict(given, batch, device=self.device)

    def any_done(self, tensordict: TensorDictBase) -> bool:
        """Return False, and write no masks: imagination has no end."""
        return False

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return ``tensordict`` itself: nothing is ever reset."""
        self._assert_batch_size(tensordict, "maybe_reset")
        return tensordict

    def decode_obs(self, tensordict: TensorDictBase, compute_latents: bool = False) -> TensorDictBase:
        """Write what is seen in latent states, such as "reco_pixels", into a TensorDict, and return it.

        Args:
            tensordict: with "state" and "belief", of any batch size.
            compute_latents: whether to take one step of the world model first, which reads the action and overwrites
                state and belief. Default: False.

        Raises:
            ValueError: If the env has no decoder.
        """
        if self.obs_decoder is None:
            raise ValueError(no_decoder(self))
        if compute_latents:
            tensordict = self._run(tensordict)
        found: TensorDictBase = self.obs_decoder(tensordict)
        return found


def no_decoder(env: EnvBase) -> str:
    """Error text for an env without a decoder."""
    return (
        f"This {type(env).__name__} has no decoder, so there is nothing to see. Fix: DreamerEnv(..., "
        "obs_decoder=TensorDictModule(ObsDecoder(), in_keys=['state', 'belief'], out_keys=['reco_pixels']))."
    )


class DreamerDecoder(Transform):
    """Transform that decodes the latent states of a :class:`DreamerEnv`, such as to record an imagined rollout.

    Args:
        in_keys: entries that the decoder of the env writes. Default: all of them.
        out_keys: what they are called here. Default: as the decoder calls them.
        in_keys_inv: not used.
        out_keys_inv: not used.

    Raises:
        TypeError: If it is put into an env that is not a DreamerEnv.
        ValueError: If that env has no decoder.

    Example:
        >>> from rlnb.envs import TransformedEnv
        >>> from rlnb.modules import MLP, WorldModelWrapper
        >>> from tensordict.nn import TensorDictModule
        >>> latent = ["state", "belief"]
        >>> world_model = WorldModelWrapper(
        ...     TensorDictModule(lambda state, belief: (state / 2, belief / 2), latent, latent),
        ...     TensorDictModule(MLP(5, 1, depth=1), latent, ["reward"]),
        ... )
        >>> picture = TensorDictModule(MLP(5, (3, 8, 8), depth=1), latent, ["reco_pixels"])
        >>> env = DreamerEnv(world_model, prior_shape=(2,), belief_shape=(3,), obs_decoder=picture)
        >>> TransformedEnv(env, DreamerDecoder()).rollout(4)["next", "reco_pixels"].shape
        torch.Size([4, 3, 8, 8])
    """

    def _names(self, decoder: Any) -> dict[NestedKey, NestedKey]:
        """Return the entries to write, by the decoder's names."""
        if self.in_keys:
            return dict(zip(self.in_keys, self.out_keys, strict=True))
        return {key: key for key in decoder.out_keys}

    def _decoder(self) -> Any:
        """Return the decoder of the env."""
        holder = self._env()
        env = None if holder is None else holder.base_env
        if not isinstance(env, DreamerEnv):
            what = "no env" if env is None else f"a {type(env).__name__}"
            raise TypeError(
                f"DreamerDecoder decodes the latent states of a DreamerEnv, and is in {what}. "
                "Fix: TransformedEnv(DreamerEnv(..., obs_decoder=decoder), DreamerDecoder())."
            )
        if env.obs_decoder is None:
            raise ValueError(no_decoder(env))
        return env.obs_decoder

    def _decoded(self, data: TensorDictBase) -> dict[NestedKey, torch.Tensor]:
        decoder = self._decoder()
        found = decoder(data.select(*decoder.in_keys))
        return {name: found.get(key) for key, name in self._names(decoder).items()}

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, value in self._decoded(next_tensordict).items():
            next_tensordict.set(key, value)
        return next_tensordict

    def _new_keys(self) -> list[NestedKey]:
        return list(self._names(self._decoder()).values())

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add what the decoder writes, found by decoding zeros."""
        self._need_composite(observation_spec)
        with torch.no_grad():
            found = self._decoded(observation_spec.zero())
        for key, value in found.items():
            observation_spec.set(key, Unbounded(shape=value.shape, dtype=value.dtype, device=value.device))
        return observation_spec
