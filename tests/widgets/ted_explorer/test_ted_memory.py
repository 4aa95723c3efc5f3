"""Where the data of a TED explorer are: files that are not loaded, and memory shared by two TensorDicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rlnb_widgets import TEDExplorer
from rlnb_widgets.ted_explorer import ted_model
from rlnb_widgets.ted_explorer.memory import PART, SAME, sharing_of
from tensordict import TensorDict, lazy_stack

from rlnb.data import SavedTensorDict


def make() -> TensorDict:
    return TensorDict({"a": torch.rand(4, 3), "n": {"b": torch.zeros(4)}, "next": {"a": torch.rand(4, 3)}}, [4])


def test_copies_share_nothing_and_views_do() -> None:
    td = make()
    assert sharing_of(td, td.clone()) == {}
    everything = {("a",): SAME, ("n", "b"): SAME, ("next", "a"): SAME}
    assert sharing_of(td, td) == sharing_of(td, td.clone(recurse=False)) == sharing_of(td, td.view(2, 2)) == everything
    assert sharing_of(td, td[1:]) == sharing_of(td[1:], td) == dict.fromkeys(everything, PART)
    assert sharing_of(td[:2], td[2:]) == {}, "one block of memory, of which each has its own part"
    renamed = TensorDict({"x": td["a"]}, [4])
    assert sharing_of(td, renamed) == {("a",): PART}
    assert sharing_of(td.share_memory_(), td[0]) == dict.fromkeys(everything, PART)


def test_files_that_are_mapped_twice(tmp_path: Path) -> None:
    here = make().memmap(tmp_path)
    there = TensorDict.load_memmap(tmp_path)
    assert here["a"].data_ptr() != there["a"].data_ptr()
    assert sharing_of(here, there)["a",] == SAME and sharing_of(here, here.clone()) == {}


def test_lazy_stacks_share_by_pieces() -> None:
    one, two = make(), make()
    stack = lazy_stack([one, two])
    assert set(sharing_of(stack, lazy_stack([one, two])).values()) == {SAME}
    assert set(sharing_of(stack, lazy_stack([one, two.clone()])).values()) == {PART}
    assert set(sharing_of(one, stack).values()) == {SAME} and sharing_of(stack.contiguous(), stack) == {}


def test_what_has_no_memory_shares_none() -> None:
    odd: dict[str, Any] = {"empty": torch.zeros(0), "sparse": torch.eye(2).to_sparse(), "text": "hello"}
    td = TensorDict(odd)
    assert sharing_of(td, td) == {}


def test_the_model_and_its_views_name_shared_memory() -> None:
    td = make().exclude("n")
    other = td.clone()
    other["a"] = td["a"]
    explorer = TEDExplorer(td, other=other)
    row = explorer.model.row("a")
    assert row.root and row.next and (row.root.sharing, row.next.sharing) == (SAME, "")
    assert row.root.place == "same memory as other" and "float32 [T=4 | 3] (same memory as other)" in repr(explorer)
    note = "1 tensor is in memory that the other TensorDict uses, too: what is written to one is read from both."
    assert note in explorer.model.notes and note in explorer.explain()
    data = json.loads(explorer.payload)
    row_of_page = data["rows"][0]
    about = data["alike"][row_of_page["root"]["alike"]]["about"]
    assert row_of_page["badges"] == ["same memory"] and "same memory as other" in about
    assert ">same memory<" in explorer.to_svg()
    assert not ted_model(td, other=td.clone()).row("a").root.sharing  # type: ignore[union-attr]


def test_a_saved_tensordict_is_shown_without_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    td = make()
    saved = SavedTensorDict(td)
    loads: list[Any] = []
    monkeypatch.setattr("rlnb.data.saved._loaded", lambda *args: loads.append(args))
    explorer = TEDExplorer(saved)
    assert loads == [] and explorer.model.nbytes == saved.bytes() == 112
    assert repr(explorer) == (
        "TEDExplorer(batch=4, 3 leaves, 112 B)\n"
        "key   entry                      min / mean / max\n"
        "----  -------------------------  ----------------\n"
        "a     float32 [B=4 | 3] (saved)\n"
        "n     TensorDict [B=4] (saved)\n"
        "  b   float32 [B=4] (saved)\n"
        "next  TensorDict [B=4] (saved)\n"
        "  a   float32 [B=4 | 3] (saved)\n"
        "This is a SavedTensorDict: its tensors are in a file, and none was loaded. "
        "TEDExplorer(saved.load()) shows their values."
    )
    cell = explorer.model.row("a").root
    assert cell and (cell.storage, cell.device, cell.stats, cell.message) == ("saved", "cpu", None, "")
    assert json.loads(explorer.payload)["rows"][0]["root"]["kept"] == "saved" and "saved" in explorer.to_svg()
    with pytest.raises(TypeError, match=r"other must be a TensorDict .* got SavedTensorDict\. Fix: other\.load\(\)\."):
        TEDExplorer(td, other=saved)


def test_a_tensordict_without_values() -> None:
    cell = ted_model(make().exclude("next").to("meta")).row("a").root
    assert cell and (cell.storage, cell.nbytes, cell.device, cell.message) == ("no values", 48, "meta", "")
