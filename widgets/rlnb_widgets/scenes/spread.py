"""Scene of agents that spread over landmarks: numbered agents, covered landmarks and collisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets._core.colors import AGENTS, agent_role, letters_on
from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes.drawing import STROKE, box, disc, line, paper, polygon, pose, stack, text
from rlnb_widgets.scenes.grid import direction_mark, grid_lines, turn
from rlnb_widgets.scenes.inputs import Floats, action_indices
from rlnb_widgets.scenes.scene import Part, Scene

Ints = npt.NDArray[np.int64]

_WORDS = ("stay", "left", "down", "right", "up")
#: Corners of the bodies: agents differ in number, then in form, then in colour.
_CORNERS = (0, 4, 3, 6)


def numbered_agent(k: int, cell: float) -> list[Mark]:
    """Return the body of agent k, and its number on it."""
    return [_body(k, cell), text(0, 0, cell * 0.28, str(k), letters_on(agent_role(k)))]


def _body(k: int, cell: float) -> Mark:
    """Return the body of agent k: a circle, or a polygon with its corners on one."""
    role, corners = agent_role(k), _CORNERS[(k + k // len(AGENTS)) % len(_CORNERS)]
    if not corners:
        return disc(0, 0, cell * 0.27, role)
    angles = np.arange(corners) * (2 * math.pi / corners) - math.pi / 2 - (math.pi / 4 if corners == 4 else 0)
    radius = cell * (0.36 if corners == 3 else 0.32)
    points = np.stack([np.cos(angles), np.sin(angles)], -1) * radius
    return polygon(points.round(2).tolist(), role)


def _star(radius: float) -> Mark:
    """Return the spikes around an agent that has collided."""
    angles = np.arange(24) * (math.pi / 12)
    length = np.where(np.arange(24) % 2, 0.8, 1.0) * radius
    points = np.stack([np.cos(angles) * length, np.sin(angles) * length], -1)
    return polygon(points.round(2).tolist(), stroke="bad", width=STROKE / 2)


class Spread:
    """Draws SpreadEnv from its "state": a row for each agent, then one for each landmark.

    ``acts`` is the entry that the actions are read from.

    Example:
        >>> state = [[0, 0, 0], [1, 2, 1], [0, 2, 0], [1, 2, 1]]
        >>> scene = Spread(2, 3, n_agents=2).pose([state], actions=[[3, 0]])
        >>> scene.caption_at(0)
        '0 . x / . . 1*; 1 of 2 landmarks covered; agent 1 has collided; moves: right, stay'
    """

    reads = ("state",)

    def __init__(
        self, rows: int = 5, columns: int = 5, n_agents: int = 3, acts: tuple[str, ...] = ("agents", "action")
    ) -> None:
        self.rows, self.columns, self.n_agents, self.acts = rows, columns, n_agents, acts
        self.cell = min(80.0, 360.0 / max(rows, columns))
        self.width, self.height = columns * self.cell, rows * self.cell
        self.background = [paper(self.width, self.height), *grid_lines(rows, columns, self.cell)]
        half, edge = self.cell * 0.3, self.cell * 0.92

        def each(name: str, marks: Sequence[Mark]) -> list[Part]:
            return [Part(f"{name} {k}", marks) for k in range(n_agents)]

        self.parts = (
            *each("landmark", [line(-half, y, half, -y, "good", self.cell * 0.07) for y in (-half, half)]),
            *each("covered", [box(-edge / 2, -edge / 2, edge, edge, "good", radius=self.cell * 0.12)]),
            *each("collision", [_star(self.cell * 0.47)]),
            *(Part(f"agent {k}", numbered_agent(k, self.cell)) for k in range(n_agents)),
            *each("action", direction_mark(self.cell).marks),
        )

    def for_env(self, env: Any) -> Spread:
        """Return the scene with the grid and the agents of `env`."""
        return Spread(env.rows, env.columns, env.n_agents, (next(iter(env.group_map)), "action"))

    # Where it is --------------------------------------------------------------------------------------------------

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of states [N, 2 n_agents, 3], with the moves where actions are given.

        Invalid states, such as padding, are drawn as an empty grid. Actions are indices [N, n_agents] or one-hot [N,
        n_agents, 5], or one row fewer.
        """
        states, shown = self._states(observations)
        n = self.n_agents
        action = self._actions(actions, len(states))
        x, y = (states[..., 1] + 0.5) * self.cell, (states[..., 0] + 0.5) * self.cell
        mark = states[..., 2] > 0

        def row(k: int, angle: Any = 0.0, where: Any = True) -> npt.NDArray[np.float32]:
            return pose(x[:, k], y[:, k], angle, shown & where)

        heading = turn(action, _WORDS)
        poses = stack(
            len(states),
            *(row(n + k) for k in range(n)),
            *(row(n + k, where=mark[:, n + k]) for k in range(n)),
            *(row(k, where=mark[:, k]) for k in range(n)),
            *(row(k) for k in range(n)),
            *(row(k, heading[:, k], np.isfinite(heading[:, k])) for k in range(n)),
        )
        return Scene(self.width, self.height, self.background, self.parts, poses, self._caption(states, shown, action))

    def _states(self, observations: Any) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return states as integers, and which of them are valid."""
        n, array = self.n_agents, np.asarray(observations)
        if array.ndim != 3 or array.shape[1:] != (2 * n, 3):
            raise ValueError(
                f"{n} agents and as many landmarks are drawn from states of shape [N, {2 * n}, 3] (row, column, mark), "
                f"got shape {list(array.shape)}. Was the scene made for another env? Ask for it with find_scene(env)."
            )
        states = np.nan_to_num(array, nan=-1.0, posinf=-1.0, neginf=-1.0).astype(np.int64)
        if (states[..., 0] >= self.rows).any() or (states[..., 1] >= self.columns).any():
            raise ValueError(
                f"a state has a place outside the grid of {self.rows} x {self.columns}. "
                "The grid is that of the env: pass the env itself."
            )
        cells = states[..., 0] * self.columns + states[..., 1]
        apart = [(np.diff(np.sort(part, -1), axis=-1) > 0).all(-1) for part in (cells[:, :n], cells[:, n:])]
        return states, (states >= 0).all((1, 2)) & apart[0] & apart[1]

    def _actions(self, actions: Any, frames: int) -> Floats:
        """Return the actions as indices [N, n_agents], NaN for none."""
        n, moves = self.n_agents, len(_WORDS)
        if actions is None:
            return np.full((frames, n), np.nan)
        array = np.asarray(actions)
        if array.shape[1:] not in ((n,), (n, moves)):
            raise ValueError(
                f"the actions of {n} agents are indices of shape [N, {n}], or one-hot of shape [N, {n}, {moves}], "
                f"got shape {list(array.shape)}."
            )
        return np.stack([action_indices(array[:, k], moves, frames, f"Spread agent {k}") for k in range(n)], axis=-1)

    def _cells(self, state: Ints) -> list[list[str]]:
        """Return the contents of each cell: agents by number, x a landmark, * one that is covered."""
        n = self.n_agents
        words = [["."] * self.columns for _ in range(self.rows)]
        for row, column, _ in state[n:].tolist():
            words[row][column] = "x"
        for k, (row, column, _) in enumerate(state[:n].tolist()):
            words[row][column] = f"{k}*" if words[row][column] == "x" else str(k)
        return words

    def _caption(self, states: Ints, shown: npt.NDArray[np.bool_], action: Floats) -> Callable[[int], str]:
        n = self.n_agents

        def caption(i: int) -> str:
            if not shown[i]:
                return "no state"
            covered = int((states[i, n:, 2] > 0).sum())
            met = np.flatnonzero(states[i, :n, 2] > 0).tolist()
            words = [" / ".join(map(" ".join, self._cells(states[i]))), f"{covered} of {n} landmarks covered"]
            if met:
                who = f"agent{'s' if len(met) > 1 else ''} {', '.join(map(str, met))}"
                words.append(f"{who} {'have' if len(met) > 1 else 'has'} collided")
            if np.isfinite(action[i]).all():
                words.append("moves: " + ", ".join(_WORDS[int(a)] for a in action[i]))
            return "; ".join(words)

        return caption
