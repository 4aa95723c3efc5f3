"""Views of timelines: text without times, SVG and descriptions; bounded; escaped; and real measurements."""

from __future__ import annotations

import configparser
import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from rlnb_widgets import BatchedEnvTimeline
from rlnb_widgets._core.text import duration
from rlnb_widgets.batched_timeline.lanes import WAITS_SIGN
from rlnb_widgets.batched_timeline.model import PHASES
from rlnb_widgets.batched_timeline.scene import CROWDED

from rlnb.envs import CartPoleEnv, GymEnv, ParallelEnv, SerialEnv
from rlnb.envs.batched import WorkerError

ERROR = 'Worker 1 of 2 failed in step: ValueError: <b>\n\nIn the worker:\n  File "<x>", line 1, in f\nValueError: <b>'


def short_episodes():
    return GymEnv("CartPole-v1", max_episode_steps=4)


def test_the_text_of_one_trace(serial):
    assert (
        repr(BatchedEnvTimeline(serial))
        == """\
BatchedEnvTimeline: SerialEnv, 2 envs, 3 steps, 2 resets
  reset after step
    env 1  1
  the times, measured on this machine, are in the picture"""
    )


def test_the_text_of_two_traces_and_a_failure(serial, parallel):
    timeline = BatchedEnvTimeline(one=serial, two=parallel, error=WorkerError(ERROR))
    assert (
        repr(timeline)
        == """\
BatchedEnvTimeline: 2 runs, one and two
  one  SerialEnv    2 envs  3 steps  2 resets
  two  ParallelEnv  2 envs  3 steps  2 resets
  reset after step
    env 1  1
  two after 3 steps: Worker 1 of 2 failed in step: ValueError: <b>
  the times, measured on this machine, are in the picture"""
    )


def test_runs_that_reset_differently_are_listed_each():
    from rlnb.envs.batched.trace import BatchTrace
    from tests.widgets.batched_timeline.conftest import turn

    step = ("step", 0, 10, {0: (0, 5, 5), 1: (0, 5, 5)}, 2)
    one = BatchTrace("SerialEnv", 2, [turn(*step), turn("reset", 10, 20, {0: (0, 5, 5)}, 2)])
    two = BatchTrace("SerialEnv", 2, [turn(*step)])
    lines = repr(BatchedEnvTimeline(a=one, b=two)).splitlines()
    assert lines[3:] == [
        "  reset after step in a",
        "    env 0  0",
        "  The runs reset different envs, so that their steps are not the same work.",
        "  the times, measured on this machine, are in the picture",
    ]


def test_the_words_have_the_numbers(serial, parallel):
    words = BatchedEnvTimeline(serial=serial, parallel=parallel).explain()
    assert (
        "serial: SerialEnv with 2 envs, 3 steps of each. It took 400 µs, or 15,000 steps/s of single envs. On average "
        "0.82 envs were at work at the same time. Of its time an env spends: 22% runs its step; 19% runs its reset; "
        "41% waits for the other envs and for signals; 18% waits for the learner" in words
    )
    assert words.endswith(
        "With serial, there are 1.1 times as many steps per second as with parallel, where an env waits 35% of its "
        "time."
    )
    words = BatchedEnvTimeline(serial=serial, again=serial).explain()
    assert "With serial, there are about as many steps per second as with again" in words


@pytest.mark.parametrize(
    ("us", "text"), [(0.25, "0.25 µs"), (999.4, "999 µs"), (999.6, "1 ms"), (1500, "1.5 ms"), (999_600, "1 s")]
)
def test_spans_of_time(us, text):
    assert duration(us) == text


def colours(svg, role):
    return [e for e in ElementTree.fromstring(svg).iter() if f"f-{role}" in e.get("class", "").split()]


