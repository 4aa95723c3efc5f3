"""Every string and number of every document of a checkpoint, replaced in turn: loading it must stay harmless."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import importlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tensordict import NonTensorStack, TensorDict

from rlnb.data import (
    FlatStorageCheckpointer,
    H5StorageCheckpointer,
    LazyTensorStorage,
    NestedStorageCheckpointer,
    PrioritizedSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SamplerWithoutReplacement,
    SliceSamplerWithoutReplacement,
    TED2Nested,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from rlnb.data.replay_buffers.checkpointers import folder
from tests.data.replay_buffers.checkpoint_worlds import steps_of

SECONDS = 2.0  # of the processor, for one load
_HANGS = 60.0  # what takes so long on a clock hangs
FORBIDDEN = (
    "import",
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "pty.",
)
FORBIDDEN += ("ctypes.dlopen", "ctypes.dlsym", "pickle.", "exec", "marshal.", "os.remove", "os.rename", "shutil.")

# What is saved --------------------------------------------------------------------------------------------------------


def _ted(rb: ReplayBuffer) -> ReplayBuffer:
    rb.extend(steps_of([[t % 4 == 3 for t in range(8)]])[0])
    rb.update_priority(torch.arange(8), torch.arange(1.0, 9.0))
    return rb


def _tree(rb: ReplayBuffer) -> ReplayBuffer:
    inner = TensorDict({"x": torch.zeros(4, 2), "deep": TensorDict({}, [4, 3])}, [4])
    data = collections.defaultdict(list, {"a": (torch.arange(4), [inner]), 7: collections.deque([torch.ones(4)], 3)})
    rb.extend(collections.OrderedDict(all=data))
    return rb


def _objects(rb: ReplayBuffer) -> ReplayBuffer:
    names = NonTensorStack("a", "b", "c", "d")
    rb.extend(TensorDict({"name": names, "score": torch.arange(4.0), "none": torch.zeros(4, 0)}, [4]))
    return rb


def _drawn(rb: ReplayBuffer) -> ReplayBuffer:
    rb.extend(steps_of([[t % 4 == 3 for t in range(8)]])[0].select("action", ("next", "done")))
    rb.sample()
    return rb


def _plain(checkpointer: Any = None) -> ReplayBuffer:
    return ReplayBuffer(storage=LazyTensorStorage(12), checkpointer=checkpointer)


def _prioritized() -> ReplayBuffer:
    return ReplayBuffer(storage=LazyTensorStorage(12), sampler=PrioritizedSampler(12, 1.0, 1.0))


def _hooked() -> ReplayBuffer:
    rb = _plain()
    rb.register_save_hook(TED2Nested())
    rb.register_load_hook(lambda data: steps_of([[t % 4 == 3 for t in range(8)]])[0])
    return rb


def _ahead() -> ReplayBuffer:
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(12),
        sampler=SamplerWithoutReplacement(),
        batch_size=2,
        prefetch=2,
        generator=torch.Generator().manual_seed(0),
    )


def _slices() -> ReplayBuffer:
    sampler = SliceSamplerWithoutReplacement(slice_len=2, end_key=("next", "done"))
    return TensorDictReplayBuffer(storage=LazyTensorStorage(12), sampler=sampler, batch_size=2)


def _best() -> ReplayBuffer:
    return TensorDictReplayBuffer(storage=LazyTensorStorage(3), writer=TensorDictMaxValueWriter("score"))


def _several(checkpointer: Any = None) -> ReplayBuffer:
    return ReplayBuffer(storage=LazyTensorStorage(12, ndim=2), checkpointer=checkpointer)


def _rows(rb: ReplayBuffer) -> ReplayBuffer:
    rb.extend(steps_of([[False, True, False], [False, False, True]]))
    return rb


def _members() -> ReplayBufferEnsemble:
    return ReplayBufferEnsemble(_plain(), _prioritized(), batch_size=2)


def _each(rb: Any) -> Any:
    for member in range(2):
        _ted(rb[member])
    return rb


VARIANTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tensor": (_prioritized, _ted),
    "flat": (lambda: _plain(FlatStorageCheckpointer()), _ted),
    "nested": (lambda: _plain(NestedStorageCheckpointer()), _ted),
    "h5": (lambda: _plain(H5StorageCheckpointer(h5_kwargs={"compression": "gzip"})), _ted),
    "tree": (_plain, _tree),
    "objects": (_plain, _objects),
    "hooked": (_hooked, _ted),
    "ahead": (_ahead, _drawn),
    "slices": (_slices, _drawn),
    "best": (_best, _objects),
    "several": (_several, _rows),
    "several flat": (lambda: _several(FlatStorageCheckpointer()), _rows),
    "ensemble": (_members, _each),
}

# What it is replaced by -----------------------------------------------------------------------------------------------

HUGE = 10**12
NUMBERS: list[Any] = [-1, 0, 1, 5, 65_537, 10**7, HUGE, 1 << 63, 10**30, 0.5, float("nan"), True]
# Of the last one an earlier version imported the module that it names.
TEXTS: list[Any] = ["", "../../x", "/etc/passwd", "ctypes:cdll", "load", "quint8", "\0", "\ud800", "$tensor", "dict"]
TEXTS += [
    json.dumps([1, {"type": "builtins.dict", "context": "X", "children_spec": []}]).replace(
        '"X"', json.dumps('[{"\\u005f_enum__": true, "fqn": "antigravity:x", "name": "y"}]')
    )
]
OTHERS: list[Any] = [None, [], {}, [HUGE], {"$tensordict": [[HUGE], {}]}, {"$non_tensor": [0, [HUGE], 1]}]
MORE: list[Any] = [{"$non_tensor": [HUGE, [HUGE], ["x"]]}, {"$size": [HUGE]}, {"$nested": [1, 2]}]


def values_for(found: Any) -> list[Any]:
    """What takes the place of a value: all of its kind, and some of other kinds."""
    if type(found) is str:
        return [*TEXTS, *OTHERS, HUGE]
    if isinstance(found, (int, float)):
        return [*NUMBERS, *OTHERS, "text"]
    return [*OTHERS, *MORE, HUGE, "text"]


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a document stand; the last part of the place of a key is a tuple around it."""
    yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield (*path, (key,))
            yield from places(value, (*path, key))
    elif isinstance(content, list):
        for i, value in enumerate(content[:6]):  # of long lists, such as those of objects, the first
            yield from places(value, (*path, i))


def replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A document with another value, or another key, at one place."""
    if not path:
        return value
    made = copy.deepcopy(content)
    parent = made
    for part in path[:-1]:
        parent = parent[part]
    if isinstance(path[-1], tuple):
        parent[value if isinstance(value, str) else str(value)] = parent.pop(path[-1][0])
    else:
        parent[path[-1]] = value
    return made


def everywhere(content: Any, old: Any, value: Any) -> Any:
    """A document with another value in place of each that equals one: its parts still fit one another."""
    if type(content) is type(old) and content == old:
        return value
    if isinstance(content, dict):
        return {key: everywhere(item, old, value) for key, item in content.items()}
    if isinstance(content, list):
        return [everywhere(item, old, value) for item in content]
    return content


def mutations(top: Path) -> Iterator[tuple[str, dict[Path, Any]]]:
    """All documents of a checkpoint that differ from what was saved, and what each is called."""
    documents = {path: json.loads(path.read_bytes()) for path in sorted(top.rglob("*.json"))}
    scalars: dict[str, Any] = {}
    for document, content in documents.items():
        for path in places(content):
            found = content
            for part in path:
                found = part[0] if isinstance(part, tuple) else found[part]
            for value in TEXTS if path and isinstance(path[-1], tuple) else values_for(found):
                yield f"{document.name} {path} = {value!r}", {document: replaced(content, path, value)}
            if type(found) in (int, str) or (type(found) is list and found and set(map(type, found)) == {int}):
                scalars[repr(found)] = found
    for old in scalars.values():
        for value in TEXTS if type(old) is str else NUMBERS if type(old) is int else [[HUGE], [HUGE, 0], [0], []]:
            changed = {document: everywhere(content, old, value) for document, content in documents.items()}
            yield f"every {old!r} = {value!r}", {d: new for d, new in changed.items() if new != documents[d]}


def rewrite(top: Path, changed: dict[Path, Any]) -> None:
    """Write documents of a checkpoint, and a manifest whose checksums are right."""
    for path, content in changed.items():
        path.write_text(json.dumps(content))
    manifest = changed.get(top / folder.MANIFEST)
    if top / folder.MANIFEST not in changed:
        folder.seal(top)
    elif isinstance(manifest, dict) and "files" in manifest and "checksum" in manifest:
        checksum = folder._checksum_of(manifest["files"])
        (top / folder.MANIFEST).write_text(json.dumps({**manifest, "checksum": checksum}))


# Watching -------------------------------------------------------------------------------------------------------------


class Watch:
    """What Python reports of imports, processes, sockets and files, for as long as somebody watches."""

    def __init__(self) -> None:
        self.inside: str | None = None
        self.found: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if self.inside is None:
            return
        if event == "open" and not isinstance(given[0], int):
            if not os.path.realpath(os.fsdecode(given[0])).startswith(self.inside):
                self.found.append(f"open {given[0]!r}")
        elif event.startswith(FORBIDDEN):
            self.found.append(f"{event} {str(given[:1])[:80]}")

    @contextlib.contextmanager
    def over(self, inside: Path) -> Iterator[list[str]]:
        self.inside, self.found = os.path.join(os.path.realpath(inside), ""), []
        find = importlib.import_module  # of a module that is there Python reports nothing
        importlib.import_module = self._import
        try:
            yield self.found
        finally:
            self.inside, importlib.import_module = None, find

    def _import(self, name: str, package: str | None = None) -> Any:
        if name == "h5py":  # which write_h5 and read_h5 look for by its name
            return sys.modules[name]
        self.found.append(f"import {name!r}")
        raise ImportError(name)


class TooLong(BaseException):
    """A load took longer than it may."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Interrupt what does not end by itself."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(load: Callable[[], object], watch: Watch, inside: Path) -> str | None:
    """Load what may be hostile: None, or what it did that it must not do."""
    begin = time.process_time()
    try:
        with watch.over(inside) as found, limited():
            load()
    except (ValueError, OSError) as error:
        if "Fix:" not in str(error):
            return f"raised without a fix: {error!r}"[:300]
    except BaseException as error:
        return f"raised {error!r}"[:300]
    if found:
        return f"did {found[0]}"
    took = time.process_time() - begin
    return f"took {took:.1f} s" if took > SECONDS else None


def run(name: str, top: Path, watch: Watch, step: int = 1) -> tuple[int, list[str]]:
    """Try each ``step``-th mutation of one variant; the number of loads, and what went wrong."""
    make, fill = VARIANTS[name]
    fill(make()).dumps(top)
    make().loads(top)  # what is imported late is there from now on
    known, count, wrong = fill(make()), 0, []
    with contextlib.suppress(ValueError):
        known.loads(top)
    for what, changed in itertools.islice(mutations(top), 0, None, step):
        before = {path: path.read_bytes() for path in (*changed, top / folder.MANIFEST)}
        rewrite(top, changed)
        rb = known if count % 2 else make()
        problem = attempt(functools.partial(rb.loads, top), watch, top)
        count += 1
        if problem is not None:
            wrong.append(f"{name}: {what}: {problem}")
        for path, old in before.items():
            path.write_bytes(old)
    return count, wrong
