"""Text view of the player: contents of a rollout, ends of its episodes, and the row at the playhead."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from rlnb_widgets._core.text import key_text, number, plural, shorten, sparkline, table
from rlnb_widgets.rollout_player.agents import LANES, RESTART, agents_note
from rlnb_widgets.rollout_player.episodes import KINDS, RESET_RULES, RESETS, RULES, STOPPED, stopped_at_the_end
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.strips import Strip

_MOST_AGENTS = 8


def player_headline(model: PlayerModel) -> str:
    """Return the headline of the rollout."""
    count = len(model.labels)
    who = "2 rollouts compared" if model.parting else plural(count, "environment")
    more = f" of {model.total}" if not model.parting and count < model.total else ""
    return f"{plural(model.length, 'step')}, {who}{more}, {plural(len(model.episodes), 'episode')}"


def _returns_text(returns: list[float]) -> str:
    if not returns:
        return ""
    low, high = min(returns), max(returns)
    if low == high:
        return f"return {number(low)}"
    return f"return {number(low)} to {number(high)}, mean {number(sum(returns) / len(returns))}"


def _episodes_text(model: PlayerModel) -> str:
    counts = Counter(e.end for e in model.episodes)
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in RULES if counts[kind])
    return "; ".join(filter(None, [kinds, _returns_text(_returns(model))]))


def _returns(model: PlayerModel) -> list[float]:
    """Return the finite returns of the episodes that ended, or of all if none did."""
    ended = [e.ret for e in model.episodes if e.end in ("terminated", "truncated", "done")]
    return [r for r in ended or [e.ret for e in model.episodes] if math.isfinite(r)]


def _frames_text(model: PlayerModel) -> str:
    frames = model.frames
    if frames.scene is not None:
        return f"drawn from the state. {frames.note}" if frames.note else "drawn from the state"
    if frames.pictures is not None:
        made = f"{plural(len(frames.pictures.data), 'picture')} of {frames.pictures.width} x {frames.pictures.height}"
        return f"{made}. {frames.note}" if frames.note else made
    return frames.note.removeprefix("No frames: ")


def player_text(model: PlayerModel, name: str, t: int, env: int) -> str:
    """Return the text view, with step ``t`` at the playhead and environment ``env`` selected."""
    rows = [["episodes", _episodes_text(model)], ["frames", _frames_text(model)]]
    if model.parting is not None:
        rows.append(["compared", str(model.parting)])
    rows += _groups_text(model)
    if model.turns is not None:
        rows.append(["games", model.turns.results(model.episodes)])
    for strip in model.strips:
        if strip.kind in ("lanes", "bands"):
            rows += _lanes_text(model, strip, env)
            continue
        data = np.where(model.code[env] == KINDS.index("padding"), np.nan, strip.data[env, :, 0].astype(np.float64))
        names = shorten(" ".join(strip.names), 24)
        span = f"{number(strip.low)} to {number(strip.high)}" if strip.kind != "band" else f"one of {names}"
        rows.append([shorten(strip.label, 24), f"{sparkline(data, 32)}  {span}"])
    said = "" if model.turns is None else f": {_turn_text(model, env, t)}"
    focus = f" of {model.labels[env]}" if len(model.labels) > 1 else ""
    text = f"{name}: {player_headline(model)}\n" + table([["", *row] for row in rows])
    text += f"\n  step {t}{focus}{said}\n" + row_text(model, t, env)
    return text + "".join(f"\n  note: {note}" for note in model.notes)


def _turn_text(model: PlayerModel, env: int, t: int) -> str:
    turns = model.turns
    assert turns is not None
    if KINDS[model.code[env, t]] == "terminated":
        return f"{turns.at(env, t)}, then {turns.winner(env, t)}"
    return turns.at(env, t)


def _groups_text(model: PlayerModel) -> list[list[str]]:
    """Return the returns of each agent over the episodes of the env."""
    ends = [(e.env, e.stop - 1) for e in model.episodes if e.end in ("terminated", "truncated", "done")]
    ends = ends or [(e.env, e.stop - 1) for e in model.episodes]
    rows = []
    for agent in [agent for group in model.groups for agent in group.agents][:_MOST_AGENTS]:
        if agent.returns is not None and ends:
            returns = [value for e, t in ends if math.isfinite(value := float(agent.returns[e, t]))]
            rows.append([shorten(agent.name, 24), _returns_text(returns)])
    return rows


_LETTERS = "=TUD."  # acts, terminated, truncated, done, waits


def _lanes_text(model: PlayerModel, strip: Strip, env: int) -> list[list[str]]:
    """Return the lane of each agent, one letter per share of the time, or its categories as a sparkline."""
    rows = []
    for k, name in enumerate(strip.names):
        data = strip.data[env, :, k]
        label = shorten(f"{strip.label} {name}{' acts' if strip.kind == 'lanes' else ''}", 24)
        if strip.kind == "bands":
            line = sparkline(np.where(data < 0, np.nan, data.astype(np.float64)), 32)
            rows.append([label, f"{line}  one of {shorten(' '.join(strip.values), 24)}"])
            continue
        shares = np.array_split(data[data >= 0], min(32, max(int((data >= 0).sum()), 1)))
        rows.append([label, "".join(_letter(share) for share in shares if share.size) + "  = acts, . waits"])
    return rows


def _letter(share: np.ndarray) -> str:
    if (share >= RESTART).any():
        return "R"
    kinds = share % RESTART
    ends = kinds[(kinds > 0) & (kinds < LANES.index("waits"))]
    return _LETTERS[int(ends[0] if ends.size else kinds[-1])]


def row_text(model: PlayerModel, t: int, env: int) -> str:
    """Return the row at the playhead: root beside ``"next"``, changed entries marked with ``*``."""
    roots = {leaf.base: leaf for leaf in model.leaves if not leaf.is_next}
    nexts = {leaf.base: leaf for leaf in model.leaves if leaf.is_next}
    if model.code[env, t] == KINDS.index("padding"):
        return f"    {model.labels[env]} has ended before step {t}"
    rows = []
    for base in sorted({*roots, *nexts}):
        left, right = (side[base].text_at(env, t) if base in side else "" for side in (roots, nexts))
        mark = "*" if base in roots and base in nexts and left != right else ""
        rows.append(["   ", shorten(key_text(base), 40), left, mark, right])
    return table([["   ", "key", f"root at {t}", "", f'"next" at {t + 1}'], *rows])


def _article(kind: str) -> str:
    return kind if kind == "no reset" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def player_explanation(model: PlayerModel) -> str:
    """Describe the data in words, for beginners and screen readers."""
    parts = [f"A rollout of {player_headline(model)}."]
    if model.parting is not None:
        parts.append(str(model.parting))
    counts = Counter(e.end for e in model.episodes)
    for kind, rule in RULES.items():
        if counts[kind]:
            parts.append(f"{plural(counts[kind], 'episode')} {'ends' if counts[kind] == 1 else 'end'} {kind}: {rule}.")
    if returns := _returns(model):
        found = _returns_text(returns).removeprefix("return ")
        parts.append(f"The return of an episode (the sum of its rewards, not discounted) is {found}.")
    parts += agents_note(model.groups, model.code, model.labels[0] if len(model.labels) > 1 else "")
    if model.turns is not None:
        parts.append(f"It is a game in turns: {model.turns.results(model.episodes)}.")
    for kind, rule in RESET_RULES.items():
        if count := int((model.resets == RESETS.index(kind)).sum()):
            what = f"episode{'s' * (count > 1)} {'begin' if count > 1 else 'begins'} after {_article(kind)}"
            parts.append(f"{count:,} {what}: {rule}.")
    if stopped_at_the_end(model.code):
        parts.append(f"Truncated in the last row: {STOPPED}.")
    labels = ", ".join(strip.label for strip in model.strips)
    if labels:
        parts.append(f"Drawn over time: {labels}.")
    parts.append(f"Frames: {_frames_text(model)}".rstrip(".") + ".")
    parts.append(
        'Each row of the data holds the root at step t, which is what the agent saw and did, and "next", which is '
        "the result at step t + 1."
    )
    return " ".join([*parts, *model.notes])
