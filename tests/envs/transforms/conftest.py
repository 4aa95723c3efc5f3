"""Stand-ins for torchvision and timm, which the transforms of published networks take their architectures from.

Neither package is in the test environment: the torchvision on PyPI does not import beside a torch that was built for
CPUs, and timm imports torchvision. ``fakes/`` holds small modules of the same names and call signatures. They can be
imported during each test of this folder, and in its worker processes, which inherit ``sys.path``. Tests of the real
packages use the fixture ``real_networks``, and report what is missing if these cannot be imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"


def forget_networks() -> None:
    """Let the packages be imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("torchvision", "timm")]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def fake_networks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the stand-ins importable."""
    if "real_networks" in request.fixturenames:
        yield
        return
    real = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("torchvision", "timm")}
    forget_networks()
    sys.path.insert(0, str(FAKES))
    yield
    sys.path.remove(str(FAKES))
    forget_networks()
    sys.modules.update(real)


@pytest.fixture
def real_networks() -> None:
    """Leave the stand-ins out of this test."""
