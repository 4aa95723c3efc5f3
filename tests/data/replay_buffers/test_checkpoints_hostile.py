"""Forged checkpoints with valid checksums: nothing in them is executed, and inconsistent ones are rejected."""

from __future__ import annotations

import builtins
import collections
import contextlib
import importlib
import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from rlnb.data import (
    LazyTensorStorage,
    NestedStorageCheckpointer,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSamplerWithoutReplacement,
)
from rlnb.data.replay_buffers.checkpointers import folder
from tests.data.replay_buffers import checkpoint_fuzz
from tests.data.replay_buffers.checkpoint_worlds import (
    MAKERS,
    buffer,
    filled,
    first_of,
    no_disk,  # noqa: F401 - a fixture for the whole module
    refused,
    steps_of,
)
from tests.pairwise import few

WATCH = checkpoint_fuzz.Watch()

# Files made by hand ---------------------------------------------------------------------------------------------------


def change(top: Path, name: str, edit: Callable[[Any], Any]) -> None:
    """Change a document of a checkpoint, and give the manifest the right checksums."""
    content = json.loads((top / name).read_bytes())
    changed = edit(content)
    checkpoint_fuzz.rewrite(top, {top / name: content if changed is None else changed})


# What torch reads as the structure of a PyTree: it imports what is named, here for a key that is an enumeration. With
# an escape, the name of that entry is not in the text before it is decoded.
KEYS = json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "y"}]).replace("__enum__", "\\u005f_enum__")
TORCHS = json.dumps([1, {"type": "builtins.dict", "context": KEYS, "children_spec": [{"type": None, "context": None}]}])
PART = {"kind": "dict", "items": [["a", None]]}
STRUCTURES: list[Any] = [
    TORCHS,
    json.loads(TORCHS),
    {**PART, "kind": "antigravity.x"},
    {**PART, "kind": "defaultdict", "factory": "antigravity"},
    {**PART, "kind": "defaultdict", "factory": "__import__"},
    {**PART, "kind": "namedtuple"},
    {**PART, "items": [[{"a": 1}, None]]},
    {**PART, "items": [["a", None], ["b", None]]},
    {**PART, "items": []},
    {"kind": "deque", "items": [None], "maxlen": 10**30},
    {"kind": "tuple", "items": 10**12},
    {"kind": "list", "items": "antigravity"},
    10**12,
    "nothing",
]


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: json.dumps(structure)[:50])
def test_the_structure_of_a_tree_imports_nothing(structure: Any, tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(5))
    rb.extend({"a": torch.zeros(3)})
    rb.dumps(tmp_path)
    other = ReplayBuffer(storage=LazyTensorStorage(5))
    change(tmp_path, "storage/storage.json", lambda content: content["form"].update(structure=structure))
    sys.modules.pop("antigravity", None)
    with pytest.raises(ValueError, match="does not read as one"):
        other.loads(tmp_path)
    assert other.storage.form is None
    state = rb.state_dict()
    state["_storage"]["form"]["structure"] = structure
    with pytest.raises(ValueError, match="does not fit"):
        other.load_state_dict(state)
    assert "antigravity" not in sys.modules
    assert other.storage.form is None


def test_containers_come_back_as_they_were(tmp_path: Path) -> None:
    made = collections.defaultdict(list, {("a", 1): torch.arange(3), 2.5: [torch.zeros(3, 1)]})
    data = collections.OrderedDict(b=(made,), a=collections.deque([torch.ones(3), {None: torch.ones(3)}], 7))
    rb, other, third = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(3))
    rb.extend(data)
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    third.load_state_dict(rb.state_dict())
    for found in (other[:], third[:]):
        assert type(found) is collections.OrderedDict and list(found) == ["b", "a"]
        (inner,) = found["b"]
        assert inner.default_factory is list and list(inner) == [("a", 1), 2.5]
        assert inner["a", 1].tolist() == [0, 1, 2] and inner[2.5][0].shape == (3, 1)
        assert type(found["a"]) is collections.deque and found["a"].maxlen == 7 and list(found["a"][1]) == [None]


def test_no_size_is_believed(tmp_path: Path) -> None:
    def drawn() -> ReplayBuffer:
        return ReplayBuffer(storage=LazyTensorStorage(5), sampler=SamplerWithoutReplacement(), batch_size=2, prefetch=2)

    rb = drawn()
    rb.extend(torch.arange(5))
    rb.sample()
    for value in ({"$tensordict": [[10**12], {}]}, {"$non_tensor": [0, [10**12], "x"]}, {"$size": [10**30]}):
        for name in ("ahead", "rng", "batch_size"):
            rb.dumps(tmp_path)
            change(tmp_path, "state/buffer.json", lambda content: content.update({name: value}))  # noqa: B023 - called here
            with pytest.raises(ValueError, match="does not read as one"):
                drawn().loads(tmp_path)


