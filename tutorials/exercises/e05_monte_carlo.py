"""Exercises of lesson 5: the updates of Monte Carlo, TD(0) and n-step TD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from .asking import ask, fail, kind_of, require, right
from .curves import Curves
from .exercise import WrongAnswer, exercise
from .hall import close
from .mutants import instead
from .verdict import Outcome
from .walks import STATES, Learn, episode_of, error_curve, first_guess, learn_n_step

SETUP = "import torch"
FOREVER = 10**6  # n-step returns of so many steps are Monte Carlo's

MONTE_CARLO = """
    def monte_carlo(V, episode, alpha, gamma):
        V = V.clone()
        G = 0.0
        for t in reversed(range(len(episode))):
            s = episode["observation"][t]
            G = episode["next", "reward"][t].item() + gamma * G
            V[s] += alpha * (G - V[s])
        return V
"""

TD0 = """
    def td0(V, episode, alpha, gamma):
        V = V.clone()
        for t in range(len(episode)):
            s, s_ = episode["observation"][t], episode["next", "observation"][t]
            R, over = episode["next", "reward"][t].item(), episode["next", "terminated"][t].item()
            target = R + gamma * V[s_] * (not over)
            V[s] += alpha * (target - V[s])
        return V
"""

N_STEP = """
    def n_step_td(V, episode, n, alpha, gamma):
        V = V.clone()
        T = len(episode)
        R = episode["next", "reward"].flatten().tolist()
        for t in range(T):
            end = min(t + n, T)
            G = sum(gamma ** (k - t) * R[k] for k in range(t, end))
            if end < T:
                G += gamma**n * V[episode["observation"][end]]
            s = episode["observation"][t]
            V[s] += alpha * (G - V[s])
        return V
