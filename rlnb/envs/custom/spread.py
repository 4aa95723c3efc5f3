"""Cooperative navigation on a grid: agents must cover landmarks without colliding, batched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, as_key
from rlnb.envs import errors
from rlnb.envs.custom.grid_world import MOVES as GRID_MOVES
from rlnb.envs.custom.grid_world import move_table
from rlnb.envs.custom.tensor_env import TensorEnv
from rlnb.envs.marl import AgentGroups, MarlGroupMapType

#: The actions in order, as (rows down, columns right).
MOVES = {"stay": (0, 0), **GRID_MOVES}

_AT_ROOT = ("state", "action", "reward", *END_KEYS, "next", "_reset")


class SpreadEnv(TensorEnv):
    """Cooperative navigation on a grid: N agents must cover N landmarks, in any number of copies.

    All agents move at once: stay (0), left (1), down (2), right (3) or up (4). Agents that would meet in a cell, or
    swap places, stay where they are and collide. The team is rewarded for being near the landmarks: minus the sum over
    landmarks of the moves to the nearest agent. In addition, each agent loses ``collision_penalty`` for every other
    agent that it collides with. The episode is terminated when all landmarks are covered.

    Data that differs between agents is in a nested entry with a dimension for them, "agents" unless ``group_map`` says
    otherwise. Shared data is at the root::

        ("agents", "observation")         [*batch_size, n_agents, 4 * n_agents]
        ("agents", "action")              [*batch_size, n_agents(, 5)]
        ("agents", "reward")              [*batch_size, n_agents, 1]
        "state"                           [*batch_size, 2 * n_agents, 3]
        "done", "terminated", "truncated" [*batch_size, 1]

    An observation has the agent's row and column, then the offset (rows down, columns right) of each landmark, then
    that of each other agent. The "state", for a centralized critic, has a row for each agent (its row, its column and
    the number of agents that it has just collided with), then one for each landmark (row, column, and 1 if it is
    covered). ``reset(state=...)`` starts in such a state.

    Source: R. Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", NeurIPS 2017,
    section 5, "cooperative navigation" ("simple spread" in code), here with cells and moves in place of physics.

    Args:
        n_agents: N.
        size: rows and columns of the grid, or one number for both.
        shared_reward: one reward for all at the root, the mean of the agents' rewards, instead of one for each.
        agent_done: each agent has end signals, too. An agent on a landmark is terminated: it stays there and its
            rewards are 0 from then on. It can be reset alone, with ("agents", "_reset"); the others observe its new
            place from the next step on. At the root, the episode ends when all agents are done.
        done_on_any: with ``agent_done``: the episode ends when one agent is done.
        group_map: the names of the agents ("agent_0" and so on) in each group, or a
            :class:`~rlnb.envs.MarlGroupMapType`.
        action_mask: add the observation ("agents", "action_mask"), ``[*batch_size, n_agents, 5]``: the moves that do
            not lead off the grid. An agent that is done can only stay.
        info: add ("agents", "info", "distance"), the moves to the nearest landmark, and ("agents", "info",
            "collisions"), the number of agents just collided with; both ``[*batch_size, n_agents, 1]``.
        collision_penalty: the cost of a collision with one other agent, for each of them.
        batch_size, device, seed, max_steps, categorical_action_encoding: see
            :class:`~rlnb.envs.custom.tensor_env.TensorEnv`.

    Attributes:
        agent_names: "agent_0", "agent_1" and so on.
        group_map: the names of the agents in each group.

    Raises:
        ValueError: If the agents and landmarks do not fit on the grid, or the groups do not match the agents.

    Example:
        >>> env = SpreadEnv(3, batch_size=[2], seed=0)
        >>> env.action_key, env.reward_key, env.done_key
        (('agents', 'action'), ('agents', 'reward'), 'done')
        >>> env.rollout(4)["next", "agents", "reward"].shape
        torch.Size([2, 4, 3, 1])
    """

    def __init__(
        self,
        n_agents: int = 3,
        size: int | tuple[int, int] = 5,
        *,
        shared_reward: bool = False,
        agent_done: bool = False,
        done_on_any: bool = False,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType = MarlGroupMapType.ALL_IN_ONE_GROUP,
        action_mask: bool = False,
        info: bool = False,
        collision_penalty: float = 1.0,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        max_steps: int | None = 50,
        categorical_action_encoding: bool = False,
    ) -> None:
        rows, columns = (size, size) if isinstance(size, int) else size
        _check_size(n_agents, rows, columns)
        if done_on_any and not agent_done:
            raise ValueError("done_on_any=True needs agent_done=True. Fix: set both.")
        super().__init__(len(MOVES), batch_size, device, seed, max_steps, categorical_action_encoding)
        self.n_agents, self.rows, self.columns = n_agents, rows, columns
        self.agent_names = [f"agent_{i}" for i in range(n_agents)]
        self.shared_reward, self.agent_done, self.done_on_any = shared_reward, agent_done, done_on_any
        self.action_mask, self.info, self.collision_penalty = action_mask, info, collision_penalty
        self._groups = AgentGroups(group_map, self.agent_names, self.batch_dims)
        self.group_map = self._groups.group_map
        taken = sorted(set(self.group_map) & set(_AT_ROOT))
        if taken:
            raise ValueError(f"A group cannot be called {taken[0]!r}: that is an entry of the root. Fix: rename it.")
        self._make_tables(rows, columns)
        self._make_specs()

    def _make_tables(self, rows: int, columns: int) -> None:
        """Precompute the targets of moves, their legality, the places of cells and the other agents of each agent."""
        self._targets = move_table(rows, columns, MOVES).to(self.device)
        cell = torch.arange(rows * columns, device=self.device)
        self._mask = self._targets != cell.unsqueeze(-1)
        self._mask[:, 0] = True
        self._places = torch.stack((cell // columns, cell % columns), -1)
        self._ids = torch.arange(self.n_agents, device=self.device)
        others = self._ids.unsqueeze(-1) != self._ids
        self._others = self._ids.expand_as(others)[others].view(self.n_agents, self.n_agents - 1)

    def _make_specs(self) -> None:
        """Stack the specs of the agents, and add the shared ones at the root."""
        batch, n, device = self.batch_size, self.n_agents, self.device

        def stack(spec: Composite) -> dict[str, Composite]:
            return self._groups.stack([spec] * n)

        most = max(self.rows - 1, self.columns - 1, n - 1, 1)
        state = Bounded(0, most, shape=(*batch, 2 * n, 3), dtype=torch.int64, device=device)
        self.observation_spec = Composite({**stack(self._agent_observation_spec()), "state": state}, shape=batch)
        self.action_spec = Composite(stack(self.full_action_spec), shape=batch)
        if not self.shared_reward:
            self.reward_spec = Composite(stack(self.full_reward_spec), shape=batch)
        if self.agent_done:
            ends = self.full_done_spec
            self.done_spec = Composite({**ends, **stack(ends)}, shape=batch)

    def _agent_observation_spec(self) -> Composite:
        """Make the spec of one agent's observations, whose shapes start with the batch size."""
        n, batch, device = self.n_agents, self.batch_size, self.device
        high = torch.tensor([self.rows - 1.0, self.columns - 1.0], device=device).repeat(2 * n)
        low = torch.cat((torch.zeros(2, device=device), -high[2:]))
        shape = (*batch, 4 * n)
        specs: dict[str, TensorSpec] = {"observation": Bounded(low.expand(shape), high.expand(shape), device=device)}
        if self.action_mask:
            moves = len(MOVES)
            specs["action_mask"] = Binary(moves, shape=(*batch, moves), dtype=torch.bool, device=device)
        if self.info:
            most = float(self.rows + self.columns - 2)
            entries = {
                "distance": Bounded(0.0, most, shape=(*batch, 1), device=device),
                "collisions": Bounded(0, max(n - 1, 1), shape=(*batch, 1), dtype=torch.int64, device=device),
            }
            specs["info"] = Composite(entries, shape=batch, device=device)
        return Composite(specs, shape=batch, device=device)

    # Reset --------------------------------------------------------------------------------------------------------

    def _reset(
        self, tensordict: TensorDictBase | None = None, *, state: torch.Tensor | None = None, **kwargs: Any
    ) -> TensorDictBase:
        copies, agents = self._masks(tensordict)
        self._check_reset(kwargs, copies if agents is None else agents)
        if state is not None and agents is not None:
            raise ValueError("A reset of single agents draws their places: state=... is for a reset at the root.")
        before = self._state
        if agents is not None and before is not None:
            fresh = self._place_again(before, agents)
            steps = self._steps.masked_fill(agents, 0)
        else:
            fresh = self._initial_state() if state is None else self._given_state(state)
            steps = torch.zeros(self._clock_shape(), dtype=torch.int64, device=self.device)
            if copies is not None and before is not None:
                fresh = torch.where(copies[..., None, None], fresh, before)
                kept = self._steps
                steps = torch.where(copies.view((*copies.shape, *[1] * (kept.ndim - copies.ndim))), steps, kept)
        self._seed = None
        self._state, self._steps = fresh, steps
        return self._data(fresh, self._stays(fresh))

    def _masks(self, tensordict: TensorDictBase | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return the mask of copies, ``[*batch_size]``, or else of agents, ``[*batch_size, n_agents]``, to reset.

        A mask at the root takes precedence.
        """
        if tensordict is None:
            return None, None
        root = tensordict.get("_reset", None)
        if root is not None:
            return root.squeeze(-1), None
        own = {group: tensordict.get(as_key((group, "_reset")), None) for group in self.group_map}
        if all(mask is None for mask in own.values()):
            return None, None
        none = torch.zeros((*self.batch_size, self.n_agents, 1), dtype=torch.bool, device=self.device)
        nested = self._groups.split({"_reset": none}, self.batch_size, self.device)
        for group, mask in own.items():
            if mask is not None:
                nested[group].set("_reset", mask)
        masks = fast_tensordict(dict(nested), self.batch_size, self.device)
        return None, self._groups.join(masks, "_reset").squeeze(-1)

    def _clock_shape(self) -> tuple[int, ...]:
        """Shape of the step counter: with ``agent_done``, one for each agent."""
        return (*self.batch_size, self.n_agents) if self.agent_done else tuple(self.batch_size)

    def _draw(self, n: int, taken: torch.Tensor | None = None) -> torch.Tensor:
        """Draw n different cells for each copy, free ones first."""
        shape = (*self.batch_size, self.rows * self.columns)
        scores = torch.rand(shape, generator=self.generator, device=self.generator.device)
        if taken is not None:
            scores.scatter_(-1, taken, -1.0)
        return scores.topk(n, -1).indices

    def _initial_state(self) -> torch.Tensor:
        places = self._places[self._draw(2 * self.n_agents)]
        return torch.nn.functional.pad(places, (0, 1))

    def _place_again(self, state: torch.Tensor, agents: torch.Tensor) -> torch.Tensor:
        """Place these agents again, away from the other agents and from the landmarks."""
        n = self.n_agents
        cells = self._cells(state)
        # The cell of an agent that leaves is free: it is replaced by that of a landmark.
        taken = torch.where(torch.nn.functional.pad(agents, (0, n)), cells[..., n : n + 1], cells)
        place = (agents.cumsum(-1) - 1).clamp(min=0)
        cells = torch.where(agents, self._draw(n, taken).gather(-1, place), cells[..., :n])
        return self._state_of(cells, state[..., :n, 2].masked_fill(agents, 0), state[..., n:, :2])

    def _given_state(self, state: Any) -> torch.Tensor:
        found = super()._given_state(state)
        places = found[..., :2]
        sizes = torch.tensor((self.rows, self.columns), device=found.device)
        n, cells = self.n_agents, self._cells(found)
        apart = all(bool((part.sort(-1).values.diff(dim=-1) > 0).all()) for part in (cells[..., :n], cells[..., n:]))
        if bool((places < 0).any()) or bool((places >= sizes).any()) or not apart:
            raise ValueError(
                f"SpreadEnv.reset(state=...) takes the row and column of {n} agents in different cells, then of {n} "
                f"landmarks in different cells, on a grid of {self.rows} x {self.columns}."
            )
        found = self._state_of(cells[..., :n], torch.zeros_like(cells[..., :n]), places[..., n:, :])
        if bool(self._stays(found).any()):
            what = "an agent on a landmark is done" if self.agent_done else "with all landmarks covered it is over"
            raise ValueError(f"SpreadEnv.reset(state=...) got a state in which no episode can start: {what}.")
        return found

    # Step ---------------------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._state is None:
            raise RuntimeError(errors.not_reset(self))
        action = self._action_index(self._groups.join(tensordict, "action"))
        state, reward, over = self._transition(self._state, action)
        self._state, self._steps = state, self._steps + 1
        return self._data(state, over, reward)

    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n, stays = self.n_agents, self._stays(state)
        cells = self._cells(state)[..., :n]
        cells, met = settle(cells, torch.where(stays, cells, self._targets[cells, action]))
        state = self._state_of(cells, met, state[..., n:, :2])
        far = offsets(state[..., n:, :2], state[..., :n, :2]).abs().sum(-1).min(-1).values.sum(-1, keepdim=True)
        reward = (-far - self.collision_penalty * met).masked_fill(stays, 0.0).to(torch.get_default_dtype())
        return state, reward, self._stays(state)

    def _cells(self, state: torch.Tensor) -> torch.Tensor:
        return state[..., 0] * self.columns + state[..., 1]

    def _state_of(self, cells: torch.Tensor, met: torch.Tensor, landmarks: torch.Tensor) -> torch.Tensor:
        """Build a state from the cells of the agents, their collisions and the places of the landmarks."""
        covered = (cells.unsqueeze(-2) == self._cells(landmarks).unsqueeze(-1)).any(-1)
        marks = torch.cat((met, covered.to(met.dtype)), -1)
        return torch.cat((torch.cat((self._places[cells], landmarks), -2), marks.unsqueeze(-1)), -1)

    def _stays(self, state: torch.Tensor) -> torch.Tensor:
        """Find the agents that are terminated and do not move any more: bool ``[*batch_size, n_agents]``."""
        n = self.n_agents
        covered = state[..., n:, 2] > 0
        if not self.agent_done:
            return covered.all(-1, keepdim=True).expand(covered.shape)
        cells = self._cells(state)
        return (cells[..., :n].unsqueeze(-1) == cells[..., n:].unsqueeze(-2)).any(-1)

    # Outputs ------------------------------------------------------------------------------------------------------

    def _data(self, state: torch.Tensor, over: torch.Tensor, reward: torch.Tensor | None = None) -> TensorDictBase:
        """Return the data of a state: shared entries at the root, those of the agents in their groups."""
        data: dict[str, Any] = {"state": state.clone()}
        own: dict[str, Any] = self._observe(state)
        if reward is not None and self.shared_reward:
            data["reward"] = reward.mean(-1, keepdim=True)
        elif reward is not None:
            own["reward"] = reward.unsqueeze(-1)
        ends, shared = self._ends(over)
        own.update(ends)
        data.update(shared)
        data.update(self._groups.split(own, self.batch_size, self.device))
        return fast_tensordict(data, self.batch_size, self.device)

    def _observe(self, state: torch.Tensor) -> dict[str, Any]:
        """Return the observations of the agents, ``[*batch_size, n_agents, ...]``."""
        n = self.n_agents
        places = state[..., :2]
        agents = places[..., :n, :]
        seen = offsets(agents, places)
        other = seen[..., self._ids.unsqueeze(-1), self._others, :]
        parts = (agents, seen[..., n:, :].flatten(-2), other.flatten(-2))
        data: dict[str, Any] = {"observation": torch.cat(parts, -1).to(torch.get_default_dtype())}
        if self.action_mask:
            data["action_mask"] = self._mask[self._cells(state)[..., :n]]
            if self.agent_done:
                moves = torch.arange(self.n_actions, device=self.device) > 0
                data["action_mask"] &= ~(self._stays(state).unsqueeze(-1) & moves)
        if self.info:
            nearest = seen[..., n:, :].abs().sum(-1).min(-1, keepdim=True).values
            data["info"] = {"distance": nearest.to(torch.get_default_dtype()), "collisions": state[..., :n, 2:].clone()}
        return data

    def _ends(self, over: torch.Tensor) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the end signals of the agents, if there are any, and those of the root."""
        late = self._steps >= (self.max_steps or torch.iinfo(torch.int64).max)
        if not self.agent_done:
            return {}, _signals(over[..., :1].clone(), late.unsqueeze(-1))
        if self.done_on_any:
            shared = _signals(over.any(-1, keepdim=True), late.any(-1, keepdim=True))
        else:
            terminated = over.all(-1, keepdim=True)
            # If some agents are terminated and time is up for the others, time ended the episode.
            cut = late.all(-1, keepdim=True) | ((over | late).all(-1, keepdim=True) & ~terminated)
            shared = _signals(terminated, cut)
        return _signals(over.unsqueeze(-1), late.unsqueeze(-1)), shared


def _signals(terminated: torch.Tensor, truncated: torch.Tensor) -> dict[str, torch.Tensor]:
    return {DONE: terminated | truncated, TERMINATED: terminated, TRUNCATED: truncated}


def _check_size(n_agents: int, rows: int, columns: int) -> None:
    if n_agents < 1:
        raise ValueError(f"SpreadEnv needs at least one agent, and n_agents is {n_agents!r}.")
    if min(rows, columns) < 1 or rows * columns < 2 * n_agents:
        raise ValueError(
            f"{n_agents} agents and {n_agents} landmarks start in {2 * n_agents} different cells, and a grid of "
            f"{rows} x {columns} has fewer. Fix: a larger size=..., or fewer agents."
        )


# Rules ----------------------------------------------------------------------------------------------------------------


def settle(cells: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Move all agents at once. Those that would meet stay where they are.

    Agents meet if they would be in one cell or swap places. An agent that stays may be in the way of others, which
    then meet it. A ring of agents, each moving to the cell of the next one, rotates freely.

    Takes the cells of the agents, all different, and those that they want to move to. Returns their cells afterwards,
    all different, and the number of agents that each has met. All have shape ``[*, n_agents]``.

    Example:
        >>> settle(torch.tensor([0, 2, 5]), torch.tensor([1, 1, 4]))
        (tensor([0, 2, 4]), tensor([1, 1, 0]))
    """
    n = cells.shape[-1]
    others = ~torch.eye(n, dtype=torch.bool, device=cells.device)
    into = wanted.unsqueeze(-1) == cells.unsqueeze(-2)
    met = into & into.mT & others
    held = met.any(-1)
    # Each round holds at least one more agent, so there are at most n rounds.
    while True:
        after = torch.where(held, cells, wanted)
        together = (after.unsqueeze(-1) == after.unsqueeze(-2)) & others
        if not bool(together.any()):
            return after, met.sum(-1)
        met = met | together
        held = held | together.any(-1)


def offsets(places: torch.Tensor, goals: torch.Tensor) -> torch.Tensor:
    """Compute the offset, rows down and columns right, of each goal ``[*, m, 2]`` from each place ``[*, n, 2]``.

    Example:
        >>> offsets(torch.tensor([[1, 1]]), torch.tensor([[0, 3]])).tolist()
        [[[-1, 2]]]
    """
    return goals.unsqueeze(-3) - places.unsqueeze(-2)
