"""Traces become arrays, rates, shares and masks, by value; worker errors are summarized for readers."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets.batched_timeline import PHASES, batch_run, failure_of, timeline_model
from rlnb_widgets.batched_timeline.model import MOST_CELLS
from rlnb_widgets.batched_timeline.scene import TimelineScene

from rlnb.envs.batched.trace import BatchTrace


def shares(run):
    return dict(zip(PHASES, np.round(run.shares * run.seconds * 1e6, 6).tolist(), strict=True))


def test_turns_are_counted_from_the_first_ones_start(serial):
    run = batch_run("a", serial)
    assert (run.label, run.name, run.envs, run.steps, run.resets, run.turns) == ("a", "SerialEnv", 2, 3, 2, 5)
    assert run.start.tolist() == [0, 120, 200, 260, 340] and run.stop.tolist() == [100, 180, 260, 310, 400]
    assert run.told[1].tolist() == [0, 30] and run.acted[1].tolist() == [30, 60]
    assert np.isnan(run.told[3, 0]) and run.acted[3, 1] == 50, "an env that sat a reset out has no moments"


def test_a_reset_belongs_to_the_step_before_it_and_the_first_to_step_0(serial):
    run = batch_run("a", serial)
    assert run.step_of.tolist() == [0, 0, 1, 1, 2]
    assert run.first.tolist() == [True, True]
    assert run.mask.tolist() == [[False, False], [False, True], [False, False]]
    assert timeline_model([run]).opening == 1
    failed = batch_run("a", serial, failure=failure_of(RuntimeError("no"), step=3))
    assert timeline_model([failed]).opening == 2, "the last step before it failed"


def test_an_envs_time_is_divided_among_the_phases(serial, parallel):
    # Of 400 microseconds: 3 steps of 30, a reset of 50 for one env and two for the other, gaps of 20 + 20 + 30.
    assert shares(batch_run("a", serial)) == {"step": 90, "reset": 75, "write": 0, "wait": 165, "learner": 70}
    # Of 420: writing 10 and 15 after each step, 10 and 10 after resets, and 5 after the partial one.
    assert shares(batch_run("b", parallel)) == {"step": 90, "reset": 75, "write": 50, "wait": 145, "learner": 60}
    for trace in (serial, parallel):
        assert batch_run("a", trace).shares.sum() == pytest.approx(1)


def test_rates_count_steps_of_single_envs_and_envs_at_work_at_once(serial, parallel):
    one, two = batch_run("a", serial), batch_run("b", parallel)
    assert (one.seconds, two.seconds) == pytest.approx((400e-6, 420e-6))
    assert one.rate == pytest.approx(6 / 400e-6) and two.rate == pytest.approx(6 / 420e-6)
    assert one.at_work == pytest.approx(330 / 400)
    assert two.at_work == pytest.approx((40 * 3 + 60 + 45 * 3 + 60 + 55) / 420)


def test_columns_hold_what_was_done_and_not_the_waits(parallel):
    scene = TimelineScene(timeline_model([batch_run("b", parallel)]))
    (kept,) = scene.of_run

    def times(*columns):
        return list(zip(*(scene.columns.arrays[c].tolist() for c in columns), strict=True))

    assert times(*kept.page["lanes"][0][:3]) == [(110, 140, 150), (200, 230, 240), (360, 390, 400)]
    assert times(*kept.page["lanes"][1][3:]) == [(15, 65, 75), (270, 320, 325)]
    assert times(*kept.learner[0][:2]) == [(80, 100), (170, 190), (260, 260), (330, 350)]
    assert times(*(kept.page[name] for name in ("begin", "made", "end"))) == [
        (0, 100, 190),
        (190, 190, 350),
        (350, 350, 420),
    ]


def test_parameters_say_where_a_step_lies(serial, parallel):
    scene = TimelineScene(timeline_model([batch_run("a", serial), batch_run("b", parallel)]))
    found = scene.params(1)
    assert (found["from0"], found["to0"], found["from1"], found["to1"]) == (200, 340, 190, 350)
    assert found["span"] == pytest.approx(1.04 * 160) and found["end0"] == 200 + found["span"]
    assert scene.params(3)["has0"] == 0


def test_a_trace_that_begins_in_an_episode_has_no_first_reset(serial):
    run = batch_run("a", BatchTrace("SerialEnv", 2, serial.turns[1:]))
    assert run.first.tolist() == [False, False] and run.steps == 3
    assert run.start[0] == 0 and run.mask[1].tolist() == [False, True]


def test_a_moment_that_was_not_noted_is_a_wait(serial):
    serial.turns[1].moments[0, 1] = 0
    run = batch_run("a", serial)
    assert [run.told[1, 0], run.acted[1, 0], run.written[1, 0]] == [0, 0, 0]
    assert shares(run)["step"] == 75


def test_an_empty_trace_says_how_to_fill_it():
    with pytest.raises(ValueError) as error:
        batch_run("a", BatchTrace("SerialEnv", 2))
    assert str(error.value) == (
        "The trace of SerialEnv is empty: no step and no reset was noted. "
        "Fix: with env.tracing() as trace: env.rollout(40)."
    )


def test_runs_are_compared(serial, parallel):
    one, two = batch_run("a", serial), batch_run("b", parallel)
    both = timeline_model([one, two])
    assert both.length == 3 and both.same_resets and both.notes == ()
    other = timeline_model([one, batch_run("c", BatchTrace("SerialEnv", 2, serial.turns[:3]))])
    assert not other.same_resets and other.length == 3
    assert other.notes == ("The runs reset different envs, so that their steps are not the same work.",)


def test_what_is_drawn_is_bounded_and_what_is_counted_is_not(long):
    run = batch_run("long", long(3000, 100))
    assert run.drawn == MOST_CELLS // 100 == 1200 and run.turns == 3030 and run.steps == 3000
    assert run.rate == pytest.approx(3000 * 100 / (run.stop[-1] / 1e6))
    assert timeline_model([run]).notes == (
        "long: the first 1,200 turns of 3,030 are drawn; rates and shares are over all.",
    )


RAISED = """Worker 1 of 4 failed in step: ValueError: no
 more (Worker 3 failed, too)

