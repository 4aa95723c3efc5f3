"""Small programs that give the same results with both libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data.torchrl_examples import EXAMPLES, run


@pytest.mark.parametrize(("program", "expected"), EXAMPLES)
def test_ours_gives_what_torchrl_gives(program: str, expected: object) -> None:
    assert run("rlnb", program) == expected


def test_torchrl_gives_what_is_written_down(beside_torchrl: Callable[[str], str]) -> None:
    program = Path(__file__).with_name("torchrl_examples.py").read_text(encoding="utf-8")
    assert beside_torchrl(program) == f"{len(EXAMPLES)} examples\n"