"""


def _case(seed: int) -> tuple[torch.Tensor, TensorDictBase]:
    """Values, also where a walk ends, and an episode that visits no cell twice and has odd rewards."""
    draw = torch.Generator().manual_seed(seed)
    cells = torch.randperm(STATES, generator=draw)[:8].tolist()
    return torch.rand(STATES, generator=draw) + 0.5, episode_of(cells, torch.rand(7, generator=draw).tolist())


def _values(got: Any) -> torch.Tensor:
    require(isinstance(got, torch.Tensor), f"Expected the tensor of the values, got {kind_of(got)}.")
    shape = tuple(got.shape)
    require(shape == (STATES,), f"Expected shape {(STATES,)} (one value for each cell), got {shape}.")
    return got.detach().float()


def _compare(learn: Callable[[torch.Tensor, TensorDictBase, float, float], Any], n: int, known: dict[str, Any]) -> None:
    """Compare updates with the reference on a few episodes; ``known`` says what each typical mistake gives."""
    for seed, alpha, gamma in ((0, 0.3, 0.9), (1, 0.1, 0.5), (2, 0.5, 1.0)):
        values, episode = _case(seed)
        got = _values(learn(values, episode, alpha, gamma))
        wanted = learn_n_step(values, episode, n, alpha, gamma)
        if close(got, wanted):
            continue
        off = ((got - wanted).abs() > 1e-4).nonzero().flatten().tolist()
        visited = episode["observation"].tolist()
        if not close(
            got[[c for c in range(STATES) if c not in visited]], values[[c for c in range(STATES) if c not in visited]]
        ):
            fail("It changes the value of a cell in which no step starts.")
        why = next((words for words, found in known.items() if close(got, found(values, episode, alpha, gamma))), "")
        said = f"With alpha = {alpha:g} and gamma = {gamma:g} it is wrong for {len(off)} of {len(visited)} cells."
        fail(f"{said} {why or 'Follow one episode of two steps by hand.'}")


def _moved(values: torch.Tensor, episode: TensorDictBase, alpha: float, targets: list[float]) -> torch.Tensor:
    """Move the value of each visited cell towards its target."""
    new = values.clone()
    for cell, target in zip(episode["observation"].tolist(), targets, strict=True):
        new[cell] += alpha * (target - new[cell])
    return new


def _rewards(episode: TensorDictBase) -> list[float]:
    found: list[float] = episode["next", "reward"].flatten().tolist()
    return found


def _later(rewards: list[float], t: int, gamma: float) -> float:
    return sum(gamma**k * reward for k, reward in enumerate(rewards[t:]))


@exercise(
    title="Monte Carlo: wait for the end",
    prompt="""
        Write `monte_carlo(V, episode, alpha, gamma)`. `V` has a value for each cell, and `episode` is one finished
        episode, a TED of shape `[T]`. For each step, move the value of its cell by `alpha` towards the return *G* from
        that step on, and give the new values back. The check learns from 60 walks, and draws the error: how far the
        values are from the true ones, on average over the cells.
    """,
    stub="""
        def monte_carlo(V, episode, alpha, gamma):
            V = V.clone()
            G = 0.0
            for t in reversed(range(len(episode))):
                s = episode["observation"][t]
                G = ...  # the reward of the step is episode["next", "reward"][t].item()
                V[s] += alpha * (G - V[s])
            return V
    """,
    hints=[
        "Going backwards, the return from step t + 1 on is known when it is the turn of step t.",
        "The new `G` is the reward of the step plus `gamma` times the old `G`.",
        '`G = episode["next", "reward"][t].item() + gamma * G`.',
    ],
    solution=MONTE_CARLO,
    wrong=[
        instead(MONTE_CARLO, of="gamma * G", put="G", says="`gamma` makes no difference"),
        instead(MONTE_CARLO, of=" + gamma * G", put="", says="only its own reward"),
        instead(MONTE_CARLO, of="V[s] += alpha * (G - V[s])", put="V[s] = G", says="all the way to the return"),
        instead(MONTE_CARLO, of="V[s] += alpha * (G - V[s])", put="V[s] += alpha * G", says="only ever adds"),
        instead(MONTE_CARLO, of="gamma * G", put="gamma * V[s]", says="not the rewards that came"),
        instead(
            MONTE_CARLO,
            of='episode["next", "reward"][t].item() + gamma * G',
            put='gamma * (episode["next", "reward"][t].item() + G)',
            says="The reward of the step itself is discounted",
        ),
        instead(
            MONTE_CARLO,
            of='episode["next", "reward"][t].item() + gamma * G',
            put='G + gamma**t * episode["next", "reward"][t].item()',
            says="from the start of the episode",
        ),
        instead(MONTE_CARLO, of="G = episode", put="G += episode", says="count twice"),
        instead(MONTE_CARLO, of="reversed(range(len(episode)))", put="range(len(episode))", says="got those before it"),
        instead(
            MONTE_CARLO,
            of='reversed(range(len(episode))):\n        s = episode["observation"][t]\n        G = episode["next", '
            '"reward"][t].item() + gamma * G',
            put='range(len(episode)):\n        s = episode["observation"][t]\n        G += gamma**t * episode["next", '
            '"reward"][t].item()',
            says="got those from the start to the step",
        ),
        instead(MONTE_CARLO, of="V = V.clone()", put="V = V", says="changed its input"),
        instead(MONTE_CARLO, of='episode["observation"]', put='episode["next", "observation"]', says="no step starts"),
        instead(MONTE_CARLO, of="    return V", put="    return G", says="got a `float`"),
    ],
    accepted=[
        """
        def monte_carlo(V, episode, alpha, gamma):
            new = V.clone()
            R = episode["next", "reward"].flatten()
            for t in range(len(episode)):
                G = (gamma ** torch.arange(len(R) - t) * R[t:]).sum()
                new[episode["observation"][t]] += alpha * (G - new[episode["observation"][t]])
            return new
        """
    ],
    setup=SETUP,
    seconds=60.0,
)
def monte_carlo(monte_carlo: Callable[..., Any]) -> Outcome:
    """Compare with the reference, then learn from walks."""

    def before(v: torch.Tensor, e: TensorDictBase, alpha: float, gamma: float) -> torch.Tensor:
        found, total = [], 0.0
        for reward in _rewards(e):
            total = reward + gamma * total
            found.append(total)
        return _moved(v, e, alpha, found)

    _compare(
        lambda *given: ask(monte_carlo, *given),
        FOREVER,
        {
            "`gamma` makes no difference.": lambda v, e, a, g: learn_n_step(v, e, FOREVER, a, 1.0),
            "The value moves to only its own reward, and not to the return.": lambda v, e, a, g: _moved(
                v, e, a, _rewards(e)
            ),
            "It jumps all the way to the return. Take a step of `alpha`.": lambda v, e, a, g: learn_n_step(
                v, e, FOREVER, 1.0, g
            ),
            "It only ever adds: the old value has to make room.": lambda v, e, a, g: _moved(
                v, e, a, [_later(_rewards(e), t, g) + float(v[c]) for t, c in enumerate(e["observation"].tolist())]
            ),
            "After the reward it adds a value, and not the rewards that came later.": lambda v, e, a, g: _moved(
                v, e, a, [r + g * float(v[c]) for r, c in zip(_rewards(e), e["observation"].tolist(), strict=True)]
            ),
            "The reward of the step itself is discounted, too.": lambda v, e, a, g: _moved(
                v, e, a, [g * _later(_rewards(e), t, g) for t in range(len(e))]
            ),
            "The discount counts from the start of the episode, and not from the step.": lambda v, e, a, g: _moved(
                v, e, a, [g**t * _later(_rewards(e), t, g) for t in range(len(e))]
            ),
            "The later rewards count twice, once with `gamma` and once without.": lambda v, e, a, g: _moved(
                v, e, a, [_later(_rewards(e), t, 1 + g) for t in range(len(e))]
            ),
            "Expected the rewards after the step in `G`, got those before it.": before,
            "Expected the rewards after the step in `G`, got those from the start to the step.": lambda v, e, a, g: (
                _moved(v, e, a, [_later(_rewards(e)[: t + 1], 0, g) for t in range(len(e))])
            ),
        },
    )
    curve = error_curve(lambda v, e: _values(monte_carlo(v, e, 0.02, 1.0)))
    return right("The error falls, and it trembles, because each walk ends in 0 or 1:", _errors({"Monte Carlo": curve}))


def _errors(curves: dict[str, list[float]]) -> Curves:
    return Curves({"error of the values": curves}, x="episode", first=0)


@exercise(
    title="TD(0): learn from the next guess",
    prompt="""
        Write `td0(V, episode, alpha, gamma)`. Go forward through the episode. In each step, move the value of its cell
        by `alpha` towards the target `R + gamma * V[s_]`, where nothing follows a terminated step, and give the new
        values back. The check lets it learn from the same walks as Monte Carlo.
    """,
    stub="""
        def td0(V, episode, alpha, gamma):
            V = V.clone()
            for t in range(len(episode)):
                s = episode["observation"][t]
                # episode["next"][t] holds what followed: "observation", "reward" and "terminated";
                # the last two have the shape [1], and their .item() is a number or a flag
                V[s] += ...
            return V
    """,
    hints=[
        "There is no sum here: everything you need is in row t of the episode.",
        "The value of the next cell counts only if the step was not terminated: `V[s_] * (not over)`.",
        "`target = R + gamma * V[s_] * (not over)`, then `V[s] += alpha * (target - V[s])`.",
    ],
    solution=TD0,
    wrong=[
        instead(TD0, of=" * (not over)", put="", says="where nothing follows"),
        instead(TD0, of="gamma * V[s_]", put="V[s_]", says="`gamma` makes no difference"),
        instead(TD0, of="gamma * V[s_]", put="gamma * V[s]", says="the cell that the step starts from"),
        instead(TD0, of="R + gamma", put="gamma", says="Where is the reward"),
        instead(TD0, of="V[s] += alpha * (target - V[s])", put="V[s] = target", says="all the way to the target"),
        instead(TD0, of="(target - V[s])", put="target", says="only ever adds"),
        instead(TD0, of="(not over)", put="(~over)", says="write `not over`"),
        instead(TD0, of="V[s] +=", put="V[s] += 0.0 if over else", says="The last step of a walk"),
        WrongAnswer(
            """
            def td0(V, episode, alpha, gamma):
                new = V.clone()
                for step in episode:
                    s, s_ = step["observation"], step["next", "observation"]
                    R, over = step["next", "reward"].item(), step["next", "terminated"].item()
                    new[s] = V[s] + alpha * (R + gamma * V[s_] * (not over) - V[s])
                return new
            """,
            says="visits a cell twice",
        ),
        instead(TD0, of="in range(len(episode))", put="in reversed(range(len(episode)))", says="forward"),
        instead(TD0, of="target - V[s]", put="V[s] - target", says="away from the target"),
        instead(
            TD0, of="V[s] += alpha * (target - V[s])", put="V[s_] += alpha * (target - V[s_])", says="no step starts"
        ),
        instead(TD0, of="V = V.clone()", put="V = V", says="changed its input"),
    ],
    accepted=[
        """
        def td0(V, episode, alpha, gamma):
            for row in episode:
                over = row["next", "terminated"].squeeze()
                delta = row["next", "reward"].squeeze() - V[row["observation"]]
                delta = delta + gamma * torch.where(over, 0.0, V[row["next", "observation"]])
                V = V.index_add(0, row["observation"].reshape(1), alpha * delta.reshape(1))
            return V
        """
    ],
    setup=SETUP,
    seconds=60.0,
)
def td0(td0: Callable[..., Any]) -> Outcome:
    """Compare with the reference, then learn from the same walks as Monte Carlo."""

    def targets(ahead: Callable[[torch.Tensor, TensorDictBase], torch.Tensor], reward: float = 1.0) -> Any:
        def moved(v: torch.Tensor, e: TensorDictBase, alpha: float, gamma: float) -> torch.Tensor:
            found = reward * e["next", "reward"].flatten() + gamma * ahead(v, e)
            return _moved(v, e, alpha, found.tolist())

        return moved

    def on(e: TensorDictBase) -> torch.Tensor:
        return ~e["next", "terminated"].flatten()

    def backwards(v: torch.Tensor, e: TensorDictBase, alpha: float, gamma: float) -> torch.Tensor:
        for t in reversed(range(len(e))):
            ahead = 0.0 if t == len(e) - 1 else gamma * float(v[e["next", "observation"][t]])
            v = _moved(v, e[t : t + 1], alpha, [_rewards(e)[t] + ahead])
        return v

    _compare(
        lambda *given: ask(td0, *given),
        1,
        {
            "After a terminated step it adds a value, where nothing follows.": targets(
                lambda v, e: v[e["next", "observation"]]
            ),
            "`gamma` makes no difference.": lambda v, e, a, g: learn_n_step(v, e, 1, a, 1.0),
            "It looks up the value of the cell that the step starts from.": targets(
                lambda v, e: v[e["observation"]] * on(e)
            ),
            "Where is the reward?": targets(lambda v, e: v[e["next", "observation"]] * on(e), reward=0.0),
            "It jumps all the way to the target. Take a step of `alpha`.": lambda v, e, a, g: learn_n_step(
                v, e, 1, 1.0, g
            ),
            "It only ever adds: the old value has to make room.": lambda v, e, a, g: _moved(
                v,
                e,
                a,
                (
                    e["next", "reward"].flatten() + g * v[e["next", "observation"]] * on(e) + v[e["observation"]]
                ).tolist(),
            ),
            "Of a Python flag, `~over` is a number, -2 or -1: write `not over`.": targets(
                lambda v, e: v[e["next", "observation"]] * (on(e).float() - 2)
            ),
            "The last step of a walk moves its value, too: it has a reward.": lambda v, e, a, g: torch.where(
                torch.arange(STATES) == e["observation"][-1], v, learn_n_step(v, e, 1, a, g)
            ),
            "It steps away from the target.": lambda v, e, a, g: learn_n_step(v, e, 1, -a, g),
            "Go forward: the values of later cells are to be those from before this episode.": backwards,
        },
    )
    values, there_and_back = first_guess(), episode_of([5, 6, 5, 6, 7, 8, 9, 10])
    got = _values(ask(td0, values, there_and_back, 0.5, 0.9))
    require(
        close(got, learn_n_step(values, there_and_back, 1, 0.5, 0.9)),
        "It is wrong for a walk that visits a cell twice: each step starts from the values that the last one left.",
    )
    curves = {
        "Monte Carlo, alpha = 0.02": error_curve(_reference(FOREVER, 0.02)),
        "your TD(0), alpha = 0.1": error_curve(lambda v, e: _values(td0(v, e, 0.1, 1.0))),
        "your TD(0), alpha = 0.6": error_curve(lambda v, e: _values(td0(v, e, 0.6, 1.0))),
    }
    last = {name: curve[-1] for name, curve in curves.items()}
    said = f"After 60 walks TD(0) is off by {last['your TD(0), alpha = 0.1']:.2f}, and Monte Carlo by "
    said += f"{last['Monte Carlo, alpha = 0.02']:.2f}. With too large a step, TD(0) learns fast, and then stays wrong:"
    return right(said, _errors(curves))


def _reference(n: int, alpha: float) -> Learn:
    return lambda v, e: learn_n_step(v, e, n, alpha)


@exercise(
    title="n steps: something in between",
    prompt="""
        Write `n_step_td(V, episode, n, alpha, gamma)`. The target of step *t* is the discounted sum of `n` rewards, and
        then `gamma**n` times the value of the cell in which step *t* + `n` starts. Near the end of the
        episode fewer than `n` rewards are left: then the target is their sum alone. The check compares several `n`.
    """,
    stub="""
        def n_step_td(V, episode, n, alpha, gamma):
            V = V.clone()
            T = len(episode)
            for t in range(T):
                s = episode["observation"][t]
                # n rewards from step t on, then the value of episode["observation"][t + n], if there is one
                G = ...
                V[s] += alpha * (G - V[s])
            return V
    """,
    hints=[
        "With `n` = 1 this is TD(0), and with `n` = T or more it is Monte Carlo.",
        "Let `end = min(t + n, T)`. The sum is over the rewards `t` to `end - 1`, the first without a discount.",
        "`G = sum(gamma ** (k - t) * R[k] for k in range(t, end))`, and if `end < T`, add `gamma**n` times the value "
        'of the cell `episode["observation"][end]`.',
    ],
    solution=N_STEP,
    wrong=[
        instead(N_STEP, of="gamma**n * V", put="gamma * V", says="discounted by one step only"),
        instead(N_STEP, of="gamma**n * V", put="V", says="is not discounted"),
        instead(N_STEP, of="gamma ** (k - t)", put="gamma**k", says="from the start of the episode"),
        instead(N_STEP, of="in range(T)", put="in range(T - n)", says="the steps near the end"),
        instead(N_STEP, of="gamma ** (k - t) * R[k]", put="R[k]", says="The rewards are not discounted"),
        instead(N_STEP, of="T = len(episode)", put="T, n = len(episode), 1", says="it is TD(0)"),
        instead(N_STEP, of="min(t + n, T)", put="T", says="it is Monte Carlo"),
        instead(
            N_STEP,
            of="if end < T:\n            G += gamma**n",
            put="if end < T:\n            G += 0",
            says="no value at the end of the sum",
        ),
        instead(N_STEP, of="range(t, end))", put="range(t, min(end + 1, T)))", says="one reward too many"),
        instead(
            N_STEP,
            of='if end < T:\n            G += gamma**n * V[episode["observation"][end]]',
            put='G += gamma**n * V[episode["next", "observation"][end - 1]]',
            says="where nothing follows",
        ),
        instead(N_STEP, of='["observation"][end]', put='["observation"][t]', says="the cell that the step starts from"),
        instead(N_STEP, of="V = V.clone()", put="V = V", says="changed its input"),
        instead(N_STEP, of="min(t + n, T)", put="t + n", says="IndexError"),
    ],
    setup=SETUP,
    seconds=60.0,
)
def n_step_td(n_step_td: Callable[..., Any]) -> Outcome:
    """Compare with the reference for several n, then draw the error of each."""
    for n in (3, 1, 2, 5, 20):
        _compare(lambda v, e, a, g, n=n: ask(n_step_td, v, e, n, a, g), n, _n_step_mistakes(n))  # type: ignore[misc]
    names = {1: "n = 1, TD(0)", 2: "n = 2", 4: "n = 4", FOREVER: "Monte Carlo"}
    curves = {
        name: error_curve(lambda v, e, n=n: _values(n_step_td(v, e, n, 0.1, 1.0)), episodes=40)  # type: ignore[misc]
        for n, name in names.items()
    }
    early = min(names.values(), key=lambda name: curves[name][10])
    said = f"After 10 walks the best is {early}: it hears of the end sooner than TD(0), "
    said += "and trembles less than Monte Carlo."
    return right(said, _errors(curves))


def _n_step_mistakes(n: int) -> dict[str, Any]:
    def targets(reward: Callable[[list[float], int, float], float], ahead: Any, power: int = n) -> Any:
        def moved(v: torch.Tensor, e: TensorDictBase, alpha: float, gamma: float) -> torch.Tensor:
            rewards, cells = _rewards(e), [*e["observation"].tolist(), int(e["next", "observation"][-1])]
            found = [reward(rewards, t, gamma) + gamma**power * ahead(v, cells, t) for t in range(len(e))]
            return _moved(v, e, alpha, found)

        return moved

    def sums(rewards: list[float], t: int, gamma: float) -> float:
        return _later(rewards[: t + n], t, gamma)

    def value(v: torch.Tensor, cells: list[int], t: int) -> float:
        return float(v[cells[t + n]]) if t + n < len(cells) - 1 else 0.0

    def value_here(v: torch.Tensor, cells: list[int], t: int) -> float:
        return float(v[cells[t]]) if t + n < len(cells) - 1 else 0.0

    def value_always(v: torch.Tensor, cells: list[int], t: int) -> float:
        return float(v[cells[min(t + n, len(cells) - 1)]])

    return {
        "`n` makes no difference: it is TD(0).": lambda v, e, a, g: learn_n_step(v, e, 1, a, g),
        "`n` makes no difference: it is Monte Carlo.": lambda v, e, a, g: learn_n_step(v, e, FOREVER, a, g),
        "The value at the end of the sum is discounted by one step only.": targets(sums, value, power=1),
        "The value at the end of the sum is not discounted.": targets(sums, value, power=0),
        "The discount counts from the start of the episode, and not from the step.": targets(
            lambda r, t, g: g**t * sums(r, t, g), value
        ),
        "It leaves out the steps near the end, where fewer than `n` rewards are left.": lambda v, e, a, g: learn_n_step(
            v, e, n, a, g
        ).where(~torch.isin(torch.arange(STATES), e["observation"][max(len(e) - n, 0) :]), v),
        "The rewards are not discounted.": targets(lambda r, t, g: sum(r[t : t + n]), value),
        "There is no value at the end of the sum.": targets(sums, lambda v, cells, t: 0.0),
        "There is one reward too many in the sum.": targets(lambda r, t, g: _later(r[: t + n + 1], t, g), value),
        "At the end of the episode it adds a value, where nothing follows.": targets(sums, value_always),
        "It looks up the value of the cell that the step starts from.": targets(sums, value_here),
    }
