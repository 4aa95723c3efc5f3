"""Closing an environment inside another."""

from __future__ import annotations

from rlnb.envs.base import EnvBase


def close(env: EnvBase, raise_if_closed: bool) -> None:
    """Close an env inside another. Its ``close`` may be a user's that takes no arguments.

    Args:
        env: the env.
        raise_if_closed: passed on if it is True.
    """
    if raise_if_closed:
        env.close(raise_if_closed=True)
    else:
        env.close()


__all__ = ["close"]
