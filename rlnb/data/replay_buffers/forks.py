"""Hooks that replay buffers run when their process forks, because a fork copies only the calling thread."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object with locks that must survive a fork."""

    def _before_fork(self) -> None:
        """Prepare for a fork by this thread."""

    def _after_fork(self, child: bool) -> None:
        """Continue after a fork, in the child or in the parent."""


_FOLLOWERS: weakref.WeakSet[Forkable] = weakref.WeakSet()


def follow(follower: Forkable) -> None:
    """Call the hooks of an object at each fork as long as it exists."""
    _register()
    _FOLLOWERS.add(follower)


@functools.cache  # once, and only when it is needed: no import changes a global
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
