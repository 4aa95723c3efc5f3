"""Forked kernels: Jupyter starts, interrupts, shuts down and kills them like any others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from jupyter_client.manager import start_new_kernel

from tests.warm_kernel import ADDRESS, serve_kernels

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module", autouse=True)
def served(missing: Callable[..., NoReturn]) -> Iterator[None]:
    if sys.platform != "linux":
        missing("forked kernels", "they are for Linux alone", optional=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", "")
        patch.setenv(ADDRESS, "")
        end = serve_kernels()
        time.sleep(1)  # until it listens
        yield
        end()


@contextmanager
def kernel() -> Iterator[tuple[Any, Any, int]]:
    """A kernel with a client, and the id of its process."""
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
    try:
        yield manager, client, int(said(client, "import os; print(os.getpid(), end='')"))
    finally:
        manager.shutdown_kernel(now=True)
        client.stop_channels()


def said(client: Any, code: str) -> str:
    texts: list[str] = []
    client.execute_interactive(code, output_hook=lambda m: texts.append(m["content"].get("text", "")), timeout=60)
    return "".join(texts)


def is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def ends(pid: int) -> bool:
    until = time.monotonic() + 10
    while is_there(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_there(pid)


def test_it_has_imported_the_library_and_runs_in_its_folder_with_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("SAID", "hello")
    monkeypatch.chdir(tmp_path)
    with kernel() as (_, client, _):
        assert said(client, "import sys; print('rlnb.search' in sys.modules, os.environ['SAID'])") == "True hello\n"
        assert said(client, "print(os.getcwd())").strip() == str(tmp_path)
        (tmp_path / "beside.py").write_text("x = 5")
        assert said(client, "import beside; print(beside.x)") == "5\n"


def test_one_kernel_knows_nothing_of_another() -> None:
    with kernel() as (_, client, one):
        said(client, "import rlnb; rlnb.mine = 1")
    with kernel() as (_, client, two):
        assert one != two and said(client, "import rlnb; print(hasattr(rlnb, 'mine'))") == "False\n"


def test_an_interrupt_reaches_it() -> None:
    with kernel() as (manager, client, _):
        # with stop_on_error, a kernel aborts what is sent before it has finished with the failed cell
        client.execute("import time; time.sleep(1000)", stop_on_error=False)
        time.sleep(0.3)
        manager.interrupt_kernel()
        assert client.get_shell_msg(timeout=60)["content"]["ename"] == "KeyboardInterrupt"
        assert said(client, "print('goes on')") == "goes on\n"


def test_it_ends_when_asked_and_when_jupyter_kills_what_it_started() -> None:
    with kernel() as (manager, client, pid):
        manager.shutdown_kernel()
        assert ends(pid)
    with kernel() as (manager, client, pid):
        client.execute("while True: pass")
        manager.shutdown_kernel(now=True)
        assert ends(pid)
