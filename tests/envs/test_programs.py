"""Programs written for TorchRL run on both libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.envs import programs


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_runs(program):
    program()


def test_the_same_programs_run_on_torchrl(beside_torchrl):
    source = Path(programs.__file__).read_text(encoding="utf-8").replace("rlnb", "torchrl")
    names = [program.__name__ for program in programs.PROGRAMS]
    # torchrl's log goes to the same stream
    assert [line for line in beside_torchrl(source).splitlines() if line in names] == names
