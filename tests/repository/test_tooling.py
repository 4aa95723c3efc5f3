"""The tools agree with one another: pins, continuous integration, what pytest runs and what it says at the end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import yaml

import rlnb
from tests import oldest
from tests.pairwise import few

ROOT = Path(__file__).parents[2]
FIRST_LESSON = "--LabApp.default_url=/lab/tree/00_welcome.ipynb"

SAMPLE = """
def test_needs(missing):
    missing("a harp", "no harp was found; buy one")

def test_may_need(missing):
    missing("a lute", "no lute was found; borrow one", optional=True)

def test_passes():
    pass

def double(x):
    '''
    >>> double(2)
    4
    '''
    return 2 * x
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny repository with our root conftest."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_sample.py").write_text(SAMPLE)
    return folder


def pytest_over(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder; without its plugins, which take seconds to import."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), *arguments]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("ci", "passes", "processes"),
    few(
        [
            pytest.param("true", False, (), id="in CI"),
            pytest.param("", True, (), id=""),
            pytest.param("false", True, (), id="not"),
            pytest.param("true", False, ("-p", "xdist", "-n", "2", "--dist=loadfile"), id="in CI, several processes"),
        ],
        2,
    ),
)
def test_missing_tools_are_reported_and_fail_in_ci(
    sample: Path, processes: tuple[str, ...], ci: str, passes: bool
) -> None:
    done = pytest_over(sample, *processes, "--doctest-modules", "test_sample.py", CI=ci)
    assert (done.returncode == 0) is passes, done.stdout
    assert "MISSING: a harp: no harp was found; buy one" in done.stdout
    assert "MISSING: a lute: no lute was found; borrow one" in done.stdout
    assert re.search(r"^doctest +1 passed ", done.stdout, re.MULTILINE)
    counted = "1 passed, 2 skipped" if passes else "1 passed, 1 failed, 1 skipped"
    assert re.search(rf"^unit +{counted} ", done.stdout, re.MULTILINE)
    assert re.search(r"^browser +none ", done.stdout, re.MULTILINE)
    assert re.fullmatch(r"=+ .* in [\d.]+s =+", done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize(("source", "passes"), few([("assert.ok(false)", False), ("assert.ok(true)", True)]))
def test_javascript_tests_run_as_tests(sample: Path, source: str, passes: bool) -> None:
    path = sample / f"{'good' if passes else 'bad'}.test.mjs"
    path.write_text(f'import assert from "node:assert";\nimport test from "node:test";\ntest("it", () => {source});\n')
    done = pytest_over(sample, path.name)
    assert (done.returncode == 0) is passes, done.stdout
    assert re.search(r"^javascript +1 " + ("passed" if passes else "failed"), done.stdout, re.MULTILINE)
    assert passes or "not ok 1 - it" in done.stdout


def test_pytest_looks_at_everything() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert options["testpaths"] == ["tests", "rlnb", "widgets", "tutorials"]
    assert {"--doctest-modules", "--nbval", "--import-mode=importlib"} <= set(options["addopts"])


def test_continuous_integration_runs_make_test_on_three_systems() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]["include"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert {entry["os"].partition("-")[0] for entry in matrix} == {"ubuntu", "macos", "windows"}
    assert python == f">={min(entry['python'] for entry in matrix)}"
    commands = [step.get("run", "") for step in jobs["test"]["steps"]]
    assert any(command.startswith("make test") for command in commands)


@pytest.mark.parametrize("failing", [None, "test", "test-deep"])
def test_the_local_script_of_continuous_integration_runs_both_sets_of_tests(
    tmp_path: Path, failing: str | None
) -> None:
    """With a ``make`` that runs nothing: the second set runs only after the first, and the last line is pytest's."""
    script = f'''#!/bin/bash
echo "$CI $*" >> "{tmp_path}/log"
echo "== summary of $1 =="
if [ "$1" = "{failing}" ]; then echo "make: *** [Makefile:1: $1] Error 1" >&2; exit 2; fi
'''
    for name, text in {"make": script, "python3": "#!/bin/bash\n", "chromium": "#!/bin/bash\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=30)
    targets = ["test"] if failing == "test" else ["test", "test-deep"]
    assert (tmp_path / "log").read_text().splitlines() == [
        f"true {target} EXTRAS=dev,simulators,ray" for target in targets
    ]
    assert (done.returncode == 0) == (failing is None)
    assert done.stdout.splitlines()[-1] == f"== summary of {targets[-1]} =="


def test_hooks_name_files_that_exist() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repo in config["repos"] if repo["repo"] == "local" for hook in repo["hooks"]]
    scripts = [word for entry in entries for word in entry.split() if word.endswith(".py")]
    assert scripts and all((ROOT / script).is_file() for script in scripts)


@pytest.mark.parametrize("module", ["rlnb.envs.base", "rlnb_widgets.link", "exercises.e01_rollouts"])
def test_a_warning_that_our_code_causes_is_an_error(module: str) -> None:
    with pytest.raises(DeprecationWarning, match="old"):
        warnings.warn_explicit("old", DeprecationWarning, "somewhere.py", 1, module=module)


@pytest.mark.parametrize(
    ("lab", "options"),
    [
        ("", ["--LabApp.default_url=/lab/tree/00_welcome.ipynb", "--notebook-dir=tutorials"]),
        (
            "--no-browser",
            ["--LabApp.default_url=/lab/tree/00_welcome.ipynb", "--no-browser", "--notebook-dir=tutorials"],
        ),
        ("--LabApp.default_url=/tree", ["--LabApp.default_url=/tree", "--notebook-dir=tutorials"]),
        ("--notebook-dir=elsewhere", ["--notebook-dir=elsewhere"]),
        ("--ServerApp.root_dir=elsewhere", ["--ServerApp.root_dir=elsewhere"]),
    ],
)
def test_make_lab_gives_no_option_twice(lab: str, options: list[str]) -> None:
    command = ["make", "--dry-run", "--old-file=.venv/.stamp", "lab", f"LAB={lab}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert sorted(word for word in printed.split() if word.startswith("--") and word != "--allow-root") == options


def test_the_package_imports_from_a_checkout_that_is_not_installed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "rlnb", tmp_path / "rlnb", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; sys.path.insert(0, '.'); import rlnb; print(rlnb.__version__, rlnb.__file__)"
    # -I and -S: neither PYTHONPATH nor what is installed can provide the package or its metadata.
    command = [sys.executable, "-I", "-S", "-c", code]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed.split() == [rlnb.__version__, str(tmp_path / "rlnb" / "__init__.py")]


def test_the_lowest_versions_cover_every_dependency() -> None:
    lowest = subprocess.run(
        [sys.executable, "tests/oldest.py"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[\[>]", requirement)[0] for requirement in project["dependencies"]}
    assert names | {"h5py", "anywidget", "pytest"} <= {line.partition("==")[0] for line in lowest}
    assert all(re.fullmatch(r"[\w-]+==\d[\d.]*", line) for line in lowest)


def test_a_dependency_without_a_lowest_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    project = {"dependencies": ["torch>=2.5"], "optional-dependencies": {"test": ["pytest>=8", "xdist"]}}
    monkeypatch.setattr(oldest, "PROJECT", project)
    with pytest.raises(ValueError, match=r"^'xdist' in pyproject\.toml has no lower bound"):
        oldest.lowest_versions()
