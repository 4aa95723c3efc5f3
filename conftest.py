"""pytest for the whole repository: kinds of tests, what was missing, and a summary that says both aloud."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis
import pytest

from tests.long_lessons import SHORTER
from tests.warm_kernel import serve_kernels

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parent
OPTIONAL: pytest.StashKey[dict[str, str]] = pytest.StashKey()

FOLDERS = {"tests/notebooks/test_exercises.py": "exercises", "tests/browser": "browser", "tests/binder": "binder"}
# The longest files, whose tests are named test[subject-theme].
LONGEST = ("tests/browser/test_notebooks.py", "tests/browser/test_specimens.py")
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
# What takes longest begins: at the end short files fill every process.
ORDER = ("binder", "browser", "exercises", "notebook cells", "unit", "doctest", "javascript")

# This lesson plays with libraries that `make test-libs` installs. Without them it runs, and prints something else.
SIX_WORLDS = "34_six_worlds.ipynb"
WORLDS = ("dm_control", "pettingzoo", "vmas", "jumanji", "pyspiel")

# They import torchrl, and run in an interpreter that has it; see beside_torchrl.
collect_ignore = ["tests/data/specs/torchrl_losses.py", "tests/data/specs/torchrl_round_trip.py"]

# `make test` tries some examples of each property, `make test-deep` many. Timings never decide about a test.
hypothesis.settings.register_profile("rlnb", deadline=None, max_examples=15)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=100)
hypothesis.settings.load_profile("rlnb")  # --hypothesis-profile comes after it

# Set before torch is imported, here and in every process that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Register what every part shares."""
    config.stash[OPTIONAL] = {}
    config.option.nbval_sanitize_with = str(ROOT / "tutorials" / "sanitize.cfg")
    # Several processes test, so many kernels will be started; the processes of xdist inherit where to find them.
    if getattr(config.option, "numprocesses", None) and sys.platform == "linux" and not config.option.collectonly:
        config.add_cleanup(serve_kernels())


