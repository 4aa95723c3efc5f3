"""Failures of worker processes: a clear error, no hang, no leaks, and a batch that can be used again."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.envs.batched.running import in_memory, members, run
from tests.pairwise import few

# Workers do something wrong -------------------------------------------------------------------------------------------

FAULTS = """
def ouch(env):
    raise ValueError("ouch")

def killed(env):
    os.kill(os.getpid(), signal.SIGKILL)

def crashed(env):
    signal.raise_signal(signal.SIGSEGV)

def exited(env):
    os._exit(3)

def left(env):
    sys.exit(4)

def hang(env):
    time.sleep(1000)

def spin(env):
    while True:
        pass

def flood(env):
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34))
    return bytearray(1 << 40)

def step(wrong, n=2, **options):
    env = ParallelEnv(n, [*[Counter] * (n - 1), lambda: Counter(misbehave=wrong, at=2)], **METHOD, **options)
    td = env.rand_step(env.reset())
    start = time.monotonic()
    print(says(lambda: env.rand_step(env._step_mdp(td)), RuntimeError, TimeoutError))
    print(env.is_closed, time.monotonic() - start < 5, env.rand_step(env.reset())["next", "count"].flatten().tolist())
    env.close()

def reset(wrong, **options):
    env = ParallelEnv(2, [Counter, lambda: Counter(at_reset=wrong)], **METHOD, **options)
    print(says(env.reset, RuntimeError, TimeoutError).partition(". ")[0])
    env.close()

def start(wrong, **options):
    env = ParallelEnv(2, [Counter, lambda: wrong(None)], **METHOD, **options)
    print(says(env.start, RuntimeError, TimeoutError).partition(". ")[0], env.is_closed)
"""

ENDED = (
    "in the middle of step. All workers were ended; env.reset() starts new ones. "
    "To see what its env does, run it in this process: SerialEnv in place of ParallelEnv."
)
LATE = (
    "within 3 s. All workers were ended; env.reset() starts new ones. "
    "If it takes that long, give more time: ParallelEnv(..., timeout=600)."
)
KILLED = "was ended by SIGKILL, which is how a system ends a process that takes too much memory"
IN_STEPS = {
    "step(ouch)": "WorkerError: Worker 1 of 2 failed in step: ValueError: ouch",
    "step(flood)": "WorkerError: Worker 1 of 2 failed in step: MemoryError: ",
    "step(killed)": f"WorkerError: Worker 1 of 2 {KILLED}, {ENDED}",
    "step(crashed)": (
        f"WorkerError: Worker 1 of 2 was ended by SIGSEGV: code outside of Python, such as a simulator's, has crashed, "
        f"{ENDED}"
    ),
    "step(exited)": f"WorkerError: Worker 1 of 2 ended with exit code 3, {ENDED}",
    "step(left)": f"WorkerError: Worker 1 of 2 ended with exit code 4, {ENDED}",
    "step(hang, timeout=3.0)": f"TimeoutError: Worker 1 of 2 did not finish step {LATE}",
    "step(spin, timeout=3.0)": f"TimeoutError: Worker 1 of 2 did not finish step {LATE}",
    "step(exited, n=4, num_processes=2)": (
        f"WorkerError: Workers 2, 3 of 4, which share a process, ended with exit code 3, {ENDED}"
    ),
    "step(hang, n=4, num_processes=2, timeout=3)": f"TimeoutError: Workers 2, 3 of 4 did not finish step {LATE}",
}
BEFORE = {
    "reset(ouch)": "WorkerError: Worker 1 of 2 failed in reset: ValueError: ouch",
    "reset(killed)": f"WorkerError: Worker 1 of 2 {KILLED}, in the middle of reset",
    "reset(hang, timeout=3)": "TimeoutError: Worker 1 of 2 did not finish reset within 3 s",
    "start(ouch)": "WorkerError: Worker 1 of 2 failed in start: ValueError: ouch True",
    "start(exited)": "WorkerError: Worker 1 of 2 ended with exit code 3, in the middle of start True",
    "start(hang, timeout=3)": "TimeoutError: Worker 1 of 2 did not finish start within 3 s True",
}
KEPT = {"step(ouch)", "step(flood)"}  # the workers of the batch live on
ALL = [*IN_STEPS, *BEFORE]
SOME = ["step(ouch)", "step(killed)", "step(hang, timeout=3.0)", "reset(killed)", "start(exited)"]


@pytest.mark.parametrize(
    ("method", "calls"),
    [
        pytest.param("fork", SOME, id="fork, some"),
        pytest.param("fork", ALL, id="fork", marks=pytest.mark.deep),
        pytest.param("forkserver", ALL, id="forkserver", marks=pytest.mark.deep),
    ],
)
def test_workers_that_fail(tmp_path, method, calls):
    script = FAULTS + "\n".join([f"METHOD = {{'mp_start_method': {method!r}}}", *calls])
    lines = iter(run(tmp_path, script, limit=120).lines)
    for call in calls:
        assert next(lines) == (IN_STEPS | BEFORE)[call], call
        if call in IN_STEPS:
            assert next(lines) == f"{call not in KEPT} True {[1.0] * (4 if 'n=4' in call else 2)}", call
    assert list(lines) == []


def test_the_traceback_of_a_worker(tmp_path):
    ran = run(
        tmp_path,
        FAULTS
        + """
