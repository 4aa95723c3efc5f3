"""Views of the monitor: text, description and SVG; interrupts and errors; logging; invalid input."""

from __future__ import annotations

import base64
import math
import re
from importlib.util import find_spec
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from rlnb_widgets import TrainingMonitor
from rlnb_widgets._core.display import Columns
from rlnb_widgets.training_monitor import widget as module
from rlnb_widgets.training_monitor.model import Pace, pace_words
from rlnb_widgets.training_monitor.scene import curve_displays

from rlnb.collectors import Collector
from rlnb.envs import CartPoleEnv, GymEnv
from rlnb.record.loggers import CSVLogger, Logger


def seeded(seed=0):
    env = GymEnv("CartPole-v1", max_episode_steps=30)
    env.set_seed(seed)
    return env


@pytest.fixture
def trained():
    """A training of 400 frames, with what can be shown of it."""
    torch.manual_seed(0)
    monitor = TrainingMonitor(curves=["return", "loss"], goals={"return": 25})
    monitor.snapshot("before", seeded(1).rollout(30), "CartPole-v1")
    with monitor:
        for i, _ in enumerate(monitor.watch(Collector(seeded(), frames_per_batch=20, total_frames=400))):
            monitor.log(loss=1 / (1 + i) if i != 7 else math.nan, epsilon=torch.tensor(1 - i / 20))
    monitor.show_episode(seeded(2).rollout(30), "CartPole-v1")
    monitor.show_values([[0.0, 0.5], [math.nan, 1.0]], actions=[[3, 1], [-1, 0]], goal=3, blocked=[2])
    return monitor


# Views ----------------------------------------------------------------------------------------------------------------


def test_the_tip_of_a_curve_is_of_the_step_under_the_pointer(browse):
    with TrainingMonitor(curves=["loss"], unit="frames") as monitor:
        for step in range(0, 101, 10):
            monitor.log(loss=100.0 - step, step=step)

    def tips(page):
        chart = page.locator(".tm-curve")
        wide = chart.bounding_box()["width"]
        for x in (60, wide / 2 + 20, wide - 12):
            chart.hover(position={"x": x, "y": 50})
            yield chart.locator(".rlnb-tip").text_content()

    first, half, last = browse(monitor, lambda page: list(tips(page)))
    assert (first.split(":")[0], last.split(":")[0]) == ("at 0", "at 100") and half.startswith(("at 50:", "at 60:"))


def test_the_values_of_a_curve_are_read_with_keys(browse):
    with TrainingMonitor(curves=["return", "loss", "nothing"], unit="frames") as monitor:
        for step in range(0, 101, 10):
            monitor.log(loss=100.0 - step, step=step)
            monitor.log({"return": float(step)}, step=2 * step)

    def act(page):
        page.locator("[data-rlnb]").focus()
        page.keyboard.press("Tab")
        while page.evaluate("document.activeElement.dataset.curve") is None:
            page.keyboard.press("Tab")
        said, found = page.locator(".tm-reading"), [page.evaluate("document.activeElement.dataset.curve")]
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        for key in ("ArrowLeft", "ArrowLeft", "Home", "ArrowLeft", "ArrowRight", "End", "ArrowRight"):
            page.keyboard.press(key)
            found.append(said.inner_text())
        chart = page.locator("[data-curve=return]")
        spoken = chart.get_attribute("aria-valuetext"), chart.get_attribute("aria-valuenow")
        page.keyboard.press("Tab")
        left = page.evaluate("document.activeElement.dataset.curve"), said.inner_text()
        page.keyboard.press("Home")
        read, stop = said.inner_text(), page.locator("[data-curve=nothing]").get_attribute("tabindex")
        live = said.get_attribute("aria-live")
        return found, outline, spoken, left, read, stop, live

    found, outline, spoken, left, read, stop, live = browse(monitor, act)
    assert found == [
        "return",
        "return at 180: 90",
        "return at 160: 80",
        "return at 0: 0",
        "return at 0: 0",
        "return at 20: 10",
        "return at 200: 100",
        "return at 200: 100",
    ]
    assert outline != "none" and spoken == ("at 200: 100", "200")
    assert (left, read, stop, live) == (("loss", ""), "loss at 0: 100", "-1", "polite")


