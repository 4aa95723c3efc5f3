"""Exercise of lesson 26 on pixels: add a stack of small frames next to the original pixels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TransformInspector
from tensordict import TensorDictBase

from rlnb.envs import CatFrames, Compose, EnvBase, GrayScale, GymEnv, Resize, ToTensorImage, TransformedEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .frame_rows import FrameRows
from .mutants import instead
from .verdict import Outcome

_SHAPE = [3, 40, 60]
_STEPS = 4
_CLOSE = 0.1  # kinds of interpolation may differ

SEE = """
    def see(env):
        return TransformedEnv(
            env,
            Compose(
                ToTensorImage(in_keys=["pixels"], out_keys=["small"]),
                GrayScale(in_keys=["small"]),
                Resize(40, 60, in_keys=["small"]),
                CatFrames(3, dim=-3, in_keys=["small"]),
            ),
        )
"""


@exercise(
    title="Small frames next to the large ones",
    prompt="""
        Write `see(env)`. `env` is a cart pole that returns frames, `"pixels"` of shape `[400, 600, 3]`. Wrap it in an
        env with one more entry, `"small"`, of shape `[3, 40, 60]`: the last three frames in gray, each with 40 rows
        and 60 columns, as floats from 0 to 1. At a reset, all three are the first frame. Leave `"pixels"` unchanged.
    """,
    stub="""
        def see(env):
            # in_keys=["pixels"], out_keys=["small"] reads one entry and writes another
            chain = ...
            return TransformedEnv(env, chain)
    """,
    hints=[
        'Use the chain from above with other numbers. To keep `"pixels"`, one transform must write to another key than '
        "it reads. Which one? And which key do the later ones read?",
        "The first one reads `pixels` and writes `small`. The others read and write `small`, because they have no "
        "`out_keys`.",
        'Start with `ToTensorImage(in_keys=["pixels"], out_keys=["small"])`, then `GrayScale(in_keys=["small"])`, etc.',
    ],
    solution=SEE,
    wrong=[
        instead(SEE, of=', out_keys=["small"]', put=', out_keys=["tiny"]', says="'small'"),
        WrongAnswer(
            """
            def see(env):
                return TransformedEnv(env, Compose(ToTensorImage(), GrayScale(), Resize(40, 60), CatFrames(3, dim=-3)))
            """,
            says="has no entry `small`",
        ),
        instead(
            SEE,
            of='GrayScale(in_keys=["small"])',
            put='GrayScale(in_keys=["pixels"], out_keys=["small"])',
            says="would overwrite the other",
        ),
        instead(SEE, of="Resize(40, 60", put="Resize(60, 40", says="Rows and columns are swapped"),
        instead(SEE, of="Resize(40, 60", put="CenterCrop(40, 60", says="does not show the whole frame"),
        instead(SEE, of='GrayScale(in_keys=["small"]),\n            ', put="", says="three channels"),
        instead(SEE, of="CatFrames(3", put="CatFrames(4", says="`small` has 4 frames"),
        instead(SEE, of="dim=-3", put="dim=-1", says="side by side"),
        instead(
            SEE,
            of='in_keys=["small"]),\n        ),',
            put='in_keys=["small"], padding="constant"),\n        ),',
            says="black",
        ),
        instead(SEE, of='"pixels"], out', put='"pixels"], from_int=False, out', says="got values up to"),
        instead(
            SEE,
            of='ToTensorImage(in_keys=["pixels"], out_keys=["small"]),\n            GrayScale(in_keys=["small"])',
            put='GrayScale(in_keys=["pixels"], out_keys=["small"]),\n            ToTensorImage(in_keys=["small"])',
            says="put ToTensorImage() before it",
        ),
        WrongAnswer(
            """
            def see(env):
                return TransformedEnv(
                    env,
                    Compose(
                        CatFrames(3, dim=-3, in_keys=["pixels"], out_keys=["small"]),
                        ToTensorImage(in_keys=["small"]),
                        GrayScale(in_keys=["small"]),
                        Resize(40, 60, in_keys=["small"]),
                    ),
                )
            """,
            says="squeezed into one image",
        ),
        WrongAnswer(
            'def see(env): return Compose(ToTensorImage(in_keys=["pixels"], out_keys=["small"]))',
            says="got a `Compose`",
        ),
        WrongAnswer(
            """
            def see(env):
                env = TransformedEnv(env)
                env.append_transform(ToTensorImage(in_keys=["pixels"], out_keys=["small"]))
            """,
            says="Is there a `return`?",
        ),
        WrongAnswer(
            """
            def see(env):
                env = TransformedEnv(env, ToTensorImage(in_keys=["pixels"], out_keys=["small"]))
                env.append_transform(GrayScale(in_keys=["small"]))
                env.append_transform(Resize(40, 60, in_keys=["small"]))
                return env
            """,
            says="`small` has 1 frame",
        ),
        WrongAnswer(
            """
            def see(env):
                names = {"in_keys": ["small"]}
                return TransformedEnv(
                    env,
                    Compose(
                        RenameTransform(["pixels"], ["small"]),
                        ToTensorImage(**names), GrayScale(**names), Resize(40, 60, **names), CatFrames(3, -3, **names),
                    ),
                )
            """,
            says="`pixels` is gone",
        ),
    ],
    setup="""
        from rlnb.envs import CatFrames, CenterCrop, Compose, GrayScale, RenameTransform, Resize, ToTensorImage
        from rlnb.envs import TransformedEnv
    """,
)
def see(see: Callable[..., Any]) -> Outcome:
    """Compare the entries of a few steps with those of a correct chain."""
    env = ask(see, _frames())
    require(env is not None, "It gave `None`. Is there a `return`?")
    require(isinstance(env, EnvBase), f"Expected an env, got {kind_of(env)}.")
    require(isinstance(env, TransformedEnv), f"Expected a `TransformedEnv`, got {kind_of(env)}.")
    td, wanted = _rollout(env), _wanted()
    keys = sorted(map(str, td.keys()))
    require("small" in keys, f"The env has no entry `small`, only {keys}.", lambda: TransformInspector(env))
    require("pixels" in keys, f"`pixels` is gone: the entries are {keys}.", lambda: TransformInspector(env))
    same = td["pixels"].shape == wanted["pixels"].shape and torch.equal(td["pixels"], wanted["pixels"])
    shape = list(td["pixels"].shape[1:])
    require(
        same,
        f"`pixels` has changed: its shape is {shape}. Write the result to `small` only.",
        lambda: TransformInspector(env),
    )
    _check_shape(td["small"], env)
    _check_values(td["small"], wanted["small"])
    saved = td["pixels"][0].numel() / td["small"][0].numel()
    return right(
        f"Three small frames hold {td['small'][0].numel():,} numbers, {saved:.0f} times fewer than one large colour "
        "frame, and they show motion.",
        FrameRows({"small, at the last step": td["small"][-1]}),
    )


def _frames() -> GymEnv:
    return GymEnv("CartPole-v1", from_pixels=True, pixels_only=False, categorical_action_encoding=True)


def _right() -> TransformedEnv:
    small = ["small"]
    first = ToTensorImage(in_keys=["pixels"], out_keys=small)
    last = CatFrames(3, dim=-3, in_keys=small)
    return TransformedEnv(_frames(), Compose(first, GrayScale(in_keys=small), Resize(40, 60, in_keys=small), last))


@functools.cache
def _wanted() -> TensorDictBase:
    return _rollout(_right())


def _rollout(env: EnvBase) -> TensorDictBase:
    env.set_seed(0)
    return env.rollout(_STEPS, lambda td: td.set("action", torch.tensor(1)))


def _check_shape(small: torch.Tensor, env: EnvBase) -> None:
    """Name the cause of a wrong shape."""
    shape = list(small.shape[1:])
    if shape == _SHAPE:
        return
    known: dict[tuple[int, ...], str] = {
        (3, 60, 40): "Rows and columns are swapped",
        (9, 40, 60): "Each frame still has three channels, red, green and blue",
        (1, 40, 180): "The three frames are side by side in one image",
        (1, 120, 60): "The three frames are on top of one another in one image",
    }
    said = known.get(tuple(shape))
    wanted = f"Expected shape {_SHAPE}, got {shape}."
    if said:
        fail(f"{said}. {wanted}", TransformInspector(env))
    if shape == [1, 40, 60] and _carts(small) > 1:
        fail(f"All frames are squeezed into one image. {wanted}", _rows(small))
    if shape[1:] == _SHAPE[1:]:
        fail(f"`small` has {shape[0]} frame{'s' * (shape[0] > 1)}. {wanted}", _rows(small))
    fail(wanted, TransformInspector(env))


def _carts(small: torch.Tensor) -> int:
    """Count the carts above one another: dark stretches from top to bottom."""
    dark = (small[0, 0] < 0.5).any(-1).int()
    return int((dark.diff() == 1).sum())


def _check_values(small: torch.Tensor, wanted: torch.Tensor) -> None:
    what = f"Expected `small` to hold floats, got dtype `{small.dtype}`."
    require(small.dtype.is_floating_point, what)
    top = float(small.max())
    require(top <= 1.01, f"Expected `small` to hold values from 0 to 1, got values up to {top:.0f}.")
    if float((small - wanted).abs().max()) < _CLOSE:
        return
    if bool((small[0, 0] == 0).all()):
        fail(
            "After the reset, the frames before the first one are black. They should repeat the first frame.",
            _rows(small, 0),
        )
    what = "`small` does not show the whole frame."
    fail(what, FrameRows({"small, at the last step": small[-1], "the last three frames": wanted[-1]}))


def _rows(small: torch.Tensor, t: int = -1) -> FrameRows:
    return FrameRows({"small": small[t]})
