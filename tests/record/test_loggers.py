"""Loggers: files, steps, names, and invalid input."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import torch
from tensordict import MemoryMappedTensor, TensorDict

from rlnb.record import CSVLogger
from rlnb.record.loggers import Logger, generate_exp_name, get_logger


@pytest.fixture
def logger(tmp_path):
    return CSVLogger("first", log_dir=tmp_path)


def files(logger):
    return {
        str(p.relative_to(logger.folder)): p.read_text()
        for p in logger.folder.rglob("*")
        if p.suffix != ".pt" and p.is_file()
    }


@pytest.mark.parametrize("value", [2, 2.0, torch.tensor(2), torch.ones(1) * 2, np.float32(2), torch.tensor([[2.0]])])
def test_a_number_is_a_line(logger, value):
    logger.log_scalar("train/return", value, step=30)
    logger.log_scalar("train/return", 3)
    logger.log_scalar("loss", float("nan"))
    assert files(logger) == {"scalars/train/return.csv": "30,2.0\n1,3.0\n", "scalars/loss.csv": "0,nan\n"}


def test_a_second_logger_of_the_name_appends(logger):
    logger.log_scalar("loss", 1, step=0)
    CSVLogger("first", log_dir=logger.log_dir).log_scalar("loss", 2, step=1)
    assert files(logger) == {"scalars/loss.csv": "0,1.0\n1,2.0\n"}


def test_the_folder_as_programs_ask_for_it(logger):
    assert logger.experiment.log_dir == str(logger.folder)


def test_metrics_may_be_nested(logger):
    data = TensorDict({"actor": TensorDict({"loss": torch.tensor(0.5)}), "step": torch.tensor(4)})
    assert logger.log_metrics(data, step=7) == {"actor/loss": 0.5, "step": 4.0}
    assert logger.log_metrics({"actor": {"loss": 1}}, keys_sep=".") == {"actor.loss": 1.0}
    assert files(logger)["scalars/actor/loss.csv"] == "7,0.5\n" and "scalars/actor.loss.csv" in files(logger)


def test_hyperparameters_are_text(logger):
    logger.log_hparams({"lr": 1e-3, "net": {"depth": 2}})
    logger.log_hparams({"lr": 1e-4})
    expected = {"texts/hparams0.txt": "lr: 0.001\nnet: {'depth': 2}", "texts/hparams1.txt": "lr: 0.0001"}
    assert files(logger) == expected


def test_videos_are_read_back(tmp_path):
    video = torch.randint(255, (1, 3, 3, 4, 5), dtype=torch.uint8)
    logger = CSVLogger("first", tmp_path)
    logger.log_video("eval", video, step=5)
    logger.log_video("eval", video[0])
    assert torch.equal(torch.load(logger.folder / "videos/eval_5.pt", weights_only=True), video)
    assert torch.equal(torch.load(logger.folder / "videos/eval_1.pt", weights_only=True), video[0])
    logger = CSVLogger("second", tmp_path, video_format="memmap")
    logger.log_video("eval", video)
    mapped = MemoryMappedTensor.from_filename(
        logger.folder / "videos/eval_0.memmap", dtype=video.dtype, shape=video.shape
    )
    assert torch.equal(mapped, video)


def test_an_object_that_is_not_a_number_is_rejected(logger):
    text = (
        "A logger writes one number for 'loss', and got a Tensor of shape [3]. Nothing was written. "
        "Fix: reduce it first, for example with value.mean()."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        logger.log_scalar("loss", torch.zeros(3))
    with pytest.raises(TypeError, match="'a/b', and got a str"):
        logger.log_metrics({"ok": 1, "a": {"b": "x"}})
    assert files(logger) == {}


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out"])
def test_no_name_leads_out_of_the_log(logger, name):
    with pytest.raises(ValueError, match="part of the name of a file inside the log"):
        logger.log_scalar(name, 1)
    with pytest.raises(ValueError, match="part of the name of a file inside the log"):
        logger.log_video(name, torch.zeros(1, 3, 4, 4, dtype=torch.uint8))


def test_a_logger_by_name(tmp_path):
    logger = get_logger("csv", str(tmp_path), "run", video_format="memmap")
    assert (type(logger), logger.exp_name, logger.log_dir, logger.video_format) == (
        CSVLogger,
        "run",
        str(tmp_path),
        "memmap",
    )
    assert get_logger("csv", "mine", "run", log_dir="other").log_dir == "other"
    assert get_logger(None, "mine", "run") is None
    text = "logger_type must be 'csv', 'tensorboard', 'wandb', 'mlflow', or '' for no logger, got 'comet'."
    with pytest.raises(NotImplementedError, match=f"^{re.escape(text)}$"):
        get_logger("comet", "mine", "run")


@pytest.mark.parametrize(
    ("logger_type", "module", "text"),
    [
        (
            "tensorboard",
            "tensorboard",
            "TensorboardLogger needs the package tensorboard, which is not installed. "
            "Fix: pip install 'rlnb[tensorboard]', or use CSVLogger, which needs no package.",
        ),
        (
            "wandb",
            "wandb",
            "WandbLogger needs the package wandb, which is not installed. "
            "Fix: pip install wandb, or use CSVLogger, which needs no package.",
        ),
        (
            "mlflow",
            "mlflow",
            "MLFlowLogger needs the package mlflow, which is not installed. "
            "Fix: pip install mlflow, or use CSVLogger, which needs no package.",
        ),
    ],
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, logger_type, module, text):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"^{re.escape(text)}$"):
        get_logger(logger_type, str(tmp_path), "run")
    assert not any(tmp_path.iterdir())


def test_texts_are_files(logger):
    logger.log_str("notes", "first\nline")
    logger.log_str("notes", "second")
    logger.log_str("notes", "later", step=70)
    expected = {"texts/notes0.txt": "first\nline", "texts/notes1.txt": "second", "texts/notes70.txt": "later"}
    assert files(logger) == expected


CALLS = {
    "log_scalar": ("loss", 1.0),
    "log_video": ("eval", torch.zeros(1, 3, 8, 8, dtype=torch.uint8)),
    "log_hparams": ({"lr": 0.1},),
    "log_str": ("notes", "text"),
    "log_metrics": ({"loss": 1.0},),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_logger_logs_nothing_more(logger, call):
    logger.log_scalar("loss", 1)
    before = files(logger)
    logger.close()
    logger.close()
    text = (
        "CSVLogger 'first' was closed, so it logs nothing more. "
        "Fix: call close() after the last log, or make a new CSVLogger."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        getattr(logger, call)(*CALLS[call])
    assert files(logger) == before and logger.closed


@pytest.mark.parametrize("call", CALLS)
def test_a_folder_that_cannot_be_written_is_named(tmp_path, call):
    (tmp_path / "file").write_text("in the way")
    logger = CSVLogger("first", log_dir=tmp_path / "file")
    with pytest.raises(NotADirectoryError) as caught:
        getattr(logger, call)(*CALLS[call])
    place = re.escape(str(tmp_path / "file" / "first"))
    assert re.fullmatch(
        rf"'{place}\S+' cannot be written: Not a directory\. Nothing was written\. Fix: log to another folder, such as "
        r"CSVLogger\(exp_name, log_dir='runs'\), or free space on the disk\.",
        str(caught.value),
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_logger_of_ones_own_writes_no_text_unless_it_says_how():
    class Silent(Logger):
        def log_scalar(self, name, value, step=None): ...
        def log_video(self, name, video, step=None, **kwargs): ...
        def log_hparams(self, cfg): ...

    text = "Silent writes no text. Fix: use CSVLogger, or implement log_str(name, value, step=None)."
    with pytest.raises(NotImplementedError, match=f"^{re.escape(text)}$"):
        Silent("mine", "logs").log_str("notes", "text")


def test_an_unknown_option_of_a_video_is_refused(logger):
    with pytest.raises(TypeError, match=r"^log_video of a CSVLogger takes fps, and got caption\.$"):
        logger.log_video(*CALLS["log_video"], caption="mine")
    assert files(logger) == {}


def test_names_of_experiments_differ():
    names = {generate_exp_name("DQN", "CartPole") for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"DQN_CartPole_[0-9a-f]{8}(_\d\d){3}-\d\d_\d\d_\d\d", name) for name in names)
