"""Random TED data, a step at a time in plain Python, and what compares it."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase, lazy_stack

from rlnb.data.ted.columns import Constant, read_columns
from rlnb.data.ted.timeline import bits

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
DTYPES = (*FLOATS, torch.int64, torch.uint8, torch.bool, torch.complex64)


def same(one: TensorDictBase, other: TensorDictBase) -> None:
    """Assert that two TensorDicts are the same, bit by bit, with their sizes and names."""
    assert one.batch_size == other.batch_size
    assert one.names == other.names
    (columns, branches), (others, other_branches) = read_columns(one), read_columns(other)
    assert set(columns) == set(others)
    assert set(branches) == set(other_branches)
    for path, column in columns.items():
        match = others[path]
        if isinstance(column, torch.Tensor):
            assert column.dtype == match.dtype and column.shape == match.shape, path
            assert torch.equal(bits(column), bits(match)), path
        else:
            plain = [each.value if isinstance(each, Constant) else each for each in (column, match)]
            assert plain[0] == plain[1], path


def number_of_bytes(data: TensorDictBase) -> int:
    return sum(column.numel() * column.element_size() for column in data.values(True, True) if torch.is_tensor(column))


def random_values(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Values of few kinds, NaN, infinity and minus zero among them."""
    kinds = torch.randint(0, 7, shape, generator=generator)
    if dtype.is_floating_point or dtype.is_complex:
        table = torch.tensor([0.0, -0.0, math.nan, math.inf, -1.5, 2.0, 3.25])
        return table[kinds].to(dtype)
    return kinds.to(dtype)


def make_ted(
    lengths: list[list[int]],
    open_last: bool = True,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    nested: bool = False,
    text: bool = False,
    adjacent: bool = True,
) -> TensorDict:
    """TED data of batch size [rows, steps] from the lengths of the episodes of each row."""
    generator = torch.Generator().manual_seed(seed)
    rows, steps = len(lengths), sum(lengths[0])
    ends = torch.zeros(rows, steps, 1, dtype=torch.bool)
    for row, row_lengths in enumerate(lengths):
        assert sum(row_lengths) == steps
        at = -1
        for length in row_lengths:
            at += length
            ends[row, at] = True
        ends[row, -1:] = not open_last
    cut = torch.rand(ends.shape, generator=generator) < 0.5
    flags = {"done": ends, "terminated": ends & ~cut, "truncated": ends & cut}
    key = ("agents", "observation") if nested else "observation"
    feature = (3, 2) if nested else (2,)
    root = random_values((rows, steps, *feature), dtype, generator)
    after = random_values((rows, steps, *feature), dtype, generator)
    if adjacent:
        go_on = ~ends[:, :-1].reshape(rows, -1, *(1,) * len(feature)) if steps else ends
        after[:, :-1] = torch.where(go_on, root[:, 1:], after[:, :-1])
    ids = torch.cat([torch.zeros(rows, 1, dtype=torch.int64), ends[:, :-1, 0].long().cumsum(1)], 1)[:, :steps]
    data = TensorDict(
        {
            "action": random_values((rows, steps, 2), torch.float32, generator),
            "hidden": random_values((rows, steps), torch.float64, generator),
            **{name: torch.zeros_like(ends) for name in flags},
            "collector": TensorDict({"traj_ids": ids}, [rows, steps]),
            "next": TensorDict(
                {
                    "reward": random_values((rows, steps, 1), torch.float32, generator),
                    "only_next": random_values((rows, steps), torch.int64, generator),
                    **flags,
                },
                [rows, steps],
            ),
        },
        [rows, steps],
        names=[None, "time"],
    )
    if nested:
        data["agents"] = TensorDict({}, [rows, steps, 3])
        data["next", "agents"] = TensorDict({}, [rows, steps, 3])
    data[key] = root
    data["next", key] = after
    if text and steps:
        words = [[f"{row}:{step}" for step in range(steps)] for row in range(rows)]
        data["word"] = NonTensorStack.from_list(words)
        data["next", "word"] = NonTensorStack.from_list(
            [[*row[1:], f"{number}:{steps}"] for number, row in enumerate(words)]
        )
        data["env"] = NonTensorData("CartPole", batch_size=[rows, steps])
    return data


@st.composite
def row_lengths(draw, rows: int, steps: int):
    """For each row, the lengths of its episodes."""
    found = []
    for _ in range(rows):
        kind = draw(st.sampled_from(["any", "every step", "no step"]))
        lengths = [steps] if kind == "no step" else [1] * steps
        if kind == "any":
            cuts = sorted(draw(st.sets(st.integers(1, steps), max_size=steps))) if steps else []
            lengths = [stop - start for start, stop in zip([0, *cuts], [*cuts, steps], strict=True) if stop > start]
        found.append(lengths)
    return found


@st.composite
def teds(draw, **fixed):
    """TED data of any kind; of one dimension, or of two, or lazily stacked."""
    rows, steps = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    options = {
        "open_last": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "nested": draw(st.booleans()),
        "text": draw(st.booleans()),
        "adjacent": draw(st.sampled_from([True, True, False])),
        **fixed,
    }
    data = make_ted(draw(row_lengths(rows, steps)), **options)
    return data[0] if rows == 1 and draw(st.booleans()) else data


def lazily(data: TensorDict) -> TensorDictBase:
    """The same data as a lazy stack along time."""
    return lazy_stack(list(data.unbind(-1)), data.batch_dims - 1)
