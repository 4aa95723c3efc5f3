"""Whatever happens to the processes: a clear error, no hang, nothing left behind, and the batch can be used again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.envs.batched.running import in_memory, members, run

METHODS = ["forkserver", "spawn", "fork"]
each_method = pytest.mark.parametrize("method", METHODS)

# A worker does something wrong ----------------------------------------------------------------------------------------


def test_a_worker_that_raises(tmp_path):  # BE-21
    ran = run(
        tmp_path,
        """
def ouch(env):
    raise ValueError("ouch")

def one(**kwargs):
    return [Counter, lambda: Counter(**kwargs), Counter]

for name, kwargs in {"step": {"misbehave": ouch, "at": 1}, "reset": {"at_reset": ouch}}.items():
    env = ParallelEnv(3, one(**kwargs))
    if name == "step":
        env.reset()
    try:
        env.rand_step(env.reset()) if name == "step" else env.reset()
    except RuntimeError as error:
        print(type(error).__name__, str(error).partition(chr(10))[0])
        print("in ouch" in str(error) and "script.py" in str(error), env.is_closed)
    env.close()

def fail():
    raise ValueError("ouch")

env = ParallelEnv(3, [Counter, Counter, fail])
print(says(env.reset, RuntimeError), env.is_closed)
""",
    )
    assert ran.lines == [
        "WorkerError Worker 1 of 3 failed in step: ValueError: ouch",
        "True False",
        "WorkerError Worker 1 of 3 failed in reset: ValueError: ouch",
        "True False",
        "WorkerError: Worker 2 of 3 failed in start: ValueError: ouch True",
    ]
    assert ran.err == ""


def test_several_workers_that_raise(tmp_path):  # BE-21
    ran = run(
        tmp_path,
        """
def ouch(env):
    raise ValueError("ouch")

for options in ({}, {"num_processes": 2}):
    with ParallelEnv(4, lambda: Counter(at=2, misbehave=ouch), **options) as env:
        td = env.rand_step(env.reset())
        print(says(lambda: env.rand_step(env._step_mdp(td)), RuntimeError))
        print(env.rand_step(env.reset())["next", "count"].flatten().tolist())
""",
    )
    first = "WorkerError: Worker 0 of 4 failed in step: ValueError: ouch (workers 1, 2, 3 failed, too)"
    assert ran.lines == [first, "[1.0, 1.0, 1.0, 1.0]"] * 2


ENDS = {
    "killed": (
        "os.kill(os.getpid(), signal.SIGKILL)",
        "was ended by SIGKILL, which is how a system ends a process that takes too much memory",
    ),
    "crashed": (
        "signal.raise_signal(signal.SIGSEGV)",
        "was ended by SIGSEGV: code outside of Python, such as a simulator's, has crashed",
    ),
    "exited": ("os._exit(3)", "ended with exit code 3"),
    "left": ("sys.exit(4)", "ended with exit code 4"),
}


@each_method
@pytest.mark.parametrize("end", ENDS)
def test_a_worker_that_ends(tmp_path, end, method):
    if end in ("crashed", "left") and method != "forkserver":
        pytest.skip("how it ends does not depend on how it began; the other ends stand for all")
    how, text = ENDS[end]
    ran = run(
        tmp_path,
        f"""
def end(env):
    import os, signal, sys
    {how}

env = ParallelEnv(2, [Counter, lambda: Counter(misbehave=end, at=2)], mp_start_method={method!r})
td = env.rand_step(env.reset())
print(says(lambda: env.rand_step(env._step_mdp(td)), RuntimeError))
print(env.is_closed, env.rand_step(env.reset())["next", "count"].flatten().tolist())
env.close()
""",
    )
    assert ran.lines == [
        f"WorkerError: Worker 1 of 2 {text}, in the middle of step. All workers were ended; env.reset() starts new "
        "ones. To see what its env does, run it in this process: SerialEnv in place of ParallelEnv.",
        "True [1.0, 1.0]",
    ]


def test_a_process_of_several_envs_that_ends(tmp_path):
    ran = run(
        tmp_path,
        """
def end(env):
    os._exit(3)

env = ParallelEnv(4, [Counter, Counter, Counter, lambda: Counter(misbehave=end, at=1)], num_processes=2)
td = env.reset()
print(says(lambda: env.rand_step(td), RuntimeError).partition(", in")[0])
def start():
    os._exit(5)
print(says(ParallelEnv(2, [Counter, start]).start, RuntimeError).partition(". ")[0])
def reset(env):
    os.kill(os.getpid(), signal.SIGTERM)
print(says(ParallelEnv(2, [lambda: Counter(at_reset=reset), Counter]).reset, RuntimeError).partition(". ")[0])
env = ParallelEnv(2, Counter)
env.reset()
for process in env._crew.processes:
    process.kill()
    process.join()
