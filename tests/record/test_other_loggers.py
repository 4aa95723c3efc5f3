"""Loggers of other packages: the calls that TensorBoard, Weights & Biases and MLflow receive.

Weights & Biases and MLflow are tried where they are installed; a stand-in that notes the calls shows everywhere what
the loggers ask of them.
"""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import rlnb.record.loggers as loggers
from rlnb.record import MLFlowLogger, TensorBoardLogger, TensorboardLogger, WandbLogger, read_video
from rlnb.record.loggers import get_logger

VIDEO = torch.zeros(1, 4, 3, 16, 16, dtype=torch.uint8)
VIDEO[:, :, 0] = torch.arange(4).mul(60).reshape(4, 1, 1)


@pytest.fixture
def needs(missing):
    def check(package, fix, optional=False):
        if find_spec(package) is None:
            missing(package, fix, optional=optional)

    return check


# TensorBoard ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def tensorboard(tmp_path, needs):
    needs("tensorboard", "pip install 'rlnb[tensorboard]'", optional=True)
    return TensorboardLogger("first", tmp_path)


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0, "images": 0})
    found.Reload()
    return found


def test_both_spellings_are_one_class():
    assert TensorBoardLogger is TensorboardLogger is loggers.TensorBoardLogger


def test_tensorboard_reads_what_was_logged(tensorboard, tmp_path):
    tensorboard.log_scalar("train/return", 20, step=300)
    tensorboard.log_metrics({"train": {"return": torch.tensor(30.0)}})
    tensorboard.log_str("notes", "a text", step=2)
    tensorboard.log_hparams({"lr": 0.001, "layers": [64, 64]})
    tensorboard.close()
    found = events(tmp_path / "first")
    assert [(e.step, e.value) for e in found.Scalars("train/return")] == [(300, 20.0), (1, 30.0)]
    (text,) = found.Tensors("notes/text_summary")
    assert (text.step, text.tensor_proto.string_val) == (2, [b"a text"])
    start = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"lr" in start and b"[64, 64]" in start


@pytest.mark.parametrize("several", [False, True])
def test_tensorboard_shows_a_video_as_an_animated_image(tensorboard, tmp_path, several):
    from PIL import Image, ImageSequence

    tensorboard.log_video("eval", torch.cat([VIDEO, VIDEO]) if several else VIDEO, step=5)
    tensorboard.close()
    (image,) = events(tmp_path / "first").Images("eval")
    assert (image.step, image.width, image.height) == (5, 32 if several else 16, 16)
    with Image.open(io.BytesIO(image.encoded_image_string)) as gif:
        frames = [frame.convert("RGB").getpixel((3, 3)) for frame in ImageSequence.Iterator(gif)]
    assert frames == [(0, 0, 0), (60, 0, 0), (120, 0, 0), (180, 0, 0)]


def test_a_closed_tensorboard_logger_logs_nothing_more(tensorboard):
    tensorboard.close()
    for call in (
        lambda: tensorboard.log_scalar("loss", 1),
        lambda: tensorboard.log_video("eval", VIDEO),
        lambda: tensorboard.log_hparams({}),
        lambda: tensorboard.log_str("notes", "text"),
    ):
        with pytest.raises(RuntimeError, match="TensorboardLogger 'first' was closed"):
            call()


def test_tensorboard_cannot_write_below_a_file(tmp_path, needs):
    needs("tensorboard", "pip install 'rlnb[tensorboard]'", optional=True)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotADirectoryError, match="cannot be written: Not a directory"):
        TensorboardLogger("first", tmp_path / "file")


# Weights & Biases and MLflow: stand-ins ------------------------------------------------------------------------------


