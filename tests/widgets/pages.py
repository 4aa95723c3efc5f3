"""What the tests of all pages share: waiting until a page shows what was done to it."""

from __future__ import annotations

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
