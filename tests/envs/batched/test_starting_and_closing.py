"""Batches start on demand, close and start again; options, devices and gradients."""

from __future__ import annotations

import gc
import multiprocessing
import os
import warnings
import weakref

import pytest
import torch
from tensordict import LazyStackedTensorDict

import rlnb
from rlnb.envs import CartPoleEnv, GymEnv, ParallelEnv, PendulumEnv, SerialEnv, check_env_specs
from tests.envs.batched.kinds import Counter
from tests.pairwise import sampled

BATCHES = {"serial": SerialEnv, "parallel": ParallelEnv}
each_batch = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)


@each_batch
def test_lazy_start_and_close(batch):
    made = []
    env = batch(2, lambda: made.append(1) or Counter()) if batch is SerialEnv else batch(2, Counter)
    assert env.is_closed and not made
    env.close()
    env.start()
    assert not env.is_closed
    env.start()
    assert env.rollout(3).batch_size == (2, 3)
    if batch is SerialEnv:
        assert len(made) == 2
    env.close()
    assert env.is_closed
    env.close()
    with pytest.raises(RuntimeError) as caught:
        env.close(raise_if_closed=True)
    assert str(caught.value) == (
        f"close(raise_if_closed=True) was called on a {batch.__name__} whose envs are not running. "
        "Fix: env.close(), which may be called twice."
    )
    assert env.rollout(3).batch_size == (2, 3)  # started anew
    env.close(raise_if_closed=True)


@each_batch
def test_a_step_starts_nothing(batch):
    env = batch(2, Counter)
    td = env.rand_action(env.reset())
    env.close()
    with pytest.raises(RuntimeError) as caught:
        env.step(td)
    assert str(caught.value) == (
        f"step was called on a {batch.__name__} whose envs are not running. "
        "Fix: td = env.reset(), which makes them, then write an action into td, then env.step(td)."
    )


@each_batch
def test_context_manager(batch):
    with batch(2, Counter) as env:
        assert not env.is_closed
    assert env.is_closed
    with pytest.raises(ValueError, match="ouch"), batch(2, Counter) as env:
        raise ValueError("ouch")
    assert env.is_closed


def test_the_processes_end():
    env = ParallelEnv(2, Counter)
    env.reset()
    processes = [process.pid for process in env._pool.processes]
    env.close()
    for pid in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@each_batch
def test_a_batch_that_nobody_closed(batch):
    env = batch(2, Counter)
    env.reset()
    pids = [process.pid for process in env._pool.processes] if batch is ParallelEnv else []
    gone = weakref.ref(env)
    del env
    gc.collect()
    assert gone() is None
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_many_starts_leave_nothing():
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    env = ParallelEnv(1, Counter)
    env.reset()
    env.close()
    before, children = descriptors(), len(multiprocessing.active_children())
    for _ in range(4):
        env.reset()
        env.close()
    assert descriptors() == before and len(multiprocessing.active_children()) == children


@each_batch
def test_envs_that_cannot_be_made(batch):
    def fail():
        raise ValueError("no such task")

    env = batch(2, [Counter, fail])
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError), match="no such task"):
            env.reset()
        assert env.is_closed


@each_batch
def test_an_object_that_is_not_an_env_is_rejected(batch):
    with pytest.raises((TypeError, RuntimeError)) as caught:
        batch(2, [Counter, dict]).reset()
    assert (
        "create_env_fn of env 1 of 2 must return an env of rlnb, got a dict. "
        "Fix: return GymEnv(...), GymWrapper(env) or another EnvBase."
    ) in str(caught.value)


@each_batch
@pytest.mark.parametrize("n", [0, -1, True, 1.5, "2"])
def test_wrong_numbers(batch, n):
    with pytest.raises(ValueError) as caught:
        batch(n, Counter)
    assert str(caught.value) == f"num_workers, the number of envs, must be a positive integer, got {n!r}."


@each_batch
def test_wrong_functions(batch):
    with pytest.raises(TypeError) as caught:
        batch(2, Counter())
    assert str(caught.value) == (
        "create_env_fn must be a function that makes an env, got an env of type Counter. It is called once for each "
        "env of the batch. Fix: SerialEnv(4, lambda: GymEnv('CartPole-v1'))."
    )
    with pytest.raises(TypeError, match=r"^create_env_fn must be a function that makes an env, got 'CartPole-v1'"):
        batch(2, "CartPole-v1")
    with pytest.raises(ValueError) as lengths:
        batch(3, [Counter, Counter])
    assert str(lengths.value) == (
        "create_env_fn must have one value for each of the 3 envs, got a list of 2. "
        "Fix: a list of that length, or a single value for all envs."
    )
    with pytest.raises(ValueError, match=r"^create_env_kwargs must have one value for each of the 3 envs"):
        batch(3, Counter, create_env_kwargs=[{}])


