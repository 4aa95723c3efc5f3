"""Exercise of lesson 21 on policies: a policy that takes only legal moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import ExplorationType, GridWorldEnv, set_exploration_type

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

MAZE = ("S.#.", "..#G", ".#..", "....")

SETUP = """
import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch.distributions import Categorical
from rlnb.envs import ExplorationType
from rlnb.modules import MaskedCategorical
"""

CAREFUL = """
    def careful(net):
        scores = TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
        choose = ProbabilisticTensorDictModule(
            in_keys={"logits": "logits", "mask": "action_mask"},
            out_keys=["action"],
            distribution_class=MaskedCategorical,
            default_interaction_type=ExplorationType.RANDOM,
        )
        return ProbabilisticTensorDictSequential(scores, choose)
"""


@exercise(
    title="Only legal moves",
    prompt="""
        Write `careful(net)`: a policy for the maze above. `net` returns the logits of the four moves for a cell. The
        policy samples a legal move from them. With the deterministic exploration type, it takes the most likely legal
        move.
    """,
    stub="""
        def careful(net):
            scores = TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
            choose = ...
            return ProbabilisticTensorDictSequential(scores, choose)
    """,
    hints=[
        "Start from the policy in the section on policies. For each of its arguments: what is different here?",
        "The distribution now takes two arguments, `logits` and `mask`. The entries can have other names than the "
        "arguments: `in_keys` can be a dictionary from argument names to entries.",
        'Use `in_keys={"logits": "logits", "mask": "action_mask"}`, with `distribution_class=MaskedCategorical`.',
    ],
    solution=CAREFUL,
    wrong=[
        instead(
            CAREFUL,
            of="distribution_class=MaskedCategorical",
            put="distribution_class=Categorical",
            says="`Categorical` takes no argument `mask`",
        ),
        instead(
            CAREFUL,
            of='in_keys={"logits": "logits", "mask": "action_mask"},\n        out_keys=["action"],\n'
            "        distribution_class=MaskedCategorical",
            put='in_keys=["logits"],\n        out_keys=["action"],\n        distribution_class=Categorical',
            says="is not legal",
        ),
        instead(
            CAREFUL,
            of='{"logits": "logits", "mask": "action_mask"}',
            put='["logits", "action_mask"]',
            says="`MaskedCategorical` takes no argument `action_mask`",
        ),
        instead(
            CAREFUL,
            of="\n        default_interaction_type=ExplorationType.RANDOM,",
            put="",
            says="the same move each time",
        ),
        instead(CAREFUL, of='"logits": "logits"', put='"probs": "logits"', says="treats the logits as probabilities"),
        instead(CAREFUL, of='out_keys=["action"]', put='out_keys=["move"]', says="no `action`"),
        WrongAnswer(
            """
            def careful(net):
                def policy(td):
                    return td.set("action", torch.multinomial(td["action_mask"].float(), 1).squeeze(-1))
                return policy
            """,
            says="the logits of `net` give",
        ),
        WrongAnswer(
            """
            def careful(net):
                def policy(td):
                    logits = net(td["observation"]).masked_fill(~td["action_mask"], -torch.inf)
                    return td.set("action", Categorical(logits=logits).sample())
                return policy
            """,
            says="With the deterministic exploration type",
        ),
        WrongAnswer(
            """
            def careful(net):
                def policy(td):
                    return td.set("action", net(td["observation"]).argmax(-1))
                return policy
            """,
            says="The move 0 (left) in cell 0",
        ),
        instead(
            CAREFUL, of="(scores, choose)", put="(choose, scores)", says="The module 0 of the sequence failed with"
        ),
    ],
    accepted=[
        """
        from rlnb.envs import exploration_type

        def careful(net):
            def policy(td):
                logits = net(td["observation"]).masked_fill(~td["action_mask"], -torch.inf)
                certain = exploration_type() == ExplorationType.DETERMINISTIC
                return td.set("action", logits.argmax(-1) if certain else Categorical(logits=logits).sample())

            return policy
        """,
    ],
    setup=SETUP,
)
def careful(careful: Callable[..., Any]) -> Outcome:
    """Sample at every cell, many times, then play in the maze with and without the mask."""
    env = GridWorldEnv(MAZE, action_mask=True, categorical_action_encoding=True, max_steps=50)
    net = _net(env.n_states)
    policy = ask(careful, net)
    require(callable(policy), f"Expected a policy, got {kind_of(policy)}.")
    drawn, mask = _drawn(policy, env, 2000)
    logits = net(torch.arange(env.n_states)).masked_fill(~mask, -torch.inf)
    _check_legal(drawn, mask, "")
    alike = (drawn == drawn[0]).all(0)
    require(
        not alike[mask.sum(-1) > 1].all(),
        "With several legal moves, it takes the same move each time. Sample the move instead.",
    )
    found = torch.stack([(drawn == move).float().mean(0) for move in range(4)], -1)
    if not torch.allclose(found, logits.softmax(-1), atol=0.06):
        raw = net(torch.arange(env.n_states)) * mask
        clipped = raw.clamp(min=0) / raw.clamp(min=0).sum(-1, keepdim=True).clamp(min=1e-6)
        if torch.allclose(found[0], clipped[0], atol=0.06):
            fail("It treats the logits as probabilities. A logit is the logarithm of one, up to a constant.")
        cell = int((found - logits.softmax(-1)).abs().amax(-1).argmax())
        fail(f"In cell {cell}, the legal moves are not sampled with the probabilities that the logits of `net` give.")
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        best, _ = _drawn(policy, env, 20)
    what = "With the deterministic exploration type "
    _check_legal(best, mask, what)
    require(bool((best == best[0]).all()), f"{what}it still samples its moves.")
    require(torch.equal(best[0], logits.argmax(-1)), f"{what}it does not take the most likely legal move.")
    return _play(policy, env)


def _net(n_states: int) -> torch.nn.Module:
    """A table of logits that likes to go left, which is against the wall at the start."""
    generator = torch.Generator().manual_seed(3)
    table = torch.rand(n_states, 4, generator=generator) + 0.2
    table[:, 0] += 1.5
    return torch.nn.Embedding.from_pretrained(table)


def _drawn(policy: Any, env: GridWorldEnv, times: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Let the policy choose in each cell, many times: actions ``[times, cells]`` and the masks ``[cells, 4]``."""
    cells = torch.arange(env.n_states)
    mask = torch.stack([_mask_of(env, cell) for cell in cells.tolist()])
    number = times * len(cells)
    root = TensorDict({"observation": cells.repeat(times), "action_mask": mask.repeat(times, 1)}, [number])
    got = _acted(policy, root)
    require(isinstance(got, TensorDictBase), f"The policy must return a TensorDict, got {kind_of(got)}.")
    require("action" in got.keys(), f"The result has no `action`, only {sorted(map(str, got.keys()))}.")  # noqa: SIM118 - `in` asks a TensorDict for values
    shape = list(got["action"].shape)
    require(
        shape == [number], f"For roots of shape {[number]}, expected one number each, got an action of shape {shape}."
    )
    return got["action"].detach().reshape(times, -1), mask


