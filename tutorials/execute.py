"""Run the notebooks in fresh kernels and write them so that a second run gives the same bytes.

python tutorials/execute.py [NOTEBOOK ...]          run and write, by default all but 34_six_worlds
python tutorials/execute.py --check [NOTEBOOK ...]  check that the files are in its normal form
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

TUTORIALS = Path(__file__).resolve().parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"
CELL_SECONDS = 120
#: Saved with the libraries of ``make test-libs``, without which it prints something else: run only
#: when it is named.
SIX_WORLDS = "34_six_worlds.ipynb"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Take out of a notebook what differs between two runs of it or between two people's editors.

    Metadata is cut down to the kernel and the tags, cells and widgets are numbered, random ids of
    plotly go, as do the pictures that JupyterLab saves beside plotly's figures; pieces of one
    stream are joined.

    Args:
        notebook: a notebook of format 4; it is left as it is.

    Returns:
        The normal form, of which this function changes nothing more.
    """
    new = copy.deepcopy(notebook)
    new.metadata = NotebookNode(
        kernelspec={
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        language_info={"name": "python"},
    )
    new.nbformat, new.nbformat_minor = 4, 5
    widgets: dict[str, str] = {}
    for number, cell in enumerate(new.cells):
        tags = cell.metadata.get("tags")
        cell.id = f"c{number:03d}"
        cell.metadata = NotebookNode(tags=list(tags)) if tags else NotebookNode()
        cell.source = cell.source.strip("\n")
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
            for output in cell.outputs:
                _normalise_output(output, widgets)
    return new


def _joined(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream: where it was cut depends on the kernel's timing."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _normalise_output(output: NotebookNode, widgets: dict[str, str]) -> None:
    data = output.get("data", {})
    if "metadata" in output:
        output.metadata = NotebookNode()
    if WIDGET_VIEW in data:
        view = data[WIDGET_VIEW]
        view["model_id"] = widgets.setdefault(view["model_id"], f"w{len(widgets):03d}")
    if PLOTLY in data:
        data.pop("image/png", None)
        for trace in data[PLOTLY].get("data", []):
            trace.pop("uid", None)


def dumps(notebook: NotebookNode) -> str:
    """Write a notebook in its normal form.

    Args:
        notebook: a notebook of format 4.

    Returns:
        The file's text.
    """
    return str(nbformat.writes(normalise(notebook), version=4)).rstrip("\n") + "\n"


def run(path: Path) -> NotebookNode:
    """Run a notebook in a fresh kernel, in its own folder.

    Args:
        path: the notebook.

    Returns:
        The notebook with its new outputs.

    Raises:
        CellExecutionError: when a cell raises and is not tagged ``raises-exception``.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        startup_timeout=CELL_SECONDS,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    with kernel_environment():
        client.execute()
    return notebook


@contextmanager
def kernel_environment() -> Iterator[None]:
    """Set what makes a kernel say the same on every machine: one thread, no display, no greetings.

    Yields:
        Nothing; the environment is as before afterwards.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="rlnb-runtime-") as runtime:
        os.environ["OMP_NUM_THREADS"] = "1"
        os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"
        os.environ["SDL_VIDEODRIVER"] = "dummy"
        os.environ["XDG_RUNTIME_DIR"] = runtime
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def notebooks(names: Sequence[str]) -> list[Path]:
    """Find the notebooks to work on.

    Args:
        names: paths, or names with or without ``.ipynb`` in the folder of the tutorials; none means
            all of those.

    Returns:
        The paths, sorted when none were named.

    Raises:
        FileNotFoundError: for a name that is no notebook.
    """
    legal = sorted(TUTORIALS.glob("*.ipynb"))
    paths = []
    for name in names:
        found = [
            p for p in (Path(name), TUTORIALS / name, TUTORIALS / f"{name}.ipynb") if p.is_file()
        ]
        if not found:
            raise FileNotFoundError(
                f"no notebook {name!r}; there are: {', '.join(p.name for p in legal)}"
            )
        paths.append(found[0].resolve())
    return paths or legal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or check the notebooks named on the command line.

    Args:
        arguments: the command line without the program's name.

    Returns:
        The exit status: 0 when all is well.
    """
    parser = argparse.ArgumentParser(description="Run and normalise the notebooks.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when a file is not normalised"
    )
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK")
    options = parser.parse_args(arguments)
    paths = notebooks(options.notebooks)
    if not options.check and not options.notebooks:
        print(f"{SIX_WORLDS}: left as it is, since it needs the libraries of `make test-libs`")
        paths = [path for path in paths if path.name != SIX_WORLDS]
    bad = [path.name for path in paths if not (_check if options.check else _write)(path)]
    if bad:
        print(f"failed: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


def _check(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    same = text == dumps(nbformat.reads(text, as_version=4))
    if not same:
        print(f"{path.name}: not normalised; run: make notebooks NB={path.name}", file=sys.stderr)
    return same


def _write(path: Path) -> bool:
    start = time.perf_counter()
    try:
        text = dumps(run(path))
    except CellExecutionError as error:
        print(f"{path.name}: {_ANSI.sub('', str(error))}", file=sys.stderr)
        return False
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path.name}: {time.perf_counter() - start:.1f} s, {len(text) / 1000:.0f} kB")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
