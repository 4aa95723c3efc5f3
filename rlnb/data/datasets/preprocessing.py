"""A function applied to a whole dataset, chunk by chunk, in several processes; what is done is kept."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple, Self

import cloudpickle
import torch
import xxhash
from tensordict import TensorDict, TensorDictBase

from rlnb._start_method import choose_start_method
from rlnb.data.datasets.conversion import CHUNK_BYTES, write_chunks

Function = Callable[[TensorDictBase], TensorDictBase]
_PLAN = "plan.json"


class ChunkPlan(NamedTuple):
    """How a dataset is cut into chunks.

    Args:
        source: folder of the dataset.
        version: of its data: inode and time of its description, which a dataset that is made again does not keep.
        items: number of items to treat, the first ones.
        size: number of items in a chunk.
        single: whether the function takes one item at a time.
        seed: of the random numbers of the first chunk; the others count on from it. None: not seeded.
    """

    source: Path
    version: tuple[int, int]
    items: int
    size: int
    single: bool
    seed: int | None

    @classmethod
    def of(
        cls,
        source: Path,
        items: int | None,
        chunksize: int | None,
        num_chunks: int | None,
        generator: torch.Generator | None,
    ) -> Self:
        """Make a plan from the arguments of ``preprocess``.

        Raises:
            ValueError: If a number is out of range, or both sizes are given.
        """
        data = TensorDict.load_memmap(source)
        if chunksize is not None and num_chunks is not None:
            raise ValueError("chunksize and num_chunks were both given. Fix: leave one of them out.")
        numbers = {"chunksize": (chunksize, 0), "num_chunks": (num_chunks, 1), "num_frames": (items, 1)}
        for name, (value, low) in numbers.items():
            if value is not None and value < low:
                raise ValueError(f"{name} must be at least {low}, got {value}.")
        count = len(data) if items is None else min(items, len(data))
        if num_chunks is not None:
            size = math.ceil(count / num_chunks)
        else:
            size = chunksize or max(1, 4 * CHUNK_BYTES * len(data) // max(1, data.bytes()))
        seed = None if generator is None else int(torch.randint(1 << 31, (), generator=generator))
        stat = (source / "meta.json").stat()
        return cls(source, (stat.st_ino, stat.st_mtime_ns), count, size, chunksize == 0, seed)

    @property
    def starts(self) -> range:
        """The first item of each chunk."""
        return range(0, self.items, self.size)


def preprocess(
    plan: ChunkPlan,
    function: Function,
    folder: Path,
    workers: int | None,
    *,
    pool: Any = None,
    tasks: int | None = None,
    threads: int = 1,
    progress: bool = False,
    method: str | None = None,
) -> Iterator[TensorDictBase]:
    """Apply a function to each chunk, and yield the results in order once all are there.

    Args:
        plan: how the dataset is cut.
        function: what is applied.
        folder: where the results are kept until they are all there. Results of the same plan and function that are in
            it already are not made again.
        workers: number of processes; 0: this one. Default: one per core.
        pool: something with ``map``, in place of new processes.
        tasks: number of chunks after which a process is replaced. Default: never.
        threads: number of torch's threads in each process.
        progress: whether to show a progress bar.
        method: start method of the processes. Default: the fastest that is safe.
    """
    dumped = cloudpickle.dumps(function)
    described = {**plan._asdict(), "source": str(plan.source), "version": list(plan.version)}
    _keep_only(folder, {**described, "function": xxhash.xxh3_64_hexdigest(dumped)})
    parts = [folder / str(start) for start in plan.starts]
    jobs = [(dumped, plan, start, part) for start, part in zip(plan.starts, parts, strict=True) if not part.exists()]
    with contextlib.ExitStack() as stack:
        if pool is not None:
            done: Iterable[Any] = pool.map(_treat, jobs)
        elif workers == 0 or not jobs:
            done = map(_treat, jobs)
        else:
            count = min(len(jobs), os.cpu_count() or 1 if workers is None else workers)
            context = multiprocessing.get_context(method or choose_start_method(threads))
            # A fork cannot be repeated safely once the executor's own thread runs.
            if tasks is not None and context.get_start_method() == "fork":
                context = multiprocessing.get_context("spawn")
            done = stack.enter_context(
                ProcessPoolExecutor(count, context, torch.set_num_threads, (threads,), max_tasks_per_child=tasks)
            ).map(_treat, jobs)
        try:
            for _ in _with_bar(done, len(jobs), progress):
                pass
        except BrokenProcessPool as error:
            raise RuntimeError(
                "A process that preprocessed the dataset died, perhaps because the memory was full. The chunks that "
                "were done are kept. Fix: call preprocess again with the same function and fewer workers."
            ) from error
    for part in parts:
        yield TensorDict.load_memmap(part)


def _treat(job: tuple[bytes, ChunkPlan, int, Path]) -> None:
    """Apply the function to one chunk, in whatever process."""
    dumped, plan, start, part = job
    function: Function = cloudpickle.loads(dumped)
    stop = min(start + plan.size, plan.items)
    chunk = TensorDict.load_memmap(plan.source)[start:stop]
    with torch.random.fork_rng(devices=[], enabled=plan.seed is not None):
        if plan.seed is not None:
            torch.manual_seed(plan.seed + start)
        try:
            result = torch.stack([function(item) for item in chunk.unbind(0)]) if plan.single else function(chunk)
        except Exception as error:
            error.add_note(f"This was raised by the function that preprocesses the items {start} to {stop - 1}.")
            raise
    if not isinstance(result, TensorDictBase):
        raise TypeError(
            f"The function that preprocesses a dataset must return a TensorDict, got {type(result).__name__} for the "
            f"items {start} to {stop - 1}. Fix: return data."
        )
    new = part.with_name(f"{part.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    write_chunks([result], new)
    os.rename(new, part)


def _keep_only(folder: Path, plan: dict[str, Any]) -> None:
    """Keep the results in a folder if they are of this plan, and delete them if they are not."""
    file = folder / _PLAN
    if not file.exists() or json.loads(file.read_text()) != plan:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        file.write_text(json.dumps(plan))


def _with_bar(done: Iterable[Any], count: int, shown: bool) -> Iterable[Any]:
    if not shown:
        return done
    from tqdm.auto import tqdm

    return tqdm(done, total=count, unit="chunk")
