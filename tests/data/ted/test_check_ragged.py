"""check_ted and lazy stacks: varying sizes are valid, and findings have the index of their step."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import NonTensorData, TensorDict, lazy_stack

from rlnb.data import check_ted
from rlnb.data.ted.ragged import RaggedColumn, gaps_of, padded, ragged_column, row_kind, values_of
from rlnb.envs import ParallelEnv, SerialEnv
from tests.envs.dynamic import EnvWithDynamicSpec

ENDS = ("done", "terminated", "truncated")


def step(root, after, done=False, **more):
    """One step."""
    flag = torch.tensor([done])
    ends = {"done": flag, "terminated": flag.clone(), "truncated": torch.zeros_like(flag)}
    none = {name: torch.zeros_like(flag) for name in ENDS}
    following = {"observation": after, "reward": torch.ones(1), **ends, **more}
    return TensorDict({"observation": root, "action": torch.zeros(2), **none, **more, "next": following})


def walk(sizes, ends=()):
    """Steps through observations of these sizes; at time t they are full of t."""
    seen = [torch.full((size, 2), float(t)) for t, size in enumerate(sizes)]
    pairs = pairwise(seen)
    steps = [step(root, after.clone(), t in ends) for t, (root, after) in enumerate(pairs)]
    return lazy_stack(steps).refine_names("time")


def found(data):
    return [(f.rule, f.entry, f.index, f.found) for f in check_ted(data).findings]


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_a_rollout_of_an_env_with_a_dynamic_spec(steps):
    data = EnvWithDynamicSpec().rollout(steps, return_contiguous=False, break_when_any_done=False)
    report = check_ted(data)
    assert report.ok and str(report) == f"Well-formed TED data of batch size [{steps}]: 12 rules kept."


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_rows_of_different_sizes(batch):
    with batch(2, [lambda: EnvWithDynamicSpec(5, 1), lambda: EnvWithDynamicSpec(3, 4)]) as env:
        data = env.rollout(7, return_contiguous=False, break_when_any_done=False)
    assert check_ted(data).ok
    # Row 1 ends after steps 2 and 5.
    row = data[1][4]
    row["next", "observation"] = torch.full_like(row["next", "observation"], 9)
    assert found(data) == [
        (
            "adjacency",
            "('next', 'observation')",
            (1, 4),
            "[9, 9, 9, 9, ...], and the root at (1, 5) is [2, 2, 2, 2, ...]",
        )
    ]


@given(st.lists(st.integers(0, 3), min_size=3, max_size=9), st.data())
def test_any_sizes_are_well_formed_and_any_break_is_found(sizes, data):
    ends = data.draw(st.sets(st.integers(0, len(sizes) - 2)))
    stack = walk(sizes, ends)
    assert check_ted(stack).ok
    at = data.draw(st.integers(0, len(sizes) - 2))
    row = stack.tensordicts[at]
    grown = torch.cat([row["next", "observation"], torch.zeros(1, 2)])
    row["next", "observation"] = grown
    inside = at not in ends and at < len(sizes) - 2
    expected = [("adjacency", "('next', 'observation')", (at,))] if inside else []
    assert [places[:3] for places in found(stack)] == expected


def test_a_size_that_does_not_fit():
    data = walk([1, 2, 3, 1])
    data.tensordicts[1]["next", "observation"] = torch.zeros(4, 2)
    assert found(data) == [
        ("adjacency", "('next', 'observation')", (1,), "the shape [4, 2], and the root at 2 has [3, 2]")
    ]


def test_one_size_on_one_side_only():
    data = walk([1, 1, 1, 2], ends=(2,))
    assert data["observation"].shape == (3, 1, 2)
    assert check_ted(data).ok
    data.tensordicts[0]["next", "observation"] += 1
    assert [places[:3] for places in found(data)] == [("adjacency", "('next', 'observation')", (0,))]


def test_sizes_that_never_fit():
    steps = [step(torch.zeros(2), torch.zeros(3)) for _ in range(3)]
    text = "the shape [3], and the root at 1 has [2] (and 1 more)"
    assert found(lazy_stack(steps)) == [("adjacency", "('next', 'observation')", (0,), text)]
    # A contiguous one says that its sizes do not vary.
    assert [places[0] for places in found(lazy_stack(steps).contiguous())] == ["alike"]


def test_nan_agrees_with_nan_in_rows_too():
    data = walk([1, 2, 1])
    data.tensordicts[0]["next", "observation"].fill_(torch.nan)
    data.tensordicts[1]["observation"].fill_(torch.nan)
    assert check_ted(data).ok


def test_likely_causes_are_found_in_rows():
    steps = [step(torch.full((t + 1,), t), torch.full((t + 1,), t)) for t in range(4)]
    (finding,) = check_ted(lazy_stack(steps)).findings
    assert finding.cause == "'next' holds the observation before the step, not the one after it"
    mixed = walk([1, 2, 3, 4, 5, 6, 7, 8, 9])
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    (finding,) = check_ted(lazy_stack([mixed.tensordicts[t] for t in order])).findings
    assert finding.cause.startswith("'next' is the root 2 steps later: the steps of 2 episodes alternate")


def test_only_sizes_may_vary():
    data = walk([1, 2, 3])
    data.tensordicts[1]["next", "observation"] = torch.zeros(3, 1, 2)
    text = "the shape [3, 1, 2] and dtype torch.float32, and the shape [1, 2] and dtype torch.float32 at the root of"
    assert found(data) == [("alike", "('next', 'observation')", (1,), f"{text} the first step")]
    other = walk([1, 2, 3])
    other.tensordicts[1]["observation"] = other.tensordicts[1]["observation"].double()
    assert found(other)[0][:3] == ("alike", "'observation'", (1,))


def test_keys_that_come_and_go():
    data = walk([1, 1, 1, 1])
    data.tensordicts[1]["next", "more"] = torch.zeros(1)
    data.tensordicts[2].pop("action")
    assert found(data) == [
        ("alike", "'action'", (2,), "missing, and there at 0"),
        ("alike", "('next', 'more')", (0,), "missing (and 1 more), and there at 1"),
    ]
    finding = check_ted(data).findings[1]
    assert finding.cause == "the env returns it in some steps only, which no spec can describe"
    assert finding.fix == "return it in every step, or leave it out with data.exclude(('next', 'more'))"


def test_keys_that_come_and_go_in_a_batch():
    rows = [walk([1, 1, 1]), walk([1, 1, 1])]
    rows[1].tensordicts[0]["more"] = torch.zeros(1)
    assert [places[:3] for places in found(lazy_stack(rows))] == [("alike", "'more'", (0, 0))]


def agents(count, ended=None):
    flags = torch.zeros(count, 1, dtype=torch.bool)
    done = flags.clone()
    if ended is not None:
        done[ended] = True
    ends = {"done": done, "terminated": done.clone(), "truncated": flags.clone()}
    return TensorDict({"position": torch.full((count, 2), float(count)), **ends}, [count])


def crowd(counts, ended=(None,) * 9):
    """Agents that come and go: their number varies."""
    steps = []
    for t, (here, after) in enumerate(pairwise(counts)):
        data = step(torch.full((1,), float(t)), torch.full((1,), t + 1.0))
        data["agents"], data["next", "agents"] = agents(here), agents(after, ended[t])
        steps.append(data)
    return lazy_stack(steps)


def test_a_number_of_agents_that_varies():
    assert check_ted(crowd([2, 3, 1, 2])).ok
    data = crowd([2, 3, 1, 2])
    data.tensordicts[1]["agents", "position"][2] = 7
    assert [places[:3] for places in found(data)] == [("adjacency", "('next', 'agents', 'position')", (0,))]


def test_ends_of_a_varying_number_of_agents():
    data = crowd([2, 3, 1, 2], ended=(None, 0, None))
    assert check_ted(data).ok
    data.tensordicts[1]["next", "agents", "terminated"].fill_(False)
    assert [places[:3] for places in found(data)] == [("union", "('next', 'agents', 'done')", (1,))]


def test_agents_of_different_kinds():
    def team(t):
        kinds = [torch.full((2,), float(t)), torch.full((3, 2), float(t))]
        return lazy_stack([TensorDict({"observation": kind}) for kind in kinds])

    def play():
        steps = [step(torch.tensor([float(t)]), torch.tensor([t + 1.0])) for t in range(4)]
        for t, data in enumerate(steps):
            data["agents"], data["next", "agents"] = team(t), team(t + 1)
        return steps

    assert check_ted(lazy_stack(play())).ok
    steps = play()
    steps[2]["agents"].tensordicts[1]["observation"][0, 0] = 9
    assert found(lazy_stack(steps)) == [
        (
            "adjacency",
            "('next', 'agents', 'observation')",
            (1,),
            "[[2, 2], [2, 2, 2, 2, ...]], and the root at 2 is [[2, 2], [9, 2, 2, 2, ...]]",
        )
    ]


def test_a_tensor_here_and_text_there():
    data = walk([1, 1, 1])
    data.tensordicts[0]["note"], data.tensordicts[1]["note"] = torch.zeros(1), NonTensorData("one")
    (finding,) = check_ted(data).findings
    assert finding.rule == "alike"
    assert finding.fix == "give it as a tensor everywhere, or leave it out with data.exclude('note')"


def test_a_stack_without_steps():
    assert check_ted(walk([1, 2, 3])[:0]).ok


# What the rules stand on ----------------------------------------------------------------------------------------------


def test_values_of_any_nesting_of_stacks():
    grid = [[TensorDict({"a": torch.full((t + row + 1,), 10 * row + t)}) for t in range(3)] for row in range(2)]
    by_row = lazy_stack([lazy_stack(row) for row in grid])
    by_time = lazy_stack([lazy_stack([row[t] for row in grid]) for t in range(3)], 1)
    for stack in (by_row, by_time):
        values = values_of(stack, "a", 2)
        assert values.shape == (2, 3)
        assert [[(len(v), int(v[0])) for v in row] for row in values.tolist()] == [
            [(1, 0), (2, 1), (3, 2)],
            [(2, 10), (3, 11), (4, 12)],
        ]
        assert [int(v[0]) for v in ragged_column(stack, "a", 2)] == [0, 1, 2, 10, 11, 12]


def test_entries_without_elements():
    rows = [TensorDict({"a": torch.zeros(2, n, 0)}, [2]) for n in (0, 3)]
    assert [value.shape for value in ragged_column(lazy_stack(rows), "a", 2)] == [(0, 0)] * 2 + [(3, 0)] * 2
    done = torch.zeros(2, 3, 1, dtype=torch.bool)
    ends = {"done": done, "terminated": done, "reward": torch.zeros(2, 3, 1)}
    data = TensorDict(
        {
            "observation": torch.zeros(2, 3, 0),
            "action": torch.zeros(2, 3, 0),
            "next": {"observation": torch.zeros(2, 3, 0), **ends},
        },
        [2, 3],
    )
    assert check_ted(data).ok


def test_values_where_there_are_none():
    stack = lazy_stack([TensorDict({"a": torch.zeros(1)}), TensorDict({"b": torch.zeros(2)})])
    assert [value is None for value in values_of(stack, "a", 1)] == [False, True]
    assert {name: flags.tolist() for name, flags in gaps_of(stack, 1).items()} == {
        ("a",): [True, False],
        ("b",): [False, True],
    }


def test_padding():
    rows = RaggedColumn([torch.ones(1, 2), torch.ones(3, 1)])
    full = padded(rows)
    assert full.shape == (2, 3, 2) and full.sum() == 5
    uneven = RaggedColumn([torch.ones(1), torch.ones(1, 1)])
    assert padded(uneven) is uneven
    assert row_kind([torch.ones(1), None]) == ((1, torch.float32), None)
