"""A JupyterLab server for the tests: on 127.0.0.1, with isolated settings."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
}


@dataclass(frozen=True)
class Server:
    """Where a running server is.

    Args:
        url: its address, without a slash at the end.
        token: what it asks for.
        root: the folder that it serves.
    """

    url: str
    token: str
    root: Path

    def address(self, notebook: str) -> str:
        """The page of a notebook, in a workspace that remembers nothing."""
        return f"{self.url}/lab/tree/{notebook}?token={self.token}&reset"


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def jupyter_server(root: Path) -> Iterator[Server]:
    """Run a server over a folder; end it, its kernels and its settings afterwards.

    Args:
        root: the folder to serve.

    Yields:
        The server, which answers.

    Raises:
        RuntimeError: when it does not start; its log is in the message.
    """
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        for name, settings in SETTINGS.items():
            path = state / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(settings))
        server = Server(f"http://127.0.0.1:{free_port()}", secrets.token_hex(16), root)
        log = state / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(server, state), stdout=output, stderr=subprocess.STDOUT, env=environment(state)
            )
        try:
            wait_until_it_answers(server, process, log)
            yield server
        finally:
            end(server, process)


def command(server: Server, state: Path) -> list[str]:
    """The command line of the server."""
    options = [
        "--no-browser",
        "--ip=127.0.0.1",
        f"--port={server.url.rpartition(':')[2]}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={server.token}",
        f"--ServerApp.root_dir={server.root}",
        f"--LabApp.user_settings_dir={state / 'settings'}",
        f"--LabApp.workspaces_dir={state / 'workspaces'}",
        "--expose-app-in-browser",
    ]
    if getattr(os, "geteuid", lambda: 1)() == 0:
        options.append("--allow-root")
    return [sys.executable, "-m", "jupyter", "lab", *options]


def environment(state: Path) -> dict[str, str]:
    """The environment of the server and its kernels: no settings of the user's, one thread, no display.

    Temporary files too have a folder of their own, so that nothing that cleans the shared one breaks a lesson. Its path
    is short, since the fork server's socket is in it, and the path of a socket has about 100 bytes.
    """
    temporary = state / "t"
    temporary.mkdir()
    own = {f"JUPYTER_{kind}_DIR": str(state / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    quiet = {"OMP_NUM_THREADS": "1", "SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    return {
        **os.environ,
        **own,
        **quiet,
        "IPYTHONDIR": str(state / "ipython"),
        "XDG_RUNTIME_DIR": str(state),
        "TMPDIR": str(temporary),
    }


def wait_until_it_answers(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Poll until the server answers."""
    end_time = time.monotonic() + START_SECONDS
    while time.monotonic() < end_time and process.poll() is None:
        with suppress(OSError):
            urllib.request.urlopen(f"{server.url}/api?token={server.token}", timeout=2).read()
            return
        time.sleep(0.05)
    raise RuntimeError(f"JupyterLab did not start (exit status {process.poll()}):\n{log.read_text(errors='replace')}")


def end(server: Server, process: subprocess.Popen[bytes]) -> None:
    """Ask the server to stop, which stops its kernels on every platform; insist if it does not."""
    request = urllib.request.Request(f"{server.url}/api/shutdown", method="POST", data=b"")
    request.add_header("Authorization", f"token {server.token}")
    with suppress(OSError, urllib.error.HTTPError):
        urllib.request.urlopen(request, timeout=5).read()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Copy a folder of notebooks, so that no test can change the original.

    Args:
        folder: the folder with the notebooks.

    Yields:
        The copy.
    """
    with tempfile.TemporaryDirectory(prefix="rlnb-notebooks-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"))
        yield copy
