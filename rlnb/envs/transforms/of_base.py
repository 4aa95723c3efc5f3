"""Attributes that an env around another shares with it."""

from __future__ import annotations

from typing import Any


class OfBase:
    """An attribute of the base env, read and written through the env around it.

    Args:
        default: what is read where the base env has no such attribute.
    """

    def __init__(self, default: Any = None) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type | None = None) -> Any:
        """Read it off the base env."""
        return self if env is None else getattr(env._base, self.name, self.default)

    def __set__(self, env: Any, value: Any) -> None:
        """Write it to the base env. What the constructors of an env set before there is one is of no account."""
        base = env.__dict__.get("_base")
        if base is not None:
            setattr(base, self.name, value)


__all__ = ["OfBase"]
