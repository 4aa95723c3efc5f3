"""Modules over TensorDicts as functions of plain tensors, for loops that call small networks many times.

Around a network of two layers a TensorDictModule spends several times what the network itself takes: it looks for
hooks, for a mode that skips it, for tensors in place of a TensorDict, and checks what it writes. :func:`unwrapped`
looks once, and returns a function that does the rest. It is ``None`` for every module that may do more than the classes
that are known here: subclasses, hooks, a replaced ``forward``, options.

A class of our own takes part with a method ``_unwrap(batch_size)``, which returns the function or ``None``. Its
subclasses do not inherit that, since they may override anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.modules.module as all_modules
from tensordict import TensorDict
from tensordict.nn import (
    CompositeDistribution,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    skip_existing,
)
from torch.distributions import Categorical, Distribution

from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.exploration import ExplorationType, exploration_type

Entries = dict[NestedKey, Any]
"""Tensors by key, nested keys as tuples."""

Function = Callable[[Entries], None]
"""Reads tensors from entries, and adds others."""


def unwrapped(module: Any, batch_size: torch.Size | None = None) -> Function | None:
    """Return what a module over TensorDicts computes, as a function of tensors; ``None`` if it may do more than that.

    The function is valid until the module changes, a hook is registered, or the exploration type is another one. Where
    an input is missing, it raises ``KeyError``.

    Args:
        module: the module.
        batch_size: batch size of the data, which modules that explore need to know. None: it may be any.

    Example:
        >>> module = TensorDictModule(torch.nn.Identity(), ["a"], ["b"])
        >>> entries = {"a": torch.ones(2)}
        >>> unwrapped(module)(entries)
        >>> entries["b"]
        tensor([1., 1.])
        >>> _ = module.register_forward_hook(print)
        >>> unwrapped(module) is None
        True
    """
    steps = _steps(module, batch_size)
    if steps is None or skip_existing():
        return None
    if len(steps) == 1:
        return steps[0]

    def run(entries: Entries) -> None:
        for step in steps:
            step(entries)

    return run


def unwrapped_dist(policy: Any) -> Callable[[Entries], Distribution] | None:
    """Return ``policy.get_dist`` as a function of tensors, to which the outputs of the networks are added.

    Example:
        >>> policy = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(torch.nn.Identity(), ["a"], ["logits"]),
        ...     ProbabilisticTensorDictModule(["logits"], ["b"], distribution_class=torch.distributions.Categorical),
        ... )
        >>> entries = {"a": torch.zeros(3)}
        >>> unwrapped_dist(policy)(entries).probs.sum(), sorted(entries)
        (tensor(1.), ['a', 'logits'])
    """
    modules = _modules(policy)
    if not modules or not hasattr(policy, "get_dist"):
        return None
    *networks, last = modules
    make = _dist_maker(last)
    if make is None or skip_existing() or "get_dist" in vars(policy):
        return None
    steps: list[Function] = []
    for module in networks:
        own = _steps(module)
        if own is None:
            return None
        steps += own

    def get_dist(entries: Entries) -> Distribution:
        for step in steps:
            step(entries)
        return make(entries)

    return get_dist


class Unwrapping:
    """Functions of modules, made once and made again after a hook was registered or a mode was set.

    Making one takes as long as calling it. It is not made again when keys or options of a module change.

    Example:
        >>> module, unwrapping = TensorDictModule(torch.nn.Identity(), ["a"], ["b"]), Unwrapping()
        >>> unwrapping(module) is unwrapping(module)
        True
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, Any], tuple[Any, Any, Any, list[Any]]] = {}

    def __call__(self, module: Any, make: Callable[[Any], Any] = unwrapped) -> Any:
        """Return ``make(module)``, where ``make`` is a function such as :func:`unwrapped` or :func:`unwrapped_dist`."""
        owner, kind, function, parts = self._known.get((id(module), make), (None, None, None, []))
        same = owner is module and kind is exploration_type()
        if same and not skip_existing() and all(_is_plain(part) for part in parts):
            return function
        function = make(module)
        parts = [part for part in module.modules() if isinstance(part, TensorDictModuleBase)]
        if function is not None:
            self._known[id(module), make] = module, exploration_type(), function, parts
        return function

    def __reduce__(self) -> Any:
        return Unwrapping, ()  # a copy belongs to other modules


