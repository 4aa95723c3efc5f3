"""Arguments of collectors on several processes: checks, and what is sent to the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlnb.collectors.arguments import check_numbers, integer
from rlnb.collectors.worker import Pickled, Setup
from rlnb.envs.base import EnvBase
from rlnb.envs.batched import pickling
from rlnb.envs.batched.batched_env import one_each


def env_functions(owner: str, create_env_fn: Any, num_workers: Any) -> list[Callable[..., EnvBase]]:
    """List the function that makes the env of each worker.

    Raises:
        TypeError: If one is not a function.
        ValueError: If their number is not that of the workers.
    """
    given = integer(num_workers)
    if num_workers is not None and (given is None or given < 1):
        raise ValueError(f"num_workers must be a positive integer, got {num_workers!r}. Fix: num_workers=2.")
    is_list = isinstance(create_env_fn, Sequence)
    fns = list(create_env_fn) if is_list else [create_env_fn] * (given or 1)
    if is_list and given is not None and len(fns) == 1:
        fns *= given
    if not fns or (given is not None and len(fns) != given):
        raise ValueError(
            f"create_env_fn must have a function for each worker, got {len(fns)} with num_workers={num_workers!r}. "
            "Fix: leave num_workers out, or create_env_fn=make_env."
        )
    for fn in fns:
        if isinstance(fn, EnvBase) or not callable(fn):
            got = f"an env of type {type(fn).__name__}" if isinstance(fn, EnvBase) else repr(fn)
            raise TypeError(
                f"create_env_fn must be a function that makes an env, or a list of them, got {got}. It is called in "
                f"each worker process. Fix: {owner}([lambda: GymEnv('CartPole-v1')] * 2, ...)."
            )
    return fns


def frames_of_workers(frames_per_batch: Any, n: int, is_sync: bool) -> tuple[list[int], int]:
    """Split the steps of a batch over the workers. Returns the steps of each, and those of a batch.

    Raises:
        ValueError: If they are not positive integers, or there is not one for each worker.
    """
    if isinstance(frames_per_batch, (list, tuple)):
        if len(frames_per_batch) != n:
            raise ValueError(
                f"frames_per_batch must be an integer, or have one for each of the {n} workers, got "
                f"{frames_per_batch!r}. Fix: frames_per_batch={[100] * n}."
            )
        frames = [check_numbers(number, -1, 0, None).frames_per_batch for number in frames_per_batch]
        return frames, sum(frames) if is_sync else max(frames)
    asked = check_numbers(frames_per_batch, -1, 0, None).frames_per_batch
    return [-(-asked // n) if is_sync else asked] * n, asked


def check_joining(owner: str, is_sync: bool, cat_results: Any, threshold: Any, use_buffers: Any) -> None:
    """Check how the batches of the workers are joined.

    Raises:
        ValueError: If ``cat_results`` or ``preemptive_threshold`` is invalid, or not possible with the others.
    """
    if cat_results not in (None, "stack") and integer(cat_results) is None:
        raise ValueError(f"cat_results must be 'stack' or a dimension, got {cat_results!r}. Fix: cat_results='stack'.")
    if cat_results is not None and not is_sync:
        raise ValueError(
            f"cat_results={cat_results!r} joins the batches of synchronous workers, and {owner} returns each alone. "
            "Fix: leave cat_results out."
        )
    if threshold is None:
        return
    if not isinstance(threshold, (int, float)) or isinstance(threshold, bool) or not 0 < threshold <= 1:
        raise ValueError(
            "preemptive_threshold must be a number from 0 to 1, the share of workers that finish their batch, got "
            f"{threshold!r}. Fix: preemptive_threshold=0.5."
        )
    if not is_sync or integer(cat_results) is None:
        raise ValueError(
            f"preemptive_threshold={threshold!r} makes batches of different lengths, which only a MultiSyncCollector "
            "can join, along time. Fix: MultiSyncCollector(..., cat_results=-1)."
        )
    if use_buffers is False:
        raise ValueError(
            f"preemptive_threshold={threshold!r} stops workers through shared memory, which use_buffers=False does "
            "without. Fix: leave use_buffers out."
        )


def check_trajectories(split_trajs: Any, track_traj_ids: bool) -> None:
    """Raise ``ValueError`` if batches are to be split by the ids that they do not have."""
    if split_trajs and not track_traj_ids:
        raise ValueError(
            "split_trajs=True splits batches by their trajectory ids, which track_traj_ids=False leaves out. "
            "Fix: leave track_traj_ids out."
        )


def pickled_setups(
    fns: Sequence[Any],
    env_kwargs: Any,
    policy: Any,
    factory: Any,
    init_fn: Any,
    options: Sequence[dict[str, Any]],
) -> list[Setup]:
    """Pickle what makes the collectors of the workers, once for all where it is the same.

    Raises:
        TypeError: If something cannot be pickled. The error names the part that cannot.
    """
    n = len(fns)
    factories, kwargs = (
        one_each(factory, n, "policy_factory", "workers"),
        one_each(env_kwargs, n, "create_env_kwargs", "workers"),
    )
    pickled: dict[int, Pickled] = {}

    def once(name: str, content: Any, fix: str = "make it inside of the function, which runs in the worker") -> Pickled:
        if id(content) not in pickled:
            pickled[id(content)] = dump_argument(name, content, fix)
        return pickled[id(content)]

    setups = []
    for i in range(n):
        if factory is None:
            fix = "policy_factory=make_policy, a function that makes the policy in the worker"
            chosen = once("policy", policy, fix)
        else:
            chosen = once("policy_factory", factories[i])
        setups.append(
            Setup(
                make_env=once("create_env_fn", fns[i]),
                env_kwargs=once("create_env_kwargs", kwargs[i]),
                policy=chosen,
                has_factory=factory is not None,
                init_fn=once("init_fn", init_fn),
                options=options[i],
                first_id=0,
            )
        )
    return setups


def storing_devices(name: str, device: Any, n: int, is_sync: bool) -> list[Any]:
    """Return the device for the batches of each worker, which is one for all if they are joined.

    Raises:
        ValueError: If the batches of synchronous workers would be on several devices.
    """
    found = one_each(device, n, "storing_device", "workers")
    if is_sync and any(one != found[0] for one in found):
        raise ValueError(
            f"{name} joins the batches of its workers on one device, got storing_device={found!r}. "
            "Fix: storing_device='cpu'."
        )
    return found


def options_of_workers(frames: Sequence[int], same: dict[str, Any], own: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the options of the collector of each worker.

    Args:
        frames: frames per batch of each worker.
        same: options that are the same for all.
        own: options that may be a list with one value for each worker.
    """
    n = len(frames)
    listed = {key: one_each(value, n, key, "workers") for key, value in own.items()}
    return [
        {**same, "frames_per_batch": frames[i], **{key: values[i] for key, values in listed.items()}} for i in range(n)
    ]


def dump_argument(name: str, content: Any, fix: str) -> Pickled:
    """Pickle an argument for a worker.

    Raises:
        TypeError: If it cannot be pickled. The error names the part that cannot.
    """
    try:
        return pickling.dump(content)
    except Exception as error:
        path, part = pickling.find_unpicklable(content, name)
        raise TypeError(
            f"The {name} cannot be sent to a worker process: {path}, a {type(part).__name__}, cannot be pickled "
            f"({type(error).__name__}: {error}). Fix: {fix}."
        ) from error
