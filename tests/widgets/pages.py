"""Helpers of all page tests: waiting until a page shows the result of an action."""

from __future__ import annotations

import time

# An input is handled when Playwright's call returns. Then a widget paints in the next frame, and the frame after that
# where a first one changed its size; a callback of the third comes after both, however slow the machine is.
FRAMES = """() => new Promise((go) => {
  let left = 3;
  const next = () => { if (left) { left -= 1; requestAnimationFrame(next); } else go(null); };
  next();
})"""


def settle(page):
    """Wait until the page shows what was done to it."""
    page.evaluate(FRAMES)


def wait_until(page, function, argument=None, seconds=20):
    """Wait until a function of the page is true. Playwright's own wait needs ``eval``, which some pages forbid."""
    until = time.monotonic() + seconds
    while not page.evaluate(function, argument):
        assert time.monotonic() < until, f"{function} stayed false"
        page.wait_for_timeout(20)
