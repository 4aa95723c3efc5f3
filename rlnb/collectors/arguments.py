"""What a collector is given: an env or what makes one, numbers of steps, and where batches go."""

from __future__ import annotations

from typing import Any

from rlnb.data.ted.keys import as_tuple
from rlnb.envs.base import EnvBase


def make_env(create_env_fn: Any, kwargs: dict[str, Any]) -> EnvBase:
    """Return an env.

    Args:
        create_env_fn: the env, or a function that makes one.
        kwargs: its keyword arguments.

    Returns:
        The env.

    Raises:
        TypeError: if it is none.
    """
    env = (
        create_env_fn if isinstance(create_env_fn, EnvBase) or not callable(create_env_fn) else create_env_fn(**kwargs)
    )
    if not isinstance(env, EnvBase):
        raise TypeError(
            f"SyncDataCollector takes an env, or a function that makes one, and got a {type(env).__name__}. "
            "Fix: SyncDataCollector(GymEnv('CartPole-v1'), policy, frames_per_batch=100)."
        )
    return env


def limited(env: EnvBase, max_frames: int) -> EnvBase:
    """Truncate episodes after some steps.

    Args:
        env: the env.
        max_frames: how many steps an episode has at the most.

    Returns:
        The env with a :class:`~rlnb.envs.transforms.StepCounter`.

    Raises:
        ValueError: if it has one already.
    """
    from rlnb.envs.transforms import StepCounter

    if any(as_tuple(key)[-1] == "step_count" for key in env.observation_spec.keys(True, True)):
        raise ValueError(
            f"max_frames_per_traj={max_frames!r} counts steps in 'step_count', which the env has already. "
            f"Fix: leave max_frames_per_traj out, and make the env with StepCounter(max_steps={max_frames!r})."
        )
    return env.append_transform(StepCounter(max_steps=max_frames))


def check_frames(frames_per_batch: Any, total_frames: Any) -> None:
    """Refuse numbers of steps that make no sense.

    Args:
        frames_per_batch: the steps of a batch.
        total_frames: the steps in all, -1 for no end.

    Raises:
        ValueError: if one is not positive, or no integer.
    """
    if not _is_positive(frames_per_batch):
        raise ValueError(
            f"frames_per_batch must be a positive integer and is {frames_per_batch!r}. "
            f"Fix: frames_per_batch={_integer(frames_per_batch, 100)}."
        )
    if not _is_positive(total_frames) and (isinstance(total_frames, bool) or total_frames != -1):
        raise ValueError(
            f"total_frames must be a positive integer, or -1 for no end, and is {total_frames!r}. "
            f"Fix: total_frames={_integer(total_frames, -1)}."
        )


SPLIT_BATCHES_DIFFER = (
    "split_trajs=True pads each batch to the longest of its trajectories, so that no two batches have the same shape. "
    "Fix: split_trajs=False, and a sampler that finds the trajectories in the buffer: "
    'SliceSampler(slice_len=8, traj_key=("collector", "traj_ids")).'
)


def check_receivers(postproc: Any, replay_buffer: Any) -> None:
    """Refuse what batches cannot be given to.

    Args:
        postproc: a function of a batch, or None.
        replay_buffer: a buffer, or None.

    Raises:
        TypeError: if one is something else.
    """
    if postproc is not None and not callable(postproc):
        raise TypeError(f"postproc must be a function of a batch, and got: {type(postproc).__name__}.")
    if replay_buffer is not None and (type(replay_buffer) is list or not hasattr(replay_buffer, "extend")):
        raise TypeError(
            f"replay_buffer must be a replay buffer, and got: {type(replay_buffer).__name__}. "
            "Fix: ReplayBuffer(storage=LazyTensorStorage(1000))."
        )


def _is_positive(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and value >= 1


def _integer(value: Any, otherwise: int) -> int:
    """The integer that was meant, such as by 1e6."""
    return int(value) if isinstance(value, float) and value >= 1 and value.is_integer() else otherwise


__all__ = ["SPLIT_BATCHES_DIFFER", "check_frames", "check_receivers", "limited", "make_env"]
