"""H5Source: columns of HDF5 files, and malicious files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from rlnb.data.datasets.hdf5 import H5Source, cut_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "it.h5"


def write(path: Path, fill: Callable[[Any], Any]) -> None:
    with h5py.File(path, "w") as file:
        fill(file)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i2", "|b1", "u1", "<f2", "<u2", "<c8", ">f8"])
@pytest.mark.parametrize("options", [{}, {"chunks": (2, 1), "compression": "gzip"}], ids=["plain", "compressed"])
def test_rows_of_every_kind_of_number(dtype: str, options: Any, path: Path) -> None:
    array = (np.arange(14).reshape(7, 2) % 5).astype(dtype)
    write(path, lambda file: file.create_dataset("a/b", data=array, **options))
    with H5Source(path) as source:
        column = source.columns()["a", "b"]
        for start, stop in ((0, 7), (2, 5), (5, 99), (3, 3), (0, None)):
            found = source.read(column, start, stop)
            assert torch.equal(found, torch.from_numpy(array[start:stop].astype(array.dtype.newbyteorder("="))))


@pytest.mark.parametrize("block", [0, 512])
def test_rows_that_are_not_stored_as_numpy_holds_them(block: int, path: Path) -> None:
    brain = h5py.h5t.IEEE_F16LE.copy()  # bfloat16, for which NumPy has a wider type
    brain.set_fields(15, 7, 8, 0, 7)
    brain.set_ebias(127)
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((3,))
    values = np.array([1.0, -0.5, 2.0], np.float32)
    with h5py.File(path, "w", userblock_size=block) as file:
        file["plain"] = values
        file.create_dataset("never written", (3,), "f4", fillvalue=7)
        for name, kind, options in ((b"brain", brain, None), (b"compact", h5py.h5t.IEEE_F32LE, compact)):
            h5py.h5d.create(file.id, name, kind, space, options).write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    with H5Source(path) as source:
        found = {name: source.read(column).tolist() for (name,), column in source.columns().items()}
    assert found.pop("never written") == [7, 7, 7] and set(map(tuple, found.values())) == {(1, -0.5, 2)}
    assert set(found) == {"plain", "brain", "compact"}


def test_groups_columns_and_what_is_neither(path: Path) -> None:
    def fill(file: Any) -> None:
        for number in (10, 9, 1):
            file[f"Trial{number}/data/x"] = np.zeros((number, 2))
            file[f"Trial{number}/note"] = ["text"] * number
            file[f"Trial{number}/single"] = 3.0
        file["root"] = np.zeros(4)

    write(path, fill)
    with H5Source(path) as source:
        assert [name for name, _ in source.groups()] == ["Trial1", "Trial9", "Trial10"]
        assert [len(columns["data", "x"]) for _, columns in source.groups(required=[("data", "x")])] == [1, 9, 10]
        assert {key: len(column) for key, column in source.columns("Trial9").items()} == {("data", "x"): 9}
        assert list(source.columns("Trial9", "data")) == [("x",)] and ("root",) in source.columns()
        assert source.plain("Trial1") == {"data": {"x": [[0, 0]]}, "note": ["text"], "single": 3}
        assert source.plain("nothing") == {}


def test_cut_rows(path: Path) -> None:
    def fill(file: Any) -> None:
        file["wide"] = np.zeros((4, 1 << 18))
        file["wider"] = np.zeros((2, 1 << 25), np.uint8)

    write(path, fill)
    with H5Source(path) as source:
        columns = source.columns()
        wide, wider = columns["wide",], columns["wider",]
        assert wide.row_bytes == 1 << 21 and list(cut_rows({"a": wide}, 4)) == [(0, 2), (2, 4)]
        assert list(cut_rows({"a": wide, "b": wide}, 2)) == [(0, 1), (1, 2)] and list(cut_rows({"a": wide}, 0)) == []
        assert list(cut_rows({"a": wider}, 2)) == [(0, 1), (1, 2)]  # one row at least


# What is refused ------------------------------------------------------------------------------------------------------


def refused(path: Path, fill: Callable[[Any], Any], text: str, *group: str, **options: Any) -> None:
    write(path, fill)
    pattern = re.escape(text.format(file=f"the file {str(path)!r}"))
    with H5Source(path) as source, pytest.raises(ValueError, match=f"^{pattern}$"):
        source.columns(*group, **options)


def test_links(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other.h5").write_bytes(b"")
    text = (
        "The entry 'x' of {file} is not data, but a link to another place or file, or a type, which no dataset needs. "
        "Fix: do not use a file that you do not trust."
    )
    refused(path, lambda file: file.__setitem__("x", h5py.ExternalLink(str(tmp_path / "other.h5"), "/a")), text)
    refused(path, lambda file: file.__setitem__("x", h5py.SoftLink("/y")), text)
    refused(path, lambda file: file.__setitem__("x", np.dtype("f4")), text)
    text = "The entry ('a', 'a') of {file} contains itself, or is nested more than 32 deep."

    def loop(file: Any) -> None:
        group = file.create_group("a")
        group["a"] = group

    refused(path, loop, text)


def test_data_in_other_files(path: Path, tmp_path: Path) -> None:
    text = (
        "The entry 'x' of {file} has its data in another file, which no dataset needs. "
        "Fix: do not use a file that you do not trust."
    )
    refused(path, lambda file: file.create_dataset("x", (4,), "u1", external=[(str(tmp_path / "secret"), 0, 4)]), text)
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (4,))
    refused(path, lambda file: file.create_virtual_dataset("x", layout), text)


def test_metadata_is_not_trusted_either(path: Path, tmp_path: Path) -> None:
    def outside(file: Any) -> None:
        file.create_dataset("about/x", (4,), "u1", external=[(str(tmp_path / "secret"), 0, 4)])

    def loops(file: Any) -> None:
        group = file.create_group("about")
        group["a"] = group["b"] = group  # 2 to the power of 32 paths, if none is noticed

    for fill, text in ((outside, "^The entry .'about', 'x'. .* in another file"), (loops, "'a'. .* contains itself")):
        write(path, fill)
        with H5Source(path) as source, pytest.raises(ValueError, match=text):
            source.plain("about")


def test_data_that_is_not_numbers(path: Path) -> None:
    def ragged(file: Any) -> None:
        file.create_dataset("x", (2,), h5py.vlen_dtype(np.int32))

    text = (
        "The entry 'x' of {file} holds object, not numbers. "
        "Fix: write it as an array of numbers, or delete it from the file with h5py."
    )
    refused(path, ragged, text)
    records = np.zeros(2, [("a", "u1", 3)])
    refused(path, lambda file: file.__setitem__("x", records), text.replace("object", "[('a', 'u1', (3,))]"))
    numbers = np.zeros(2, np.longdouble)
    refused(path, lambda file: file.__setitem__("x", numbers), text.replace("object", str(numbers.dtype)))


def test_more_than_the_file_can_hold(path: Path) -> None:
    text = (
        "The entry 'x' of {file} states 4,398,046,511,104 bytes, more than the 0 in the file can hold. "
        "Fix: do not use a file that you do not trust."
    )
    refused(path, lambda file: file.create_dataset("x", (1 << 42,), "u1", chunks=(1 << 20,), compression="gzip"), text)


def test_what_is_missing(path: Path) -> None:
    text = "The entry 'b' of {file} is missing. Fix: look whether it is the file that it should be."
    refused(path, lambda file: file.create_group("a"), text, "b")
    text = (
        "The entry 'a' of {file} has no entry ('x', 'y') of numbers; it has nothing. "
        "Fix: look whether it is the file that it should be."
    )
    refused(path, lambda file: file.create_group("a"), text, "a", required=[("x", "y")])
    text = text.replace("('x', 'y')", "'x'").replace("nothing", "('x', 'y')")
    refused(path, lambda file: file.update({"a/x/y": [1.0]}), text, "a", required=["x"])
    with H5Source(path) as source:
        assert list(source.columns("a", required=["x"], nested=["x"])) == [("x", "y")]


@pytest.mark.deep
def test_every_damaged_file_is_refused_or_read(path: Path) -> None:
    rng = np.random.default_rng(0)
    write(path, lambda file: file.update({"a": rng.normal(size=(50, 3)), "b/c": np.arange(50), "d": "text"}))
    whole = path.read_bytes()
    wrong = 0
    for trial in range(600):
        data = bytearray(whole)
        if trial % 3:
            for at in rng.integers(0, len(data), 3):
                data[at] = rng.integers(256)
        else:
            del data[rng.integers(len(data)) :]
        path.write_bytes(data)
        try:
            with H5Source(path) as source:
                for column in source.columns().values():
                    for start, stop in cut_rows({"": column}, min(len(column), 100)):
                        source.read(column, start, stop)
        except ValueError:
            wrong += 1
    assert wrong > 150
