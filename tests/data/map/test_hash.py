"""Hashes: SipHash compared with Python's own, projections, and bits as integers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from rlnb.data import BinaryToDecimal, RandomProjectionHash, SipHash
from rlnb.data.map.hash import siphash
from rlnb.data.map.rows import row_bytes, row_keys


def test_python_hashes_the_same():
    """Python 3.11 and later hash bytes with SipHash-1-3; PYTHONHASHSEED=0 makes the key zero."""
    code = "print([hash(bytes((7 * i + width) % 256 for i in range(width))) for width in range(40)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": "0"})
    expected = eval(done.stdout)
    rows = [np.array([(7 * i + width) % 256 for i in range(width)], np.uint8) for width in range(40)]
    assert [int(siphash(row[None])[0]) for row in rows] == expected


def test_the_page():
    rows = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    found = SipHash(as_tensor=True)(rows)
    assert found.tolist() == [-4669941682990263259, -3778166555168484291, -9122128731510687521]
    assert (SipHash()(rows.clone()) == found).all()


def test_rows_and_their_bytes():
    assert SipHash(as_tensor=False)(torch.tensor([[0.1, 0.2], [1, 2]])) == [
        b"\xcd\xcc\xcc=\xcd\xccL>",
        b"\x00\x00\x80?\x00\x00\x00@",
    ]
    numbers = SipHash()(torch.tensor([1, 2, 1]))
    assert numbers.shape == (3,) and numbers[0] == numbers[2] != numbers[1] and numbers.dtype == torch.int64
    assert len(set(SipHash()(torch.arange(100_000)).tolist())) == 100_000
    assert SipHash()(torch.zeros(0, 3)).shape == (0,)
    assert SipHash()(torch.zeros(2, 3, 4)).shape == (2,)
    with pytest.raises(ValueError) as error:
        SipHash()(torch.tensor(1))
    assert str(error.value) == (
        "SipHash hashes the rows of a tensor, but got a tensor without dimensions. Fix: hash(x.unsqueeze(0))."
    )


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.bfloat16, torch.float16, torch.float64, torch.complex64]
)
def test_row_bytes(dtype):
    tensor = torch.tensor([[0, 1], [1, 0], [0, 1]]).to(dtype)
    found = row_bytes([tensor])
    assert found.shape == (3, 2 * tensor.element_size())
    keys = row_keys([tensor], 3)
    assert keys[0] == keys[2] != keys[1] and len(set(keys)) == 2
    assert row_keys([tensor.t().contiguous().t()], 3) == keys
    assert row_keys([tensor[:, 0]], 3)[0] == row_keys([tensor[:, 0].contiguous()], 3)[0]


def test_keys_of_objects_and_numbers():
    keys = row_keys([torch.tensor([1, 1, 2, 1]), ["a", "a", "a", 1]], 4)
    assert keys[0] == keys[1] and len(set(keys)) == 3
    assert len(set(row_keys([[1, 1.0, True]], 3))) == 3
    assert row_keys([torch.zeros(2, 0)], 2) == [b"", b""]
    assert row_keys([torch.ones(2, requires_grad=True)], 2) == row_keys([torch.ones(2)], 2)


def test_random_projection():
    rows = torch.randn(50, 300, generator=torch.Generator().manual_seed(0))
    state = torch.get_rng_state()
    hashing = RandomProjectionHash(n_components=3)
    found = hashing(rows)
    assert torch.equal(state, torch.get_rng_state())  # it draws from a generator of its own
    assert hashing.n_components == 3 and RandomProjectionHash().n_components == 16
    assert len(set(found.tolist())) == 50 and torch.equal(RandomProjectionHash(n_components=3)(rows), found)
    assert (hashing(rows * (1 + 1e-7)) == found).float().mean() > 0.9
    assert RandomProjectionHash(as_tensor=False, n_components=2)(rows[:1]) != []
    ones = RandomProjectionHash(n_components=1, dtype_cast=torch.float32, init_method=torch.nn.init.ones_)
    assert torch.equal(ones(torch.tensor([[1.0, 2.0]])), ones(torch.tensor([[2.0, 1.0]])))
    given = RandomProjectionHash(n_components=1, init_method=lambda tensor: torch.zeros_like(tensor))
    assert given(rows)[0] == given(rows)[1]
    assert torch.equal(hashing(rows.reshape(50, 3, 100)), found)
    with pytest.raises(ValueError) as error:
        hashing(torch.zeros(1, 7))
    assert str(error.value) == (
        "The random projection was drawn for rows of 300 features, but got rows of 7. "
        "Fix: use one RandomProjectionHash for each kind of row, or call fit(x) to redraw it."
    )
    hashing.fit(torch.zeros(1, 7))
    assert hashing(torch.zeros(1, 7)).shape == (1,)
    with pytest.raises(ValueError) as error:
        RandomProjectionHash(n_components=0)
    assert str(error.value) == (
        "n_components must be at least 1, the number of directions to project onto, got 0. "
        "Fix: RandomProjectionHash(n_components=16)."
    )


def test_binary_to_decimal():
    read = BinaryToDecimal(num_bits=4, device="cpu", dtype=torch.int32, convert_to_binary=True)
    binary = torch.Tensor([[0, 0, 1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 10, 0]])
    found = read(binary)
    assert found.shape == (2,) and found.dtype == torch.int32 and (found == torch.Tensor([3, 2])).all()
    plain = BinaryToDecimal(4, "cpu", torch.int64)
    assert (
        plain(torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1]])).tolist() == [9, 15] and plain(torch.tensor([1, 0, 0, 1])) == 9
    )
    for bits in range(16):
        digits = torch.tensor([int(digit) for digit in f"{bits:04b}"])
        assert plain(digits) == bits
    for features in (torch.zeros(2, 3), torch.zeros(2, 6), torch.tensor(1.0), torch.zeros(2, 0)):
        width = features.shape[-1] if features.ndim else 0
        with pytest.raises(ValueError) as error:
            plain(features)
        assert str(error.value) == (
            f"The number of features must be a multiple of num_bits=4, got {width}. "
            "Fix: choose a num_bits that divides the number of features."
        )
    with pytest.raises(ValueError) as error:
        BinaryToDecimal(0, "cpu", torch.int64)
    assert str(error.value) == "num_bits must be at least 1, the number of bits per integer, got 0. Fix: num_bits=8."
