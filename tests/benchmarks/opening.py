"""Times the opening and the scrubbing of a 10,000-step RolloutPlayer in a real browser, from its own HTML file."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright
from rlnb_widgets import RolloutPlayer

from rlnb.envs import GymEnv

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "browser"))
from chromium import FLAGS, find_chromium

STEPS = 10_000
FRAMES = """async (moves) => {
    const box = document.querySelector('[data-rlnb="rollout-player"]');
    const canvas = box.querySelector('canvas'), at = canvas.getBoundingClientRect(), gaps = [];
    const canvases = [...box.querySelectorAll('canvas')];
    const strips = canvases[canvases.length - 1], rect = strips.getBoundingClientRect();
    const say = (kind, x) => strips.dispatchEvent(new PointerEvent(kind, {bubbles: true, pointerId: 1, button: 0,
        buttons: 1, clientX: rect.left + x, clientY: rect.top + rect.height / 2}));
    let last = performance.now();
    say('pointerdown', rect.width * 0.4);
    for (let i = 0; i < moves; i++) {
        say('pointermove', rect.width * (0.4 + 0.5 * i / moves));
        await new Promise(requestAnimationFrame);
        const now = performance.now(); gaps.push(now - last); last = now;
    }
    say('pointerup', rect.width * 0.9);
    gaps.sort((a, b) => a - b);
    return {median: gaps[gaps.length >> 1], worst: gaps[gaps.length - 1], t: Number(box.dataset.t)};
}"""


def main() -> None:
    """Print the times."""
    browser_path = find_chromium()
    if browser_path is None:
        print("RolloutPlayer in a browser: not measured, no Chromium was found (CHROMIUM names one)")
        return
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    rollout = env.rollout(STEPS, break_when_any_done=False)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        start = time.perf_counter()
        page_file = pathlib.Path(folder, "player.html")
        RolloutPlayer(rollout, env).to_html(page_file)
        built = time.perf_counter() - start
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        page = browser.new_page()
        page.goto("about:blank")
        start = time.perf_counter()
        page.goto(page_file.as_uri(), wait_until="commit")
        page.wait_for_selector('[data-rlnb="rollout-player"][data-ready="1"]')
        opened = time.perf_counter() - start
        drag = page.evaluate(FRAMES, 120)
        size = page_file.stat().st_size
        browser.close()
    reached = "reached" if built + opened < 1 else "NOT REACHED"
    print(f"RolloutPlayer of {STEPS:,} steps: page of {size / 1e3:,.0f} kB")
    print(f"  built in {built:.2f} s, open in the browser {opened:.2f} s later (below 1 s together) {reached}")
    print(
        f"  a drag to step {drag['t']:,}: {drag['median']:.0f} ms a frame, {drag['worst']:.0f} ms at worst, no Python"
    )


if __name__ == "__main__":
    main()