def test_raw_values_are_as_strong_as_a_mark_must_be(trained):
    lines = [mark for mark in _marks(trained._head["curves"][0]["list"]["marks"]) if mark["kind"] == "curve"]
    roles = [(mark["stroke"], mark.get("opacity", 1)) for mark in lines]
    assert roles == [("c0", 1), ("paper", 1), ("c0", 1)] and lines[0]["width"] < lines[2]["width"]


def _marks(marks):
    return [inner for mark in marks for inner in (mark, *_marks(mark.get("marks", ())))]


def test_the_text_has_no_times(trained):
    assert (
        repr(trained)
        == """\
TrainingMonitor: 400 of 400 frames, finished
  return   23 values  last 24    best 30    goal 25  ▁▁▃▂▆▅▆▅▄▃▄▆▆▇▅▆▅▇▇▆█▇▇
  loss     20 values  last 0.05  best 0.05           █▄▃▂▂▂▂·▁▁▁▁▁▁▁▁▁▁▁▁  1 not finite
  epsilon  20 values  last 0.05                      ██▇▇▇▆▆▅▅▅▄▄▄▃▃▂▂▂▁▁
  return: no clear change, about 17; best 30.
  before: 13 steps, return 13, after 0 frames
  latest episode: 28 steps, return 28, after 400 frames
  values of 2 x 2 states, with greedy actions"""
    )


def test_the_words_say_what_the_picture_shows(trained):
    trained.log_hparams({"gamma": 0.99, "env": "<b>"})
    words = trained.explain().split("\n\n")
    assert words[0] == "A training, 400 of 400 frames, finished."
    assert words[2] == (
        "loss: fell from about 1 to 0.05, no clear change in the last 15 values; best 0.05. 20 values between "
        "0.05 and 1, the last one 0.05 at frames 400. 1 value not finite, at the crosses."
    )
    assert words[1].endswith("The goal is 25.")
    assert words[-2].startswith("The value map shows 3 states with values from 0 to 1; an arrow is")
    assert words[-1] == "Hyperparameters: gamma = 0.99, env = <b>."


def test_the_picture_is_small_and_the_same_each_time_but_for_the_times(trained):
    html = trained._repr_mimebundle_()[0]["text/html"]
    pace, picture = html.split("\n")
    assert pace.startswith(
        '<img data-measured="1" alt="pace of the training, as measured" src="data:image/svg+xml;base64,'
    )
    assert picture.startswith('<img alt="TrainingMonitor: 400 of 400 frames, finished" src="')
    assert picture == trained._repr_mimebundle_()[0]["text/html"].split("\n")[1]
    assert len(html) < 40_000
    svg = base64.b64decode(re.search(r'base64,([^"]*)', picture)[1]).decode()
    assert "frames/s" not in svg and "took" not in svg
    assert "frames/s" in trained.to_svg()
    ElementTree.fromstring(svg)
    for words in (
        "return",
        "last 24, best 30, goal 25",
        "before",
        "latest episode",
        "ended",
        "1 NaN",
        "value from 0 (faint) to 1",
    ):
        assert f">{words}<" in svg or words in svg


def test_frames_of_rollouts_show_no_actions_and_share_their_parts(trained):
    frames = trained.model.shown[0].player.frames
    shown = [f"agent0-{k}" for k in range(len(frames.scene.parts)) if k not in frames.acting]
    held = [name for name in re.findall(r'<g id="(.*?)"', str(trained._svg())) if name.startswith("agent0-")]
    assert frames.acting and held == ["agent0-still", *shown]


def test_all_views_say_what_the_return_did_and_a_legend_what_the_marks_are(browse, trained):
    words = f"return: {trained.model.curves[0].trend}; best 30."
    meanings = ["values", "moving mean", "goal", "not finite"]

    def act(page):
        return page.locator(".tm-insight").inner_text(), page.locator(".tm-key li").all_inner_texts()

    assert browse(trained, act) == (words, meanings)
    assert f"\n  {words}\n" in repr(trained) and words in trained.explain()
    drawn = re.findall(r"<text[^>]*>(.*?)</text>", trained.to_svg())
    assert {words, *meanings} <= set(drawn)
    empty = TrainingMonitor()
    assert (empty._head["insight"], empty._legend) == ("", [])


