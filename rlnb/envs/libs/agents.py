"""Environments whose agents share nested entries by group: base class of the wrappers of multi-agent libraries."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import entry, fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.ted.block import EnvRows, LeafInfo, TEDBlock
from rlnb.data.ted.keys import END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.libs.gym.codec import ObservationLeaf, drawn_actions, native_action
from rlnb.envs.marl import AgentGroups, MarlGroupMapType
from rlnb.envs.rows import overridden

MASK, ACTION_MASK, INFO = "mask", "action_mask", "info"

Entries = Mapping[str, Mapping[str, Any]]
"""The data of agents, by entry and then by agent, such as ``{"reward": {"ann": 1.0, "bob": 0.0}}``."""

Found = tuple[Entries, Mapping[str, Any], Set[str], Collection[str]]
"""What a reset or a step of the backend returned.

The data of agents; the entries that all agents share, by name; the names of the agents that have data; and the names of
those that act at the next step, which are read if agents may be absent. (A NamedTuple would take 1 us more a step.)
"""


def found_by_agent(agents: Mapping[str, Mapping[str, Any]], shared: Mapping[str, Any] | None = None) -> Found:
    """Sort data of each agent by entry. An agent acts unless its "mask" is False.

    Example:
        >>> found_by_agent({"ann": {"place": 3.0}, "bob": {"place": 1.0, "mask": False}})[0]["place"]
        {'ann': 3.0, 'bob': 1.0}
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, record in agents.items():
        for entry_name, value in record.items():
            entries.setdefault(entry_name, {})[name] = value
    acting = {name for name, record in agents.items() if record.get(MASK, True)}
    return entries, shared or {}, agents.keys(), acting


Put = Callable[[np.ndarray, int, Any], None]
Leaf = tuple[str, Put, np.ndarray]
"""A leaf of an agent's data: the entry that it is in, a function that writes the entry's value into a row, the rows."""


class AgentSpecs(NamedTuple):
    """Specs of the entries of one agent, by name: a spec, or a composite for an entry that is nested."""

    observation: dict[str, TensorSpec]
    action: dict[str, TensorSpec]
    reward: dict[str, TensorSpec]


