"""What batched environments say when something is wrong."""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlnb.data import Composite
    from rlnb.envs.batched.drivers import EnvInfo
    from rlnb.envs.batched.worker import Failure


def no_env_function(fn: Any) -> str:
    """Say that what should make envs cannot be called."""
    what = f"an env of type {type(fn).__name__}" if hasattr(fn, "rollout") else f"{fn!r}"
    return (
        f"create_env_fn must be a function that makes an env, and is {what}: each env of a batch is made anew. "
        "Fix: SerialEnv(4, lambda: GymEnv('CartPole-v1'))."
    )


def list_length(name: str, got: int, want: int) -> str:
    """Say that a list has not one member for each env."""
    return f"{name} is a list of {got}, and there are {want} envs: give one for each, or a single one for all."


def kwargs_type(name: str, i: int, got: Any) -> str:
    """Say that keyword arguments are no mapping."""
    return f"{name} must hold keyword arguments by name, and that of env {i} is a {type(got).__name__}."


def no_env(i: int, n: int, made: Any) -> str:
    """Say that a function made something else than an env."""
    return (
        f"create_env_fn of env {i} of {n} made a {type(made).__name__}, and it must make an env of rlnb. "
        "Fix: return GymEnv(...), GymWrapper(env) or another EnvBase."
    )


def not_running(env: Any) -> str:
    """Say that a batch was stepped before its envs were made, or after they were ended."""
    return (
        f"step was called on a {type(env).__name__} whose envs are not running. "
        "Fix: td = env.reset(), which makes them, then write an action into td, then env.step(td)."
    )


def forked(env: Any) -> str:
    """Say that a forked process uses a batch of the process before."""
    return (
        f"This {type(env).__name__} belongs to the process that started it, and this is a fork of that process. "
        "Fix: make a new one here."
    )


def kwargs_too_late(env: Any) -> str:
    """Say that keyword arguments come after the envs were made."""
    return (
        f"update_kwargs changes what envs are made with, and those of this {type(env).__name__} were made already. "
        "Fix: call it before the first reset, or env.close() first."
    )


def missing_states(missing: list[str], state_dict: Mapping[str, Any]) -> str:
    """Say that a state dict lacks envs."""
    return f"The state dict has no {missing}: it has {sorted(map(str, state_dict))}. Was it that of a smaller batch?"


def batch_sizes(i: int, info: EnvInfo, first: EnvInfo) -> str:
    """Say that envs have different batch sizes."""
    return (
        f"Env {i} ({info.name}) has the batch size {tuple(info.batch_size)}, and env 0 ({first.name}) has "
        f"{tuple(first.batch_size)}: the envs of a batch must have the same."
    )


def different_keys(name: str, i: int, infos: list[EnvInfo], member: Composite, first: Composite) -> str:
    """Say that envs have different entries."""
    mine, theirs = set(member.keys(True, True)), set(first.keys(True, True))
    return (
        f"Env {i} ({infos[i].name}) and env 0 ({infos[0].name}) have different entries in "
        f"{name.removeprefix('full_')}: only env {i} has {_sorted(mine - theirs)}, only env 0 has "
        f"{_sorted(theirs - mine)}. "
        "Fix: put a SelectTransform or ExcludeTransform around one of them, or name entries alike with RenameTransform."
    )


def no_buffers(specs: Mapping[str, Composite]) -> str:
    """Say that data without a fixed shape has no place in buffers."""
    from rlnb.envs.batched.joining import varies

    keys = [key for spec in specs.values() for key in varies(spec)]
    return (
        f"use_buffers=True needs entries of fixed shape and dtype, and these have none: {_sorted(keys)}. "
        "Fix: leave use_buffers out; the data then goes to and fro as it is, which is slower."
    )


def _sorted(keys: Iterable[Any]) -> list[Any]:
    return sorted(keys, key=str)


def failed(i: int, n: int, what: str, failure: Failure, others: list[int]) -> str:
    """Say that a worker raised, with its own traceback."""
    also = f" ({_workers(others).lower()} failed, too)" if others else ""
    return (
        f"Worker {i} of {n} failed in {what}: {failure.kind}: {failure.text}{also}\n\nIn the worker:\n{failure.lines}"
    )


def _workers(which: list[int]) -> str:
    return f"Worker {which[0]}" if len(which) == 1 else f"Workers {', '.join(map(str, which))}"


def ended(which: list[int], n: int, what: str, code: int | None) -> str:
    """Say that a process ended without being told to."""
    workers = f"{_workers(which)} of {n}"
    if len(which) > 1:
        workers += ", which share a process,"
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
        how = f"{'was' if len(which) == 1 else 'were'} ended by {name}"
        if name == "SIGKILL":
            how += ", which is how a system ends a process that takes too much memory"
        if name == "SIGSEGV":
            how += ": code outside of Python, such as a simulator's, has crashed"
    elif code is None:
        how = f"closed {'its pipe' if len(which) == 1 else 'their pipe'} and did not end"
    else:
        how = f"ended with exit code {code}"
    return (
        f"{workers} {how}, in the middle of {what}. All workers were ended; env.reset() starts new ones. "
        "To see what its env does, run it in this process: SerialEnv in place of ParallelEnv."
    )


