"""Base class of all losses: keys, networks and their targets, value estimators, and how terms are reduced."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from tensordict import TensorDict, TensorDictBase, TensorDictParams
from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlnb._tensordict import entry, fast_tensordict
from rlnb.data.ted.keys import MASK_KEYS, NestedKey, as_key, as_tuple
from rlnb.envs.exploration import ExplorationType, set_exploration_type
from rlnb.envs.unwrapped import Entries, Unwrapping, unwrapped
from rlnb.objectives.ensembles import run_members, slots_of
from rlnb.objectives.errors import missing_entry, unknown_choice, unknown_key_name
from rlnb.objectives.utils import ValueEstimators, build_value_estimator, distance_loss
from rlnb.objectives.value.advantages import ValueEstimatorBase, changed_keys

Tensor = torch.Tensor

_REDUCTIONS = ("mean", "sum", "none")
_PRIORITY_WEIGHT = "priority_weight"


class LossModule(TensorDictModuleBase):
    """Base class of losses: modules that read a batch of steps and return a TensorDict of terms.

    Terms to minimize have names that begin with "loss"; add those up and call ``backward()``. The others are for logs.
    A loss can also be called with the entries of ``in_keys`` as keywords (``next_reward`` for ``("next", "reward")``);
    it then returns the terms of ``out_keys`` as a tuple.

    Networks are submodules. ``loss.actor_network_params`` and the like are their parameters as a TensorDict. A target
    network is a copy, ``loss.target_value_network``, whose tensors are buffers, so that ``loss.parameters()`` has only
    what is learned; :class:`SoftUpdate` and :class:`HardUpdate` move it. Several networks of one kind are one network
    with parameters stacked in their first dimension, ``loss.qvalue_network_params``.

    A term that is NaN or infinite raises ``FloatingPointError``, so that no optimizer can spread it to the parameters.
    ``loss.check_finite = False`` leaves that out.

    Example:
        >>> from dataclasses import dataclass, fields
        >>> class Distance(LossModule):
        ...     @dataclass
        ...     class _AcceptedKeys:
        ...         value: str = "state_value"
        ...     in_keys, out_keys = ["state_value"], ["loss"]
        ...     def forward(self, tensordict):
        ...         return self._terms({"loss": self._get(tensordict, "value").square().mean()})
        >>> loss = Distance()
        >>> loss(TensorDict({"state_value": torch.ones(3)}))["loss"]
        tensor(1.)
        >>> loss.set_keys(value="v")
        >>> loss(TensorDict({"v": torch.zeros(3)}))["loss"]
        tensor(0.)
    """

    @dataclass
    class _AcceptedKeys:
        """The keys that ``set_keys`` knows, with their defaults."""

    default_keys: ClassVar[type] = _AcceptedKeys
    default_value_estimator: ClassVar[ValueEstimators | None] = None
    _refused_estimators: ClassVar[tuple[type[ValueEstimatorBase], ...]] = ()
    tensor_keys: Any
    _key_defaults: Any
    #: The terms, where they do not depend on the arguments.
    _OUT_KEYS: ClassVar[tuple[str, ...]] = ()
    #: How policies that are wrapped for exploration act within the loss.
    deterministic_sampling_mode: ExplorationType = ExplorationType.DETERMINISTIC
    #: Whether terms that are not finite raise an error.
    check_finite: bool = True

    def __init__(self, reduction: str | None = None) -> None:
        super().__init__()
        reduction = "mean" if reduction is None else reduction
        if reduction not in _REDUCTIONS:
            raise ValueError(unknown_choice("reduction", reduction, _REDUCTIONS))
        self.reduction = reduction
        self.tensor_keys = self._key_defaults = self._AcceptedKeys()
        self._unwrapped = Unwrapping()
        self.__dict__["_estimator"] = None  # not a submodule: its network is one of the loss already

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the terms, with exploration switched off."""
        data = args[0] if args else kwargs.get("tensordict")
        if isinstance(data, TensorDictBase) and 0 in data.batch_size:
            raise ValueError(
                f"{type(self).__name__} got a batch without steps, of batch size {list(data.batch_size)}. Likely "
                "cause: an index or a mask that chose nothing. Fix: call the loss only if data.numel() > 0."
            )
        with set_exploration_type(self.deterministic_sampling_mode):
            return super().__call__(*args, **kwargs)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of a batch of steps."""
        raise NotImplementedError

    @property
    def in_keys(self) -> list[Any]:
        """The entries that are read; they follow the networks and ``set_keys``."""
        given = self.__dict__.get("_given_in_keys")
        return self._default_in_keys() if given is None else given

    @in_keys.setter
    def in_keys(self, keys: Sequence[NestedKey]) -> None:
        self.__dict__["_given_in_keys"] = list(keys)

    @property
    def out_keys(self) -> list[Any]:
        """The terms of a call with keywords, in their order; ``select_out_keys`` chooses some of them."""
        given = self.__dict__.get("_given_out_keys")
        return self._default_out_keys() if given is None else given

    @out_keys.setter
    def out_keys(self, keys: Sequence[NestedKey]) -> None:
        self.__dict__["_given_out_keys"] = list(keys)

    def _default_in_keys(self) -> list[NestedKey]:
        return []

    def _default_out_keys(self) -> list[NestedKey]:
        return list(self._OUT_KEYS)

    # Keys ----------------------------------------------------------------------------------------------------------

    def set_keys(self, **kwargs: Any) -> None:
        """Name the entries to read and write, in the loss and in its value estimator.

        Args:
            kwargs: keys by their names in ``tensor_keys``, such as ``advantage="adv"``. Keys of what a step leads to
                are named without "next". None: the default.

        Raises:
            ValueError: If a name is unknown; nothing changes then.
        """
        known = [field.name for field in fields(self._AcceptedKeys)]
        for name in kwargs:
            if name not in known:
                raise ValueError(unknown_key_name(self, name, known))
        self.tensor_keys = changed_keys(self, kwargs)
        if self._estimator is not None:
            self._estimator.set_keys(**self._estimator_keys())

    def _take_keys(self, keys: dict[str, Any]) -> None:
        """Set defaults of ``tensor_keys`` that are known only with the networks."""
        self.tensor_keys = self._key_defaults = replace(self.tensor_keys, **keys)

    def _estimator_keys(self) -> dict[str, NestedKey]:
        """The keys that the value estimator shares."""
        names = ("advantage", "value_target", "value", "reward", "done", "terminated")
        return {name: getattr(self.tensor_keys, name) for name in names if hasattr(self.tensor_keys, name)}

    def _get(self, data: TensorDictBase, role: str, *, after: bool = False) -> Any:
        """Read an entry by the name of its key; ``after`` reads it under "next"."""
        key = getattr(self.tensor_keys, role)
        key = next_key(key) if after else key
        found = entry(data, key)
        if found is None:
            raise KeyError(missing_entry(self, key, role, data))
        return found

    def _missing_input(self, key: NestedKey, data: TensorDictBase) -> str:
        """Text for an entry that a network reads in a state, or in the next state."""
        if data.get("next", None) is None and data.get(getattr(self.tensor_keys, "reward", "reward"), None) is not None:
            key, data = next_key(key), TensorDict({"next": data})  # only what a step leads to has a reward
        return missing_entry(self, key, "input", data)

    # Networks ------------------------------------------------------------------------------------------------------

    def convert_to_functional(
        self,
        module: Any,
        module_name: str,
        expand_dim: int | None = None,
        create_target_params: bool = False,
        compare_against: Any = None,
    ) -> None:
        """Hold a network, its parameters, and on request those of its target: for losses of your own.

        Afterwards ``loss.<name>`` is the network, ``loss.<name>_params`` its parameters as a TensorDict, and
        ``loss.target_<name>_params`` those of the target, or the same ones, without gradients, if there is no target.
        ``with params.to_module(loss.<name>):`` runs the network with either of them.

        Args:
            module: the network.
            module_name: the name.
            expand_dim: how many networks of that kind there are, with stacked parameters of their own. None: one.
            create_target_params: whether there is a target network, which :class:`SoftUpdate` or :class:`HardUpdate`
                moves.
            compare_against: accepted as in TorchRL; parameters that two networks share stay shared.

        Raises:
            TypeError: If the network is not a module.

        Example:
            >>> from tensordict.nn import TensorDictModule
            >>> loss = LossModule()
            >>> net = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
            >>> loss.convert_to_functional(net, "critic", create_target_params=True)
            >>> with loss.target_critic_params.to_module(loss.critic):
            ...     loss.critic(torch.ones(3)).shape
            torch.Size([1])
            >>> len(list(loss.parameters()))  # the target has none that is learned
            2
        """
        if expand_dim is None:
            self._add_network(module_name, module, delay=create_target_params)
        else:
            self._add_ensemble(module_name, module, expand_dim, delay=create_target_params)

    def _add_network(self, name: str, network: Any, *, delay: bool = False) -> None:
        """Hold a network as a submodule, and with ``delay`` a copy of it as its target."""
        if not isinstance(network, nn.Module):
            raise TypeError(
                f"{type(self).__name__} needs {name}, a TensorDictModule, and got a {type(network).__name__}. "
                f"Fix: TensorDictModule(net, in_keys=['observation'], out_keys=[...])."
            )
        if delay:
            _check_sizes(self, name, network)
        self.add_module(name, network)
        if delay:
            self.add_module(f"target_{name}", frozen_copy(network))

    def _add_ensemble(self, name: str, network: Any, count: int, *, delay: bool) -> None:
        """Hold several networks of one kind as one network with stacked parameters."""
        networks = list(network) if isinstance(network, (list, tuple, nn.ModuleList)) else [network]
        for one in networks:
            if not isinstance(one, nn.Module):
                raise TypeError(
                    f"{type(self).__name__} needs {name}, a TensorDictModule, and got a {type(one).__name__}. "
                    "Fix: TensorDictModule(net, in_keys=['observation', 'action'], out_keys=['state_action_value'])."
                )
            _check_sizes(self, name, one)
        if len(networks) == 1:
            networks += [reset_copy(networks[0]) for _ in range(count - 1)]
        stacked: Any = torch.stack([TensorDict.from_module(one).data for one in networks]).clone()
        learned = {key for key, value in TensorDict.from_module(networks[0]).items(True, True) if value.requires_grad}
        params = stacked.apply(lambda value: value)
        for key in learned:
            params.set(key, nn.Parameter(stacked.get(key)))
        setattr(self, f"{name}_params", TensorDictParams(params, no_convert=True))
        if delay:
            setattr(self, f"target_{name}_params", TensorDictParams(stacked.clone(), no_convert=True))
        # The network that the parameters are put into has none of its own, and is not a submodule.
        self.__dict__[name] = copy.deepcopy(networks[0]).to("meta")
        self.__dict__[f"_{name}_slots"] = slots_of(self.__dict__[name])

    def __getattr__(self, name: str) -> Any:
        """Give the parameters of a network, ``<network>_params``, as a TensorDict."""
        if name.endswith("_params"):
            modules, network = self.__dict__.get("_modules", {}), name.removesuffix("_params")
            if name not in modules and (network in modules or network.removeprefix("target_") in modules):
                found = modules.get(network)
                if found is None and network not in modules:  # without a target of its own
                    found = modules[network.removeprefix("target_")]
                    return None if found is None else TensorDict.from_module(found).data
                return None if found is None else TensorDict.from_module(found, as_module=True)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Write a number into a buffer of that name, such as ``loss.clip_epsilon = 0.1``."""
        if name == "_value_estimator":  # as losses written for TorchRL set it
            self.__dict__["_estimator"] = value
            return
        buffer = self.__dict__.get("_buffers", {}).get(name)
        if buffer is not None and isinstance(value, (int, float)):
            buffer.fill_(value)
        else:
            super().__setattr__(name, value)

    def target_pairs(self) -> list[tuple[list[Tensor], list[Tensor]]]:
        """Return the tensors of each network that has a target, and those of the target, in the same order."""
        pairs = []
        for name, target in self._modules.items():
            if name.startswith("target_") and target is not None:
                source = self._modules[name.removeprefix("target_")]
                found = [dict(part.state_dict(keep_vars=True)) for part in (source, target)]  # type: ignore[union-attr]
                keys = [key for key, value in found[1].items() if isinstance(value, Tensor)]
                pairs.append(([found[0][key].detach() for key in keys], [found[1][key] for key in keys]))
        return pairs

    def _target(self, name: str) -> nn.Module:
        """The target of a network, or the network itself without one."""
        found = self._modules.get(f"target_{name}")
        return self._modules[name] if found is None else found  # type: ignore[return-value]  # a network is there

    def _run(
        self,
        network: Any,
        data: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        make: Callable[[Any], Any] = unwrapped,
    ) -> Any:
        """Run a network on what it reads; return its outputs, which have ``get(key, default)``, and leave the data.

        ``make`` makes a function of tensors from it, or None where the network itself must be called.
        """
        given = self._inputs(network, data)
        function = self._unwrapped(network, make)
        with nullcontext() if params is None else params.to_module(network):
            if function is None:
                return network(data.select(*network.in_keys, strict=False))
            function(given)
        return given

    def _inputs(self, network: Any, data: TensorDictBase) -> Entries:
        """Read the inputs of a network."""
        given: Entries = {}
        for key in network.in_keys:
            given[key] = value = entry(data, key)
            if value is None:
                raise KeyError(self._missing_input(key, data))
        return given

    def _run_ensemble(self, name: str, data: TensorDictBase, key: NestedKey, *, of: str = "") -> Tensor:
        """Run an ensemble, and return one of its entries, ``[networks, *B, ...]``.

        ``of`` says with which parameters: "" with those that are learned, "detached", or "target".
        """
        network = self.__dict__[name]
        target = self._modules.get(f"target_{name}_params") if of == "target" else None
        params: Any = target if target is not None else self._modules[f"{name}_params"]
        given, function = self._inputs(network, data), self._unwrapped(network)

        def run() -> Tensor:
            if function is None:
                outputs: Any = network(data.select(*network.in_keys, strict=False))
            else:
                outputs = dict(given)
                function(outputs)
            found: Tensor | None = outputs.get(key)
            if found is None:
                raise KeyError(
                    f"{type(self).__name__} expects {key!r} from its {name}, which writes {network.out_keys}. "
                    f"Fix: out_keys=[{key!r}], or loss.set_keys(...)."
                )
            return found

        return run_members(run, network, self.__dict__[f"_{name}_slots"], params, detached=bool(of))

    # Value estimators ----------------------------------------------------------------------------------------------

    @property
    def value_estimator(self) -> ValueEstimatorBase:
        """What computes advantages and value targets; the default one is made when it is first needed."""
        if self._estimator is None:
            self.make_value_estimator()
        return self._estimator

    @property
    def _value_estimator(self) -> ValueEstimatorBase | None:
        """The value estimator if there is one, under the name that losses written for TorchRL use."""
        return self._estimator

    def make_value_estimator(
        self,
        value_type: ValueEstimators | str | ValueEstimatorBase | type[ValueEstimatorBase] | None = None,
        **hyperparams: Any,
    ) -> Self:
        """Choose how returns are estimated.

        Args:
            value_type: a member of :class:`ValueEstimators`, its name, a class of estimators, or an estimator, which
                takes over the keys of the loss. None: the default of the loss.
            hyperparams: arguments of the estimator that is made, such as ``gamma`` and ``lmbda``.

        Returns:
            The loss.

        Raises:
            TypeError: If ``value_type`` is something else, or an estimator that is made gets arguments.
            ValueError: If there is no such kind, the loss cannot use it, or a discount is not in [0, 1].
        """
        value_type = self.default_value_estimator if value_type is None else value_type
        if value_type is None:
            raise ValueError(f"{type(self).__name__} estimates no values, so it has no value estimator.")
        if not isinstance(value_type, ValueEstimatorBase):
            made = build_value_estimator(value_type, self._value_network(), **hyperparams)
        elif hyperparams:
            kind, given = type(value_type).__name__, ", ".join(f"{name}={hyperparams[name]!r}" for name in hyperparams)
            raise TypeError(
                f"make_value_estimator takes no arguments for an estimator that is made already, and got a {kind} and "
                f"{given}. Fix: make_value_estimator({kind}, {given})."
            )
        else:
            made = value_type
        if isinstance(made, self._refused_estimators):
            raise ValueError(
                f"{type(self).__name__} computes the values of next states alone, and {type(made).__name__} needs "
                "those of the states, too. Fix: one of ValueEstimators.TD0, TD1, TDLambda."
            )
        made.set_keys(**self._estimator_keys())
        self.__dict__["_estimator"] = made
        return self

    def _value_network(self) -> Any:
        """The network that a value estimator calls; None where the loss computes the values of next states itself."""
        return None

    # Terms ---------------------------------------------------------------------------------------------------------

    def _reduce(self, term: Tensor, data: TensorDictBase, weight: Tensor | None = None) -> Tensor:
        """Reduce a term ``[*B]`` or ``[*B, 1]`` over the steps that are not padding."""
        if self.reduction == "none":
            return term if weight is None else term * weight.reshape(term.shape)
        mask = _mask_of(data, term)
        if mask is not None:
            term = term[mask]
            weight = None if weight is None else weight[mask]
        if weight is not None:
            weight = weight.reshape(term.shape)
            total = (term * weight).sum()
            return total / weight.sum() if self.reduction == "mean" else total
        return term.mean() if self.reduction == "mean" else term.sum()

    def _distance(
        self, value: Tensor, target: Tensor, function: str, data: TensorDictBase, weight: Tensor | None = None
    ) -> Tensor:
        """Reduce the distances of values and targets ``[*B]``: in one operation where all steps count alike."""
        if weight is None and _mask_of(data, value) is None:
            return distance_loss(value, target, function, reduction=self.reduction)
        return self._reduce(distance_loss(value, target, function), data, weight)

    def _terms(self, terms: dict[str, Tensor]) -> TensorDict:
        """Make the result, and refuse terms that are not finite."""
        if self.check_finite:
            losses = {name: term for name, term in terms.items() if name.startswith("loss")}
            # One number is looked at, since each look waits for an accelerator.
            with torch.no_grad():
                totals = [term.sum() if term.ndim else term for term in losses.values()]
                finite = not totals or math.isfinite(functools.reduce(torch.add, totals))
            if not finite:
                bad = [name for name, term in losses.items() if not bool(term.isfinite().all())]
                raise FloatingPointError(not_finite(self, bad or list(losses), losses))
        return fast_tensordict(terms, torch.Size(()))


