"""Scene of VMAS: numbered agents in a plane, with their goals and what they move where these are observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets._core.colors import agent_role
from rlnb_widgets.scenes.drawing import box, line, paper, pose, stack, text
from rlnb_widgets.scenes.inputs import Floats
from rlnb_widgets.scenes.scene import Part, Scene
from rlnb_widgets.scenes.spread import numbered_agent

_SIZE = 400.0


@dataclass(frozen=True)
class Mark:
    """A thing whose place follows from observations: that of the agent, plus or minus parts of the observation."""

    name: str  #: what it is
    terms: tuple[tuple[int, int], ...]  #: where two numbers start in the observation, and their sign
    goal: bool = False  #: whether it is a goal
    each: bool = False  #: whether each agent has its own, which it alone observes


_GOAL = {"goal": True, "each": True}
MARKS: dict[str, tuple[Mark, ...]] = {
    "balance": (Mark("package", ((4, -1),)), Mark("goal", ((4, -1), (8, -1)), goal=True)),
    "flocking": (Mark("target", ((4, -1),)),),
    "navigation": (Mark("goal", ((4, -1),), **_GOAL),),
    "passage": (Mark("goal", ((4, 1),), **_GOAL),),
    "reverse_transport": (Mark("package", ((6, 1),)), Mark("goal", ((6, 1), (8, -1)), goal=True)),
    "simple_spread": tuple(Mark(f"landmark {k}", ((4 + 2 * k, 1),), goal=True) for k in range(3)),
    "transport": (Mark("package", ((6, 1),)), Mark("goal", ((6, 1), (4, -1)), goal=True)),
}
"""What the observations of a scenario tell beyond the agents' places."""

_STARTS = {"football": 2, "simple_tag": 2, "simple_world_comm": 2}
"""Where the agent's place is in its observation; in those of all other scenarios it comes first."""

_RELATIVE = frozenset({
    "asym_joint", "pollock", "road_traffic", "simple", "simple_adversary", "simple_crypto", "simple_push",
    "simple_reference", "simple_speaker_listener",
})  # fmt: skip
"""Scenarios whose observations do not tell where the agents are."""


class VmasAgents:
    """Draws the agents of VMAS from observations that hold the agent's position, as nearly all do.

    Args:
        groups: the number of agents in each group.
        marks: what else is drawn.
        names: the names of the groups.
        scenario: the name of the scenario.

    Example:
        >>> scene = VmasAgents([2], MARKS["flocking"]).pose([[[0, 0, 0, 0, 0.5, 0], [1, 0, 0, 0, 1.5, 0]]])
        >>> scene.caption_at(0)
        'agent 0 at (0.00, 0.00), agent 1 at (1.00, 0.00); target at (-0.50, 0.00)'
    """

    def __init__(
        self,
        groups: Sequence[int] = (1,),
        marks: Sequence[Mark] = (),
        names: Sequence[str] = ("agents",),
        scenario: str = "",
    ) -> None:
        self.scenario, self.start = scenario, _STARTS.get(scenario, 0)
        self.count, self.marks = sum(groups), tuple(marks)
        self.reads = tuple((name, "observation") for name in names)
        self.width = self.height = _SIZE
        self.background = [paper(_SIZE, _SIZE)]
        self.shown = [(mark, k) for mark in self.marks for k in (range(self.count) if mark.each else (0,))]
        self.parts = (
            *(self._part(mark, k) for mark, k in self.shown),
            *(Part(f"agent {k}", numbered_agent(k, 80.0)) for k in range(self.count)),
        )

    def for_env(self, env: Any) -> VmasAgents:
        """Return the scene of the groups and the scenario of `env`."""
        groups: Mapping[str, Sequence[str]] = env.group_map
        return VmasAgents(
            [len(names) for names in groups.values()], MARKS.get(env.env_name, ()), list(groups), env.env_name
        )

    def _part(self, mark: Mark, k: int) -> Part:
        name = f"{mark.name} {k}" if mark.each else mark.name
        if not mark.goal:
            return Part(name, [box(-13, -13, 26, 26, "second", radius=4)])
        role = agent_role(k) if mark.each else "good"
        cross = [line(-12, y, 12, -y, role, 6) for y in (-12, 12)]
        return Part(name, [*cross, text(0, -20, 16, str(k), "ink")] if mark.each else cross)

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations ``[N, n_agents, size]``, or a tuple of those of each group."""
        if self.scenario in _RELATIVE:
            raise ValueError(f"the observations of {self.scenario} do not tell where the agents are. Use env.render().")
        found = observations if isinstance(observations, tuple) else (observations,)
        arrays = [np.asarray(array, dtype=np.float64) for array in found]
        if any(array.ndim != 3 or array.shape[2] < self.start + 2 for array in arrays) or len(arrays) != len(
            self.reads
        ):
            raise ValueError(
                f"agents are drawn from observations of shape [N, n_agents, size] for each group, got shapes "
                f"{[list(array.shape) for array in arrays]}."
            )
        agents = np.concatenate([array[..., self.start : self.start + 2] for array in arrays], 1)
        if agents.shape[1] != self.count:
            raise ValueError(f"{self.count} agents are drawn, got observations of {agents.shape[1]}.")
        places = np.concatenate([self._places(arrays[0]), agents], 1)
        finite = np.where(np.isfinite(places), np.abs(places), 0.0)
        scale = 0.45 * _SIZE / max(1.0, float(finite.max(initial=0.0)))
        x, y = _SIZE / 2 + places[..., 0] * scale, _SIZE / 2 - places[..., 1] * scale
        shown = np.isfinite(x) & np.isfinite(y)
        poses = stack(len(places), *(pose(x[:, k], y[:, k], 0.0, shown[:, k]) for k in range(places.shape[1])))
        return Scene(self.width, self.height, self.background, self.parts, poses, self._caption(places))

    def _places(self, array: Floats) -> Floats:
        """Return where the marks are, ``[N, n_marks, 2]``; they are seen by the agents of the first group."""
        rows = [np.zeros((len(array), 0, 2))]
        for mark, k in self.shown:
            place = np.full((len(array), 2), np.nan)
            if k < array.shape[1] and all(start + 2 <= array.shape[2] for start, _ in mark.terms):
                place = array[:, k, :2] + sum(sign * array[:, k, start : start + 2] for start, sign in mark.terms)
            rows.append(place[:, None])
        return np.concatenate(rows, 1)

    def _caption(self, places: npt.NDArray[np.float64]) -> Callable[[int], str]:
        names = [part.name for part in self.parts]
        first = len(names) - self.count

        def caption(i: int) -> str:
            words = [f"{name} at ({x:.2f}, {y:.2f})" for name, (x, y) in zip(names, places[i].tolist(), strict=True)]
            return "; ".join(filter(None, (", ".join(words[first:]), ", ".join(words[:first]))))

        return caption
