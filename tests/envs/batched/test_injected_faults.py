"""Workers that are stopped, close their pipes or ignore signals; threads; interrupts: every call ends in time."""

from __future__ import annotations

import importlib.util

import pytest

from tests.envs.batched.running import run

pytestmark = pytest.mark.deep  # they wait for timeouts, and for processes that do not end

# A worker survives SIGTERM, and the script ends without closing anything ----------------------------------------------

IGNORING = """
import multiprocessing

def ignore(env):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def stop(env):
    os.kill(os.getpid(), signal.SIGSTOP)

def close_all(env):
    os.closerange(3, 1000)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    "script",
    [
        # The handler of this process comes along with the fork.
        "signal.signal(signal.SIGTERM, lambda *a: None)\nenv = ParallelEnv(2, Counter, mp_start_method='fork')\n"
        "print(env.rollout(3).shape[1], flush=True)",
        # A stopped worker does not act on SIGTERM.
        "env = ParallelEnv(2, Counter, mp_start_method='fork', shutdown_timeout=0.3)\n"
        "print(env.rollout(3).shape[1], flush=True)\n"
        "stop_it = env._pool.processes[0].pid\nos.kill(stop_it, signal.SIGSTOP)",
        # As in a process of multiprocessing, where atexit is not run.
        "def child():\n"
        "    global env\n"
        "    env = ParallelEnv(1, Counter, mp_start_method='fork', shutdown_timeout=0.3)\n"
        "    print(env.rollout(3).shape[1], flush=True)\n"
        "    os.kill(env._pool.processes[0].pid, signal.SIGSTOP)\n"
        "process = multiprocessing.get_context('fork').Process(target=child)\n"
        "process.start(); process.join(20); assert process.exitcode == 0, process.exitcode",
    ],
    ids=["handler", "stopped", "in a child"],
)
def test_python_exits_though_a_worker_survives_sigterm(tmp_path, script):
    assert run(tmp_path, IGNORING + script, limit=40).lines == ["3"]


def test_rendering_workers_end_with_the_script(tmp_path, missing):
    if importlib.util.find_spec("pygame") is None:
        missing("pygame", "CartPole cannot be drawn without it; pip install gymnasium[classic-control]")
    script = (
        "env = ParallelEnv(2, lambda: GymEnv('CartPole-v1', from_pixels=True))\n"
        "print(env.rollout(3).shape[1], flush=True)\n"
    )
    assert run(tmp_path, script, limit=60).lines == ["3"]


# The timeout holds ----------------------------------------------------------------------------------------------------


def test_the_timeout_holds_when_a_worker_closes_its_pipe(tmp_path):
    script = """
env = ParallelEnv(2, [Counter, lambda: Counter(misbehave=close_all)], mp_start_method="fork", timeout=5.0)
td = env.rand_step(env.reset())
start = time.monotonic()
print(says(lambda: env.rand_step(env._step_mdp(td)), RuntimeError, TimeoutError).partition(", in the")[0])
print(time.monotonic() - start < 10, env.is_closed, multiprocessing.active_children())
print(env.reset()["count"].shape[0])
env.close()
"""
    ran = run(tmp_path, IGNORING + script, limit=60)
    assert ran.lines == [
        "WorkerError: Worker 1 of 2 closed its pipe and did not end",
        "True True []",
        "2",
    ]


@pytest.mark.parametrize("direction", ["sent", "read"])
def test_the_timeout_holds_for_messages_larger_than_the_buffer_of_the_pipe(tmp_path, direction):
    script = """
from rlnb.data import Composite, Unbounded
from tensordict import TensorDict

def stop_later():  # in the middle of the answer that it sends
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGSTOP)).start()

class Large(Counter):
    def take(self, content):
        return len(content)

    def give(self):
        stop_later()
        time.sleep(0.45)
        return bytes(1 << 29)

env = ParallelEnv(2, Large, mp_start_method="fork", timeout=2.0)
env.reset()
print(env.take(bytes(1 << 22)))
if direction == "sent":
    os.kill(env._pool.processes[1].pid, signal.SIGSTOP)
    call = lambda: env.take(bytes(1 << 22))
else:
    call = env.give
start = time.monotonic()
print(says(call, TimeoutError).partition(". ")[0], time.monotonic() - start < 15, env.is_closed)
print(env.reset()["count"].shape[0])
env.close()
"""
    ran = run(tmp_path, f"direction = {direction!r}\n" + script, limit=90)
    first, second, third = ran.lines
    assert (first, third) == ("[4194304, 4194304]", "2")
    assert second.startswith("TimeoutError: Worker") and second.endswith("within 2 s True True"), second


def test_the_timeout_holds_for_actions_that_are_sent_to_a_stopped_worker(tmp_path):
    script = """