def test_states_of_passes_are_not_believed() -> None:
    """The second would have been compared with a list of so many numbers."""
    for sampler, count in (
        (SamplerWithoutReplacement(), "known"),
        (SliceSamplerWithoutReplacement(slice_len=2, end_key=("next", "done")), "count"),
    ):
        good = sampler.state_dict()
        sampler.load_state_dict({**good, "order": torch.tensor([2, 0]), count: 10**12})
        before = sampler.state_dict()
        for bad in (
            {"order": torch.tensor([2, 2]), count: 3},
            {"order": torch.tensor([2, 0]), count: 2},
            {"order": torch.tensor([-1, 0]), count: 3},
            {"order": torch.tensor([1.0, 0.0]), count: 3},
            {"order": torch.tensor([[1, 0]]), count: 3},
            {"order": [1, 0], count: 3},
            {"order": torch.tensor([1, 0]), count: 3.0},
        ):
            with pytest.raises(ValueError, match=f"The state of a {type(sampler).__name__} must name each of"):
                sampler.load_state_dict({**good, **bad})
        after = sampler.state_dict()
        assert after["order"].tolist() == before["order"].tolist() and after[count] == before[count]


def test_expanded_tensors_and_wrong_counts_are_not_a_valid_state() -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
    rb.extend(torch.arange(15).reshape(3, 5))
    good = rb.state_dict()["_storage"]
    wide = {**good["form"], "shape": [10**9]}
    for bad in (
        {"form": wide, "columns": [torch.zeros(1, dtype=torch.int64).expand(3, 10**9)]},
        {"cursor": 3.0},
        {"length": True},
        {"written": 1 << 70},
        {"others": [0]},
        {"others": 3},
        {"columns": 10**12},
    ):
        with pytest.raises(ValueError, match="does not fit this LazyTensorStorage"):
            other.storage.load_state_dict({**good, **bad})
        assert other.storage.form is None
    other.storage.load_state_dict(good)
    assert other[:].tolist() == rb[:].tolist()


# Any string and number ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "step"), few([("tree", 211), ("nested", 307), ("hooked", 499)]))
def test_some_of_the_strings_and_numbers_are_harmless(name: str, step: int, tmp_path: Path) -> None:
    count, wrong = checkpoint_fuzz.run(name, tmp_path, WATCH, step)
    assert count > 10 and not wrong, "\n".join(wrong)


def test_the_watch_sees_what_it_must_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_fuzz, "SECONDS", 0.3)

    def imports() -> None:
        with contextlib.suppress(ImportError):
            importlib.import_module("ctypes")  # which is there

    def imports_anew() -> None:
        sys.modules.pop("this", None)
        with contextlib.redirect_stdout(io.StringIO()):
            import this  # noqa: F401 - the import is what is tested

    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("x")
    for act, seen in (
        (imports, "did import 'ctypes'"),
        (imports_anew, "did import"),
        (lambda: subprocess.run(["true"], check=True), "did "),
        (lambda: socket.socket().close(), "did socket"),
        (outside.read_text, "did open"),
        (lambda: time.sleep(0), None),
        (lambda: _burn(0.5), "took"),
    ):
        found = checkpoint_fuzz.attempt(act, WATCH, inside)
        assert (found is None) if seen is None else (found is not None and found.startswith(seen)), found


def _burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.deep
@pytest.mark.parametrize("name", checkpoint_fuzz.VARIANTS)
def test_many_strings_and_numbers_are_harmless(name: str, tmp_path: Path) -> None:
    """Try every eleventh edit; all of them take ten minutes."""
    count, wrong = checkpoint_fuzz.run(name, tmp_path, WATCH, 11)
    assert count > 10 and not wrong, "\n".join(wrong)


def of_head(edit: Callable[[Any], Any]) -> tuple[str, Callable[[Any], Any]]:
    return "storage/storage.json", edit


def of_leaf(place: int, value: Any) -> tuple[str, Callable[[Any], Any]]:
    return of_head(lambda head: head["form"]["root"]["entries"]["observation"].__setitem__(place, value))


EDITS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "outside": ("checkpoint.json", lambda content: content["files"].update({"storage/../../x": [1, "0"]})),
    "absolute": ("checkpoint.json", lambda content: content["files"].update({"/etc/passwd": [1, "0"]})),
    "elsewhere": ("checkpoint.json", lambda content: content["files"].update({"elsewhere/x": [1, "0"]})),
    "dtype": of_leaf(1, "load"),
    "huge": of_leaf(0, [1 << 60]),
    "large": of_leaf(0, [1 << 40]),
    "negative": of_leaf(0, [-3]),
    "length": of_head(lambda head: head.update(length=13)),
    "shorter": of_head(lambda head: head.update(length=7)),
    "cursor": of_head(lambda head: head.update(cursor=99)),
    "others": of_head(lambda head: head.update(others=[0])),
    "not a head": ("storage/storage.json", lambda content: content.update(form=[])),
    "no head": ("storage/storage.json", lambda content: []),
    "no content": ("storage/storage.json", lambda content: content.pop("objects")),
    "sampler": ("state/sampler.json", lambda content: content["state"].pop("alpha")),
    "tensor": ("state/sampler.json", lambda content: content["state"]["priorities"]["$tensor"].__setitem__(0, "../x")),
    "tag": ("state/sampler.json", lambda content: content["state"].update(alpha={"$call": "os.system"})),
    "writer": ("state/writer.json", lambda content: "text"),
    "buffer": ("state/buffer.json", lambda content: {}),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["tensor", "flat", "nested", "h5"])
