"""Modules that draw from distributions, with specs of what they draw."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    CompositeDistribution,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    dispatch,
)
from torch.distributions import Distribution

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.exploration import ExplorationType
from rlnb.envs.unwrapped import Function, of_draw
from rlnb.modules.distributions.continuous import Delta
from rlnb.modules.tensordict_module.fit import check_distribution, check_kind
from rlnb.modules.tensordict_module.output_specs import as_output_spec, check_safe, draw_outputs, project_outputs
from rlnb.modules.tensordict_module.sequence import SafeSequential


class SafeProbabilisticModule(ProbabilisticTensorDictModule):
    """Makes a distribution from entries of a TensorDict, and writes a value drawn from it.

    How the value is drawn follows :class:`~rlnb.envs.utils.set_exploration_type`, and outside of its blocks
    ``default_interaction_type``.

    Args:
        in_keys: entries that are the parameters of the distribution. The last part of each is the name of the
            argument, such as ``"loc"``; a dictionary maps the names of the arguments to entries.
        out_keys: the entry to write. With a ``CompositeDistribution`` it follows from its ``distribution_map``.
        spec: spec of the value; a :class:`~rlnb.data.Composite` for several.
        safe: whether to project the value onto its spec. Clamped values lose their gradient.
        default_interaction_type: how to draw where nothing is set: DETERMINISTIC, MODE, MEDIAN, MEAN or RANDOM.
        distribution_class: class of the distribution, or a function that makes one.
        distribution_kwargs: further arguments of the distribution, such as the bounds of a :class:`TanhNormal`.
        return_log_prob: whether to write the log-probability of the value, before any projection, too.
        log_prob_keys: where to write log-probabilities. Default: the out keys followed by ``"_log_prob"``, such as
            ``"action_log_prob"``.
        log_prob_key: the same for a single one.
        cache_dist: deprecated in tensordict.
        n_empirical_estimate: how many samples estimate a mean that has no closed form.
        num_samples: number of values to draw, in a new first dimension.
        generator: torch generator, its seed, or the entry that holds it. Default: torch's own.

    Raises:
        ValueError: If ``safe`` is set without a spec, the parameters are not those of the distribution, or the
            distribution does not fit the spec: its kind when the module is made, its size on the first call.

    Example:
        >>> import torch
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> module = SafeProbabilisticModule(
        ...     in_keys=["loc", "scale"],
        ...     out_keys=["action"],
        ...     spec=Bounded(-1.0, 1.0, (1,)),
        ...     safe=True,
        ...     distribution_class=torch.distributions.Normal,
        ... )
        >>> module(TensorDict({"loc": torch.tensor([[3.0]]), "scale": torch.ones(1, 1)}, [1]))["action"]
        tensor([[1.]])
    """

    def __init__(
        self,
        in_keys: NestedKey | Sequence[NestedKey] | dict[str, NestedKey],
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        *,
        safe: bool = False,
        default_interaction_type: ExplorationType = ExplorationType.DETERMINISTIC,
        distribution_class: Any = Delta,
        distribution_kwargs: dict[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: list[NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: Any = None,
        generator: Any = None,
    ) -> None:
        check_parameters(distribution_class, in_keys)
        super().__init__(
            in_keys=in_keys,  # type: ignore[arg-type]  # takes any sequence
            out_keys=out_keys,  # type: ignore[arg-type]
            default_interaction_type=default_interaction_type,
            distribution_class=distribution_class,
            distribution_kwargs=distribution_kwargs,
            return_log_prob=return_log_prob,
            log_prob_keys=log_prob_keys,  # type: ignore[arg-type]
            log_prob_key=log_prob_key,
            cache_dist=cache_dist,
            n_empirical_estimate=n_empirical_estimate,
            num_samples=num_samples,
            generator=generator,
        )
        self.register_spec(safe, spec)

    def register_spec(self, safe: bool, spec: TensorSpec | None) -> None:
        """Set the spec of the value, and whether to project onto it.

        Args:
            safe: whether to project.
            spec: the spec, as for the constructor.

        Raises:
            ValueError: If ``safe`` is set without a spec, or the spec fits neither the out keys nor the distribution.
        """
        made = as_output_spec(self, spec, self._out_keys)
        check_safe(self, safe, made)
        if len(self._out_keys) == 1:
            check_kind(self.distribution_class, self._out_keys[0], made[self._out_keys[0]])
        self._spec, self.safe, self._fit_checked = made, safe, False

    @property
    def spec(self) -> Composite:
        """Specs of what is drawn; None where nothing is known."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec | None) -> None:
        self.register_spec(self.safe, spec)

    def random(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write a random value of the spec, independent of the distribution.

        Args:
            tensordict: where to write, ``[*batch]``.

        Returns:
            ``tensordict``.

        Raises:
            ValueError: If there is no spec.
        """
        return draw_outputs(self, tensordict, self._spec)

    def random_sample(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write a random value of the spec, like :meth:`random`."""
        return self.random(tensordict)

    @dispatch(auto_batch_size=False)
    def forward(
        self,
        tensordict: TensorDictBase,
        tensordict_out: TensorDictBase | None = None,
        _requires_sample: bool = True,
    ) -> TensorDictBase:
        """Draw a value and write it.

        Args:
            tensordict: data with the parameters of the distribution.
            tensordict_out: where to write. Default: ``tensordict``.

        Returns:
            The TensorDict that was written to.
        """
        if not self._fit_checked:
            self._check_fit(tensordict)
        result = super().forward(tensordict, tensordict_out, _requires_sample=_requires_sample)
        if self.safe and _requires_sample:
            project_outputs(result, self._spec)
        return result

    def _unwrap(self, batch_size: torch.Size | None) -> Function | None:
        return of_draw(self) if self._fit_checked and not self.safe else None

    def _check_fit(self, tensordict: TensorDictBase) -> None:
        dist: Distribution = self.get_dist(tensordict)
        if len(self._out_keys) == 1 and not isinstance(dist, CompositeDistribution):
            check_distribution(dist, self._out_keys[0], self._spec[self._out_keys[0]])
        self._fit_checked = True


class SafeProbabilisticTensorDictSequential(ProbabilisticTensorDictSequential, SafeSequential):
    """Modules over TensorDicts that run one after another, where the last one draws from a distribution.

    Args:
        *modules: the modules, in order.
        partial_tolerant: whether to leave out modules whose inputs are missing.
        inplace: whether to write into the TensorDict that is read. None: each module decides.

    Example:
        >>> import torch
        >>> from rlnb.data import Categorical
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> network = TensorDictModule(torch.nn.Linear(4, 3), ["observation"], ["logits"])
        >>> draw = SafeProbabilisticModule(
        ...     ["logits"], ["action"], spec=Categorical(3), distribution_class=torch.distributions.Categorical
        ... )
        >>> policy = SafeProbabilisticTensorDictSequential(network, draw)
        >>> data = TensorDict({"observation": torch.zeros(2, 4)}, [2])
        >>> policy(data)["action"].shape, policy.get_dist(data)
        (torch.Size([2]), Categorical(logits: torch.Size([2, 3])))
    """

    _unwraps_as_sequence = True

    def __init__(self, *modules: Any, partial_tolerant: bool = False, inplace: bool | None = None) -> None:
        super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace)

    def __getitem__(self, index: int | slice | str) -> Any:
        """Return a module, or for a slice a plain sequence of those modules, which draws if its last module does."""
        return SafeSequential.__getitem__(self, index)

    def get_dist(
        self, tensordict: TensorDictBase, tensordict_out: TensorDictBase | None = None, **kwargs: Any
    ) -> Distribution:
        """Return the distribution that the last module draws from.

        Args:
            tensordict: data with the inputs. What the modules in front of the last one compute is written into it.
            tensordict_out: where to write instead.
            **kwargs: those of tensordict's method of the same name.

        Returns:
            The distribution.
        """
        last = self[-1]
        if self.return_composite or not isinstance(last, ProbabilisticTensorDictSequential):
            return super().get_dist(tensordict, tensordict_out, **kwargs)
        # tensordict 0.15 expects the parameters of a nested sequence, such as a ProbabilisticActor, to be there.
        return last.get_dist(self.get_dist_params(tensordict, tensordict_out, **kwargs), **kwargs)

    def _kind_of(self, modules: list[Any]) -> Any:
        draws = (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential)
        return SafeProbabilisticTensorDictSequential if modules and isinstance(modules[-1], draws) else SafeSequential


def check_parameters(distribution: Any, in_keys: NestedKey | Sequence[NestedKey] | dict[str, NestedKey]) -> None:
    """Check that keys end in names of arguments of a distribution.

    Raises:
        ValueError: If one does not.
    """
    if not isinstance(distribution, type) or distribution is CompositeDistribution:
        return
    keys = [in_keys] if isinstance(in_keys, (str, tuple)) else list(in_keys)
    names = [as_tuple(key)[-1] for key in keys]
    parameters = inspect.signature(distribution).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = [name for name in names if name not in parameters]
    if unknown:
        raise ValueError(
            f"{distribution.__name__} has no parameter {unknown[0]!r}; it has: {', '.join(parameters)}. in_keys are "
            "the entries that become the parameters of the distribution, not the inputs of the network. Fix: "
            f"in_keys={{'{next(iter(parameters))}': {keys[names.index(unknown[0])]!r}}}, or rename what the network "
            "writes."
        )
