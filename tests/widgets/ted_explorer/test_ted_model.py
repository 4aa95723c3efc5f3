"""Shapes, storage, statistics, and entries of every kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from rlnb_widgets._core.dims import dims_text
from rlnb_widgets._core.text import object_text, values_text
from rlnb_widgets.ted_explorer import Dim, Stats, Thumb, ted_model
from rlnb_widgets.ted_explorer.numbers import POINTS, stats_of, thumb_of
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack, tensorclass

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.complex64,
]


def test_batch_time_nested_and_feature_dimensions_are_told_apart(ted):
    td = ted(6, (4, 2))
    td["agents"] = TensorDict({"position": torch.zeros(4, 2, 6, 3, 5)}, [4, 2, 6, 3])
    model = ted_model(td)
    assert (model.batch, model.steps, model.is_ted) == ((4, 2), 6, True)
    assert model.row("observation").root.shape == "[B=4,2 | T=6 | 2]"
    assert model.row("action").root.shape == "[B=4,2 | T=6]"
    assert model.row("agents").root.shape == "[B=4,2 | T=6 | N=3]"
    assert model.row("agents", "position").root.dims == (
        Dim("batch", 4),
        Dim("batch", 2),
        Dim("time", 6),
        Dim("nested", 3),
        Dim("feature", 5),
    )


def test_a_shape_of_differing_sizes_has_minus_one_as_in_a_spec():
    assert dims_text((Dim("batch", 2), Dim("feature", None))) == "[B=2 | -1]"


def test_a_tensordict_without_next_is_one_column_with_a_plain_sentence():
    model = ted_model(TensorDict({"x": torch.zeros(3, 2)}, [3]))
    assert (model.is_ted, model.steps, model.batch) == (False, None, (3,))
    assert model.row("x").next is None and model.row("x").carry.kind == ""
    assert model.notes == (
        'This TensorDict has no "next", so it is not an episode in TED form; its entries are shown in one column. '
        "A rollout, a collector batch or a sample of stored transitions has one.",
    )


def test_a_tensor_called_next_makes_no_ted():
    model = ted_model(TensorDict({"next": torch.zeros(3)}, [3]))
    assert not model.is_ted and model.row("next").root.dtype == "float32"


@pytest.mark.parametrize("batch", [[], [3], [0]])
def test_an_empty_tensordict(batch):
    model = ted_model(TensorDict({}, batch))
    assert model.rows == () and model.notes == ("This TensorDict is empty: it has no entries.",)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3,), (3, 4, 4)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_size_is_summarised(dtype, shape):
    value = torch.ones(5, *shape).to(dtype)
    cell = ted_model(TensorDict({"x": value, "next": {"x": value}}, [5])).row("x").next
    assert cell.dtype == str(dtype).removeprefix("torch.")
    assert cell.nbytes == value.numel() * dtype.itemsize
    if value.numel():
        assert (cell.stats.low, cell.stats.mean, cell.stats.high) == (1, 1, 1)
        assert cell.message == ""
    else:
        assert (cell.stats.count, cell.thumb, cell.message) == (0, None, "no elements")


def test_a_node_has_the_bytes_below_it():
    td = TensorDict({"a": TensorDict({"b": {"c": torch.zeros(3, 2)}, "d": torch.zeros(3)}, [3])}, [3])
    model = ted_model(td)
    assert [model.row(*path).root.nbytes for path in (("a",), ("a", "b"), ("a", "b", "c"))] == [36, 24, 24]
    assert (model.nbytes, model.leaves) == (36, 2)


def test_storage_kinds(tmp_path):
    td = TensorDict({"x": torch.zeros(3)}, [3])
    assert ted_model(td).row("x").root.storage == "in memory"
    assert ted_model(td.clone().share_memory_()).row("x").root.storage == "shared"
    assert ted_model(td.memmap(tmp_path)).row("x").root.storage == "memory-mapped"
    assert ted_model(lazy_stack([td, td])).row("x").root.storage == "lazily stacked"


def test_a_lazy_stack_of_differing_shapes_shows_its_pieces():
    pieces = [
        TensorDict({"x": torch.ones(3), "n": TensorDict({"q": torch.zeros(2)}), "name": "a"}),
        TensorDict({"x": torch.zeros(1), "n": TensorDict({"q": torch.zeros(5)}), "name": "b", "z": torch.ones(1)}),
    ]
    model = ted_model(lazy_stack(pieces))
    x = model.row("x").root
    assert (x.shape, x.nbytes, x.stats.mean) == ("[B=2 | -1]", 16, 0.75)
    assert x.message == "sizes vary: [3], [1]"
    assert model.row("n", "q").root.shape == "[B=2 | -1]"
    z = model.row("z").root
    assert (z.message, z.shape) == ("there in 1 of 2 places only: [1]", "[B=2 | 1]")
    assert model.row("name").root.preview == "['a', 'b']"


def test_non_tensor_data_is_shown_without_addresses():
    td = TensorDict({"o": NonTensorData(object(), batch_size=[2]), "s": NonTensorStack("a", "<b>")}, [2])
    model = ted_model(td)
    assert (model.row("o").root.dtype, model.row("o").root.storage) == ("object", "non-tensor")
    assert model.row("o").root.preview == "[<object object>, <object object>]"
    assert (model.row("s").root.dtype, model.row("s").root.preview) == ("str", "['a', '<b>']")


class Broken:
    def __repr__(self):
        raise ValueError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Broken(), "<Broken, whose repr raises ValueError>"),
        (lambda: 0, "<function <lambda>>"),
        ("x" * 200, "'" + "x" * 76 + "..."),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_objects_as_text(value, text):
    assert object_text(value) == text


def test_one_entry_that_cannot_be_summarised_gives_a_message_and_no_crash(ted, monkeypatch):
    def fail(array):
        raise RuntimeError("boom at 0x7f00 <b>")

    monkeypatch.setattr("rlnb_widgets.ted_explorer.measure.stats_of", fail)
    cell = ted_model(ted()).row("observation").root
    assert (cell.dtype, cell.shape) == ("float32", "[T=6 | 2]")
    assert (cell.stats, cell.message) == (None, "cannot be summarised: RuntimeError: boom <b>")


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (torch.eye(3).to_sparse(), "[B=3 | 3]"),
        (torch.nested.nested_tensor([torch.zeros(n) for n in (1, 2, 3)], layout=torch.jagged), "[B=3 | -1]"),
    ],
    ids=["sparse", "jagged"],
)
def test_tensors_without_plain_numbers_keep_their_row(value, shape):
    td = TensorDict({"x": value, "good": torch.ones(3)}, [3])
    model = ted_model(td, other=td.clone())
    cell = model.row("x").root
    assert (cell.dtype, cell.shape) == ("float32", shape) and cell.message.startswith("cannot be summarised: ")
    assert model.row("good").root.stats.mean == 1 and model.row("good").differences == ()


def test_a_tensorclass_and_its_strings():
    @tensorclass
    class Step:
        x: torch.Tensor
        name: str

    step = Step(x=torch.ones(3, 2), name="a", batch_size=[3])
    td = TensorDict({"step": step, "next": {"step": step}}, [3])
    model = ted_model(td)
    assert model.row("step").root.dtype == "Step" and not model.row("step").leaf
    assert (model.row("step", "name").root.dtype, model.row("step", "name").carry.holds) == ("str", True)
    assert [row.path for row in ted_model(step).rows] == [("x",), ("name",)]


def test_an_entry_that_cannot_be_read_gives_a_message():
    td = TensorDict({"good": torch.ones(2), "bad": torch.zeros(2)}, [2])
    read = td.get

    class Guarded:
        batch_size = td.batch_size

        def keys(self):
            return td.keys()

        def get(self, key):
            if key == "bad":
                raise OSError("the file is gone")
            return read(key)

    from rlnb_widgets.ted_explorer.entries import ted_entries
    from rlnb_widgets.ted_explorer.measure import measure

    good, bad = (measure(entry, 1, False) for entry in ted_entries(Guarded()))
    assert good.preview == "[1, 1]" and bad.message == "cannot be read: OSError: the file is gone"


@pytest.mark.parametrize("value", [{"a": 1}, None, torch.zeros(2), "text"])
def test_what_is_no_tensordict_is_refused_with_the_remedy(value):
    with pytest.raises(TypeError, match=r"^td must be a TensorDict such as env.rollout\(...\) returns, got "):
        ted_model(value)


def test_an_unknown_row_lists_those_there_are(ted):
    with pytest.raises(KeyError, match=r"no row .*'observation', 'action', 'terminated', 'truncated', 'done', 'rew"):
        ted_model(ted()).row("nothing")


@pytest.mark.parametrize(
    ("values", "stats"),
    [
        ([1.0, 2.0, 6.0], Stats(3, 1.0, 3.0, 6.0)),
        ([1.0, math.nan, 3.0, math.inf, -math.inf], Stats(5, 1.0, 2.0, 3.0, nan=1, inf=2)),
        ([math.nan], Stats(1, None, None, None, nan=1)),
        ([], Stats(0, None, None, None)),
        ([True, False, True, True], Stats(4, 0.0, 0.75, 1.0)),
        ([3 + 4j, 0j], Stats(2, 0.0, 2.5, 5.0, of="|z|")),
    ],
)
def test_stats_by_value(values, stats):
    assert stats_of(np.array(values)) == stats


def test_a_huge_leaf_is_sampled_and_says_so(monkeypatch):
    monkeypatch.setattr("rlnb_widgets.ted_explorer.numbers.MAX_COUNT", 10)
    assert stats_of(np.arange(100.0)) == Stats(10, 0.0, 45.0, 90.0, sampled=True)


def test_thumbs_by_value():
    line = np.array([[0.0], [np.nan], [1.0], [0.5]], dtype=np.float32)
    assert thumb_of(line, 1, True) == Thumb("spark", 1, (0, -1, 63, 32))
    assert thumb_of(np.full((4, 1), 7.0), 1, True) == Thumb("spark", 1, (31,) * 4)
    grid = np.array([[0, 5], [10, 5], [20, 0]])
    assert thumb_of(grid, 1, True) == Thumb("heat", 2, (0, 32, 63, 63, 63, 0))
    assert thumb_of(np.zeros((1, 1)), 1, True) is None
    histogram = thumb_of(np.array([0.0, 0.0, 0.0, 1.0]), 1, False)
    assert histogram.kind == "hist" and histogram.levels[0] == 63 and histogram.levels[-1] == 21
    assert sum(histogram.levels[1:-1]) == 0


def test_a_single_spike_stays_to_be_seen_in_a_long_line():
    flags = np.zeros((10_000, 1), dtype=bool)
    flags[7777] = True
    thumb = thumb_of(flags, 1, True)
    assert thumb.kind == "band" and len(thumb.levels) == 2 * POINTS
    assert [i for i, level in enumerate(thumb.levels) if level] == [2 * (7777 * POINTS // 10_000) + 1]


def test_the_thumb_is_of_the_first_batch_element():
    values = np.stack([np.arange(4.0), np.zeros(4)])
    assert thumb_of(values, 2, True).levels == (0, 21, 42, 63)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(2.5), "2.5"),
        (np.array([True]), "True"),
        (np.array([1 + 2j, 0]), "[1+2j, 0+0j]"),
        (np.zeros(0), "[]"),
    ],
)
def test_values_as_text(array, text):
    assert values_text(array) == text
