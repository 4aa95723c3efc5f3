"""Player of rollouts: frames, strips over time, ends of episodes, and the TED row at the playhead."""

from __future__ import annotations

from rlnb_widgets.rollout_player.leaves import steps_shape
from rlnb_widgets.rollout_player.model import PlayerModel, player_model
from rlnb_widgets.rollout_player.payload import frames_payload
from rlnb_widgets.rollout_player.widget import RolloutPlayer

__all__ = ["PlayerModel", "RolloutPlayer", "frames_payload", "player_model", "steps_shape"]
