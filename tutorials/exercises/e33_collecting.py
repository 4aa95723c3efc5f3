"""Exercises of lesson 33: the duration of a collection, the age of weights, and training on fresh steps only."""

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

from .asking import as_number, ask, fail, kind_of, require, right
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
    title="Time it with a pencil",
    prompt="""
        There is one worker and one learner. `collect[k]` is the time the worker needs for batch `k`, and `learn[k]` the
        time the learner then spends on it, in milliseconds. Write `total(collect, learn)`: return the total time when
        the two run in step (sync), and when they run async. When async, the worker starts its next batch as soon as the
        learner takes the previous one, and the learner takes a batch as soon as the batch is ready and the learner is
        free.
    """,
    stub="""
        def total(collect, learn):
            sync = ...
            # async: keep two clocks, the learner's time and the time at which the next batch is ready
            return sync, ...
    """,
    hints=[
        "In step, nothing overlaps. For async, loop over the batches with two clocks: `now`, the learner's time, and "
        "`ready`, the time at which the next batch is ready.",
        "The learner takes batch `k` at `max(now, ready)`: whichever is earlier waits for the other.",
        "Then, for each `k`: `now = max(now, ready)`, `ready = now + collect[k + 1]` if there is another batch, and "
        "`now = now + learn[k]`.",
    ],
    solution=TOTAL,
    wrong=[
        instead(
            TOTAL,
            of="sync = sum(collect) + sum(learn)",
            put="sync = max(sum(collect), sum(learn))",
            says="the time in step",
        ),
        instead(TOTAL, of="return sync, now", put="return now, sync", says="in the wrong order"),
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
            says="only after the learner has finished",
        ),
        instead(TOTAL, of="now = max(now, ready)", put="now = ready", says="before it has finished the previous one"),
        instead(TOTAL, of="now, ready = 0, collect[0]", put="now, ready = 0, 0", says="must be collected first"),
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
    require(pair, "Return two numbers: the time in step and the time async.")
    sync, late = (float(as_number(value, "a single number for each of the two")) for value in got)
    in_step, asynchronous = _schedule(COLLECT, LEARN, False), _schedule(COLLECT, LEARN, True)
    wanted = (in_step.stop - in_step.start) / 1e6, (asynchronous.stop - asynchronous.start) / 1e6
    require((sync, late) != wanted[::-1], "The two numbers are in the wrong order. The time in step comes first.")
    if sync != wanted[0]:
        picture = BatchedEnvTimeline(in_step)
        fail(f"{sync:g} is not the time in step. One waits while the other works, as in the picture:", picture)
    if late != wanted[1]:
        _explain_async(late, asynchronous)
    again = ask(total, LEARN, COLLECT)
    other = [(trace.stop - trace.start) / 1e6 for trace in (_schedule(LEARN, COLLECT, a) for a in (False, True))]
    require([float(value) for value in again] == other, "The result is wrong for other times.")
    drawn: dict[str, Any] = {"in step": in_step, "async": asynchronous}
    return right(
        f"{wanted[0]:g} ms in step, {wanted[1]:g} ms async. If the worker and the learner are each slower at times, "
        "each sometimes waits for the other, so async is not as fast as the slower one alone. At best it halves the "
        "time.",
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
        float(
            max(sum(COLLECT), sum(LEARN))
        ): "That is the time if neither of them ever waited. But sometimes one does.",
        float(sum(max(c, n) for c, n in pairs)): (
            "It learns from each batch while it is being collected. What overlaps is the *next* batch."
        ),
        clock(
            lambda now, ready: ready, max, COLLECT[0]
        ): "Its worker runs ahead: it starts a batch although the learner has not taken the previous one.",
        float(sum(COLLECT) + sum(LEARN)): (
            "That is the time in step: its worker starts only after the learner has finished."
        ),
        clock(lambda now, ready: now, lambda now, ready: ready, COLLECT[0]): (
            "Its learner takes a batch before it has finished the previous one."
        ),
        clock(lambda now, ready: now, max, 0): "The first batch must be collected first.",
    }
    why = known.get(late, "Here are the correct times:")
    fail(f"{late:g} is not the time async. {why}", BatchedEnvTimeline(trace, t=0))


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
    title="How old are the weights?",
    prompt="""
        Write `ages(order)`. `order[k]` is the index of the worker that made batch `k` of a `MultiAsyncCollector`,
        counted from 0. All workers start their first batch at the beginning, with version 0 of the weights, and each
        starts its next batch as soon as the learner gets its previous one. The learner updates the weights once after
        each batch, so it has version `k` when it gets batch `k`. Return the list of ages: for each batch, how many
        versions the weights that made it are behind the learner's.
    """,
    stub="""
        def ages(order):
            # remember the version with which each worker started its batch
            ...
    """,
    hints=[
        "Which version does a worker start with? The learner's, at the moment the learner got its previous batch.",
        "Keep it in a dictionary: when worker `order[k]` starts again, at batch `k`, the version is `k`.",
        "For each `k`, the age is `k - begun.get(worker, 0)`. Then set `begun[worker] = k`.",
    ],
    solution=AGES,
    wrong=[
        instead(AGES, of="begun[worker] = k", put="begun[worker] = k + 1", says="*before* it learns"),
        instead(AGES, of="begun.get(worker, 0)", put="begun.get(worker, k)", says="first batch of each worker"),
        instead(AGES, of="k - begun.get(worker, 0)", put="begun.get(worker, 0)", says="got the versions"),
        WrongAnswer("def ages(order): return [min(k, len(set(order))) for k in range(len(order))]", says="took turns"),
        WrongAnswer("def ages(order):\n    return [min(k, 1) for k in range(len(order))]", says="a single worker"),
        instead(AGES, of="return found", put="return found[-1]", says="list"),
        instead(AGES, of="return found", put="return found[1:]", says="Expected 8 ages"),
    ],
    accepted=[AGES.replace("return found", "return torch.tensor(found)")],
    setup="import torch",
)  # fmt: skip
def ages(ages: Callable[..., Any]) -> Outcome:
    """Compare with the ages, and with those of typical mistakes."""
    got = ask(ages, ORDER)
    got = got.tolist() if isinstance(got, torch.Tensor) else got
    require(isinstance(got, (list, tuple)), f"Expected a list of ages, got {kind_of(got)}.")
    require(len(got) == len(ORDER), f"Expected {len(ORDER)} ages, one for each batch, got {len(got)}.")
    wanted = _ages(ORDER)
    if list(got) != wanted:
        begun = [k - age for k, age in enumerate(wanted)]
        firsts = [k if worker not in ORDER[:k] else None for k, worker in enumerate(ORDER)]
        known = {
            "A worker starts when the learner *gets* its batch, *before* it learns from it.": [
                k if first is not None else age - 1 for k, (first, age) in enumerate(zip(firsts, wanted, strict=True))
            ],
            "Check the first batch of each worker: it started at the beginning, with version 0.": [
                0 if first is not None else age for first, age in zip(firsts, wanted, strict=True)
            ],
            "Expected ages, got the versions that made the batches. An age is the learner's version minus that.": begun,
            "That would be right if the workers took turns. Here one is faster than the others.": [
                min(k, len(set(ORDER))) for k in range(len(ORDER))
            ],
            "That would be right for a single worker.": [min(k, 1) for k in range(len(ORDER))],
        }
        why = next((words for words, ages_ in known.items() if list(got) == ages_), "")
        k = next(k for k in range(len(ORDER)) if got[k] != wanted[k])
        fail(f"For the order {ORDER}, it gave an age of {got[k]} for batch {k}. {why}".strip())
    require(list(ask(ages, [0, 0, 0])) == [0, 1, 1], "The result is wrong for a single worker.")
    return right(
        f"The ages are {wanted}. If n workers take turns, a batch is n versions old, because it waits for n - 1 "
        "others. The slowest worker delivers the oldest batches."
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
    """Collect steps with a worker, and add what the learner needs."""
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
    title="Keep only fresh steps",
    prompt="""
        Write `fresh(td, version, most)`: return the steps of `td` made by weights that are at most `most` versions
        older than `version`, the learner's. `td` has the shape `[steps]`, and `"policy_version"` is the version that
        made each step. In the check, half of the steps come from a worker that is 16 versions behind. It trains once
        with all steps and once with those that your function keeps.
    """,
    stub="""
        def fresh(td, version, most):
            # a TensorDict can be indexed with a mask
            ...
    """,
    hints=[
        'The age of a step is `version - td["policy_version"]`.',
        "Comparing tensors gives a mask, and `td[mask]` holds the steps where it is True.",
        '`return td[version - td["policy_version"] <= most]`.',
    ],
    solution=FRESH,
    wrong=[
        instead(FRESH, of=">= version - most", put="> version - most", says="exactly `most` versions old"),
        instead(FRESH, of=">= version - most", put="<= version - most", says="keeps old steps"),
        instead(FRESH, of=">= version - most", put="== version", says="drops steps that"),
        instead(FRESH, of=">= version - most", put="<= most", says="the version, not the age"),
        instead(FRESH, of="td[td[", put="[td[", says="Expected the steps themselves"),
        WrongAnswer("def fresh(td, version, most): return td", says="keeps old steps"),
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
    require(isinstance(got, TensorDictBase), f"Expected the steps themselves, got {kind_of(got)}.")
    kept, wanted = sorted(got["policy_version"].tolist()), [7, 8, 9, 9]
    said = f"From steps of versions {made.tolist()}, with `version` = 9 and `most` = 2, it kept {kept}."
    require(kept != [8, 9, 9], f"{said} A step that is exactly `most` versions old is fresh enough.")
    require(
        got.batch_size == torch.Size([len(kept)]),
        f"{said} Expected the shape [{len(kept)}], got {list(got.batch_size)}.",
    )
    require(kept or not wanted, f"{said} It compares `most` with the version, not the age.")
    require(min(kept) >= 7, f"{said} It keeps old steps.")
    require(kept == wanted, f"{said} It drops steps that are at most 2 versions old.")
    order = made[made >= 7].tolist()
    require(
        got["policy_version"].tolist() == order and _agrees(got, made),
        f"{said} The other entries do not belong to these steps.",
    )
    curves = {
        "all steps, half of them old": train(lambda td, version: td),
        "fresh steps only": train(lambda td, version: fresh(td, version, 4)),
    }
    shown = Trained({"mean return of the last 20 episodes": curves}, x="batch")
    return right("Half of the steps are thrown away, yet the policy learns faster: old steps do harm.", shown)


def _agrees(got: TensorDictBase, made: torch.Tensor) -> bool:
    return bool((made[got["action"]] == got["policy_version"]).all()) and math.prod(got["action"].shape) == len(got)
