"""Stand-ins for torchvision and timm, which provide the architectures of published networks.

Neither package is in the test environment: the torchvision on PyPI does not import beside a torch that was built for
CPUs, and timm imports torchvision. ``fakes/`` holds small modules of the same names and call signatures. They can be
imported during each test of this folder, and in its worker processes, which inherit ``sys.path``. Tests of the real
packages use the fixture ``real_networks``, and report what is missing if these cannot be imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FAKES = Path(__file__).parent / "fakes"
PACKAGES = ("torchvision", "timm")


def forget_networks() -> dict[str, ModuleType]:
    """Let the packages be imported anew; return their modules by name."""
    if not any(package in sys.modules for package in PACKAGES):
        return {}  # looking through thousands of names takes as long as a short test
    names = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture(autouse=True)
def fake_networks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the stand-ins importable."""
    if "real_networks" in request.fixturenames:
        yield
        return
    real = forget_networks()
    sys.path.insert(0, str(FAKES))
    yield
    sys.path.remove(str(FAKES))
    forget_networks()
    sys.modules.update(real)


@pytest.fixture
def real_networks() -> None:
    """Leave the stand-ins out of this test."""
