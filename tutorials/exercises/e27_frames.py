"""Exercise of lesson 27 on transforms of a buffer: frames stored as bytes and read back as floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
from rlnb.envs import Transform

from .asking import fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .frame_rows import FrameRows
from .mutants import instead
from .verdict import Outcome

STEPS, HIGH, WIDE = 6, 40, 60
KEYS = ("pixels", ("next", "pixels"))

BYTES = """
    class Bytes(Transform):
        def __init__(self):
            keys = ["pixels", ("next", "pixels")]
            super().__init__(in_keys=keys, in_keys_inv=keys)

        def _inv_apply_transform(self, frame):
            return (255 * frame).round().to(torch.uint8)

        def _apply_transform(self, stored):
            return stored.float() / 255
"""


@exercise(
    title="A quarter of the memory",
    prompt="""
        Complete `Bytes()`, a transform for a buffer. The frames are written as floats from 0 to 1, in `"pixels"` and in
        `("next", "pixels")`. The buffer stores them as `torch.uint8`, whole numbers from 0 to 255. They are read as
        floats from 0 to 1 again, with an error of at most half a step of 1/255.
    """,
    stub="""
        class Bytes(Transform):
            def __init__(self):
                keys = ["pixels", ("next", "pixels")]
                super().__init__(in_keys=keys, in_keys_inv=keys)

            def _inv_apply_transform(self, frame):
                # on the way in: floats from 0 to 1, as passed to extend
                ...

            def _apply_transform(self, stored):
                # on the way out: bytes, as they are stored
                ...
    """,
    hints=[
        "These are the two directions of one conversion. By which factor do the whole numbers and the floats differ?",
        "`tensor.to(torch.uint8)` truncates: 254.9 becomes 254. What should it become?",
        "On the way in `(255 * frame).round().to(torch.uint8)`, on the way out `stored.float() / 255`.",
    ],
    solution=BYTES,
    wrong=[
        instead(BYTES, of=".round()", put="", says="darker than it was"),
        instead(BYTES, of="255 * frame", put="256 * frame", says="came back as"),
        instead(BYTES, of="(255 * frame).round()", put="frame.round()", says="either black or white"),
        instead(BYTES, of=".round().to(torch.uint8)", put="", says="stored as torch.float32"),
        instead(BYTES, of=".to(torch.uint8)", put="", says="stored as torch.float32"),
        instead(BYTES, of="stored.float() / 255", put="stored / 255.0 - 0.5", says="from -0.5 to 0.5"),
        instead(BYTES, of="stored.float() / 255", put="stored.float()", says="from 0 to 255"),
        instead(BYTES, of="stored.float() / 255", put="stored // 255", says="read as torch.uint8"),
        instead(BYTES, of="stored.float() / 255", put="(stored.float() / 255).flip(-1)", says="differs from the one"),
        instead(
            BYTES,
            of="in_keys=keys, in_keys_inv=keys",
            put="in_keys_inv=keys",
            says="read as torch.uint8",
        ),
        instead(
            BYTES,
            of='keys = ["pixels", ("next", "pixels")]',
            put='keys = ["pixels"]',
            says="`('next', 'pixels')` is stored as torch.float32",
        ),
        WrongAnswer(
            """
            class Bytes(Transform):
                def _inv_apply_transform(self, frame):
                    return (255 * frame).round().to(torch.uint8)

                def _apply_transform(self, stored):
                    return stored.float() / 255
            """,
            says="has no keys",
        ),
        WrongAnswer("Bytes = None", says="Expected a subclass"),
        instead(BYTES, of="torch.uint8", put="torch.int8", says="holds -128 to 127"),
        instead(BYTES, of="torch.uint8", put="torch.int16", says="torch.int16, which takes 2 times the memory"),
    ],
    setup="import torch\nfrom rlnb.envs import Transform",
)  # fmt: skip
def frames(Bytes: Callable[..., Any]) -> Outcome:
    """Write frames, look at what is stored, and compare what is read."""
    require(isinstance(Bytes, type), f"Expected a subclass of `Transform`, got {kind_of(Bytes)}.")
    transform = Bytes()
    require(isinstance(transform, Transform), "`Bytes()` is not a `Transform`.")
    what = "It has no keys, so it converts nothing. Pass `in_keys` and `in_keys_inv`."
    require(transform.in_keys or transform.in_keys_inv, what)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(STEPS), transform=transform, batch_size=STEPS)
    given = _steps()
    buffer.extend(given.clone())
    stored = buffer.storage[:]
    for key in KEYS:
        kind = stored[key].dtype
        what = f"takes {kind.itemsize} times the memory of bytes"
        what = "holds -128 to 127 instead of 0 to 255" if kind == torch.int8 else what
        require(kind == torch.uint8, f"`{key}` is stored as {kind}, which {what}.")
    read = buffer[:]
    for key in KEYS:
        _compare(given, read, stored, key)
    same = torch.equal(read["next", "reward"], given["next", "reward"])
    require(same, "The rewards have changed. Convert only the frames.")
    size = [sum(td[key].nbytes for key in KEYS) for td in (given, stored)]
    return right(
        f"{size[0]:,} bytes of frames now take {size[1]:,}. The frames in the picture were written, stored as bytes, "
        "and read back. A little time per sample saves memory for every item.",
        FrameRows({"given": given["pixels"][:2, 0], "read": read["pixels"][:2, 0]}),
    )


def _steps() -> TensorDictBase:
    """A ball that rolls over a shaded ground: frames with every brightness."""
    ground = torch.linspace(0, 1, HIGH * WIDE, dtype=torch.float64).reshape(HIGH, WIDE)
    row, column = torch.arange(HIGH)[:, None], torch.arange(WIDE)
    frames = []
    for step in range(STEPS + 1):
        ball = (row - 20) ** 2 + (column - 8 - 7 * step) ** 2 < 30
        frames.append(torch.where(ball, 1 - ground, ground).float())
    pixels = torch.stack(frames)[:, None]
    reward = torch.linspace(0, 1, STEPS)[:, None]
    return TensorDict({"pixels": pixels[:-1], "next": {"pixels": pixels[1:], "reward": reward}}, [STEPS])


def _compare(given: TensorDictBase, read: TensorDictBase, stored: TensorDictBase, key: Any) -> None:
    """Say how a frame that is read differs from the one that was written."""
    want, got, kept = given[key], read[key], stored[key]
    require(got.dtype == torch.float32, f"`{key}` is read as {got.dtype}, expected torch.float32.")
    off = (got - want).abs().max().item()
    if off <= 0.5 / 255 + 1e-6:
        return
    picture = FrameRows({"given": want[:2, 0], "read": got[:2, 0].clamp(0, 1)})
    low, high = got.min().item(), got.max().item()
    if low < -0.01 or high > 1.01:
        fail(f"The frames that are read range from {low:g} to {high:g}, expected from 0 to 1.", picture)
    if len(kept.unique()) < 3:
        fail("Only two values are stored, so every pixel comes back either black or white.", picture)
    error = want - got
    if bool((error >= -1e-6).all()) and off < 1.01 / 255:
        fail(
            f"Each frame comes back a little darker than it was, by up to {255 * off:.2f} of a step of 1/255. "
            "Written and read many times, it would fade.",
            picture,
        )
    where = int((error.abs() == error.abs().max()).flatten().nonzero()[0])
    pair = want.flatten()[where].item(), got.flatten()[where].item()
    if pair[0] > 0.9 and pair[1] < 0.1:
        fail(f"A brightness of {pair[0]:.3f} came back as {pair[1]:.3f}. What is the largest value of a byte?", picture)
    fail("The frame that is read differs from the one that was written.", picture)
