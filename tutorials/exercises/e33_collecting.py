"""Exercises of lesson 33: the time that collecting takes, the age of weights, and training on fresh steps only."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rlnb_widgets import BatchedEnvTimeline
from tensordict import TensorDict, TensorDictBase

from rlnb.collectors.trace import Call, CollectorTrace, WorkerBatch

from .asking import as_number, ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .poles import Poles, log_prob_of, network, returns_to_go
from .policy_pictures import Trained
from .verdict import Outcome

TOTAL = """
    def total(collect, learn):
        sync = sum(collect) + sum(learn)
        now, ready = 0, collect[0]
        for k in range(len(learn)):
            now = max(now, ready)
            if k + 1 < len(collect):
                ready = now + collect[k + 1]
            now = now + learn[k]
        return sync, now
"""

AGES = """
    def ages(order):
        begun, found = {}, []
        for k, worker in enumerate(order):
            found.append(k - begun.get(worker, 0))
            begun[worker] = k
        return found
"""

FRESH = """
    def fresh(td, version, most):
        return td[td["policy_version"] >= version - most]
"""

#: Milliseconds for each batch: now the worker is the slower one, now the learner. Each mistake gives another sum.
COLLECT, LEARN = [50, 10, 50, 20], [50, 40, 20, 60]


@exercise(
    title="With a pencil",
    prompt="""
        One worker, one learner. `collect[k]` is how long the worker takes for batch `k`, and `learn[k]` how long the
        learner then learns from it, in milliseconds. Write `total(collect, learn)`: how long all of it takes, first in
        step (sync), then async. Async, the worker begins its next batch at the moment the learner takes the last one,
        and the learner takes a batch when it is ready and the learner is free.
    """,
    stub="""
        def total(collect, learn):
            sync = ...
            # async: two clocks, that of the learner, and when the next batch can be taken
            return sync, ...
    """,
    hints=[
        "In step, nothing happens at the same time. Async, go through the batches with two clocks: `now`, the "
        "learner's, and `ready`, when the next batch can be taken.",
        "The learner takes batch `k` at `max(now, ready)`: one of the two waits for the other.",
        "Then, for each `k`: `now = max(now, ready)`, `ready = now + collect[k + 1]` if there is another batch, and "
        "`now = now + learn[k]`.",
    ],
    solution=TOTAL,
    wrong=[
        instead(
            TOTAL, of="sync = sum(collect) + sum(learn)", put="sync = max(sum(collect), sum(learn))", says="In step"
        ),
        instead(TOTAL, of="return sync, now", put="return now, sync", says="in the other order"),
        instead(TOTAL, of="return sync, now", put="return now", says="two numbers"),
        instead(TOTAL, of="return sync, now", put="return sync, max(sum(collect), sum(learn))", says="ever waited"),
        instead(
            TOTAL,
            of="return sync, now",
            put="return sync, sum(max(c, l) for c, l in zip(collect, learn))",
            says="while it is being collected",
        ),
        instead(TOTAL, of="ready = now + collect[k + 1]", put="ready = ready + collect[k + 1]", says="runs ahead"),
        instead(
            TOTAL,
            of="ready = now + collect[k + 1]\n        now = now + learn[k]",
            put="ready = now + learn[k] + collect[k + 1]\n        now = now + learn[k]",
            says="only when the learner has learned",
        ),
        instead(TOTAL, of="now = max(now, ready)", put="now = ready", says="before it has learned from the last one"),
        instead(TOTAL, of="now, ready = 0, collect[0]", put="now, ready = 0, 0", says="has to be collected first"),
    ],
    accepted=[
        """
        def total(collect, learn):
            clock, taken = collect[0], collect[0]
            for k in range(1, len(collect)):
                free = taken + learn[k - 1]
                taken = max(free, taken + collect[k])
            return float(sum(collect) + sum(learn)), float(taken + learn[-1])
        """,
    ],
    setup="import torch",
)
def total(total: Callable[..., Any]) -> Outcome:
    """Compare with the schedules, and with those of typical mistakes; draw them."""
    got = ask(total, COLLECT, LEARN)
    pair = isinstance(got, (tuple, list)) and len(got) == 2
    require(pair, "It must return two numbers: in step, and async.")
    sync, late = (float(as_number(value, "each of the two is to be a single number")) for value in got)
    in_step, asynchronous = _schedule(COLLECT, LEARN, False), _schedule(COLLECT, LEARN, True)
    wanted = (in_step.stop - in_step.start) / 1e6, (asynchronous.stop - asynchronous.start) / 1e6
    require((sync, late) != wanted[::-1], "The two numbers are in the other order: in step first.")
    if sync != wanted[0]:
        picture = BatchedEnvTimeline(in_step)
        fail(f"In step it gave {sync:g}. One waits while the other works, as in the picture:", picture)
    if late != wanted[1]:
        _explain_async(late, asynchronous)
    again = ask(total, LEARN, COLLECT)
    other = [(trace.stop - trace.start) / 1e6 for trace in (_schedule(LEARN, COLLECT, a) for a in (False, True))]
    require([float(value) for value in again] == other, "With other times it is wrong.")
    drawn: dict[str, Any] = {"in step": in_step, "async": asynchronous}
    return right(
        f"{wanted[0]:g} ms in step, {wanted[1]:g} ms async. Where the two take turns at being slow, each waits for the "
        "other now and then, so that async is not as fast as the slower one alone. At best it is twice as fast.",
        BatchedEnvTimeline(**drawn, t=0),
    )


def _explain_async(late: float, trace: CollectorTrace) -> None:
    """Name the mistake in the second number."""
    pairs = list(zip(COLLECT, LEARN, strict=True))

    def clock(begins: Callable[[float, float], float], takes: Callable[[float, float], float], first: float) -> float:
        now, ready = 0.0, first
        for k, (_, spent) in enumerate(pairs):
            now = takes(now, ready)
            if k + 1 < len(pairs):
                ready = begins(now, ready) + COLLECT[k + 1]
            now += spent
        return now

    known = {
        float(max(sum(COLLECT), sum(LEARN))): "That is as if neither of them ever waited. But now and then one does.",
        float(sum(max(c, n) for c, n in pairs)): (
            "It learns from each batch while it is being collected. The batch of that moment is the *next* one."
        ),
        clock(
            lambda now, ready: ready, max, COLLECT[0]
        ): "Its worker runs ahead: it begins a batch although the learner has not taken the last one.",
        float(sum(COLLECT) + sum(LEARN)): (
            "That is the time in step: its worker begins only when the learner has learned."
        ),
        clock(lambda now, ready: now, lambda now, ready: ready, COLLECT[0]): (
            "Its learner takes a batch before it has learned from the last one."
        ),
        clock(lambda now, ready: now, max, 0): "The first batch has to be collected first.",
    }
    why = known.get(late, "These are the times, drawn:")
    fail(f"Async it gave {late:g}. {why}", BatchedEnvTimeline(trace, t=0))


def _schedule(collect: Sequence[float], learn: Sequence[float], is_async: bool) -> CollectorTrace:
    """Make the trace of one worker and one learner that take exactly these times, in milliseconds."""
    ms, n = 1_000_000, len(collect)
    trace = CollectorTrace("AsyncCollector" if is_async else "MultiSyncCollector", 1, start=ms)
    now = began = ms
    for k in range(n):
        start = now
        began = began if is_async or k == 0 else now
        written = began + round(collect[k] * ms)
        now = max(now, written)
        version = max(k - 1, 0) if is_async else k
        trace.calls.append(Call(start, now, now, True))
        trace.batches.append(WorkerBatch(0, began, (began, written, written), 10, version, k, k))
        began = now
        now += round(learn[k] * ms)
        trace.updates.append((now, k + 1))
    trace.stop = now
    return trace


ORDER = [0, 1, 0, 0, 2, 1, 0, 2]


@exercise(
    title="How old is it?",
    prompt="""
        Write `ages(order)`. `order[k]` is the number of the worker whose batch the learner of a `MultiAsyncCollector`
        got as its `k`-th, counted from 0. A worker begins its next batch at the moment the learner gets its last one,
        and all begin their first one at the very start, with version 0. The learner updates the weights once after each
        batch, so that it has version `k` when it gets batch `k`. Return the list of ages: how many versions older are
        the weights that made each batch?
    """,
    stub="""
        def ages(order):
            # keep in mind with which version each worker has begun its batch
            ...
    """,
    hints=[
        "Which version did a worker find when it began? The learner's at the moment it got the worker's batch before.",
        "Keep it in a dictionary: when worker `order[k]` begins anew, at batch `k`, the version is `k`.",
        "For each `k`: the age is `k - begun.get(worker, 0)`, and then `begun[worker] = k`.",
    ],
    solution=AGES,
    wrong=[
        instead(AGES, of="begun[worker] = k", put="begun[worker] = k + 1", says="*before* it has learned"),
        instead(AGES, of="begun.get(worker, 0)", put="begun.get(worker, k)", says="first batch of each worker"),
        instead(AGES, of="k - begun.get(worker, 0)", put="begun.get(worker, 0)", says="These are the versions"),
        WrongAnswer("def ages(order): return [min(k, len(set(order))) for k in range(len(order))]", says="took turns"),
        WrongAnswer("def ages(order):\n    return [min(k, 1) for k in range(len(order))]", says="a single worker"),
        instead(AGES, of="return found", put="return found[-1]", says="list"),
        instead(AGES, of="return found", put="return found[1:]", says="8 ages are wanted"),
    ],
    accepted=[AGES.replace("return found", "return torch.tensor(found)")],
    setup="import torch",
)  # fmt: skip
def ages(ages: Callable[..., Any]) -> Outcome:
    """Compare with the ages, and with those of typical mistakes."""
    got = ask(ages, ORDER)
    got = got.tolist() if isinstance(got, torch.Tensor) else got
    require(isinstance(got, (list, tuple)), f"It gave a `{type(got).__name__}`, and a list of ages is wanted.")
    require(len(got) == len(ORDER), f"It gave {len(got)}, and {len(ORDER)} ages are wanted, one for each batch.")
    wanted = _ages(ORDER)
    if list(got) != wanted:
        begun = [k - age for k, age in enumerate(wanted)]
        firsts = [k if worker not in ORDER[:k] else None for k, worker in enumerate(ORDER)]
        known = {
            "A worker begins when the learner *gets* its batch, *before* it has learned from it.": [
                k if first is not None else age - 1 for k, (first, age) in enumerate(zip(firsts, wanted, strict=True))
            ],
            "Look at the first batch of each worker: it was begun at the very start, with version 0.": [
                0 if first is not None else age for first, age in zip(firsts, wanted, strict=True)
            ],
            "These are the versions that made the batches. Their age is what the learner's version is ahead.": begun,
            "It would be right if the workers took turns. Here one of them is faster than the others.": [
                min(k, len(set(ORDER))) for k in range(len(ORDER))
            ],
            "It would be right for a single worker.": [min(k, 1) for k in range(len(ORDER))],
        }
        why = next((words for words, ages_ in known.items() if list(got) == ages_), "")
        k = next(k for k in range(len(ORDER)) if got[k] != wanted[k])
        fail(f"In the order {ORDER}, it says that batch {k} is {got[k]} versions old. {why}".strip())
    require(list(ask(ages, [0, 0, 0])) == [0, 1, 1], "With a single worker it is wrong.")
    return right(
        f"The ages are {wanted}. With n workers that take turns, a batch is n versions old: each worker's batch waits "
        "for n - 1 others. A worker that is slow brings the oldest ones."
    )


def _ages(order: Sequence[int]) -> list[int]:
    begun: dict[int, int] = {}
    found = []
    for k, worker in enumerate(order):
        found.append(k - begun.get(worker, 0))
        begun[worker] = k
    return found


def train(keep: Callable[..., Any], *, batches: int = 24, lag: int = 16, epochs: int = 6) -> list[float]:
    """Train on cart-pole with PPO, on the steps of two workers: a fast one, and one whose weights are old.

    Args:
        keep: chooses the steps to learn from, of a TensorDict ``[N]`` with "policy_version", and the learner's version.
        batches: number of batches of 2 x 16 x 32 steps.
        lag: age of the weights of the second worker, in batches.
        epochs: how often each batch is used.

    Returns:
        After each batch, the mean return of the last 20 episodes of the first worker.
    """
    torch.manual_seed(0)
    poles, actor, critic = [Poles(16, limit=500) for _ in range(2)], network(2, 64), network(1, 64)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.005)
    weights, behind = deque([copy.deepcopy(actor.state_dict())], maxlen=lag + 1), copy.deepcopy(actor)
    found = []
    for batch in range(batches):
        behind.load_state_dict(weights[0])
        parts = [_steps(poles[0], actor, critic, batch), _steps(poles[1], behind, critic, batch + 1 - len(weights))]
        td = keep(torch.cat(parts), batch)  # type: ignore[arg-type]  # torch.cat joins TensorDicts, too
        A = (td["advantage"] - td["advantage"].mean()) / td["advantage"].std()
        for _ in range(epochs):
            for k in torch.randperm(len(td)).split(256):
                log_prob = actor(td["observation"][k]).log_softmax(-1).gather(-1, td["action"][k, None]).squeeze(-1)
                ratio = (log_prob - td["log_prob"][k]).exp()
                loss = -torch.min(ratio * A[k], ratio.clamp(0.8, 1.2) * A[k]).mean()
                loss = loss + 0.5 * (critic(td["observation"][k]).squeeze(-1) - td["target"][k]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        weights.append(copy.deepcopy(actor.state_dict()))
        last = poles[0].returns[-20:]
        found.append(sum(last) / max(len(last), 1))
    return found


def _steps(poles: Poles, actor: Any, critic: Any, version: int) -> TensorDictBase:
    """Let a worker play, and add what the learner needs."""
    steps = poles.play(actor, 32)
    with torch.no_grad():
        V, V_next = (critic(x).squeeze(-1) for x in (steps.observation, steps.next_observation))
        delta = steps.reward + 0.99 * V_next * ~steps.terminated - V
        advantage = returns_to_go(delta, steps.done, 0.99 * 0.95)
        log_prob = log_prob_of(actor, steps)
    data = {"observation": steps.observation, "action": steps.action, "log_prob": log_prob}
    data |= {"advantage": advantage, "target": advantage + V, "policy_version": torch.full_like(steps.action, version)}
    return TensorDict(data, steps.action.shape).reshape(-1)


@exercise(
    title="Only what is fresh",
    prompt="""
        Write `fresh(td, version, most)`: the steps of `td` that the learner, who has this `version`, should learn from:
        those whose weights are at most `most` versions old. `td` has the shape `[steps]`, and `"policy_version"` is the
        version that made each step. The check trains with half of the steps from a worker that is 16 versions behind:
        once with all steps, once with those that your function keeps.
    """,
    stub="""
        def fresh(td, version, most):
            # a TensorDict can be indexed by a mask
            ...
    """,
    hints=[
        'The age of a step is `version - td["policy_version"]`.',
        "A comparison of tensors gives a mask, and `td[mask]` has the steps where it is True.",
        '`return td[version - td["policy_version"] <= most]`.',
    ],
    solution=FRESH,
    wrong=[
        instead(FRESH, of=">= version - most", put="> version - most", says="exactly `most` versions old"),
        instead(FRESH, of=">= version - most", put="<= version - most", says="old ones are kept"),
        instead(FRESH, of=">= version - most", put="== version", says="are dropped although"),
        instead(FRESH, of=">= version - most", put="<= most", says="the version, not the age"),
        instead(FRESH, of="td[td[", put="[td[", says="the steps themselves"),
        WrongAnswer("def fresh(td, version, most): return td", says="old ones are kept"),
    ],
    accepted=[
        """
        def fresh(td, version, most):
            age = version - td["policy_version"]
            return td[(age <= most).nonzero().squeeze(-1)]
        """,
    ],
    setup="import torch",
    seconds=60.0,
)  # fmt: skip
def fresh(fresh: Callable[..., Any]) -> Outcome:
    """Compare the steps that are kept, then train with and without."""
    made = torch.tensor([9, 3, 7, 8, 6, 9, 5])
    td = TensorDict({"policy_version": made, "action": torch.arange(7)}, [7])
    got = ask(fresh, td, 9, 2)
    require(isinstance(got, TensorDictBase), f"It gave a `{type(got).__name__}`; the steps themselves are wanted.")
    kept, wanted = sorted(got["policy_version"].tolist()), [7, 8, 9, 9]
    said = f"Of steps with the versions {made.tolist()}, at version 9 and at most 2 old, it kept {kept}."
    require(kept != [8, 9, 9], f"{said} A step that is exactly `most` versions old is fresh enough.")
    require(got.batch_size == torch.Size([len(kept)]), f"{said} Their shape is {list(got.batch_size)}.")
    require(kept or not wanted, f"{said} It compares the version, not the age, with `most`.")
    require(min(kept) >= 7, f"{said} The old ones are kept.")
    require(kept == wanted, f"{said} Some are dropped although they are at most 2 versions old.")
    order = made[made >= 7].tolist()
    require(got["policy_version"].tolist() == order and _agrees(got, made), f"{said} The other entries do not fit.")
    curves = {
        "all steps, half of them old": train(lambda td, version: td),
        "fresh steps only": train(lambda td, version: fresh(td, version, 4)),
    }
    shown = Trained({"mean return of the last 20 episodes": curves}, x="batch")
    return right("Half of the steps are thrown away, and the policy learns faster: old steps do harm.", shown)


def _agrees(got: TensorDictBase, made: torch.Tensor) -> bool:
    return bool((made[got["action"]] == got["policy_version"]).all()) and math.prod(got["action"].shape) == len(got)