def of_module(module: TensorDictModule, batch_size: torch.Size | None = None) -> Function | None:
    """Unwrap a module that calls a torch module, or any function, and writes its results."""
    if module._kwargs or module.method is not None or module.method_kwargs or module.strict or not module.inplace:
        return None
    if module.inplace == "empty":
        return None
    call, in_keys, out_keys = module.module, module.in_keys, module.out_keys
    if "_" in out_keys or module.out_keys_source != out_keys:
        return None
    if len(in_keys) == len(out_keys) == 1:
        in_key, out_key = in_keys[0], out_keys[0]

        def of_one(entries: Entries) -> None:
            result = call(entries[in_key])
            if type(result) is torch.Tensor:
                entries[out_key] = result
            else:
                write(entries, result)

        return of_one

    def write(entries: Entries, result: Any) -> None:
        values = result if type(result) is tuple else (result,)
        if len(values) == len(out_keys) and all(isinstance(value, torch.Tensor) for value in values):
            entries.update(zip(out_keys, values, strict=True))
            return
        # Others, such as dictionaries, are written as the module writes them.
        found = TensorDictModule(lambda *_: result, [], out_keys)(TensorDict({}))
        entries.update((key, found.get(key)) for key in out_keys)

    def of_several(entries: Entries) -> None:
        write(entries, call(*[entries[key] for key in in_keys]))

    return of_several


def of_draw(module: ProbabilisticTensorDictModule, batch_size: torch.Size | None = None) -> Function | None:
    """Unwrap a module that draws one value, with its log-probability if that is wanted."""
    make = _dist_maker(module)
    if make is None or module.num_samples is not None or len(module.dist_sample_keys) != 1:
        return None
    if module._generator is not None or module._generator_key is not None or not hasattr(module, "_dist_sample"):
        return None
    kind = exploration_type() or module.default_interaction_type
    key: Any = module.dist_sample_keys[0]
    log_prob_key: Any = module.log_prob_key if module.return_log_prob else None
    random = kind is ExplorationType.RANDOM

    def draw(entries: Entries) -> None:
        dist: Any = make(entries)
        if not random:
            value = module._dist_sample(dist, interaction_type=kind)
        else:
            name = "rsample" if dist.has_rsample else "sample"
            # Some distributions compute both at once, which keeps what tanh would lose.
            both = log_prob_key and getattr(dist, f"{name}_and_log_prob", None)
            if both:
                entries[key], entries[log_prob_key] = both()
                return
            value = getattr(dist, name)()
        entries[key] = value
        if log_prob_key is not None:
            entries[log_prob_key] = dist.log_prob(value)

    return draw


