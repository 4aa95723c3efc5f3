"""Handmade traces, with times that are easy to add up."""

from __future__ import annotations

import numpy as np
import pytest

from rlnb.envs.batched.trace import BatchTrace, Turn

ORIGIN = 7_000_000


def turn(what, start, stop, moments, n):
    """A turn; times in microseconds, moments by env: told, acted, written."""
    rows = np.zeros((n, 4), dtype=np.int64)
    for env, (told, acted, written) in moments.items():
        rows[env, [0, 2 if what == "reset" else 1, 3]] = [ORIGIN + 1000 * (start + t) for t in (told, acted, written)]
    return Turn(what, tuple(moments), ORIGIN + 1000 * start, ORIGIN + 1000 * stop, rows)


@pytest.fixture
def serial():
    """Two envs one after the other: reset, step 0, step 1, a reset of env 1, step 2."""
    steps = {0: (0, 30, 30), 1: (30, 60, 60)}
    turns = [
        turn("reset", 0, 100, {0: (0, 50, 50), 1: (50, 100, 100)}, 2),
        turn("step", 120, 180, steps, 2),
        turn("step", 200, 260, steps, 2),
        turn("reset", 260, 310, {1: (0, 50, 50)}, 2),
        turn("step", 340, 400, steps, 2),
    ]
    return BatchTrace("SerialEnv", 2, turns)


@pytest.fixture
def parallel():
    """The same, side by side, with rows written after the env has acted."""
    steps = {0: (10, 40, 50), 1: (15, 45, 60)}
    turns = [
        turn("reset", 0, 80, {0: (10, 60, 70), 1: (15, 65, 75)}, 2),
        turn("step", 100, 170, steps, 2),
        turn("step", 190, 260, steps, 2),
        turn("reset", 260, 330, {1: (10, 60, 65)}, 2),
        turn("step", 350, 420, steps, 2),
    ]
    return BatchTrace("ParallelEnv", 2, turns)


@pytest.fixture
def long():
    """Make a trace of many steps, each of 30 microseconds, with a reset of one env every hundred steps."""

    def made(steps, envs):
        turns, at = [], 0
        moments = {env: (2, 10 + env % 8, 12 + env % 8) for env in range(envs)}
        for step in range(steps):
            turns.append(turn("step", at, at + 25, moments, envs))
            at += 30
            if step % 100 == 99:
                turns.append(turn("reset", at, at + 25, {step // 100 % envs: (2, 10, 12)}, envs))
                at += 30
        return BatchTrace("ParallelEnv", envs, turns)

    return made
