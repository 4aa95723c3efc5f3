"""Checkpoints made by hand, with right checksums: nothing in them is executed, and nothing makes no sense."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyTensorStorage,
    ReplayBuffer,
)
from rlnb.data.replay_buffers.checkpointers import files
from tests.data.replay_buffers.checkpoint_worlds import (
    MAKERS,
    buffer,
    filled,
    first_of,
    no_disk,  # noqa: F401 - a fixture for the whole module
    refused,
)

# Files made by hand ---------------------------------------------------------------------------------------------------


def change(path: Path, edit: Callable[[Any], Any]) -> None:
    """Change a document, and give it the right checksum."""
    content = files.read_document(path)
    changed = edit(content)
    files.write_document(path, content if changed is None else changed)


LEAF = {"type": None, "context": None, "children_spec": []}
FACTORY = {"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": ["a"]}
KEYS = json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "y"}])
STRUCTURES = [
    json.dumps([1, {"type": "collections.defaultdict", "context": FACTORY, "children_spec": [LEAF]}]),
    json.dumps([1, {"type": "builtins.dict", "context": KEYS, "children_spec": [LEAF]}]),
    json.dumps([1, {"type": "os.system", "context": "true", "children_spec": []}]),
    "[2, null]",
    "[1, {}]",
    "nothing",
]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_structure_of_a_tree_imports_nothing(structure: str, tmp_path: Path) -> None:  # CP-01
    rb = ReplayBuffer(storage=LazyTensorStorage(5))
    rb.extend({"a": torch.zeros(3)})
    rb.dumps(tmp_path)
    other = ReplayBuffer(storage=LazyTensorStorage(5))
    head = next(tmp_path.glob("*/storage/storage.json"))
    change(head, lambda content: content["head"]["form"].update(structure=structure))
    sys.modules.pop("antigravity", None)
    with pytest.raises(ValueError, match="does not read as one"):
        other.loads(tmp_path)
    assert "antigravity" not in sys.modules
    assert other.storage.form is None
    state = rb.state_dict()
    state["_storage"]["form"]["structure"] = structure
    with pytest.raises((ValueError, KeyError)):
        other.load_state_dict(state)
    assert "antigravity" not in sys.modules


EDITS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "pointer": ("checkpoint.json", lambda content: {"folder": "../elsewhere"}),
    "absolute": ("checkpoint.json", lambda content: {"folder": "/etc"}),
    "dtype": ("*/storage/storage.json", lambda content: content["head"]["leaves"][0].__setitem__(2, "load")),
    "huge": ("*/storage/storage.json", lambda content: content["head"]["leaves"][0].__setitem__(1, [1 << 60])),
    "large": ("*/storage/storage.json", lambda content: content["head"]["leaves"][0].__setitem__(1, [1 << 40])),
    "negative": ("*/storage/storage.json", lambda content: content["head"]["leaves"][0].__setitem__(1, [-3])),
    "length": ("*/storage/storage.json", lambda content: content["head"].update(length=13)),
    "shorter": ("*/storage/storage.json", lambda content: content["head"].update(length=7)),
    "cursor": ("*/storage/storage.json", lambda content: content["head"].update(cursor=99)),
    "others": ("*/storage/storage.json", lambda content: content["head"].update(others=[0])),
    "not a head": ("*/storage/storage.json", lambda content: content.update(head=[])),
    "no head": ("*/storage/storage.json", lambda content: []),
    "no content": ("*/storage/storage.json", lambda content: content.update(content=None)),
    "sampler": ("*/sampler.json", lambda content: content["state"].pop("alpha")),
    "tensor": ("*/sampler.json", lambda content: content["state"]["priorities"]["$tensor"].__setitem__(0, "../x")),
    "tag": ("*/sampler.json", lambda content: content["state"].update(alpha={"$call": "os.system"})),
    "writer": ("*/writer.json", lambda content: "text"),
    "buffer": ("*/buffer.json", lambda content: {}),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["tensor", "flat", "nested", "h5"])
@pytest.mark.parametrize("known", [False, True])
def test_files_made_by_hand(edit: str, name: str, known: bool, tmp_path: Path) -> None:  # CP-01
    filled(0, name).dumps(tmp_path)
    pattern, call = EDITS[edit]
    change(next(tmp_path.glob(pattern)), call)
    assert "checkpoint" in refused(filled(30, name) if known else buffer(name), tmp_path)


def test_no_pickle_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # CP-01
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
    assert suffixes == {".json", ".raw", ".h5", ""}  # that without is .lock
    assert isinstance(rb[:], TensorDict)
