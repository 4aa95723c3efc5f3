"""Logs of finished runs: the folders of a CSVLogger, and TensorBoard's event files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def read_log(path: str | os.PathLike[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return steps and values of each series of a log, by name.

    Args:
        path: Folder that a :class:`~rlnb.record.loggers.CSVLogger` wrote, one of its CSV files, or a folder with
            TensorBoard's event files, or one of them. Names of series in folders within it begin with the folder's.

    Raises:
        FileNotFoundError: If there is no such file, or no log in it.
        ValueError: If a line of a CSV file is not a step and a value.
        ImportError: If there are event files and the package ``tensorboard`` is not installed.
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(
            f"There is no log at {str(path)!r}. Fix: pass the folder that the logger wrote, such as logger.folder."
        )
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
    folder = place.parent if place.is_file() else place
    if tables := [file for file in files if file.suffix == ".csv"]:
        folder = folder / "scalars" if (folder / "scalars").is_dir() else folder
        return {_name(file.with_suffix(""), folder): _read_csv(file) for file in tables}
    if events := [file for file in files if "tfevents" in file.name]:
        return _read_events(events, folder)
    raise FileNotFoundError(
        f"{str(path)!r} holds neither CSV files nor TensorBoard's event files. "
        "Fix: pass the folder of one run, such as logger.folder of a CSVLogger."
    )


def _name(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.name


def _read_csv(file: Path) -> tuple[np.ndarray, np.ndarray]:
    steps, values = [], []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        parts = line.split(",")
        try:
            step, value = (float(part) for part in parts)
        except ValueError:
            if number == 1 and parts == ["step", "value"]:
                continue
            raise ValueError(
                f"Line {number} of {file.name} must be a step and a value, such as 100,0.5, got {line[:60]!r}. "
                "Fix: pass a log that CSVLogger wrote."
            ) from None
        steps.append(step)
        values.append(value)
    return np.array(steps), np.array(values)


def _read_events(files: list[Path], folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError as error:
        raise ImportError(
            "TensorBoard's event files are read with the package tensorboard, which is not installed. "
            "Fix: pip install tensorboard, or log with CSVLogger, whose files need no package."
        ) from error
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for place in dict.fromkeys(file.parent for file in files):
        # A size of 0 keeps all values.
        log = EventAccumulator(str(place), size_guidance={"scalars": 0, "tensors": 0})
        log.Reload()
        start = "" if place == folder else f"{_name(place, folder)}/"
        series = {name: [(e.step, e.value) for e in log.Scalars(name)] for name in log.Tags()["scalars"]}
        for name in log.Tags()["tensors"]:
            # Newer writers store a scalar as a tensor.
            values = [(e.step, make_ndarray(e.tensor_proto)) for e in log.Tensors(name)]
            if all(value.size == 1 and value.dtype.kind in "fiub" for _, value in values):
                series[name] = [(step, value.item()) for step, value in values]
        for name, pairs in series.items():
            steps, numbers = zip(*pairs, strict=True)
            found[start + name] = np.array(steps, dtype=np.float64), np.array(numbers, dtype=np.float64)
    return found
