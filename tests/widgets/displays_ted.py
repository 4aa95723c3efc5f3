"""Display lists of a TED explorer on small data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from rlnb_widgets import TEDExplorer
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import legend_display
from rlnb_widgets.ted_explorer import Thumb
from rlnb_widgets.ted_explorer.numbers import thumb_of
from rlnb_widgets.ted_explorer.scene import (
    bytes_display,
    draw_thumb,
    ends_display,
    entries_display,
    form_display,
    kinds_legend,
    steps_display,
    thumb_arrays,
)

from rlnb.envs import CartPoleEnv

Made = tuple[Display, dict[str, float]]


def _explorer(t: int = 19) -> TEDExplorer:
    env = CartPoleEnv(batch_size=[2])
    env.set_seed(0)
    td = env.rollout(60, break_when_any_done=False)
    td["next", "observation"][0, 3, 1] = torch.nan
    return TEDExplorer(td, t=t)


def thumbs() -> list[Thumb]:
    """A thumbnail of each kind, with gaps."""
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=(30, 1)), np.cumsum(rng.normal(size=(500, 1)), 0)
    few[7:9] = many[90:150] = np.nan
    made = [thumb_of(array, 1, True) for array in (few, many, rng.normal(size=(40, 5)), np.ones((9, 1)))]
    made.append(thumb_of(rng.normal(size=(4, 3, 40)), 0, False))
    found = [thumb for thumb in made if thumb]
    assert [thumb.kind for thumb in found] == ["spark", "band", "heat", "spark", "hist"]
    return found


def _thumbs() -> Made:
    display = Display(240)
    for i, thumb in enumerate(thumbs()):
        arrays = thumb_arrays(thumb)
        n = len(next(iter(arrays.values())))
        with display.frame(20, 400):
            draw_thumb(display, thumb.kind, arrays.__getitem__, n, thumb.rows, 4 + 46 * i, 36)
    return display, {}


def _ends() -> Made:
    steps = {"terminated": [5.0, 30.0], "truncated": [12.0], "both": [40.0], "done": []}
    return ends_display(steps.__getitem__), {"t": 9, "last": 59}


def _shared() -> Made:
    """Entries of which some are in the memory of another TensorDict, in each of two ways."""
    td = CartPoleEnv(seed=0).rollout(20)
    other = td.clone()
    other["observation"] = td["observation"]
    other["next", "reward"] = td["next", "reward"][:1].expand(*td["next", "reward"].shape)
    return entries_display(TEDExplorer(td, other=other).model), {}


def _of(draw: Callable[[TEDExplorer], Display]) -> Callable[[], Made]:
    return lambda: (draw(_explorer()), {})


#: Name to a function that returns a display list and its parameters.
SCENES: dict[str, Callable[[], Made]] = {
    "thumbnails": _thumbs,
    "ends of episodes": _ends,
    "entries of a TED": _of(lambda explorer: entries_display(explorer.model)),
    "entries in shared memory": _shared,
    "bytes of the forms": _of(lambda explorer: bytes_display(explorer.forms())),
    "a flat form": _of(lambda explorer: form_display(explorer._layouts["flat"])),
    "Gymnasium's tuples": _of(lambda explorer: form_display(explorer._layouts["tuples"])),
    "kinds of boxes": lambda: (legend_display(kinds_legend()), {}),
    "a step of a TED": _of(lambda explorer: steps_display(explorer._fates(), explorer.t, 60)),
}
