"""Kernels forked from one process that has imported the library, which saves each of them five seconds.

Jupyter finds a kernel ``python3`` that connects to this process, and waits for the end of the kernel that is forked.
What runs the scripts of tests is forked from it as well; see ``tests/envs/batched/running.py``.
"""

from __future__ import annotations

import json
import os
import socket
import sys

ADDRESS = "RLNB_WARM_PROCESS"  # in the environment of the processes that test: where this one listens


def serve_kernels():
    """Start the process, for this one and those that it starts. Returns a function that ends it."""
    import subprocess
    import tempfile
    from pathlib import Path

    folder = tempfile.TemporaryDirectory(prefix="kernels-")
    address = f"{folder.name}/socket"
    spec = Path(folder.name, "kernels", "python3", "kernel.json")
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-I", "-S", __file__, address, "-f", "{connection_file}"]
    named = {"display_name": "Python 3 (ipykernel)", "language": "python"}
    # An interrupt is sent as a message: a signal would reach the process that waits.
    spec.write_text(json.dumps({"argv": command, **named, "interrupt_mode": "message"}))
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, (folder.name, os.environ.get("JUPYTER_PATH"))))
    os.environ[ADDRESS] = address
    server = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.DEVNULL)

    def end():
        server.terminate()
        server.wait()
        folder.cleanup()

    return end


def wait_for_kernel(address: str, arguments: list[str]) -> None:
    """Have a kernel forked and wait until it ends; where nobody answers, become one."""
    with socket.socket(socket.AF_UNIX) as channel:
        try:
            channel.connect(address)
        except OSError:
            os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", *arguments])
        channel.sendall(json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode() + b"\n")
        channel.recv(1)


def serve(address: str) -> None:
    """Import, and fork a kernel for everybody who connects."""
    import gc
    import signal

    del sys.path[0]  # the folder of this file, which no kernel has
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        import ipykernel.kernelapp
        import plotly.graph_objects  # noqa: F401
        import rlnb_widgets

        import rlnb.collectors
        import rlnb.objectives
        import rlnb.search  # noqa: F401

        for name in rlnb_widgets.__all__:
            getattr(rlnb_widgets, name)
        gc.collect()
        gc.freeze()  # or each fork, at its end, would visit all that was imported, for a second and a half
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a kernel that has ended
        while True:
            channel, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                with channel.makefile("rb", buffering=0) as file:  # what follows the line is for the module
                    arguments, *place = json.loads(file.readline())
                if arguments[0] == "-m":
                    run_module(channel, arguments[1], *place)
                    return
                begin(channel, *place)
                sys.exit(ipykernel.kernelapp.launch_new_instance(arguments))
            channel.close()


def move(folder: str, environment: dict[str, str]) -> None:
    """Have the folder and the environment of the process that asks."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def run_module(channel: socket.socket, name: str, folder: str, environment: dict[str, str]) -> None:
    """Run a module, whose input and output the channel becomes, as ``python -m`` does."""
    import runpy

    move(folder, environment)
    sys.path[:0] = ["", *environment["PYTHONPATH"].split(os.pathsep)]
    for descriptor in (0, 1):
        os.dup2(channel.fileno(), descriptor)
    channel.close()
    runpy.run_module(name, run_name="__main__")


def begin(channel: socket.socket, folder: str, environment: dict[str, str]) -> None:
    """Make this process the one that a kernel expects, which ends with the one that waits."""
    import threading

    def end_with_it() -> None:
        channel.recv(1)
        os._exit(1)

    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what the kernel says of itself
    move(folder, environment)
    threading.Thread(target=end_with_it, daemon=True).start()


if __name__ == "__main__":
    if sys.argv[2:]:
        wait_for_kernel(sys.argv[1], sys.argv[2:])
    else:
        serve(sys.argv[1])
