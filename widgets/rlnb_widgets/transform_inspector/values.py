"""Data between two boxes as short text and thumbnails, and the changes made by the box before."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image
from tensordict import TensorDictBase, is_non_tensor

from rlnb.data.ted.keys import as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb_widgets._core.images import as_rgb
from rlnb_widgets._core.text import object_text, values_text, visible
from rlnb_widgets.transform_inspector.model import path_key
from rlnb_widgets.transform_inspector.schema import ChangeKind, Thumbnail, Value

MAX_SIDE = 132  # pixels of a thumbnail, which several frames share
LEAST_SIDE = 8  # pixels, of an entry that counts as an image
MOST_CHANNELS = 16
MOST_FRAMES = 4  # of a stack
IN_A_ROW = 2
GAP = 2  # pixels between them
SHOWN = 4  # numbers of an entry


def describe_values(data: TensorDictBase, before: TensorDictBase | None) -> tuple[Value, ...]:
    """Describe the data at one place of the chain: its entries, then those removed since the place before."""
    found = [_value(data, key, before) for key in leaf_keys(data)]
    if before is not None:
        here = set(leaf_keys(data))
        found += [Value(path_key(as_tuple(key)), "removed", "", "") for key in leaf_keys(before) if key not in here]
    return tuple(found)


def _value(data: TensorDictBase, key: Any, before: TensorDictBase | None) -> Value:
    name = path_key(as_tuple(key))
    try:
        value = data.get(key)
        kind = _kind(value, None if before is None else before.get(key, None), before is None)
        if not isinstance(value, torch.Tensor):
            shown = value.tolist() if is_non_tensor(value) else value
            return Value(name, kind, "non-tensor", visible(object_text(shown), 80))
        tensor = value.detach().cpu()
        form = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        return Value(name, kind, form, _numbers(tensor), thumbnail(tensor, data.ndim))
    except Exception as error:
        return Value(name, "same", "", f"cannot be shown: {type(error).__name__}")


def _kind(value: Any, old: Any, first: bool) -> ChangeKind:
    if first:
        return "same"
    if old is None:
        return "new"
    if not isinstance(value, torch.Tensor) or not isinstance(old, torch.Tensor):
        return "same" if object_text(value) == object_text(old) else "changed"
    alike = value.shape == old.shape and value.dtype == old.dtype and value.device == old.device
    # A NaN that stays does not count as a change.
    return "same" if alike and bool(((value == old) | ((value != value) & (old != old))).all()) else "changed"


def _numbers(tensor: torch.Tensor) -> str:
    if tensor.numel() == 0:
        return "no elements"
    flat = tensor.reshape(-1)
    some = values_text(flat[:SHOWN].float().numpy() if flat.dtype == torch.bfloat16 else flat[:SHOWN].numpy(), SHOWN)
    if flat.numel() <= SHOWN:
        return some
    if flat.is_complex():
        return f"{some[:-1]}, ... {flat.numel():,} values]"
    low, high = (values_text(end.float().numpy()) for end in (flat.min(), flat.max()))
    return f"{some[:-1]}, ... {flat.numel():,} values from {low} to {high}]"


def thumbnail(tensor: torch.Tensor, batch_dims: int) -> Thumbnail | None:
    """Draw an entry that looks like an image, small; None for other shapes. The first batch element is drawn.

    Of a stack of frames the newest four are drawn, two in a row, the newest last.

    Example:
        >>> thumbnail(torch.zeros(3, 84, 96), 0).width, thumbnail(torch.zeros(4), 0)
        (96, None)
        >>> thumbnail(torch.zeros(2, 84, 96), 0).width
        98
    """
    for _ in range(batch_dims):
        if not len(tensor):
            return None
        tensor = tensor[0]
    if tensor.is_complex() or not _is_picture(tuple(tensor.shape)):
        return None
    array = tensor.numpy() if tensor.dtype != torch.bfloat16 else tensor.float().numpy()
    if array.ndim == 3 and array.shape[0] <= MOST_CHANNELS and array.shape[-1] not in (1, 3):
        array = np.moveaxis(array, 0, -1)
    if array.dtype.kind == "f":
        array = _to_unit(array)
    frames = _frames(array)
    image = _tiled([_small(frame, MAX_SIDE if len(frames) == 1 else MAX_SIDE // 2) for frame in frames])
    out = io.BytesIO()
    image.save(out, "PNG")
    return Thumbnail(out.getvalue(), *image.size)


def _frames(array: np.ndarray) -> list[np.ndarray]:
    """Return the frames of ``[H, W]`` or ``[H, W, C]``: one, or the newest of a stack; of colours if 3 divides C."""
    if array.ndim == 2 or array.shape[-1] in (1, 3):
        return [array]
    each = 3 if array.shape[-1] % 3 == 0 else 1
    frames = [array[..., i : i + each] for i in range(0, array.shape[-1], each)]
    return frames[-MOST_FRAMES:]


def _small(frame: np.ndarray, side: int) -> Image.Image:
    image = Image.fromarray(np.ascontiguousarray(as_rgb(frame)))
    factor = -(-max(image.size) // side)
    return image.reduce(factor) if factor > 1 else image


def _tiled(images: list[Image.Image]) -> Image.Image:
    if len(images) == 1:
        return images[0]
    width, height = (size + GAP for size in images[0].size)
    rows = -(-len(images) // IN_A_ROW)
    sheet = Image.new("RGB", (IN_A_ROW * width - GAP, rows * height - GAP), (128, 128, 128))
    for i, image in enumerate(images):
        row, column = divmod(i, IN_A_ROW)
        sheet.paste(image, (column * width, row * height))
    return sheet


def _is_picture(shape: tuple[int, ...]) -> bool:
    if len(shape) == 2:
        return min(shape) >= LEAST_SIDE
    if len(shape) != 3 or sorted(shape)[1] < LEAST_SIDE:
        return False
    return min(shape[0], shape[-1]) <= MOST_CHANNELS


def _to_unit(array: np.ndarray) -> np.ndarray:
    """Map numbers outside of [0, 1], such as normalized ones, to [0, 1]."""
    array = np.nan_to_num(array.astype(np.float32))
    low, high = float(array.min()), float(array.max())
    if low >= 0 and high <= 1:
        return array
    return (array - low) / max(high - low, 1e-9)