class Wide(Counter):
    def __init__(self):
        super().__init__()
        from rlnb.data import Unbounded
        self.action_spec = Unbounded((1 << 20,))

env = ParallelEnv(2, Wide, mp_start_method="fork", timeout=3.0, shared_memory=False)
td = env.rand_action(env.reset())
os.kill(env._pool.processes[0].pid, signal.SIGSTOP)
start = time.monotonic()
print(says(lambda: env.step(td), TimeoutError).partition(". ")[0], time.monotonic() - start < 20)
"""
    ran = run(tmp_path, script, limit=60)
    assert ran.lines == ["TimeoutError: Worker 0 of 2 did not finish step within 3 s True"]


# Interrupts and threads -----------------------------------------------------------------------------------------------


def test_an_interrupt_while_workers_are_forked_is_not_swallowed(tmp_path):
    """Python prints and swallows what is raised by the callbacks of ``os.fork``."""
    script = """
import multiprocessing
env, rounds, caught, inside = None, 12, 0, False

def interrupt():
    if inside:
        os.kill(os.getpid(), signal.SIGINT)

os.register_at_fork(before=interrupt)  # comes first, so that the callbacks of others are still to come
os.register_at_fork(after_in_parent=lambda: sum(range(10000)))
for _ in range(rounds):
    env = ParallelEnv(2, Counter, mp_start_method="fork")
    inside = True
    try:
        env.start()
    except KeyboardInterrupt:
        caught += 1
    inside = False
    env.close()
print(caught, multiprocessing.active_children(), env.is_closed)
"""
    ran = run(tmp_path, script, limit=60)
    assert ran.lines == ["12 [] True"] and "Exception ignored" not in ran.err


def test_threads(tmp_path):
    script = """
import multiprocessing
errors, seen = [], []

def use(env, n):
    try:
        for _ in range(n):
            data = env.rollout(5)
            seen.append((data["next", "count"].flatten(1) == torch.arange(1.0, 6)).all().item())
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")

# A batch that is started by several threads is started once.
env = ParallelEnv(2, Counter, mp_start_method="forkserver")
threads = [threading.Thread(target=env.start) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(len(multiprocessing.active_children()), env.reset()["count"].shape[0])

# Steps from several threads follow one another, and each thread gets its own results.
def step(env, action):
    td = env.reset()
    for _ in range(30):
        td["action"] = torch.full((2, 1), action)
        data = env.step(td.clone())
        assert data["action"].eq(action).all() and data["next", "reward"].shape == (2, 1)

threads = [threading.Thread(target=lambda a=a: step(env, a)) for a in (0.0, 1.0, 2.0)]
threading.excepthook = lambda args: errors.append(f"{args.exc_type.__name__}: {args.exc_value}")
Counter.length = 10**9
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(errors, env.is_closed)

# A batch may be closed by another thread in the middle of a step.
env.close()
env = ParallelEnv(2, lambda: Counter(misbehave=lambda env: time.sleep(1000), at=1), mp_start_method="forkserver")
td = env.rand_action(env.reset())
thread = threading.Thread(target=lambda: errors.append(says(lambda: env.step(td), RuntimeError)))
thread.start()
time.sleep(0.5)
start = time.monotonic()
env.close()
thread.join()
print(errors, time.monotonic() - start < 10, env.is_closed, multiprocessing.active_children())
"""
    script = script.replace("Counter, mp_start", "lambda: Counter(length=10**6), mp_start")
    ran = run(tmp_path, script, limit=120)
    closed = (
        "RuntimeError: The ParallelEnv was closed by another thread in the middle of step. env.reset() starts new "
        "workers. Fix: join the threads that use an env before env.close()."
    )
    assert ran.lines == ["2 2", "[] False", f"{[closed]} True True []"]


# What a worker may raise, and what data it may have -------------------------------------------------------------------


def test_exceptions_whose_text_cannot_be_read(tmp_path):
    script = """
class Broken(Exception):
    def __str__(self):
        raise ValueError("no text")
    __repr__ = __str__

def raise_it(env):
    raise Broken

env = ParallelEnv(2, [Counter, lambda: Counter(misbehave=raise_it, at=1)], mp_start_method="fork")
td = env.rand_action(env.reset())
print(says(lambda: env.step(td), RuntimeError), env.is_closed)
print(env.resets)
"""
    ran = run(tmp_path, script)
    assert ran.lines == [
        "WorkerError: Worker 1 of 2 failed in step: Broken: (its __str__ raised ValueError) False",
        "[1, 1]",
    ]
