"""TED2Flat and Flat2TED: exact round trips, observations stored once, invalid input."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict, lazy_stack

from rlnb.data import Flat2TED, MultiStep, TED2Flat
from rlnb.data.ted.timeline import not_adjacent
from tests.data.ted.generators import lazily, make_ted, number_of_bytes, same, teds


def ring(hook, data, shift):
    """Hand data to a hook as that of a full ring buffer whose cursor is at ``shift``."""
    hook.is_full, hook.shift = True, shift
    return hook(data)


@given(teds(), st.data())
def test_the_flat_form_gives_back_the_same_data(data, draws):
    same(Flat2TED()(TED2Flat()(data)), data)
    shift = draws.draw(st.integers(0, data.batch_size[-1] - 1))
    same(Flat2TED()(ring(TED2Flat(), data, shift)), data)


@given(teds(text=False))
def test_a_lazy_stack_gives_back_the_same_data(data):
    stacked = lazily(data)
    same(Flat2TED()(TED2Flat()(stacked)), stacked.contiguous())


@pytest.mark.parametrize("shift", [0, 2])
def test_files_give_back_the_same_data(tmp_path, shift):
    data = make_ted([[3, 2], [1, 4]], nested=True, text=True)
    hook = TED2Flat()
    hook.is_full, hook.shift = True, shift
    written = hook(data, tmp_path / "flat")
    assert written.is_memmap()
    loaded = TensorDict.load(tmp_path / "flat")
    same(Flat2TED()(loaded), data)


def observed(data):
    return TED2Flat()(data)["observation"].shape[0]


@pytest.mark.parametrize(("lengths", "open_last"), [([5], False), ([5], True), ([2, 3], True), ([1] * 5, False)])
def test_observations_stand_once_and_the_last_of_each_trajectory(lengths, open_last):
    data = make_ted([lengths], open_last, dtype=torch.int64)[0]
    flat = TED2Flat()(data)
    expected, at = [], 0
    for length in lengths:
        expected += [
            *data["observation"][at : at + length].tolist(),
            data["next", "observation"][at + length - 1].tolist(),
        ]
        at += length
    assert flat["observation"].tolist() == expected
    assert flat["action"].shape[0] == flat["reward"].shape[0] == flat["done"].shape[0] == 5
    assert torch.equal(flat["done"], data["next", "done"])
    assert flat.batch_size == torch.Size([])


def test_a_trajectory_over_the_seam_of_a_ring_is_stored_in_one_piece():
    in_order = make_ted([[3, 4]], dtype=torch.int64, open_last=True)[0]
    stored = torch.cat([in_order[2:], in_order[:2]])
    flat = ring(TED2Flat(), stored, 5)
    straight = TED2Flat()(in_order)
    assert torch.equal(flat["observation"], straight["observation"])
    assert torch.equal(flat["only_next"], straight["only_next"])
    same(Flat2TED()(flat), stored)


def test_data_that_is_not_adjacent_is_stored_exactly():
    data = make_ted([[6]], dtype=torch.int64)[0]
    data["observation"] = torch.arange(12).view(6, 2)
    data["next", "observation"] = torch.arange(2, 14).view(6, 2)
    assert observed(data) == 7
    data["next", "observation"][2] = 100
    flat = TED2Flat()(data)
    assert flat["observation"].shape[0] == 8
    assert flat["_breaks"].tolist() == [2, 5]
    same(Flat2TED()(flat), data)
    looked_ahead = MultiStep(0.9, 3)(data)
    same(Flat2TED()(TED2Flat()(looked_ahead)), looked_ahead)


@pytest.mark.parametrize("width", [1, 3, 4, 8, 24])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.float32, torch.int64])
@pytest.mark.parametrize("how", ["contiguous", "from the second element on", "across"])
def test_a_difference_in_any_bit_is_found(width: int, dtype: torch.dtype, how: str):
    steps, size = 20_000, dtype.itemsize  # up to 3.8 MB, several chunks
    memory = torch.zeros(steps * width + 1, dtype=dtype)
    root = memory[1:] if how == "from the second element on" else memory[:-1]
    root = root.view(width, steps).t() if how == "across" else root.view(steps, width)
    none = torch.zeros(steps, dtype=torch.bool)
    none[-1] = True
    assert not_adjacent(root, torch.zeros(steps, width, dtype=dtype), none).tolist() == []
    for step, column, byte in ((0, 0, 0), (11_700, width // 2, size // 2), (steps - 2, width - 1, size - 1)):
        after = torch.zeros(steps, width, dtype=dtype)
        after.view(torch.uint8).view(steps, width, size)[step, column, byte] = 1
        assert not_adjacent(root, after, none).tolist() == [step]


def test_end_signals_of_the_root_are_stored_only_if_one_is_true():
    data = make_ted([[2, 3]])[0]
    assert ("_root", "done") not in TED2Flat()(data).keys(True)
    data["done"][3] = True
    flat = TED2Flat()(data)
    assert flat["_root", "done"].flatten().tolist() == [False, False, False, True, False]
    same(Flat2TED()(flat), data)


def test_flat_data_takes_half_the_bytes():
    data = make_ted([[200] * 5])[0]
    data["observation"] = torch.randn(1000, 64)
    data["next", "observation"] = torch.cat([data["observation"][1:], torch.randn(1, 64)])
    data = data.exclude("hidden", "collector", ("next", "only_next"))
    assert number_of_bytes(TED2Flat()(data)) <= 0.52 * number_of_bytes(data)


def test_flat_data_of_another_source_is_read_by_keys_and_lengths():
    flat = TensorDict(
        {
            "observation": torch.arange(6.0),
            "action": torch.arange(4),
            "reward": torch.ones(4, 1),
            "done": torch.tensor([[False], [True], [False], [False]]),
        }
    )
    data = Flat2TED()(flat)
    assert data.batch_size == torch.Size([4])
    assert data["observation"].tolist() == [0, 1, 3, 4]
    assert data["next", "observation"].tolist() == [1, 2, 4, 5]
    assert set(data.keys()) == {"observation", "action", "done", "next"}
    assert not data["done"].any() and torch.equal(data["next", "done"], flat["done"])


def test_it_writes_to_the_data_that_it_is_given():
    data = make_ted([[2, 3]])[0]
    out = data.clone().zero_()
    pointer = out["observation"].data_ptr()
    assert Flat2TED()(TED2Flat()(data), out) is out
    same(out, data)
    assert out["observation"].data_ptr() == pointer


def test_other_keys():
    data = make_ted([[2, 3]])[0]
    data["shift"] = torch.arange(5)
    data["next", "over"] = data["next"].pop("done")
    hook = TED2Flat(done_key=("next", "over"), shift_key="cursor", is_full_key="full", done_keys=("over",))
    flat = hook(data)
    assert flat["cursor"] == 0 and flat["full"] is False
    same(Flat2TED(done_key="over", shift_key="cursor", is_full_key="full", done_keys=("over",))(flat), data)


def message(call, error):
    with pytest.raises(error) as caught:
        call()
    return re.sub(r"^'|'$", "", str(caught.value)).replace("\\'", "'") if error is KeyError else str(caught.value)


def test_a_single_step_is_refused():
    data = make_ted([[3]])[0, 0]
    assert message(lambda: TED2Flat()(data), ValueError) == (
        "TED data must have time as its last batch dimension, got a single step of batch size []. Fix: pass a "
        "rollout, or add the dimension with data.unsqueeze(-1)."
    )


def test_time_elsewhere_is_refused():
    data = make_ted([[3], [3]]).transpose(0, 1)
    assert message(lambda: TED2Flat()(data), ValueError) == (
        "Time must be the last batch dimension of TED data, got batch size [3, 2] with the names ['time', None]. "
        "Fix: data.transpose(0, -1)."
    )


def test_no_end_signal_is_refused():
    data = TensorDict({"a": torch.zeros(2), "next": {"a": torch.zeros(2)}}, [2])
    assert message(lambda: TED2Flat()(data), KeyError).strip('"') == (
        "No entry ('next', 'done'), which says where the episodes end. The data has: 'a', ('next', 'a'). Fix: "
        "data[('next', 'done')] = data['next', 'terminated']."
    )


def test_several_end_signals_a_step_are_refused():
    data = make_ted([[3]])[0]
    data["next", "agents"] = TensorDict({"done": torch.zeros(3, 2, 1, dtype=torch.bool)}, [3])
    assert message(lambda: TED2Flat(done_key=("next", "agents", "done"))(data), ValueError) == (
        "('next', 'agents', 'done') must have one flag for each step of the batch of size [3], got shape [3, 2, 1]. "
        "An episode ends for all agents of a step at once. Fix: pass the done_key of an entry with one flag per "
        "step, such as data['next', 'done'] = data[('next', 'agents', 'done')].flatten(1).any(-1, keepdim=True)."
    )


def test_a_name_that_the_flat_form_needs_is_refused():
    data = make_ted([[3]])[0]
    data["shift"] = torch.zeros(3)
    assert message(lambda: TED2Flat()(data), ValueError) == (
        "The data has an entry 'shift', a name that the flat form reserves. Fix: shift_key='another name'."
    )


def test_lazy_stacks_of_different_shapes_are_refused():
    rows = [make_ted([[1]])[0, 0].set("pixels", torch.zeros(size)) for size in (1, 2)]
    text = message(lambda: TED2Flat()(lazy_stack(rows)), ValueError)
    assert text.startswith(
        "The data is a lazy stack whose entries differ in shape from row to row, so they do not fit into one "
        "tensor. Fix: pad them to one shape, or leave them out with data.exclude(...). ("
    )
    assert "'pixels'" in text


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda flat: flat.set("observation", flat["observation"][:-1]),
            ValueError,
            "The entry 'observation' of the flat data must have 7 rows, one per step and one more per trajectory, "
            "got 6. It was changed or cut short. Fix: save it again.",
        ),
        (
            lambda flat: flat.set("action", flat["action"][:-1]),
            ValueError,
            "The entry 'action' of the flat data must have 5 rows, one per step, got 4. It was changed or cut "
            "short. Fix: save it again.",
        ),
        (
            lambda flat: flat.set("done", flat["done"][:-1]),
            ValueError,
            "The entry 'done' of the flat data must have one flag for each of the 5 steps (batch size [5]), got 4. "
            "It was changed or cut short. Fix: save it again.",
        ),
        (
            lambda flat: flat.set_non_tensor("shift", 99).set_non_tensor("is_full", True),
            ValueError,
            "The entry 'shift' must be the position of the oldest of 5 steps, got 99. The data was changed. Fix: "
            "save it again.",
        ),
        (
            lambda flat: flat.set_non_tensor("_layout", "{}"),
            ValueError,
            "The entry '_layout' describes how to convert flat data back to TED, but cannot be parsed (KeyError: "
            "'batch_size'). The data was changed or cut short. Fix: save it again with TED2Flat, TED2Nested or "
            "H5Split.",
        ),
        (
            lambda flat: flat.set("_breaks", torch.tensor([99])),
            ValueError,
            "The entry '_breaks' must list steps by their index, from 0 to 4, but holds something else. The data "
            "was changed. Fix: save it again.",
        ),
    ],
)
def test_flat_data_that_was_changed_is_refused(change, error, text):
    flat = TED2Flat()(make_ted([[2, 3]])[0])
    change(flat)
    assert message(lambda: Flat2TED()(flat), error) == text


def test_a_missing_entry_is_named():
    flat = TED2Flat()(make_ted([[2, 3]])[0]).exclude("action")
    assert "The flat data lacks the entry 'action', which its layout lists." in message(
        lambda: Flat2TED()(flat), KeyError
    )
