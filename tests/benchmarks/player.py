"""How long RolloutPlayer takes to build and how much it sends to the page; run as a program."""

from __future__ import annotations

import json
import time

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict


def cartpole_like(*size: int) -> TensorDict:
    """Return a rollout of random states in CartPole's shapes, an episode every 200 steps."""
    steps = size[-1]
    after = torch.randn(*size, 4) * 0.1
    done = (torch.arange(steps) % 200 == 199).expand(*size).unsqueeze(-1)
    root = after.roll(1, -2)
    ends = {"done": done, "terminated": done, "truncated": torch.zeros_like(done)}
    following = {"observation": after, "reward": torch.ones(*size, 1), **ends}
    action = torch.randint(2, size)
    return TensorDict({"observation": root, "action": action, "next": following}, size)


def main() -> None:
    """Print a row for each size."""
    RolloutPlayer(cartpole_like(10), "CartPole-v1")
    print(f"{'rollout':>14}  {'build ms':>8}  {'payload kB':>10}  {'svg ms':>7}  {'svg kB':>7}")
    for size in ((1_000,), (10_000,), (100_000,), (16, 1_000)):
        td = cartpole_like(*size)
        begun = time.perf_counter()
        player = RolloutPlayer(td, "CartPole-v1")
        built = time.perf_counter()
        svg = player.to_svg()
        drawn = time.perf_counter()
        sent = len(player._columns) + len(player._pictures) + len(json.dumps(player._head))
        print(
            f"{' x '.join(map(str, size)):>14}  {(built - begun) * 1e3:8.0f}  {sent / 1e3:10.0f}  "
            f"{(drawn - built) * 1e3:7.0f}  {len(svg) / 1e3:7.0f}"
        )


if __name__ == "__main__":
    main()
