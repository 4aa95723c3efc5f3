"""Lessons that train for long: ``make test`` runs a shorter form of them, ``make test-deep`` all with nbval."""

from __future__ import annotations

import re
from pathlib import Path

#: File names to what takes long in a lesson, and a shorter form of it, in which nothing is learned.
SHORTER = {
    "02_the_whole_game.ipynb": {
        "total_frames=61_440": "total_frames=3_072",
        "total_frames=20_480": "total_frames=1_024",
    },
    "07_dqn.ipynb": {
        "ten.rollout(500, actor": "ten.rollout(50, actor",
        "total_frames=25_000": "total_frames=1_536",
        "e07_dqn.parts()": "e07_dqn.parts(frames=1_024)",
    },
    "08_actor_critic.ipynb": {
        "monitor.watch(range(25))": "monitor.watch(range(3))",
        "updates=60,": "updates=3,",
        "learn(batches=70)": "learn(batches=3)",
        "COPIES = 0.95, 16, 100": "COPIES = 0.95, 16, 10",
    },
    "09_ppo.ipynb": {
        "frames_per_batch=32 * 64, total_frames=32 * 64 * batches": "frames_per_batch=512, total_frames=512 * batches",
        "env.rollout(64, actor": "env.rollout(16, actor",
        "learn(A2CLoss, batches=12": "learn(A2CLoss, batches=2",
        "learn(PPOLoss, batches=10": "learn(PPOLoss, batches=2",
        "learn(ClipPPOLoss, batches=30)": "learn(ClipPPOLoss, batches=2)",
    },
    "10_sac.ipynb": {
        "env.rollout(200, policy": "env.rollout(20, policy",
        "tests.rollout(200, policy": "tests.rollout(50, policy",
        "16 * (50 + updates)": "16 * (5 + updates)",
        "<= 16 * 50:": "<= 16 * 5:",
        "sac(updates=700)": "sac(updates=25)",
        "16 * 400:": "16 * 15:",
        "sac(updates=550,": "sac(updates=3,",
        "unfold(0, 50, 25)": "unfold(0, 5, 2)",
    },
    "33_collecting.ipynb": {"monitor.watch(range(32))": "monitor.watch(range(2))"},
    "35_offline.ipynb": {
        "env.rollout(100, walker) for _ in range(60)": "env.rollout(100, walker) for _ in range(12)",
        "in monitor.watch(range(400))": "in monitor.watch(range(20))",
        "env.rollout(100, clone) for _ in range(60)": "env.rollout(100, clone) for _ in range(3)",
        "def learn(alpha=0.0, updates=1000)": "def learn(alpha=0.0, updates=50)",
        "def implicit(expectile=0.95, updates=1000)": "def implicit(expectile=0.95, updates=50)",
    },
    "36_preferences.ipynb": {
        "orders.speaker()": "orders.speaker(updates=5)",
        "improve(controller, updates=80)": "improve(controller, updates=3)",
        "for update in (1, 80)": "for update in (1, 3)",
        "kl_coef=0.0), updates=40": "kl_coef=0.0), updates=2",
    },
    "42_alphazero.ipynb": {
        "reset(td).run(simulations)": "reset(td).run(simulations // 8)",
        "size in ([1], [256])": "size in ([1], [8])",
        "games=256": "games=16",
        "    game.set_seed(0)\n    opening": "    games = 4\n    game.set_seed(0)\n    opening",
        "in range(250)": "in range(5)",
        "def train(rounds=8,": "def train(rounds=1,",
    },
}


def shorten(path: Path) -> None:
    """Give a notebook its shorter form, without what it asserts about the long one."""
    import nbformat  # takes seconds, and every pytest imports this module

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for long, short in SHORTER[path.name].items():
        found = [cell for cell in cells if long in cell.source]
        assert len(found) == 1, f"{path.name} has no {long!r} any more"
        found[0].source = found[0].source.replace(long, short)
    for cell in cells:
        cell.source = re.sub(r"^assert .*", "pass", cell.source, flags=re.MULTILINE)
    nbformat.write(notebook, path)
