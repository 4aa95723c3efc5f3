"""Exercise of lesson 29 on hooks: leave out of a checkpoint what can be recomputed, and recompute it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer

from .asking import fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .film import film
from .mutants import instead
from .verdict import Outcome

STEPS, ROOM = 130, 100
KEYS = ("pixels", ("next", "pixels"))

HOOKS = """
    def leave_out(td):
        return td.exclude("pixels", ("next", "pixels"))


    def make_again(td):
        td["pixels"] = photos[td["observation"]]
        td["next", "pixels"] = photos[td["next", "observation"]]
        return td
"""


@exercise(
    title="Save less than a flat buffer",
    prompt="""
        In our film, a photo depends only on the cell: it is `photos[cell]`, and the cell is the observation. Write two
        hooks. `leave_out(td)` receives the rows of the buffer and returns what should be saved: everything except the
        photos. `make_again(td)` receives what was saved and returns the original rows, bit by bit. `leave_out` receives
        the memory of the buffer itself, and must not modify it.
    """,
    stub="""
        def leave_out(td):
            # td has "pixels" and ("next", "pixels"), and all other entries of a step
            ...


        def make_again(td):
            # photos[cells] are the photos of these cells
            ...
    """,
    hints=[
        "A TensorDict has a method that returns a new one without some entries, and leaves itself unchanged.",
        '`td.exclude(...)` takes keys, including nested ones such as `("next", "pixels")`. To restore the photos, '
        'index '
        "`photos` with cells. Which cells for the root, and which for `next`?",
        'In `make_again`: `td["pixels"] = photos[td["observation"]]`, and `td["next", "pixels"]` in the same way from '
        '`td["next", "observation"]`. Both functions return a TensorDict.',
    ],
    solution=HOOKS,
    wrong=[
        instead(HOOKS, of='"pixels", ("next", "pixels")', put='"pixels"', says="photos under `next` are still saved"),
        instead(HOOKS, of='"pixels", ("next", "pixels")', put='("next", "pixels")', says="The photos of the root"),
        instead(HOOKS, of='td.exclude("pixels", ("next", "pixels"))', put="td", says="All photos are saved"),
        instead(HOOKS, of='photos[td["next", "observation"]]', put='photos[td["observation"]]', says="the cell before"),
        instead(
            HOOKS,
            of='photos[td["next", "observation"]]',
            put='td["pixels"].roll(-1, 0)',
            says="Is the next row always the next step",
        ),
        instead(
            HOOKS,
            of='    td["next", "pixels"] = photos[td["next", "observation"]]\n',
            put="",
            says="has no `('next', 'pixels')`",
        ),
        instead(HOOKS, of="photos[td[", put="photos.float()[td[", says="float32"),
        instead(
            HOOKS,
            of='td.exclude("pixels", ("next", "pixels"))',
            put='td.select("observation", ("next", "observation"))',
            says="cannot be recomputed",
        ),
        WrongAnswer(
            """
            def leave_out(td):
                for part in (td, td["next"]):
                    part["pixels"].zero_()
                return td.exclude("pixels", ("next", "pixels"))

            def make_again(td):
                td["pixels"] = photos[td["observation"]]
                td["next", "pixels"] = photos[td["next", "observation"]]
                return td
            """,
            says="The photos in the buffer were changed",
        ),
        instead(HOOKS, of="return td.exclude", put="td.exclude", says="got `None`"),
        instead(
            HOOKS,
            of='"observation"]]\n    return td',
            put='"observation"]]',
            says="`make_again` must return a TensorDict",
        ),
    ],
    setup="import torch\nfrom exercises.film import take_photos\nphotos = take_photos()",
)  # fmt: skip
def hooks(leave_out: Callable[..., Any], make_again: Callable[..., Any]) -> Outcome:
    """Save and load a ring that went round, and compare bytes and rows."""
    buffer = _buffer()
    buffer.extend(film(STEPS))
    before = buffer.storage[:].clone()
    plain = _saved_bytes(buffer)

    def save_hook(td: TensorDictBase) -> Any:
        made = leave_out(td)
        _check_kind("leave_out", made)
        changed = [key for key in before.keys(True, True) if not torch.equal(buffer.storage[:][key], before[key])]
        if changed:
            what = "photos" if changed[0] in KEYS else f"entries {changed}"
            fail(f"The {what} in the buffer were changed. Saving must not modify the buffer.")
        _check_saved(made, before)
        return made

    def load_hook(td: TensorDictBase) -> Any:
        made = make_again(td)
        _check_kind("make_again", made)
        _check_loaded(made, before)
        return made

    buffer.register_save_hook(save_hook)
    with tempfile.TemporaryDirectory() as folder:
        buffer.dumps(folder)
        size = _bytes_in(folder)
        other = _buffer()
        other.register_load_hook(load_hook)
        other.loads(folder)
    same = all(torch.equal(other.storage[:][key], before[key]) for key in before.keys(True, True))
    require(same, "After loading, the buffer differs from what was saved.")
    return right(
        f"{size:,} bytes in place of {plain:,}. A checkpointer does not know how your data can be recomputed, but you "
        "do. If the source can change, save it as well: these rows are worthless without their photos."
    )


def _buffer() -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(storage=LazyTensorStorage(ROOM), batch_size=8)


def _saved_bytes(buffer: TensorDictReplayBuffer) -> int:
    with tempfile.TemporaryDirectory() as folder:
        buffer.dumps(folder)
        return _bytes_in(folder)


def _bytes_in(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def _check_kind(name: str, made: Any) -> None:
    kind = f"`{name}` must return a TensorDict, got {kind_of(made)}."
    require(isinstance(made, TensorDictBase), kind + (" Is there a `return`?" if made is None else ""))


def _check_saved(made: TensorDictBase, before: TensorDictBase) -> None:
    """Require all entries but the photos."""
    keys = set(made.keys(True, True))
    kept = [key in keys for key in KEYS]
    size = f"{sum(made[key].nbytes for key in KEYS if key in keys):,} bytes"
    require(not all(kept), f"All photos are saved: {size}.")
    require(not kept[0], f"The photos of the root are still saved: {size}.")
    require(not kept[1], f"The photos under `next` are still saved: {size}.")
    missing = [key for key in before.keys(True, True) if key not in keys and key not in KEYS]
    if missing:
        fail(f"`{missing[0]}` was not saved, but it cannot be recomputed.")


def _check_loaded(made: TensorDictBase, before: TensorDictBase) -> None:
    """Require the photos as they were."""
    keys = set(made.keys(True, True))
    for key in before.keys(True, True):
        require(key in keys, f"The result of `make_again` has no `{key}`.")
        got, wanted = made[key], before[key]
        kinds = [f"{one.dtype}, {list(one.shape)}" for one in (got, wanted)]
        require(kinds[0] == kinds[1], f"Expected `{key}` to be {kinds[1]}, got {kinds[0]}.")
        if torch.equal(got, wanted):
            continue
        step = int((got != wanted).flatten(1).any(1).nonzero()[0])
        if key == KEYS[1] and torch.equal(got, before["pixels"]):
            fail("The photos under `next` are those of the root: they show the cell before the step.")
        if key == KEYS[1] and step:
            fail(
                f"Most of the photos under `next` are right, but the one in row {step} is not. "
                "Is the next row always the next step?"
            )
        fail(f"`{key}` of row {step} has changed.")