def test_what_is_said_is_the_return_whatever_was_logged_first():
    with TrainingMonitor() as monitor:
        monitor.log(loss=1.0)
        assert "\n  loss: 1, its only value." in repr(monitor)
        monitor.log({"episode return": 3.0})
        assert "\n  episode return: 3, its only value." in repr(monitor)


def test_the_cross_of_a_first_value_is_whole():
    """What is outside of the clipped frame is not cut at the edge of the panel."""
    monitor = TrainingMonitor(total=4)
    for value in (math.nan, 1.0, 2.0):
        monitor.log(loss=value)
    (panel,) = curve_displays(monitor.model, Columns())
    clipped = [mark for group in panel.marks if group.get("clip") for mark in group["marks"]]
    assert clipped and not [mark for mark in clipped if mark["kind"] == "glyphs"]
    assert [mark for group in panel.marks for mark in group.get("marks", []) if mark["kind"] == "glyphs"]


def test_two_trainings_with_one_seed_have_one_picture():
    pictures = []
    for pause in (0.0, 0.01):
        monitor = TrainingMonitor()
        with monitor:
            for i in monitor.watch(range(500)):
                monitor.log(x=math.sin(i))
                if i % 50 == 0 and pause:
                    monitor.refresh()
        pictures.append(monitor._repr_mimebundle_()[0]["text/html"].split("\n")[1])
    assert pictures[0] == pictures[1]


def test_a_picture_does_not_grow_with_the_training():
    sizes = []
    for n in (2_000, 200_000):
        monitor = TrainingMonitor()
        rng = np.random.default_rng(0)
        monitor._series["loss"] = series = module.Series()
        series.extend(np.arange(n), rng.normal(size=n))
        monitor.refresh()
        sizes.append((len(monitor.to_svg()), len(monitor._columns)))
    assert sizes[1][0] < 1.3 * sizes[0][0] and sizes[1][1] < 1.3 * sizes[0][1]


def test_names_from_outside_are_text(trained):
    monitor = TrainingMonitor()
    monitor.log({"<script>alert(1)</script>": 1.0})
    assert "<script>" not in monitor.to_svg()
    assert "<script>alert" not in monitor.to_html()


def test_the_page_has_all_it_needs(trained, tmp_path):
    text = trained.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    assert [curve["name"] for curve in trained._head["curves"]] == ["return", "loss", "epsilon"]
    assert [one["name"] for one in trained._shows["rollouts"]] == ["before", "latest episode"]
    assert trained.length == 28 and trained._shows["rollouts"][0]["frames"]["kind"] == "scene"


# In a notebook --------------------------------------------------------------------------------------------------------


class Output:
    """Stands for the output of a cell."""

    def __init__(self):
        self.states = []

    def update(self, monitor):
        monitor.refresh()
        self.states.append(monitor._head["words"])
        return True


@pytest.fixture
def notebook(monkeypatch):
    """A notebook, and a clock that the test moves."""
    clock, output = SimpleNamespace(now=100.0), Output()
    monkeypatch.setattr(module._Output, "of", lambda monitor: output)
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(module.time, name, lambda: clock.now)
    clock.output = output
    return clock


def test_the_page_is_updated_at_most_four_times_a_second(notebook):
    monitor, seen = TrainingMonitor(total=1000), []
    monitor.observe(lambda change: seen.append(change["new"]["frames"]), "_head")
    with monitor:
        for i in monitor.watch(range(100)):
            notebook.now += 0.01
            monitor.log(loss=i)
        # For the first item, then every 25 items.
        assert seen[0] == 1 and len(seen) in (4, 5)
    assert seen[-1] == 100 and notebook.output.states == ["100 of 1,000 iterations, finished"]


def test_an_expensive_update_is_made_less_often(notebook, monkeypatch):
    monitor, updates = TrainingMonitor(), []

    def slow():
        updates.append(notebook.now)
        notebook.now += 0.1

    with monitor:
        monkeypatch.setattr(monitor, "refresh", slow)
        for i in monitor.watch(range(1000)):
            notebook.now += 0.02
            monitor.log(loss=i)
        spent = 0.1 * len(updates)
    assert len(updates) >= 3 and spent < 0.025 * (notebook.now - 100)


