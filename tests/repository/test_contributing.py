"""The guide for contributors: the files on the path of a call exist, and are few."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = {"rollout": 12, "extend": 10, "ParallelEnv": 6, "MCTS": 10}


def journeys() -> dict[str, list[Path]]:
    """The files of each call, from the section "Where does a call go?"."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Where does a call go?\n")[1].split("\n## ")[0]
    found = {}
    for paragraph in re.findall(r"^\*\*.*?(?=\n\n|\Z)", section, re.MULTILINE | re.DOTALL):
        title, body = paragraph[2:].split("**", 1)
        folder, files = ROOT, []
        for name in re.findall(r"`([\w/]+(?:\.py)?)`", body):
            if name.endswith(".py"):
                files.append(ROOT / name if name.startswith("rlnb/") else folder / name)
            elif "/" in name:
                folder = ROOT / name
        found[title] = files
    return found


@pytest.mark.parametrize("word", MOST)
def test_a_call_goes_through_few_files_which_exist(word: str) -> None:
    (files,) = [files for title, files in journeys().items() if word in title]
    assert [file for file in files if not file.is_file()] == []
    assert 3 < len(set(files)) <= MOST[word]
