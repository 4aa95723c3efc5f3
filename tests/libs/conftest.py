"""Tests of wrappers with the real libraries: common requirements, and a summary of what was run."""

from __future__ import annotations

import os
import sys
from importlib.metadata import packages_distributions, version
from typing import Any

import pytest

from rlnb.envs.libs.libraries import LIBRARIES

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

FAKED = {
    module: f"tests/envs/libs/test_{name}.py"
    for module, name in {
        "habitat": "habitat", "isaacgym": "isaacgym", "isaaclab": "isaac_lab", "meltingpot": "meltingpot",
        "mlagents_envs": "unity_mlagents", "robohive": "robohive", "smacv2": "smacv2",
    }.items()
}  # fmt: skip
"""Libraries that do not install from the registry, and the tests of their wrappers with a fake of their interface."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Write on each report which libraries have been imported: several processes test."""
    report = yield
    report.libraries = [module for module in LIBRARIES if module in sys.modules]
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the libraries: exercised for real in this run, with a fake elsewhere, or not at all."""
    real = {
        module
        for reports in terminalreporter.stats.values()
        for report in reports
        for module in getattr(report, "libraries", ())
    }
    distributions = packages_distributions()
    terminalreporter.section("libraries of environments")
    for module in LIBRARIES:
        if module in real:
            found = distributions.get(module, [module])[0]
            terminalreporter.write_line(f"{module:15} for real, version {version(found)}", green=True)
        elif module in FAKED:
            terminalreporter.write_line(f"{module:15} with a fake of its interface, in {FAKED[module]}")
        else:
            terminalreporter.write_line(f"MISSING: {module}: no test of this run imported it", yellow=True, bold=True)
