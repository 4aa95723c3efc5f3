"""Playing an environment in a notebook cell, against a policy or alone."""

from __future__ import annotations

from rlnb_widgets.game.model import Match
from rlnb_widgets.game.widget import Game, play

__all__ = ["Game", "Match", "play"]
