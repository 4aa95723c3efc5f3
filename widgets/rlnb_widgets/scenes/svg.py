"""SVG of scenes: a fragment per frame, the style sheet for light and dark, and a standalone picture."""

from __future__ import annotations

import html

from rlnb._text import printable
from rlnb_widgets._core.colors import ROLES
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import draw_display
from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets.scenes.scene import Scene


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
        '<g transform="translate(2 3.1)"><circle cx="0" cy="0" r="5" fill="none"/></g></g>'
    """
    scene.caption_at(i)  # refuses a frame that is not there
    display, svg = Display(scene.height), Svg(scene.width, scene.height, light=True)
    scene.draw(display, i)
    draw_display(svg, display, margin=0)
    return f'<g class="rlnb-scene">{svg.fragment()}</g>'


def scene_style() -> str:
    """Return the style sheet of all scenes: the reader's colour scheme, or JupyterLab's theme where there is one.

    Example:
        >>> "prefers-color-scheme:dark" in scene_style()
        True
    """

    def rules(dark: bool, theme: str = "") -> str:
        scope = f"{theme}.rlnb-scene "
        return "".join(
            f"{scope}.f-{role}{{fill:{pair[dark]}}}{scope}.s-{role}{{stroke:{pair[dark]}}}"
            for role, pair in ROLES.items()
        )

    theme = 'body[data-jp-theme-light="{}"] '
    return (
        ".rlnb-scene text{font-family:system-ui,sans-serif}"
        f"{rules(False)}@media (prefers-color-scheme:dark){{{rules(True)}}}"
        f"{rules(False, theme.format('true'))}{rules(True, theme.format('false'))}"
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
    title = f"<title>{html.escape(printable(label))}</title>" if label else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {coordinate(scene.width)} {coordinate(scene.height)}" '
        f'width="{coordinate(width)}" height="{coordinate(height)}" role="img">{title}'
        f"<style>{scene_style()}</style>{frame_svg(scene, i)}</svg>"
    )