def kind_of(item: pytest.Item) -> str:
    """Name the kind of a test, for the order of the run and for the summary."""
    if isinstance(item, pytest.DoctestItem):
        return "doctest"
    if isinstance(item, NodeTests):
        return "javascript"
    if item.path.suffix == ".ipynb":
        return "notebook cells"
    return next((kind for folder, kind in FOLDERS.items() if item.nodeid.startswith(folder)), "unit")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave lessons that train for long to the deep tests; a shorter form of them runs each time."""
    if item.path.name in SHORTER:
        item.add_marker("deep")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a lesson whose saved outputs need libraries that are not here, before its kernel starts."""
    if item.path.name == SIX_WORLDS and (lacking := [name for name in WORLDS if find_spec(name) is None]):
        reason = f"{', '.join(lacking)} not installed; `make test-libs` compares the cells of {SIX_WORLDS}"
        do_without(item.config, "libraries of environments", reason, optional=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the kinds in their order; within one, the order stays, so that a notebook's cells stay together."""
    items.sort(key=lambda item: (ORDER.index(kind_of(item)), not item.nodeid.startswith(LONGEST)))


def import_share() -> None:
    """Where several processes test, import the files of this one's share of tests before all are collected.

    In a new checkout pytest compiles them with their assertions rewritten, half of the time of collecting. Each process
    finds on the disk what the others compiled; without this all would compile the same file at the same time.
    """
    number, count = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    for path in sorted(ROOT.glob("tests/**/test_*.py"))[int(number.removeprefix("gw")) :: count] if count > 1 else ():
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting the file says what is wrong with it
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep the garbage collector from visiting what lives to the end: for 17,000 tests that takes seconds.

    Tests collect by hand to see that something is freed, and a fork of this process copies each page that is visited.
    """
    gc.disable()
    try:
        if session.config.args == session.config.getini("testpaths"):
            import_share()
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one process more than there are cores: a third of the time tests wait for workers, kernels and pages."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process a file at a time, and one of them all of the browser: to start JupyterLab takes half a minute.

    The deep tests open every lesson, and each process takes a lesson at a time.
    """
    from xdist.scheduler import LoadFileScheduling

    is_deep = config.getoption("hypothesis_profile", None) == "deep"

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path, _, test = nodeid.partition("::")
            if is_deep and path in LONGEST:
                return f"{path}::{test.rpartition('-')[0]}"
            return "tests/browser" if path.startswith("tests/browser/") else path

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Forget the tests of a file that is done: at each report all tests that are kept are counted."""
            super().mark_test_complete(node, item_index, duration)
            tests = self.assigned_work[node][self._split_scope(self.registered_collections[node][item_index])]
            if all(tests.values()):
                tests.clear()

    return Scheduling(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write on each report what the summary needs: where several processes test, reports are all that comes back."""
    report = yield
    report.kind = kind_of(item)
    if not report.passed:
        report.missing = dict(item.config.stash[OPTIONAL])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test that leaves a mode of this process behind, not the next ones, which it would make fail."""
    result = yield
    if "rlnb.envs" in sys.modules:
        check_modes()
    return result


def check_modes() -> None:
    """See that gradients, dtypes and exploration are as a process begins with; fail, and set them so, where not."""
    import torch

    from rlnb.envs import exploration_type, set_exploration_type

    found = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(), exploration_type())
    if found != (True, False, torch.float32, None):
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        set_exploration_type(None).__enter__()
        pytest.fail(f"It left (gradients, inference mode, default dtype, exploration type) as {found}.", pytrace=False)


# --- parts that need something of the machine ------------------------------------------------------------------------


def do_without(config: pytest.Config, part: str, reason: str, *, optional: bool = False) -> NoReturn:
    """Skip the running test because the machine lacks something, aloud; fail it where ``CI`` is set.

    Args:
        config: pytest's configuration.
        part: what is missing, such as ``"chromium"``.
        reason: what was looked for, and how to get it.
        optional: whether the part may be missing where ``CI`` is set too. The summary names it all the same.

    Raises:
        Skipped: on a person's machine, and in CI if the part is optional.
        Failed: with ``CI`` in the environment, where everything that is not optional has to be there.
    """
    config.stash[OPTIONAL][part] = reason
    if not optional and os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"{part} is missing: {reason}", pytrace=False)
    pytest.skip(f"{part} is missing: {reason}")


@pytest.fixture(scope="session")
def missing(pytestconfig: pytest.Config) -> Callable[..., NoReturn]:
    """``missing(part, reason, optional=False)``: leave a test out aloud; see :func:`do_without`."""
    return lambda part, reason, *, optional=False: do_without(pytestconfig, part, reason, optional=optional)


@pytest.fixture(scope="session")
def node(missing: Callable[..., NoReturn]) -> str:
    """The path of node, for tests that run JavaScript and Python on the same data."""
    return find_node() or missing("node", NO_NODE)


@pytest.fixture
def cuda(missing: Callable[..., NoReturn]) -> Iterator[torch.device]:
    """The current CUDA device, which computes in single precision; without one the test is left out aloud."""
    import torch

    if not torch.cuda.is_available():
        missing("cuda", "torch.cuda.is_available() is False: no GPU, or a torch built for the CPU", optional=True)
    with torch.backends.cudnn.flags(allow_tf32=False):
        yield torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(scope="session")
def beside_torchrl(missing: Callable[..., NoReturn]) -> Callable[[str], str]:
    """``beside_torchrl(program)``: run a program where both libraries can be imported; give back what it prints.

    torchrl pins its own minor release of tensordict and so has an interpreter of its own, which the environment
    variable ``RLNB_TORCHRL_PYTHON`` names. It needs no rlnb: the one of this repository is used.
    """

    def run(program: str) -> str:
        python = os.environ.get("RLNB_TORCHRL_PYTHON")
        if not python:
            reason = "RLNB_TORCHRL_PYTHON names no interpreter with torchrl; make a venv with `pip install torchrl`"
            missing("torchrl", reason, optional=True)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([python, "-c", program], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


# --- JavaScript: each *.test.mjs is one test, run by node's own runner -----------------------------------------------


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the tests of the widgets' JavaScript."""
    return NodeFile.from_parent(parent, path=file_path) if file_path.name.endswith(".test.mjs") else None


class NodeFile(pytest.File):
    """A ``*.test.mjs`` file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Give the whole file as one test."""
        yield NodeTests.from_parent(self, name="node")


class NodeTests(pytest.Item):
    """The run of one file by ``node --test``."""

    def runtest(self) -> None:
        """Run it and fail with node's report."""
        node = find_node()
        if node is None:
            do_without(self.config, "node", NO_NODE)
        command = [node, "--test", "--test-reporter=tap", self.path.name]
        done = subprocess.run(
            command, cwd=self.path.parent, capture_output=True, text=True, timeout=120, encoding="utf-8"
        )
        if done.returncode or "\n# pass 0\n" in done.stdout:
            raise NodeFailure(done.stdout[-8000:] + done.stderr[-2000:])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show node's report and no Python traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, NodeFailure) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the test in reports."""
        return self.path, 0, f"node --test {self.path.name}"


NO_NODE = "no `node` on the PATH nor in Playwright; install Node.js 20 or newer"


class NodeFailure(Exception):
    """Node's report of a failed file."""


def find_node() -> str | None:
    """Find node: on the PATH, or the one that Playwright brings along."""
    found = shutil.which("node")
    if found:
        return found
    try:
        from playwright._impl._driver import compute_driver_executable

        driver = compute_driver_executable()[0]
    except ImportError:
        return None
    return str(driver) if Path(driver).exists() else None


# --- the summary -----------------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what ran, how much of each kind, how long it took, and what was left out for want of something."""
    if config.option.collectonly:
        return
    counts, seconds, missing = Counter[tuple[str, str]](), Counter[str](), config.stash[OPTIONAL]
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                kind = getattr(report, "kind", "unit")  # that of a crashed process has none
                seconds[kind] += report.duration
                counts[kind, outcome] += 1
                missing |= getattr(report, "missing", {})
    terminalreporter.section("what ran")
    for kind in ORDER:
        said = [f"{counts[kind, outcome]} {outcome}" for outcome in OUTCOMES if counts[kind, outcome]]
        terminalreporter.write_line(f"{kind:15} {', '.join(said) or 'none':40} {seconds[kind]:6.1f} s")
    for part, reason in missing.items():
        terminalreporter.write_line(f"MISSING: {part}: {reason}", yellow=True, bold=True)