print(says(env.reset, RuntimeError).partition(", which")[0])
print(env.reset()["count"].shape[0])
""",
    )
    assert ran.lines == [
        "WorkerError: Workers 2, 3 of 4, which share a process, ended with exit code 3",
        "WorkerError: Worker 1 of 2 ended with exit code 5, in the middle of start",
        "WorkerError: Worker 0 of 2 was ended by SIGTERM, in the middle of reset",
        "WorkerError: Worker 0 of 2 was ended by SIGKILL",
        "2",
    ]


def test_a_worker_that_hangs(tmp_path):
    ran = run(
        tmp_path,
        """
def hang(env):
    time.sleep(1000)

def spin(env):
    while True:
        pass

for misbehave in (hang, spin):
    env = ParallelEnv(3, [Counter, lambda: Counter(misbehave=misbehave, at=2), Counter], timeout=1.0)
    td = env.rand_step(env.reset())
    start = time.monotonic()
    print(says(lambda: env.rand_step(env._step_mdp(td)), TimeoutError))
    print(1 <= time.monotonic() - start < 2, env.is_closed, env.reset()["count"].shape[0])
    env.close()
env = ParallelEnv(2, [Counter, lambda: time.sleep(1000)], timeout=8)
print(says(env.start, TimeoutError).partition(".")[0])
env = ParallelEnv(2, lambda: Counter(at_reset=hang), timeout=1)
env.start()
print(says(env.reset, TimeoutError).partition(".")[0])
""",
    )
    late = (
        "TimeoutError: Worker 1 of 3 did not finish step within 1 s. All workers were ended; env.reset() starts new "
        "ones. If it takes that long, give more time: ParallelEnv(..., timeout=600)."
    )
    assert ran.lines == [
        *[late, "True True 3"] * 2,
        "TimeoutError: Worker 1 of 2 did not finish start within 8 s",
        "TimeoutError: Workers 0, 1 of 2 did not finish reset within 1 s",
    ]


def test_a_worker_that_floods_memory(tmp_path):
    ran = run(
        tmp_path,
        """
def flood(env):
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
    return bytearray(1 << 40)

env = ParallelEnv(2, [Counter, lambda: Counter(misbehave=flood, at=1)])
td = env.reset()
print(says(lambda: env.rand_step(td), RuntimeError))
print(env.rand_action(env.reset())["action"].shape[0])
""",
    )
    assert ran.lines == ["WorkerError: Worker 1 of 2 failed in step: MemoryError: ", "2"]


# This process is interrupted ------------------------------------------------------------------------------------------

WHERE = {
    "step": ("Counter(at=2, misbehave=hang)", "env.rand_step(env._step_mdp(env.rand_step(env.reset())))"),
    "reset": ("Counter(at_reset=hang)", "env.reset()"),
    "start": ("hang(None)", "env.start()"),
    "rollout": ("Counter(at=2, misbehave=hang)", "env.rollout(10)"),
}


@each_method
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("whom", ["this process", "all"])
def test_an_interrupt(tmp_path, where, whom, method):
    """Jupyter interrupts the kernel with all of its children; a terminal too."""
    if method != "forkserver" and where in ("reset", "rollout"):
        pytest.skip("step and start stand for them")
    make, act = WHERE[where]
    ran = run(
        tmp_path,
        f"""
def hang(env):
    time.sleep(1000)

def interrupt():
    (os.kill if {whom!r} == "this process" else os.killpg)(os.getpid(), signal.SIGINT)

env = ParallelEnv(2, [Counter, lambda: {make}], mp_start_method={method!r})
threading.Timer(3 if {where!r} != "start" else 0.7, interrupt).start()
print(says(lambda: {act}, KeyboardInterrupt), env.is_closed)
other = ParallelEnv(2, Counter, mp_start_method={method!r})
print(other.rollout(3).shape[1])
""",
    )
    assert ran.lines == ["KeyboardInterrupt:  True", "3"]


def test_an_interrupt_of_the_first_start(tmp_path):
    """The fork server is just being started."""
    ran = run(
        tmp_path,
        """
for delay in (0.05, 0.3, 1.0):
    env = ParallelEnv(2, Counter)
    threading.Timer(delay, os.killpg, (os.getpid(), signal.SIGINT)).start()
    try:
        env.start()
        time.sleep(2)
    except KeyboardInterrupt:
        print("interrupted")
    env.close()
print(env.rollout(3).shape[1])
""",
    )
    assert ran.lines == ["interrupted"] * 3 + ["3"]


def test_impatience(tmp_path):
    """A second Interrupt, while the first is being dealt with."""
    ran = run(
        tmp_path,
        """
def hang(env):
    time.sleep(1000)

env = ParallelEnv(2, lambda: Counter(at=1, misbehave=hang))
td = env.reset()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    env.rand_step(td)
except KeyboardInterrupt:
    pass
