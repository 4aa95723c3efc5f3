"""Specs of the outputs of modules: making them from arguments, drawing from them, projecting onto them."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict import TensorDictBase
from torch import nn

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple


def as_output_spec(module: nn.Module, spec: TensorSpec | None, out_keys: Sequence[NestedKey]) -> Composite:
    """Return a composite with an entry for each output, None where nothing is known about it.

    Args:
        module: whose outputs they are, for errors.
        spec: a leaf for the only output, a composite with entries for some outputs, or None.
        out_keys: the outputs.

    Raises:
        TypeError: If ``spec`` is not a spec.
        ValueError: If a leaf is given for several outputs, or a composite has an entry that is not an output.
    """
    name = type(module).__name__
    if spec is not None and not isinstance(spec, TensorSpec):
        raise TypeError(f"The spec of {name} must be a spec, got {type(spec).__name__}. Fix: spec=env.action_spec.")
    keys = [as_key(as_tuple(key)) for key in out_keys if key != "_"]
    if spec is None:
        return Composite(dict.fromkeys(keys))
    if not isinstance(spec, Composite):
        if len(keys) != 1:
            raise ValueError(
                f"{name} has the outputs {keys}, and one spec, a {type(spec).__name__}, that could be any one's. "
                f"Fix: spec=Composite({{{keys[0]!r}: spec}})."
                if keys
                else f"{name} has no output for its spec."
            )
        return Composite({keys[0]: spec.clone()})
    own = list(spec.keys(True, True))
    unknown = [key for key in own if key not in keys]
    if unknown:
        raise ValueError(
            f"The spec of {name} has the entries {unknown}, which are not among its outputs {keys}. "
            "Fix: give the spec without them, or name them in out_keys."
        )
    result = spec.clone()
    for key in keys:
        if key not in own:
            result[key] = None
    return result


def check_safe(module: nn.Module, safe: bool, spec: Composite) -> None:
    """Raise ``ValueError`` if outputs should be projected and there is no spec to project onto."""
    if safe and all(leaf is None for leaf in spec.values(True, True)):
        raise ValueError(
            f"{type(module).__name__} was made with safe=True, which projects its outputs onto their spec, and without "
            "a spec. Fix: spec=env.action_spec, or safe=False."
        )


def project_outputs(tensordict: TensorDictBase, spec: Composite) -> None:
    """Replace each output that has a spec by the closest value within it, in place."""
    for key, leaf in spec.items(True, True):
        value = None if leaf is None else tensordict.get(key, None)
        if value is not None:
            leaf = leaf if leaf.device == value.device else leaf.to(value.device)
            tensordict.set(key, leaf.project(value))


def draw_outputs(module: nn.Module, tensordict: TensorDictBase, spec: Composite) -> TensorDictBase:
    """Write random values of all outputs that have a spec, and return the TensorDict.

    Raises:
        ValueError: If no output has a spec.
    """
    if all(leaf is None for leaf in spec.values(True, True)):
        name = type(module).__name__
        raise ValueError(f"{name} has no spec to draw random values from. Fix: {name}(..., spec=env.action_spec).")
    missing = max(tensordict.ndim - len(spec.shape), 0)
    return tensordict.update(spec.rand(tensordict.batch_size[:missing]))