def not_finite(owner: object, bad: Sequence[str], losses: dict[str, Tensor]) -> str:
    """Text for terms that are NaN or infinite."""
    found = ", ".join(f"{name} {losses[name].sum().item():g}" for name in losses)
    return (
        f"{type(owner).__name__} is not finite: {', '.join(map(repr, bad))} is NaN or infinite ({found}). No parameter "
        "was changed. Likely causes: rewards or observations that are NaN (data.isfinite().all() names the entry), a "
        "learning rate that is too large, or actions at the bounds of a TanhNormal. "
        "Fix: look at the batch that this loss got, or clip with nn.utils.clip_grad_norm_ before the step."
    )


def _mask_of(data: TensorDictBase, term: Tensor) -> Tensor | None:
    """Return the flags of the steps that are not padding, where the data has some that fit a term ``[*B, ...]``."""
    for key in MASK_KEYS:
        mask = entry(data, key)
        if isinstance(mask, Tensor) and mask.shape == term.shape[: mask.ndim]:
            return mask
    return None


def _check_sizes(owner: object, name: str, network: nn.Module) -> None:
    """Raise ``ValueError`` if a network that is to be copied has lazy layers without a size."""
    lazy = [key for key, value in network.named_parameters() if nn.parameter.is_lazy(value)]
    if lazy:
        raise ValueError(
            f"{type(owner).__name__} copies {name}, and its parameter {lazy[0]!r} has no size yet: the layer is lazy, "
            f"and the network was never run. Fix: {name}(env.reset()) before the loss is made, or a network with "
            "in_features, such as MLP(in_features=4, out_features=2)."
        )


