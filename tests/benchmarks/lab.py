"""Times `make lab`: from the command to the welcome notebook, open in a browser with its kernel idle."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "browser"))
from chromium import FLAGS, find_chromium
from server import free_port

ROOT = pathlib.Path(__file__).parents[2]

IDLE = """() => {
    const kernel = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""


def main() -> None:
    """Print the time."""
    browser_path = find_chromium()
    if browser_path is None:
        print("make lab: not measured, no Chromium was found (CHROMIUM names one)")
        return
    port = free_port()
    options = f"--no-browser --port={port} --IdentityProvider.token=bench --expose-app-in-browser"
    address = f"http://127.0.0.1:{port}"
    fresh = not (ROOT / ".venv" / ".stamp").exists()
    start = time.perf_counter()
    server = subprocess.Popen(
        ["make", "lab", f"LAB={options}"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        while True:
            if server.poll() is not None:
                sys.exit(f"make lab ended with {server.returncode}")
            try:
                urllib.request.urlopen(f"{address}/api", timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
            page = browser.new_page()
            page.goto(f"{address}/lab/tree/00_welcome.ipynb?token=bench&reset", wait_until="domcontentloaded")
            page.wait_for_function(IDLE, timeout=120_000)
            seconds = time.perf_counter() - start
            browser.close()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    limit = 180 if fresh else 10
    word = "reached" if seconds <= limit else "NOT REACHED"
    print(f"make lab to an idle welcome notebook: {seconds:.1f} s (at most {limit}) {word}")


if __name__ == "__main__":
    main()