def test_the_picture_draws_each_piece_once(serial, parallel):
    timeline = BatchedEnvTimeline(serial=serial, parallel=parallel)
    assert timeline.t == 1, "the first step that a reset follows"
    svg = timeline.to_svg()
    steps = sum(len(re.findall("M", e.get("d", ""))) for e in colours(svg, "c0"))
    resets = sum(len(re.findall("M", e.get("d", ""))) for e in colours(svg, "c1"))
    # Of both runs: all 3 steps of 2 envs, and the one at the playhead again.
    assert steps == 2 * (3 * 2 + 2)
    # 2 + 1 resets of each run, that of env 1 again in detail, and once in the mask, which is the same for both.
    assert resets == 2 * (3 + 1) + 1
    assert not re.search(r"\bnan\b|\binf\b", svg)
    words = [e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert "15,000 steps/s" in words and "Step 1, from its start:" in words


def test_pieces_that_are_too_many_become_columns_of_the_right_sum(long):
    timeline = BatchedEnvTimeline(long(2000, 2))
    svg = timeline.to_svg()
    width, found = 736 - 92 - 12, 0.0
    for element in colours(svg, "c0"):
        boxes = re.findall(r"M[\d.]+ [\d.]+h([\d.]+)v([\d.]+)h", element.get("d", ""))
        # The few boxes are those of the one step in detail.
        found += sum(float(w) * float(h) for w, h in boxes) if len(boxes) > 20 else 0
    run = timeline.model.runs[0]
    share = run.shares[0]
    # Two lanes of 10 pixels.
    assert found / (width * 20) == pytest.approx(share, rel=0.05)
    assert len(svg) < 120_000


def test_ten_thousand_steps_stay_small(long):
    trace = long(10_000, 8)
    timeline = BatchedEnvTimeline(a=trace, b=trace)
    views = timeline.to_svg(), timeline.to_html(), repr(timeline), timeline.explain()
    assert [len(view) < limit for view, limit in zip(views, (200_000, 6_000_000, 3_000, 3_000), strict=True)] == [
        True
    ] * 4
    assert timeline.length == 10_000


def test_names_and_errors_are_shown_as_text(serial):
    timeline = BatchedEnvTimeline(**{"<script>alert(1)</script>": serial}, error=WorkerError(ERROR))
    assert "<script>alert" not in timeline.to_svg() and "<b>" not in timeline.to_svg()
    assert timeline.to_html().count("<script>alert") == 0
    ElementTree.fromstring(timeline.to_svg())


def test_an_error_alone_is_shown():
    timeline = BatchedEnvTimeline(error=WorkerError(ERROR))
    assert repr(timeline).splitlines()[:2] == [
        "BatchedEnvTimeline: ParallelEnv, 2 envs, 0 steps, 0 resets",
        "  batch after 0 steps: Worker 1 of 2 failed in step: ValueError: <b>",
    ]
    assert "ValueError: &lt;b&gt;" in timeline.to_svg()


def test_the_picture_in_a_notebook_is_marked_as_measured(serial):
    data, _ = BatchedEnvTimeline(serial)._repr_mimebundle_()
    assert data["text/html"].startswith('<img data-measured="1" alt="BatchedEnvTimeline: SerialEnv, 2 envs')


def test_what_compares_notebooks_leaves_measured_pictures_out_and_nothing_else(serial, parallel):
    config = configparser.RawConfigParser()
    config.read(Path(__file__).parents[3] / "tutorials" / "sanitize.cfg")
    rule = config["measured"]["regex"], config["measured"]["replace"]
    one, two = (BatchedEnvTimeline(trace)._repr_mimebundle_()[0]["text/html"] for trace in (serial, parallel))
    alt = 'alt="BatchedEnvTimeline: SerialEnv, 2 envs, 3 steps, 2 resets"'
    assert re.sub(*rule, one) == f'<img data-measured="1" {alt} src="PICTURE">'
    assert re.sub(*rule, two) == re.sub(*rule, one).replace("Serial", "Parallel")
    other = one.replace(' data-measured="1"', "")
    assert re.sub(*rule, other) == other


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        (((), {}), TypeError, "BatchedEnvTimeline has nothing to show. Fix: BatchedEnvTimeline(env), or error=error."),
        (
            ((CartPoleEnv(),), {}),
            TypeError,
            "BatchedEnvTimeline shows a SerialEnv or ParallelEnv, a collector, or what `with env.tracing() as trace:` "
            "gave, and CartPoleEnv is of type CartPoleEnv. Its other arguments are steps, policy, learner, error and "
            "t. Fix: BatchedEnvTimeline(SerialEnv(4, lambda: GymEnv('CartPole-v1'))).",
        ),
        (
            ((), {"step": 3}),
            TypeError,
            "BatchedEnvTimeline shows a SerialEnv or ParallelEnv, a collector, or what `with env.tracing() as trace:` "
            "gave, and step is of type int. Its other arguments are steps, policy, learner, error and t. "
            "Fix: BatchedEnvTimeline(SerialEnv(4, lambda: GymEnv('CartPole-v1'))).",
        ),
        (((), {"error": "no"}), TypeError, "error must be the error of `except WorkerError as error`, got a str."),
        (
            ((SerialEnv(1, short_episodes),), {"steps": 0}),
            ValueError,
            "steps, the number of steps to measure, must be a positive integer, got 0.",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments, kind, says):
    args, kwargs = arguments
    with pytest.raises(kind) as error:
        BatchedEnvTimeline(*args, **kwargs)
    assert str(error.value) == says


def test_envs_are_measured_and_left_as_they_were():
    running, resting = SerialEnv(3, short_episodes), ParallelEnv(3, short_episodes)
    running.start()
    timeline = BatchedEnvTimeline(serial=running, parallel=resting, steps=10)
    assert not running.is_closed and resting.is_closed
    for run in timeline.model.runs:
        assert (run.envs, run.steps, run.resets) == (3, 10, 3)
        assert run.mask[[3, 7]].all() and run.mask.sum() == 6
        assert run.rate > 0 and run.shares.sum() == pytest.approx(1)
        assert run.entries["action"] == ("action",) and run.entries["root"][0] == "observation"
        finite = run.told[~run.is_reset]
        assert (finite >= 0).all() and (run.written[~run.is_reset] <= (run.stop - run.start)[~run.is_reset, None]).all()
    serial = timeline.model.runs[0]
    assert (serial.told[1, 1:] >= serial.written[1, :-1]).all(), "one after the other"
    assert "steps/s" not in repr(timeline)
    running.close()


class Fragile(CartPoleEnv):
    """Breaks in its sixth step."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def _step(self, tensordict):
        self.count += 1
        if self.count > 5:
            raise ValueError("it broke")
        return super()._step(tensordict)


def test_a_worker_that_fails_while_it_is_measured_is_shown_with_its_traceback():
    env = ParallelEnv(2, [CartPoleEnv, Fragile])
    timeline = BatchedEnvTimeline(env, policy=None)
    run = timeline.model.runs[0]
    assert run.failure.workers == (1,) and run.failure.what == "step"
    assert run.failure.headline == "Worker 1 of 2 failed in step: ValueError: it broke"
    assert run.steps == run.failure.step == 2, "after three to warm up"
    own = [line.text for line in run.failure.lines if line.own]
    assert own[-1] == "ValueError: it broke" and any('raise ValueError("it broke")' in text for text in own)
    assert env.is_closed


def test_a_policy_chooses_the_measured_actions():
    seen = []

    def policy(observation):
        seen.append(observation.shape)
        return torch.zeros(2, 2, dtype=torch.int64).index_fill_(1, torch.tensor([0]), 1)

    BatchedEnvTimeline(SerialEnv(2, lambda: GymEnv("CartPole-v1")), steps=5, policy=policy)
    assert seen == [torch.Size([2, 4])] * 8, "three to warm up, and five"


def _roles(marks, phases):
    """The roles of outline or inside of the parts of a bar by the phases that their tips tell of."""
    marks = [inner for mark in marks for inner in mark.get("marks", [mark])]
    parts = pairwise(marks)
    told = [(after["tip"], mark.get("stroke", mark["fill"])) for mark, after in parts if after["kind"] == "hit"]
    return {name: {role for tip, role in told if tip.endswith(words)} for name, words in phases.items()}


def test_what_an_env_waits_for_the_learner_has_the_colour_of_waiting(serial):
    scene = BatchedEnvTimeline(serial)._scene
    roles = _roles(scene.summary().marks, PHASES)
    assert roles["wait"] == roles["learner"] == {"muted"} and roles["step"] == {"c0"}
    assert ("c4", "learner at work") in scene.legend() and (WAITS_SIGN, "env waits") in scene.legend()
    assert not any(CROWDED in words for _, words in scene.legend())


def test_a_lane_has_a_line_of_the_colour_of_waiting_from_start_to_end(serial):
    scene = BatchedEnvTimeline(serial)._scene
    lanes = next(mark for mark in scene.overview().marks if mark["kind"] == "group")["marks"]
    lines = [(mark["x"], mark["x2"], mark["h"]) for mark in lanes if mark.get("fill") == "muted"]
    assert lines == [(0.0, scene.whole, 1)] * 3, "the learner and two envs"


def test_the_step_at_the_playhead_has_an_outline_and_no_colour_of_what_changed(serial):
    scene = BatchedEnvTimeline(serial)._scene
    marks = json.dumps(scene.overview().payload())
    assert '"stroke": "accent"' in marks and "highlight" not in marks


def test_the_page_gets_the_steps_that_a_reset_follows(serial, parallel):
    timeline = BatchedEnvTimeline(serial=serial, parallel=parallel)
    columns = timeline._scene.columns.arrays
    assert [columns[run["resets"]].tolist() for run in timeline._head["runs"]] == [[1], [1]]


def test_a_short_run_of_few_envs_takes_little_room():
    with SerialEnv(4, CartPoleEnv) as env, env.tracing() as trace:
        env.rollout(40, break_when_any_done=False)
    state = BatchedEnvTimeline(trace).get_state(["_head", "_turns"])
    assert sum(map(len, state.values())) < 4_500


def test_the_legend_tells_what_low_bars_are_where_there_are_some():
    with SerialEnv(2, CartPoleEnv) as env, env.tracing() as trace:
        env.rollout(90, break_when_any_done=False)
    assert ("c0", CROWDED) in BatchedEnvTimeline(trace)._scene.legend()
