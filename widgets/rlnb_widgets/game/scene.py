"""Display list of a match, position and status, and the static picture of it."""

from __future__ import annotations

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import MARGIN, draw_display
from rlnb_widgets._core.measures import cut_text
from rlnb_widgets._core.svg import Svg
from rlnb_widgets.game.actions import Action
from rlnb_widgets.game.model import Match
from rlnb_widgets.game.picture import MatchDrawing
from rlnb_widgets.game.text import match_explanation, match_headline, status

_WIDTH, _TALLEST, _TOP = 496.0, 340.0, 34.0


def game_svg(match: Match, seen: MatchDrawing, actions: tuple[Action, ...]) -> Svg:
    """Draw the last position under a title, no wider than a board needs."""
    title, display = f"Game: {match_headline(match)}", match_display(match, seen)
    svg = Svg(_WIDTH + 2 * MARGIN, _TOP + display.height, title=title, desc=match_explanation(match, seen, actions))
    svg.text(MARGIN, 22, cut_text(title, _WIDTH, 13), size=13, bold=True)
    draw_display(svg, display, y=_TOP)
    return svg


def match_display(match: Match, seen: MatchDrawing) -> Display:
    """Draw the last position, and say how the match stands."""
    scene = seen.scene
    scale = 0.0 if scene is None else min(_WIDTH / scene.width, _TALLEST / scene.height)
    tall = 0.0 if scene is None else scale * scene.height + 8
    display = Display(tall + 44)
    if scene is not None:
        with display.placed((0, 0, 0), scale):
            scene.draw(display, -1)
    display.text(0, tall + 18, status(match), size=12, within=_WIDTH)
    display.text(0, tall + 35, "To play, run the cell: a Python kernel answers the moves.", "muted")
    return display
