"""Checkpointers of TED data: exact round trips, file sizes, and assumptions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack, TensorDict

from rlnb.collectors import Collector
from rlnb.data import (
    FlatStorageCheckpointer,
    H5StorageCheckpointer,
    LazyMemmapStorage,
    LazyTensorStorage,
    MultiStep,
    NestedStorageCheckpointer,
    ReplayBuffer,
    TED2Nested,
    TensorStorageCheckpointer,
    read_h5,
)
from rlnb.data.replay_buffers.checkpointers import files, folder
from rlnb.envs import GymEnv, SerialEnv
from tests.data.replay_buffers.checkpoint_worlds import no_disk, steps_of  # noqa: F401 - no_disk is a fixture
from tests.data.replay_buffers.worlds import as_tensordict
from tests.data.ted.generators import same
from tests.pairwise import few

MAKERS: dict[str, Any] = {
    "flat": FlatStorageCheckpointer,
    "nested": NestedStorageCheckpointer,
    "h5": H5StorageCheckpointer,
    "gzip": lambda: H5StorageCheckpointer(h5_kwargs={"compression": "gzip", "compression_opts": 1}),
}


def buffer(name: str, size: int, ndim: int, storage: Any = LazyTensorStorage) -> ReplayBuffer:
    return ReplayBuffer(storage=storage(size, ndim=ndim), checkpointer=MAKERS[name])


def bytes_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@st.composite
def extensions(draw: Any) -> tuple[int, list[list[list[bool]]]]:
    """How many envs, and for each write where the episodes of each of them end."""
    envs = draw(st.integers(1, 3))
    flags = st.integers(1, 9).flatmap(
        lambda steps: st.lists(st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=envs, max_size=envs)
    )
    return envs, draw(st.lists(flags, min_size=1, max_size=4))


@pytest.mark.parametrize("name", few(["flat", "h5", "nested", "gzip"], 2))
@given(world=extensions(), rows=st.integers(1, 20), known=st.booleans(), gap=st.booleans())
def test_round_trips_are_exact(name: str, world: Any, rows: int, known: bool, gap: bool, tmp_path_factory: Any) -> None:
    """Any episodes, any place of the cursor, one and several envs."""
    envs, writes = world
    ndim = 1 if envs == 1 else 2
    rb, other = (buffer(name, rows * envs, ndim) for _ in range(2))
    first = 0
    for ends in writes:
        data = steps_of(ends, first)
        rb.extend(data[0] if ndim == 1 else data)
        first += data.shape[1] + gap  # with a gap, what was written before does not lead to what comes next
    if known:
        other.extend(data[0] if ndim == 1 else data)
    path = tmp_path_factory.mktemp("checkpoint")
    rb.dumps(path)
    other.loads(path)
    same(other[:], rb[:])
    assert (other.writer._cursor, other.write_count) == (rb.writer._cursor, rb.write_count)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("piece", [1, 50, 200])
def test_pieces_of_any_size_make_the_same(name: str, piece: int, tmp_path: Path, monkeypatch: Any) -> None:
    """Several steps in a piece, and several pieces in a step; episodes end in each piece."""
    monkeypatch.setattr(files, "PIECE_BYTES", piece)
    rb, other = buffer(name, 40, 1), buffer(name, 40, 1)
    rb.extend(steps_of([[t % 3 == 1 for t in range(55)]])[0])
    other.extend(steps_of([[t % 5 == 1 for t in range(40)]], 100)[0])
    rb.dumps(tmp_path)
    for _ in range(2):
        other.loads(tmp_path)
        same(other[:], rb[:])


@pytest.mark.parametrize("breaks", [[0, 2, 2, 9], [2, 0, 5, 9], [-1, 2, 5, 9], [0, 2, 5, 10]])
def test_breaks_that_are_not_sorted_positions_are_rejected(breaks: list[int], tmp_path: Path) -> None:
    rb, other = buffer("flat", 10, 1), buffer("flat", 10, 1)
    rb.extend(steps_of([[t in (2, 5, 7) for t in range(10)]])[0])
    rb.dumps(tmp_path)
    (tmp_path / "storage" / "breaks.memmap").write_bytes(torch.tensor(breaks).numpy().tobytes())
    folder.seal(tmp_path)
    with pytest.raises(ValueError, match="the breaks are not positions of 10 steps in order"):
        other.loads(tmp_path)


@pytest.mark.parametrize("name", MAKERS)
def test_what_comes_after_several_steps_is_kept(name: str, tmp_path: Path) -> None:
    ends = [[t in (7, 20) for t in range(30)]]
    data = MultiStep(gamma=0.9, n_steps=3)(steps_of(ends).exclude("agents", ("next", "agents")))[0]
    rb, other = buffer(name, 40, 1), buffer(name, 40, 1)
    rb.extend(data)
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    same(other[:], rb[:])


@pytest.mark.parametrize("name", MAKERS)
def test_not_a_number_and_minus_zero_come_back(name: str, tmp_path: Path) -> None:
    values = torch.tensor([math.nan, 0.0, -0.0, 1.0, math.inf])
    below = TensorDict({"observation": torch.tensor([-0.0, 0.0, 1.0, math.inf, math.nan]), "done": values > 9}, [5])
    data = TensorDict({"observation": values, "next": below}, [5])
    rb, other = buffer(name, 9, 1), buffer(name, 9, 1)
    rb.extend(data)
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    same(other[:], data)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("ends_at", [10**9, 200])
def test_sizes(name: str, ends_at: int, tmp_path: Path) -> None:
    """At most 0.52 of the bytes, for observations that are most of the data."""
    steps = 2000
    observation = torch.randint(0, 255, (steps + 1, 500), dtype=torch.uint8)
    done = (torch.arange(steps) % ends_at == ends_at - 1)[:, None]
    after = torch.where(done, observation[1:] + 1, observation[1:])
    below = TensorDict({"observation": after, "reward": torch.rand(steps, 1), "done": done}, [steps])
    data = TensorDict({"observation": observation[:-1], "done": done & False, "next": below}, [steps])
    rb = ReplayBuffer(storage=LazyTensorStorage(steps))
    rb.extend(data)
    rb.dumps(tmp_path / "plain")
    rb.storage.checkpointer = MAKERS[name]()
    rb.dumps(tmp_path / "other")
    assert bytes_of(tmp_path / "other") <= 0.52 * bytes_of(tmp_path / "plain")


def test_compression_makes_the_file_smaller(tmp_path: Path) -> None:
    sizes = {}
    for name, options in {
        "none": None,
        "gzip": {"compression": "gzip"},
        "9": {"compression": 9},
        "lzf": {"compression": "lzf"},
    }.items():
        rb = ReplayBuffer(storage=LazyTensorStorage(5000), checkpointer=H5StorageCheckpointer(h5_kwargs=options))
        rb.extend(steps_of([[False] * 5000])[0])
        rb.dumps(tmp_path / name)
        sizes[name] = bytes_of(tmp_path / name)
    assert sizes["9"] <= sizes["gzip"] < sizes["none"] / 2 and sizes["lzf"] < sizes["none"]


def test_the_h5_file_can_be_read(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(90), checkpointer=H5StorageCheckpointer(checkpoint_file="steps.h5"))
    data = steps_of([[t % 10 == 9 for t in range(45)]])[0]
    rb.extend(data)
    rb.dumps(tmp_path)
    found = read_h5(tmp_path / "storage" / "steps.h5")
    assert found["breaks"].tolist() == [9, 19, 29, 39, 44]
    assert torch.equal(found["data", "observation"], data["observation"])
    assert torch.equal(found["last", "next", "observation"], data["next", "observation"][found["breaks"]])
    assert torch.equal(found["data", "next", "reward"], data["next", "reward"])


def test_a_row_of_nested_tensors_is_a_trajectory(tmp_path: Path) -> None:
    rb = buffer("nested", 10, 1)
    data = steps_of([[t % 6 == 5 for t in range(17)]])[0]
    rb.extend(data)  # ten of 17 stay: steps 10 to 16 lie before steps 7 to 9
    rb.dumps(tmp_path)
    found = NestedStorageCheckpointer.read(tmp_path)
    assert found.batch_size == torch.Size([2])
    rows = [row[:, 0].tolist() for row in found["observation"].unbind()]
    assert rows == [[7, 8, 9, 10, 11, -12], [12, 13, 14, 15, 16, 17]]
    assert [row.tolist() for row in found["action"].unbind()] == [[7, 8, 9, 10, 11], [12, 13, 14, 15, 16]]
    product = found["next", "reward"] * found["action"].unsqueeze(-1)  # rows of the same lengths go together
    torch.testing.assert_close(product.values(), found["next", "reward"].values() * found["action"].values()[:, None])
    in_order = data[7:]
    assert torch.equal(found["observation"].values(), TED2Nested()(in_order)["observation"].values())
    rb.storage.dumps(tmp_path / "storage")
    same_rows = NestedStorageCheckpointer.read(tmp_path / "storage")["observation"].unbind()
    assert [row[:, 0].tolist() for row in same_rows] == rows


def test_trajectories_of_several_envs_are_rows(tmp_path: Path) -> None:
    rb = buffer("nested", 12, 2)
    rb.extend(steps_of([[False, True, False], [False, False, False]]))
    rb.storage.dumps(tmp_path)
    found = NestedStorageCheckpointer.read(tmp_path)["observation"].unbind()
    assert [row[:, 0].tolist() for row in found] == [[0, 1, -2], [2, 3], [10_000, 10_001, 10_002, 10_003]]


def test_objects_beside_ted_data(tmp_path: Path) -> None:
    data = steps_of([[False, True, False]])[0]
    data["task"] = NonTensorStack(*[NonTensorData(task) for task in ("left", ("right", 2), None)])
    data["next", "note"] = NonTensorStack(*[NonTensorData(number) for number in range(3)])
    for name, values in {"flat": ["left", ("right", 2), None], "h5": ["left", "right", None]}.items():
        data["task"] = NonTensorStack(*[NonTensorData(task) for task in values])
        rb, other = buffer(name, 5, 1), buffer(name, 5, 1)
        rb.extend(data)
        rb.dumps(tmp_path / name)
        for _ in range(2):
            other.loads(tmp_path / name)
            same(other[:], rb[:])
    rb.storage.checkpointer = NestedStorageCheckpointer()
    with pytest.raises(TypeError) as caught:
        rb.dumps(tmp_path / "nested")
    assert str(caught.value) == (
        "The entry ('next', 'note') is non-tensor data, which a nested tensor does not hold. "
        "Fix: storage.checkpointer = FlatStorageCheckpointer(), which saves it too."
    )


# Assumptions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_done_with_more_dimensions_is_refused(name: str, tmp_path: Path) -> None:
    shape = [3, 4]
    below = TensorDict({"observation": torch.zeros(3, 4, 2), "done": torch.zeros(3, 4, 5, dtype=torch.bool)}, shape)
    rb = buffer(name, 12, 2)
    rb.extend(TensorDict({"observation": torch.zeros(3, 4, 2), "next": below}, shape))
    with pytest.raises(ValueError) as caught:
        rb.dumps(tmp_path / "it")
    assert str(caught.value) == (
        "('next', 'done') must have one flag for each step of the batch of size [4, 3], got shape [4, 3, 5]. "
        "An episode ends for all agents of a step at once. Fix: pass the done_key of an entry with one flag per step, "
        "such as data['next', 'done'] = data[('next', 'done')].flatten(2).any(-1, keepdim=True)."
    )
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize("name", MAKERS)
def test_data_that_is_not_ted_is_refused(name: str, tmp_path: Path) -> None:
    rb = buffer(name, 12, 1)
    rb.extend(TensorDict({"a": torch.zeros(3)}, [3]))
    with pytest.raises(
        ValueError, match=r"which is a TensorDict with an entry 'next', and the storage holds a TensorDict without"
    ):
        rb.dumps(tmp_path / "it")
    rb = buffer(name, 12, 1)
    rb.extend((torch.zeros(3), torch.ones(3)))
    with pytest.raises(ValueError) as caught:
        rb.dumps(tmp_path / "it")
    assert str(caught.value) == (
        f"A {type(rb.storage.checkpointer).__name__} saves data in the TED format, which is a TensorDict with an entry "
        "'next', and the storage holds a tuple. "
        "Fix: storage.checkpointer = TensorStorageCheckpointer(), which saves any data."
    )


def test_other_names_of_the_end_signals(tmp_path: Path) -> None:
    below = TensorDict({"observation": torch.arange(1.0, 4), "over": torch.tensor([False, True, False])}, [3])
    data = TensorDict({"observation": torch.arange(3.0), "next": below}, [3])
    rb = buffer("flat", 5, 1)
    rb.extend(data)
    with pytest.raises(KeyError, match="which says where the episodes end"):
        rb.dumps(tmp_path)
    rb.storage.checkpointer = FlatStorageCheckpointer(done_keys=["over"])
    rb.dumps(tmp_path)
    other = ReplayBuffer(storage=LazyTensorStorage(5), checkpointer=FlatStorageCheckpointer(done_keys=["over"]))
    other.loads(tmp_path)
    same(other[:], data)


@pytest.mark.parametrize("name", MAKERS)
def test_no_hooks(name: str) -> None:
    rb = buffer(name, 5, 1)
    for register in (rb.register_save_hook, rb.register_load_hook):
        with pytest.raises(NotImplementedError) as caught:
            register(len)
        assert str(caught.value) == (
            f"A {type(rb.storage.checkpointer).__name__} decides by itself what is written, and calls no hooks. "
            "Fix: storage.checkpointer = TensorStorageCheckpointer() before the hook is registered."
        )


def test_a_checkpoint_of_another_checkpointer_is_refused(tmp_path: Path) -> None:
    rb, other = buffer("flat", 9, 1), buffer("nested", 9, 1)
    rb.extend(steps_of([[False] * 5])[0])
    rb.dumps(tmp_path)
    with pytest.raises(ValueError) as caught:
        other.loads(tmp_path)
    assert str(caught.value) == (
        "The checkpoint was saved by a FlatStorageCheckpointer, and the storage has a NestedStorageCheckpointer. "
        "Nothing was changed. Fix: storage.checkpointer = FlatStorageCheckpointer()."
    )
    with pytest.raises(ValueError, match="was saved by a FlatStorageCheckpointer"):
        NestedStorageCheckpointer.read(tmp_path)
    other.storage.checkpointer = FlatStorageCheckpointer()
    other.loads(tmp_path)
    same(other[:], rb[:])


def test_arguments_of_the_h5_checkpointer() -> None:
    with pytest.raises(ValueError) as caught:
        H5StorageCheckpointer(checkpoint_file="a/b.h5")
    assert str(caught.value) == (
        "checkpoint_file must be a name without a folder, such as 'checkpoint.h5', got 'a/b.h5'."
    )
    with pytest.raises(TypeError) as wrong:
        H5StorageCheckpointer(h5_kwargs={"chunks": True})
    assert str(wrong.value) == (
        "h5_kwargs can have 'compression', 'compression_opts', got 'chunks'. Fix: leave the others out."
    )
    for bad in ({"compression": "zip"}, {"compression": "gzip", "compression_opts": 10}, {"compression": True}):
        with pytest.raises(ValueError, match="compression must be 'gzip', 'lzf', None or a level of gzip"):
            H5StorageCheckpointer(h5_kwargs=bad)


@pytest.mark.parametrize("name", [*MAKERS, "tensor"])
def test_the_example_of_the_page(name: str, tmp_path: Path) -> None:
    env = SerialEnv(3, lambda: GymEnv("CartPole-v1", device=None))
    env.set_seed(0)
    torch.manual_seed(0)
    collector = Collector(env, policy=env.rand_step, total_frames=200, frames_per_batch=22)
    rb, rb_test = (ReplayBuffer(storage=LazyMemmapStorage(100, ndim=2)) for _ in range(2))
    for each in (rb, rb_test):
        each.storage.checkpointer = TensorStorageCheckpointer() if name == "tensor" else MAKERS[name]()
    batches = 0
    for data in collector:
        rb.extend(data)
        assert rb._storage.max_size == 102
        rb.dumps(tmp_path)
        rb_test.loads(tmp_path)
        same(rb_test[:], rb[:])
        batches += 1
    assert batches == 9 and len(rb) == 102 and rb.storage.is_full
    collector.shutdown()


def test_storages_that_see_nothing_of_ted(tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(9, ndim=2)) for _ in range(2))
    rb.extend(as_tensordict(torch.arange(10).reshape(2, 5)))
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    same(other[:], rb[:])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.int16, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 700])
def test_all_widths_of_integers_come_back(name: str, dtype: torch.dtype, width: int, tmp_path: Path) -> None:
    """Observations of a few bytes, and longer ones; torch writes unsigned integers not by index."""
    numbers = torch.arange(9 * width).reshape(9, width).to(dtype)
    done = torch.tensor([[0], [0], [1]] * 3)[:8].bool()
    data = TensorDict({"observation": numbers[:8], "next": {"observation": numbers[1:], "done": done}}, [8])
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(7), checkpointer=MAKERS[name]()) for _ in range(2))
    rb.extend(data)
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    same(other[:], rb[:])
    assert other[:]["observation"].dtype == dtype
    if name == "nested":
        assert [len(row) for row in NestedStorageCheckpointer.read(tmp_path)["observation"].unbind()] == [3, 4, 3]
