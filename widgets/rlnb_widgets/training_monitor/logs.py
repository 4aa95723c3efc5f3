"""Logs of finished runs: the folders of a CSVLogger, and TensorBoard's event files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def read_log(path: str | os.PathLike[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return steps and values of each series of a log, by name.

    Args:
        path: Folder that a :class:`~rlnb.record.loggers.CSVLogger` wrote, one of its CSV files, or a folder with
            TensorBoard's event files.

    Raises:
        FileNotFoundError: If there is no such file, or no log in it.
        ValueError: If a line of a CSV file is not a step and a value.
        ImportError: If there are event files and the package ``tensorboard`` is not installed.
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"There is no log at {str(path)!r}. Fix: pass the folder that a logger wrote, logger.folder."
        )
    if folder.is_file():
        folder, files = folder.parent, [folder]
    else:
        folder = folder / "scalars" if (folder / "scalars").is_dir() else folder
        files = sorted(folder.rglob("*.csv"))
    events = [file for file in files if "tfevents" in file.name] or sorted(Path(path).rglob("*tfevents*"))
    tables = [file for file in files if file.suffix == ".csv"]
    if tables:
        return {file.relative_to(folder).with_suffix("").as_posix(): _read_csv(file) for file in tables}
    if events:
        return _read_events(Path(path))
    raise FileNotFoundError(
        f"{str(path)!r} holds neither CSV files nor TensorBoard's event files. "
        "Fix: pass the folder of one run, such as logger.folder of a CSVLogger."
    )


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


def _read_events(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        raise ImportError(
            "TensorBoard's event files are read with the package tensorboard, which is not installed. "
            "Fix: pip install tensorboard, or log with CSVLogger, whose files need no package."
        ) from error
    # Size guidance 0 keeps all scalars; tensors are what newer writers store scalars in.
    accumulator = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags, found = accumulator.Tags(), {}
    for name in tags.get("scalars", []):
        events = accumulator.Scalars(name)
        found[name] = np.array([e.step for e in events], dtype=float), np.array([e.value for e in events], dtype=float)
    return found
