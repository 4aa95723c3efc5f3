"""``TensorDictPrimer`` and ``gSDENoise``: entries that a policy needs, such as a hidden state, added at each reset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms.transform import Transform, key_list

Default = float | Callable[[], Any]


class TensorDictPrimer(Transform):
    """Adds entries at each reset, in the rows that are reset, and carries them from step to step.

    Existing entries are kept: those of the env, and those that a policy writes under "next". Called as a module, it
    adds the entries that are missing from the data.

    Args:
        primers: the specs of the entries, by key or as a Composite.
        random: whether to draw the values from the specs, instead of using ``default_value``.
        default_value: the value of all entries: a number, or a function without arguments that returns a tensor; or a
            dictionary of these by key.
        reset_key: the mask that selects the rows to reset. Default: the nearest one at or above each entry.
        expand_specs: whether to prepend the batch size of the env to the shapes of the specs. Default: for those that
            do not already start with it. ``False``: they must start with it.
        single_default_value: whether ``default_value`` is a function that returns a TensorDict of all entries.
        call_before_env_reset: whether to add the entries to the input of the env's reset as well, for an env that reads
            them.
        **kwargs: more specs by name.

    Raises:
        ValueError: If there are no entries, if ``random`` and ``default_value`` are combined, or in an env whose batch
            size a spec does not fit.
        TypeError: If something is not a spec, or not a default value.
        KeyError: If ``default_value`` names an entry that has no spec.

    Example:
        >>> from rlnb.data import Unbounded
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), TensorDictPrimer(hidden=Unbounded(shape=(3,))))
        >>> env.rollout(2)["hidden"].shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        primers: Mapping[Any, TensorSpec] | Composite | None = None,
        random: bool | None = None,
        default_value: Default | Mapping[Any, Default] | None = 0.0,
        reset_key: NestedKey | None = None,
        expand_specs: bool | None = None,
        single_default_value: bool = False,
        call_before_env_reset: bool = False,
        **kwargs: TensorSpec,
    ) -> None:
        super().__init__()
        default_value = 0.0 if default_value is None else default_value
        self.call_before_env_reset = self._fills_resets = bool(call_before_env_reset)
        self.primers = primers.clone() if isinstance(primers, Composite) else Composite(primers or {})
        self.primers.update(Composite(kwargs).expand(*self.primers.shape) if self.primers.ndim else kwargs)
        keys = self.primers.keys(True, True)
        if not keys:
            raise ValueError("TensorDictPrimer adds nothing. Fix: TensorDictPrimer(hidden=Unbounded(shape=(64,))).")
        if random and default_value != 0.0:
            raise ValueError(
                f"random=True draws the values, and default_value={default_value!r} sets them. Fix: leave one out."
            )
        if single_default_value and not callable(default_value):
            raise TypeError(
                "single_default_value=True needs a function that returns a TensorDict of all entries, and "
                f"default_value is a {type(default_value).__name__}."
            )
        self.random, self.default_value, self.single_default_value = bool(random), default_value, single_default_value
        self.reset_key = None if reset_key is None else key_list([reset_key], "reset_key")[0]
        self.expand_specs = expand_specs
        self._primed: dict[NestedKey, torch.Tensor] | None = None
        self._defaults = _defaults(keys, {} if single_default_value else default_value)
        self._fitted, self._batch_dims = {key: self.primers[key] for key in keys}, self.primers.ndim

    @property
    def _changes_resets(self) -> bool:
        return self.call_before_env_reset

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self.call_before_env_reset:
            return super()._reset_env_preprocess(tensordict)
        self.__dict__["_primed"] = None
        primed = self.forward(shallow_copy(tensordict))
        self.__dict__["_primed"] = {key: primed.get(key) for key in self._fitted}
        return primed

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        missing = [key for key in self._fitted if tensordict_reset.get(key, None) is None]
        for key, value in self._values(missing, tensordict_reset).items():
            self._carried.restart(tensordict, tensordict_reset, key, value, self.reset_key)
        self.__dict__["_primed"] = None
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self._fitted:
            if next_tensordict.get(key, None) is None:
                value = self._carried.get(tensordict, key)
                value = self._values([key], next_tensordict)[key] if value is None else value.clone()
                self._carried.put(next_tensordict, key, value)
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add the entries that are missing from the data; see :meth:`Transform.forward`."""
        missing = [key for key in self._fitted if tensordict.get(key, None) is None]
        for key, value in self._values(missing, tensordict).items():
            tensordict.set(key, value)
        return tensordict

    def _values(self, keys: list[NestedKey], data: TensorDictBase) -> dict[NestedKey, torch.Tensor]:
        """Make the values of some entries, of the batch size of ``data``."""
        if self._primed is not None:
            return {key: self._primed[key] for key in keys}
        if self.single_default_value and keys:
            made = self.default_value()  # type: ignore[operator]  # __init__ takes nothing else here
            return {key: self._expanded(key, made.get(key), data) for key in keys}
        env = self._env()
        with env.own_randomness() if env is not None and self.random else contextlib.nullcontext():
            return {key: self._value(key, data) for key in keys}

    def _value(self, key: NestedKey, data: TensorDictBase) -> torch.Tensor:
        spec = self._fitted[key]
        if self.random:
            # rand() prepends the dimensions of the data that the spec lacks.
            return spec.rand(data.batch_size[: data.ndim - self._leading(spec, data)])
        default = self._defaults[key]
        return self._expanded(key, default() if callable(default) else default, data)

    def _leading(self, spec: TensorSpec, data: TensorDictBase) -> int:
        """Return how many dimensions of a spec are batch dimensions of the data."""
        if self.expand_specs or self._env() is not None or self.primers.ndim:
            return self._batch_dims
        return data.ndim if spec.shape[: data.ndim] == data.batch_size else self._batch_dims

    def _expanded(self, key: NestedKey, value: Any, data: TensorDictBase) -> torch.Tensor:
        spec = self._fitted[key]
        shape = (*data.batch_size, *spec.shape[self._leading(spec, data) :])
        value = torch.as_tensor(value, dtype=spec.dtype, device=data.device or spec.device)
        try:
            return value.expand(shape).clone()
        except RuntimeError:
            raise ValueError(
                f"The default value of {key!r} has shape {tuple(value.shape)}, and the entry has {tuple(shape)}."
            ) from None

    def _learn_output(self, output_spec: Composite) -> None:
        self._batch_dims = output_spec.ndim
        for key in self._fitted:
            spec = self._fit(key, output_spec.shape)
            self._fitted[key] = spec if output_spec.device is None else spec.to(output_spec.device)

    def _fit(self, key: NestedKey, batch_size: torch.Size) -> TensorSpec:
        spec = self.primers[key]
        if self.primers.ndim and self.primers.shape == batch_size:
            return spec
        if self.expand_specs is False and spec.shape[: len(batch_size)] != batch_size:
            raise ValueError(
                f"The primer {key!r} has shape {tuple(spec.shape)}, and the env's batch size is {tuple(batch_size)}: "
                "the shape of a spec must start with the batch size. Fix: leave expand_specs=False out."
            )
        if self.expand_specs is False:
            return spec
        return spec.expand(*batch_size, *spec.shape[self.primers.ndim :])

    def _new_keys(self) -> list[NestedKey]:
        return []  # transform_observation_spec compares primers with the env's own entries

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the entries; raise ``ValueError`` if the env has one already with another shape or dtype."""
        self._need_composite(observation_spec)
        for key, spec in self._fitted.items():
            there = observation_spec.get(key)
            if there is None:
                observation_spec.set(key, spec.clone())
            elif (there.shape, there.dtype) != (spec.shape, spec.dtype):
                raise ValueError(
                    f"The primer {key!r} has shape {tuple(spec.shape)} and dtype {spec.dtype}, and the env's own entry "
                    f"of this name has {tuple(there.shape)} and {there.dtype}. Fix: give the primer another key, or "
                    "the env's spec."
                )
        return observation_spec

    def __repr__(self) -> str:
        primers = repr(self.primers)
        default = "a function" if callable(self.default_value) else self.default_value
        return f"TensorDictPrimer(primers={primers}, default_value={default}, random={self.random})"


