"""One notebook in JupyterLab in a real browser: open it, run it, look at its outputs, ask its kernel."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, WebSocket

from tests.browser.server import Server

LOCAL = re.compile(r"^(https?|wss?)://127\.0\.0\.1[:/]|^(data|blob|about|chrome-error):")
SECONDS, KERNEL_SECONDS = 30.0, 120.0  # for the page, and for what waits for a kernel
# What JupyterLab itself writes to the console without anything being wrong with the notebook. The last one comes of its
# own switch between themes, now and then; the widgets never call removeChild.
NOISE = re.compile(r"favicon|ResizeObserver loop|Failed to execute 'removeChild' on 'Node'")

# `--expose-app-in-browser` makes the application reachable: steadier than any selector.
PANEL = "window.jupyterapp.shell.currentWidget"
IS_OPEN = "() => { const s = window.jupyterapp?.shell; const w = s?.currentWidget; return !!w?.sessionContext; }"
IS_IDLE = f"""() => {{
  const kernel = {PANEL}.sessionContext.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}}"""
ASK_KERNEL = f"""async (expression) => {{
  const kernel = {PANEL}.sessionContext.session.kernel;
  const request = {{ code: "", silent: true, store_history: false, user_expressions: {{ value: expression }} }};
  const {{ value }} = (await kernel.requestExecute(request).done).content.user_expressions;
  if (value.status !== "ok") throw new Error(`${{value.ename}}: ${{value.evalue}}`);
  return value.data["text/plain"];
}}"""
CODE_CELLS = f"""() => {PANEL}.content.widgets.filter((cell) => cell.model.type === "code").map((cell) => {{
  const outputs = [];
  for (let i = 0; i < cell.model.outputs.length; i++) outputs.push(cell.model.outputs.get(i).toJSON());
  return {{ source: cell.model.sharedModel.source, count: cell.model.executionCount, outputs,
            tags: cell.model.sharedModel.getMetadata("tags") ?? [] }};
}})"""
SOURCES = f"() => {PANEL}.content.widgets.map((cell) => [cell.model.type, cell.model.sharedModel.source])"


@dataclass(frozen=True)
class CodeCell:
    """A code cell as the page has it.

    Args:
        source: its code.
        count: its execution count, ``None`` when it has not run.
        tags: its tags.
        outputs: its outputs, as in a notebook file.
    """

    source: str
    count: int | None
    tags: list[str]
    outputs: list[dict[str, Any]]

    @property
    def errors(self) -> list[str]:
        """What was raised in it."""
        return [f"{out['ename']}: {out['evalue']}" for out in self.outputs if out["output_type"] == "error"]


class Lab:
    """A page with one notebook.

    Args:
        browser: the browser.
        server: the server that has the notebook.
        screenshots: the folder for :meth:`shot`.
    """

    def __init__(self, browser: Browser, server: Server, screenshots: Path) -> None:
        self.server, self.screenshots = server, screenshots
        self.page: Page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.set_default_timeout(SECONDS * 1000)
        self.console: list[str] = []
        self.remote: list[str] = []
        self.received_bytes = 0
        self._watch()

    def _watch(self) -> None:
        """Note errors on the console, block and note what leaves this machine, count what the kernel sends."""
        page = self.page
        page.on("console", lambda message: self._note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._note(f"uncaught: {error}"))
        page.on("request", lambda request: None if LOCAL.match(request.url) else self.remote.append(request.url))
        page.route(lambda url: not LOCAL.match(url), lambda route: route.abort())

        def on_socket(socket: WebSocket) -> None:
            socket.on("framereceived", self._count)

        page.on("websocket", on_socket)

    def _note(self, text: str) -> None:
        if not NOISE.search(text):
            self.console.append(text[:500])

    def _count(self, payload: str | bytes) -> None:
        self.received_bytes += len(payload)

    def js(self, function: str, argument: Any = None) -> Any:
        """Call a JavaScript function in the page, with a time limit, which Playwright's own ``evaluate`` lacks."""
        limit = f"new Promise((_, no) => setTimeout(() => no(Error('timed out in the page')), {KERNEL_SECONDS * 1000}))"
        return self.page.evaluate(f"(argument) => Promise.race([({function.strip()})(argument), {limit}])", argument)

    # --- the notebook ------------------------------------------------------------------------------------------------

    def open(self, notebook: str) -> None:
        """Open a notebook and wait until its kernel is idle."""
        self.page.goto(self.server.address(notebook), wait_until="domcontentloaded")
        self.page.wait_for_function(IS_OPEN, timeout=KERNEL_SECONDS * 1000)
        self.page.wait_for_function(IS_IDLE, timeout=KERNEL_SECONDS * 1000)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands and wait for it."""
        self.js(f"(args) => window.jupyterapp.commands.execute({name!r}, args).then(() => null)", arguments)

    def run_all(self) -> None:
        """Run all cells; the first one that raises ends the run."""
        self.command("notebook:run-all-cells")
        self.settle()

    def settle(self, seconds: float = 0.3) -> None:
        """Wait until the kernel is idle and what it sent is painted."""
        self.page.wait_for_function(IS_IDLE, timeout=KERNEL_SECONDS * 1000)
        self.js("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(null))))")
        self.page.wait_for_timeout(seconds * 1000)

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme: ``"light"`` or ``"dark"``."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name.title()}")
        light = "true" if name == "light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")

    def close(self) -> None:
        """End the kernel and the page."""
        try:
            self.js(f"() => {PANEL}.sessionContext.shutdown().then(() => null)")
        finally:
            self.page.close()

    # --- what is in it -----------------------------------------------------------------------------------------------

    def code_cells(self) -> list[CodeCell]:
        """The code cells, with their outputs."""
        return [CodeCell(**cell) for cell in self.js(CODE_CELLS)]

    def sources(self) -> list[list[str]]:
        """Type and source of every cell, to see that nothing has changed them."""
        found: list[list[str]] = self.js(SOURCES)
        return found

    def active_cell(self) -> int:
        """The index of the cell that JupyterLab's commands would act on."""
        return int(self.js(f"() => {PANEL}.content.activeCellIndex"))

    def output(self, index: int) -> Locator:
        """The outputs of a code cell."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index).locator(".jp-Cell-outputArea")

    def widget(self, name: str, nth: int = 0) -> Locator:
        """A widget of ours, scrolled into view and painted."""
        found = self.page.locator(f'[data-rlnb="{name}"]').nth(nth)
        found.scroll_into_view_if_needed()
        self.page.locator(f'[data-rlnb="{name}"][data-ready="1"]').nth(nth).wait_for()
        return found

    def kernel(self, expression: str) -> str:
        """Evaluate an expression in the kernel, without a cell.

        Returns:
            Its ``repr``.
        """
        return str(self.js(ASK_KERNEL, expression))

    def wait_attribute(self, locator: Locator, name: str, old: str | None, seconds: float = 10.0) -> str:
        """Wait until an attribute is no longer ``old``.

        Returns:
            The new value.

        Raises:
            AssertionError: when it stays.
        """
        until = time.monotonic() + seconds
        while (value := locator.get_attribute(name)) == old or value is None:
            assert time.monotonic() < until, f"{name} stayed {old!r}"
            self.page.wait_for_timeout(20)
        return value

    def shot(self, name: str, locator: Locator | None = None) -> Path:
        """Take a picture of the page, or of a part of it."""
        path = self.screenshots / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        (locator or self.page).screenshot(path=str(path))
        return path