def test_rate_and_time_left_are_those_of_the_last_seconds(notebook):
    monitor = TrainingMonitor(total=10_000)
    with monitor:
        for i in monitor.watch(range(2000)):
            notebook.now += 0.1 if i < 1000 else 0.02
            monitor.log(loss=i)
        assert monitor.rate == pytest.approx(50, rel=0.05)
        assert monitor._pace().left == pytest.approx(160, rel=0.05)
    assert monitor.rate == pytest.approx(2000 / 120, rel=0.01)


def test_an_interrupt_ends_the_block_and_the_collector_goes_on(notebook):
    collector = Collector(seeded(), frames_per_batch=20, total_frames=400)
    monitor, learned = TrainingMonitor(), 0
    with monitor:
        for batch in monitor.watch(collector):
            learned += batch.numel()
            if learned == 100:
                raise KeyboardInterrupt
    assert monitor.stopped and monitor.frames == learned == 100
    words = "stopped at 100 of 400 frames; what was learned is intact"
    assert repr(monitor).startswith(f"TrainingMonitor: {words}\n") and notebook.output.states == [words]
    with monitor:
        for batch in monitor.watch(collector):
            learned += batch.numel()
    assert learned == monitor.frames == 400 and not monitor.stopped
    assert repr(monitor).startswith("TrainingMonitor: 400 of 400 frames, finished")
    steps, values = monitor["return"]
    assert steps[-1] <= 400 and values.sum() <= 400


def test_an_interrupt_within_the_collector_is_the_same():
    def policy(td):
        if monitor.frames == 60:
            raise KeyboardInterrupt
        return td.set("action", torch.tensor([1, 0]))

    monitor = TrainingMonitor()
    collector = Collector(seeded(), policy, frames_per_batch=20, total_frames=400)
    with monitor:
        for _ in monitor.watch(collector):
            pass
    assert monitor.stopped and monitor.frames == 60 == collector.frames


def test_an_error_passes_on_and_is_shown(notebook):
    monitor = TrainingMonitor(total=9)
    with pytest.raises(ZeroDivisionError), monitor:
        for _ in monitor.watch(range(9)):
            print(1 / 0)
    words = "failed at 1 of 9 iterations: ZeroDivisionError: division by zero"
    assert notebook.output.states == [words] and not monitor.stopped
    assert repr(monitor) == f"TrainingMonitor: {words}"


def test_what_is_shown_after_the_block_is_shown_at_once(notebook):
    monitor = TrainingMonitor()
    with monitor:
        pass
    monitor.snapshot("after", seeded().rollout(5))
    monitor.log(test=3.0)
    assert len(notebook.output.states) == 3 and monitor.length == 5
    assert [curve["name"] for curve in monitor._head["curves"]] == ["test"]


def test_a_terminal_has_a_line_and_a_pipe_has_none(monkeypatch, capsys):
    for terminal in (False, True):
        monkeypatch.setattr(module, "_terminal", lambda terminal=terminal: terminal)
        monitor = TrainingMonitor(unit="games")
        with monitor:
            for i in monitor.watch(range(3)):
                monitor.log(loss=i)
        err = capsys.readouterr().err
        assert bool(err) == terminal
    assert err.split("\r")[1].startswith("1 of 3 games")
    assert re.search(r"3 of 3 games, finished \| .*games/s, took .* \| loss 2", err)


@pytest.mark.parametrize(
    ("pace", "running", "words"),
    [
        (Pace(math.nan, 0.5, math.nan), True, ""),
        (Pace(99.94, 1, 59.4), True, "99.9 frames/s, 59 s left"),
        (Pace(99.94, 3599, math.nan), False, "99.9 frames/s, took 59 min 59 s"),
    ],
)
def test_words_of_the_pace(pace, running, words):
    assert pace_words(pace, "frames", running) == words


# A logger -------------------------------------------------------------------------------------------------------------


def test_it_is_a_logger():
    monitor = TrainingMonitor()
    assert isinstance(monitor, Logger)
    monitor.log_scalar("loss", torch.tensor([0.5]), 3)
    assert monitor.log_metrics({"train": {"return": 2.0}}, step=4) == {"train/return": 2.0}
    assert monitor["train/return"][0].tolist() == [4.0] and monitor["loss"][1].tolist() == [0.5]
    with pytest.raises(NotImplementedError) as caught:
        monitor.log_video("episode", torch.zeros(2, 3, 4, 4))
    assert str(caught.value) == (
        "A TrainingMonitor keeps no videos, and got 'episode'. Fix: monitor.show_episode(rollout, env), or "
        "CSVLogger(...).log_video(name, video)."
    )


