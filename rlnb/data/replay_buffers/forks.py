"""What the locks of replay buffers do when their process is forked, which takes none of its other threads along."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What wants to know of forks."""

    def _before_fork(self) -> None:
        """Prepare; in the thread that is about to fork."""

    def _after_fork(self, child: bool) -> None:
        """Go on, in the process that was forked or in the new one."""


_FOLLOWERS: weakref.WeakSet[Forked] = weakref.WeakSet()


def follow(follower: Forked) -> None:
    """Tell somebody of each fork, for as long as they are there.

    Args:
        follower: whom to tell.
    """
    _register()
    _FOLLOWERS.add(follower)


@functools.cache  # once, and only where it is needed: no import changes a global
def _register() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before, after_in_parent=lambda: _after(child=False), after_in_child=lambda: _after(child=True)
        )


def _before() -> None:
    for follower in list(_FOLLOWERS):
        follower._before_fork()


def _after(child: bool) -> None:
    for follower in list(_FOLLOWERS):
        follower._after_fork(child)