# Where the data is ----------------------------------------------------------------------------------------------------


@each_batch
@pytest.mark.parametrize("inner", [None, "cpu"])
@pytest.mark.parametrize("outer", [None, "cpu"])
def test_device(batch, inner, outer):
    with batch(2, lambda: GymEnv("CartPole-v1", device=inner), device=outer) as env:
        want = None if inner is outer is None else torch.device("cpu")
        assert env.device == want and env.observation_spec.device == want
        assert env.rollout(3).device == want and env.rand_step(env.reset()).device == want


@each_batch
def test_another_device(batch):
    with batch(2, Counter, device="meta", non_blocking=True) as env:
        env.allow_done_after_reset = True  # nobody can look at tensors of this device
        td = env.reset()
        assert td.device.type == td["count"].device.type == "meta"
        assert env.action_spec.device.type == "meta"


@each_batch
def test_to(batch):
    with batch(2, CartPoleEnv) as env:
        assert env.to("cpu") is env and env.device == torch.device("cpu")
        assert env.rollout(3).device == torch.device("cpu")
        env.close()
        assert env.reset().device == torch.device("cpu")


OPTIONS = {
    "memmap": {"memmap": True, "shared_memory": False},
    "memmap and shared": {"memmap": True},
    "not shared": {"shared_memory": False},
    "no buffers": {"use_buffers": False},
    "buffers": {"use_buffers": True},
    "individual": {"share_individual_td": True},
    "together": {"share_individual_td": False},
    "threads": {"num_threads": 1, "num_sub_threads": 2},
    "policy": {"policy_proof": lambda td: td},
    "blocking": {"non_blocking": False},
    "fork": {"mp_start_method": "fork"},
    "forkserver": {"mp_start_method": "forkserver"},
    "no timeout": {"timeout": None},
}


SPAWNING = {"mp_start_method": "spawn", "num_processes": 1}  # which imports torch anew, for seconds


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        *sampled(OPTIONS, ["rows", "torch", "stateless"], strength=1),
        pytest.param(SPAWNING, "torch", id="spawn-torch", marks=pytest.mark.deep),
    ],
)
def test_no_option_changes_the_data(options, kind):
    fn = {"rows": lambda: GymEnv("CartPole-v1"), "torch": CartPoleEnv, "stateless": PendulumEnv}[kind]
    found = []
    common = {key: value for key, value in options.items() if key not in ("timeout", "num_processes")}
    for env in (SerialEnv(2, fn), SerialEnv(2, fn, **common), ParallelEnv(2, fn, **options)):
        with env:
            env.set_seed(0)
            data = env.rollout(12, break_when_any_done=False)
            lazy = bool(found and options.get("share_individual_td"))
            assert isinstance(env.reset(), LazyStackedTensorDict) == lazy
            found.append(data)
    for other in found[1:]:
        assert sorted(found[0].keys(True, True), key=str) == sorted(other.keys(True, True), key=str)
        assert (found[0] == other).all()


def test_threads():
    class Threads(Counter):
        def threads(self):
            return torch.get_num_threads()

    before = torch.get_num_threads()
    with ParallelEnv(2, Threads) as env:
        assert env.threads() == [1, 1] and torch.get_num_threads() == before
    with ParallelEnv(2, Threads, num_sub_threads=2, num_threads=before + 1) as env:
        assert env.threads() == [2, 2] and torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_serial_for_single():
    env = ParallelEnv(1, Counter, serial_for_single=True, timeout=3, num_processes=1, mp_start_method="spawn")
    assert type(env) is SerialEnv and env.rollout(2).batch_size == (1, 2)
    assert type(ParallelEnv(2, Counter, serial_for_single=True)) is ParallelEnv
    assert type(ParallelEnv(1, Counter)) is ParallelEnv


def test_wrong_options():
    with pytest.raises(ValueError) as caught:
        ParallelEnv(2, Counter, mp_start_method="thread")
    assert str(caught.value) == "mp_start_method must be one of ['fork', 'spawn', 'forkserver'], got 'thread'."
    with pytest.raises(ValueError) as caught:
        ParallelEnv(2, Counter, shared_memory=False, use_buffers=True)
    assert str(caught.value) == (
        "use_buffers=True with shared_memory=False and memmap=False leaves no place for the buffers. "
        "Fix: leave shared_memory=False out, or give memmap=True to keep them in a file."
    )
    for wrong in (0, 3, True, "1"):
        with pytest.raises(ValueError) as caught:
            ParallelEnv(2, Counter, num_processes=wrong)
        assert str(caught.value) == (
            "num_processes, the number of processes that run the 2 envs, must be an integer from 1 to 2, got "
            f"{wrong!r}."
        )