def test_steps_are_the_frames_or_the_number_of_values():
    monitor = TrainingMonitor()
    monitor.log(a=1.0)
    monitor.log(a=2.0)
    assert monitor["a"][0].tolist() == [0, 1]
    for _ in monitor.watch([seeded().rollout(4)]):
        monitor.log(b=np.float32(2), c=True)
        monitor.log(b=3, step=torch.tensor(9))
    assert monitor["b"][0].tolist() == [4, 9] and monitor["c"][1].tolist() == [1.0]


def test_a_tensor_that_is_overwritten_keeps_its_logged_value():
    monitor, total = TrainingMonitor(), torch.zeros(())
    for _ in range(3):
        total += 1
        monitor.log(total=total)
    assert monitor["total"][1].tolist() == [1, 2, 3]


def test_the_latest_episode_is_a_copy():
    td = seeded().rollout(5)
    monitor = TrainingMonitor()
    with monitor:
        monitor.show_episode(td)
        td["next", "reward"].fill_(7)
    assert "latest episode: 5 steps, return 5" in repr(monitor)


# Logs -----------------------------------------------------------------------------------------------------------------


def test_a_finished_run_is_read_from_a_csv_logger(tmp_path):
    logger = CSVLogger("run", tmp_path)
    for step in range(5):
        logger.log_scalar("train/return", 10.0 * step, step=100 * step)
        logger.log_scalar("loss", math.nan if step == 2 else 1 - step / 5, step=100 * step)
    monitor = TrainingMonitor.read(logger.folder)
    assert (
        repr(monitor)
        == """\
TrainingMonitor: a finished run, 400 steps
  loss          5 values  last 0.2  best 0.2    █▆·▃▁  1 not finite
  train/return  5 values  last 40   best 40     ▁▃▅▆█
  train/return: went from 0 to 40 in 5 values; best 40."""
    )
    alone = TrainingMonitor.read(logger.folder / "scalars" / "train" / "return.csv")
    assert alone["return"][1].tolist() == [0, 10, 20, 30, 40]


def test_a_finished_run_is_read_from_tensorboard(tmp_path, missing):
    if find_spec("tensorboard") is None:
        missing("tensorboard", "pip install 'rlnb[tensorboard]'", optional=True)
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(20):
            writer.add_scalar("train/return", 2.0 * step, step * 10)
            writer.add_scalar("loss", 1.0, step, new_style=True)
    with SummaryWriter(str(tmp_path / "test")) as writer:
        writer.add_scalar("return", 5.0, 7)
    monitor = TrainingMonitor.read(tmp_path)
    assert monitor["train/return"][0].tolist() == [10.0 * step for step in range(20)]
    assert monitor["loss"][1].tolist() == [1.0] * 20 and monitor["test/return"][0].tolist() == [7.0]


def test_without_tensorboard_an_event_file_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.backend.event_processing.event_accumulator", None)
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"")
    with pytest.raises(ImportError) as caught:
        TrainingMonitor.read(tmp_path)
    assert str(caught.value) == (
        "TensorBoard's event files are read with the package tensorboard, which is not installed. "
        "Fix: pip install tensorboard, or log with CSVLogger, whose files need no package."
    )


def test_a_place_without_a_log_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.csv").write_text("step,value\n1,2\n3;4\n")
    with pytest.raises(FileNotFoundError) as caught:
        TrainingMonitor.read("none")
    assert str(caught.value) == (
        "There is no log at 'none'. Fix: pass the folder that the logger wrote, such as logger.folder."
    )
    with pytest.raises(FileNotFoundError) as caught:
        TrainingMonitor.read("empty")
    assert str(caught.value) == (
        "'empty' holds neither CSV files nor TensorBoard's event files. "
        "Fix: pass the folder of one run, such as logger.folder of a CSVLogger."
    )
    with pytest.raises(ValueError, match="Line 3") as caught:
        TrainingMonitor.read("bad.csv")
    assert str(caught.value) == (
        "Line 3 of bad.csv must be a step and a value, such as 100,0.5, got '3;4'. "
        "Fix: pass a log that CSVLogger wrote."
    )