class UncheckedCategorical(Categorical):
    """Categorical distribution that checks its arguments only where it fails: the same numbers, a third of the time.

    Args:
        logits: log-probabilities up to a constant, ``[*batch, n]``.

    Example:
        >>> UncheckedCategorical(torch.zeros(2)).log_prob(torch.tensor(1))
        tensor(-0.6931)
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = self._param = logits.log_softmax(-1)  # as torch's own constructor does
        self._num_events = logits.shape[-1]
        Distribution.__init__(self, logits.shape[:-1], validate_args=False)

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The most likely index."""
        return self.logits.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> torch.Tensor:
        """Draw indices, ``[*sample_shape, *batch]``."""
        if sample_shape:
            return self._checked().sample(sample_shape)
        probs = self.logits.detach().softmax(-1)
        # What torch.multinomial does for one index, without its checks, which take two thirds of the time.
        scores, indices = (probs / torch.empty_like(probs).exponential_()).max(-1)
        if math.isnan(scores.sum() if scores.ndim else scores):
            return self._checked().sample()  # raises an error that says what is wrong with the logits
        return indices

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of indices, ``[*batch]``."""
        if value.shape != self._batch_shape or value.dtype is not torch.int64:
            return self._checked().log_prob(value)
        try:
            return self.logits.gather(-1, value.unsqueeze(-1)).squeeze(-1)
        except RuntimeError:
            self._checked().log_prob(value)  # raises an error that names the legal indices
            raise

    def entropy(self) -> torch.Tensor:
        """Return the entropy, ``[*batch]``; an index of probability 0 adds nothing to it."""
        logits = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.logits.softmax(-1)).sum(-1)

    def _checked(self) -> Categorical:
        return Categorical(logits=self.logits, validate_args=True)


_KNOWN: dict[type, Callable[[Any, torch.Size | None], Function | None]] = {
    TensorDictModule: of_module,
    ProbabilisticTensorDictModule: of_draw,
}
_SEQUENCES = (TensorDictSequential, ProbabilisticTensorDictSequential)


def _steps(module: Any, batch_size: torch.Size | None = None) -> list[Function] | None:
    """Unwrap a module, or each of a sequence of them."""
    modules = _modules(module)
    if modules is None:
        if not isinstance(module, TensorDictModuleBase) or not _is_plain(module):
            return None
        make = _KNOWN.get(type(module)) or vars(type(module)).get("_unwrap")
        found = make and make(module, batch_size)
        return found and [found]
    steps: list[Function] = []
    for one in modules:
        own = _steps(one, batch_size)
        if own is None:
            return None
        steps += own
    return steps


def _modules(module: Any) -> list[Any] | None:
    """Return the modules of a sequence that does no more than to call them."""
    if type(module) not in _SEQUENCES and not vars(type(module)).get("_unwraps_as_sequence", False):
        return None
    if not _is_plain(module) or module.inplace not in (None, True) or module.partial_tolerant:
        return None
    if module._select_before_return:
        return None
    modules = list(module._module_iter())
    drawing = [isinstance(one, ProbabilisticTensorDictModule) for one in modules]
    # Of several draws a sequence makes one distribution, and it may keep a value that is there already.
    one_draw = drawing == [False] * (len(modules) - 1) + [True]
    if isinstance(module, ProbabilisticTensorDictSequential) and not (
        one_draw and module._requires_sample and not module.return_composite
    ):
        return None
    return modules


def _is_plain(module: Any) -> bool:
    """Whether a call of a module is a call of the ``forward`` of its class."""
    own = module.__dict__
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
    shared = all_modules._global_forward_hooks or all_modules._global_forward_pre_hooks
    return not (hooks or shared or "forward" in own)


def _dist_maker(module: Any) -> Callable[[Entries], Distribution] | None:
    """Return ``module.get_dist`` as a function of tensors, where its distribution has a class."""
    kind = type(module)
    if kind is not ProbabilisticTensorDictModule and "_unwrap" not in vars(kind):
        return None
    if not _is_plain(module) or not isinstance(module, ProbabilisticTensorDictModule) or "get_dist" in vars(module):
        return None
    make: Any = module.distribution_class
    more = module.distribution_kwargs
    if not isinstance(make, type) or issubclass(make, CompositeDistribution) or type(more) is not dict:
        return None
    pairs = [(as_tuple(name)[-1], key) for name, key in zip(module.dist_keys, module.in_keys, strict=True)]

    def build(entries: Entries) -> Distribution:
        parameters = {name: entries[key] for name, key in pairs}
        if make is Categorical and len(parameters) == 1 and not more:
            logits = parameters.get("logits")
            if logits is not None and logits.ndim and logits.device.type == "cpu":
                return UncheckedCategorical(logits)
        found: Distribution = make(**parameters, **more)
        return found

    return build