def frozen_copy(network: nn.Module) -> nn.Module:
    """Copy a network, with its parameters as buffers that need no gradient.

    Example:
        >>> copied = frozen_copy(nn.Linear(2, 1))
        >>> list(copied.parameters()), [name for name, _ in copied.named_buffers()]
        ([], ['weight', 'bias'])
    """
    copied = copy.deepcopy(network)
    for module in list(copied.modules()):
        if isinstance(module, TensorDictParams):
            continue  # its parent replaces it
        for name, child in module._modules.items():
            if isinstance(child, TensorDictParams):  # such as the parameters of MultiAgentMLP
                module._modules[name] = TensorDictParams(child.data.clone(), no_convert=True)
        for name, value in list(module._parameters.items()):
            del module._parameters[name]
            module.register_buffer(name, None if value is None else value.detach())
    return copied


def reset_copy(network: nn.Module) -> nn.Module:
    """Copy a network, with new parameters where its layers have ``reset_parameters``.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> bool((reset_copy(net).weight == net.weight).any())
        False
    """
    copied = copy.deepcopy(network)
    for module in copied.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
    return copied


@functools.cache
def next_key(key: NestedKey) -> NestedKey:
    """Put a key under "next".

    Example:
        >>> next_key("reward"), next_key(("agents", "reward"))
        (('next', 'reward'), ('next', 'agents', 'reward'))
    """
    return as_key(("next", *as_tuple(key)))


def unique(keys: Iterable[NestedKey]) -> list[NestedKey]:
    """Return keys without repetitions, in their order.

    Example:
        >>> unique(["a", "b", "a"])
        ['a', 'b']
    """
    return list(dict.fromkeys(keys))
