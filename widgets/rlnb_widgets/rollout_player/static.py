"""Static SVG of the player: a film strip of selected frames above the strips over time."""

from __future__ import annotations

import re

import numpy as np

from rlnb_widgets._core.display_svg import WIDTH, draw_display, draw_legend
from rlnb_widgets._core.measures import text_width
from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets._core.text import shorten
from rlnb_widgets.rollout_player.episodes import KINDS, RESET_SIGNS, RESETS
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.scene import PlayerScene, ends_legend
from rlnb_widgets.rollout_player.text import player_explanation, player_headline
from rlnb_widgets.scenes.scene import ROLES
from rlnb_widgets.scenes.svg import frame_svg

_MARGIN = 12.0
_WIDTH = WIDTH + 2 * _MARGIN


def player_svg(model: PlayerModel, name: str, t: int, env: int) -> Svg:
    """Draw the static SVG, with step ``t`` at the playhead and environment ``env`` selected."""
    top = 34.0
    envs = (0, 1) if model.parting else (env,)
    film = _film(model, t, env)
    film_height = max((h for *_, h in film), default=0.0)
    scene = PlayerScene(model, env)
    strips, legend, signs = scene.strips(), ends_legend(model, envs), _signs(model, envs)
    notes = [model.frames.note] if model.frames.note and model.frames.kind != "pixels" else []
    if model.parting:
        notes.append(str(model.parting))
    films = top + 18 * len(notes)
    below = films + ((film_height + 8) * len(envs) + 22 if film else 0)
    height = below + strips.height + 16 * bool(legend) + 16 * bool(signs) + 8
    svg = Svg(_WIDTH, height, title=f"{name}: {player_headline(model)}", desc=player_explanation(model))
    svg.text(12, 22, shorten(f"{name}: {player_headline(model)}", 90), size=13, bold=True)
    for i, note in enumerate(notes):
        svg.text(12, top + 10 + 18 * i, shorten(note, 125), fill="muted")
    for step, x, w, h in film:
        for lane, e in enumerate(envs):
            y = films + lane * (film_height + 8)
            _frame(svg, model, e, step, x, y, w, h)
            if model.parting:
                svg.text(x + 6, y + 14, model.labels[e], fill=f"c{lane}", bold=True)
        below_film = films + len(envs) * (film_height + 8)
        said = f"step {step}" if model.turns is None else f"{step}: {_turn(model, env, step)}"
        svg.text(x + w / 2, below_film + 6, shorten(said, int(w / 5.2)), fill="muted", size=10, anchor="middle")
    draw_display(svg, strips, scene.params(t), below)
    y = below + strips.height + 2
    if legend:
        draw_legend(svg, legend, y)
        y += 16
    x = _MARGIN
    for sign, name in signs:
        svg.text(x + 4, y + 11, sign, size=10.5, anchor="middle")
        svg.text(x + 15, y + 11, name, size=10.5)
        x += 33 + text_width(name, 10.5)
    return svg


def _signs(model: PlayerModel, envs: tuple[int, ...]) -> list[tuple[str, str]]:
    """Return the signs of the resets that occur, and their names."""
    found = set(np.unique(model.resets[list(envs)]).tolist())
    return [(RESET_SIGNS[name], name) for i, name in enumerate(RESETS) if i in found and name]


def _turn(model: PlayerModel, env: int, step: int) -> str:
    assert model.turns is not None
    return model.turns.at(env, step, short=True)


def _film(model: PlayerModel, t: int, env: int) -> list[tuple[int, float, float, float]]:
    """Choose the frames, evenly over time and with the one at the playhead: (step, x, width, height)."""
    frames = model.frames
    if frames.scene is not None:
        ratio = frames.scene.width / frames.scene.height
    elif frames.pictures is not None:
        ratio = frames.pictures.width / frames.pictures.height
    else:
        return []
    count = 5 if ratio > 1.2 else 7
    valid = np.flatnonzero(model.code[env] != KINDS.index("padding"))
    steps = np.unique(valid[np.linspace(0, len(valid) - 1, min(count, len(valid))).round().astype(int)])
    if t not in steps:
        steps[np.argmin(np.abs(steps - t))] = t
    width = (_WIDTH - 24 - 8 * (count - 1)) / count
    return [(int(s), 12 + i * (width + 8), width, width / ratio) for i, s in enumerate(np.unique(steps))]


def _frame(svg: Svg, model: PlayerModel, env: int, step: int, x: float, y: float, w: float, h: float) -> None:
    frames, row = model.frames, env * model.length + step
    if frames.scene is not None:
        # The parts that never move are written once and reused in every frame.
        still, mark, moving = frame_svg(frames.scene, row).removesuffix("</g>").partition("<g data-part")
        svg.define(f'<g id="still">{still}</g></g>')
        svg.style(_scene_colours(still + moving))
        svg.open(f"translate({coordinate(x)} {coordinate(y)}) scale({w / frames.scene.width:.4f})")
        svg.raw(f'<use href="#still"/><g class="rlnb-scene">{mark}{moving}</g>')
        svg.close()
    elif frames.pictures is not None:
        picture = frames.pictures
        svg.image(x, y, w, h, picture.data[picture.index[row]], picture.mime)
    svg.rect(x, y, w, h, fill=None, stroke="line", rx=3)


def _scene_colours(fragment: str) -> str:
    """Return the rules for the colours that a scene uses; the style sheet of all scenes is several times longer."""
    used = sorted(set(re.findall(r"rlnb-(fill|stroke)-(\w+)", fragment)))
    light, dark = ("".join(f".rlnb-{kind}-{role}{{{kind}:{ROLES[role][i]}}}" for kind, role in used) for i in (0, 1))
    round_ends = ".rlnb-scene line,.rlnb-scene polygon{stroke-linecap:round;stroke-linejoin:round}"
    return f"{round_ends}.rlnb-scene text{{font-weight:600}}{light}@media (prefers-color-scheme:dark){{{dark}}}"
