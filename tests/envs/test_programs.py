"""Programs as users of TorchRL write them run here, and those same programs run there."""

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
    assert beside_torchrl(source).splitlines()[-len(programs.PROGRAMS) :] == [p.__name__ for p in programs.PROGRAMS]
