"""The words a check is written in: ask the learner's function, require something, fail, be satisfied."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np
import torch

from .running import shortened
from .verdict import Outcome


class Stop(Exception):
    """Ends a check with an outcome; only :mod:`exercises` catches it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


def fail(message: str, picture: Any = None) -> NoReturn:
    """End the check: the answer is wrong, and this is why.

    Args:
        message: what is wrong, without the answer; words in backticks are shown as code.
        picture: something to show below, such as a visualizer of the result.

    Raises:
        Stop: always; the exercise turns it into a verdict.
    """
    raise Stop(Outcome("wrong", message, picture))


def require(condition: object, message: str, picture: Any = None) -> None:
    """End the check as :func:`fail` does unless ``condition`` holds.

    Args:
        condition: what must be true of the answer.
        message: what is wrong when it is not.
        picture: an object to show below, or a function of no arguments that makes it (called only when needed).

    Raises:
        Stop: when the condition does not hold.
    """
    if not condition:
        fail(message, picture() if callable(picture) else picture)


def right(message: str = "", picture: Any = None) -> Outcome:
    """What a check returns when it is satisfied and has something to say or to show.

    Args:
        message: what the learner may take away from the exercise.
        picture: something to show below.

    Returns:
        The outcome, for the check to return.
    """
    return Outcome("right", message, picture)


def ask(function: Callable[..., Any], *args: Any, may_change: bool = False, **kwargs: Any) -> Any:
    """Call the learner's function and look after what usually goes wrong first.

    Ends the check when ``function`` cannot be called, when it still returns the stub's ``...``, and when it changed
    an argument that is data (a tensor, an array, a TensorDict, a dict or a list) without ``may_change``.

    Args:
        function: the learner's function.
        *args: its positional arguments.
        may_change: whether the task is to change the arguments in place.
        **kwargs: its keyword arguments.

    Returns:
        What the function returned; NumPy's scalars as Python's, its arrays as tensors (see :func:`plain`).

    Raises:
        Stop: in the cases above.

    Example:
        >>> ask(lambda rewards: sum(rewards), [1.0, 2.0])
        3.0
    """
    name = f"`{name_of(function)}`"
    if not callable(function):
        fail(f"Expected a function, got an object of type `{type(function).__name__}`.")
    given = {f"argument {i + 1}": arg for i, arg in enumerate(args)} | kwargs
    before = {} if may_change else {key: _copy(arg) for key, arg in given.items() if _is_data(arg)}
    result = plain(function(*args, **kwargs))
    if has_ellipsis(result):
        raise Stop(Outcome("todo", f"{name} still returns `...`. Replace it with the value to return."))
    for key, old in before.items():
        where = first_change(old, given[key], "")
        if where is not None:
            place = f" at `{where}`" if where else ""
            fail(f"{name} changed its input ({key}{place}). Work on a copy instead.")
    return result


def plain(value: Any) -> Any:
    """Turn NumPy's scalars into Python's and its arrays into tensors, in tuples, lists and dicts too.

    Args:
        value: what a learner's function returned.

    Returns:
        The same where there is nothing of NumPy's.

    Example:
        >>> import numpy as np
        >>> plain([np.int64(3), np.bool_(True), np.array(0.5)]), plain(np.ones(2)).dtype
        ([3, True, 0.5], torch.float64)
    """
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "bifu":
        return torch.from_numpy(value.copy())
    if type(value) in (tuple, list) and any(isinstance(part, np.generic | np.ndarray) for part in value):
        return type(value)(map(plain, value))
    if type(value) is dict and any(isinstance(part, np.generic | np.ndarray) for part in value.values()):
        return {key: plain(part) for key, part in value.items()}
    return value


def as_number(value: Any, expected: str = "a number") -> float:
    """Take a number, or a tensor of one element, as a Python number, or end the check.

    Args:
        value: what a learner's function returned.
        expected: what was expected, as the message names it.

    Returns:
        The number: an int of an integer, a float of any other, a bool of a flag.

    Raises:
        Stop: If the value is not a number.
    """
    value = plain(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.item()
    require(isinstance(value, int | float), f"Expected {expected}, got {kind_of(value)}.")
    return cast("float", value)


def name_of(answer: object) -> str:
    """The name a learner knows an object by."""
    try:
        return shortened(str(getattr(answer, "__name__", type(answer).__name__)), 80)
    except Exception:  # a learner's class may answer as it likes
        return type(answer).__name__


def kind_of(value: object) -> str:
    """Say what kind of object a learner's function returned where another was expected.

    Example:
        >>> import torch
        >>> kind_of([0.5]), kind_of(None)
        ('a `list`', '`None` (is a `return` missing?)')
        >>> kind_of(torch.ones(2, 3).max(-1))
        'an object with `.values` and `.indices`'
    """
    if value is None:
        return "`None` (is a `return` missing?)"
    kind: Any = type(value)
    if kind.__module__ == "torch.return_types":  # its name, such as "max", would say nothing
        return "an object with " + " and ".join(f"`.{part}`" for part in kind.__match_args__)
    return f"a `{kind.__name__}`"


def has_ellipsis(value: object, _seen: frozenset[int] = frozenset()) -> bool:
    """Whether a value is ``...``, or a tuple, list or dict that still has ``...`` in it."""
    if not isinstance(value, tuple | list) and type(value) is not dict:
        return value is ...
    if id(value) in _seen:  # it holds itself
        return False
    seen = _seen | {id(value)}
    return any(has_ellipsis(part, seen) for part in (value.values() if isinstance(value, dict) else value))


def first_change(old: Any, new: Any, path: str) -> str | None:
    """Where two pieces of data differ first: an index such as ``["next"]["reward"]``, or ``None`` when they do not."""
    if _is_mapping(old):
        if not _is_mapping(new) or set(old.keys()) != set(new.keys()):
            odd = sorted(set(map(str, old.keys())) ^ set(map(str, new.keys()))) if _is_mapping(new) else []
            return path + (f'["{odd[0]}"]' if odd else "")
        return _first(first_change(old[key], new[key], f'{path}["{key}"]') for key in old.keys())  # noqa: SIM118 - a TensorDict iterates its rows
    if isinstance(old, list | tuple):
        if len(old) != len(new):
            return path
        return _first(first_change(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(old, new, strict=True)))
    if _is_array(old):
        same = old.shape == new.shape and old.dtype == new.dtype
        return None if same and bool(((old == new) | ((old != old) & (new != new))).all()) else path
    comparable: bool = getattr(type(old), "__eq__", None) is not getattr(object, "__eq__", None)
    return path if comparable and old != new and not (old != old and new != new) else None


def _first(found: Any) -> str | None:
    return next((where for where in found if where is not None), None)


def _is_mapping(value: object) -> bool:
    return not isinstance(value, type) and hasattr(value, "keys") and hasattr(value, "items")


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") and not _is_mapping(value)


def _copy(value: Any) -> Any:
    # A tensor is asked about at every step of a rollout, and deepcopy takes ten times as long.
    return value.detach().clone() if type(value) is torch.Tensor else copy.deepcopy(value)


def _is_data(value: object) -> bool:
    return isinstance(value, list | tuple) or _is_mapping(value) or _is_array(value)
