"""Recorded resets and steps of a copy of an env, which leave the user's env unchanged."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.batched.batched_env import BatchedEnvBase
from rlnb.envs.transforms.transformed_env import TransformedEnv
from rlnb_widgets.transform_inspector.model import error_text
from rlnb_widgets.transform_inspector.probe import Log, flat, probed
from rlnb_widgets.transform_inspector.schema import Moment, Value, What
from rlnb_widgets.transform_inspector.values import describe_values

MAX_OBJECTS = 10_000


class CannotCopy(RuntimeError):
    """An env cannot be copied, so nothing can be run without changing it."""


class Session:
    """Steps a copy of an env, box by box; with ``owned`` the env itself. No global random generator is changed.

    ``seed`` seeds the copy and the random numbers of transforms. None continues from the state of the env.

    Raises:
        CannotCopy: If the env cannot be copied; the message says why and what to do.
    """

    def __init__(self, env: TransformedEnv, seed: int | None = None, owned: bool = False) -> None:
        self._random = _Random(seed)
        own = env if owned else _copied(env)
        members = [member for member, _ in flat(own.transform)]
        inverts = own.transform.invertible
        for member in members:
            member.reset_parent()
        self._log, self._count, self._inverts = Log(), len(members), inverts
        chain = probed(members, self._log, inverts)
        own.transform = chain  # type: ignore[misc]  # set by its __setattr__
        self._env: TransformedEnv = own
        self._next: TensorDictBase | None = None
        self._steps = 0
        with self._random.used():
            if seed is not None:
                own.set_seed(seed)

    def run(self, what: What, tensordict: TensorDictBase | None = None) -> tuple[Moment, ...]:
        """Reset or step the copy once, and return what passed, with errors as text.

        A reset comes first, and is recorded separately, if a step has no state to start from or an episode has ended.
        By default a step starts from the last state with a random action.
        """
        first = self._noted("reset", self._begin) if what == "step" and tensordict is None else None
        if first is not None and first.error:
            return (first,)
        run = self._reset if what == "reset" else self._step
        moment = self._noted(what, lambda: run(tensordict))
        return tuple(found for found in (first, moment) if found is not None)

    def _noted(self, what: What, run: Callable[[], bool]) -> Moment | None:
        """Run something and describe what passed; None if it did nothing."""
        self._log.clear()
        try:
            with self._random.used():
                return self._moment(what) if run() else None
        except Exception as error:
            self._next = None
            return self._moment(what, error_text(error))

    def _begin(self) -> bool:
        """Reset everything without a state to start from, else what has ended; return whether anything was reset."""
        last = self._next
        if last is None:
            return self._reset(None)
        self._next = self._env.maybe_reset(last)
        done = last.get("done", None)
        if done is not None and bool(done.all()):
            self._steps = 0
        return self._next is not last

    def _reset(self, given: TensorDictBase | None) -> bool:
        self._steps = 0
        self._next = self._env.reset(None if given is None else given.clone())
        return True

    def _step(self, given: TensorDictBase | None) -> bool:
        self._steps += 1
        if given is None:
            assert self._next is not None
            given = self._env.rand_action(self._next)
        self._next = step_mdp(self._env.step(given.clone()))
        return True

    def _moment(self, what: What, error: str = "") -> Moment:
        places = range(self._count + 1)
        label = "reset" if what == "reset" else f"step {self._steps}"
        forward = [self._log.forward.get(place) for place in places]
        inverse = [self._log.inverse.get(place) for place in places]
        out, inward = _described(forward), tuple(reversed(_described(inverse[::-1])))
        if not error:
            return Moment(what, label, out, inward)
        failed, backwards = self._where(what)
        return Moment(what, label, out, inward, failed, backwards, error)

    def _where(self, what: What) -> tuple[int, bool]:
        """Return the box that the data did not come out of, and whether that was on the way in."""
        if self._log.forward:
            return max(self._log.forward), False
        if what == "step" and self._inverts and 0 not in self._log.inverse:
            return min(self._log.inverse, default=self._count + 1) - 1, True
        return -1, False


def _described(stages: list[TensorDictBase | None]) -> tuple[tuple[Value, ...] | None, ...]:
    before, found = None, []
    for stage in stages:
        found.append(None if stage is None else describe_values(stage, before))
        before = stage
    return tuple(found)


class _Random:
    """The global random generators as a session sees them, separate from those of the program."""

    def __init__(self, seed: int | None) -> None:
        self._state: Any = None
        if seed is not None:
            with self.used():
                torch.manual_seed(seed)
                np.random.seed(seed % 2**32)
                random.seed(seed)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Use them for a while in place of those of the program."""
        kept = _states()
        if self._state is not None:
            _put(self._state)
        try:
            yield
        finally:
            self._state = _states()
            _put(kept)


def _states() -> Any:
    return torch.get_rng_state(), np.random.get_state(), random.getstate()


def _put(states: Any) -> None:
    torch.set_rng_state(states[0])
    np.random.set_state(states[1])
    random.setstate(states[2])


def _copied(env: TransformedEnv) -> TransformedEnv:
    fix = "Fix: pass a function that makes the env, TransformInspector(make_env), which gets one of its own."
    try:
        return copy.deepcopy(env, _left_out(env))
    except CannotCopy as error:
        raise CannotCopy(f"Nothing was run: {error} {fix}") from error
    except Exception as error:
        raise CannotCopy(f"Nothing was run: the env cannot be copied ({error_text(error)}). {fix}") from error


def _left_out(env: Any) -> dict[int, Any]:
    """Return a ``deepcopy`` memo that leaves out windows and clocks, which are made again when needed."""
    memo: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [env]
    while waiting and len(seen) < MAX_OBJECTS:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, (torch.Tensor, np.ndarray, type)):
            continue
        seen.add(id(found))
        # Their envs share memory by views, which a copy would separate.
        if isinstance(found, BatchedEnvBase):
            raise CannotCopy(f"the envs of a {type(found).__name__} cannot be copied.")
        if type(found).__module__.partition(".")[0] in ("pygame", "pygame_ce"):
            memo[id(found)] = None
        elif isinstance(found, dict):
            waiting += found.values()
        elif isinstance(found, (list, tuple)):
            waiting += found
        else:
            waiting += getattr(found, "__dict__", {}).values()
    return memo