env = ParallelEnv(4, lambda: Counter(misbehave=ouch, at=1), mp_start_method="fork", num_processes=2)
try:
    env.rand_step(env.reset())
except RuntimeError as error:
    print(error)
""",
    )
    assert ran.lines[:4] == [
        "Worker 0 of 4 failed in step: ValueError: ouch (workers 1, 2, 3 failed, too)",
        "",
        "In the worker:",
        "Traceback (most recent call last):",
    ]
    assert ran.lines[-1] == "ValueError: ouch" and any("script.py" in line and "in ouch" in line for line in ran.lines)
    assert ran.err == ""


# This process is interrupted ------------------------------------------------------------------------------------------

INTERRUPTS = """
def hang(env):
    time.sleep(1000)

def interrupted(call, kill, after):
    timer = threading.Timer(after, kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return says(call, KeyboardInterrupt)

import multiprocessing
for kill in KILLS:  # Jupyter and terminals interrupt the children, too
    env = ParallelEnv(2, [Counter, lambda: Counter(at=2, misbehave=hang)], mp_start_method=METHOD)
    td = env.rand_step(env.reset())
    print(interrupted(lambda: env.rand_step(env._step_mdp(td)), kill, 0.3), env.is_closed)
    if METHOD != "spawn":
        env.reset()
        print(interrupted(lambda: env.rollout(10), kill, 0.3), env.is_closed)
        env = ParallelEnv(2, lambda: Counter(at_reset=hang), mp_start_method=METHOD)
        env.start()
        print(interrupted(env.reset, kill, 0.3), env.is_closed)
    env = ParallelEnv(2, [Counter, lambda: hang(None)], mp_start_method=METHOD)
    print(interrupted(env.start, kill, 0.5), env.is_closed)
    print(multiprocessing.active_children())
    print(ParallelEnv(1, Counter, mp_start_method=METHOD).rollout(3).shape[1])
"""


STOPPED = "KeyboardInterrupt:  True"


@pytest.mark.parametrize(
    ("method", "kill"),
    [
        ("fork", "os.killpg"),
        pytest.param("fork", "os.kill", marks=pytest.mark.deep),
        pytest.param("forkserver", "os.killpg", marks=pytest.mark.deep),
        pytest.param("forkserver", "os.kill", marks=pytest.mark.deep),
    ],
)
def test_interrupts(tmp_path, method, kill):
    ran = run(tmp_path, f"METHOD = {method!r}\nKILLS = {kill},\n{INTERRUPTS}", limit=120)
    assert ran.lines == [*[STOPPED] * 4, "[]", "3"]


@pytest.mark.deep
def test_spawned_workers(tmp_path):
    script = f"METHOD = 'spawn'\nKILLS = os.killpg,\n{INTERRUPTS}"
    script += FAULTS + "METHOD = {'mp_start_method': 'spawn'}\nreset(killed)\n"
    ran = run(tmp_path, script, limit=120)
    assert ran.lines == [STOPPED, STOPPED, "[]", "3", BEFORE["reset(killed)"]]


def test_an_interrupt_of_the_first_start(tmp_path):
    """The fork server is just being started."""
    ran = run(
        tmp_path,
        """
for delay in (0.02, 0.4):
    env = ParallelEnv(2, lambda: time.sleep(1000))
    threading.Timer(delay, os.killpg, (os.getpid(), signal.SIGINT)).start()
    print(says(env.start, KeyboardInterrupt), env.is_closed)
print(ParallelEnv(2, Counter).rollout(3).shape[1])
""",
    )
    assert ran.lines == ["KeyboardInterrupt:  True"] * 2 + ["3"]


def test_impatience(tmp_path):
    """A second Interrupt, while the first is being dealt with."""
    ran = run(
        tmp_path,
        """
import multiprocessing

def hang(env):
    time.sleep(1000)

for gap in (0.01, 0.1):
    env = ParallelEnv(2, lambda: Counter(at=1, misbehave=hang), mp_start_method="fork")
    td = env.reset()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Timer(0.5 + gap, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        try:
            env.rand_step(td)
        finally:
            time.sleep(0.3)
    except KeyboardInterrupt:
        pass
    print(multiprocessing.active_children(), env.is_closed, env.reset()["count"].shape[0])
    env.close()
""",
    )
    assert ran.lines == ["[] True 2"] * 2


# This process ends or forks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "end", "code"),
    [
        ("fork", "", 0),
        ("fork", "raise ValueError", 1),
        *(
            pytest.param(*row, marks=pytest.mark.deep)
            for row in [
                ("forkserver", "os._exit(1)", 1),
                ("forkserver", "", 0),
                ("spawn", "", 0),
                ("forkserver", "raise ValueError", 1),
            ]
        ),
    ],
)
def test_a_script_that_closes_nothing(tmp_path, method, end, code):
    script = f"env = ParallelEnv(1, Counter, mp_start_method={method!r})\nprint(env.rollout(3).shape[1], flush=True)\n"
    ran = run(tmp_path, script + end, code=code)
    assert ran.lines == ["3"] and (end == "raise ValueError" or ran.err == "")


@pytest.mark.parametrize(
    ("method", "busy"),
    [
        ("fork", "while True: pass"),
        pytest.param("forkserver", "while True: pass", marks=pytest.mark.deep),
        pytest.param("spawn", "while True: pass", marks=pytest.mark.deep),
        pytest.param("forkserver", "time.sleep(1000)", marks=pytest.mark.deep),
    ],
)
def test_a_restarted_kernel(tmp_path, busy, method):
    """The process is killed in the middle of a long step."""
    ran = run(
        tmp_path,
        f"""
def hang(env):
    {busy}

env = ParallelEnv(1, lambda: Counter(at=1, misbehave=hang), mp_start_method={method!r})
td = env.reset()
print("ready", flush=True)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
env.rand_step(td)
""",
        code=-signal.SIGKILL,
    )
    assert ran.lines == ["ready"]


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.deep)])
def test_a_fork_of_this_process(tmp_path, method):
    ran = run(
        tmp_path,
        f"method = {method!r}"
        + """
faulthandler.cancel_dump_traceback_later()  # a fork with such a timer cannot end
env = ParallelEnv(2, Counter, mp_start_method=method)
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
    sys.exit(0)  # what multiprocessing does at exit must not reach the workers of the other process
os.close(write)
os.waitpid(pid, 0)
print(*os.read(read, 10000).decode().split("|"), sep=chr(10), flush=True)
print(env.step(td)["next", "count"].flatten().tolist(), flush=True)
sleeper = os.fork()
if sleeper == 0:
    time.sleep(60)
    os._exit(0)
start = time.monotonic()
env.close()  # the other process must not keep the channels open, or the workers would be killed after two seconds
print(time.monotonic() - start < 1.5, flush=True)
os.kill(sleeper, 9)
os.waitpid(sleeper, 0)
""",
        limit=120,  # workers of a fork of the fork server's process are spawned, which imports torch again
    )
    refused = (
        "RuntimeError: This ParallelEnv belongs to the process that started it, and this is a fork of that process. "
        "Fix: make a new one here."
    )
    assert ran.lines == [refused, refused, "2", "3", "[1.0, 1.0]", "True"]


# What is defined in a script or a notebook ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "fns"),
    [
        ("fork", "Mine, make, lambda size: make(size)"),
        pytest.param("forkserver", "Mine, lambda size: make(size)", marks=pytest.mark.deep),
        pytest.param("forkserver", "make,", marks=pytest.mark.deep),
        pytest.param("spawn", "lambda size: make(size),", marks=pytest.mark.deep),
    ],
    ids=["fork", "forkserver", "forkserver, function", "spawn"],
)
def test_what_a_script_defines(tmp_path, method, fns):  # no if __name__ == "__main__"
    ran = run(
        tmp_path,
        f"METHOD = {method!r}"
        + """
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

def each(*fns):
    for fn in fns:
        env = ParallelEnv(1, fn, create_env_kwargs={"size": 2}, mp_start_method=METHOD)
        env.reset(options=Options(5))
        print(env.doubled(), [options[-1]["options"].place for options in env.options])
        env.close()

"""
        + f"each({fns})",
    )
    assert ran.lines == ["once"] + ["[12] [5]"] * len(eval(fns, {"Mine": 0, "make": 0}))


def test_what_a_notebook_defines(tmp_path):
    """There is no script at all: what a cell defines is in a __main__ without a file."""
    code = (
        "from rlnb.envs import ParallelEnv, PendulumEnv\n"
        "class Mine(PendulumEnv):\n    colour = 'red'\n"
        "with ParallelEnv(1, lambda: Mine()) as env: print(env.colour)\n"
    )
    assert run(tmp_path, code, head="", named=False).lines == ["['red']"]


@pytest.mark.parametrize("method", few(["fork", "forkserver"]))
def test_warnings(tmp_path, method):
    ran = run(
        tmp_path,
        f"method = {method!r}"
        + """
import rlnb
def warn(quiet):
    import warnings
    warnings.warn(f"mind the gap {quiet}")
for quiet in (True, False):
    rlnb.filter_warnings_subprocess = quiet
    ParallelEnv(2, lambda quiet=quiet: Counter(at_reset=lambda env: warn(quiet)), mp_start_method=method).reset()
    print("told", quiet, file=sys.stderr, flush=True)
""",
    )
    assert ran.err.count("UserWarning: mind the gap True") == 0
    assert ran.err.count("UserWarning: mind the gap False") == 2


def test_the_helper_sees_what_is_left(tmp_path):
    with pytest.raises(AssertionError, match=r"still running 0\.2 s after the script: .*sleep"):
        run(tmp_path, "import subprocess; subprocess.Popen(['sleep', '50'])", gone_within=0.2, head="")
    process = subprocess.Popen(["sleep", "50"], start_new_session=True)
    assert members(process.pid) and in_memory() is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.05)
    assert not members(process.pid)
