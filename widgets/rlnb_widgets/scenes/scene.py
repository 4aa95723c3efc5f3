"""Scenes: marks that never move, moving parts, and one pose per part and frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rlnb_widgets._core.display import Display, Mark, Param
from rlnb_widgets._core.display_svg import draw_display
from rlnb_widgets._core.svg import Svg


@dataclass(frozen=True)
class Part:
    """A named group of marks that moves as one rigid body, drawn about its own origin.

    Args:
        name: name of the part, unique in its scene.
        marks: its marks, from back to front: those of `rlnb_widgets.scenes.drawing`, or of any display list.

    Example:
        >>> from rlnb_widgets.scenes import disc
        >>> Part("ball", [disc(0, 0, 5, "accent")]).name
        'ball'
    """

    name: str
    marks: Sequence[Mark]


class Limit(NamedTuple):
    """A value that a component of the observation cannot leave, or at which the env ends an episode."""

    value: float  #: the value
    words: str  #: how it is written
    #: ``"bad"`` where an episode ends, ``"good"`` where it ends at the goal, ``"muted"`` where the env clips
    role: str = "bad"


@dataclass(frozen=True, eq=False)
class Scene:
    """A static background and moving parts, for N frames.

    Args:
        width: width in scene units.
        height: height in scene units.
        background: marks that never move, from back to front.
        parts: moving parts, from back to front.
        poses: float32 array of shape [N, P, 3]: x, y and angle of each part in each frame.
            The angle is in radians, clockwise on the screen, since y points down.
            A NaN x hides the part in that frame.
        caption: function that describes a frame for screen readers, by its number.

    Raises:
        ValueError: If the shape of `poses` does not match the parts, or two parts have the same name.

    Example:
        >>> from rlnb_widgets.scenes import disc
        >>> ball = Part("ball", [disc(0, 0, 5, "accent")])
        >>> scene = Scene(100, 50, (), (ball,), np.zeros((3, 1, 3), np.float32))
        >>> len(scene)
        3
    """

    width: float
    height: float
    background: Sequence[Mark]
    parts: tuple[Part, ...]
    poses: npt.NDArray[np.floating[Any]]
    caption: Callable[[int], str] | None = None

    def __post_init__(self) -> None:
        poses = np.asarray(self.poses, dtype=np.float32)
        if poses.ndim != 3 or poses.shape[1:] != (len(self.parts), 3):
            raise ValueError(
                f"poses must have shape [N, {len(self.parts)}, 3] (frames, parts, (x, y, angle)), "
                f"got {list(poses.shape)}."
            )
        object.__setattr__(self, "poses", poses)
        names = [p.name for p in self.parts]
        if len(set(names)) != len(names):
            raise ValueError(f"part names must be unique in a scene, got {names}.")

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.poses)

    def caption_at(self, i: int) -> str:
        """Return the caption of frame `i`, empty without one; a negative `i` counts from the end."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"frame {i} is out of range: the scene has {len(self)} frames, 0 to {len(self) - 1}.")
        return "" if self.caption is None else self.caption(i % len(self))

    def draw(
        self, display: Display, i: int | None = None, still: str | None = None, moving: str | None = None,
        hidden: Collection[int] = (), smallest: float = 0.0,
    ) -> None:  # fmt: skip
        """Draw a frame into a display list.

        Args:
            display: The list.
            i: Frame number. None leaves the poses to parameters with the names of the parts.
            still: Name under which the SVG holds the background once, for lists of many frames.
            moving: Beginning of the names under which it holds the parts once; their numbers follow.
            hidden: Numbers of parts that are left out.
            smallest: Size of the smallest texts of the background that are drawn.
        """
        with display.shared(still) if still else nullcontext():
            display.add(mark for mark in self.background if mark["kind"] != "text" or mark.get("size", 11) >= smallest)
        for k, part in enumerate(self.parts):
            at = Param(part.name) if i is None else self.poses[i, k].tolist()
            if k not in hidden and (isinstance(at, Param) or all(map(math.isfinite, at))):
                with display.placed(at), display.shared(f"{moving}{k}") if moving else nullcontext():
                    display.add(part.marks)

    def poses_as_lists(self, frames: slice = slice(None)) -> list[list[list[float] | None]]:
        """Return the poses of some frames for JSON: ``[x, y, angle]`` with two decimals, None for hidden parts."""
        return [
            [None if any(v != v for v in pose) else [round(v, 2) for v in pose] for pose in frame]
            for frame in self.poses[frames].tolist()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return for JSON what does not change between frames: the size, the names of the parts and the marks."""
        display = Display(self.height)
        self.draw(display)
        size = {"width": float(self.width), "height": float(self.height)}
        return {**size, "parts": [part.name for part in self.parts], "marks": display.payload()["marks"]}


def scene_svg(scene: Scene, i: int, width: float | None = None) -> str:
    """Return frame `i` as an ``<svg>`` that stands alone, with its caption for screen readers.

    Args:
        scene: what to draw.
        i: frame number; negative numbers count from the end.
        width: width of the picture in pixels; the scene's own width if not given.

    Returns:
        A complete SVG document.

    Raises:
        IndexError: If the scene has no frame `i`.

    Example:
        >>> from rlnb_widgets.scenes import find_scene
        >>> scene_svg(find_scene("CartPole-v1").pose(np.zeros((1, 4))), 0, width=160)[:57]
        '<svg xmlns="http://www.w3.org/2000/svg" width="160" heigh'
    """
    scale = 1.0 if width is None else width / scene.width
    display = Display(scale * scene.height)
    svg = Svg(scale * scene.width, display.height, title=scene.caption_at(i))
    with display.placed((0, 0, 0), scale):
        scene.draw(display, i)
    draw_display(svg, display, margin=0)
    return str(svg)