In the worker:
Traceback (most recent call last):
  File "lib/lib/rlnb/envs/batched/worker.py", line 1, in _signalled
    driver.step_row()
  File "run/ipykernel_12/345.py", line 5, in _step
  File "lib/sims/car.py", line 7, in drive
    raise ValueError("no")
ValueError: no
"""


def test_the_error_of_a_worker_is_read():
    found = failure_of(RuntimeError(RAISED), step=6)
    assert (found.workers, found.what, found.step, found.of) == ((1,), "step", 6, 4)
    assert found.headline == "Worker 1 of 4 failed in step: ValueError: no more (Worker 3 failed, too)"
    assert [(line.text, line.own) for line in found.lines] == [
        ("Traceback (most recent call last):", False),
        ('  File "rlnb/envs/batched/worker.py", line 1, in _signalled', False),
        ("    driver.step_row()", False),
        ('  File "a cell of the notebook", line 5, in _step', True),
        ('  File "sims/car.py", line 7, in drive', True),
        ('    raise ValueError("no")', True),
        ("ValueError: no", True),
    ]


def test_code_in_a_clone_of_the_repository_is_the_learners_own():
    places = "/srv/me/rlnb/tests/envs/mine.py", "/srv/me/rlnb/rlnb/envs/common.py"
    lines = "\n".join(f'  File "{place}", line 1, in _step' for place in places)
    found = failure_of(RuntimeError(f"Worker 0 of 1 failed in step: E: e\n\nIn the worker:\n{lines}")).lines
    assert [(line.text.split('"')[1], line.own) for line in found] == [
        ("envs/mine.py", True),
        ("rlnb/envs/common.py", False),
    ]


@pytest.mark.parametrize(
    ("text", "workers", "what", "of"),
    [
        ("Worker 2 of 4 was ended by SIGKILL, which ..., in the middle of step. All workers were", (2,), "step", 4),
        ("Workers 1, 2 of 3, which share a process, ended with code 1, in the middle of reset.", (1, 2), "reset", 3),
        ("Worker 0 of 2 did not finish step within 5 s. All workers were ended;", (0,), "step", 2),
        ("something else", (), "", 0),
    ],
)  # fmt: skip
def test_a_worker_that_is_gone_left_no_traceback(text, workers, what, of):
    found = failure_of(RuntimeError(text))
    assert (found.workers, found.what, found.of, found.lines) == (workers, what, of, ())


def test_a_long_traceback_keeps_its_ends():
    lines = "\n".join(f"line {i}" for i in range(500))
    found = failure_of(RuntimeError(f"Worker 0 of 1 failed in step: E: e\n\nIn the worker:\n{lines}")).lines
    assert len(found) == 61
    assert (found[0].text, found[20].text, found[-1].text) == ("line 0", "  ... 440 lines ...", "line 499")
