"""split_trajectories: one padded row for each trajectory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import NonTensorStack, TensorDict

from rlnb.collectors.utils import split_trajectories
from rlnb.data.ted.columns import read_columns
from rlnb.data.ted.timeline import bits
from tests.data.ted.generators import make_ted, row_lengths, same


def slowly(data, stops):
    """The steps of each trajectory, one after the other."""
    found, flat = [[]], 0
    for row, row_stops in zip(data if data.batch_dims == 2 else [data], stops, strict=True):
        for step, stop in zip(row, row_stops, strict=True):
            found[-1].append(step)
            flat += 1
            if stop:
                found.append([])
    return found[:-1]


@given(st.data(), st.integers(1, 3), st.integers(1, 6), st.booleans(), st.sampled_from(["ids", "done", "no ids"]))
def test_rows_are_the_trajectories(draws, rows, steps, nested, by):
    lengths = draws.draw(row_lengths(rows, steps))
    data = make_ted(lengths, nested=nested, seed=draws.draw(st.integers(0, 99)))
    if by == "no ids":
        data = data.exclude("collector")
    split = split_trajectories(data, **({"done_key": "done"} if by == "done" else {}))
    stops = data["next", "done"][..., 0].clone()
    stops[:, -1] = True
    expected = slowly(data, stops)
    longest = max(map(len, expected))
    assert split.batch_size == torch.Size([len(expected), longest])
    assert split.names == [None, "time"]
    mask = split["mask"] if by == "no ids" else split["collector", "mask"]
    assert mask.tolist() == [[t < len(trajectory) for t in range(longest)] for trajectory in expected]
    for number, trajectory in enumerate(expected):
        row = split[number].exclude("mask", ("collector", "mask"), *(["traj_ids"] if by == "no ids" else []))
        for path, column in read_columns(torch.stack(trajectory))[0].items():
            found = read_columns(row)[0][path]
            assert torch.equal(bits(found[: len(trajectory)]), bits(column)), path
            assert not bits(found[len(trajectory) :]).any(), path
    if by == "no ids":
        assert split["traj_ids"].tolist() == [
            [number * (t < len(trajectory)) for t in range(longest)] for number, trajectory in enumerate(expected)
        ]
    same(split_trajectories(split), split)


def steps_with(**entries):
    done = torch.tensor([[False], [True], [False], [False]])
    return TensorDict({"x": torch.arange(1, 5), "next": {"done": done}, **entries}, [4])


def test_a_run_of_ids_is_a_trajectory_also_if_nothing_is_done():
    data = steps_with(which=torch.tensor([5, 5, 5, 2]))
    assert split_trajectories(data, trajectory_key="which")["x"].tolist() == [[1, 2, 3], [4, 0, 0]]
    assert split_trajectories(data)["x"].tolist() == [[1, 2], [3, 4]]
    assert split_trajectories(data, done_key=("next", "done"))["x"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("arguments", "mask", "ids"),
    [
        ({}, "mask", "traj_ids"),
        ({"prefix": "meta"}, ("meta", "mask"), ("meta", "traj_ids")),
        ({"prefix": ("a", "b")}, ("a", "b", "mask"), ("a", "b", "traj_ids")),
        ({"trajectory_key": ("info", "id")}, ("info", "mask"), None),
    ],
)
def test_the_mask_stands_beside_the_ids(arguments, mask, ids):
    data = steps_with(info=TensorDict({"id": torch.tensor([0, 0, 1, 1])}, [4]))
    split = split_trajectories(data, **arguments)
    assert split[mask].dtype == torch.bool and split[mask].all()
    assert ids is None or split[ids].tolist() == [[0, 0], [1, 1]]


def test_non_tensor_data_is_padded_with_none():
    data = steps_with(word=NonTensorStack("a", "b", "c", "d"))
    data["next", "done"] = torch.tensor([[False], [False], [True], [False]])
    assert split_trajectories(data).get("word").tolist() == [["a", "b", "c"], ["d", None, None]]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
def test_nested_tensors_hold_the_same_as_padded_ones():
    data = make_ted([[2, 3], [5]], dtype=torch.int64).exclude("action", "hidden", ("next", "reward"))
    padded = split_trajectories(data)
    nested = split_trajectories(data, as_nested=True)
    assert nested.batch_size == torch.Size([3, -1])
    assert (nested.to_padded_tensor(mask_key=("collector", "mask")) == padded).all()
    jagged = split_trajectories(data, as_nested=torch.jagged)
    assert jagged.batch_size == torch.Size([3])
    assert [row.tolist() for row in jagged["observation"].unbind()] == [
        row[mask].tolist() for row, mask in zip(padded["observation"], padded["collector", "mask"], strict=True)
    ]


def test_what_is_missing_is_named():
    with pytest.raises(KeyError) as caught:
        split_trajectories(steps_with(), trajectory_key="id")
    assert caught.value.args[0] == (
        "The data has no entry 'id', the ids of the trajectories. Its entries are: 'x', ('next', 'done'). Fix: omit "
        "trajectory_key to split where 'done' is True."
    )
    with pytest.raises(ValueError, match=r"'id' must have one id per step of the batch of size \[4\], got shape"):
        split_trajectories(steps_with(id=torch.zeros(4, 2)), trajectory_key="id")
    words = steps_with(word=NonTensorStack("a", "b", "c", "d"))
    with pytest.raises(TypeError, match="The entry 'word' is non-tensor data, which a nested tensor cannot hold"):
        split_trajectories(words, as_nested=True)
