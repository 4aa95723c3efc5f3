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
# The page notes how long each of its frames took while the pointer drags.
RECORD = """() => {
    window.gaps = []; let last = performance.now();
    const note = (now) => { window.gaps.push(now - last); last = now; requestAnimationFrame(note); };
    requestAnimationFrame(note);
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
        box = page.locator('[data-rlnb="rollout-player"] canvas').last.bounding_box()
        assert box is not None
        height = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.3 * box["width"], height)
        page.mouse.down()
        page.evaluate(RECORD)
        for i in range(200):
            page.mouse.move(box["x"] + (0.3 + 0.69 * i / 199) * box["width"], height)
        gaps = sorted(page.evaluate("window.gaps"))
        page.mouse.up()
        step = int(page.locator('[data-rlnb="rollout-player"]').get_attribute("data-t") or 0)
        size = page_file.stat().st_size
        browser.close()
    reached = "reached" if built + opened < 1 else "NOT REACHED"
    print(f"RolloutPlayer of {STEPS:,} steps: page of {size / 1e3:,.0f} kB")
    print(f"  built in {built:.2f} s, open in the browser {opened:.2f} s later (below 1 s together) {reached}")
    median, worst = gaps[len(gaps) // 2], gaps[-1]
    print(f"  a drag to step {step:,}: {median:.0f} ms a frame, {worst:.0f} ms at worst, without Python")


if __name__ == "__main__":
    main()
