"""Runs a script in its own process group, and checks that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

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
    """Tell what lies in shared memory, apart from what belongs to processes that are alive.

    Torch puts the id of the process into a name. Semaphores are left out: rlnb has none, and others may come and go.
    """
    found = set()
    for name in os.listdir("/dev/shm"):
        pid = name.split("_")[1] if name.startswith("torch_") else ""
        if not name.startswith("sem.") and not (pid.isdigit() and os.path.exists(f"/proc/{pid}")):
            found.add(name)
    return found


def run(
    tmp_path: pathlib.Path,
    script: str,
    *,
    limit: float = 60,
    code: int | None = 0,
    gone_within: float = 10.0,
    head: str = HEAD,
) -> Ran:
    """Run a script in a session of its own; it must end in time, and so must all that it started.

    Args:
        tmp_path: for the script.
        script: its text.
        limit: seconds until it is killed.
        code: with which it must end; None for any.
        gone_within: seconds after its end, within which all processes of its group must have ended.
        head: what stands before the text.

    Returns:
        What it printed.
    """
    path = tmp_path / "script.py"
    path.write_text(head.format(limit=limit) + script)
    before = in_memory()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, str(path)], stdout=out, stderr=err, start_new_session=True, env=environ
        )
        try:
            process.wait(limit + 5)
            until = time.monotonic() + gone_within
            while (left := members(process.pid)) and time.monotonic() < until:
                time.sleep(0.02)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        ran = Ran(*(pathlib.Path(file.name).read_text() for file in (out, err)), process.returncode)
    assert left == [], f"still running {gone_within} s after the script: {left}\n{ran.out}\n{ran.err}"
    assert code is None or ran.code == code, f"ended with {ran.code}\n{ran.out}\n{ran.err}"
    assert in_memory() <= before, in_memory() - before
    return ran
