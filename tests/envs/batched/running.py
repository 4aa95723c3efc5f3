"""Runs a script in its own process group, and checks that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, NamedTuple

from tests.warm_kernel import ADDRESS

HEAD = """
import faulthandler, os, signal, sys, threading, time
faulthandler.dump_traceback_later({limit}, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Interrupts
import torch
from rlnb.envs import CartPoleEnv, EnvCreator, GymEnv, ParallelEnv, PendulumEnv, SerialEnv
from tests.envs.batched.kinds import Counter

def says(call, *errors):
    try:
        call()
    except errors as error:
        return f"{{type(error).__name__}}: {{error}}".partition("\\n")[0]
    return "nothing was raised"
"""


@dataclass
class Ran:
    """What a script printed, and how it ended."""

    out: str
    err: str
    code: int

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def members(group: int) -> list[str]:
    """Tell which processes of a group are alive, by name."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        state, _parent, its_group, *_ = rest.split()
        if int(its_group) == group and state not in "ZX":
            found.append(name)
    return found


def in_memory() -> set[str]:
    """Tell what torch and multiprocessing have in shared memory, apart from what belongs to processes that are alive.

    Torch puts the id of the process into a name. Semaphores are left out, which rlnb does not use, and so are the files
    of other programs of this machine: both come and go.
    """
    found = set()
    for name in os.listdir("/dev/shm"):
        pid = name.split("_")[1] if name.startswith("torch_") else ""
        if name.startswith(("torch_", "psm_", "rlnb")) and not (pid.isdigit() and os.path.exists(f"/proc/{pid}")):
            found.add(name)
    return found


class Launcher(NamedTuple):
    """A process that runs scripts; see ``launcher.py``."""

    requests: IO[bytes]
    answers: IO[bytes]
    process: subprocess.Popen[bytes] | None  # if this one started it


@functools.cache
def launcher(pid: int) -> Launcher:
    """Start the process that runs the scripts of this one: a fork of the warm process, if there is one.

    It ends with its input.
    """
    module = ["-m", "tests.envs.batched.launcher"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if address := os.environ.get(ADDRESS):
        channel = socket.socket(socket.AF_UNIX)
        channel.connect(address)
        channel.sendall(json.dumps([module, os.getcwd(), environ]).encode() + b"\n")
        file = channel.makefile("rwb", buffering=0)
        return Launcher(file, file, None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, *module], bufsize=0, env=environ, **pipes)
    return Launcher(process.stdin, process.stdout, process)


def read_number(file: IO[bytes], seconds: float | None = None) -> int | None:
    """Read a line with a number; None if there is none in time."""
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        return int(file.readline()) if selector.select(seconds) else None


def run(
    tmp_path: pathlib.Path,
    script: str,
    *,
    limit: float = 60,
    code: int | None = 0,
    gone_within: float = 30.0,
    head: str = HEAD,
    named: bool = True,
) -> Ran:
    """Run a script in a session of its own; it must end in time, and so must all that it started.

    Args:
        tmp_path: for the script.
        script: its text.
        limit: seconds until it is killed.
        code: with which it must end; None for any.
        gone_within: seconds after its end, within which all processes of its group must have ended.
        head: what stands before the text.
        named: whether the script has a file, as far as it knows; what a notebook defines has none.

    Returns:
        What it printed.
    """
    path, out, err = (tmp_path / name for name in ("script.py", "out", "err"))
    path.write_text(head.format(limit=limit) + script)
    out.touch()
    err.touch()
    before = in_memory()
    runner = launcher(os.getpid())
    runner.requests.write(json.dumps([str(path), str(out), str(err), named]).encode() + b"\n")
    group = read_number(runner.answers)
    ended, left = None, []
    try:
        ended = read_number(runner.answers, limit + 5)
        until = time.monotonic() + gone_within
        while (left := members(group)) and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        if ended is None:
            read_number(runner.answers)
    ran = Ran(out.read_text(), err.read_text(), ended)
    assert ended is not None, f"it ran for more than {limit + 5} s\n{ran.out}\n{ran.err}"
    assert left == [], f"still running {gone_within} s after the script: {left}\n{ran.out}\n{ran.err}"
    assert code is None or ran.code == code, f"ended with {ran.code}\n{ran.out}\n{ran.err}"
    assert in_memory() <= before, in_memory() - before
    return ran
