"""check_ted: each rule of TED, data that violates it, and the text of the finding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from tensordict import NonTensorStack, TensorDict

from rlnb.collectors import Collector
from rlnb.data import MultiStep, check_ted
from rlnb.data.ted import TED_RULES
from rlnb.data.ted.trajectories import split_trajectories
from rlnb.envs import GymEnv
from tests.data.ted.generators import make_ted, teds


def well_formed(**changes) -> TensorDict:
    """Two episodes of three steps whose observations count up."""
    done = torch.tensor([0, 0, 1, 0, 0, 1]).bool().unsqueeze(-1)
    none = torch.zeros_like(done)
    data = TensorDict(
        {
            "observation": torch.tensor([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]),
            "action": torch.arange(6),
            "done": none,
            "terminated": none.clone(),
            "truncated": none.clone(),
            "collector": TensorDict({"traj_ids": torch.tensor([0, 0, 0, 1, 1, 1])}, [6]),
            "next": TensorDict(
                {
                    "observation": torch.tensor([[1.0], [2.0], [3.0], [11.0], [12.0], [13.0]]),
                    "reward": torch.ones(6, 1),
                    "done": done,
                    "terminated": done.clone(),
                    "truncated": none.clone(),
                },
                [6],
            ),
        },
        [6],
        names=["time"],
    )
    return data


def broken(data):
    return check_ted(data).broken()


@given(teds(adjacent=True))
def test_what_an_env_makes_is_well_formed(data):
    report = check_ted(data)
    assert report.ok, str(report)
    head = f"Well-formed TED data of batch size {list(data.batch_size)}: 12 rules kept."
    assert str(report) == head or report.warnings
    assert str(report).startswith(head)


@pytest.mark.parametrize("key", ["action", ("next", "reward")])
def test_what_is_left_out_is_missed(key):
    (finding,) = check_ted(well_formed().exclude(key)).findings
    assert (finding.rule, finding.found, finding.index) == (key if key == "action" else "reward", "missing", None)
    # Under another name it is there.
    renamed = well_formed().rename_key_(key, "act" if key == "action" else ("next", "gain"))
    assert check_ted(renamed).ok


def test_likely_mistakes_are_warned_of():
    data = well_formed()
    assert check_ted(data).warnings == ()
    del data["collector"]  # with ids the rule of episodes says more
    data["count"] = torch.zeros(6)
    data["next", "count"] = torch.zeros(6)
    data["next", "reward"] = data["next", "reward"].float()
    data["next", "reward"][[1, 4]] = float("nan")
    data["next", "truncated"] = torch.zeros_like(data["next", "done"])
    data["next", "truncated"][[0]] = True
    data["next", "done"] = data["next", "truncated"] | data["next", "terminated"]
    report = check_ted(data)
    assert report.ok
    found = [(w.rule, w.entry, w.index, w.found) for w in report.warnings]
    assert found == [
        ("numbers", "('next', 'reward')", (1,), "[nan] (and 1 more)"),
        ("goes on", "('next', 'done')", (0,), "True, but the next step starts from the result of this one"),
    ]
    assert "Likely mistakes that break no rule:" in str(report)
    # A reset may lead anywhere: also to where all observations are.
    still = well_formed(observation=torch.zeros(6, 1))
    still["next", "observation"] = torch.zeros(6, 1)
    assert check_ted(still).warnings == ()


def test_rollouts_and_padded_batches_are_well_formed():
    rollout = GymEnv("CartPole-v1").rollout(60, break_when_any_done=False)
    assert check_ted(rollout).ok
    assert check_ted(split_trajectories(rollout)).ok
    assert check_ted(well_formed()).ok
    assert check_ted(split_trajectories(well_formed())).ok


def test_the_entries_of_a_rollout_and_of_a_batch():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)  # episodes end within the 60 steps
    rollout = env.rollout(60, break_when_any_done=False)
    batch = next(iter(Collector(env, frames_per_batch=60, total_frames=60)))
    for data in (rollout, batch.exclude("collector")):
        ends = {"done", "terminated", "truncated"}
        assert set(data.keys()) == {"action", "observation", "next", *ends}
        assert set(data["next"].keys()) == {"observation", "reward", *ends}
        assert data.batch_size == (60,) and data.names == ["time"]
        assert not any(data[name].any() for name in ends)
        inside = ~data["next", "done"][:-1, 0]
        assert 0 < inside.sum() < 59
        following = data["next", "observation"][:-1]
        assert torch.equal(following[inside], data["observation"][1:][inside])
        assert not torch.equal(following[~inside], data["observation"][1:][~inside])


def test_the_rules_can_be_shown():
    assert [rule.name for rule in TED_RULES] == [
        *("next", "time", "end signals", "union", "shapes", "reward", "action", "observation", "alike", "adjacency"),
        *("episodes", "root done"),
    ]
    assert all(rule.sentence.endswith(".") for rule in TED_RULES)


def change(**entries):
    def apply(data):
        for key, value in entries.items():
            path = tuple(key.split("__"))
            data.set(path if len(path) > 1 else key, value(data) if callable(value) else value)
        return data

    return apply


CASES = {
    "no next": (lambda d: d.exclude("next"), [("next", "'next'", None)]),
    "a single step": (lambda d: d[0], [("time", "", None)]),
    "time first": (
        lambda d: torch.stack([d, d], 1).refine_names("time", None),
        [("time", "", None)],
    ),
    "no end signal": (
        lambda d: d.exclude(("next", "done"), ("next", "terminated"), ("next", "truncated"), "collector"),
        [("end signals", "('next', 'done')", None), ("adjacency", "('next', 'observation')", (2,))],
    ),
    "done alone": (
        lambda d: d.exclude(("next", "terminated"), ("next", "truncated")),
        [("end signals", "('next', 'terminated')", None)],
    ),
    "no done": (lambda d: d.exclude(("next", "done")), [("end signals", "('next', 'done')", None)]),
    "done without terminated": (
        lambda d: change(next__terminated=torch.zeros(6, 1, dtype=torch.bool))(d),
        [("union", "('next', 'done')", (2,))],
    ),
    "terminated without done": (
        lambda d: change(next__done=torch.zeros(6, 1, dtype=torch.bool))(d),
        [("union", "('next', 'done')", (2,))],
    ),
    "reward without its dimension": (
        lambda d: change(next__reward=torch.ones(6))(d),
        [("shapes", "('next', 'reward')", None)],
    ),
    "done without its dimension": (
        lambda d: change(**{f"next__{n}": d["next", n].squeeze(-1) for n in ("done", "terminated", "truncated")})(d),
        [("shapes", f"('next', '{name}')", None) for name in ("done", "terminated", "truncated")],
    ),
    "done as a number": (
        lambda d: change(next__done=d["next", "done"].int())(d),
        [("shapes", "('next', 'done')", None)],
    ),
    "reward at the root": (lambda d: d.set("reward", d["next"].pop("reward")), [("reward", "'reward'", None)]),
    "action below next": (
        lambda d: change(next__action=d.pop("action"))(d),
        [("action", "('next', 'action')", None)],
    ),
    "no observation below next": (
        lambda d: d.exclude(("next", "observation")),
        [("observation", "('next', 'observation')", None)],
    ),
    "no observation at the root": (
        lambda d: d.exclude("observation"),
        [("observation", "'observation'", None)],
    ),
    "nothing observed": (
        lambda d: d.exclude("observation", ("next", "observation")),
        [("observation", "'next'", None)],
    ),
    "another shape": (
        lambda d: change(observation=torch.zeros(6, 2))(d),
        [("alike", "('next', 'observation')", None)],
    ),
    "another dtype": (
        lambda d: change(observation=d["observation"].double())(d),
        [("alike", "('next', 'observation')", None)],
    ),
    "a jump": (
        lambda d: change(observation=d["observation"] + torch.tensor([0, 0, 0, 0, 5.0, 0]).unsqueeze(-1))(d),
        [("adjacency", "('next', 'observation')", (3,))],
    ),
    "text that jumps": (
        lambda d: change(word=NonTensorStack(*"abcdef"), next__word=NonTensorStack(*"bxdefg"))(d),
        [("adjacency", "('next', 'word')", (1,))],
    ),
    "an id that changes without an end": (
        lambda d: change(collector__traj_ids=torch.tensor([0, 0, 0, 1, 2, 2]))(d),
        [("episodes", "('collector', 'traj_ids')", (3,))],
    ),
    "an id that goes on": (
        lambda d: change(collector__traj_ids=torch.zeros(6, dtype=torch.int64))(d),
        [("episodes", "('collector', 'traj_ids')", (2,))],
    ),
    "interleaved": (
        lambda d: d[torch.tensor([0, 3, 1, 4, 2, 5])],
        [("episodes", "('collector', 'traj_ids')", (0,)), ("episodes", "('collector', 'traj_ids')", (2,))],
    ),
    "done at the root": (
        lambda d: change(done=d["next", "done"].roll(1, 0))(d),
        [("root done", "'done'", (0,))],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rule(case):
    make, expected = CASES[case]
    report = check_ted(make(well_formed()))
    assert not report.ok
    assert [(finding.rule, finding.entry, finding.index) for finding in report.findings] == expected


def test_the_index_is_that_of_the_batch():
    data = torch.stack([well_formed(), well_formed()]).refine_names(None, "time")
    data["next", "observation"][1, 4] = 99
    (finding,) = check_ted(data).findings
    assert finding.index == (1, 4)
    assert finding.found == "[99], and the root at (1, 5) is [12]"


def test_nan_agrees_with_nan_and_zero_with_minus_zero():
    data = well_formed()
    data["observation"][1] = data["next", "observation"][0] = torch.nan
    data["observation"][2], data["next", "observation"][1] = 0.0, -0.0
    assert check_ted(data).ok


SHUFFLED = "the steps are not in chronological order (a sample of a buffer, a shuffled batch), or MultiStep was applied"
ALTERNATE = "'next' is the root 2 steps later: the steps of 2 episodes alternate, or MultiStep was applied"


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda d: d, "two rollouts were put together, or an episode was reset, and no end signal says so"),
        (
            lambda d: change(next__observation=d["observation"].clone())(d),
            "'next' holds the observation before the step, not the one after it",
        ),
        (lambda d: d[torch.tensor([4, 0, 2, 1, 5, 3])], SHUFFLED),
        (lambda d: d[torch.tensor([0, 3, 1, 4, 2, 5])], ALTERNATE),
    ],
)
def test_likely_causes(make, cause):
    data = make(well_formed().exclude("collector"))
    for name in ("done", "terminated", "truncated"):
        data["next", name] = torch.zeros(6, 1, dtype=torch.bool)
    (finding,) = check_ted(data).findings
    assert finding.cause == cause


def test_multi_step_data_is_told_apart():
    data = GymEnv("CartPole-v1").rollout(40)
    assert broken(MultiStep(0.9, 3)(data)) == ["adjacency"]


def test_the_report_word_for_word():
    data = well_formed().exclude("collector")
    data["next", "observation"][3] = 7
    data["reward"] = data["next"].pop("reward")
    data["next", "truncated"][0] = True
    report = check_ted(data)
    assert (
        str(report)
        == repr(report)
        == (
            "This is not well-formed TED data (batch size [6]): 3 problems.\n"
            "\n"
            "  rule       entry                    index  found\n"
            "  union      ('next', 'done')         0      [False], and terminated | truncated is [True]\n"
            "  reward     'reward'                        at the root\n"
            "  adjacency  ('next', 'observation')  3      [7], and the root at 4 is [11]\n"
            "\n"
            "What to do:\n"
            "  - union: done is True where terminated or truncated is. Likely cause: one of the signals was changed "
            "without the others. Fix: data['next', 'done'] = terminated | truncated, or set 'truncated' where an "
            "episode was cut.\n"
            "  - reward: Rewards are under 'next'. Likely cause: it was stored with the action that earned it. "
            "Fix: data[('next', 'reward')] = data.pop('reward').\n"
            "  - adjacency: Inside an episode, 'next' of a step is the root of the step after it. Likely cause: two "
            "rollouts were put together, or an episode was reset, and no end signal says so. "
            "Fix: set ('next', 'truncated') and ('next', 'done') to True at that step."
        )
    )
    with pytest.raises(ValueError) as caught:
        report.raise_if_broken()
    assert str(caught.value) == str(report)


def test_agents_that_end_one_by_one():
    data = make_ted([[5]])[0].exclude("collector")
    ended = torch.zeros(5, 3, 1, dtype=torch.bool)
    ended[2, 1] = True
    signals = {
        "done": ended,
        "terminated": ended,
        "truncated": torch.zeros_like(ended),
        "position": torch.rand(5, 3, 2),
    }
    data["next", "agents"] = TensorDict(signals, [5, 3])
    roots = torch.cat([torch.rand(1, 3, 2), data["next", "agents", "position"][:-1]])
    roots[3, 1] = 0.5
    data["agents"] = TensorDict({"position": roots}, [5, 3])
    assert check_ted(data).ok
    data["agents", "position"][2, 1] = 9
    assert [finding.index for finding in check_ted(data).findings] == [(1,)]


def test_check_ted_rejects_data_that_is_not_a_tensordict():
    with pytest.raises(TypeError) as caught:
        check_ted({"next": 1})
    assert str(caught.value) == "check_ted needs a TensorDict, got a dict. Fix: pass env.rollout(10)."


def test_a_nested_tensor_has_no_steps():
    jagged = torch.nested.nested_tensor([torch.zeros(t + 1) for t in range(6)], layout=torch.jagged)
    (finding,) = check_ted(well_formed().set("pixels", jagged)).findings
    assert finding.rule == "alike" and "'pixels'" in finding.fix


def test_empty_data_has_nothing_to_complain_of():
    assert check_ted(well_formed()[:0]).ok
