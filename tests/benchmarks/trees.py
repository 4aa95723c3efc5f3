"""Times the trees of rollouts of one library; prints JSON of the best seconds of CPU of each case."""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from typing import Any

NODES, LONG, STEPS, ACTIONS = 2_400, 100, 10, 3
EXTEND = {f"extend, {STEPS} steps": STEPS, f"extend, {LONG} steps": LONG, "extend, 1 step": 1}
TREE, LOOK = "get_tree, 2,400 nodes", "get_tree, 2,400 nodes, each looked at"


def rollouts(count: int, steps: int, seed: int) -> list[Any]:
    """TED data of rollouts from one state; the state is the way that led to it, so that starts are shared."""
    import torch
    from tensordict import TensorDict

    choose, states, found = random.Random(seed), random.Random(seed + 1), []
    known: dict[tuple[int, ...], list[float]] = {(): [0.0] * 4}
    for _ in range(count):
        actions = [choose.randrange(ACTIONS) for _ in range(steps)]
        ways = [tuple(actions[:length]) for length in range(steps + 1)]
        for way in ways:
            known.setdefault(way, [states.random() for _ in range(4)])
        observations = torch.tensor([known[way] for way in ways])
        none = torch.zeros(steps, 1, dtype=torch.bool)
        ends = {name: none.clone() for name in ("done", "terminated", "truncated")}
        after = {name: none.clone() for name in ends}
        below = TensorDict({"observation": observations[1:], "reward": torch.ones(steps, 1), **after}, [steps])
        entries = {"observation": observations[:-1], "action": torch.tensor(actions), **ends, "next": below}
        found.append(TensorDict(entries, [steps]))
    return found


def bushy(nodes: int) -> Any:
    """Steps that make a tree of so many nodes, each with three children."""
    import torch
    from tensordict import TensorDict

    parents = (torch.arange(1, nodes) - 1) // ACTIONS
    flags = {name: torch.zeros(nodes - 1, 1, dtype=torch.bool) for name in ("done", "terminated", "truncated")}
    states = torch.arange(nodes, dtype=torch.float32)[:, None].expand(-1, 4).contiguous()
    below = TensorDict({"observation": states[1:], "reward": torch.ones(nodes - 1, 1), **flags}, [nodes - 1])
    return TensorDict(
        {
            "observation": states[parents],
            "action": (torch.arange(1, nodes) - 1) % ACTIONS,
            **{name: flag.clone() for name, flag in flags.items()},
            "next": below,
        },
        [nodes - 1],
    )


def forest(package: str) -> Any:
    """An empty forest with room for all."""
    make = importlib.import_module(f"{package}.data").MCTSForest
    return make() if package == "rlnb" else make(max_size=100_000)


def extend(package: str, steps: int) -> float:
    """Seconds for each step of a rollout that is added."""
    data = rollouts(1 + max(1_000 // steps, 10), steps, seed=0)
    if steps == 1:
        data = [row.unsqueeze(0) for row in bushy(300)]
    trees = forest(package)
    trees.extend(data[0])
    start = time.process_time()
    for rollout in data[1:]:
        trees.extend(rollout)
    return (time.process_time() - start) / sum(len(rollout) for rollout in data[1:])


def main(name: str, rounds: int) -> None:
    """Print the best time of each case: a step for "extend", a call for the others.

    Args:
        name: "rlnb" or "torchrl".
        rounds: how often each case is tried; trees of torchrl, which take seconds, are made once.
    """
    import torch

    torch.set_num_threads(1)
    best: dict[str, float] = {}
    for key, steps in EXTEND.items():
        best[key] = min(extend(name, steps) for _ in range(rounds))
    data = bushy(NODES)
    trees = forest(name)
    trees.extend(data)
    root = data[0].exclude("next", "action")
    for _ in range(rounds if name == "rlnb" else 1):
        start = time.process_time()
        tree = trees.get_tree(root)
        made = time.process_time() - start
        nodes = tree.vertices(key_type="path")
        seen = [(node.node_data["observation"], node.rollout, node.count) for node in nodes.values()]
        looked = time.process_time() - start
        assert len(seen) == NODES
        best[TREE], best[LOOK] = min(made, best.get(TREE, made)), min(looked, best.get(LOOK, looked))
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
