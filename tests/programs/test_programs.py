"""Whole programs written for TorchRL, run with both libraries.

A program that runs on TorchRL must run on rlnb after `torchrl` is replaced with `rlnb` in its imports. Where
``RLNB_TORCHRL_PYTHON`` names a Python that has torchrl, each program runs there too: it shows that the programs use
what TorchRL really offers, and not only what rlnb does.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import torch

PROGRAMS = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))
# What a TorchRL installation may lack.
OPTIONAL = {
    "SumSegmentTreeFp32 is not available": "its compiled extension",
    "Torchvision not found": "torchvision",
    "Gym pixels rendering": "pygame",
    "pygame is not installed": "pygame",
}


@pytest.fixture(autouse=True)
def fresh_generators():
    """Programs seed torch, whose generator other tests share."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_runs_on_rlnb(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec and spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.main()


def test_there_are_twenty() -> None:
    assert len(PROGRAMS) >= 20


@pytest.mark.deep
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_runs_on_torchrl(path: Path, tmp_path: Path, missing: Callable[..., NoReturn]) -> None:
    python = os.environ.get("RLNB_TORCHRL_PYTHON")
    if not python:
        missing("torchrl", "RLNB_TORCHRL_PYTHON does not name a Python that has it", optional=True)
    program = tmp_path / path.name
    program.write_text(re.sub(r"\brlnb\b", "torchrl", path.read_text(encoding="utf-8")), encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), str(program)], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300
    )
    for text, part in OPTIONAL.items():
        if text in done.stderr:
            missing("a part of torchrl", f"{path.stem} needs {part}", optional=True)
    assert done.returncode == 0, done.stderr[-3000:]
