"""What a collector is given: an env or what makes one, numbers of steps, and where batches go."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

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
    if isinstance(create_env_fn, (list, tuple)) and len(create_env_fn) == 1:
        (create_env_fn,) = create_env_fn
    env = (
        create_env_fn if isinstance(create_env_fn, EnvBase) or not callable(create_env_fn) else create_env_fn(**kwargs)
    )
    if not isinstance(env, EnvBase):
        raise TypeError(
            f"Collector takes an env, or a function that makes one, and got a {type(env).__name__}. "
            "Fix: Collector(GymEnv('CartPole-v1'), policy, frames_per_batch=100)."
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


class Numbers(NamedTuple):
    """Numbers of steps, as plain integers: those of numpy wrap around."""

    frames_per_batch: int
    total_frames: int
    init_random_frames: int
    max_frames_per_traj: int


def check_numbers(
    frames_per_batch: Any, total_frames: Any, init_random_frames: Any, max_frames_per_traj: Any
) -> Numbers:
    """Refuse numbers of steps that make no sense.

    Args:
        frames_per_batch: the steps of a batch.
        total_frames: the steps in all, -1 for no end.
        init_random_frames: the steps with random actions; None for none.
        max_frames_per_traj: the steps of the longest episode; None, 0 or -1 for no limit.

    Returns:
        The numbers; 0 for None.

    Raises:
        ValueError: if one is no integer, or too small.
    """
    if integer(max_frames_per_traj) == -1:
        max_frames_per_traj = None
    asked = [
        ("frames_per_batch", frames_per_batch, 1, "a positive integer", 100),
        ("total_frames", total_frames, 1, "a positive integer, or -1 for no end,", -1),
        ("init_random_frames", init_random_frames, 0, "a non-negative integer", 0),
        ("max_frames_per_traj", max_frames_per_traj, 0, "a positive integer, or None for no limit,", None),
    ]
    for name, value, least, expected, otherwise in asked:
        number = 0 if value is None and least == 0 else integer(value)
        if number is None or (number < least and number != otherwise):
            meant = int(value) if isinstance(value, float) and value >= 1 and value.is_integer() else otherwise
            raise ValueError(f"{name} must be {expected} and is {value!r}. Fix: {name}={meant}.")
    return Numbers(*(integer(value) or 0 for _, value, *_ in asked))


def integer(value: Any) -> int | None:
    """Take an integer of whatever kind as Python's own.

    Args:
        value: of Python, numpy or torch.

    Returns:
        The integer; None for anything else, such as True or 2.0.
    """
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def given_ids(state_dict: dict[str, Any]) -> int:
    """Read how many trajectory ids were given when a collector's state was saved.

    Args:
        state_dict: the state.

    Returns:
        The number; 0 if the state is of a version that did not save it.

    Raises:
        ValueError: if it is no number of ids.
    """
    given = integer(value := state_dict.get("traj_ids", 0))
    if given is None or given < 0:
        raise ValueError(
            "'traj_ids' in the state dict of a collector is how many trajectories got an id, a non-negative integer, "
            f"and is {value!r}. It was probably changed after it was saved. "
            "Fix: load what collector.state_dict() returned."
        )
    return given


SPLIT_BATCHES_DIFFER = (
    "split_trajs=True pads each batch to the longest of its trajectories, so that no two batches have the same shape. "
    "Fix: split_trajs=False, and a sampler that finds the trajectories in the buffer: "
    'SliceSampler(slice_len=8, traj_key=("collector", "traj_ids")).'
)


#: Options of TorchRL's Collector that have no effect here, or can be kept only with the values named first.
_REASONS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "backend": ((None, "direct"), "it collects in this process only", "put the envs in a ParallelEnv"),
    "backend_options": ((None, {}), "it collects in this process only", "put the envs in a ParallelEnv"),
    "num_collectors": ((None, 1), "it is a single collector", "put the envs in a ParallelEnv"),
    "sync": ((None, True), "it collects in this process, in turns with the learner", "leave sync out"),
    "reset_when_done": ((True,), "deprecated in TorchRL; envs that are done are reset", "leave reset_when_done out"),
    "interruptor": ((None,), "no other process interrupts it", "leave interruptor out"),
    "extend_buffer": ((True,), "it writes whole batches", "frames_per_batch=env.batch_size.numel() for single steps"),
    "compile_policy": ((None, False), "it does not compile", "give a compiled policy: torch.compile(policy)"),
    "cudagraph_policy": ((None, False), "it captures no CUDA graphs", "policy=CudaGraphModule(policy)"),
    "weight_updater": ((None,), "policy and collector are in one process", "collector.update_policy_weights_()"),
    "weight_sync_schemes": ((None, {}), "policy and collector are in one process", "update_policy_weights_()"),
    "weight_recv_schemes": ((None, {}), "policy and collector are in one process", "update_policy_weights_()"),
    "trajs_per_batch": ((None,), "its batches have a fixed number of steps", "split_trajs=True, or a SliceSampler"),
    "trajs_per_write": ((None,), "its batches have a fixed number of steps", "split_trajs=True, or a SliceSampler"),
    "traj_format": ((None,), "its batches have a fixed number of steps", "split_trajs=True, or a SliceSampler"),
    "auto_register_policy_transforms": (
        (None, False),
        "it adds no transforms to the env",
        "env.append_transform(policy.make_tensordict_primer())",
    ),
    "compact_obs": ((False,), "a batch has each observation at the root and under 'next'", "leave compact_obs out"),
}
_INERT = {"no_cuda_sync", "use_buffers", "worker_idx"}


def check_options(options: dict[str, Any], known: Iterable[str]) -> None:
    """Refuse options of TorchRL's collector that cannot be kept.

    Args:
        options: by name.
        known: the names of all others.

    Raises:
        TypeError: if there is no such option.
        ValueError: if one has a value that cannot be kept.
    """
    for name, value in options.items():
        if name in _INERT:
            continue
        if name not in _REASONS:
            names = sorted({*known, *_REASONS, *_INERT})
            close = difflib.get_close_matches(name, names, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"Collector() has no option {name!r}.{hint} It takes: {', '.join(names)}.")
        kept, reason, instead = _REASONS[name]
        if not any(value is one or value == one for one in kept):
            raise ValueError(f"Collector({name}={value!r}) is not supported: {reason}. Fix: {instead}.")


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


__all__ = [
    "SPLIT_BATCHES_DIFFER",
    "Numbers",
    "check_numbers",
    "check_options",
    "check_receivers",
    "given_ids",
    "integer",
    "limited",
    "make_env",
]