class AgentsEnv(EnvBase):
    """Wraps an env that takes and returns data by agent.

    The data of the agents of a group is stacked in a nested entry: ("group", "observation") has shape ``[n_agents,
    ...]``, in the order of the names in the group. Entries that all agents share are at the root.

    A subclass passes the specs of each agent to ``__init__`` and implements two methods: :meth:`_restart` and
    :meth:`_advance`, which return what :data:`Found` describes. Two entries of agents have a meaning: "action_mask"
    says which actions are legal at the next step (it masks the action spec, so that random actions are legal), and what
    "info" lacks is zero.

    Args:
        env: the backend.
        agents: the specs of each agent that there can be, by name.
        group_map: the names of the agents in each group.
        shared: specs of entries that all agents share, by name.
        shared_reward: spec of the reward, if all agents get the same one, which is an entry of the root then.
        agents_end: whether agents have end signals of their own.
        root_ends: whether there are end signals at the root. With ``agents_end`` they follow from those of the agents.
        truncates: whether episodes can be "truncated".
        done_on_any: whether the root is done as soon as an agent is. ``False``: when all are.
        use_mask: whether agents may be absent. Absent agents have zeros, and keep the end signals of their last step.
        stacked: ``False`` gives each agent a nested entry of its own, ("group", "agent", "observation").
        device, run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Attributes:
        agent_names: the names of all agents, in the backend's order.
        group_map: the names of the agents in each group.

    Raises:
        ValueError: If the groups do not fit the agents, or a group has agents whose specs differ.

    Example:
        >>> from rlnb.data import Unbounded
        >>> class Race(AgentsEnv):
        ...     '''Each of two runners takes 1 or 2 steps at a time; the first at 3 ends the race.'''
        ...     def __init__(self):
        ...         spec = AgentSpecs(
        ...             {"place": Unbounded((1,))}, {"action": Categorical(2)}, {"reward": Unbounded((1,))}
        ...         )
        ...         super().__init__(None, {"ann": spec, "bob": spec}, MarlGroupMapType.ALL_IN_ONE_GROUP)
        ...     def _restart(self, seed, names=None):
        ...         self.places = dict.fromkeys(self.agent_names, 0)
        ...         return found_by_agent({name: {"place": 0.0} for name in self.agent_names})
        ...     def _advance(self, actions):
        ...         found = {}
        ...         for name, action in actions.items():
        ...             place = self.places[name] = self.places[name] + 1 + int(action)
        ...             ends = {"terminated": place >= 3, "truncated": False}
        ...             found[name] = {"place": float(place), "reward": -1.0, **ends}
        ...         return found_by_agent(found)
        >>> actions = torch.tensor([[0, 0], [0, 1]])
        >>> Race().rollout(9, actions=actions)["next", "agents", "place"].squeeze(-1)
        tensor([[1., 1.],
                [2., 3.]])
    """

    #: The action that "action_mask" masks.
    _masked_action = "action"

    def __init__(
        self,
        env: Any,
        agents: Mapping[str, AgentSpecs],
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType,
        *,
        shared: Mapping[str, TensorSpec] | None = None,
        shared_reward: TensorSpec | None = None,
        agents_end: bool = True,
        root_ends: bool = True,
        truncates: bool = True,
        done_on_any: bool = True,
        use_mask: bool = False,
        stacked: bool = True,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        super().__init__(device, run_type_checks=run_type_checks, allow_done_after_reset=allow_done_after_reset)
        self._env = env
        self.agent_names = list(agents)
        self._groups = AgentGroups(group_map, self.agent_names)
        self.group_map = self._groups.group_map
        self.use_mask, self.done_on_any = use_mask, done_on_any
        self._agents, self._shared = dict(agents), dict(shared or {})
        self._agents_end, self._root_ends = agents_end, root_ends
        # Where the data of agents is: a group, or an agent of one.
        self._slots: list[tuple[tuple[str, ...], list[str]]] = (
            [((group,), names) for group, names in self.group_map.items()]
            if stacked
            else [((group, name), [name]) for group, names in self.group_map.items() for name in names]
        )
        self._stacked = stacked
        self._make_specs(shared_reward, truncates)
        self._seed: int | None = None
        self._running = False
        self._over: dict[str, tuple[bool, bool]] = {}  # end signals of agents that are done
        self._present: set[str] = set()  # agents that took part in this episode
        self._legal: dict[NestedKey, np.ndarray] = {}  # legal actions at the next step, by the key of the action
        root, next_only = self._row_leaves()
        self._entries = {*root, *next_only}
        # The batch size of each level of nesting, the deepest first.
        paths = {as_tuple(key)[:depth] for key in self._entries for depth in range(len(as_tuple(key)))}
        self._sizes = {path: self._size(path) for path in sorted(paths, key=len, reverse=True)}
        self._one: tuple[TEDBlock, dict[bool, Callable[[int, Found], bool]]] | None = None

    # For subclasses -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _restart(self, seed: int | None, names: Sequence[str] | None = None) -> Found:
        """Reset the backend, with a seed if there is one.

        Args:
            seed: that of ``set_seed``, at the first reset after it.
            names: the agents to reset. ``None``: all. Only those of a subclass without ``root_ends`` can be reset
                alone.
        """

    @abstractmethod
    def _advance(self, actions: dict[str, Any]) -> Found:
        """Step the backend.

        Args:
            actions: the action of each agent, as numpy data; a dictionary of actions where an agent has several, or
                one of another name than "action".

        Returns:
            The observations, rewards and end signals ("terminated" and "truncated") of the agents, and the shared
            entries.
        """

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed

    # Specs --------------------------------------------------------------------------------------------------------

    def _make_specs(self, shared_reward: TensorSpec | None, truncates: bool) -> None:
        """Stack the specs of the agents of each group, and add those of the root."""
        if taken := sorted(set(self.group_map) & {*self._shared, *END_KEYS, "next", "action", "reward", "_reset"}):
            raise ValueError(f"A group cannot be called {taken[0]!r}: that is an entry of the root. Fix: rename it.")
        self._assert_stackable()
        if truncates:
            self.add_truncated_keys()
        ends = dict(self.full_done_spec.items())
        seen = {MASK: Binary(shape=(), dtype=torch.bool)} if self.use_mask else {}
        # As assigned below they are on the env's device; these decode actions, which numpy data cannot leave.
        self._decoders: dict[NestedKey, TensorSpec] = {}
        actions = self._nest([specs.action for specs in self._agents.values()])
        for key in actions.keys(True, True):
            self._decoders[key] = actions[key]
        self.action_spec = self._placed(actions)
        self.observation_spec = self._placed(
            self._nest([{**specs.observation, **seen} for specs in self._agents.values()], self._shared)
        )
        if shared_reward is None:
            self.reward_spec = self._placed(self._nest([specs.reward for specs in self._agents.values()]))
        else:
            self.reward_spec = self._placed(Composite(reward=shared_reward))
        if self._agents_end:
            self.done_spec = self._placed(self._nest([ends] * len(self._agents), ends if self._root_ends else {}))
        self._rewards_shared = shared_reward is not None

    def _assert_stackable(self) -> None:
        for name, specs in [*self._agents.items(), ("", AgentSpecs(self._shared, {}, {}))]:
            for path, spec in [leaf for entries in specs for leaf in _walk(entries)]:
                if spec.dtype is None or isinstance(spec, NonTensor):
                    whose = f" of the agent {name!r}" if name else ""
                    raise TypeError(
                        f"The entry {as_key(path)!r}{whose} is not a number or an array of numbers, which a group "
                        "could stack. Fix: encode it as numbers in the env."
                    )
        for group, (first, *others) in self.group_map.items():
            for name in others if self._stacked else ():
                for role in AgentSpecs._fields:
                    mine, theirs = (Composite(getattr(self._agents[agent], role)) for agent in (first, name))
                    if mine == theirs:
                        continue
                    raise ValueError(
                        f"The agents {first!r} and {name!r} of the group {group!r} have different {role} specs, and "
                        "the data of a group is stacked. Fix: put agents that differ into groups of their own, such "
                        "as group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT."
                    )

    def _nest(self, specs: Sequence[Mapping[str, TensorSpec]], shared: Mapping[str, TensorSpec] | None = None) -> Any:
        """Nest the specs of all agents, in the order of their names, beside those of the root."""
        each = [Composite(dict(spec)) for spec in specs]
        if self._stacked:
            return Composite({**self._groups.stack(each), **(shared or {})})
        own = dict(zip(self.agent_names, each, strict=True))
        groups = {group: Composite({n: own[n] for n in names}) for group, names in self.group_map.items()}
        return Composite({**groups, **(shared or {})})

    def _placed(self, spec: Composite) -> Composite:
        return spec if self.device is None else spec.to(self.device)

    def _size(self, path: tuple[str, ...]) -> torch.Size:
        names = self.group_map.get(path[0], []) if path and self._stacked else []
        return torch.Size([len(names)] if names else [])

    # Reset and step -----------------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        names = None if tensordict is None else self._marked(tensordict)
        return self._read(self._begin(names, **kwargs), at_step=False)

    def _begin(self, names: list[str] | None = None, **kwargs: Any) -> Found:
        options = kwargs if names is None else {"names": names, **kwargs}
        found = self._restart(self._seed, **options)
        self._seed = None  # only now: a reset that fails leaves the seed to the next
        if names is None:
            self._over.clear()
            self._present.clear()
        for name in names or ():
            self._over.pop(name, None)
        self._running = True
        return found

    def _marked(self, tensordict: TensorDictBase) -> list[str] | None:
        """List the agents that "_reset" masks mark. ``None``: all."""
        root = tensordict.get("_reset", None)
        masks = {path: tensordict.get(as_key((*path, "_reset")), None) for path, _ in self._slots}
        if root is not None or all(mask is None for mask in masks.values()):
            return None
        marked = [
            name
            for path, names in self._slots
            if masks[path] is not None
            for name, mark in zip(names, masks[path].reshape(-1).tolist(), strict=True)
            if mark
        ]
        if len(marked) == len(self.agent_names):
            return None
        if self._root_ends:
            raise RuntimeError(
                f"{type(self).__name__} cannot reset single agents, and '_reset' marks {marked}. "
                "Fix: leave the '_reset' entries out, which resets all."
            )
        return marked

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self._running:
            raise RuntimeError(errors.not_reset(self))
        values = {key: entry(tensordict, cast("Any", key)) for key in self._decoders}
        return self._read(self._advance(self._natives(values)), at_step=True)

    def _read(self, found: Found, at_step: bool) -> TensorDictBase:
        """Convert what was found into data: write it into rows, and copy these."""
        if self._one is None:
            block = TEDBlock(*self._row_leaves(), 1)
            self._one = block, {step: self._writer(block, step) for step in (False, True)}
        block, writers = self._one
        rows = block.next if at_step else block.root
        for array in rows.values():
            array.fill(0)
        writers[at_step](0, found)
        self._mask_specs()
        return self._assemble(rows)

    def _assemble(self, rows: Mapping[NestedKey, np.ndarray]) -> TensorDictBase:
        """Copy the first row into a TensorDict whose nested ones have the batch sizes of the specs."""
        levels: dict[tuple[str, ...], dict[str, Any]] = {path: {} for path in self._sizes}
        for key, array in rows.items():
            path = as_tuple(key)
            levels[path[:-1]][path[-1]] = torch.from_numpy(np.array(array[0]))
        for path, size in self._sizes.items():
            data = fast_tensordict(levels[path], size)
            if not path:
                return data if self.device is None else data.to(self.device)
            if levels[path]:
                levels[path[:-1]][path[-1]] = data
        raise AssertionError("the root comes last")

    # Writing rows -------------------------------------------------------------------------------------------------

    def _writer(self, block: TEDBlock | EnvRows, at_step: bool) -> Callable[[int, Found], bool]:
        """Make the function that writes what was found into row t, which holds zeros, and says whether it is done."""
        rows = block.next if at_step else block.root
        by_entry: dict[str, list[tuple[str, Put, np.ndarray]]] = {}
        others = []
        for path, names in self._slots:
            for i, name in enumerate(names):
                leaves, write_others = self._agent_writers(path, i if self._stacked else None, name, rows, at_step)
                for key, put, column in leaves:
                    by_entry.setdefault(key, []).append((name, put, column))
                if write_others is not None:
                    others.append(write_others)
        together = _leaves(self._shared, rows, ())
        if at_step and self._rewards_shared:
            together += _leaves(dict(self.full_reward_spec.items()), rows, ())
        legal = [
            (as_key((*path, self._masked_action)), rows[as_key((*path, ACTION_MASK))])
            for path, names in self._slots
            if self._is_masked(names[0])
        ]
        ends, over, everybody = at_step and self._agents_end, self._over, set(self.agent_names)
        never = None if self._truncates else dict.fromkeys(self.agent_names, False)
        finish = self._end_writer(rows) if at_step else None

        def write(t: int, found: Found) -> bool:
            entries, shared, present, acting = found
            complete = present == everybody
            if not complete:
                self._check_present(present)
            key = name = ""
            try:
                for key, parts in by_entry.items():
                    values = entries.get(key, {})
                    for name, put, column in parts:
                        if complete or name in present:
                            put(column, t, values[name])
                if ends:
                    key = TERMINATED
                    terminated, truncated = entries.get(TERMINATED, {}), never or entries.get(TRUNCATED, {})
                    for name in present:
                        if over or terminated[name] or truncated[name]:
                            self._note_end(name, bool(terminated[name]), bool(truncated[name]))
            except KeyError as error:
                raise self._lacks(name, key, entries, error) from None
            for write_others in others:
                write_others(t, entries, present, acting)
            for key, put, column in together:
                put(column, t, shared[key])
            for action, masks in legal:
                self._legal[action] = masks[t]
            return finish(t, shared) if finish is not None else False

        return write

    def _check_present(self, present: Set[str]) -> None:
        """Refuse data of unknown agents, and, without the entry "mask", agents without data."""
        unknown = [name for name in present if name not in self._agents]
        if unknown:
            raise RuntimeError(
                f"The env returned data of the agents {unknown}, and it has only {self.agent_names}. "
                "Fix: let the env name all agents that can ever appear, in possible_agents."
            )
        if not self.use_mask:
            absent = next(name for name in self.agent_names if name not in present)
            raise RuntimeError(
                f"The agent {absent!r} has no data at this step: agents of {self!r} die or appear during an episode. "
                "Fix: use_mask=True, which adds the entry 'mask' to each group: False for an agent that is not there."
            )

    def _agent_writers(
        self, path: tuple[str, ...], index: int | None, name: str, rows: Mapping[NestedKey, np.ndarray], at_step: bool
    ) -> tuple[list[Leaf], Callable[[int, Entries, Set[str], Collection[str]], None] | None]:
        """List the leaves of one agent, and make the function that writes its masks and infos, if it has any."""
        specs = self._agents[name]
        plain = {key: spec for key, spec in specs.observation.items() if key not in (ACTION_MASK, INFO)}
        leaves = _leaves(plain, rows, path, index)
        if at_step and not self._rewards_shared:
            leaves += _leaves(specs.reward, rows, path, index)
        infos: list[Leaf] = []
        if INFO in specs.observation:
            nested = dict(cast("Composite", specs.observation[INFO]).items())
            infos = _leaves(nested, rows, (*path, INFO), index)
        legal = _column(rows, (*path, ACTION_MASK), index) if ACTION_MASK in specs.observation else None
        widths = _widths(specs.action[self._masked_action]) if legal is not None else []
        acts = _column(rows, (*path, MASK), index) if self.use_mask else None
        if not infos and legal is None and acts is None:
            return leaves, None
        took_part = self._present

        def write(t: int, entries: Entries, present: Set[str], acting: Collection[str]) -> None:
            acts_next = name in present
            if acts_next and acts is not None:
                took_part.add(name)
                acts[t] = acts_next = name in acting
            if legal is not None:
                legal[t] = self._checked_mask(name, entries, widths) if acts_next else True
            if infos and name in present:
                record = entries.get(INFO, {}).get(name, {})
                for key, put, column in infos:
                    with contextlib.suppress(KeyError):  # not all infos are there at each step
                        put(column, t, record[key])

        return leaves, write

    @property
    def _truncates(self) -> bool:
        return any(as_tuple(key)[-1] == TRUNCATED for key in self.done_keys)

    def _note_end(self, name: str, terminated: bool, truncated: bool) -> None:
        """Keep the end signals of an agent that is done, and forget those of one that is not."""
        if terminated or truncated:
            self._over[name] = terminated, truncated
        else:
            self._over.pop(name, None)

    def _end_writer(self, rows: Mapping[NestedKey, np.ndarray]) -> Callable[[int, Mapping[str, Any]], bool]:
        """Make the function that writes the end signals into "next" row t, and says whether the root is done."""
        own = {
            name: [
                _column(rows, (*path, key), i if self._stacked else None) for key in END_KEYS if self._has(path, key)
            ]
            for path, names in self._slots
            for i, name in enumerate(names)
        }
        root = [rows[key] for key in END_KEYS if self._has((), key)]
        over, present, truncates = self._over, self._present, self._truncates
        n = len(self.agent_names)

        def write(t: int, shared: Mapping[str, Any]) -> bool:
            if not self._agents_end:
                signals = shared[TERMINATED], truncates and shared[TRUNCATED]
            else:
                if not over:
                    return False
                for name, ends in over.items():
                    for column, flag in zip(own[name], (True, *ends), strict=False):
                        column[t] = flag
                if not (self._root_ends and (self.done_on_any or len(over) == (len(present) if self.use_mask else n))):
                    return False
                ended = list(over.values())
                decide = any if self.done_on_any else all
                signals = decide(end[0] for end in ended), decide(end[1] for end in ended)
                if not any(signals):  # some terminated and the others were truncated
                    signals = (False, True)
            if not any(signals):
                return False
            for column, flag in zip(root, (True, *signals), strict=False):
                column[t] = flag
            return True

        return write

    def _has(self, path: tuple[str, ...], end: str) -> bool:
        return as_key((*path, end)) in self.done_keys

    def _checked_mask(self, name: str, entries: Entries, widths: list[int]) -> Any:
        legal = np.asarray(entries[ACTION_MASK][name], dtype=bool)
        start = 0
        for width in widths:
            if not np.count_nonzero(legal[start : start + width]):  # a quarter of the time of any()
                if name in self._over:
                    return True
                raise RuntimeError(
                    f"The agent {name!r} must act and its action mask leaves no legal action. Likely cause: the env "
                    "returns the mask of an agent that is done, without an end signal. Fix: let the env end the "
                    "episode of the agent, or allow an action that does nothing."
                )
            start += width
        return legal

    def _lacks(self, name: str, key: str, entries: Entries, error: KeyError) -> RuntimeError:
        keys = (TERMINATED, TRUNCATED) if key == TERMINATED else (key,)
        # If the entry is there, a member of it is missing.
        key = next((each for each in keys if name not in entries.get(each, ())), error.args[0])
        return RuntimeError(
            f"The agent {name!r} has no {key!r} at this step, which its spec has. "
            "Fix: let the env return it for each agent that it returns an observation of."
        )

    # Actions ------------------------------------------------------------------------------------------------------

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draw an action for each agent. Where "action_mask" says which actions are legal, only those are drawn."""
        if tensordict is not None:
            for key in self._legal:
                mask = tensordict.get(as_key((*as_tuple(key)[:-1], ACTION_MASK)), None)
                if mask is not None:
                    cast("Any", self.full_action_spec[key]).update_mask(mask)
        return super().rand_action(tensordict)

    def _mask_specs(self) -> None:
        """Mask the action specs by the legal actions of the next step."""
        for key, legal in self._legal.items():
            cast("Any", self.full_action_spec[key]).update_mask(torch.from_numpy(legal.copy()))

    def _natives(self, values: Mapping[NestedKey, torch.Tensor]) -> dict[str, Any]:
        """Convert actions by key into actions by agent."""
        return self._by_agent({key: native_action(spec, values[key]) for key, spec in self._decoders.items()})

    def _by_agent(self, natives: Mapping[NestedKey, Any]) -> dict[str, Any]:
        actions: dict[str, Any] = {}
        for path, names in self._slots:
            for entry_name in self._agents[names[0]].action:
                value = natives[as_key((*path, entry_name))]
                for name, own in zip(names, value if self._stacked else [value], strict=True):
                    if self._agents[name].action.keys() == {"action"}:
                        actions[name] = own
                    else:
                        actions.setdefault(name, {})[entry_name] = own
        return actions

    # Rows: see rlnb.envs.rows -------------------------------------------------------------------------------------

    #: Row functions only write, so that the rows of a rollout may be completed at its end.
    _reads_no_rows = True

    @property
    def _fills_rows(self) -> bool:
        cls = next(base for base in type(self).__mro__ if AgentsEnv in base.__bases__)
        if overridden(self, cls) or self.run_type_checks:
            return False
        if "fills_rows" not in self._cache:
            found = {*self.observation_keys, *self.done_keys, *self.reward_keys}
            self._cache["fills_rows"] = (
                (self.device is None or self.device.type == "cpu")
                and self._stacked
                and self._root_ends
                and found == self._entries  # the specs may have been replaced
                and set(self.action_keys) == set(self._decoders)
                and (len(self._decoders) == 1 or self._can_choose() or self._can_sample())
            )
        return self._cache["fills_rows"]

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        def infos(*specs: Composite) -> dict[NestedKey, LeafInfo]:
            found = [(key, spec[key]) for spec in specs for key in spec.keys(True, True)]
            return {key: (spec.shape, cast("torch.dtype", spec.dtype)) for key, spec in found}

        return infos(self.observation_spec, self.full_done_spec), infos(self.full_reward_spec)

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        advance, write_next, write_root = self._advance, self._writer(block, True), self._writer(block, False)

        def step(t: int, actions: Any) -> bool:
            return write_next(t, advance(actions))

        def reset(t: int) -> None:
            write_root(t, self._begin())

        return step, reset

    def _end_rows(self) -> None:
        self._mask_specs()

    @property
    def _row_chooser(self) -> AgentsEnv:
        return self

    @property
    def _draws_by_row(self) -> bool:
        """Whether random actions must be drawn step by step: there are several, or the legal ones change."""
        return len(self._decoders) > 1 or bool(self._legal)

    def _draw_numbers(self, n: int) -> torch.Tensor:
        """Draw the numbers that choices of n steps follow from, ``[n, n_choices]``, as the action specs would."""
        if self._can_sample():
            specs = [self.full_action_spec[key] for key in self._decoders]
            return torch.stack([torch.cat([spec.rand().flatten() for spec in specs]) for _ in range(n)])
        total = sum(len(names) for _, names, _ in self._choices)
        if self._legal:
            return torch.rand((n, total), dtype=torch.float64)
        return torch.randint(self._choices[0][-1].n, (n, total))

    def _choose(self, numbers: list[Any]) -> tuple[list[int], dict[str, Any]]:
        """Turn numbers into legal choices: their positions, and the actions by agent. Samples are what they are."""
        if self._can_sample():
            sampled = torch.tensor(numbers, dtype=torch.float64)
            return numbers, self._by_agent({key: value.numpy() for key, value in self._split(sampled).items()})
        if not self._legal:
            return numbers, {name: number + start for (name, start), number in zip(self._starts, numbers, strict=True)}
        positions: list[int] = []
        actions: dict[str, Any] = {}
        for key, names, spec in self._choices:
            for name, legal in zip(names, self._legal[key], strict=True):
                options = legal.nonzero()[0]
                position = int(options[int(numbers[len(positions)] * len(options))])
                positions.append(position)
                actions[name] = position + spec.start
        return positions, actions

    def _chosen(self, choices: list[list[int]]) -> dict[NestedKey, torch.Tensor]:
        """Convert positions into the entries of the actions."""
        if self._can_sample():
            return self._split(torch.tensor(choices, dtype=torch.float64))
        found: dict[NestedKey, torch.Tensor] = {}
        positions = torch.tensor(choices)
        for key, names, spec in self._choices:
            own, positions = positions[:, : len(names)], positions[:, len(names) :]
            if isinstance(spec, OneHot):
                found[key] = torch.nn.functional.one_hot(own, spec.n).to(spec.dtype)
            else:
                found[key] = (own + spec.start).to(spec.dtype)
        return found

    @property
    def _choices(self) -> list[tuple[NestedKey, list[str], Any]]:
        """The key, the agents and the spec of each action, in the order in which random actions are drawn."""
        if "choices" not in self._cache:
            names = {as_key((*path, "action")): names for path, names in self._slots}
            self._cache["choices"] = [(key, names[key], spec) for key, spec in self._decoders.items()]
        return self._cache["choices"]

    @property
    def _starts(self) -> list[tuple[str, int]]:
        """Each agent and the number of its first action, in the same order."""
        if "starts" not in self._cache:
            self._cache["starts"] = [(name, spec.start) for _, names, spec in self._choices for name in names]
        return self._cache["starts"]

    def _can_choose(self) -> bool:
        """Whether the random actions of several steps can be drawn at once, although there are several actions."""
        specs = list(self._decoders.values())
        masked = [as_key((*path, self._masked_action)) for path, names in self._slots if self._is_masked(names[0])]
        if not all(isinstance(spec, (Categorical, OneHot)) for spec in specs) or len(self._slots) != len(specs):
            return False
        return len(masked) == len(specs) or (not masked and len({cast("Any", spec).n for spec in specs}) == 1)

    def _can_sample(self) -> bool:
        """Whether the random actions of several steps can be drawn at once: there are several, all of floats."""
        if "can_sample" not in self._cache:
            pairs = [(spec.dtype, self.full_action_spec[key].dtype) for key, spec in self._decoders.items()]
            is_float = [own is not None and own.is_floating_point and own == current for own, current in pairs]
            self._cache["can_sample"] = len(is_float) > 1 and all(is_float)
        return self._cache["can_sample"]

    def _split(self, numbers: torch.Tensor) -> dict[NestedKey, torch.Tensor]:
        """Split samples ``[..., n]`` into the actions that they were concatenated of."""
        specs = self._decoders
        parts = numbers.split([spec.shape.numel() for spec in specs.values()], -1)
        return {
            key: part.reshape(*part.shape[:-1], *spec.shape).to(cast("torch.dtype", spec.dtype))
            for (key, spec), part in zip(specs.items(), parts, strict=True)
        }

    def _is_masked(self, name: str) -> bool:
        return ACTION_MASK in self._agents[name].observation

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        (names,) = self.group_map.values()
        (key,) = self._decoders
        spec = self._agents[names[0]].action[as_tuple(key)[-1]]
        # Agent by agent: iterating over a small array for each step would take six times as long.
        own = [drawn_actions(spec, actions[:, i]) for i in range(len(names))]
        return [dict(zip(names, row, strict=True)) for row in zip(*own, strict=True)]

    def _native_action(self, action: Any) -> dict[str, Any]:
        return self._natives(action if isinstance(action, dict) else {next(iter(self._decoders)): action})

    # The backend --------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        # A copy makes writers of its own: those of this env write into its rows.
        return {**self.__dict__, "_one": None}

    def render(self) -> Any:
        """Return what the backend's ``render`` does: with ``render_mode="rgb_array"`` an array ``[height, width, 3]``.

        Raises:
            RuntimeError: If the backend renders no frames, or the env was not reset.
        """
        if not self._running:
            raise RuntimeError("render was called before reset, so there is no state to show. Fix: env.reset() first.")
        return self._env.render()

    def _release(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()

    def _backend_name(self) -> str:
        return type(self._env).__name__

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "_env" not in self.__dict__:  # the constructor failed
                raise
        return getattr(self._env, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._backend_name()}, groups={self.group_map}, device={self.device})"


def _column(rows: Mapping[NestedKey, np.ndarray], path: Sequence[str], index: int | None) -> np.ndarray:
    """The rows of one agent: ``[rows, *shape]``, a view."""
    array = rows[as_key(path)]
    return array if index is None else array[:, index]


def _leaves(
    specs: Mapping[str, TensorSpec],
    rows: Mapping[NestedKey, np.ndarray],
    path: tuple[str, ...],
    index: int | None = None,
) -> list[Leaf]:
    """List the leaves of these specs: the entry that each is in, the function that writes it, and its rows."""
    found: list[Leaf] = []
    for names, spec in _walk(specs):
        key = as_key((*path, *names))
        column = _column(rows, as_tuple(key), index)
        if len(names) == 1 and spec.shape == (1,) and spec.dtype is not None and spec.dtype.is_floating_point:
            found.append((names[0], _write_number, column[..., 0]))
        else:
            found.append((names[0], ObservationLeaf(key, names[1:], cast("Any", None), spec).writer(), column))
    return found


def _walk(specs: Mapping[str, TensorSpec], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TensorSpec]]:
    for name, spec in specs.items():
        if isinstance(spec, Composite):
            yield from _walk(dict(spec.items()), (*above, name))
        else:
            yield (*above, name), spec


def _write_number(rows: np.ndarray, t: int, value: Any) -> None:
    """Write a number, or an array with one, in a fifth of an array's time."""
    rows[t] = value if isinstance(value, (float, int)) else float(np.asarray(value).item())


def _widths(spec: Any) -> list[int]:
    """The numbers of the choices that a mask of legal actions lists one after the other."""
    return [spec.n] if isinstance(spec, (Categorical, OneHot)) else [int(n) for n in spec.nvec.reshape(-1)]


__all__ = ["AgentSpecs", "AgentsEnv", "Found", "found_by_agent"]