def hanging(which: list[int], n: int, what: str, timeout: float | None) -> str:
    """Say that workers do not answer."""
    return (
        f"{_workers(which)} of {n} did not finish {what} within {timeout:g} s. All workers were ended; env.reset() "
        "starts new ones. If it takes that long, give more time: ParallelEnv(..., timeout=600)."
    )


def closed_elsewhere(what: str) -> str:
    """Report that another thread closed a batch."""
    return (
        f"The ParallelEnv was closed by another thread in the middle of {what}. env.reset() starts new workers. "
        "Fix: join the threads that use an env before env.close()."
    )


def gradients(key: Any) -> str:
    """Report that gradients do not pass from process to process."""
    return (
        f"The entry {key!r} requires a gradient, and a ParallelEnv detaches it: its envs run in other processes, which "
        "gradients cannot pass. Fix: SerialEnv, where they can; or with torch.no_grad(): around the rollout."
    )


def step_mask(mask: Any, want: tuple[int, ...]) -> str:
    """Report that a "_step" mask does not say which envs to step."""
    got = f"shape {tuple(mask.shape)} and dtype {mask.dtype}" if hasattr(mask, "dtype") else f"a {type(mask).__name__}"
    return (
        f"The mask '_step' says which envs to step: a boolean tensor of shape {want}, True or False for all of an env. "
        f"Got: {got}. Fix: td['_step'] = torch.tensor([True, False, ...])."
    )


def no_index(index: Any, n: int) -> str:
    """Report that a batch has no such envs."""
    return f"A batch of {n} envs takes integers from {-n} to {n - 1}, slices, lists and masks as index. Got: {index!r}."


def check_options(name: str, pin_memory: Any, allow_step_when_done: Any, shutdown_timeout: Any) -> None:
    """Refuse options of a batch that cannot be kept.

    Args:
        name: of the batch's class.
        pin_memory: as given to it.
        allow_step_when_done: as given to it.
        shutdown_timeout: as given to it.

    Raises:
        ValueError: if one cannot be kept.
    """
    if pin_memory:
        raise ValueError(
            f"{name}(pin_memory=True) is not supported, and deprecated in TorchRL: the memory that the envs write to "
            "is shared between processes and not pinned. Fix: leave pin_memory out, and pin what is sent to a GPU: "
            "batch.pin_memory()."
        )
    if allow_step_when_done:
        raise ValueError(
            f"{name}(allow_step_when_done=True) is not supported, and deprecated in TorchRL: an env that is done must "
            "be reset before its next step. Fix: leave allow_step_when_done out, and use env.step_and_maybe_reset(td)."
        )
    number = isinstance(shutdown_timeout, (int, float)) and not isinstance(shutdown_timeout, bool)
    if not number or not shutdown_timeout > 0:
        raise ValueError(
            f"{name}(shutdown_timeout=...) must be a positive number of seconds and got: {shutdown_timeout!r}. "
            "Fix: shutdown_timeout=10.0."
        )


def no_option(name: str, option: str, known: Iterable[str]) -> str:
    """Report a keyword argument that a batch does not have."""
    close = difflib.get_close_matches(option, known, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{name}() has no option {option!r}.{hint} It takes: {', '.join(sorted(known))}."


def no_numpy_dtype(keys: Iterable[Any]) -> str:
    """Report that shared memory cannot hold a dtype."""
    return (
        f"use_buffers=True needs dtypes that NumPy has, and the dtypes of these entries are not among them (such as "
        f"torch.bfloat16): {_sorted(keys)}. Fix: leave use_buffers out; the data then goes through messages, which is "
        "slower. Or cast them in the env: DTypeCastTransform(torch.bfloat16, torch.float32)."
    )


def no_start_method(got: Any, known: list[str]) -> str:
    """Say that there is no such way of starting processes."""
    return f"mp_start_method must be one of {known}, and is {got!r}."


def process_count(got: Any, n: int) -> str:
    """Say that envs cannot be spread over so many processes."""
    return f"num_processes is how many processes run the {n} envs, from 1 to {n}, and is {got!r}."


def no_shared_buffers() -> str:
    """Say that buffers are asked for and have no place."""
    return (
        "use_buffers=True with shared_memory=False and memmap=False leaves no place for the buffers. "
        "Fix: leave shared_memory=False out, or give memmap=True to keep them in a file."
    )


def creator_made(made: Any) -> str:
    """Say that the function of an EnvCreator made something else than an env."""
    return (
        f"create_env_fn made a {type(made).__name__}, and it must make an env of rlnb. "
        "Fix: return GymEnv(...), GymWrapper(env) or another EnvBase."
    )


def shared_names(own: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """Say that a state dict is of other envs."""
    return f"The envs of this EnvCreator share {sorted(own)}, and the state dict has {sorted(map(str, got))}."