def _acted(policy: Any, root: TensorDictBase) -> Any:
    """Call the policy; where a distribution is given an argument that it does not know, say so in few words."""
    try:
        return policy(root)
    except RuntimeError as error:
        # TensorDictSequential names the module that failed; what failed in it is the cause.
        cause = error.__cause__ or error.__context__
        if "Scroll up" not in str(error) or cause is None:
            raise
        name = re.search(r"module '?(\d+)'?", str(error))
        at = f"The module {name[1]} of the sequence" if name else "A module of the sequence"
        words = cause.args[0] if isinstance(cause, KeyError) and cause.args else cause
        fail(f"{at} failed with {type(cause).__name__}: {words}. Does an earlier module write what each module reads?")
    except TypeError as error:
        found = re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
        if not found:
            raise
        fail(f"`{found[1]}` takes no argument `{found[2]}`, but `in_keys` passes one of that name.")


def _mask_of(env: GridWorldEnv, cell: int) -> torch.Tensor:
    if "".join(env.desc)[cell] == "#":
        return torch.ones(4, dtype=torch.bool)  # nobody gets there
    mask: torch.Tensor = env.reset(state=torch.tensor(cell))["action_mask"]
    return mask


def _check_legal(drawn: torch.Tensor, mask: torch.Tensor, when: str) -> None:
    illegal = ~mask.gather(-1, drawn.T).T
    if bool(illegal.any()):
        at = illegal.nonzero()[0]
        move, cell = int(drawn[tuple(at)]), int(at[1])
        name = ("left", "down", "right", "up")[move]
        fail(f"{when or ''}{'the' if when else 'The'} move {move} ({name}) in cell {cell} is not legal.")


def _play(policy: Any, env: GridWorldEnv) -> Outcome:
    """Show one episode of the policy."""
    env.set_seed(0)
    td = env.rollout(50, policy)
    said = "Legal everywhere, sampled from the logits, deterministic on request. An episode of a net that prefers left:"
    return right(said, RolloutPlayer(td, env))
