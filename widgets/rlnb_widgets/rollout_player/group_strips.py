"""Strips of agent groups: rewards and returns as lines, lanes, and actions."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.text import shorten
from rlnb_widgets.rollout_player.agents import Agent, Group
from rlnb_widgets.rollout_player.strips import Strip, lines

_MOST_AGENTS = 8
_MOST_ALONE = 4


def group_strips(groups: tuple[Group, ...]) -> tuple[tuple[Strip, ...], list[str]]:
    """Return the strips of rewards and returns, and notes on agents that are left out."""
    several = [group for group in groups if len(group.agents) > 1]
    single = [group.agents[0] for group in groups if len(group.agents) == 1 and group.agents[0].reward is not None]
    strips: list[Strip] = []
    notes: list[str] = []
    for group in several:
        name = shorten(" / ".join(group.key), 20)
        strips += _together(name, [agent for agent in group.agents[:_MOST_AGENTS] if agent.reward is not None])
        if len(group.agents) > _MOST_AGENTS:
            notes.append(f'Drawn are {_MOST_AGENTS} of the {len(group.agents)} agents of "{name}".')
    if len(single) > _MOST_ALONE:
        strips += _together("", single[:_MOST_AGENTS])
        if len(single) > _MOST_AGENTS:
            notes.append(f"Drawn are {_MOST_AGENTS} of the {len(single)} agents.")
    else:
        for agent in single:
            assert agent.reward is not None
            strips.append(
                lines(f"{shorten(agent.label, 20)} reward", agent.reward[..., None], (), "reward", (agent.number,))
            )
        strips += _together("", single)[1:]
    return tuple(strips), notes


def _together(name: str, agents: list[Agent]) -> list[Strip]:
    if not agents:
        return []
    labels = tuple(shorten(agent.label, 16) for agent in agents)
    rewards = np.stack([agent.reward for agent in agents if agent.reward is not None], -1)
    returns = np.stack([agent.returns for agent in agents if agent.returns is not None], -1)
    numbers = tuple(agent.number for agent in agents)
    return [
        lines(f"{name} reward".strip(), rewards, labels, "reward", numbers),
        lines(f"{name} return so far".strip(), returns, labels, "return", numbers),
    ]


def lane_strips(groups: tuple[Group, ...], code: np.ndarray) -> tuple[Strip, ...]:
    """Return a strip of lanes for each group of which some agent ends or starts while others go on."""
    found = []
    for group in groups:
        agents = [agent for agent in group.agents[:_MOST_AGENTS] if agent.lane is not None]
        lanes = [agent.lane for agent in agents if agent.lane is not None]
        if not lanes or not any(((lane != 0) & (code == 0)).any() for lane in lanes):
            continue
        labels = tuple(shorten(agent.label, 16) for agent in agents)
        name = shorten(" / ".join(group.key), 20)
        numbers = tuple(agent.number for agent in agents)
        data = np.stack(lanes, -1).astype(np.int32)
        found.append(Strip(name, "lanes", data, 0.0, 0.0, labels, "lanes", numbers=numbers))
    return tuple(found)
