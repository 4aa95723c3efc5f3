"""Fixtures of the tests of datasets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlnb.data.datasets import urls
from tests.data.datasets.server import Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on the loopback interface, which is the Hugging Face hub, too."""
    monkeypatch.setattr(urls, "PAUSES", (0.01, 0.02, 0.03, 0.04))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with Server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
