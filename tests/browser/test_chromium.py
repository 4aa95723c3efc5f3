"""Where the browser tests look for a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import chromium


def program(path: Path) -> str:
    path.touch(mode=0o755)
    return str(path)


def test_the_variable_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", program(tmp_path / "mine.exe"))
    assert chromium.find_chromium() == str(tmp_path / "mine.exe")


def test_a_variable_that_names_nothing_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "none"))
    assert chromium.find_chromium() is None


def test_then_names_on_the_path_and_then_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "NAMES", ("harp.exe",))
    monkeypatch.setattr(chromium, "PATHS", (str(tmp_path / "none"), program(tmp_path / "usual.exe")))
    assert chromium.find_chromium() == str(tmp_path / "usual.exe")
    program(tmp_path / "harp.exe")
    assert chromium.find_chromium() == str(tmp_path / "harp.exe")
