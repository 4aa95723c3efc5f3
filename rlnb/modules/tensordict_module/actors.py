"""Actors, which map observations to actions, and value functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import (
    CompositeDistribution,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import nn
from torch.distributions import Distribution

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.unwrapped import of_module
from rlnb.modules.distributions.continuous import Delta
from rlnb.modules.tensordict_module.common import SafeModule
from rlnb.modules.tensordict_module.probabilistic import (
    SafeProbabilisticModule,
    SafeProbabilisticTensorDictSequential,
)
from rlnb.modules.tensordict_module.q_values import QValueActor, QValueModule
from rlnb.modules.tensordict_module.sequence import SafeSequential
from rlnb.modules.tensordict_module.tanh import TanhModule

__all__ = [
    "Actor", "ActorCriticOperator", "ActorCriticWrapper", "ActorValueOperator", "ProbabilisticActor", "QValueActor",
    "QValueModule", "TanhModule", "ValueOperator",
]  # fmt: skip


class Actor(SafeModule):
    """A deterministic policy.

    Args:
        module: a torch module that maps the inputs to the action.
        in_keys: its inputs. Default: ``["observation"]``.
        out_keys: where its results are written. Default: ``["action"]``.
        spec: spec of the first result, or a :class:`~rlnb.data.Composite` with entries for some of them.
        **kwargs: ``safe`` and ``inplace``, as for :class:`SafeModule`.

    Raises:
        ValueError: As for :class:`SafeModule`.

    Example:
        >>> import torch
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> policy = Actor(torch.nn.Linear(4, 2), spec=Bounded(-1.0, 1.0, (2,)), safe=True)
        >>> policy(TensorDict({"observation": torch.randn(3, 4)}, [3]))["action"].shape
        torch.Size([3, 2])
    """

    _unwrap = SafeModule._unwrap

    def __init__(
        self,
        module: nn.Module,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        **kwargs: Any,
    ) -> None:
        in_keys = ["observation"] if in_keys is None else in_keys
        out_keys = ["action"] if out_keys is None else out_keys
        super().__init__(module, in_keys, out_keys, spec=_of_first(spec, out_keys), **kwargs)

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """Return the policy as a distribution: all of its probability is on one action.

        Args:
            tensordict: data with the inputs. It does not change.

        Returns:
            A :class:`~rlnb.modules.Delta` at the action.
        """
        return Delta(self(tensordict.copy()).get(self.out_keys[0]))


class ProbabilisticActor(SafeProbabilisticTensorDictSequential):
    """A policy that draws its action from a distribution, whose parameters a network computes.

    How it draws follows :class:`~rlnb.envs.utils.set_exploration_type`: collectors set RANDOM, an evaluation
    DETERMINISTIC or MODE. Outside of its blocks ``default_interaction_type`` decides.

    Args:
        module: module over TensorDicts that writes the parameters of the distribution.
        in_keys: entries that are the parameters, not the inputs of ``module``. The last part of each is the name of
            the argument, such as ``"loc"``; a dictionary maps the names of the arguments to entries.
        out_keys: the entry to write. Default: ``["action"]``; with a ``CompositeDistribution`` the keys of its map.
        spec: spec of the action, or a :class:`~rlnb.data.Composite` with entries for some outputs.
        **kwargs: those of :class:`SafeProbabilisticModule`: ``distribution_class``, ``distribution_kwargs``,
            ``return_log_prob`` (written to ``"action_log_prob"``), ``default_interaction_type``, ``safe`` and others.

    Raises:
        TypeError: If ``module`` is not a module over TensorDicts.
        ValueError: As for :class:`SafeProbabilisticModule`: no spec for ``safe=True``, or a distribution that does not
            fit the spec.

    Example:
        >>> import torch
        >>> from rlnb.data import Bounded
        >>> from rlnb.envs.utils import ExplorationType, set_exploration_type
        >>> from rlnb.modules import NormalParamExtractor, TanhNormal
        >>> from tensordict import TensorDict
        >>> network = TensorDictModule(
        ...     nn.Sequential(nn.Linear(4, 2), NormalParamExtractor()), ["observation"], ["loc", "scale"]
        ... )
        >>> policy = ProbabilisticActor(
        ...     network,
        ...     in_keys=["loc", "scale"],
        ...     spec=Bounded(-1.0, 1.0, (1,)),
        ...     distribution_class=TanhNormal,
        ...     return_log_prob=True,
        ... )
        >>> with set_exploration_type(ExplorationType.RANDOM):
        ...     data = policy(TensorDict({"observation": torch.randn(3, 4)}, [3]))
        >>> data["action"].shape, data["action_log_prob"].shape
        (torch.Size([3, 1]), torch.Size([3]))
    """

    _unwraps_as_sequence = True

    def __init__(
        self,
        module: Any,
        in_keys: NestedKey | Sequence[NestedKey] | dict[str, NestedKey],
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        **kwargs: Any,
    ) -> None:
        if not hasattr(module, "in_keys") or not hasattr(module, "out_keys"):
            raise TypeError(
                f"ProbabilisticActor needs a module over TensorDicts, which writes the parameters {in_keys}, got a "
                f"{type(module).__name__}. Fix: TensorDictModule(module, in_keys=['observation'], out_keys={in_keys})."
            )
        if out_keys is None and kwargs.get("distribution_class") is not CompositeDistribution:
            out_keys = ["action"]
        if isinstance(out_keys, (str, tuple)):
            out_keys = [out_keys]
        if out_keys is not None:
            spec = _of_first(spec, out_keys)
        super().__init__(module, SafeProbabilisticModule(in_keys, out_keys, spec=spec, **kwargs))


class ValueOperator(TensorDictModule):
    """A value function, of states or of states and actions.

    Args:
        module: a torch module that maps the inputs to the value, ``[*batch, 1]``.
        in_keys: its inputs. Default: ``["observation"]``.
        out_keys: where the value is written. Default: ``["state_action_value"]`` if "action" is among the inputs,
            otherwise ``["state_value"]``.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> critic = ValueOperator(torch.nn.Linear(4, 1))
        >>> critic(TensorDict({"observation": torch.randn(3, 4)}, [3]))["state_value"].shape
        torch.Size([3, 1])
        >>> ValueOperator(torch.nn.Bilinear(4, 2, 1), in_keys=["observation", "action"]).out_keys
        ['state_action_value']
    """

    _unwrap = of_module

    def __init__(
        self,
        module: nn.Module,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        in_keys = ["observation"] if in_keys is None else in_keys
        if out_keys is None:
            out_keys = ["state_action_value" if "action" in in_keys else "state_value"]
        super().__init__(module, in_keys=in_keys, out_keys=out_keys)  # type: ignore[arg-type]  # takes any sequence


class ActorValueOperator(SafeSequential):
    """A policy and a value function on top of one network that both share.

    Called as a whole, it runs the shared network once, then both heads. Each head together with the shared network is
    a module of its own, for collectors and losses; parameters are shared, never copied. A value function of states and
    actions goes into an :class:`ActorCriticOperator`, parts without a shared network into an
    :class:`ActorCriticWrapper`.

    Args:
        common_operator: module over TensorDicts that reads observations and writes a hidden entry.
        policy_operator: module over TensorDicts that reads the hidden entry and writes the action.
        value_operator: module over TensorDicts that reads the hidden entry and writes the value.

    Raises:
        TypeError: If one of them is not a module over TensorDicts.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> model = ActorValueOperator(
        ...     TensorDictModule(torch.nn.Linear(4, 8), ["observation"], ["hidden"]),
        ...     Actor(torch.nn.Linear(8, 2), in_keys=["hidden"]),
        ...     ValueOperator(torch.nn.Linear(8, 1), in_keys=["hidden"]),
        ... )
        >>> sorted(model(TensorDict({"observation": torch.randn(3, 4)}, [3])).keys())
        ['action', 'hidden', 'observation', 'state_value']
        >>> model.get_policy_operator().out_keys, model.get_value_operator().out_keys
        (['hidden', 'action'], ['hidden', 'state_value'])
    """

    def __init__(self, common_operator: Any, policy_operator: Any, value_operator: Any) -> None:
        _check_modules(type(self), common_operator, policy_operator, value_operator)
        super().__init__(common_operator, policy_operator, value_operator)

    def get_policy_operator(self) -> SafeSequential:
        """Return the policy, with the shared network in front of it."""
        probabilistic = isinstance(self[1], (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential))
        kind = SafeProbabilisticTensorDictSequential if probabilistic else SafeSequential
        return kind(self[0], self[1])

    def get_value_operator(self) -> SafeSequential:
        """Return the value function, with the shared network in front of it."""
        return SafeSequential(self[0], self[2])

    def get_policy_head(self) -> Any:
        """Return the policy without the shared network."""
        return self[1]

    def get_value_head(self) -> Any:
        """Return the value function without the shared network."""
        return self[2]


class ActorCriticOperator(ActorValueOperator):
    """A policy and a critic of states and actions on top of one network that both share.

    The critic reads the action of the policy, so that its operator is the whole module.

    Args:
        common_operator: module over TensorDicts that reads observations and writes a hidden entry.
        policy_operator: module over TensorDicts that reads the hidden entry and writes the action.
        value_operator: module over TensorDicts that reads the hidden entry and the action, and writes the value.

    Raises:
        TypeError: If one of them is not a module over TensorDicts.
        ValueError: If the value is written as that of a state, to "state_value".

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> model = ActorCriticOperator(
        ...     TensorDictModule(torch.nn.Linear(4, 8), ["observation"], ["hidden"]),
        ...     Actor(torch.nn.Linear(8, 2), in_keys=["hidden"]),
        ...     ValueOperator(torch.nn.Bilinear(8, 2, 1), in_keys=["hidden", "action"]),
        ... )
        >>> critic = model.get_critic_operator()
        >>> critic(TensorDict({"observation": torch.randn(3, 4)}, [3]))["state_action_value"].shape
        torch.Size([3, 1])
    """

    def __init__(self, common_operator: Any, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(common_operator, policy_operator, value_operator)
        if value_operator.out_keys[0] == "state_value":
            raise ValueError(
                "ActorCriticOperator takes a critic of states and actions, and the last module writes 'state_value', "
                "the value of a state. Fix: ActorValueOperator(common, policy, value), or "
                "ValueOperator(critic, in_keys=['hidden', 'action'])."
            )

    def get_critic_operator(self) -> ActorCriticOperator:
        """Return the module itself: the critic needs the action of the policy."""
        return self

    def get_value_operator(self) -> SafeSequential:
        """Raises ``RuntimeError``: there is no value of states. See :meth:`get_critic_operator`."""
        raise RuntimeError(
            "ActorCriticOperator has a critic of states and actions, and no value of states. "
            "Fix: model.get_critic_operator()."
        )


class ActorCriticWrapper(SafeSequential):
    """A policy and a value function that share no network, as one module.

    Args:
        policy_operator: module over TensorDicts that reads observations and writes the action.
        value_operator: module over TensorDicts that writes the value.

    Raises:
        TypeError: If one of them is not a module over TensorDicts.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> model = ActorCriticWrapper(Actor(torch.nn.Linear(4, 2)), ValueOperator(torch.nn.Linear(4, 1)))
        >>> sorted(model(TensorDict({"observation": torch.randn(3, 4)}, [3])).keys())
        ['action', 'observation', 'state_value']
        >>> model.get_policy_operator().out_keys, model.get_value_operator().out_keys
        (['action'], ['state_value'])
    """

    def __init__(self, policy_operator: Any, value_operator: Any) -> None:
        _check_modules(type(self), policy_operator, value_operator)
        super().__init__(policy_operator, value_operator)

    def get_policy_operator(self) -> Any:
        """Return the policy."""
        return self[0]

    def get_value_operator(self) -> Any:
        """Return the value function."""
        return self[1]

    def get_policy_head(self) -> Any:
        """Return the policy, like :meth:`get_policy_operator`."""
        return self[0]

    def get_value_head(self) -> Any:
        """Return the value function, like :meth:`get_value_operator`."""
        return self[1]


def _check_modules(kind: type, *modules: Any) -> None:
    """Raise ``TypeError`` unless all are modules over TensorDicts."""
    for module in modules:
        if not isinstance(module, TensorDictModuleBase):
            raise TypeError(
                f"{kind.__name__} joins modules over TensorDicts, got a {type(module).__name__}. "
                "Fix: TensorDictModule(module, in_keys=['observation'], out_keys=['hidden'])."
            )


def _of_first(spec: TensorSpec | None, out_keys: Sequence[NestedKey]) -> TensorSpec | None:
    """Return a leaf as the spec of the first output."""
    if not isinstance(spec, TensorSpec) or isinstance(spec, Composite):
        return spec
    return Composite({as_key(as_tuple(out_keys[0])): spec})
