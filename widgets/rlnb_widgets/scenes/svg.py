"""SVG of scenes: a fragment per frame, the style sheet for light and dark, and a standalone picture."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from rlnb._text import printable
from rlnb_widgets._core.svg import coordinate
from rlnb_widgets.scenes.scene import ROLES, Scene, Shape


def _escape(text: str) -> str:
    return html.escape(printable(text))


def _paint(shape: Shape) -> str:
    """Return the class, and the light colours as attributes for viewers that drop style sheets."""
    classes, attributes = [], [f'fill="{ROLES[shape.fill][0]}"' if shape.fill else 'fill="none"']
    if shape.fill:
        classes.append(f"rlnb-fill-{shape.fill}")
    if shape.stroke:
        classes.append(f"rlnb-stroke-{shape.stroke}")
        attributes.append(f'stroke="{ROLES[shape.stroke][0]}" stroke-width="{coordinate(shape.stroke_width)}"')
    return (f'class="{" ".join(classes)}" ' if classes else "") + " ".join(attributes)


def _shape(shape: Shape) -> str:
    p = [coordinate(v) for v in shape.points]
    paint = _paint(shape)
    if shape.kind == "rect":
        rounded = f' rx="{p[4]}"' if len(p) == 5 else ""
        return f'<rect x="{p[0]}" y="{p[1]}" width="{p[2]}" height="{p[3]}"{rounded} {paint}/>'
    if shape.kind == "circle":
        return f'<circle cx="{p[0]}" cy="{p[1]}" r="{p[2]}" {paint}/>'
    if shape.kind == "line":
        return f'<line x1="{p[0]}" y1="{p[1]}" x2="{p[2]}" y2="{p[3]}" {paint}/>'
    if shape.kind == "polygon":
        pairs = " ".join(f"{x},{y}" for x, y in zip(p[::2], p[1::2], strict=True))
        return f'<polygon points="{pairs}" {paint}/>'
    return (
        f'<text x="{p[0]}" y="{p[1]}" font-size="{p[2]}" text-anchor="middle" '
        f'dominant-baseline="central" {paint}>{_escape(shape.text or "")}</text>'
    )


def _part(name: str, shapes: Sequence[Shape], pose: Sequence[float]) -> str:
    """Return a part at its pose, or nothing where the pose hides it."""
    if not all(math.isfinite(v) for v in pose):
        return ""
    x, y, degrees = coordinate(pose[0]), coordinate(pose[1]), coordinate(math.degrees(pose[2]))
    turn = "" if degrees == "0" else f" rotate({degrees})"
    body = "".join(map(_shape, shapes))
    return f'<g data-part="{_escape(name)}" transform="translate({x} {y}){turn}">{body}</g>'


def frame_svg(scene: Scene, i: int) -> str:
    """Return frame `i` of a scene as an SVG fragment, one ``<g class="rlnb-scene">``.

    Coordinates are rounded to 0.1 and all text is escaped. Without a style sheet the fragment
    shows the light colours; :func:`scene_style` adds the dark ones.

    Args:
        scene: what to draw.
        i: frame number; negative numbers count from the end.

    Returns:
        The fragment, to be put inside an ``<svg>`` of the scene's width and height.

    Raises:
        IndexError: If the scene has no frame `i`.

    Example:
        >>> import numpy as np
        >>> from rlnb_widgets.scenes import Part, Scene, Shape
        >>> ball = Part("ball", (Shape("circle", (0, 0, 5)),))
        >>> frame_svg(Scene(9, 9, (), (ball,), np.array([[[2, 3.14159, 0]]])), 0)[22:]
        '<g data-part="ball" transform="translate(2 3.1)"><circle cx="0" cy="0" r="5" fill="none"/></g></g>'
    """
    if not -len(scene) <= i < len(scene):
        raise IndexError(f"frame {i} is out of range: the scene has {len(scene)} frames, 0 to {len(scene) - 1}.")
    background = "".join(map(_shape, scene.background))
    poses = scene.poses[i].tolist()
    parts = "".join(_part(p.name, p.shapes, pose) for p, pose in zip(scene.parts, poses, strict=True))
    return f'<g class="rlnb-scene">{background}{parts}</g>'


def _rules(dark: bool, prefix: str = "") -> str:
    return "".join(
        f"{prefix}.rlnb-fill-{role}{{fill:{pair[dark]}}}{prefix}.rlnb-stroke-{role}{{stroke:{pair[dark]}}}"
        for role, pair in ROLES.items()
    )


def scene_style() -> str:
    """Return the style sheet of all scenes: the reader's colour scheme, or JupyterLab's theme where there is one.

    Example:
        >>> "prefers-color-scheme:dark" in scene_style()
        True
    """
    theme = 'body[data-jp-theme-light="{}"] '
    return (
        ".rlnb-scene line,.rlnb-scene polygon{stroke-linecap:round;stroke-linejoin:round}"
        ".rlnb-scene text{font-family:system-ui,sans-serif;font-weight:600}"
        + _rules(False)
        + f"@media (prefers-color-scheme:dark){{{_rules(True)}}}"
        + _rules(False, theme.format("true"))
        + _rules(True, theme.format("false"))
    )


def scene_svg(scene: Scene, i: int, width: float | None = None) -> str:
    """Return frame `i` as an ``<svg>`` that stands alone, with its style sheet and its caption for screen readers.

    Args:
        scene: what to draw.
        i: frame number; negative numbers count from the end.
        width: width of the picture in pixels; the scene's own width if not given.

    Returns:
        A complete SVG document.

    Example:
        >>> import numpy as np
        >>> from rlnb_widgets.scenes import find_scene
        >>> scene_svg(find_scene("CartPole-v1").pose(np.zeros((1, 4))), 0, width=160)[:57]
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 '
    """
    width = float(scene.width if width is None else width)
    height = width * scene.height / scene.width
    label = scene.caption_at(i)
    title = f"<title>{_escape(label)}</title>" if label else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {coordinate(scene.width)} {coordinate(scene.height)}" '
        f'width="{coordinate(width)}" height="{coordinate(height)}" role="img">{title}'
        f"<style>{scene_style()}</style>{frame_svg(scene, i)}</svg>"
    )