@pytest.mark.parametrize(("n", "processes"), [(1, 1), (3, 1), (5, 3), (4, 4)])
def test_envs_are_spread_evenly(n, processes):
    class Where(Counter):
        def process(self):
            return os.getpid()

    with ParallelEnv(n, Where, num_processes=processes, create_env_kwargs=[{"size": i} for i in range(n)]) as env:
        where = env.process()
        counts = [where.count(pid) for pid in dict.fromkeys(where)]
        assert len(counts) == processes and max(counts) - min(counts) <= 1 and os.getpid() not in where
        assert env.size == list(range(n))
        assert env.rollout(3)["next", "count"][:, -1, 0].tolist() == [3.0 * i for i in range(n)]


def test_the_start_method_of_multiprocessing_stays_as_it_is():
    before = multiprocessing.get_start_method(allow_none=True)
    with ParallelEnv(1, Counter, mp_start_method="forkserver") as env:
        env.reset()
    assert multiprocessing.get_start_method(allow_none=True) == before


def test_workers_find_what_this_process_finds(tmp_path, monkeypatch):
    """A fork server is older than a change of directory or environment."""

    class Here(Counter):
        def here(self):
            return os.getcwd(), os.environ.get("RLNB_A"), os.environ.get("RLNB_B")

    monkeypatch.setenv("RLNB_A", "1")
    with ParallelEnv(1, Here) as env:
        assert env.here() == [(os.getcwd(), "1", None)]
    monkeypatch.delenv("RLNB_A")
    monkeypatch.setenv("RLNB_B", "2")
    monkeypatch.chdir(tmp_path)
    with ParallelEnv(1, Here) as env:
        assert env.here() == [(str(tmp_path), None, "2")]


def test_nested_processes():
    with ParallelEnv(2, lambda: ParallelEnv(2, Counter, mp_start_method="fork")) as env:
        assert env.batch_size == (2, 2)
        check_env_specs(env)


# Gradients ------------------------------------------------------------------------------------------------------------


def test_gradients_pass_through_serial_envs():
    env = SerialEnv(2, PendulumEnv)
    env.set_seed(0)
    action = torch.zeros(2, 1, requires_grad=True)
    td = env.reset()
    total = 0.0
    for _ in range(3):
        td = env.step(td.set("action", action))
        total = total + td["next", "reward"].sum()
        td = env._step_mdp(td)
    (gradient,) = torch.autograd.grad(total, action)
    alone = []
    for i in range(2):
        single, td = PendulumEnv(), env.reset()
        env.set_seed(0)
        td = env.reset()[i]
        own = torch.zeros(1, requires_grad=True)
        total = 0.0
        for _ in range(3):
            td = single.step(td.set("action", own))
            total = total + td["next", "reward"].sum()
            td = single._step_mdp(td)
        alone.append(torch.autograd.grad(total, own)[0])
    assert gradient.abs().min() > 0
    torch.testing.assert_close(gradient, torch.stack(alone))


@pytest.mark.parametrize(
    ("key", "options"), sampled(["action", "th"], {"buffers": {}, "messages": {"use_buffers": False}}, strength=1)
)
def test_gradients_are_detached_by_parallel_envs(key, options):
    with ParallelEnv(2, PendulumEnv, **options) as env:
        td = env.rand_action(env.reset())
        want = env.step(td.clone())["next"]
        wanted = td.clone().set(key, td[key].clone().requires_grad_() * 1)
        with torch.no_grad():
            assert not env.step(wanted.clone())["next", "reward"].requires_grad
        with pytest.warns(UserWarning) as caught:
            stepped = env.step(wanted)
        assert [str(warning.message) for warning in caught] == [
            f"The entry {key!r} requires a gradient, and a ParallelEnv detaches it: its envs run in other processes, "
            "which gradients cannot pass. Fix: SerialEnv, where they can; or with torch.no_grad(): around the rollout."
        ]
        assert not stepped["next", "reward"].requires_grad and stepped[key].requires_grad
        assert (stepped["next"] == want).all()
        with warnings.catch_warnings():  # once is enough
            warnings.simplefilter("error")
            env.step(td.clone().set(key, td[key].clone().requires_grad_()))


def test_filter_warnings_subprocess_has_a_place():  # what it does: test_processes.py
    assert rlnb.filter_warnings_subprocess is True


@pytest.mark.parametrize("kind", [SerialEnv, ParallelEnv])
def test_a_rollout_goes_on_until_each_env_has_been_done(kind):
    with kind(4, lambda: GymEnv("CartPole-v1")) as env:
        env.set_seed(0)
        data = env.rollout(500, break_when_all_done=True)
    done = data["next", "done"].squeeze(-1)
    assert done.any(-1).all() and done[:, -1].any() and not done[:, :-1].any(-1).all()
    assert done.sum() > 4, "no env was reset and went on"