import multiprocessing
print(multiprocessing.active_children())
print(env.is_closed, env.reset()["count"].shape[0])
""",
    )
    assert ran.lines == ["[]", "True 2"]


# This process ends or forks -------------------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("end", ["", "raise ValueError", "sys.exit(1)", "os._exit(1)"])
def test_a_script_that_closes_nothing(tmp_path, end, method):
    if end and method != "forkserver":
        pytest.skip("the plain end stands for the others")
    ran = run(
        tmp_path,
        f"""
env = ParallelEnv(2, Counter, mp_start_method={method!r})
print(env.rollout(3).shape[1], flush=True)
{end}
""",
        code=1 if end else 0,
    )
    assert ran.lines == ["3"] and (end == "raise ValueError" or ran.err == "")


@each_method
@pytest.mark.parametrize("busy", ["time.sleep(1000)", "while True: pass"])
def test_a_restarted_kernel(tmp_path, busy, method):
    """The process is killed in the middle of a long step."""
    ran = run(
        tmp_path,
        f"""
def hang(env):
    {busy}

env = ParallelEnv(2, lambda: Counter(at=1, misbehave=hang), mp_start_method={method!r})
td = env.reset()
print("ready", flush=True)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
env.rand_step(td)
""",
        code=-signal.SIGKILL,
        gone_within=2.0,
    )
    assert ran.lines == ["ready"]


@each_method
def test_a_fork_of_this_process(tmp_path, method):
    ran = run(
        tmp_path,
        f"""
env = ParallelEnv(2, Counter, mp_start_method={method!r})
td = env.rand_action(env.reset())
serial = SerialEnv(2, Counter)
serial.reset()
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    found = [says(lambda: env.step(td), RuntimeError), says(env.reset, RuntimeError)]
    env.close()
    found.append(str(env.reset()["count"].shape[0]))
    env.close()
    found.append(str(serial.rollout(3).shape[1]))
    os.write(write, "|".join(found).encode())
    sys.exit(0)  # as it would: what multiprocessing does at exit must not reach the workers of the other process
os.waitpid(pid, 0)
print(*os.read(read, 10000).decode().split("|"), sep=chr(10))
print(env.step(td)["next", "count"].flatten().tolist())
start = time.monotonic()
env.close()
print(time.monotonic() - start < 0.15)
""",
    )
    refused = (
        "RuntimeError: This ParallelEnv belongs to the process that started it, and this is a fork of that process. "
        "Fix: make a new one here."
    )
    assert ran.lines == [refused, refused, "2", "3", "[1.0, 1.0]", "True"]


# What is defined in a script or a notebook ----------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("guard", [False, True])
def test_what_a_script_defines(tmp_path, guard, method):  # BE-12
    ran = run(
        tmp_path,
        f"""
import dataclasses
print("once", flush=True)
FACTOR = 3

class Mine(Counter):
    def doubled(self):
        return self.size * 2 * FACTOR

@dataclasses.dataclass
class Options:
    place: int

def make(size):
    return Mine(size)

if {guard!r} or __name__ == "__main__":
    for fn in (Mine, make, lambda size: make(size)):
        env = ParallelEnv(2, fn, create_env_kwargs=[{{"size": 1}}, {{"size": 2}}], mp_start_method={method!r})
        env.reset(options=Options(5))
        print(env.doubled(), [options[-1]["options"].place for options in env.options])
        env.close()
""",
    )
    assert ran.lines == ["once"] + ["[6, 12] [5, 5]"] * 3


def test_a_notebook(tmp_path):  # BE-12
    """There is no script at all: what a cell defines is in a __main__ without a file."""
    code = (
        "from rlnb.envs import ParallelEnv, PendulumEnv\n"
        "class Mine(PendulumEnv):\n    colour = 'red'\n"
        "for method in ('forkserver', 'spawn', 'fork'):\n"
        "    with ParallelEnv(2, lambda: Mine(), mp_start_method=method) as env: print(env.colour)\n"
    )
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout.splitlines() == ["['red', 'red']"] * 3, done.stderr


@each_method
@pytest.mark.parametrize("quiet", [True, False])
def test_warnings(tmp_path, quiet, method):  # BE-22
    ran = run(
        tmp_path,
        f"""
import rlnb
rlnb.filter_warnings_subprocess = {quiet!r}
def warn(env):
    import warnings
    warnings.warn("mind the gap")
env = ParallelEnv(2, lambda: Counter(at_reset=warn), mp_start_method={method!r})
env.reset()
""",
    )
    assert ran.err.count("UserWarning: mind the gap") == (0 if quiet else 2)


def test_the_helper_sees_what_is_left(tmp_path):
    with pytest.raises(AssertionError, match="still running 0.2 s after the script"):
        run(
            tmp_path,
            "import subprocess; subprocess.Popen(['sleep', '50'])",
            gone_within=0.2,
        )
    process = subprocess.Popen(["sleep", "50"], start_new_session=True)
    assert members(process.pid) and in_memory() is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.05)
    assert not members(process.pid)
