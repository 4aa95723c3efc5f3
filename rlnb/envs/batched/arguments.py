"""Arguments of batched environments: one value for each env, and checks of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def one_each(given: Any, n: int, name: str) -> list[Any]:
    """Expand an argument, a list with a value for each env or a single value for all, to a list of length ``n``."""
    if not isinstance(given, (list, tuple)):
        return [given] * n
    if len(given) != n:
        raise ValueError(
            f"{name} must have one value for each of the {n} envs, got a list of {len(given)}. "
            "Fix: a list of that length, or a single value for all envs."
        )
    return list(given)


def kwargs_each(given: Any, n: int, name: str = "create_env_kwargs") -> list[dict[str, Any]]:
    """Expand keyword arguments, a mapping or a list with one for each env, to a new dictionary for each env."""
    each = one_each({} if given is None else given, n, name)
    for i, kwargs in enumerate(each):
        if not isinstance(kwargs, Mapping):
            raise TypeError(f"{name} must hold keyword arguments by name, got a {type(kwargs).__name__} for env {i}.")
    return [dict(kwargs) for kwargs in each]


def check_batch_options(name: str, pin_memory: Any, allow_step_when_done: Any, shutdown_timeout: Any) -> None:
    """Raise ValueError if an option of a batch has a value that is not supported."""
    if pin_memory:
        raise ValueError(
            f"{name}(pin_memory=True) is not supported, and deprecated in TorchRL: the memory that the envs write to "
            "is shared between processes and not pinned. Fix: leave pin_memory out, and pin what is sent to a GPU: "
            "batch.pin_memory()."
        )
    if allow_step_when_done:
        raise ValueError(
            f"{name}(allow_step_when_done=True) is not supported, and deprecated in TorchRL: an env that is done must "
            "be reset before its next step. Fix: leave allow_step_when_done out, and use env.step_and_maybe_reset(td)."
        )
    number = isinstance(shutdown_timeout, (int, float)) and not isinstance(shutdown_timeout, bool)
    if not number or not shutdown_timeout > 0:
        raise ValueError(
            f"{name}(shutdown_timeout=...) must be a positive number of seconds, got {shutdown_timeout!r}. "
            "Fix: shutdown_timeout=10.0."
        )
