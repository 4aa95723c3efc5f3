"""Static SVG of a match: position and status."""

from __future__ import annotations

from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import shorten
from rlnb_widgets.game.actions import Action
from rlnb_widgets.game.match import Match
from rlnb_widgets.game.picture import MatchDrawing
from rlnb_widgets.game.text import match_explanation, match_headline, status
from rlnb_widgets.scenes.svg import frame_svg, scene_style

_WIDTH, _TALLEST = 520.0, 340.0


def game_svg(match: Match, seen: MatchDrawing, actions: tuple[Action, ...]) -> Svg:
    """Draw the last position."""
    scene = seen.scene
    scale = 0.0 if scene is None else min((_WIDTH - 24) / scene.width, _TALLEST / scene.height)
    tall = 0.0 if scene is None else scene.height * scale + 8
    svg = Svg(_WIDTH, 78 + tall, title=f"Game: {match_headline(match)}", desc=match_explanation(match, seen, actions))
    svg.text(12, 22, shorten(f"Game: {match_headline(match)}", 74), size=13, bold=True)
    if scene is not None:
        svg.style(scene_style())
        svg.open(f"translate(12 34) scale({scale:.4f})")
        svg.raw(frame_svg(scene, -1))
        svg.close()
    svg.text(12, 52 + tall, shorten(status(match), 84), size=12)
    svg.text(12, 69 + tall, "To play, run the cell: a Python kernel answers the moves.", fill="muted")
    return svg
