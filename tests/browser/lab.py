"""A notebook in JupyterLab in a real browser: open it, run it, read its outputs, query its kernel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page, Request

from tests.browser.server import Server

LOCAL = re.compile(r"^(https?|wss?)://127\.0\.0\.1[:/]|^(data|blob|about|chrome-error):")
SECONDS, KERNEL_SECONDS = 30.0, 240.0  # for the page, and for what waits for a kernel
# What JupyterLab itself writes to the console without anything being wrong with the notebook. The last one comes of its
# own switch between themes, now and then; the widgets never call removeChild.
NOISE = re.compile(r"favicon|ResizeObserver loop|Failed to execute 'removeChild' on 'Node'")

# `--expose-app-in-browser` makes the application reachable: steadier than any selector.
PANEL = "window.jupyterapp.shell.currentWidget"
IS_OPEN = "(path) => { const w = window.jupyterapp?.shell?.currentWidget; return w?.context?.path === path; }"
IS_IDLE = f"""() => {{
  const kernel = {PANEL}.sessionContext.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}}"""
CLOSE = f"""async () => {{
  const panel = {PANEL};
  await panel.sessionContext.shutdown();
  panel.dispose();
  return null;
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


def new_page(browser: Browser) -> Page:
    """A page that reaches nothing outside of this machine."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(SECONDS * 1000)
    page.route(lambda url: not LOCAL.match(url), lambda route: route.abort())
    return page


class Lab:
    """A page with one notebook.

    Args:
        page: the page: a new one, or one in which JupyterLab runs and no notebook is open.
        server: the server that has the notebook.
        screenshots: the folder for :meth:`shot`.
        release: what takes the page back when the notebook has been closed; None closes the page.
    """

    def __init__(
        self, page: Page, server: Server, screenshots: Path, release: Callable[[Page], None] | None = None
    ) -> None:
        self.page, self.server, self.screenshots, self._release = page, server, screenshots, release
        self.console: list[str] = []
        self.remote: list[str] = []
        self._listeners = {"console": self._on_console, "pageerror": self._on_error, "request": self._on_request}
        for event, listener in self._listeners.items():
            page.on(event, listener)  # type: ignore[call-overload]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(message.text)

    def _on_error(self, error: Error) -> None:
        self._note(f"uncaught: {error}")

    def _on_request(self, request: Request) -> None:
        if not LOCAL.match(request.url):
            self.remote.append(request.url)

    def _note(self, text: str) -> None:
        if not NOISE.search(text):
            self.console.append(text[:500])

    def js(self, function: str, argument: Any = None) -> Any:
        """Call a JavaScript function in the page, with a time limit, which Playwright's own ``evaluate`` lacks."""
        limit = f"new Promise((_, no) => setTimeout(() => no(Error('timed out in the page')), {KERNEL_SECONDS * 1000}))"
        return self.page.evaluate(f"(argument) => Promise.race([({function.strip()})(argument), {limit}])", argument)

    # --- the notebook ------------------------------------------------------------------------------------------------

    def open(self, notebook: str) -> None:
        """Open a notebook and wait until its kernel is idle."""
        if self.page.url == "about:blank":
            self.page.goto(self.server.address(notebook), wait_until="domcontentloaded")
        else:
            self.command("docmanager:open", path=notebook)
        self._wait(IS_OPEN, notebook)
        self._wait(IS_IDLE)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")

    def _wait(self, function: str, argument: Any = None) -> None:
        """Wait until a function of the page is true, without a frame for each time that it is asked."""
        self.page.wait_for_function(function, arg=argument, polling=50, timeout=KERNEL_SECONDS * 1000)

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands and wait for it."""
        self.js(f"(args) => window.jupyterapp.commands.execute({name!r}, args).then(() => null)", arguments)

    def run_all(self) -> None:
        """Run all cells; the first one that raises ends the run."""
        self.command("notebook:run-all-cells")
        self.settle()

    def settle(self, seconds: float = 0.3) -> None:
        """Wait until the kernel is idle and what it sent is painted."""
        self._wait(IS_IDLE)
        self.js("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(null))))")
        self.page.wait_for_timeout(seconds * 1000)

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme: ``"light"`` or ``"dark"``."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name.title()}")
        light = "true" if name == "light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")

    def change_theme(self) -> None:
        """Change to the theme that is not shown now, and wait until the page is painted in it."""
        light = self.page.locator("body").get_attribute("data-jp-theme-light") == "true"
        self.theme("dark" if light else "light")
        self.settle()

    def close(self) -> None:
        """End the kernel, close the notebook without saving it, and give the page back."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        try:
            self.js(CLOSE)
        except Error:
            self.page.close()
            raise
        if self._release is None:
            self.page.close()
        else:
            self._release(self.page)

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

    def expect_kernel(self, expression: str, expected: str, seconds: float = 10.0) -> None:
        """Wait until an expression has a value in the kernel: a page may send the last of many changes a moment later.

        Raises:
            AssertionError: when it has another value.
        """
        until = time.monotonic() + seconds
        while (value := self.kernel(expression)) != expected:
            assert time.monotonic() < until, f"{expression} is {value}, not {expected}"
            self.page.wait_for_timeout(20)

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

    def shot(self, name: str) -> None:
        """Take a picture of the page."""
        self.screenshots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(self.screenshots / f"{name}.png"))
