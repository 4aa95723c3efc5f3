"""Text views of a match: headline, status, board and legal actions."""

from __future__ import annotations

from rlnb.envs.custom.boards import board_text
from rlnb_widgets._core.text import number, plural
from rlnb_widgets.game.actions import Action
from rlnb_widgets.game.model import SIDES, Match
from rlnb_widgets.game.picture import MatchDrawing


def match_headline(match: Match) -> str:
    """Return the env, the players and the number of steps in one line."""
    name = type(match.env).__name__
    if not match.two_players:
        return f"{name}, {plural(len(match.steps), 'step')}, return {number(sum(match.rewards))}"
    other = "the env" if not match.can_swap else match.policy_name
    sides = f"you ({SIDES[match.you]}) against {other} ({SIDES[1 - match.you]})"
    return f"{name}, {sides}, {plural(len(match.steps), 'move' if match.can_swap else 'step')}"


def status(match: Match) -> str:
    """Return the state of the match in a sentence that a screen reader can read aloud."""
    if match.two_players:
        who = match.winner
        if who is not None:
            names = {match.you: f"You ({SIDES[match.you]}) have won."}
            return "A draw." if who < 0 else names.get(who, f"{SIDES[who]} has won, and you have lost.")
        if not match.your_turn:
            return f"{SIDES[1 - match.you]} is thinking."
        moved = _last_move(match)
        return f"{moved}Your turn: {SIDES[match.you]}."
    total = f"return {number(sum(match.rewards))}"
    if not match.steps:
        return "A new episode."
    said = f"Step {len(match.steps)}: reward {number(match.rewards[-1])}, {total}."
    if not match.done:
        return said
    ends = {key: match.steps[-1].get(("next", key), None) for key in ("terminated", "truncated")}
    how = next((key for key, flag in ends.items() if flag is not None and bool(flag.any())), "done")
    return f"The episode is over ({how}) after {plural(len(match.steps), 'step')}, {total}."


def _last_move(match: Match) -> str:
    """Return in a sentence that you took a move back, or the last move of the other side."""
    if match.taken_back:
        return "Your last move is taken back. "
    if not match.steps or match.movers[-1] != "policy":
        return ""
    action = match.steps[-1].get(match.env.action_key)
    index = int(action.argmax() if action.ndim else action)
    return f"{SIDES[1 - match.you]} played {index}. "


def game_text(match: Match, seen: MatchDrawing, actions: tuple[Action, ...]) -> str:
    """Return the text view, which is the same on every machine."""
    lines = [f"Game({match_headline(match)})"]
    board = match.root.get("board", None)
    if match.two_players and board is not None and board.ndim == 2:
        lines += ["  " + line for line in board_text(board).splitlines()]
    elif seen.scene is not None and seen.scene.caption_at(-1):
        lines.append("  " + seen.scene.caption_at(-1))
    lines.append("  " + status(match))
    legal = [k for k, ok in enumerate(match.legal) if ok]
    if legal:
        names = [f"{k} {actions[k].name}" if actions[k].name != str(k) else str(k) for k in legal]
        lines.append(f"  actions: {', '.join(names)}")
    lines += [f"  problem: {line}" for line in match.problem.splitlines()[:1]]
    return "\n".join(lines)


def match_explanation(match: Match, seen: MatchDrawing, actions: tuple[Action, ...]) -> str:
    """Describe the match and the keys in words."""
    parts = [f"A game to play in the cell: {match_headline(match)}.", status(match)]
    if seen.places:
        parts.append("Choose a place with the mouse, or with the arrow keys and Enter.")
    else:
        keys = ", ".join(f"{action.hint} {action.name}" for action in actions if action.hint)
        parts.append(f"Press a button or a key: {keys}. Each is one step of the env.")
    parts.append("N starts again, P lets the policy choose for you.")
    if match.two_players and match.can_swap:
        parts.append("U takes your last move back, S changes sides, T shows what the policy thought.")
    parts.append("game.rollout holds the steps in the TED format; RolloutPlayer(game.rollout, env) plays them again.")
    return " ".join([*parts, *filter(None, [seen.note, match.problem])])
