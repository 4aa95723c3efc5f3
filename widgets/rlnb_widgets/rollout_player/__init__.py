"""Player of rollouts: frames, strips over time, ends of episodes, and the TED row at the playhead."""

from __future__ import annotations

from rlnb_widgets.rollout_player.model import PlayerModel, player_model
from rlnb_widgets.rollout_player.widget import RolloutPlayer

__all__ = ["PlayerModel", "RolloutPlayer", "player_model"]
