"""Exercise of lesson 26 on pixels: a chain that makes small stacks of frames, beside what the env gives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TransformInspector
from tensordict import TensorDictBase

from rlnb.envs import CatFrames, Compose, EnvBase, GrayScale, GymEnv, Resize, ToTensorImage, TransformedEnv

from .asking import ask, fail, require, right
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
    title="Small frames beside the large ones",
    prompt="""
        Write `see(env)`. `env` is a cart pole with frames, `"pixels"` of shape `[400, 600, 3]`. Return an env around it
        with one more entry, `"small"`, of shape `[3, 40, 60]`: the last three frames in gray, each with 40 rows and 60
        columns, as floats from 0 to 1. At a reset, all three are the first frame. `"pixels"` stays as the env gives it.
    """,
    stub="""
        def see(env):
            # in_keys=["pixels"], out_keys=["small"] reads one entry and writes another
            chain = ...
            return TransformedEnv(env, chain)
    """,
    hints=[
        "It is the chain of above with other numbers. One transform has to write somewhere else than it reads, so that "
        '`"pixels"` stays. Which, and where do those after it read?',
        "The first one reads `pixels` and writes `small`. The others read `small`, and write it too, because "
        "they have no `out_keys`.",
        '`ToTensorImage(in_keys=["pixels"], out_keys=["small"])`, then `GrayScale(in_keys=["small"])` and so on.',
    ],
    solution=SEE,
    wrong=[
        instead(SEE, of=', out_keys=["small"]', put=', out_keys=["tiny"]', says="'small'"),
        WrongAnswer(
            """
            def see(env):
                return TransformedEnv(env, Compose(ToTensorImage(), GrayScale(), Resize(40, 60), CatFrames(3, dim=-3)))
            """,
            says="There is no `small`",
        ),
        instead(
            SEE,
            of='GrayScale(in_keys=["small"])',
            put='GrayScale(in_keys=["pixels"], out_keys=["small"])',
            says="would overwrite the other",
        ),
        instead(SEE, of="Resize(40, 60", put="Resize(60, 40", says="Rows and columns have changed places"),
        instead(SEE, of="Resize(40, 60", put="CenterCrop(40, 60", says="something else than the whole frame"),
        instead(SEE, of='GrayScale(in_keys=["small"]),\n            ', put="", says="three channels"),
        instead(SEE, of="CatFrames(3", put="CatFrames(4", says="`small` has 4 frames"),
        instead(SEE, of="dim=-3", put="dim=-1", says="beside one another"),
        instead(
            SEE,
            of='in_keys=["small"]),\n        ),',
            put='in_keys=["small"], padding="constant"),\n        ),',
            says="black",
        ),
        instead(SEE, of='"pixels"], out', put='"pixels"], from_int=False, out', says="values up to"),
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
            says="squeezed into one picture",
        ),
        WrongAnswer(
            'def see(env): return Compose(ToTensorImage(in_keys=["pixels"], out_keys=["small"]))',
            says="It gave a `Compose`",
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
    """Look at the entries of a few steps, and compare them with those of a chain that is right."""
    env = ask(see, _frames())
    require(env is not None, "It gave `None`. Is there a `return`?")
    require(isinstance(env, EnvBase), f"It gave a `{type(env).__name__}`, and an env is wanted.")
    require(isinstance(env, TransformedEnv), f"It gave a `{type(env).__name__}`, with no transform around it.")
    td, wanted = _rollout(env), _wanted()
    keys = sorted(map(str, td.keys()))
    require("small" in keys, f"There is no `small` among its entries, only {keys}.", lambda: TransformInspector(env))
    require("pixels" in keys, f"`pixels` is gone: the entries are {keys}.", lambda: TransformInspector(env))
    same = td["pixels"].shape == wanted["pixels"].shape and torch.equal(td["pixels"], wanted["pixels"])
    shape = list(td["pixels"].shape[1:])
    require(same, f"`pixels` is not as the env gives it: its shape is {shape}.", lambda: TransformInspector(env))
    _check_shape(td["small"], env)
    _check_values(td["small"], wanted["small"])
    saved = td["pixels"][0].numel() / td["small"][0].numel()
    return right(
        f"Three small frames are {td['small'][0].numel():,} numbers, {saved:.0f} times fewer than one large frame in "
        "colours, and they show what moves.",
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
    """Name what makes another shape."""
    shape = list(small.shape[1:])
    if shape == _SHAPE:
        return
    known: dict[tuple[int, ...], str] = {
        (3, 60, 40): "Rows and columns have changed places",
        (9, 40, 60): "Each frame still has three channels, red, green and blue",
        (1, 40, 180): "The three frames are beside one another, in one picture",
        (1, 120, 60): "The three frames are on top of one another, in one picture",
    }
    said = known.get(tuple(shape))
    wanted = f"Its shape is {shape}, and {_SHAPE} is wanted."
    if said:
        fail(f"{said}. {wanted}", TransformInspector(env))
    if shape == [1, 40, 60] and _carts(small) > 1:
        fail(f"All frames are squeezed into one picture, which is small then. {wanted}", _rows(small))
    if shape[1:] == _SHAPE[1:]:
        fail(f"`small` has {shape[0]} frame{'s' * (shape[0] > 1)}. {wanted}", _rows(small))
    fail(wanted, TransformInspector(env))


def _carts(small: torch.Tensor) -> int:
    """How many carts are above one another: dark stretches from top to bottom."""
    dark = (small[0, 0] < 0.5).any(-1).int()
    return int((dark.diff() == 1).sum())


def _check_values(small: torch.Tensor, wanted: torch.Tensor) -> None:
    what = f"`small` has the dtype `{small.dtype}`, and floats are wanted."
    require(small.dtype.is_floating_point, what)
    top = float(small.max())
    require(top <= 1.01, f"`small` has values up to {top:.0f}, and those from 0 to 1 are wanted.")
    if float((small - wanted).abs().max()) < _CLOSE:
        return
    if bool((small[0, 0] == 0).all()):
        fail("At the reset, the frames before the first one are black.", _rows(small, 0))
    what = "`small` shows something else than the whole frame."
    fail(what, FrameRows({"small, at the last step": small[-1], "the last three frames": wanted[-1]}))


def _rows(small: torch.Tensor, t: int = -1) -> FrameRows:
    return FrameRows({"small": small[t]})
