"""Hashes of tensor rows: SipHash, SipHash of a random projection, and binary features as integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from rlnb.data.map.rows import row_bytes

_WORD = np.uint64
_SEED = 0  # of the random projection, so that runs are reproducible


def siphash(rows: np.ndarray) -> np.ndarray:
    """SipHash-1-3 of rows of bytes ``[n, width]``, with an all-zero key, as int64 ``[n]``.

    Equals ``hash(bytes)`` of Python 3.11 and later under ``PYTHONHASHSEED=0``, whatever that variable is now.
    Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, section 2.
    """
    count, width = rows.shape
    if not width:
        return np.zeros(count, np.int64)  # like hash(b"")
    padded = np.zeros((count, width // 8 * 8 + 8), np.uint8)
    padded[:, :width] = rows
    padded[:, -1] = width & 0xFF
    # Transposed, so that each word of all rows is contiguous.
    words = np.ascontiguousarray(padded.view("<u8").T).astype(_WORD, copy=False)
    start = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    state = [np.full(count, number, _WORD) for number in start]
    for word in words:
        state[3] ^= word
        _round(state)
        state[0] ^= word
    state[2] ^= _WORD(0xFF)
    for _ in range(3):
        _round(state)
    found = (state[0] ^ state[1] ^ state[2] ^ state[3]).view(np.int64)
    found[found == -1] = -2  # like Python, which reserves -1 for errors
    return found


def _round(state: list[np.ndarray]) -> None:
    """One SipRound, in place."""
    a, b, c, d = state
    a += b
    b[:] = _rotated(b, 13) ^ a
    a[:] = _rotated(a, 32)
    c += d
    d[:] = _rotated(d, 16) ^ c
    a += d
    d[:] = _rotated(d, 21) ^ a
    c += b
    b[:] = _rotated(b, 17) ^ c
    c[:] = _rotated(c, 32)


def _rotated(words: np.ndarray, by: int) -> np.ndarray:
    return (words << _WORD(by)) | (words >> _WORD(64 - by))


class SipHash(nn.Module):
    r"""Hashes each row of a tensor.

    Equal data has equal hashes in every run and on every machine, independently of ``PYTHONHASHSEED``.

    Args:
        as_tensor: whether to return a tensor of hashes. If False, the bytes of each row are returned as a list, for use
            as dictionary keys.

    Example:
        >>> SipHash()(torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]))
        tensor([-4669941682990263259, -3778166555168484291, -9122128731510687521])
        >>> SipHash(as_tensor=False)(torch.tensor([[1], [2]], dtype=torch.uint8))
        [b'\x01', b'\x02']
    """

    def __init__(self, as_tensor: bool = True) -> None:
        super().__init__()
        self.as_tensor = as_tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor | list[bytes]:
        """Hash the rows of a tensor ``[n, features]`` or ``[n]``: int64 ``[n]`` on its device, or a list of bytes.

        Raises:
            ValueError: If ``x`` has no dimensions.
        """
        if not x.ndim:
            raise ValueError(
                "SipHash hashes the rows of a tensor, but got a tensor without dimensions. Fix: hash(x.unsqueeze(0))."
            )
        rows = row_bytes([x])
        if not self.as_tensor:
            return [row.tobytes() for row in rows]
        return torch.from_numpy(siphash(rows)).to(x.device)


class RandomProjectionHash(SipHash):
    """Projects rows onto a few random directions, rounds the result, and hashes it.

    Nearly equal rows have the same hash with high probability, and wide rows are hashed faster. The directions are
    drawn at the first call from a separate generator with a fixed seed. Source: Bingham and Mannila, "Random projection
    in dimensionality reduction", KDD 2001.

    Args:
        n_components: number of directions. Default: 16.
        dtype_cast: dtype that the projection is rounded to.
        as_tensor: see :class:`SipHash`.
        init_method: called with a tensor of shape ``[features, n_components]``; fills it with the directions in place,
            or returns other directions. Default: normally distributed with variance ``1 / n_components``.

    Raises:
        ValueError: If ``n_components`` is below 1.

    Example:
        >>> hashing = RandomProjectionHash(n_components=4)
        >>> rows = torch.randn(3, 100)
        >>> (hashing(rows) == hashing(rows.clone())).all()
        tensor(True)
    """

    directions: torch.Tensor | None

    def __init__(
        self,
        *,
        n_components: int | None = None,
        dtype_cast: torch.dtype = torch.bfloat16,
        as_tensor: bool = True,
        init_method: Callable[[torch.Tensor], torch.Tensor | None] | None = None,
    ) -> None:
        super().__init__(as_tensor=as_tensor)
        if n_components is not None and n_components < 1:
            raise ValueError(
                f"n_components must be at least 1, the number of directions to project onto, got {n_components}. "
                "Fix: RandomProjectionHash(n_components=16)."
            )
        self.n_components = n_components or 16
        self.dtype_cast = dtype_cast
        self.init_method = init_method
        self.register_buffer("directions", None)

    def fit(self, x: torch.Tensor) -> None:
        """Draw the directions for rows of a shape.

        Args:
            x: rows of shape ``[n, *features]``; only the number of features and the device matter.
        """
        features = x[0].numel() if len(x) else x.shape[1:].numel()
        directions = torch.empty(features, self.n_components)
        if self.init_method is None:
            generator = torch.Generator().manual_seed(_SEED)
            directions.normal_(0, self.n_components**-0.5, generator=generator)
        else:
            given = self.init_method(directions)
            directions = directions if given is None else given
        self.directions = directions.to(x.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor | list[bytes]:
        """Hash the rows of a tensor.

        Args:
            x: the rows, shape ``[n, *features]``.

        Returns:
            See :meth:`SipHash.forward`.

        Raises:
            ValueError: If the number of features differs from that of the first call.
        """
        x = x.flatten(1) if x.ndim > 1 else x.unsqueeze(-1)
        if self.directions is None:
            self.fit(x)
        assert self.directions is not None
        if x.shape[1] != len(self.directions):
            raise ValueError(
                f"The random projection was drawn for rows of {len(self.directions)} features, but got rows of "
                f"{x.shape[1]}. Fix: use one RandomProjectionHash for each kind of row, or call fit(x) to redraw it."
            )
        return super().forward((x.to(self.directions) @ self.directions).to(self.dtype_cast))


class BinaryToDecimal(nn.Module):
    """Reads binary features as integers, most significant bit first.

    Args:
        num_bits: number of bits per integer. The features are split into groups of this size, whose integers are added.
        device: device of the module.
        dtype: dtype of the result.
        convert_to_binary: whether to read positive features as 1 and all others as 0.

    Raises:
        ValueError: If ``num_bits`` is below 1.

    Example:
        >>> read = BinaryToDecimal(num_bits=4, device="cpu", dtype=torch.int32, convert_to_binary=True)
        >>> read(torch.Tensor([[0, 0, 1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 10, 0]]))
        tensor([3, 2], dtype=torch.int32)
    """

    bases: torch.Tensor

    def __init__(
        self, num_bits: int, device: torch.device | str, dtype: torch.dtype, convert_to_binary: bool = False
    ) -> None:
        super().__init__()
        if num_bits < 1:
            raise ValueError(
                f"num_bits must be at least 1, the number of bits per integer, got {num_bits}. Fix: num_bits=8."
            )
        self.num_bits, self.dtype, self.convert_to_binary = num_bits, dtype, convert_to_binary
        self.register_buffer("bases", 2 ** torch.arange(num_bits - 1, -1, -1, device=device, dtype=dtype))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Convert the bits ``[..., features]`` to integers ``[...]``.

        Raises:
            ValueError: If the number of features is not a multiple of ``num_bits``.
        """
        width = features.shape[-1] if features.ndim else 0
        if not width or width % self.num_bits:
            raise ValueError(
                f"The number of features must be a multiple of num_bits={self.num_bits}, got {width}. "
                "Fix: choose a num_bits that divides the number of features."
            )
        bits = (features > 0 if self.convert_to_binary else features).to(self.dtype)
        return (bits.unflatten(-1, (-1, self.num_bits)) * self.bases).sum((-2, -1)).to(self.dtype)
