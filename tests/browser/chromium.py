"""Find a Chromium or Chrome, and the options that make it start anywhere and stay offline."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PATHS = (
    "/usr/bin/chromium",
    "/snap/bin/chromium",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
FEATURES = (
    "Translate",
    "OptimizationHints",
    "MediaRouter",
    "PaintHolding",
    "RenderDocument",
    "SpareRendererForSitePerProcess",  # a process that is started for the next page takes a fifth of the time of each
)
FLAGS = (
    "--no-sandbox",  # root, as in containers, cannot have one
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(FEATURES)}",
    "--force-color-profile=srgb",
)


def find_chromium() -> str | None:
    """The browser to use: ``CHROMIUM`` if set, else the first of the usual names and paths."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named if Path(named).is_file() else shutil.which(named)
    on_path = (shutil.which(name) for name in NAMES)
    return next((found for found in on_path if found), None) or next((p for p in PATHS if Path(p).is_file()), None)
