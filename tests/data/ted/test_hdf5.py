"""write_h5 and read_h5: exact round trips, and damaged or malicious files."""

from __future__ import annotations

import importlib
import math
import pathlib
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Flat2TED, H5Combine, H5Split, Nested2TED, TED2Flat, TED2Nested, read_h5, write_h5
from rlnb.data.ted.hdf5 import open_h5
from tests.data.ted.generators import make_ted, number_of_bytes, same, teds
from tests.pairwise import few

files = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def h5py(missing):
    try:
        return importlib.import_module("h5py")
    except ImportError:
        missing("h5py", "pip install 'rlnb[h5]'")


@pytest.fixture
def path(h5py, tmp_path):
    return tmp_path / "data.h5"


@files
@given(data=teds())
@pytest.mark.parametrize("compression", few(["gzip", "lzf", None]))
def test_every_form_is_read_as_it_was_written(path, compression, data):
    write_h5(data, path, compression)
    same(read_h5(path), data)
    write_h5(TED2Flat()(data), path, compression)
    same(Flat2TED()(read_h5(path)), data)
    write_h5(H5Split()(TED2Nested()(data)), path, compression)
    same(Nested2TED()(H5Combine()(read_h5(path))), data)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_every_dtype_and_shape(path):
    kinds = (
        "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    entries = {name: torch.ones(3, dtype=getattr(torch, name)) for name in [*kinds.split(), "complex64", "complex128"]}
    entries |= {f"{name} number": torch.ones((), dtype=value.dtype) for name, value in entries.items()}
    entries |= {"none": torch.zeros(0, 3), "below": TensorDict({"deep": TensorDict({}, [3])}, [3])}
    conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
    entries |= {"conjugate": conjugate, "negative": conjugate.imag, "transposed": torch.arange(6).view(2, 3).t()}
    data = TensorDict(entries)
    write_h5(data, path)
    same(read_h5(path), data)


def test_non_tensor_data_is_json(path):
    data = TensorDict()
    for name, value in {"text": "é<script>", "list": [1, [2.5, None]], "dict": {"a": True}}.items():
        data.set_non_tensor(name, value)
    write_h5(data, path)
    found = read_h5(path)
    assert [found.get(name).data for name in ("text", "list", "dict")] == ["é<script>", [1, [2.5, None]], {"a": True}]


def test_the_file_is_one_of_hdf5_that_others_read(h5py, path):
    data = make_ted([[2, 1000]], dtype=torch.int64)[0]
    write_h5(H5Split()(TED2Nested()(data)), path)
    with h5py.File(path) as file:
        assert file["traj_1/observation"][:1000].tolist() == data["observation"][2:].tolist()
        assert file["traj_1/observation"].compression == "gzip"


def test_many_short_trajectories_do_not_blow_up_the_file(path):
    data = make_ted([[20] * 50], open_last=False)[0]
    write_h5(H5Split()(TED2Nested()(data)), path)
    assert path.stat().st_size < 6 * number_of_bytes(data)


def test_compression_saves_bytes(path):
    data = TensorDict({"pixels": torch.arange(100).repeat_interleave(1000).view(100, 1000)}, [100])
    write_h5(data, path, compression=None)
    plain = path.stat().st_size
    write_h5(data, path)
    assert path.stat().st_size < plain / 10


# What is refused --------------------------------------------------------------------------------------------------


def refused(call, error=ValueError):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_without_h5py_the_error_names_the_fix(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    text = "HDF5 files need h5py, which is not installed. Fix: pip install 'rlnb[h5]'."
    assert refused(lambda: write_h5(TensorDict(), tmp_path / "a.h5"), ImportError) == text
    assert refused(lambda: read_h5(tmp_path / "a.h5"), ImportError) == text


class Trap:
    """Would leave a file behind if it were unpickled."""

    def __reduce__(self):
        return (pathlib.Path("trap").touch, ())


def test_data_that_json_cannot_hold_is_rejected_and_the_old_file_stays(path):
    write_h5(TensorDict({"a": torch.ones(2)}), path)
    data = TensorDict()
    data.set_non_tensor("trap", Trap())
    text = refused(lambda: write_h5(data, path), TypeError)
    assert text.startswith(
        "The non-tensor entry 'trap' cannot be written to an HDF5 file, which holds text, numbers, True, False, None, "
        "lists and dictionaries of these: "
    )
    assert text.endswith("Fix: convert it, or leave it out with data.exclude('trap').")
    assert read_h5(path)["a"].tolist() == [1, 1]
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    for value in ((1, 2), {1: 2}, math.nan):
        data.set_non_tensor("trap", value)
        assert "reading it back would change it" in refused(lambda: write_h5(data, path), TypeError)


def test_a_nested_tensor_is_refused(path):
    data = TED2Nested()(make_ted([[2, 3]])[0])
    assert refused(lambda: write_h5(data, path), TypeError).endswith(
        "cannot be written to an HDF5 file: it is a nested tensor. Fix: split it with H5Split()(data)."
    )


def test_a_key_with_a_slash_is_refused(path):
    assert refused(lambda: write_h5(TensorDict({"a/b": torch.ones(2)}), path)) == (
        "The key 'a/b' cannot be written to an HDF5 file, where '/' divides the parts of a key. "
        "Fix: rename it with data.rename_key_('a/b', ...)."
    )


@pytest.mark.parametrize("name", ["a\0b", "\0", ".", "\ud800", "a/b"])
@pytest.mark.parametrize("below", [False, True])
def test_a_key_that_would_be_another_one_is_refused(name: str, below: bool, path):
    data = TensorDict({"b": {name: torch.ones(2)}} if below else {name: torch.ones(2), "a": torch.zeros(2)})
    text = refused(lambda: write_h5(data, path))
    key = ("b", name) if below else name
    assert text.startswith(f"The key {key!r} cannot be written to an HDF5 file, where ") and "Fix: rename it" in text
    assert not path.exists()


@files
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut_short_is_refused(path, cut):
    write_h5(make_ted([[2, 3]])[0], path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    text = refused(lambda: read_h5(path))
    assert "it was cut short or damaged" in text or "its first bytes are damaged" in text


@files
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_file_with_one_wrong_bit_is_refused(path, place, bit):
    write_h5(make_ted([[2, 3]])[0], path)
    data = bytearray(path.read_bytes())
    data[512 + int((len(data) - 512) * place)] ^= 1 << bit
    path.write_bytes(data)
    assert refused(lambda: read_h5(path)) == (
        "The file is damaged: its content does not match the checksum at its start. Fix: copy it again, or write it "
        "again."
    )


def test_a_file_of_somebody_else_is_refused(h5py, path):
    with h5py.File(path, "w") as file:
        file["a"] = [1, 2]
    assert refused(lambda: read_h5(path)).startswith("The file was not written by write_h5")
    assert refused(lambda: read_h5(path.with_name("none.h5")), FileNotFoundError).startswith("There is no file")


def forged(h5py, path, change):
    """Write a file, change it, and make its checksum fit."""
    from rlnb.data.ted import hdf5

    write_h5(TensorDict({"a": torch.ones(4), "b": {"c": torch.ones(2)}}), path)
    with h5py.File(path, "r+") as file:
        change(h5py, file)
    size, digest = str(path.stat().st_size).encode(), hdf5._digest(path)
    with path.open("r+b") as file:
        file.write(b" ".join((hdf5._FORMAT, size, digest)) + b"\n")


def replace(file, name, **options):
    del file[name]
    return file.create_dataset(name, **options)


def as_objects(h5py, file):
    item = replace(file, "a", data=["x"], dtype=h5py.string_dtype())
    item.attrs["dtype"] = "float32"


def bomb(h5py, file):
    item = replace(file, "a", shape=(2**40,), dtype="f4", chunks=(2**20,), compression="gzip")
    item.attrs["dtype"] = "float32"


def external(h5py, file):
    item = replace(file, "a", shape=(4,), dtype="f4", external=[("secret", 0, 16)])
    item.attrs["dtype"] = "float32"


def virtual(h5py, file):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "a", (4,))
    del file["a"]
    file.create_virtual_dataset("a", layout).attrs["dtype"] = "float32"


def linked(link):
    def change(h5py, file):
        file["b/d"] = link(h5py)

    return change


def cycle(h5py, file):
    file["b/d"] = file["/"]


def text_of_json(text):
    def change(h5py, file):
        import numpy as np

        replace(file, "a", data=np.frombuffer(text, np.uint8)).attrs["dtype"] = "json"

    return change


def soft_link(h5py, file):
    file["b/d"] = h5py.SoftLink("/a")


def external_link(h5py, file):
    file["b/d"] = h5py.ExternalLink("x.h5", "/a")


def no_dtype(h5py, file):
    del file["a"].attrs["dtype"]


def batch_size(text):
    def change(h5py, file):
        file["b"].attrs["batch_size"] = text

    return change


@pytest.mark.parametrize(
    ("change", "entry", "text"),
    [
        (as_objects, "'a'", "is declared as float32, but holds object."),
        (external, "'a'", "has its data in another file."),
        (virtual, "'a'", "has its data in another file."),
        (soft_link, "('b', 'd')", "is a link to another place or file."),
        (external_link, "('b', 'd')", "is a link to another place or file."),
        (cycle, "('b', 'd')", "contains itself, or is nested more than 32 deep."),
        (no_dtype, "'a'", "has no attribute 'dtype' that names a dtype of torch."),
        (batch_size("[-1"), "'b'", "has no attribute 'batch_size' that is a list."),
        (text_of_json(b"{]"), "'a'", "is non-tensor data, but not valid JSON: "),
        (text_of_json(b'{"dims": 3, "value": 1}'), "'a'", "is non-tensor data, but not valid JSON: "),
    ],
)
def test_a_hostile_file_is_refused(h5py, path, change, entry, text):
    forged(h5py, path, change)
    found = refused(lambda: read_h5(path))
    assert found.startswith(f"The entry {entry} of the file {text}")
    assert found.endswith(" The file was damaged or made by hand. Fix: write it again with write_h5.")


def test_a_batch_size_that_does_not_fit_is_refused(h5py, path):
    forged(h5py, path, batch_size("[7]"))
    text = refused(lambda: read_h5(path))
    assert text.startswith("The entry 'b' of the file cannot be read: it was damaged or cut short (")


def test_a_promise_of_terabytes_is_refused(h5py, path):
    forged(h5py, path, bomb)
    assert refused(lambda: read_h5(path)) == (
        "The entry 'a' of the file would need 4,398,046,511,104 bytes in memory (0 in the file), but only "
        "17,179,869,184 of 17,179,869,184 are left. Fix: if you trust the file, raise the limit with read_h5(path, "
        "max_bytes=...)."
    )


def test_the_size_is_bounded(path):
    write_h5(TensorDict({"a": torch.ones(100), "b": torch.ones(100)}), path)
    assert refused(lambda: read_h5(path, max_bytes=500)).startswith("The entry 'b' of the file would need 400 bytes")
    assert read_h5(path, max_bytes=800)["b"].sum() == 100


# Entry by entry -------------------------------------------------------------------------------------------------------


def test_rows_of_an_entry_are_read_into_tensors_of_any_layout(path):
    numbers = torch.arange(600_000).reshape(300, 2000)
    data = TensorDict({"a": {"b": numbers}, "half": torch.arange(9.0).bfloat16(), "one": torch.tensor(3)})
    write_h5(data, path)
    turned, half = torch.empty(2000, 290, dtype=torch.int64).t(), torch.empty(4, dtype=torch.bfloat16)
    one, none = torch.empty((), dtype=torch.int64), torch.empty(0, 2000, dtype=torch.int64)
    with open_h5(path) as file:
        file.read_into(("a", "b"), turned, 10)  # in several pieces
        file.read_into(("half",), half, 5)
        file.read_into(("one",), one)
        file.read_into(("a", "b"), none, 300)
    assert torch.equal(turned, numbers[10:]) and half.tolist() == [5, 6, 7, 8] and one == 3


@pytest.mark.parametrize(
    ("change", "entry", "text"),
    [
        (None, ("a", (5,), torch.float32), "must have shape [5] and dtype torch.float32, got shape [4] and dtype"),
        (None, ("a", (4,), torch.int32), "must have shape [4] and dtype torch.int32, got shape [4] and dtype float32"),
        (None, ("c", (4,), torch.float32), "is missing."),
        (None, ("b", (2,), torch.float32), "has no attribute 'dtype'"),
        (bomb, ("a", (2**40,), torch.float32), "must have shape"),
        (text_of_json(b"\0\0\0\0"), ("a", (4,), torch.uint8), "must have shape [4] and dtype torch.uint8"),
        (soft_link, ("b.d", (4,), torch.float32), "is a link to another place"),
        (external, ("a", (4,), torch.float32), "has its data in another file."),
    ],
)
def test_an_entry_that_is_not_as_expected_is_refused(h5py, path, change, entry, text):
    name, shape, dtype = entry
    forged(h5py, path, change or (lambda h5py, file: None))
    with open_h5(path) as file:
        file.check(("b", "c"), (2,), torch.float32, rehearse=True)
        found = refused(lambda: file.check(tuple(name.split(".")), shape, dtype, rehearse=False))
    assert text in found and found.endswith("Fix: write it again with write_h5.")


def test_a_rehearsal_decompresses_all(path):
    write_h5(TensorDict({"a": torch.rand(3000, 1000)}), path)  # in several chunks
    with open_h5(path) as file:
        file.check(("a",), (3000, 1000), torch.float32, rehearse=True)
    content = bytearray(path.read_bytes())
    content[-2_000:-1_000] = bytes(1_000)
    path.write_bytes(content)
    with open_h5(path) as file:
        file.check(("a",), (3000, 1000), torch.float32, rehearse=False)
        found = refused(lambda: file.check(("a",), (3000, 1000), torch.float32, rehearse=True))
    assert found.startswith("The entry 'a' of the file cannot be read: it was damaged or cut short (")
