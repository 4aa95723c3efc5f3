"""Material shared by exercises: rollouts with every kind of end, and wrong answers made from the solution."""

from __future__ import annotations

import pytest
import torch
from exercises.lake_picture import LakePicture
from exercises.mutants import instead
from exercises.recorded import several_episodes, some, where


def test_the_recorded_rollout_has_every_kind_of_end_and_each_mistake_gives_other_numbers() -> None:
    td = several_episodes()
    terminated, truncated = where(td["next", "terminated"]), where(td["next", "truncated"])
    ends = where(td["next", "done"])
    assert terminated and truncated
    assert ends == sorted(terminated + truncated)
    assert min(ends) == terminated[0], "the first end must tell terminated from truncated"
    assert max(ends) < len(td) - 1, "the last episode must not be finished"
    assert td["next", "reward"].flatten().tolist() == list(range(1, len(td) + 1))


def test_it_is_the_same_each_time_and_holds_together() -> None:
    one, two = several_episodes(50), several_episodes(50)
    assert bool((one == two).all())
    same = (one["next", "observation"][:-1] == one["observation"][1:]).all(-1)
    assert torch.equal(same, ~one["next", "done"][:-1].squeeze(-1))


@pytest.mark.parametrize(
    ("steps", "words"),
    [([], ""), ([7], "7"), (list(range(6)), "0, 1, 2, 3, 4, 5"), (list(range(8)), "0, 1, 2, 3, 4, 5 and 2 more")],
)
def test_some_steps_in_words(steps: list[int], words: str) -> None:
    assert some(steps) == words


def test_a_wrong_answer_is_the_solution_with_one_change() -> None:
    answer = instead("\n    def f(x):\n        return x + 1\n", of="x + 1", put="x", says="too small")
    assert (answer.source, answer.says) == ("def f(x):\n    return x", "too small")
    with pytest.raises(ValueError) as error:
        instead("def f(x): return x", of="y", put="x", says="")
    assert str(error.value) == "'y' is not in the solution:\ndef f(x): return x"


def test_the_picture_of_a_lake_is_an_image_with_its_words() -> None:
    html = LakePicture(["SF", "HG"], 0, 1, [True, False, False, False])._repr_html_()
    assert html.startswith('<img alt="agent at row 0, column 1; arrows: left" src="data:image/svg+xml;base64,')
