"""Recurrent mode: whether recurrent modules take their data for single steps or for whole sequences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Literal, TypeVar

Mode = bool | Literal["recurrent", "sequential"] | None
Function = TypeVar("Function", bound=Callable[..., Any])

_MODES: dict[Any, bool | None] = {True: True, False: False, None: None, "recurrent": True, "sequential": False}
_current: ContextVar[bool | None] = ContextVar("recurrent_mode", default=None)


class set_recurrent_mode:
    """Set the mode of all recurrent modules for a block of code, or while a decorated function runs.

    Blocks can be nested; at the end of one the mode from before is back.

    Args:
        mode: True or ``"recurrent"``: the last dimension of the data is time, and modules run over whole sequences.
            False or ``"sequential"``: each entry of the data is a single step. None: each module follows its own
            ``default_recurrent_mode``.

    Raises:
        ValueError: if there is no such mode.

    Example:
        >>> with set_recurrent_mode(True):
        ...     recurrent_mode()
        True
        >>> recurrent_mode() is None
        True
    """

    def __init__(self, mode: Mode = True) -> None:
        if not isinstance(mode, (bool, str, type(None))) or mode not in _MODES:
            raise ValueError(f"There is no recurrent mode {mode!r}. The modes are: True, False, {_names()} and None.")
        self.mode = _MODES[mode]
        self._tokens: list[Token[bool | None]] = []

    def __enter__(self) -> None:
        """Set the mode."""
        self._tokens.append(_current.set(self.mode))

    def __exit__(self, *exc: object) -> None:
        """Set the mode from before."""
        _current.reset(self._tokens.pop())

    def __call__(self, function: Function) -> Function:
        """Set the mode while a function runs.

        Args:
            function: any function.

        Returns:
            A function that does the same in this mode.
        """

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.mode):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]  # wraps keeps what the caller sees


def recurrent_mode() -> bool | None:
    """Return the mode that :class:`set_recurrent_mode` has set; None outside of it.

    Example:
        >>> @set_recurrent_mode("sequential")
        ... def mode():
        ...     return recurrent_mode()
        >>> mode()
        False
    """
    return _current.get()


def _names() -> str:
    return ", ".join(repr(name) for name in _MODES if isinstance(name, str))


__all__ = ["Mode", "recurrent_mode", "set_recurrent_mode"]
