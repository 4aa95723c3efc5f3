"""TED2Nested, Nested2TED, H5Split and H5Combine: one row, or one group, for each trajectory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.collectors.utils import split_trajectories
from rlnb.data import Flat2TED, H5Combine, H5Split, Nested2TED, TED2Flat, TED2Nested
from tests.data.ted.generators import make_ted, same, teds


@given(teds(), st.data())
def test_both_forms_give_back_the_same_data(data, draws):
    hook = TED2Nested()
    hook.is_full, hook.shift = draws.draw(st.booleans()), draws.draw(st.integers(0, data.batch_size[-1] - 1))
    nested = hook(data)
    same(Nested2TED()(nested), data)
    same(Nested2TED()(H5Combine()(H5Split()(nested))), data)


def test_no_steps_at_all():
    empty = make_ted([[1]])[0][:0]
    same(Flat2TED()(TED2Flat()(empty)), empty)
    same(Nested2TED()(TED2Nested()(empty)), empty)
    assert split_trajectories(empty).batch_size == torch.Size([0, 0])


def test_a_row_is_a_trajectory():
    data = make_ted([[2, 3], [5]], dtype=torch.int64, open_last=False)
    nested = TED2Nested()(data)
    assert nested.batch_size == torch.Size([3])
    only = data["next", "only_next"]
    rows = [only[0, :2], only[0, 2:], only[1]]
    assert [row.tolist() for row in nested["only_next"].unbind()] == [row.tolist() for row in rows]
    last = data["next", "observation"][0, 1]
    assert nested["observation"].unbind()[0].tolist() == [*data["observation"][0, :2].tolist(), last.tolist()]


def test_files_give_back_the_same_data(tmp_path):
    data = make_ted([[2, 3], [1, 4]], text=True)
    TED2Nested()(data, tmp_path / "nested")
    same(Nested2TED()(TensorDict.load(tmp_path / "nested")), data)


def test_trajectories_are_put_together_in_the_order_of_their_numbers():
    data = make_ted([[1] * 12])[0]
    split = H5Split()(TED2Nested()(data))
    assert split["traj_11", "action"].shape == torch.Size([1, 2])
    shuffled = TensorDict({key: split.get(key) for key in sorted(split.keys())}, [])
    same(Nested2TED()(H5Combine()(shuffled)), data)


def refused(call, error):
    with pytest.raises(error) as caught:
        call()
    return caught.value.args[0]


def test_a_missing_trajectory_is_named():
    split = H5Split()(TED2Nested()(make_ted([[2, 2, 2]])[0])).exclude("traj_1")
    assert refused(lambda: H5Combine()(split), KeyError) == (
        "The data has 2 trajectories, up to 'traj_2', but no 'traj_1'. It was changed or cut short. Fix: save it again."
    )


def test_a_missing_entry_of_a_trajectory_is_named():
    split = H5Split()(TED2Nested()(make_ted([[2, 2]])[0])).exclude(("traj_1", "action"))
    assert refused(lambda: H5Combine()(split), KeyError) == (
        "'traj_0' has an entry 'action', but 'traj_1' does not. The data was changed or cut short. Fix: save it again."
    )


def test_entries_of_different_dtypes_are_refused():
    split = H5Split()(TED2Nested()(make_ted([[2, 2]])[0]))
    split["traj_1", "action"] = split["traj_1", "action"].double()
    assert refused(lambda: H5Combine()(split), ValueError) == (
        "The entry 'action' has shape [steps, 2] and dtype torch.float32 in 'traj_0', but shape [steps, 2] and "
        "dtype torch.float64 in 'traj_1'. The data was changed. Fix: save it again."
    )


def test_a_trajectory_that_was_cut_short_is_refused():
    split = H5Split()(TED2Nested()(make_ted([[2, 2]])[0]))
    split["traj_1", "observation"] = split["traj_1", "observation"][:-1]
    assert refused(lambda: Nested2TED()(H5Combine()(split)), ValueError) == (
        "The entry 'observation' must have 3 elements in trajectory 1, got 2. The data was changed or cut short. "
        "Fix: save it again."
    )


def test_data_that_is_not_nested_is_refused():
    data = make_ted([[2, 2]])[0]
    assert refused(lambda: H5Split()(data), ValueError) == (
        "The entry 'action' is not a nested tensor, so the data is not split into trajectories. Fix: "
        "H5Split()(TED2Nested()(data))."
    )


@pytest.mark.parametrize("steps", [0, 1, 8])
@pytest.mark.parametrize("shape", [(0,), (3, 0)])
@pytest.mark.parametrize("forms", [(TED2Flat, Flat2TED), (TED2Nested, Nested2TED)])
@pytest.mark.parametrize("to_files", [False, True])
def test_entries_without_elements_come_back(steps, shape, forms, to_files, tmp_path):
    """At the root alone, under "next" alone, and in both; the trajectories have 3, 3 and 2 steps."""
    there, back = forms
    empty, done = torch.zeros(8, *shape), torch.tensor([[0], [0], [1]] * 3)[:8].bool()
    below = {"observation": torch.arange(1.0, 9.0), "done": done, "both": empty.clone(), "below": empty.clone()}
    root = {"observation": torch.arange(8.0), "both": empty.clone(), "root": {"deep": empty.clone()}}
    data = TensorDict({**root, "next": TensorDict(below, [8])}, [8])[:steps]
    made = there()(data, tmp_path / "it" if to_files else None)
    same(back()(TensorDict.load(tmp_path / "it") if to_files else made), data)
