"""Policies in every form that a rollout takes: modules, functions of observations or TensorDicts, random actions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import errors

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase

_TENSORDICT_NAMES = {"td", "tensordict", "tensordict_in", "td_in", "data"}


class RandomPolicy:
    """Policy that draws random actions from a spec, with torch's generator.

    Args:
        action_spec: spec of the action. A composite writes all its entries.
        action_key: the entry that a leaf's action is written to. Default: "action".

    Raises:
        TypeError: If ``action_spec`` is not a spec.

    Example:
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> policy = RandomPolicy(Bounded(-1.0, 1.0, shape=(2,)))
        >>> policy(TensorDict({}))["action"].shape
        torch.Size([2])
    """

    def __init__(self, action_spec: TensorSpec, action_key: NestedKey = "action") -> None:
        if not isinstance(action_spec, TensorSpec):
            raise TypeError(
                f"RandomPolicy needs a spec to draw from and got a {type(action_spec).__name__}. "
                "Fix: RandomPolicy(env.action_spec)."
            )
        self.action_spec, self.action_key = action_spec, action_key
        self.in_keys: list[NestedKey] = []
        self.out_keys: list[NestedKey] = [action_key]
        if isinstance(action_spec, Composite):
            self.out_keys = list(action_spec.keys(True, True))

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write an action into the TensorDict, and return it."""
        missing = tensordict.ndim - len(self.action_spec.shape) if isinstance(self.action_spec, Composite) else 0
        action = self.action_spec.rand(tensordict.batch_size[: max(missing, 0)])
        if isinstance(self.action_spec, Composite):
            return tensordict.update(action)
        return tensordict.set(self.action_key, action)

    def __repr__(self) -> str:
        return f"RandomPolicy(action_spec={self.action_spec}, action_key={self.action_key!r})"


class ObservationPolicy:
    """Policy over TensorDicts that calls a function of observations.

    The function takes the observations ``in_keys`` in order and returns the action, or a tuple of the actions
    ``out_keys``.
    """

    def __init__(self, function: Callable[..., Any], in_keys: list[NestedKey], out_keys: list[NestedKey]) -> None:
        self.function, self.in_keys, self.out_keys = function, in_keys, out_keys
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action that the function returns."""
        result = self.function(*(tensordict.get(key) for key in self.in_keys))
        if isinstance(result, (dict, TensorDictBase)):
            return tensordict.update(result)
        actions = result if isinstance(result, tuple) else (result,)
        if len(actions) > len(self.out_keys):
            raise ValueError(
                f"The policy {self.__name__} returned {len(actions)} values, and the env has the actions "
                f"{self.out_keys}. Fix: return one value for each, or write more entries with a TensorDictModule."
            )
        if result is None:
            raise TypeError(
                f"The policy {self.__name__} returned None, and should return the action. Likely cause: it lacks a "
                "return. Fix: return action."
            )
        for key, action in zip(self.out_keys, actions, strict=False):
            if action is not None:
                tensordict.set(key, action)
        return tensordict


class ModulePolicy:
    """TensorDictModule whose error names the missing inputs if it fails because of one.

    The module is called before its inputs are checked, because an input may be optional. It need not have ``in_keys``.
    """

    def __init__(self, module: TensorDictModuleBase) -> None:
        self.module, self.in_keys = module, list(getattr(module, "in_keys", ()))
        if hasattr(module, "out_keys"):  # a module without out_keys may write anything
            self.out_keys = module.out_keys
        self.__name__ = errors.policy_name(module)

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return the module's output, or raise KeyError if an input is missing."""
        try:
            return self.module(tensordict)
        except KeyError as error:
            missing = [key for key in self.in_keys if tensordict.get(key, None) is None]
            if not missing:
                raise
            keys = sorted(map(str, leaf_keys(tensordict)))
            raise KeyError(
                f"The policy {self.__name__} reads {missing}, and the data it was given has {keys}. "
                "Fix: name the entries of the data in the policy's in_keys."
            ) from error


def is_random(env: EnvBase, policy: Any) -> bool:
    """Whether a policy only draws each action of an env from its spec, as None and ``env.rand_action`` do."""
    return policy is None or policy in (env.rand_action, env.rand_step)


def make_policy(
    env: EnvBase, policy: Any, trust_policy: bool = False, auto_cast_to_device: bool = False
) -> Callable[[TensorDictBase], TensorDictBase]:
    """Convert any policy that ``EnvBase.rollout`` takes into a function that writes the action into its input."""
    if is_random(env, policy):
        return env.rand_action
    if isinstance(policy, type) or not callable(policy):
        raise TypeError(
            f"A policy must be callable and is {policy!r}. "
            "Fix: pass a TensorDictModule, a torch module, or a function of the observation."
        )
    function = policy
    if isinstance(policy, TensorDictModuleBase):
        function = ModulePolicy(policy)
    elif not (trust_policy or hasattr(policy, "in_keys") or _takes_tensordict(policy)):
        function = ObservationPolicy(policy, env.observation_keys, env.action_keys)
    parameters = policy.parameters() if isinstance(policy, torch.nn.Module) else iter(())
    there, here = next((p.device for p in parameters), None), env.device or torch.device("cpu")
    if there is None or there == here:
        return function
    if auto_cast_to_device:
        return lambda tensordict: tensordict.update(function(tensordict.to(there)).to(here))
    return _explained(function, policy, there, here)


def _takes_tensordict(policy: Callable[..., Any]) -> bool:
    """Whether the first argument is a TensorDict, going by its name or annotation."""
    function = policy.forward if isinstance(policy, torch.nn.Module) else policy
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    if not parameters:
        return False
    annotation = parameters[0].annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameters[0].name in _TENSORDICT_NAMES or "TensorDict" in text


def _explained(
    function: Callable[[TensorDictBase], TensorDictBase], policy: Any, there: torch.device, here: torch.device
) -> Callable[[TensorDictBase], TensorDictBase]:
    """Call the policy, which may move its input itself, and explain the failure if it does not."""

    def explained(tensordict: TensorDictBase) -> TensorDictBase:
        try:
            return function(tensordict)
        except RuntimeError as error:
            raise RuntimeError(
                f"The policy {errors.policy_name(policy)} has its parameters on {there}, and the data of the env is on "
                f"{here}. Fix: policy.to({str(here)!r}), or rollout(..., auto_cast_to_device=True)."
            ) from error

    return explained
