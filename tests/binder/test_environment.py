"""A fresh environment from binder/, as Binder builds it, and the first lesson run in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
WELCOME = ROOT / "tutorials" / "00_welcome.ipynb"
MAX_GIGABYTES = 2.0  # an image above that is slow to start, and Binder's memory is no larger
INSTALL_SECONDS = 900

pytestmark = pytest.mark.deep


def run(*command: str | Path, env: dict[str, str], seconds: float = 120) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def pins() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE):
        found.setdefault(name.lower(), set()).add(version)
    return found


def clean_environment(folder: Path) -> dict[str, str]:
    """The variables of a fresh machine: nothing that leads to this Python's packages or to a user's settings."""
    unwanted = re.compile(r"^(PYTHON|JUPYTER|IPYTHON|VIRTUAL_ENV|PYTEST)")
    env = {name: value for name, value in os.environ.items() if not unwanted.match(name)}
    quick = {"PIP_NO_COMPILE": "1"}  # most modules are never imported here
    dirs = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    # Without retries: an index that cannot be reached costs seconds for each package otherwise.
    return {**env, **dirs, "IPYTHONDIR": str(folder / "ipython"), "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1", **quick}


@pytest.fixture(scope="module")
def environment(
    tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str, str], NoReturn]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A fresh virtual environment with what binder/requirements.txt names: its Python, and variables to run it with."""
    folder = tmp_path_factory.mktemp("binder")
    env = clean_environment(folder)
    small = f"farama-notifications=={min(pins()['farama-notifications'])}"
    probe = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder / "probe"), small]
    if subprocess.run(probe, env=env, capture_output=True, timeout=300).returncode:
        missing("network", f"pip could not fetch {small}, so that no fresh environment could be built from binder/")
    try:
        run(sys.executable, "-m", "venv", folder / "venv", env=env)
        python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        requirements = ROOT / "binder" / "requirements.txt"
        run(python, "-m", "pip", "install", "-q", "-r", requirements, env=env, seconds=INSTALL_SECONDS)
        yield python, env
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_it_holds_the_pinned_versions_and_no_cuda(environment: tuple[Path, dict[str, str]]) -> None:
    python, env = environment
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json", env=env))
    installed = {item["name"].lower().replace("_", "-"): item["version"].partition("+")[0] for item in listed}
    for name, version in installed.items():
        if name not in ("pip", "rlnb", "setuptools"):
            assert version in pins().get(name, ()), f"{name} {version} is not as pinned"
    assert not [name for name in installed if name.startswith(("nvidia", "cuda", "triton"))]
    assert run(python, "-c", "import torch; print(torch.version.cuda)", env=env).strip() == "None"
    run(python, "-m", "pip", "check", env=env)


def test_it_is_small_enough(environment: tuple[Path, dict[str, str]]) -> None:
    folder = environment[0].parents[1]
    size = sum(path.lstat().st_size for path in folder.rglob("*"))
    assert size < MAX_GIGABYTES * 1e9, f"{size / 1e9:.2f} GB"


def test_post_build_succeeds(environment: tuple[Path, dict[str, str]]) -> None:
    python, env = environment
    bash = shutil.which("bash")
    assert bash, "Binder's own scripts are for bash"
    env = {**env, "PATH": f"{python.parent}{os.pathsep}{env['PATH']}"}
    run(bash, "binder/postBuild", env=env)


def test_the_first_lesson_runs(environment: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    python, env = environment
    options = ["--to", "notebook", "--execute", "--ExecutePreprocessor.timeout=120", "--output-dir", str(tmp_path)]
    run(python, "-m", "nbconvert", *options, WELCOME, env=env, seconds=300)
    cells = nbformat.read(tmp_path / WELCOME.name, as_version=4).cells
    counts = [cell.execution_count for cell in cells if cell.cell_type == "code"]
    assert counts and counts == list(range(1, len(counts) + 1))
