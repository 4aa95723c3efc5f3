"""The files that Binder builds its image from, read the way its builder reads them."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"
# A folder `binder/` makes the builder ignore the files of the root, so that it needs to be complete;
# these would take precedence over requirements.txt.
OVERRIDING = ("environment.yml", "Pipfile", "Pipfile.lock", "Dockerfile", "default.nix")


def lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_requirements_take_every_version_from_the_constraints() -> None:
    found = lines(BINDER / "requirements.txt")
    options = [line for line in found if line.startswith("-")]
    assert options[1:] == ["-c ../constraints.txt", "-e .[lab]"]
    assert re.fullmatch(r"--extra-index-url https://\S+/whl/cpu", options[0])
    assert (BINDER / "../constraints.txt").resolve() == ROOT / "constraints.txt"
    assert [line for line in found if not line.startswith("-")] == ["torch"]
    assert "lab" in project()["optional-dependencies"]


def test_the_cpu_index_is_the_makefiles() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    index = re.search(r"^TORCH_INDEX \?= (\S+)$", makefile, re.MULTILINE)
    assert index and f"--extra-index-url {index[1]}" in lines(BINDER / "requirements.txt")


def test_the_constraints_pin_exactly_and_hold_nothing_of_cuda() -> None:
    pins = [Requirement(line) for line in lines(ROOT / "constraints.txt")]
    assert all(re.fullmatch(r"==[^*+]+", str(pin.specifier)) for pin in pins), "an exact version without a local part"
    assert not [pin.name for pin in pins if re.match(r"nvidia|cuda|triton|cupy", pin.name)]


# No torchvision on the registries imports beside the pinned CPU build of torch, so "pretrained" cannot be pinned.
@pytest.mark.parametrize("extra", ["", *sorted(set(project()["optional-dependencies"]) - {"pretrained"})])
def test_every_direct_dependency_is_pinned_within_its_range(extra: str) -> None:
    needed = project()["optional-dependencies"][extra] if extra else project()["dependencies"]
    pins = [Requirement(line) for line in lines(ROOT / "constraints.txt")]
    for requirement in map(Requirement, needed):
        if requirement.name == "rlnb":
            continue
        found = [pin for pin in pins if pin.name.lower() == requirement.name.lower()]
        assert found, f"{requirement.name} is not in constraints.txt"
        for pin in found:
            assert requirement.specifier.contains(str(pin.specifier)[2:]), f"{pin} is outside of {requirement}"


def test_the_python_is_one_that_the_project_supports() -> None:
    name, _, version = (BINDER / "runtime.txt").read_text().strip().partition("-")
    assert name == "python"
    assert SpecifierSet(project()["requires-python"]).contains(version)


def test_nothing_overrides_the_requirements() -> None:
    assert [name for name in OVERRIDING if (BINDER / name).exists()] == []
    assert not (ROOT / ".binder").exists()


def test_post_build_is_a_program() -> None:
    raw = (BINDER / "postBuild").read_bytes()
    assert raw.startswith(b"#!/bin/bash\n")
    assert b"\r" not in raw
    assert os.access(BINDER / "postBuild", os.X_OK)
