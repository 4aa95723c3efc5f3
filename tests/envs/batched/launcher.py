"""A process that runs scripts in forks of itself, so that they need not import torch and rlnb again.

It reads one request a line from its standard input: the paths of a script, of a file for what it prints and of one for
its errors, and whether the script is to know its file, as JSON. For each it writes two lines: the id of the fork, which
leads a session of its own, and how it ended, as :func:`os.waitstatus_to_exitcode` tells it. The fork runs the script as
``__main__`` and ends as Python does.
"""

from __future__ import annotations

import gc
import json
import linecache
import os
import sys
import types

import gymnasium.envs.classic_control  # noqa: F401 - for the scripts, as the next one

import tests.envs.batched.kinds  # noqa: F401


def become(path: str, out: str, err: str) -> None:
    """Turn this fork into a process that has just been started with a script."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for descriptor, name in ((1, out), (2, err)):
        file = os.open(name, os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    os.close(null)
    sys.argv, sys.path[0] = [path], os.path.dirname(path)
    linecache.clearcache()


def main() -> tuple[str, bool] | None:
    """Serve requests; return a path and whether it is known in a fork that is to run it, and nothing at the end."""
    gc.freeze()  # or each fork, at its end, would visit all that was imported, for a second and a half
    for line in sys.stdin:
        *paths, named = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become(*paths)
            return paths[0], named
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    if (request := main()) is not None:
        script, named = request
        module = types.ModuleType("__main__")
        if named:
            module.__file__ = script
        sys.modules["__main__"] = module
        with open(script, encoding="utf-8") as source:
            code = compile(source.read(), script if named else "<stdin>", "exec")
        exec(code, module.__dict__)
