"""Specimens: one page for each visualizer on small data, for people to look at and for tests to check.

    python -m tests.browser.specimens [NAME ...]

photographs them in light and dark, at three widths, into ``screenshots/specimens``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from playwright.sync_api import Browser, Page, sync_playwright
from rlnb_widgets import (
    BatchedEnvTimeline,
    BufferExplorer,
    RolloutPlayer,
    SpecExplorer,
    TEDExplorer,
    TransformInspector,
    TreeExplorer,
    Visualizer,
    play,
)
from tensordict import TensorDictBase

from rlnb.data import LazyTensorStorage, PrioritizedSampler, TensorDictReplayBuffer
from rlnb.envs import (
    CartPoleEnv,
    Compose,
    GymEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TicTacToeEnv,
    TransformedEnv,
)
from rlnb.search import MCTS
from tests.browser.chromium import FLAGS, find_chromium
from tests.widgets import displays, displays_monitor
from tests.widgets.pages import settle

WIDTHS = (480, 680, 1280)
THEMES = ("light", "dark")
_MARGIN = 16  # of the page, at each side


def _cartpole(steps: int = 80) -> TensorDictBase:
    env = GymEnv("CartPole-v1", max_episode_steps=40)
    env.set_seed(0)
    return env.rollout(steps, break_when_any_done=False)


def _ted() -> TEDExplorer:
    env = CartPoleEnv(batch_size=[3])
    env.set_seed(0)
    return TEDExplorer(env.rollout(40, break_when_any_done=False), spec=env.full_observation_spec)


def _chain() -> TransformInspector:
    return TransformInspector(TransformedEnv(CartPoleEnv(), Compose(StepCounter(), RewardSum())), seed=0, steps=3)


def _short() -> GymEnv:
    return GymEnv("CartPole-v1", max_episode_steps=6)


def _timeline() -> BatchedEnvTimeline:
    with SerialEnv(4, _short) as env:
        env.set_seed(0)
        with env.tracing() as trace:
            env.rollout(40, break_when_any_done=False)
    return BatchedEnvTimeline(serial=trace, parallel=displays.trace_of_batch(40, 4))


def _buffer() -> BufferExplorer:
    torch.manual_seed(0)
    sampler = PrioritizedSampler(64, alpha=0.7, beta=0.5)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(64), sampler=sampler, batch_size=8)
    explorer = BufferExplorer(buffer)
    for _ in range(4):
        explorer.extend(_cartpole(30))
        batch = explorer.sample()
        explorer.update_priority(batch["index"], torch.linspace(0.1, 2.0, 8))
    return explorer


def _tree() -> TreeExplorer:
    search = MCTS(TicTacToeEnv(), seed=0)
    search.reset()
    search.run(60)
    return TreeExplorer(search)


#: Name to a function that makes a visualizer.
SPECIMENS: dict[str, Callable[[], Visualizer]] = {
    "rollout_player": lambda: RolloutPlayer(_cartpole(), env="CartPole-v1"),
    "ted_explorer": _ted,
    "spec_explorer": lambda: SpecExplorer(GymEnv("CartPole-v1")),
    "transform_inspector": _chain,
    "batched_timeline": _timeline,
    "collectors_timeline": lambda: displays.collectors(12, 3),
    "buffer_explorer": _buffer,
    "tree_explorer": _tree,
    "training_monitor": displays_monitor.monitor,
    "game": lambda: play(TicTacToeEnv()),
}


def opened(page: Page, path: Path) -> None:
    """Open the page of a specimen and wait until it is drawn."""
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("[data-rlnb][data-ready='1']", timeout=20_000)
    settle(page)


def photograph(browser: Browser, folder: Path, names: list[str]) -> None:
    """Write the pages and photographs of some specimens into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.html"
        SPECIMENS[name]().to_html(path)
        for theme in THEMES:
            for width in WIDTHS:
                size = {"width": width + 2 * _MARGIN, "height": 560}
                page = browser.new_page(viewport=size, color_scheme=theme)
                opened(page, path)
                page.wait_for_timeout(150)  # pictures are decoded meanwhile
                page.screenshot(path=folder / f"{name}_{width}_{theme}.png", full_page=True)
                page.close()
        print(path)


if __name__ == "__main__":
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        photograph(chromium, Path("screenshots/specimens"), sys.argv[1:] or list(SPECIMENS))
