"""The texts of what can go wrong with trees and forests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlnb.data.ted.keys import NestedKey, as_key


def _listed(keys: Sequence[Any]) -> str:
    return ", ".join(map(repr, keys)) or "none"


def no_specs(path: Sequence[str]) -> str:
    """Say that a node knows no specs."""
    return (
        f"The tree has no specs, and {path[-1]} is one of them. Fix: forest.get_keys_from_env(env) before "
        "forest.get_tree(root), or Tree.make_node(data, specs=env.specs)."
    )


def no_action(there: Sequence[NestedKey]) -> str:
    """Say that no entry of a rollout is an action."""
    return (
        f"Nothing tells which entries of the rollout are actions; they are: {_listed(there)}. "
        "Fix: give the tree specs, tree.specs = env.specs."
    )


def no_data() -> str:
    """Say that a node has no observation."""
    return (
        "The node has neither node_data nor a rollout, so that it has no observation. "
        "Fix: make it with Tree.make_node(data)."
    )


def unknown_key_type(key_type: Any) -> str:
    """Say which names vertices have."""
    return f'key_type is "id", "hash" or "path", and is {key_type!r}. Fix: tree.vertices(key_type="path").'


def no_name(key_type: str, path: tuple[int, ...]) -> str:
    """Say that a node cannot be named."""
    field = "node_id" if key_type == "id" else "hash"
    return f'The node at {path} has no {field}. Fix: tree.vertices(key_type="path"), which needs none.'


def not_found(kind: str, value: int, count: int) -> str:
    """Say that no node has an id or a hash."""
    return f'None of the {count} nodes has the {kind} {value}. Fix: take one from tree.vertices(key_type="{kind}").'


def not_a_rollout(value: Any) -> str:
    """Say that something is no TensorDict."""
    return (
        f"A forest takes rollouts, TensorDicts with a batch size, and got a {type(value).__name__}. "
        "Fix: forest.extend(env.rollout(100))."
    )


def not_a_step(batch_size: Sequence[int]) -> str:
    """Say that add got something else than one step."""
    return (
        f"forest.add takes one step, a TensorDict of batch size [], and got batch size {list(batch_size)}. "
        "Fix: forest.extend(rollout)."
    )


def missing(what: str, key: NestedKey, where: str, there: Sequence[NestedKey], after: bool) -> str:
    """Say that an entry is not there that a state or a step is known by."""
    place = 'under "next"' if after else "at the root"
    return (
        f"{where} has no entry {key!r} {place}, which is one of the {what} keys of the forest. "
        f"The entries {place} are: {_listed(there)}. "
        f"Fix: name those that tell one {'state' if what == 'observation' else 'action'} from another, "
        f"MCTSForest({what}_keys=[...]), or forest.get_keys_from_env(env) before the first rollout."
    )


def no_keys(what: str, there: Sequence[NestedKey]) -> str:
    """Say that keys cannot be guessed."""
    rule = (
        'no entry is there before the step and under "next"' if what == "observation" else 'no entry is called "action"'
    )
    return (
        f"The forest cannot tell which entries are {what}s: {rule}. The entries are: {_listed(there)}. "
        f"Fix: MCTSForest({what}_keys=[...])."
    )


def unhashable(key: NestedKey, error: TypeError) -> str:
    """Say that a value cannot be compared by hash."""
    return (
        f"The entry {key!r} tells states or actions apart, and its values have no hash ({error}). "
        f"Fix: store it as a tensor, a string or a tuple, or take {key!r} out of observation_keys and action_keys."
    )


def other_entries(missing: Sequence[NestedKey], extra: Sequence[NestedKey]) -> str:
    """Say that a rollout has not the entries of those before it."""
    parts = [f"lacks {_listed(missing)}"] if missing else []
    parts += [f"has also {_listed(extra)}"] if extra else []
    fix = f"rollout.exclude({', '.join(map(repr, extra))})" if extra and not missing else "give all rollouts the same"
    return (
        f"All rollouts of a forest have the same entries, and this one {' and '.join(parts)}. "
        f"Fix: {fix}, or leave entries out of the forest with MCTSForest(excluded_keys=[...])."
    )


def other_kind(path: tuple[str, ...], expected: str, found: str) -> str:
    """Say that an entry has another shape, dtype or device than before."""
    return (
        f"The entry {as_key(path)!r} was {expected} a step in the rollouts so far, and is {found} in this one. "
        "Fix: give all rollouts of a forest the same shapes, dtypes and device, or make a forest for each kind."
    )


def unlike_next(path: tuple[str, ...], before: str, after: str) -> str:
    """Say that a state looks different before and after a step."""
    return (
        f'The entry {as_key(path)!r} is {before} a step at the root and {after} under "next", so that no state '
        "could be found again after a step. Fix: give both the same shape and dtype."
    )


def cycle(row: int, first: int | None, keys: Sequence[NestedKey]) -> str:
    """Say that a rollout leads back to where it was."""
    where = (
        f"back to the state before step {first}"
        if first is not None
        else "to a state that comes before it in rollouts added earlier"
    )
    return (
        f"Step {row} of the rollout leads {where}: a cycle, and a tree has none. States are told apart by "
        f"{_listed(keys)}. Fix: add what grows with time to them, such as a step count: "
        'env.append_transform(StepCounter()) and MCTSForest(observation_keys=[..., "step_count"]).'
    )


def unknown_root(keys: Sequence[NestedKey], count: int) -> str:
    """Say that the forest does not know a state."""
    return (
        f"The forest has no state with these {_listed(keys)} among its {count}. "
        "Fix: take the root from a rollout that was added, such as forest.get_tree(rollout[0])."
    )


def unknown_child(count: int) -> str:
    """Say that an action was not taken in a state."""
    return (
        f"This action was not taken in this state; {count or 'no'} {'other was' if count == 1 else 'others were'}. "
        "Fix: take a step from a rollout that was added, or see forest.get_tree(root).selected_actions."
    )


def root_has_batch(batch_size: Sequence[int]) -> str:
    """Say that a root is one state."""
    return (
        f"The root of a tree is one state, a TensorDict of batch size [], and has batch size {list(batch_size)}. "
        "Fix: take one row, such as rollout[0]."
    )


def bad_depth(max_depth: Any) -> str:
    """Say what a depth is."""
    return (
        f"max_depth is how many steps down the tree goes at most, 0 or more, and is {max_depth!r}. "
        "Fix: forest.get_tree(root, max_depth=3)."
    )


def late_keys(what: str) -> str:
    """Say that keys are fixed once there are rollouts."""
    return (
        f"The {what} keys are fixed once the forest holds rollouts. "
        "Fix: set them before the first forest.extend, or make a new forest."
    )


def leaves_tree(path: Sequence[int], step: int, count: int) -> str:
    """Say where a path has no node to go to."""
    return (
        f"The path {tuple(path)} leaves the tree: the node at {tuple(path[:step])} has {count or 'no'} "
        f"{'child' if count == 1 else 'children'}, and the path goes on to child {path[step]}. "
        "Fix: take a path from tree.valid_paths()."
    )


def unknown_plot(backend: str, figure: str) -> str:
    """Say how trees can be drawn."""
    return (
        f'Trees are drawn with backend "plotly" as figure "tree" or "box", and not with {backend!r} as {figure!r}. '
        'Fix: tree.plot(figure="tree").'
    )


def unknown_info(unknown: Sequence[str], fields: Sequence[str]) -> str:
    """Say what can be shown of a node."""
    return (
        f"info names fields or properties of a node, and a node has no {_listed(unknown)}. Fields are: "
        f'{_listed(fields)}. Fix: tree.plot(info=["count", "wins"]).'
    )


def not_a_state(names: Sequence[str]) -> str:
    """Say that something is not the state of a node."""
    found = _listed(names[:4]) + (", ..." if len(names) > 4 else "")
    return (
        'The state of a node has the entries "_tensordict", "_non_tensordict" and "__batch_size", and this one has: '
        f"{found}. Fix: pass what tree.state_dict() returned, and from_flatten=True if it was asked for flat."
    )


def other_fields(missing: Sequence[str], extra: Sequence[str]) -> str:
    """Say that a node has other fields than a state."""
    parts = [f"the node lacks {_listed(missing)}"] if missing else []
    parts += [f"the state lacks {_listed(extra)}"] if extra else []
    return (
        f"Node and state have different fields: {' and '.join(parts)}. "
        "Fix: tree.load_state_dict(state, strict=False) takes what the state has."
    )
