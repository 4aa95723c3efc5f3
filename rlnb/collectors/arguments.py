"""Arguments of a collector: checks, and the env that they describe."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from rlnb.data.ted.keys import as_tuple
from rlnb.envs.base import EnvBase
from rlnb.envs.transforms.trackers import StepCounter


def make_env(
    create_env_fn: Any, kwargs: dict[str, Any] | None, device: torch.device | str | int | None, max_frames: int
) -> EnvBase:
    """Make the env of a collector, on a device if one is given.

    With ``max_frames``, a :class:`~rlnb.envs.transforms.StepCounter` truncates an episode after that many steps.

    Raises:
        TypeError: If ``create_env_fn`` is neither an env nor a function that returns one.
        ValueError: If ``max_frames`` is given for an env that counts its steps already.
    """
    if isinstance(create_env_fn, (list, tuple)) and len(create_env_fn) == 1:
        (create_env_fn,) = create_env_fn
    env = create_env_fn
    if not isinstance(env, EnvBase) and callable(env):
        env = env(**(kwargs or {}))
    if not isinstance(env, EnvBase):
        raise TypeError(
            f"create_env_fn must be an env, or a function that makes one, got a {type(env).__name__}. "
            "Fix: Collector(GymEnv('CartPole-v1'), policy, frames_per_batch=100)."
        )
    if max_frames:
        if any(as_tuple(key)[-1] == "step_count" for key in env.observation_spec.keys(True, True)):
            raise ValueError(
                f"max_frames_per_traj={max_frames!r} counts steps in 'step_count', which the env has already. "
                f"Fix: leave max_frames_per_traj out, and make the env with StepCounter(max_steps={max_frames!r})."
            )
        env = env.append_transform(StepCounter(max_steps=max_frames))
    if device is not None:
        env.to(device)
    return env


class Numbers(NamedTuple):
    """Numbers of steps as Python integers, which do not overflow as NumPy's do."""

    frames_per_batch: int
    total_frames: int
    init_random_frames: int
    max_frames_per_traj: int


def check_numbers(
    frames_per_batch: Any, total_frames: Any, init_random_frames: Any, max_frames_per_traj: Any
) -> Numbers:
    """Check the numbers of steps of a collector, and replace ``None`` by 0.

    Raises:
        ValueError: If a number is not an integer, or too small.
    """
    if integer(max_frames_per_traj) == -1:
        max_frames_per_traj = None
    asked = [
        ("frames_per_batch", frames_per_batch, 1, "a positive integer", 100),
        ("total_frames", total_frames, 1, "a positive integer, or -1 for no end", -1),
        ("init_random_frames", init_random_frames, 0, "a non-negative integer", 0),
        ("max_frames_per_traj", max_frames_per_traj, 0, "a positive integer, or None for no limit", None),
    ]
    for name, value, least, expected, otherwise in asked:
        number = 0 if value is None and least == 0 else integer(value)
        if number is None or (number < least and number != otherwise):
            meant = int(value) if isinstance(value, float) and value >= 1 and value.is_integer() else otherwise
            raise ValueError(f"{name} must be {expected}, got {value!r}. Fix: {name}={meant}.")
    return Numbers(*(integer(value) or 0 for _, value, *_ in asked))


def integer(value: Any) -> int | None:
    """Convert an integer of Python, numpy or torch to one of Python; ``None`` for others, such as True or 2.0."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def given_ids(state_dict: dict[str, Any]) -> int:
    """Read the number of trajectory ids in use from the state dict of a collector, 0 if an older version wrote it.

    Raises:
        ValueError: If it is not a non-negative integer.
    """
    given = integer(value := state_dict.get("traj_ids", 0))
    if given is None or given < 0:
        raise ValueError(
            "'traj_ids' in the state dict of a collector, the number of trajectories with an id, must be a "
            f"non-negative integer, got {value!r}. Likely cause: it was changed after it was saved. "
            "Fix: load what collector.state_dict() returned."
        )
    return given


#: Options of TorchRL's Collector that are supported only with the values named first; the reason, and what to do
#: instead.
_REASONS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "backend": ((None, "direct"), "it collects in this process only", "put the envs in a ParallelEnv"),
    "backend_options": ((None, {}), "it collects in this process only", "put the envs in a ParallelEnv"),
    "num_collectors": ((None, 1), "it is a single collector", "put the envs in a ParallelEnv"),
    "sync": ((None, True), "it collects in this process, while the learner waits", "leave sync out"),
    "reset_when_done": ((True,), "deprecated in TorchRL; envs that are done are reset", "leave reset_when_done out"),
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


def check_collector_options(options: dict[str, Any], known: Iterable[str], owner: str = "Collector") -> None:
    """Refuse options of TorchRL's collectors that are not supported; ``known`` are the names of those that are.

    Raises:
        TypeError: If there is no such option.
        ValueError: If the value of an option is not supported.
    """
    for name, value in options.items():
        if name in _INERT:
            continue
        if name not in _REASONS:
            names = sorted({*known, *_REASONS, *_INERT})
            close = difflib.get_close_matches(name, names, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{owner}() has no option {name!r}.{hint} It takes: {', '.join(names)}.")
        kept, reason, instead = _REASONS[name]
        if not any(value is one or value == one for one in kept):
            raise ValueError(f"{owner}({name}={value!r}) is not supported: {reason}. Fix: {instead}.")


def check_receivers(postproc: Any, replay_buffer: Any) -> None:
    """Raise ``TypeError`` unless ``postproc`` is a function and ``replay_buffer`` a buffer, or None."""
    if postproc is not None and not callable(postproc):
        raise TypeError(f"postproc must be a function of a batch, got a {type(postproc).__name__}.")
    if replay_buffer is not None and (type(replay_buffer) is list or not hasattr(replay_buffer, "extend")):
        raise TypeError(
            f"replay_buffer must be a replay buffer, got a {type(replay_buffer).__name__}. "
            "Fix: ReplayBuffer(storage=LazyTensorStorage(1000))."
        )


def check_writing(replay_buffer: Any, extend_buffer: Any, split_trajs: Any) -> None:
    """Raise ``ValueError`` if ``extend_buffer=False`` contradicts other options of a collector."""
    if not extend_buffer and replay_buffer is None:
        raise ValueError(
            "extend_buffer=False writes single steps to a replay buffer, got no replay_buffer. "
            "Fix: replay_buffer=ReplayBuffer(storage=LazyTensorStorage(1000))."
        )
    if not extend_buffer and split_trajs:
        raise ValueError(
            "extend_buffer=False writes single steps, and split_trajs=True whole trajectories. "
            "Fix: leave one of them out."
        )


def find_model(collector: Any, model_id: str, note: str = "") -> torch.nn.Module:
    """Find a model of a collector by its name: "policy", or the dotted name of an attribute that is a module.

    Raises:
        ValueError: If there is no such model. ``note`` says what else is known of where models are.
    """
    found, policy = collector, collector.policy
    for name in str(model_id).split("."):
        found = getattr(found, name, None)
    if found is None or (not isinstance(found, torch.nn.Module) and found is not policy):
        raise ValueError(
            f"The collector has no model {model_id!r}. Its policy is a {type(policy).__name__}{note}. "
            "Fix: collector.get_model('policy'), on a collector whose policy is a module."
        )
    return found
