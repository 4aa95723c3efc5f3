"""Recurrent mode: whether recurrent modules run over single steps or over whole sequences.

The mode lives here because transforms set it, and modules, which read it, already depend on envs.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar, Token
from typing import Any, Literal

Mode = bool | Literal["recurrent", "sequential"] | None

_MODES: dict[Any, bool | None] = {True: True, False: False, None: None, "recurrent": True, "sequential": False}
_current: ContextVar[bool | None] = ContextVar("recurrent_mode", default=None)


class set_recurrent_mode(contextlib.ContextDecorator):
    """Sets the mode of all recurrent modules, as a context manager or as a decorator.

    Blocks can be nested; leaving a block restores the previous mode.

    Args:
        mode: True or ``"recurrent"``: the last dimension of the data is time, and modules run over whole sequences.
            False or ``"sequential"``: each item of the data is a single step. None: each module follows its own
            ``default_recurrent_mode``.

    Raises:
        ValueError: If ``mode`` is not one of these values.

    Example:
        >>> with set_recurrent_mode(True):
        ...     recurrent_mode()
        True
        >>> recurrent_mode() is None
        True
    """

    def __init__(self, mode: Mode = True) -> None:
        if not isinstance(mode, (bool, str, type(None))) or mode not in _MODES:
            names = ", ".join(repr(name) for name in _MODES if isinstance(name, str))
            raise ValueError(f"There is no recurrent mode {mode!r}. The modes are: True, False, {names} and None.")
        self.mode = _MODES[mode]
        self._tokens: list[Token[bool | None]] = []

    def __enter__(self) -> None:
        """Set the mode."""
        self._tokens.append(_current.set(self.mode))

    def __exit__(self, *exc: object) -> None:
        """Restore the previous mode."""
        _current.reset(self._tokens.pop())

    def _recreate_cm(self) -> set_recurrent_mode:
        return type(self)(self.mode)  # for each call of a decorated function, as threads may call it at once


def recurrent_mode() -> bool | None:
    """Return the mode that :class:`set_recurrent_mode` has set; None outside of any such block.

    Example:
        >>> @set_recurrent_mode("sequential")
        ... def mode():
        ...     return recurrent_mode()
        >>> mode()
        False
    """
    return _current.get()
