"""Static SVG of the player: a film strip of selected frames above the strips over time."""

from __future__ import annotations

from rlnb_widgets._core.display_svg import Part, stacked
from rlnb_widgets._core.svg import Svg
from rlnb_widgets.rollout_player.legend import legend_display
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.scene import PlayerScene
from rlnb_widgets.rollout_player.text import player_explanation, player_headline


def player_svg(model: PlayerModel, name: str, t: int, env: int) -> Svg:
    """Draw the static SVG, with step ``t`` at the playhead and environment ``env`` selected."""
    scene = PlayerScene(model, env)
    notes = [model.frames.note] if model.frames.note and model.frames.kind != "pixels" else []
    if model.parting:
        notes.append(str(model.parting))
    parts: list[Part | None] = [*notes, scene.film(t), scene.strips(), legend_display(model, scene.envs)]
    title = f"{name}: {player_headline(model)}"
    return stacked(title, player_explanation(model), [part for part in parts if part], scene.params(t))
