"""Exercise of lesson 28 on importance weights: a step of learning from a prioritized buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

from .asking import as_number, ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

RATE = 0.1
_STEPS, _TAIL = 800, 400

IMPROVE = """
    def improve(value, buffer):
        sample = buffer.sample()
        error = sample["reward"] - value
        buffer.update_priority(sample["index"], error.abs())
        return value + 0.1 * (sample["priority_weight"] * error).mean()
"""


@exercise(
    title="Correct the bias with weights",
    prompt="""
        Write `improve(value, buffer)`, one learning step that improves `value`, an estimate of the mean reward of a
        pull. Draw a sample from the prioritized `buffer`. Each error is a `"reward"` of the sample minus `value`.
        Return the new value: the old one plus 0.1 times the mean of the weighted errors. Also update the priorities of
        the items that you drew: set them to the absolute errors, computed with the old `value`.
    """,
    stub="""
        def improve(value, buffer):
            # buffer.sample() has more entries than "reward"
            ...
    """,
    hints=[
        "The sample has more entries than you stored. Which one holds the weight of each item, and which one its "
        "index?",
        'The weights are `sample["priority_weight"]`, the indices `sample["index"]`. A priority is never negative.',
        'First `buffer.update_priority(sample["index"], error.abs())`. Then '
        '`return value + 0.1 * (sample["priority_weight"] * error).mean()`.',
    ],
    solution=IMPROVE,
    wrong=[
        instead(IMPROVE, of='sample["priority_weight"] * error', put="error", says="without its weight"),
        instead(IMPROVE, of='sample["priority_weight"] * error', put='sample["priority_weight"]', says="out the error"),
        instead(
            IMPROVE,
            of='(sample["priority_weight"] * error)',
            put='((sample["priority_weight"] * error) ** 2)',
            says="squared",
        ),
        instead(IMPROVE, of=".mean()", put=".sum()", says="the mean of the 8 errors, got their sum"),
        instead(IMPROVE, of="+ 0.1 * ", put="+ ", says="the full mean"),
        instead(IMPROVE, of="value + 0.1", put="value - 0.1", says="away from the rewards"),
        instead(IMPROVE, of="return value + ", put="return ", says="only the change"),
        instead(IMPROVE, of='buffer.update_priority(sample["index"], error.abs())\n    ', put="", says="new priority"),
        instead(IMPROVE, of="error.abs())", put="error)", says="negative"),
        instead(IMPROVE, of="error.abs())", put="error**2)", says="are the squares"),
        instead(
            IMPROVE,
            of="error.abs())",
            put='(sample["priority_weight"] * error).abs())',
            says="were multiplied by the weights",
        ),
        instead(IMPROVE, of='sample["index"]', put="torch.arange(8)", says="items that were not drawn"),
        WrongAnswer(
            'def improve(value, buffer): return value + 0.1 * (buffer[:]["reward"] - value).mean()',
            says="drew no sample",
        ),
        WrongAnswer(
            """
            def improve(value, buffer):
                error = buffer.sample()["reward"] - value
                sample = buffer.sample()
                buffer.update_priority(sample["index"], (sample["reward"] - value).abs())
                return value + 0.1 * (sample["priority_weight"] * error).mean()
            """,
            says="drew 2 samples",
        ),
        WrongAnswer(
            """
            def improve(value, buffer):
                sample = buffer.sample()
                error = sample["reward"] - value
                value = value + 0.1 * (sample["priority_weight"] * error).mean()
                buffer.update_priority(sample["index"], (sample["reward"] - value).abs())
                return value
            """,
            says="of the new value",
        ),
        WrongAnswer(
            """
            def improve(value, buffer):
                sample = buffer.sample()
                error = sample["reward"] - value
                buffer.update_priority(sample["index"], error.abs())
                weight = sample["priority_weight"]
                return value + 0.1 * (weight * error).sum() / weight.sum()
            """,
            says="divided by the sum of the weights",
        ),
    ],
    setup="import torch",
)  # fmt: skip
def improve(improve: Callable[..., Any]) -> Outcome:
    """Look at single steps with numbers that tell each mistake, then learn for a while."""
    for value in (0.3, -0.2):
        buffer = _Watched(alpha=1.0, beta=0.6, storage=LazyTensorStorage(40), batch_size=8)
        reward = torch.randn(40)
        buffer.extend(TensorDict({"reward": reward}, [40]))
        buffer.update_priority(torch.arange(40), torch.linspace(0.5, 2.0, 40))
        buffer.told = []
        _check(improve, buffer, torch.tensor(value))
    learned = [_learned(improve, beta) for beta in (1.0, 0.0)]
    return right(
        f"One pull in ten pays 1, and it learns {learned[0]:.2f} on average. With `beta=0.0`, where all weights are 1, "
        f"the same code learns {learned[1]:.2f}."
    )


class _Watched(TensorDictPrioritizedReplayBuffer):
    """A buffer that records which samples were drawn and which priorities were set."""

    def __init__(self, **kwargs: Any) -> None:
        self.drawn: list[Any] = []
        self.told: list[tuple[Any, Any]] = []
        super().__init__(**kwargs)

    def sample(self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None) -> Any:
        found = super().sample(batch_size, return_info)
        self.drawn.append((found[0] if return_info else found).clone())
        return found

    def update_priority(self, index: Any, priority: Any) -> None:
        super().update_priority(index, priority)
        self.told.append((torch.as_tensor(index).clone(), torch.as_tensor(priority).clone()))


def _check(improve: Callable[..., Any], buffer: _Watched, value: torch.Tensor) -> None:
    """Check one step: the new value and the new priorities."""
    got = ask(improve, value.clone(), buffer, may_change=True)
    count = len(buffer.drawn)
    require(count, "It drew no sample. The weights come with a sample: call `buffer.sample()`.")
    require(count == 1, f"It drew {count} samples. The errors and indices must come from the same sample.")
    got = torch.as_tensor(as_number(got, "the new value, one number"))
    sample = buffer.drawn[0]
    error, weight = sample["reward"] - value, sample["priority_weight"]
    mean = (weight * error).mean()
    if not _close(got, value + RATE * mean):
        _explain_value(float(got), float(value), error, weight)
    require(buffer.told, "The new value is right, but no item got a new priority. Call `buffer.update_priority`.")
    index, told = buffer.told[-1]
    what = "These priorities belong to items that were not drawn."
    require(torch.equal(index.flatten(), sample["index"]), what)
    if not _same(told, error.abs()):
        _explain_priorities(told.flatten(), sample["reward"], value, error, weight)


def _close(one: Any, two: Any) -> bool:
    return abs(float(one) - float(two)) < 1e-5


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.shape == two.shape and torch.allclose(one.float(), two, atol=1e-5)


def _explain_value(got: float, value: float, error: torch.Tensor, weight: torch.Tensor) -> None:
    """Name the mistake in the new value."""
    each = weight * error
    mean = float(each.mean())
    known = {
        "It used each error without its weight.": value + RATE * float(error.mean()),
        "It used the weights without the errors.": value + RATE * float(weight.mean()),
        "The errors are squared, as in a loss.": value + RATE * float((each**2).mean()),
        f"Expected the mean of the {len(error)} errors, got their sum.": value + RATE * float(each.sum()),
        "It added the full mean instead of 0.1 times the mean.": value + mean,
        "It moves away from the rewards instead of towards them.": value - RATE * mean,
        "It returns only the change. Add the old value.": RATE * mean,
        "It divided by the sum of the weights instead of the number of items.": value
        + RATE * float(each.sum() / weight.sum()),
    }
    why = [what for what, number in known.items() if _close(got, number)]
    fail(f"It moves from {value:g} to {got:.3f}. " + (why[0] if why else "Print the errors and the weights."))


def _explain_priorities(
    told: torch.Tensor, reward: torch.Tensor, value: torch.Tensor, error: torch.Tensor, weight: torch.Tensor
) -> None:
    """Name the mistake in the priorities."""
    after = value + RATE * (weight * error).mean()
    known = {
        "These are the squares of the errors.": error**2,
        "These errors were multiplied by the weights. Items that are drawn often would then be drawn less and less, "
        "however surprising they are.": (weight * error).abs(),
        "Expected the errors of the old value, got those of the new value.": (reward - after).abs(),
    }
    why = [what for what, numbers in known.items() if _same(told, numbers)]
    fail("The new value is right. The priorities are not: " + (why[0] if why else "are they the absolute errors?"))


def _learned(improve: Callable[..., Any], beta: float) -> float:
    """What a pull is worth after some learning: the mean of the last values."""
    torch.manual_seed(0)
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=beta, eps=0.01, storage=LazyTensorStorage(1000), batch_size=32
    )
    buffer.extend(TensorDict({"reward": (torch.arange(1000) % 10 == 0).float()}, [1000]))
    value, seen = torch.tensor(0.0), []
    for _ in range(_STEPS):
        value = improve(value, buffer)
        seen.append(float(value))
    return sum(seen[-_TAIL:]) / _TAIL
