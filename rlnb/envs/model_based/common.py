"""``ModelBasedEnvBase``, the base class of environments whose steps a learned world model computes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import entry, fast_tensordict
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.base import EnvBase

Tensors = Sequence[torch.Tensor] | TensorDictBase


class ModelBasedEnvBase(EnvBase):
    """Base class of imagined environments: a world model computes the steps, from state and action to state and reward.

    The env keeps no state. A step gives the world model a copy of its input and reads from its output the entries that
    the specs name: observations, rewards, and end signals, which are False where the model writes none. So a rollout
    may start from any states, of any number in front of the batch size, and gradients flow through all of its steps,
    into the policy, the world model and the first states.

    A subclass implements ``_reset``, which returns first states, and sets its specs or calls
    :meth:`set_specs_from_env`. The observations that the world model reads belong in ``state_spec``, too.

    A world model that draws random numbers, such as the noise of a :class:`~rlnb.modules.RSSMPrior`, draws them from
    the env's own generator after :meth:`set_seed`, on the CPU. Until then it draws from torch's.

    Args:
        world_model: module over TensorDicts, such as a :class:`~rlnb.modules.WorldModelWrapper`. It is moved to
            ``device`` and ``dtype``.
        params: tensors to use in place of the parameters of the world model, in the order of
            ``world_model.parameters()``, or as ``TensorDict.from_module`` names them. Default: its own.
        buffers: the same for its buffers.
        device: device of the world model and of the returned tensors. ``None`` leaves tensors where the model creates
            them.
        dtype: floating dtype of the world model, of the default reward spec, and of the floating specs that
            :meth:`set_specs_from_env` takes over. Default: that of the model, and of each spec.
        batch_size: the batch size of the env, as a shape. Default: ``torch.Size([])``.
        run_type_checks: as for :class:`~rlnb.envs.EnvBase`.
        allow_done_after_reset: as for :class:`~rlnb.envs.EnvBase`.

    Attributes:
        world_model: the world model.
        world_model_params: the given parameters by name; ``None`` if the model uses its own.
        world_model_buffers: the same for buffers.

    Raises:
        TypeError: If ``world_model`` is not a torch module, or ``dtype`` is not a floating dtype.
        ValueError: If ``params`` or ``buffers`` do not fit those of the world model.

    Example:
        >>> from rlnb.data import Bounded
        >>> from tensordict.nn import TensorDictModule, TensorDictSequential
        >>> class Imagined(ModelBasedEnvBase):
        ...     '''Walks in a space of four numbers.'''
        ...     def __init__(self, world_model):
        ...         super().__init__(world_model)
        ...         self.observation_spec = Composite(hidden=Unbounded((4,)))
        ...         self.state_spec = self.observation_spec.clone()
        ...         self.action_spec = Bounded(-1, 1, (1,))
        ...     def _reset(self, tensordict=None, **kwargs):
        ...         return self.state_spec.rand()
        >>> transition = torch.nn.Bilinear(4, 1, 4)
        >>> env = Imagined(
        ...     TensorDictSequential(
        ...         TensorDictModule(transition, in_keys=["hidden", "action"], out_keys=["hidden"]),
        ...         TensorDictModule(torch.nn.Linear(4, 1), in_keys=["hidden"], out_keys=["reward"]),
        ...     )
        ... )
        >>> rollout = env.rollout(15)
        >>> rollout["next", "hidden"].shape
        torch.Size([15, 4])
        >>> rollout["next", "reward"].sum().backward()
        >>> bool(transition.weight.grad.any())
        True
        >>> states = TensorDict({"hidden": torch.zeros(64, 4)}, [64])
        >>> env.rollout(15, auto_reset=False, tensordict=states).batch_size
        torch.Size([64, 15])
    """

    batch_locked = False

    def __init__(
        self,
        world_model: torch.nn.Module,
        params: Tensors | None = None,
        buffers: Tensors | None = None,
        device: torch.device | str | int | None = "cpu",
        dtype: torch.dtype | None = None,
        batch_size: Sequence[int] | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if not isinstance(world_model, torch.nn.Module):
            raise TypeError(
                f"A {type(self).__name__} needs a world model, a module over TensorDicts, got a "
                f"{type(world_model).__name__}. Fix: {type(self).__name__}(TensorDictModule(net, in_keys=['state', "
                "'action'], out_keys=['state', 'reward']))."
            )
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise TypeError(
                f"dtype of a {type(self).__name__} must be a floating dtype, got {dtype!r}. Fix: dtype=torch.float32, "
                "or batch_size=... by name, if that is what was meant."
            )
        named = _named("params", params, dict(world_model.named_parameters()))
        named_buffers = _named("buffers", buffers, dict(world_model.named_buffers()))
        super().__init__(
            device, batch_size, run_type_checks=run_type_checks, allow_done_after_reset=allow_done_after_reset
        )
        self.dtype = dtype
        self.world_model = world_model.to(**_given(device=self.device, dtype=dtype))
        self.world_model_params, self.world_model_buffers = named, named_buffers
        if dtype is not None:
            self.reward_spec = Unbounded(shape=(*self.batch_size, 1), dtype=dtype, device=self.device)

    @abstractmethod
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Return a new TensorDict with first states."""

    def _set_seed(self, seed: int | None) -> None:
        """Do nothing: the steps draw from the generator that :meth:`set_seed` has seeded."""

    # Specs --------------------------------------------------------------------------------------------------------

    def set_specs_from_env(self, env: EnvBase) -> None:
        """Take over the specs of a real env: those of its actions, observations, rewards, end signals and state.

        Observations that the world model reads become part of the state. The batch size of the real env may differ;
        its specs get that of this env.

        Args:
            env: the real env. It is not changed.

        Raises:
            TypeError: If ``env`` is not an env.
        """
        self._take_over(self._specs_of(env))

    def _specs_of(self, env: EnvBase) -> dict[str, Composite]:
        """Return the five composites of an env with the batch size, device and dtype of this one."""
        if not isinstance(env, EnvBase):
            raise TypeError(
                f"set_specs_from_env takes a real env and got a {type(env).__name__}. "
                "Fix: set_specs_from_env(GymEnv('Pendulum-v1'))."
            )
        found: dict[str, Composite] = {}
        for name in env._specs:
            spec: Composite = getattr(env, f"{name}_unbatched").clone()
            if self.dtype is not None:
                for key, leaf in list(spec.items(True, True)):
                    if leaf.dtype is not None and leaf.dtype.is_floating_point:
                        spec.set(key, leaf.to(self.dtype))
            found[name] = spec.expand(*self.batch_size, *spec.shape)
        observed = found["full_observation_spec"]
        for key in getattr(self.world_model, "in_keys", ()):
            leaf = observed.get(key, None)
            if leaf is not None:
                found["full_state_spec"].set(key, leaf.clone())
        return found

    def _take_over(self, specs: dict[str, Composite]) -> None:
        """Set the five composites; those that are set already stay if one of them fits no env."""
        before = dict(self._specs)
        try:
            for name, spec in specs.items():
                setattr(self, name, spec)
            self.assert_distinct_keys()
        except Exception:
            self._specs.update(before)
            self.empty_cache()
            raise

    # Steps --------------------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        given = self._model_input(tensordict)
        with self.own_randomness():
            found = self._run(given)
        written = self._written(found, tensordict)
        result = {key: written.get(key) for key in (*self.observation_keys, *self.reward_keys)}
        missing = [key for key, value in result.items() if value is None]
        if missing:
            raise KeyError(self._unwritten(missing))
        for group in self.done_keys_groups:
            result.update(self._end_signals(group, written, tensordict))
        return _tensordict(result, tensordict.batch_size, self.device)

    def _model_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return the inputs of the world model in a new TensorDict."""
        in_keys = getattr(self.world_model, "in_keys", None)
        if in_keys is None:
            return tensordict.exclude("next")
        given = {key: entry(tensordict, key) for key in in_keys}
        missing = [key for key, value in given.items() if value is None]
        if missing:
            raise KeyError(
                f"{type(self).__name__} keeps no state: its world model reads {missing} from the TensorDict, which has "
                f"{sorted(map(str, tensordict.keys()))}. Fix: start from env.reset(), or from step_mdp(previous)."
            )
        return _tensordict(given, tensordict.batch_size, tensordict.device)

    def _run(self, given: TensorDictBase) -> TensorDictBase:
        """Call the world model, with the parameters and buffers that were given."""
        tensors = {**(self.world_model_params or {}), **(self.world_model_buffers or {})}
        found: TensorDictBase
        found = torch.func.functional_call(self.world_model, tensors, (given,)) if tensors else self.world_model(given)
        return found

    def _written(self, found: TensorDictBase, before: TensorDictBase) -> dict[NestedKey, Any]:
        """Return the entries that the specs name and the model wrote: not the inputs that it only passed on."""
        names = (*self.observation_keys, *self.reward_keys, *self.done_keys)
        out_keys = getattr(self.world_model, "out_keys", None)
        if out_keys is None:
            values = {key: entry(found, key) for key in names}
            return {key: value for key, value in values.items() if value is not entry(before, key)}
        if self._cache.get("model_writes", (None,))[0] != out_keys:
            outs = [as_tuple(key) for key in out_keys]
            paths = {key: as_tuple(key) for key in names}
            kept = [key for key, path in paths.items() if any(path[: len(out)] == out for out in outs)]
            self._cache["model_writes"] = list(out_keys), kept
        return {key: entry(found, key) for key in self._cache["model_writes"][1]}

    def _unwritten(self, missing: list[NestedKey]) -> str:
        out_keys = [key for key in getattr(self.world_model, "out_keys", ()) if key != "_"]
        key = missing[0]
        fix = f"TensorDictModule(net, in_keys=[...], out_keys=[{key!r}])"
        if key in self.observation_keys:
            fix += f", or leave it out: env.observation_spec = env.observation_spec.exclude({key!r})"
        return (
            f"The world model of {type(self).__name__} does not write {missing}, which the specs of the env name; it "
            f"writes {out_keys}. Likely cause: a module with another out_key, or an observation of the real env that "
            f"the model does not predict. Fix: {fix}."
        )

    def _end_signals(
        self, group: list[NestedKey], written: dict[NestedKey, Any], before: TensorDictBase
    ) -> dict[NestedKey, torch.Tensor]:
        """Return the end signals of one level that the model wrote; all of them, False, if it wrote none."""
        signals = {key: written[key] for key in group if written.get(key) is not None}
        for key, value in signals.items():
            if value.dtype.is_floating_point:
                raise TypeError(
                    f"The world model of {type(self).__name__} writes the end signal {key!r} as {value.dtype}, and "
                    "every number but 0 would mean True. Likely cause: a score or a probability that is not compared "
                    "with a threshold. Fix: end the module with a function such as lambda score: score > 0."
                )
        if signals:
            return signals
        device = self.device or before.device
        for key in group:  # each has its own memory: writing to one in place must not change another
            shape = (*before.batch_size, *self.full_done_spec[key].shape[self.ndim :])
            signals[key] = torch.zeros(shape, dtype=torch.bool, device=device)
        return signals


def _tensordict(entries: dict[Any, Any], batch_size: torch.Size, device: torch.device | None) -> TensorDict:
    """Build a TensorDict of tensors that other TensorDicts of this batch size hold."""
    plain = all(type(key) is str and (device is None or v.device == device) for key, v in entries.items())
    return fast_tensordict(entries, batch_size, device) if plain else TensorDict(entries, batch_size, device=device)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _named(what: str, given: Tensors | None, own: dict[str, torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """Return the given parameters or buffers by name.

    Raises:
        ValueError: If they do not fit the model's own.
    """
    if given is None:
        return None
    if isinstance(given, TensorDictBase):
        flat = given.flatten_keys(".")
        named = {str(key): value for key, value in flat.items() if key in own}
    else:
        named = dict(zip(own, given, strict=False)) if len(given) == len(own) else {}
    shapes = {name: tuple(value.shape) for name, value in named.items()}
    expected = {name: tuple(value.shape) for name, value in own.items()}
    if shapes != expected:
        count = len(given) if not isinstance(given, TensorDictBase) else len(named)
        method = "parameters" if what == "params" else "buffers"
        raise ValueError(
            f"{what} must fit the {method} of the world model, {len(own)} tensors of shapes {list(expected.values())}, "
            f"got {count}{f' of shapes {list(shapes.values())}' if shapes else ''}. "
            f"Fix: {what}=[value.clone() for value in world_model.{method}()]."
        )
    return named
