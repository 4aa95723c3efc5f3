"""Display lists of the player on small data."""

from __future__ import annotations

from collections.abc import Callable

import torch
from rlnb_widgets import RolloutPlayer
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import legend_display
from rlnb_widgets.rollout_player.legend import player_legend
from rlnb_widgets.rollout_player.scene import PlayerScene
from tensordict import TensorDict


def rollout_of(steps: int, period: int) -> TensorDict:
    """A rollout of a wave, with an end after every ``period`` steps, terminated and truncated in turn."""
    t = torch.arange(steps + 1.0)
    state = torch.stack([torch.sin(t / 9), torch.cos(t / 5), 0.2 * torch.sin(t / 4), torch.cos(t / 3)], -1)
    done = ((t[1:] % period) == 0)[:, None]
    terminated = done & ((t[1:, None] // period) % 2 == 1)
    nexts = {"observation": state[1:], "reward": torch.ones(steps, 1), "done": done}
    nexts |= {"terminated": terminated, "truncated": done & ~terminated}
    shares = torch.softmax(state[:-1, :3], -1)
    action = ((t[:-1] // 3) % 2).long()
    root = {"observation": state[:-1], "action": action, "action_probs": shares, "done": torch.zeros(steps, 1).bool()}
    return TensorDict({**root, "next": nexts}, [steps])


def _of(steps: int, period: int, t: int, **view: float) -> Callable[[], tuple[Display, dict[str, float]]]:
    def made() -> tuple[Display, dict[str, float]]:
        scene = PlayerScene(RolloutPlayer(rollout_of(steps, period), "CartPole-v1").model)
        return scene.strips(), {**scene.params(t), **view}

    return made


def _compared() -> tuple[Display, dict[str, float]]:
    left, right = (rollout_of(40, period) for period in (7, 9))
    scene = PlayerScene(RolloutPlayer.compare(left, right).model)
    return scene.strips(), scene.params(5)


def _many_actions() -> tuple[Display, dict[str, float]]:
    rollout = rollout_of(60, 14)
    rollout["action"] = (torch.arange(60) // 2) % 16
    scene = PlayerScene(RolloutPlayer(rollout).model)
    return scene.strips(), scene.params(5)


def _legend() -> tuple[Display, dict[str, float]]:
    left, right = (rollout_of(60, period) for period in (14, 9))
    left["action"] = (torch.arange(60) // 2) % 9
    return legend_display(player_legend(RolloutPlayer.compare(left, right).model, [0, 1])), {}


def _agents() -> tuple[Display, dict[str, float]]:
    steps, agents = 40, 3
    t = torch.arange(steps)[:, None]
    group = {"reward": torch.cos(t / 6).expand(steps, agents)[..., None].clone()}
    action = (t // torch.tensor([4, 7, 11])) % 5
    done = torch.zeros(steps, 1).bool()
    rollout = TensorDict({"agents": {"action": action}, "next": {"agents": group, "done": done}}, [steps])
    scene = PlayerScene(RolloutPlayer(rollout).model)
    return scene.strips(), scene.params(5)


def _own_scales() -> tuple[Display, dict[str, float]]:
    wave = rollout_of(40, 14)["observation"][:, :1]
    nexts = {"reward": torch.stack([wave, 100 * wave]), "done": torch.zeros(2, 40, 1).bool()}
    td = TensorDict({"next": nexts}, [2, 40])
    scene = PlayerScene(RolloutPlayer(td).model, 1)
    return scene.strips(), scene.params(5)


SCENES = {
    "player strips of agents": _agents,
    "player legend": _legend,
    "player strips of an env with its own scales": _own_scales,
    "player strips": _of(60, 14, 20),
    "player strips zoomed": _of(400, 14, 120, **{"from": 100, "to": 150, "start": 110, "stop": 140}),
    "player strips of many steps": _of(5_000, 21, 900),
    "players compared": _compared,
    "player strips of many actions": _many_actions,
}