class Notes(list):
    """Notes the calls of methods and returns a value for those that need one."""

    def __init__(self, **returns):
        super().__init__()
        self.returns = returns

    def __getattr__(self, name):
        def method(*args, **kwargs):
            self.append((name, args, kwargs))
            return self.returns.get(name)

        return method


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for the package: its run notes the calls, and a video is the frames that are in its file."""
    run = Notes()
    run.config = Notes()
    package = SimpleNamespace(run=run, inits=[])
    package.init = lambda **options: package.inits.append(options) or run
    package.Video = lambda path, **options: (read_video(path), options)
    monkeypatch.setitem(sys.modules, "wandb", package)
    return package


def test_what_wandb_receives(wandb, needs, tmp_path):
    needs("av", "pip install 'rlnb[video]'")
    logger = get_logger("wandb", str(tmp_path), "first", wandb_kwargs={"offline": True, "project": "p", "group": "g"})
    assert type(logger) is WandbLogger and logger.log_dir == str(tmp_path)
    (options,) = wandb.inits
    expected = {"name": "first", "dir": str(tmp_path), "id": None, "project": "p", "group": "g", "mode": "offline"}
    assert options == {**expected, "resume": "allow"}
    logger.log_scalar("loss", torch.tensor(2.0), step=30)
    logger.log_scalar("loss", 1)
    logger.log_str("notes", "text")
    logger.log_hparams({"lr": 0.1})
    logger.log_video("eval", VIDEO, step=4, caption="mine")
    logger.close()
    logger.close()
    *calls, video, finish = wandb.run
    assert calls == [
        ("define_metric", ("*",), {"step_metric": "trainer/step"}),
        ("log", ({"loss": 2.0, "trainer/step": 30},), {}),
        ("log", ({"loss": 1.0, "trainer/step": 1},), {}),
        ("log", ({"notes": "text", "trainer/step": 0},), {}),
    ]
    assert wandb.run.config == [("update", ({"lr": 0.1},), {"allow_val_change": True})]
    (entry,) = video[1]
    frames, options = entry["eval"]
    assert entry["trainer/step"] == 4 and options == {"format": "mp4", "caption": "mine"}
    assert (frames.int() - VIDEO[0]).abs().float().mean() < 3
    assert finish == ("finish", (), {})
    for call in (
        lambda: logger.log_scalar("loss", 1),
        lambda: logger.log_video("eval", VIDEO),
        lambda: logger.log_hparams({}),
        lambda: logger.log_str("notes", "text"),
    ):
        with pytest.raises(RuntimeError, match="WandbLogger 'first' was closed"):
            call()


def test_wandb_is_online_unless_told_otherwise(wandb):
    WandbLogger("first", save_dir="runs", id="abc")
    WandbLogger("first", mode="disabled")
    first, second = wandb.inits
    assert "mode" not in first and (first["dir"], first["id"]) == ("runs", "abc")
    assert second["mode"] == "disabled" and second["dir"] == "."


@pytest.fixture
def mlflow(monkeypatch):
    """A stand-in for the package, whose client notes the calls and keeps the frames of videos."""
    client = Notes(create_experiment="7", create_run=SimpleNamespace(info=SimpleNamespace(run_id="r1")))
    client.log_artifact = lambda run, path, folder: client.append(
        ("video", run, Path(path).name, folder, read_video(path))
    )
    package = SimpleNamespace(client=client, uris=[])
    package.MlflowClient = lambda tracking_uri: package.uris.append(tracking_uri) or client
    monkeypatch.setitem(sys.modules, "mlflow", package)
    return package


def test_what_mlflow_receives(mlflow, needs):
    needs("av", "pip install 'rlnb[video]'")
    logger = get_logger("mlflow", "sqlite:///a.db", "first", mlflow_kwargs={"tags": {"kind": "test"}})
    assert type(logger) is MLFlowLogger and mlflow.uris == ["sqlite:///a.db"]
    logger.log_scalar("train/loss", 2, step=30)
    logger.log_hparams({"lr": 0.1})
    logger.log_str("notes", "text", step=3)
    logger.log_video("eval/top", VIDEO)
    logger.close()
    logger.close()
    *calls, video, end = mlflow.client
    assert calls == [
        ("get_experiment_by_name", ("first",), {}),
        ("create_experiment", ("first",), {}),
        ("create_run", ("7",), {"tags": {"kind": "test"}}),
        ("log_metric", ("r1", "train/loss", 2.0), {"step": 30}),
        ("log_param", ("r1", "lr", 0.1), {}),
        ("log_text", ("r1", "text", "texts/notes3.txt"), {}),
    ]
    assert video[:4] == ("video", "r1", "top_0.mp4", "videos/eval")
    assert (video[4].int() - VIDEO[0]).abs().float().mean() < 3
    assert end == ("set_terminated", ("r1",), {})
    for call in (
        lambda: logger.log_scalar("loss", 1),
        lambda: logger.log_video("eval", VIDEO),
        lambda: logger.log_hparams({}),
        lambda: logger.log_str("notes", "text"),
    ):
        with pytest.raises(RuntimeError, match="MLFlowLogger 'first' was closed"):
            call()


# ... and the packages themselves -------------------------------------------------------------------------------------


def test_wandb_offline(tmp_path, needs, monkeypatch):
    needs("wandb", "pip install wandb", optional=True)
    needs("av", "pip install 'rlnb[video]'")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger("first", offline=True, save_dir=tmp_path, project="rlnb")
    logger.log_scalar("loss", 0.5, step=3)
    logger.log_hparams({"lr": 0.1})
    logger.log_str("notes", "text")
    logger.log_video("eval", VIDEO)
    logger.close()
    (folder,) = tmp_path.glob("wandb/offline-run-*")
    assert any(folder.glob("run-*.wandb"))
    (video,) = folder.glob("files/media/videos/eval_*.mp4")
    assert (read_video(video).int() - VIDEO[0]).abs().float().mean() < 3


def test_mlflow_with_a_store_of_files(tmp_path, needs, monkeypatch):
    needs("mlflow", "pip install mlflow", optional=True)
    needs("av", "pip install 'rlnb[video]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for _ in range(2):  # the second run is one of the same experiment
        logger = MLFlowLogger("first", (tmp_path / "runs").as_uri())
        logger.log_scalar("train/loss", 0.5, step=3)
        logger.log_hparams({"lr": 0.1})
        logger.log_str("notes", "text")
        logger.log_video("eval", VIDEO)
        logger.close()
    client = logger.experiment
    (metric,) = client.get_metric_history(logger.run_id, "train/loss")
    run = client.get_run(logger.run_id)
    assert (metric.step, metric.value, run.data.params, run.info.status) == (3, 0.5, {"lr": "0.1"}, "FINISHED")
    assert len(client.search_runs([run.info.experiment_id])) == 2
    assert [a.path for a in client.list_artifacts(logger.run_id, "videos")] == ["videos/eval_0.mp4"]