# What it refuses ------------------------------------------------------------------------------------------------------

NUMBER = "The monitor logs one number for {}, got {}. Nothing was logged. Fix: monitor.log({})."


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: m.log(b=1.0, loss="0.5"), TypeError, NUMBER.format("'loss'", "a str", "loss=0.5")),
        (lambda m: m.log(b=1.0, loss=None), TypeError, NUMBER.format("'loss'", "a NoneType", "loss=0.5")),
        (
            lambda m: m.log(b=1.0, loss=torch.zeros(2, 3)),
            TypeError,
            NUMBER.format("'loss'", "a Tensor of shape [2, 3]", "loss=loss.mean()"),
        ),
        (lambda m: m.log({"b": 1.0, 3: 1.0}), TypeError, 'A curve has a text as its name, such as "loss", got 3.'),
        (lambda m: m.log({"b": 1.0, " ": 1.0}), ValueError, 'A curve needs a name, such as "loss", got an empty one.'),
        (
            lambda m: m.log(b=1.0, step="3"),
            TypeError,
            "step, the place of the logged values, must be a number, got a str. Nothing was logged. "
            "Fix: monitor.log(loss=loss, step=i).",
        ),
        (
            lambda m: m.log(b=1.0, step=math.inf),
            ValueError,
            "step, the place of the logged values, must be finite, got inf. Nothing was logged.",
        ),
        (lambda m: m["lost"], KeyError, '"The monitor has no curve \'lost\'; it has \'a\'."'),
        (
            lambda m: m.show_values([0.0, 1.0]),
            ValueError,
            "The values of a grid have the shape [rows, columns], got [2]. "
            "Fix: monitor.show_values(values, shape=(rows, columns)).",
        ),
        (
            lambda m: m.show_values([0.0, 1.0], (2, 2)),
            ValueError,
            "A grid of 2 x 2 has 4 states, got 2 values. Fix: shape=(rows, columns) of the env's map.",
        ),
        (
            lambda m: m.show_values([[0.0, 1.0]], actions=[0]),
            ValueError,
            "actions must have one action for each of the 2 states, got 1.",
        ),
        (
            lambda m: m.show_values([[0.0, 1.0]], actions=[0, 4]),
            ValueError,
            "actions must be less than 4, the number of arrows, got 4. "
            "Fix: arrows=[...], the direction of each action.",
        ),
        (
            lambda m: m.show_values([[0.0, 1.0]], arrows=["north"]),
            ValueError,
            "arrows are 'left', 'down', 'right', 'up', got 'north'.",
        ),
        (
            lambda m: m.show_values([[0.0, 1.0]], goal=2),
            ValueError,
            "goal must be states from 0 to 1, or a mask of them, got [2].",
        ),
        (
            lambda m: TrainingMonitor(total=0),
            ValueError,
            "total, the number of frames to come, must be positive, got 0. Fix: leave it out.",
        ),
        (
            lambda m: TrainingMonitor(total=1e4),
            TypeError,
            "total, the number of frames to come, must be an integer, got float. Fix: TrainingMonitor(total=50_000).",
        ),
        (
            lambda m: TrainingMonitor(unit=3),
            TypeError,
            'unit, what is counted, must be a word such as "frames", got 3.',
        ),
        (
            lambda m: TrainingMonitor(curves="loss"),
            TypeError,
            "curves must be a list of names, got the text 'loss'. Fix: curves=[\"loss\"].",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_changes_nothing(call, error, text):
    monitor = TrainingMonitor()
    monitor.log(a=1.0)
    before = repr(monitor), monitor._map
    with pytest.raises(error) as caught:
        call(monitor)
    assert str(caught.value) == text
    assert (repr(monitor), monitor._map) == before


def test_a_rollout_that_cannot_be_shown_is_refused_at_once():
    monitor = TrainingMonitor()
    with pytest.raises(TypeError, match="TensorDict"):
        monitor.show_episode([1, 2])
    with pytest.raises(TypeError, match="env must be an environment"):
        monitor.snapshot("before", seeded().rollout(3), 3)
    batch = CartPoleEnv(batch_size=[2]).rollout(4)
    monitor.snapshot("batch", batch, CartPoleEnv())
    assert "batch: 4 steps" in repr(monitor)