class gSDENoise(TensorDictPrimer):
    """Adds "_eps_gSDE", the noise matrix of generalized state-dependent exploration, redrawn at each reset.

    A policy with state-dependent exploration (Raffin et al., 2021) multiplies it by its features, so that its noise is
    a function of the state that stays the same for an episode.

    Args:
        state_dim: the number of features.
        action_dim: the size of an action. Without both, the entry is a placeholder, a single 0, for a policy that makes
            its own matrix in the first step.
        shape: the batch size of the env, if the shape of the entry includes it. Default: it is read from the env.
        **kwargs: as for :class:`TensorDictPrimer`.

    Raises:
        ValueError: If only one of ``state_dim`` and ``action_dim`` is given.

    Example:
        >>> from rlnb.envs import PendulumEnv, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), gSDENoise(state_dim=3, action_dim=1))
        >>> noise = env.rollout(3)["_eps_gSDE"]
        >>> noise.shape, bool((noise == noise[0]).all())
        (torch.Size([3, 1, 3]), True)
    """

    def __init__(
        self,
        state_dim: int | None = None,
        action_dim: int | None = None,
        shape: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        if (state_dim is None) != (action_dim is None):
            raise ValueError(
                f"gSDENoise needs both state_dim and action_dim or neither, got state_dim={state_dim} and "
                f"action_dim={action_dim}."
            )
        batch = tuple(shape or ())
        lazy = state_dim is None or action_dim is None
        features = (1,) if lazy else (action_dim, state_dim)
        primers = Composite({"_eps_gSDE": Unbounded(shape=(*batch, *features))}, shape=batch)
        super().__init__(primers, random=None if lazy else True, **kwargs)
        self.state_dim, self.action_dim = state_dim, action_dim

    def __repr__(self) -> str:
        return f"gSDENoise(state_dim={self.state_dim}, action_dim={self.action_dim})"


def _defaults(keys: list[NestedKey], given: Any) -> dict[NestedKey, Any]:
    """Return the default value of each entry: a number, a tensor or a function."""
    if not isinstance(given, Mapping):
        return {key: _default(key, given) for key in keys}
    named = {as_key(as_tuple(key)): value for key, value in given.items()}
    unknown = [key for key in named if key not in keys]
    if unknown:
        raise KeyError(f"default_value names {unknown}, but the primers are {keys}.")
    return {key: _default(key, named.get(key, 0.0)) for key in keys}


def _default(key: NestedKey, value: Any) -> Any:
    if not callable(value) and not isinstance(value, (int, float, torch.Tensor)):
        raise TypeError(
            f"The default value of {key!r} must be a number, a tensor or a function, got a {type(value).__name__}."
        )
    return value
