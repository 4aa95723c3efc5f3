"""Exercise of lesson 26 on normalizing: an evaluation env with the statistics of the training env."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.envs import EnvBase, MountainCarEnv, TransformedEnv, VecNorm

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

_COPIES = 16
_STEPS = 60

FOR_EVALUATION = """
    def for_evaluation(train_env, base_env):
        return TransformedEnv(base_env, train_env.transform.frozen_copy())
"""


def _normed(numbers: str, says: str) -> WrongAnswer:
    """An answer with an ObservationNorm of these numbers."""
    source = f"""
        def for_evaluation(train_env, base_env):
            loc, scale = (getattr(train_env.transform, name)["observation"].clone() for name in ("loc", "scale"))
            norm = ObservationNorm({numbers}, in_keys=["observation"], standard_normal=True)
            return TransformedEnv(base_env, norm)
    """
    return WrongAnswer(source, says)


@exercise(
    title="Evaluate as in training",
    prompt="""
        Write `for_evaluation(train_env, base_env)`. The transform of `train_env` is a `VecNorm` of `"observation"` that
        has seen some data. Return an env around `base_env` that normalizes by the *current* mean and standard deviation
        of `train_env`. Evaluation data must not update the statistics of either env, and `train_env` must keep updating
        its own.
    """,
    stub="""
        def for_evaluation(train_env, base_env):
            transform = ...
            return TransformedEnv(base_env, transform)
    """,
    hints=[
        "A transform belongs to one env, so you need a second one. Which ways of making it share the statistics, which "
        "copy them, and which start from nothing?",
        "`clone()` shares the buffers: what one counts, the other counts too. You need a frozen copy.",
        "`VecNorm` has a method for this, `frozen_copy()`. `to_observation_norm()` works as well.",
    ],
    solution=FOR_EVALUATION,
    wrong=[
        instead(FOR_EVALUATION, of=".frozen_copy()", put="", says="already in a TransformedEnv"),
        instead(FOR_EVALUATION, of=".frozen_copy()", put=".clone()", says="updated the statistics of `train_env`"),
        instead(FOR_EVALUATION, of="frozen_copy", put="freeze().clone", says="no longer updates"),
        instead(FOR_EVALUATION, of="frozen_copy()", put="clone().freeze()", says="training continues"),
        instead(FOR_EVALUATION, of="frozen_copy()", put="frozen_copy().unfreeze()", says="they change while it runs"),
        instead(
            FOR_EVALUATION,
            of="train_env.transform.frozen_copy()",
            put='VecNorm(in_keys=["observation"])',
            says="data it has seen itself",
        ),
        WrongAnswer(
            """
            def for_evaluation(train_env, base_env):
                norm = ObservationNorm(in_keys=["observation"], standard_normal=True)
                env = TransformedEnv(base_env, norm)
                norm.init_stats(100, reduce_dim=(0, 1), cat_dim=1)
                return env
            """,
            says="from its own random steps",
        ),
        WrongAnswer("def for_evaluation(train_env, base_env): return train_env", says="got `train_env` itself"),
        WrongAnswer(
            "def for_evaluation(train_env, base_env): return TransformedEnv(train_env, None)",
            says="got the base env of `train_env`",
        ),
        WrongAnswer("def for_evaluation(train_env, base_env): return base_env", says="are not normalized"),
        WrongAnswer(
            "def for_evaluation(train_env, base_env): return train_env.transform.frozen_copy()",
            says="got a `VecNorm`",
        ),
        WrongAnswer(
            """
            def for_evaluation(train_env, base_env):
                loc, scale = train_env.transform.loc["observation"], train_env.transform.scale["observation"]
                return TransformedEnv(base_env, ObservationNorm(loc, scale, in_keys=["observation"]))
            """,
            says="are not those of the formula",
        ),
        _normed("scale, loc", says="Mean and standard deviation are swapped"),
        _normed("0 * loc, scale", says="The mean is not subtracted"),
        _normed("loc, scale**0", says="but not divided by the standard deviation"),
        _normed("loc, scale**2", says="the square of the standard deviation"),
    ],
    accepted=[
        _normed("loc, scale", says="").source,
        """
        def for_evaluation(train_env, base_env):
            return TransformedEnv(base_env, train_env.transform.to_observation_norm())
        """,
    ],
    setup="from rlnb.envs import ObservationNorm, TransformedEnv, VecNorm",
)
def for_evaluation(for_evaluation: Callable[..., Any]) -> Outcome:
    """Train, evaluate, train on, evaluate again, and check which statistics changed when."""
    norm = VecNorm(in_keys=["observation"], decay=0.98)
    train_env, base_env = TransformedEnv(_cars(0), norm), _cars(1)
    train_env.rollout(_STEPS, break_when_any_done=False)
    loc, scale = _statistics(norm)
    env = ask(for_evaluation, train_env, base_env, may_change=True)
    require(env is not None, "It gave `None`. Is there a `return`?")
    require(
        env is not train_env,
        "Expected another env, got `train_env` itself: evaluation and training would disturb each other.",
    )
    require(isinstance(env, EnvBase), f"Expected an env, got {kind_of(env)}.")
    inner = env.base_env if isinstance(env, TransformedEnv) else env
    require(inner is not train_env.base_env, "Expected an env around `base_env`, got the base env of `train_env`.")
    first = _evaluated(env)
    what = "The evaluation updated the statistics of `train_env`."
    require(torch.equal(_statistics(norm)[0], loc), what)
    _check_numbers(env, first, loc, scale)
    train_env.rollout(_STEPS, _pump, break_when_any_done=False)
    later = _statistics(norm)[0]
    require(not torch.equal(later, loc), "`train_env` no longer updates its statistics.")
    again = _evaluated(env)
    what = "When training continues, the statistics of the evaluation change, too. They should stay fixed."
    require(torch.equal(again, first), what)
    position = [f"{value:.2f}" for value in (loc[0].item(), later[0].item())]
    return right(
        f"Training continued, and its mean position changed from {position[0]} to {position[1]}. The evaluation gives "
        "the same numbers as before, so you can compare today's evaluation with next week's."
    )


def _cars(seed: int) -> MountainCarEnv:
    return MountainCarEnv(batch_size=[_COPIES], seed=seed, categorical_action_encoding=True)


def _pump(observation: torch.Tensor) -> torch.Tensor:
    return 2 * (observation[..., 1] > 0).long()


def _statistics(norm: VecNorm) -> tuple[torch.Tensor, torch.Tensor]:
    return norm.loc["observation"].clone(), norm.scale["observation"].clone()


def _evaluated(env: EnvBase) -> torch.Tensor:
    env.set_seed(3)
    td = env.rollout(20, lambda td: td.set("action", torch.full((_COPIES,), 2)), break_when_any_done=False)
    observation: torch.Tensor = td["observation"]
    return observation


def _check_numbers(env: EnvBase, got: torch.Tensor, loc: torch.Tensor, scale: torch.Tensor) -> None:
    """Require observations normalized by these numbers; if others were used, name them."""
    plain = _evaluated(_cars(1))
    wanted = (plain - loc) / scale
    if torch.allclose(got, wanted, atol=1e-3):
        return
    require(not torch.allclose(got, plain), "The observations are not normalized.")
    formula = "The numbers are not those of the formula (value - mean) / standard deviation."
    require(not torch.allclose(got, plain * scale + loc, atol=1e-3), formula)
    known = {
        "Mean and standard deviation are swapped": (plain - scale) / loc,
        "The mean is not subtracted": plain / scale,
        "The mean is subtracted, but not divided by the standard deviation": plain - loc,
        "It divides by the square of the standard deviation": (plain - loc) / scale**2,
    }
    for words, numbers in known.items():
        if torch.allclose(got, numbers, rtol=1e-3, atol=1e-3):
            fail(f"{formula} {words}.")
    if torch.allclose(got[:, 0], wanted[:, 0], atol=1e-1) and not torch.allclose(_evaluated(env), got):
        fail("It starts with the statistics of the training, but they change while it runs: it still updates them.")
    if torch.allclose(_evaluated(env), got):
        fail(
            "It normalizes by fixed numbers that are not those of the training. Do they come from its own random steps?"
        )
    fail("It normalizes by its own statistics, from data it has seen itself, and starts with none.")
