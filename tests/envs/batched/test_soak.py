"""A minute of a ParallelEnv whose workers are killed and stopped at random moments."""

from __future__ import annotations

import pytest

from tests.envs.batched.running import run

SOAK = """
import multiprocessing, pathlib, random

SECONDS, TIMEOUT = {seconds}, 3.0
rng = random.Random({seed})
calls = {{
    "reset": lambda env, td: env.reset(),
    "step": lambda env, td: env.rand_step(td.clone()),
    "rollout": lambda env, td: env.rollout(50, break_when_any_done=False),
    "method": lambda env, td: env.give(),
}}
signals = [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV]

class Slow(Counter):  # long enough in a step that a signal often comes in the middle of one
    def _step(self, tensordict):
        time.sleep(0.001)
        return super()._step(tensordict)

    def give(self):
        return "here"

def alive(pid):
    try:
        return pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

long = {{"length": 10**9}}
env = ParallelEnv(
    3, Slow, create_env_kwargs=long, mp_start_method="fork", timeout=TIMEOUT, shutdown_timeout=0.3
)
descriptors, used = None, set()
rounds, failures, kinds = 0, 0, set()
until = time.monotonic() + SECONDS
while time.monotonic() < until:
    rounds += 1
    td = env.reset()
    pids = [process.pid for process in env._pool.processes]
    used.update([os.getpid(), *pids])
    if descriptors is None:
        descriptors = len(os.listdir("/proc/self/fd"))
    victim, sign = rng.choice(pids), rng.choice(signals)
    name = rng.choice(list(calls))
    timer = threading.Timer(rng.uniform(0.0, 0.06), os.kill, (victim, sign))
    timer.start()
    failure, begun = None, time.monotonic()
    while failure is None and time.monotonic() - begun < 3 * TIMEOUT:
        started = time.monotonic()
        try:
            calls[name](env, td)
        except (RuntimeError, TimeoutError) as error:
            failure = error
    took = time.monotonic() - started
    timer.join()
    text = str(failure)
    assert failure is not None, (name, sign, "no error")
    assert took < TIMEOUT + 3.0, (name, sign, took)
    assert text.startswith("Worker ") and "env.reset() starts new ones" in text, (name, sign, text)
    assert isinstance(failure, TimeoutError) == (sign == signal.SIGSTOP), (name, sign, text)
    assert env.is_closed and not multiprocessing.active_children(), (name, sign)
    assert not any(map(alive, pids)), (name, sign, pids)
    # Torch puts the id of the process that shares memory into its name.
    left = [file for file in os.listdir("/dev/shm") if file.startswith("torch_") and int(file.split("_")[1]) in used]
    assert left == [], (name, sign, left)
    failures += 1
    kinds.add((name, sign))
# A round leaves no more than the first one had in use.
env.reset()
assert len(os.listdir("/proc/self/fd")) <= descriptors + 3, (descriptors, os.listdir("/proc/self/fd"))
env.close()
assert env.rollout(2).shape == (3, 2)
env.close()
print(rounds, "rounds")
print(rounds == failures, sorted({{name for name, _ in kinds}}), len({{sign for _, sign in kinds}}))
"""


@pytest.mark.deep
def test_workers_that_die_or_stop_at_random_moments(tmp_path):
    # The seed only makes a failure easier to repeat: when a signal comes is up to the machine.
    ran = run(tmp_path, SOAK.format(seconds=60, seed=0), limit=180)
    assert ran.lines[-1] == "True ['method', 'reset', 'rollout', 'step'] 4", ran.out
