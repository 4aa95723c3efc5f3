"""Vector environments of Gymnasium without autoreset: every step is a true transition, in any autoreset mode."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import batch_space

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.spaces import spec_from_space

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"
"""When a vector env resets a sub-env that is done: at its next step, at once, or only on request."""

_FINAL = ("final_obs", "final_info", "_final_obs", "_final_info")


class VectorBackend:
    """Resets and steps a vector env so that no step mixes the data of two episodes.

    Gymnasium's vector envs may reset sub-envs on their own. Here a sub-env that is done waits for its reset:

    - in the mode DISABLED the backend waits, too;
    - in the mode NEXT_STEP a partial reset before the next step prevents the backend from using that step as a reset;
    - in the mode SAME_STEP, where the backend has reset it already, the last observation is taken from
      ``info["final_obs"]``, and the one of the reset is kept until the reset is requested.

    An env that does not name its mode, or runs in a mode in which it returns wrong data, raises ValueError.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        self.env = env
        self.mode = autoreset_mode(env)
        self._over = np.zeros(env.num_envs, dtype=bool)
        self._fresh: tuple[Any, Mapping[str, Any]] | None = None
        self._started = False
        inner: Any = env.unwrapped
        if isinstance(getattr(inner, "env_fns", None), Iterator):
            inner.env_fns = ()  # Gymnasium 1.3 keeps an exhausted generator here, which cannot be copied
        if self.mode == NEXT_STEP and getattr(env.unwrapped, "shared_memory", True) is False:
            # Its workers forget a reset that was requested: the next step would reset them again.
            raise ValueError(
                f"{_name(env)} with shared_memory=False resets its sub-envs twice in the autoreset mode {NEXT_STEP}, "
                "and the second reset would look like a step. Fix: leave shared_memory=False out, or give "
                "autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED."
            )

    def reset(
        self, mask: np.ndarray | None = None, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Mapping[str, Any]]:
        """Start new episodes of all sub-envs, or of those in the mask, bool ``[num_envs]``.

        A seed s seeds sub-env i with ``s + i``. The rows of sub-envs that are not marked have no meaning.
        """
        if mask is None:
            mask, kept = np.ones_like(self._over), np.zeros_like(self._over)
        else:
            kept = mask & self._over if self._fresh is not None and seed is None and not options else mask & False
        if not self._started and not mask.all():
            raise RuntimeError(
                f"A partial reset was requested of a {_name(self.env)} that was never reset: the sub-envs that are not "
                "marked have no state to keep. Fix: call env.reset() first."
            )
        asked = mask & ~kept
        found: tuple[Any, Mapping[str, Any]]
        if asked.all():
            with self._workers():
                found = self.env.reset(seed=seed, options=options)
        elif not asked.any() and self._fresh is not None:
            found = self._fresh
        else:
            with self._workers():
                found = self._reset_some(asked, seed, options)
            if kept.any() and self._fresh is not None:
                space = self.env.single_observation_space
                found = _mix(kept, self._fresh[0], found[0], space), _mix(kept, self._fresh[1], found[1])
        self._over &= ~mask
        self._started = True
        return found

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Mapping[str, Any]]:
        """Take one step of every sub-env.

        Returns the output of Gymnasium's step, with the observations and infos of the episode that the step belongs to.
        """
        if self._over.any():
            raise RuntimeError(
                f"step was called on an env that is done: number {int(self._over.argmax())} of {self.env.num_envs} "
                "ended and was not reset. Fix: td = env.maybe_reset(step_mdp(td)) before the next step, or "
                "env.step_and_maybe_reset(td)."
            )
        with self._workers():
            observation, reward, terminated, truncated, info = self.env.step(actions)
        terminated, truncated = np.asarray(terminated), np.asarray(truncated)
        over = terminated | truncated
        if over.any():
            self._over, self._fresh = over, None
            if self.mode == SAME_STEP:
                if "final_obs" not in info:
                    raise RuntimeError(
                        f"{_name(self.env)} resets its sub-envs in the step that ends them ({SAME_STEP}), and its info "
                        'has no "final_obs" to read the last observation from.'
                    )
                rest = {key: value for key, value in info.items() if key not in _FINAL}
                self._fresh = copy.deepcopy(observation), rest
                space = self.env.single_observation_space
                observation = _with_rows(space, observation, over, info["final_obs"])
                info = _mix(over, info.get("final_info", {}), rest)
        return observation, reward, terminated, truncated, info

    @contextlib.contextmanager
    def _workers(self) -> Iterator[None]:
        """Say which worker process of an AsyncVectorEnv has died, where pipes only say that something is gone."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            inner: Any = self.env.unwrapped
            dead, workers = [], getattr(inner, "processes", ())
            for number, process in enumerate(workers):
                process.join(0.1)
                dead += [] if process.exitcode is None else [f"{number} (exit code {process.exitcode})"]
            if not dead:
                raise
            for process in workers:
                process.terminate()
            inner.closed = True  # its close() would wait for the answers of the dead
            raise RuntimeError(
                f"The worker processes of the {_name(self.env)} that ran these sub-envs have died: {', '.join(dead)}. "
                "Likely causes: the simulator crashed, or memory ran out (exit code -9). Fix: run one env in this "
                "process to see what happens, and make the vector env again."
            ) from error

    def _reset_some(
        self, mask: np.ndarray, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, Mapping[str, Any]]:
        """Reset some of the sub-envs, or raise RuntimeError if the env cannot."""
        from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

        env, name = self.env, _name(self.env)
        general = (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv)
        if isinstance(env.unwrapped, general) or self.mode == DISABLED:
            given = {**(options or {}), "reset_mask": mask.copy()}
            return env.reset(seed=seed, options=given if env is env.unwrapped else _LastingOptions(given))
        # Wrappers around it would not notice the reset, so only the bare env is reset this way.
        if type(env) is CartPoleVectorEnv:
            if seed is not None or options:
                raise RuntimeError(f"{name} takes a seed and options only when all of its sub-envs are reset.")
            poles: Any = env
            poles.state[:, mask] = env.np_random.uniform(poles.low, poles.high, size=(4, int(mask.sum())))
            poles.steps[mask], poles.prev_done[mask] = 0, False
            return poles.state.T.astype(np.float32), {}
        raise RuntimeError(
            f"{name} cannot reset some of its sub-envs and leave the others: its autoreset mode is {self.mode}. Fix: "
            "make it of single envs, GymEnv(id, num_envs=n), or stop at the first end, "
            "env.rollout(n, break_when_any_done=True)."
        )


def autoreset_mode(env: gymnasium.vector.VectorEnv) -> str:
    """Read when a vector env resets a sub-env that is done: ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``.

    Example:
        >>> autoreset_mode(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
        'NextStep'
    """
    mode = env.metadata.get("autoreset_mode")
    value = getattr(mode, "value", mode)
    if value not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            f'{_name(env)} must say how it resets sub-envs that are done, and its metadata["autoreset_mode"] is '
            f'{mode!r}. Fix: env.metadata = {{**env.metadata, "autoreset_mode": '
            "gymnasium.vector.AutoresetMode.NEXT_STEP} (or SAME_STEP, or DISABLED: what the env does)."
        )
    return value


class _LastingOptions(dict[str, Any]):
    """Options that keep the mask although the env pops it: wrappers such as RecordEpisodeStatistics read it later."""

    def pop(self, key: str, *default: Any) -> Any:
        return self[key] if key == "reset_mask" else super().pop(key, *default)


def batched_spec(
    single: gymnasium.Space, batched: gymnasium.Space, n: int, device: torch.device | None, categorical: bool
) -> TensorSpec:
    """Make the spec of a batch ``[n, ...]`` of values of one space.

    The bounds are those of ``batched``, the space of all sub-envs. They may differ between them.

    Example:
        >>> from gymnasium.spaces import Discrete
        >>> batched_spec(Discrete(3), batch_space(Discrete(3), 5), 5, None, False).shape
        torch.Size([5, 3])
    """
    spec = spec_from_space(single, device=device, categorical=categorical)
    spec = spec.expand(n, *spec.shape)
    if batched == batch_space(single, n):
        return spec
    members = getattr(single, "spaces", None)
    if isinstance(single, gymnasium.spaces.Box):
        return spec_from_space(batched, device=device)
    if not isinstance(spec, Composite) or members is None:
        raise TypeError(
            f"The sub-envs of a vector env have different spaces, {batched} for {n} of {single}: only the bounds of a "
            "Box may differ. Fix: make the sub-envs alike, for example with gymnasium.wrappers.TransformObservation."
        )
    wholes: Any = batched
    for name in members if isinstance(members, Mapping) else range(len(members)):
        spec[str(name)] = batched_spec(members[name], wholes[name], n, device, categorical)
    return spec


def _with_rows(space: gymnasium.Space, batch: Any, rows: np.ndarray, values: Any) -> Any:
    """Copy a batch of observations, replacing some rows by ``values[i]``, the observation of one env."""
    at = np.flatnonzero(rows)
    if isinstance(space, gymnasium.spaces.Dict):
        members = {key: {i: values[i][key] for i in at} for key in batch}
        return {key: _with_rows(space[key], part, rows, members[key]) for key, part in batch.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        pairs = enumerate(zip(space.spaces, batch, strict=True))
        return tuple(_with_rows(member, part, rows, {i: values[i][k] for i in at}) for k, (member, part) in pairs)
    if isinstance(batch, tuple):  # data that is not an array, such as text
        return tuple(values[i] if row else part for i, (row, part) in enumerate(zip(rows, batch, strict=True)))
    replaced = np.array(batch)
    replaced[at] = [values[i] for i in at]
    return replaced


def _mix(rows: np.ndarray, chosen: Any, others: Any, space: gymnasium.Space | None = None) -> Any:
    """Take the marked rows from one batch of observations or infos, and the others from another."""
    if isinstance(chosen, Mapping) or isinstance(others, Mapping):
        chosen, others = chosen or {}, others or {}
        spaces = space.spaces if isinstance(space, gymnasium.spaces.Dict) else {}
        return {key: _mix(rows, chosen.get(key), others.get(key), spaces.get(key)) for key in {**others, **chosen}}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_mix(rows, a, b, member) for a, b, member in zip(chosen, others, space.spaces, strict=True))
    if isinstance(chosen, tuple) and isinstance(others, tuple):
        return tuple(a if row else b for row, a, b in zip(rows, chosen, others, strict=True))
    chosen = np.zeros_like(others) if chosen is None else np.asarray(chosen)
    others = np.zeros_like(chosen) if others is None else np.asarray(others)
    return np.where(rows.reshape(-1, *[1] * (chosen.ndim - 1)), chosen, others)


def _name(env: Any) -> str:
    return type(env.unwrapped).__name__
