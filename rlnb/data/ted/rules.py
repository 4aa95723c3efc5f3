"""The rules of TED: for each, a name, a sentence, and the function that finds where data breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from rlnb.data.ted.adjacency import disagreements, likely_cause
from rlnb.data.ted.columns import alike
from rlnb.data.ted.facts import ACTION, REWARD, Facts, all_of_step, index_text, key_code, per_step, show
from rlnb.data.ted.keys import DONE, END_KEYS, MASK_KEYS, TERMINATED, TRAJ_IDS_KEYS, TRUNCATED, as_key
from rlnb.data.ted.ragged import Path, RaggedColumn, row_kind


@dataclass(frozen=True)
class Finding:
    """One place where a rule is broken.

    Args:
        rule: name of the rule.
        entry: key of the entry, as code; empty for the data as a whole.
        index: index of the first step that breaks the rule; ``None`` if it is about all steps.
        found: the value or entry that was found.
        cause: the likely cause.
        fix: the fix.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import check_ted
        >>> check_ted(TensorDict({"observation": torch.zeros(3)}, [3])).findings[0].found
        "there is only 'observation'"
    """

    rule: str
    entry: str
    index: tuple[int, ...] | None
    found: str
    cause: str
    fix: str


@dataclass(frozen=True)
class Rule:
    """A rule that well-formed TED data keeps.

    Args:
        name: short name.
        sentence: the rule as a sentence.
        find: yields the places where data breaks the rule: entry, step or ``None``, found value, cause and fix.
        needs: "next" and "time", if the check needs entries under "next" and a time dimension. Without them it is
            skipped.

    Example:
        >>> [rule.sentence for rule in TED_RULES if rule.name == "reward"]
        ["Rewards are under 'next'."]
    """

    name: str
    sentence: str
    find: Callable[[Facts], Iterator[tuple[str, int | None, str, str, str]]]
    needs: tuple[str, ...] = ("next", "time")

    def check(self, facts: Facts) -> list[Finding]:
        """Return where data breaks the rule; an empty list if it keeps it."""
        if ("next" in self.needs and not facts.next) or ("time" in self.needs and not facts.has_time):
            return []
        return [
            Finding(self.name, entry, None if step is None else facts.index(step), found, cause, fix)
            for entry, step, found, cause, fix in self.find(facts)
        ]


_Found = Iterator[tuple[str, int | None, str, str, str]]


def _next(facts: Facts) -> _Found:
    if facts.next:
        return
    names = ", ".join(key_code(path) for path in facts.root) or "nothing"
    yield (
        "'next'",
        None,
        f"there is only {names}",
        "the data is the output of reset or step_mdp, or flat data that was not converted back",
        "pass what env.rollout or env.step returns; Flat2TED()(data) for flat data",
    )


def _time(facts: Facts) -> _Found:
    data = facts.data
    if not data.batch_dims:
        yield "", None, "the batch size is []", "this is a single step", "data.unsqueeze(-1) adds the dimension"
        return
    names = data.names
    if "time" in names and names[-1] != "time":
        at = names.index("time")
        fix = f"data.transpose({at}, -1)"
        yield "", None, f"the dimensions are named {names}", "time was stacked along another dimension", fix


def _done(facts: Facts) -> _Found:
    if not facts.levels:
        yield (
            "('next', 'done')",
            None,
            "no end signal under 'next'",
            "the end signals were left out, or are only at the root",
            "write done, terminated and truncated of the step under 'next'",
        )
    for level in facts.levels:
        signals = {name: facts.next.get((*level, name)) for name in END_KEYS}
        if signals[DONE] is None:
            there = " and ".join(repr(name) for name, flags in signals.items() if flags is not None)
            cause = "done was expected to follow from the other signals, but must be written as well"
            fix = "data['next', 'done'] = terminated | truncated"
            yield key_code((*level, DONE), True), None, f"missing, and {there} is there", cause, fix
        elif signals[TERMINATED] is None:
            cause = "an older interface with a single end signal, which does not say whether to bootstrap"
            fix = "write terminated (and truncated) of the env under 'next' as well"
            yield key_code((*level, TERMINATED), True), None, "missing, and 'done' is there", cause, fix


def _union(facts: Facts) -> _Found:
    for level in facts.levels:
        done, terminated, truncated = (facts.next.get((*level, name)) for name in END_KEYS)
        if not isinstance(done, torch.Tensor) or not isinstance(terminated, torch.Tensor):
            continue
        union = terminated.bool()
        if isinstance(truncated, torch.Tensor):
            if truncated.shape != union.shape:
                continue
            union = union | truncated.bool()
        if union.shape != done.shape:
            continue
        wrong = facts.only_valid(per_step(done.bool() != union)).nonzero().flatten()
        if wrong.shape[0]:
            step = int(wrong[0])
            names = TERMINATED if truncated is None else f"{TERMINATED} | {TRUNCATED}"
            found = f"{show(done[step])}, and {names} is {show(union[step])}{_more(wrong)}"
            cause = "one of the signals was changed without the others"
            fix = f"data['next', 'done'] = {names}, or set 'truncated' where an episode was cut"
            yield key_code((*level, DONE), True), step, found, cause, fix


def _shapes(facts: Facts) -> _Found:
    batch = list(facts.data.batch_size)
    for path, column in facts.next.items():
        if not isinstance(column, torch.Tensor) or path[-1] not in (*END_KEYS, REWARD):
            continue
        shape, least = [*batch, *column.shape[1:]], 2 + facts.extra.get(("next", *path[:-1]), 0)
        entry = key_code(path, True)
        if column.dim() < least or (path[-1] in END_KEYS and column.shape[-1] != 1):
            fix = f"data[{entry}] = data[{entry}].unsqueeze(-1)"
            yield entry, None, f"the shape {shape}", "the last dimension, of size 1, was dropped", fix
        if path[-1] in END_KEYS and column.dtype != torch.bool:
            fix = f"data[{entry}] = data[{entry}].bool()"
            yield entry, None, f"the dtype {column.dtype}", "the signal was written as a number", fix


def _reward(facts: Facts) -> _Found:
    for path in facts.root:
        if path[-1] == REWARD and path not in facts.next:
            fix = f"data[{key_code(path, True)}] = data.pop({key_code(path)})"
            yield key_code(path), None, "at the root", "it was stored with the action that earned it", fix
    rewards = [path for path in (*facts.root, *facts.next, *facts.gaps) if path[-1] == REWARD]
    # A reward of another name would be among the entries that exist only under "next".
    if not rewards and not any(path not in facts.root and path[-1] not in END_KEYS for path in facts.next):
        cause = "the reward was left out when the data was assembled"
        yield "('next', 'reward')", None, "missing", cause, "write the output of env.step under 'next'"


def _action(facts: Facts) -> _Found:
    for path in facts.next:
        if path[-1] == ACTION and path not in facts.root:
            fix = f"data[{key_code(path)}] = data.pop({key_code(path, True)})"
            yield key_code(path, True), None, "under 'next'", "it was stored with its results", fix
    if any(path[-1] == ACTION for path in (*facts.root, *facts.next, *facts.gaps)):
        return
    # An action of another name would be among the entries that exist only at the root.
    alone = facts.root.keys() - facts.next.keys() - {*TRAJ_IDS_KEYS, *MASK_KEYS}
    if all(path[-1] in (REWARD, *END_KEYS) for path in alone):
        cause = "the action was left out when the data was assembled"
        yield "'action'", None, "missing", cause, "write the action that was taken at the root"


_SEEN = ("observation", "pixels", "state")


def _observation(facts: Facts) -> _Found:
    shared = [path for path in facts.root if path in facts.next and _is_seen(path)]
    for path in facts.root.keys() ^ facts.next.keys():
        if path[-1] in _SEEN:
            at_root = path in facts.root
            here, there = ("at the root", "under 'next'") if at_root else ("under 'next'", "at the root")
            cause = (
                "the results of the steps were not stored" if at_root else "the inputs of the policy were not stored"
            )
            yield key_code(path, at_root), None, f"{here}, and not {there}", cause, f"write it {there} as well"
            shared.append(path)
    if not shared:
        names = ", ".join(key_code(path) for path in facts.root if _is_seen(path)) or "nothing else"
        cause = "the observation after the step was left out"
        fix = "write the output of env.step under 'next'"
        yield "'next'", None, f"no observation; the root has {names}", cause, fix


def _alike(facts: Facts) -> _Found:
    for path, there in facts.gaps.items():
        gone = facts.only_valid(~there).nonzero().flatten()
        if gone.shape[0]:
            entry = repr(as_key(path))
            first = index_text(facts.index(int(there.nonzero()[0])))
            found = f"missing{_more(gone)}, and there at {first}"
            cause = "the env returns it in some steps only, which no spec can describe"
            fix = f"return it in every step, or leave it out with data.exclude({entry})"
            yield entry, int(gone[0]), found, cause, fix
    for path, column in facts.root.items():
        other = facts.next.get(path)
        # The rule "shapes" checks end signals.
        if path[-1] in END_KEYS or not isinstance(other, (torch.Tensor, RaggedColumn)):
            continue
        if isinstance(column, RaggedColumn) and isinstance(other, RaggedColumn):
            yield from _of_one_kind(path, column, other)
        if not isinstance(column, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        for what, one, two in (
            ("shape", list(column.shape[1:]), list(other.shape[1:])),
            ("dtype", column.dtype, other.dtype),
        ):
            if one != two:
                found = f"the {what} {two} of a step, and {one} at the root"
                cause = "reset and step of the env return different shapes or dtypes"
                yield key_code(path, True), None, found, cause, f"give both the same {what}; check_env_specs(env) helps"


def _of_one_kind(path: Path, column: RaggedColumn, other: RaggedColumn) -> _Found:
    """Rows may vary in shape only, not in dtype or number of dimensions."""
    for step, pair in enumerate(zip(column, other, strict=True)):
        for in_next, row in enumerate(pair):
            if row_kind(row) != row_kind(column[0]):
                found = f"{_in_words(row)}, and {_in_words(column[0])} at the root of the first step"
                cause = "only the shape of an entry may vary, not its dtype or number of dimensions"
                fix = "always give it the same dtype and number of dimensions, some of size 1 if needed"
                yield key_code(path, bool(in_next)), step, found, cause, fix
                return


def _in_words(row: Any) -> str:
    if not isinstance(row, torch.Tensor):
        return "nothing" if row is None else f"{len(row)} parts"
    return f"the shape {list(row.shape)} and dtype {row.dtype}"


def _adjacent(facts: Facts) -> _Found:
    for path, column in facts.root.items():
        after = facts.next.get(path)
        if after is None or not _is_seen(path):
            continue
        if isinstance(column, torch.Tensor) and not alike(column, after):
            continue
        wrong = disagreements(column, after, facts)
        if wrong.shape[0]:
            step = int(wrong[0])
            then = index_text(facts.index(step + 1))
            found = f"{_apart(after[step], column[step + 1], then)}{_more(wrong)}"  # type: ignore[index]
            yield key_code(path, True), step, found, *likely_cause(column, after, wrong, facts)


def _apart(after: Any, root: Any, then: str) -> str:
    if isinstance(after, torch.Tensor) and isinstance(root, torch.Tensor) and after.shape != root.shape:
        return f"the shape {list(after.shape)}, and the root at {then} has {list(root.shape)}"
    return f"{show(after)}, and the root at {then} is {show(root)}"


def _episodes(facts: Facts) -> _Found:
    if facts.ids is None:
        return
    path, ids = facts.ids
    entry, length = key_code(path), facts.length
    changes = ids[1:] != ids[:-1]
    inside = torch.ones_like(changes)
    inside[length - 1 :: length] = False
    if facts.mask is not None:
        inside &= facts.mask[1:] & facts.mask[:-1]
    if facts.any_end is not None:
        silent = (changes & inside & ~facts.any_end[:-1]).nonzero().flatten()
        if silent.shape[0]:
            step = int(silent[0])
            found = f"{ids[step]}, then {ids[step + 1]}, and no end signal is True{_more(silent)}"
            cause = "a trajectory was cut and not marked as truncated"
            yield entry, step, found, cause, "set ('next', 'truncated') and ('next', 'done') to True at that step"
    if facts.episode_ends is not None and (DONE,) in facts.next:
        kept = (~changes & inside & facts.episode_ends[:-1]).nonzero().flatten()
        if kept.shape[0]:
            step = int(kept[0])
            cause = "the id was not incremented when the episode ended"
            fix = "increment the ids where ('next', 'done') is True"
            yield entry, step, f"{ids[step]} continues after an end signal{_more(kept)}", cause, fix
    starts = torch.cat([changes.new_ones(1), changes])
    starts[::length] = True
    at = facts.only_valid(starts).nonzero().flatten()
    again = _seen_before(torch.stack([at.div(length, rounding_mode="floor"), ids[at].long()]))
    if again.shape[0]:
        step = int(at[again[0]])
        found = f"{ids[step]} occurs again after another id{_more(again)}"
        cause = "the steps of several episodes alternate, or the data comes from a ring buffer"
        fix = "sort the steps by id, or start at the buffer's oldest step"
        yield entry, step, found, cause, fix


def _seen_before(pairs: torch.Tensor) -> torch.Tensor:
    """The columns that equal an earlier column."""
    _, where = torch.unique(pairs, dim=1, return_inverse=True)
    order = torch.argsort(where, stable=True)
    same = where[order][1:] == where[order][:-1]
    return order[1:][same].sort().values


def _root_done(facts: Facts) -> _Found:
    signals = {path: column for path, column in facts.root.items() if path[-1] in END_KEYS}
    # If there are signals at the root, they decide; an agent that is done may wait for the others.
    outermost = min(map(len, signals), default=0)
    for path, column in signals.items():
        if len(path) == outermost and isinstance(column, torch.Tensor):
            wrong = facts.only_valid(per_step(column)).nonzero().flatten()
            if wrong.shape[0]:
                cause = "a step was taken from a state that had ended: the env was not reset"
                fix = "rollout(..., break_when_any_done=True) stops there, and step_and_maybe_reset resets"
                yield key_code(path), int(wrong[0]), f"True{_more(wrong)}", cause, fix


def _numbers(facts: Facts) -> _Found:
    for path, column in facts.next.items():
        if path[-1] == REWARD and isinstance(column, torch.Tensor) and column.is_floating_point():
            wrong = facts.only_valid(per_step(column.isnan())).nonzero().flatten()
            if wrong.shape[0]:
                cause = "the env divided by zero or left its domain, or a table had a gap there"
                fix = "find the first NaN among the observations and actions before it; one NaN spoils every return"
                yield key_code(path, True), int(wrong[0]), f"{show(column[int(wrong[0])])}{_more(wrong)}", cause, fix


def _goes_on(facts: Facts) -> _Found:
    # With ids, the rule "episodes" covers it.
    if facts.ids is not None or not facts.levels or facts.rows * facts.length < 2:
        return
    outermost = [facts.next.get((*level, DONE)) for level in facts.levels if len(level) == len(facts.levels[0])]
    flags = [all_of_step(column.bool()) for column in outermost if isinstance(column, torch.Tensor)]
    seen = [(column, facts.next[path]) for path, column in facts.root.items() if path in facts.next and _is_seen(path)]
    pairs = [(one, two) for one, two in seen if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)]
    # If all observations are equal, or integers such as cells, a reset looks like a step.
    telling = [one for one, _ in pairs if one.is_floating_point() and bool((one != one[:1]).any())]
    if not flags or len(pairs) < len(seen) or not telling:
        return
    goes_on = facts.only_valid(torch.stack(flags).all(0))[:-1].clone()
    goes_on[facts.length - 1 :: facts.length] = False
    if facts.mask is not None:
        goes_on &= facts.mask[1:]
    for one, two in pairs:
        if one.shape != two.shape:
            return
        goes_on &= all_of_step(one[1:] == two[:-1])
    wrong = goes_on.nonzero().flatten()
    if wrong.shape[0]:
        cause = "an end signal was set inside an episode, or the env was stepped further without a reset"
        fix = "set it to False there, or reset the env where ('next', 'done') is True"
        found = f"True, but the next step starts from the result of this one{_more(wrong)}"
        yield key_code((*facts.levels[0], DONE), True), int(wrong[0]), found, cause, fix


def _is_seen(path: Path) -> bool:
    return path[-1] not in (REWARD, ACTION, *END_KEYS)


def _more(steps: torch.Tensor) -> str:
    count = steps.shape[0] - 1
    return f" (and {count:,} more)" if count else ""


TED_RULES: tuple[Rule, ...] = (
    Rule("next", "The results of a step are under 'next'.", _next, ()),
    Rule("time", "Time is the last batch dimension; if it has a name, that is 'time'.", _time, ()),
    Rule("end signals", "There is a 'done' under 'next', and a 'terminated' beside it.", _done, ("next",)),
    Rule("union", "done is True where terminated or truncated is.", _union),
    Rule("shapes", "Rewards and end signals have an extra last dimension of size 1: [..., 1].", _shapes),
    Rule("reward", "Rewards are under 'next'.", _reward, ("next",)),
    Rule("action", "Actions are at the root.", _action, ("next",)),
    Rule("observation", "Observations are at the root and under 'next'.", _observation, ("next",)),
    Rule(
        "alike",
        "Entries at the root and under 'next' have the same shape and dtype; in a lazy stack, shapes may vary.",
        _alike,
    ),
    Rule("adjacency", "Inside an episode, 'next' of a step is the root of the step after it.", _adjacent),
    Rule("episodes", "The id of a trajectory changes where an episode ends, and does not occur again.", _episodes),
    Rule("root done", "No step starts from a state that has ended.", _root_done),
)

#: Likely mistakes. They are not rules, because a reset may lead to the same state in which an episode ended.
TED_WARNINGS: tuple[Rule, ...] = (
    Rule("numbers", "No reward is NaN.", _numbers),
    Rule("goes on", "After an end signal, another episode begins.", _goes_on),
)