@pytest.mark.parametrize("known", [False, True])
def test_files_made_by_hand(edit: str, name: str, known: bool, tmp_path: Path) -> None:
    filled(0, name).dumps(tmp_path)
    change(tmp_path, *EDITS[edit])
    assert "checkpoint" in refused(filled(30, name) if known else buffer(name), tmp_path)


def test_rows_of_no_items_are_refused(tmp_path: Path) -> None:
    filled(0, "nested").dumps(tmp_path)
    change(tmp_path, *EDITS["others"])
    with pytest.raises(ValueError, match=r"does not read as one \(8 of 12 rows are filled"):
        NestedStorageCheckpointer.read(tmp_path)


@pytest.mark.parametrize(
    "name", ["storage/storage.json", "storage/note.memmap", "state/sampler.json", "state/buffer.json"]
)
def test_a_pipe_in_place_of_a_file_does_not_block(name: str, tmp_path: Path, missing: Any) -> None:
    """The manifest lists no pipes, and who opens one waits for what comes out."""
    if not hasattr(os, "mkfifo"):
        missing("pipes", "one lies where a file should be")
    rb = ReplayBuffer(storage=LazyTensorStorage(5))
    rb.extend(TensorDict({"note": torch.arange(3)}, [3]))
    rb.dumps(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    folder.seal(tmp_path)
    with checkpoint_fuzz.limited(), pytest.raises(ValueError, match=f"not complete: '{name}' is missing"):
        ReplayBuffer(storage=LazyTensorStorage(5)).loads(tmp_path)


def test_a_file_that_cannot_be_decompressed_is_refused_before_anything_is_overwritten(tmp_path: Path) -> None:
    def make() -> ReplayBuffer:
        return ReplayBuffer(storage=LazyTensorStorage(5000), checkpointer=MAKERS["gzip"])

    def fill(rb: ReplayBuffer, value: float) -> ReplayBuffer:
        done = torch.zeros(5000, 1, dtype=torch.bool)
        rb.extend(TensorDict({"a": torch.rand(5000) + value, "next": {"done": done}}, [5000]))
        return rb

    fill(make(), 0).dumps(tmp_path)
    file = next(tmp_path.rglob("*.h5"))
    content = bytearray(file.read_bytes())
    begin = content.index(b"\x78\x5e", 2000)  # of what zlib writes
    content[begin + 100 : begin + 200] = bytes(100)
    file.write_bytes(content)
    folder.seal(tmp_path)
    for rb in (fill(make(), 7), make()):
        before = rb[:]["a"].clone() if len(rb) else None
        with pytest.raises((ValueError, OSError), match="cannot be read: it was damaged or cut short"):
            rb.loads(tmp_path)
        assert len(rb) == 0 if before is None else torch.equal(rb[:]["a"], before)


@pytest.mark.parametrize("objects", [["a", "b"], "abc", None, {"task": ["a", "b", "c"]}])
@pytest.mark.parametrize("name", ["tensor", "flat", "h5"])
def test_there_is_an_object_for_each_step(name: str, objects: Any, tmp_path: Path) -> None:
    data = steps_of([[False, True, False]])[0].set("task", NonTensorStack("a", "b", "c"))
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(5), checkpointer=MAKERS[name]) for _ in range(2))
    rb.extend(data)
    rb.dumps(tmp_path)
    change(tmp_path, "storage/storage.json", lambda content: content["objects"].update(task=objects))
    with pytest.raises(ValueError, match=r"the entry \('task',\) does not have one object for each item"):
        other.loads(tmp_path)


def test_no_pickle_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a pickle")

    for name in ("load", "loads", "dump", "dumps"):
        monkeypatch.setattr(pickle, name, refuse)
    for name in ("exec", "eval"):
        monkeypatch.setattr(builtins, name, refuse)
    for name in MAKERS:
        rb = filled(0, name)
        rb.dumps(tmp_path / name)
        for _ in range(2):
            assert first_of(tmp_path / name, name) == 0
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".memmap", ".h5", ""}  # those without are .lock and .rlnb
    assert isinstance(rb[:], TensorDict)
