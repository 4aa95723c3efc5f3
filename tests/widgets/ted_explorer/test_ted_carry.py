"""Which entries step_mdp carries over, and whether the data agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets.ted_explorer import Boundary, Carry, ted_model
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack

from rlnb.data.ted.step_mdp import step_mdp

# conftest's builder, for the laws (hypothesis does not take fixtures of a function's scope)
from tests.widgets.ted_explorer.conftest import make_ted


def carries(td, **keywords):
    return {row.path: row.carry for row in ted_model(td, **keywords).rows if row.leaf}


def test_each_entry_is_carried_dropped_or_kept(ted):
    td = ted()
    td["hidden"] = torch.zeros(6, 3)
    assert carries(td) == {
        ("observation",): Carry("carried", True),
        ("action",): Carry("dropped"),
        ("terminated",): Carry("carried", True),
        ("truncated",): Carry("carried", True),
        ("done",): Carry("carried", True),
        ("hidden",): Carry("kept"),
        ("reward",): Carry("dropped"),
    }


def test_the_kinds_are_what_step_mdp_does(ted):
    td = ted()
    td["hidden"] = torch.full((6, 3), 5.0)
    td["next", "extra"] = torch.full((6, 1), 7.0)
    td["agents"] = TensorDict({"x": torch.zeros(6, 2)}, [6])
    td["next", "agents"] = TensorDict({"x": torch.ones(6, 2)}, [6])
    after = step_mdp(td)
    for path, carry in carries(td).items():
        moved = after.get(path, None)
        if carry.kind == "carried":
            assert torch.equal(moved, td.get(("next", *path))), path
        elif carry.kind == "kept":
            assert torch.equal(moved, td.get(path)), path
        else:
            assert carry.kind == "dropped" and moved is None, path


@given(
    st.integers(2, 8), st.sampled_from([(), (3,), (2, 2)]), st.dictionaries(st.integers(0, 7), st.booleans()), st.data()
)
def test_the_first_break_inside_an_episode_is_found_and_one_at_an_end_is_not(steps, batch, kinds, data):
    ends = {t: "terminated" if kind else "truncated" for t, kind in kinds.items() if t < steps}
    td = make_ted(steps, batch, ends)
    assert ted_model(td).row("observation").carry == Carry("carried", True)
    index = tuple(data.draw(st.integers(0, size - 1)) for size in (*batch, steps, 2))
    was = td["observation"][(*index[:-2], min(index[-2] + 1, steps - 1), index[-1])].item()
    td["next", "observation"][index] = -1.0
    t = index[-2]
    if t in ends or t == steps - 1:
        expected = Carry("carried", True)
    else:
        expected = Carry("carried", False, index, "-1", f"{was:g}")
    assert ted_model(td).row("observation").carry == expected


def test_the_first_of_several_breaks_is_named_in_the_order_of_the_memory(ted):
    td = ted(6, (3,))
    td["next", "observation"][2, 0, 0] = -1
    td["next", "observation"][1, 4, 1] = -1
    assert ted_model(td).row("observation").carry.index == (1, 4, 1)


def test_a_long_leaf_is_compared_in_parts(ted, monkeypatch):
    monkeypatch.setattr("rlnb.data.ted.timeline._CHUNK_BYTES", 20)
    td = ted(9)
    assert ted_model(td).row("observation").carry.holds is True
    td["next", "observation"][6, 1] = -1
    assert ted_model(td).row("observation").carry.index == (6, 1)


def test_nan_equals_nan_and_differs_from_a_number(ted):
    td = ted()
    td["next", "observation"][1, 0] = float("nan")
    assert ted_model(td).row("observation").carry.index == (1, 0)
    td["observation"][2, 0] = float("nan")
    assert ted_model(td).row("observation").carry.holds is True


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float64, torch.complex64, torch.float8_e4m3fn]
)
def test_every_dtype_can_be_compared(dtype):
    values = torch.tensor([0, 1, 0, 1]).to(dtype)
    td = TensorDict({"x": values[:3], "next": {"x": values[1:]}}, [3])
    assert ted_model(td).row("x").carry.holds is True
    broken = TensorDict({"x": values[:3], "next": {"x": torch.tensor([1, 1, 1]).to(dtype)}}, [3])
    assert ted_model(broken).row("x").carry.index == (1,)


def test_differing_shapes_and_dtypes_break_the_rule_without_an_index(ted):
    td = ted()
    td["next", "observation"] = td["next", "observation"].double()
    assert ted_model(td).row("observation").carry.why == 'the root has float32, "next" float64'
    td["next", "observation"] = torch.zeros(6, 3)
    carry = ted_model(td).row("observation").carry
    assert (carry.holds, carry.index, carry.why) == (False, (), 'the root has shape [6, 2], "next" [6, 3]')


def test_a_change_of_trajectory_number_is_a_boundary(ted):
    td = ted()
    td["observation"][3:] += 100
    td["next", "observation"][3:] += 100
    assert ted_model(td).row("observation").carry.index == (2, 0)
    td["collector", "traj_ids"] = torch.tensor([0, 0, 0, 1, 1, 1])
    assert ted_model(td).row("observation").carry.holds is True


def test_padding_is_not_compared(ted):
    td = ted()
    td["observation"][4:] = 0
    td["next", "observation"][4:] = 0
    assert ted_model(td).row("observation").carry.holds is False
    td["collector", "mask"] = torch.tensor([True] * 4 + [False] * 2)
    assert ted_model(td).row("observation").carry.holds is True


def test_nested_reward_and_action_are_dropped_in_any_group_unless_exact_paths_are_given(ted):
    td = ted()
    td["agents"] = TensorDict({"action": torch.zeros(6, 2)}, [6])
    td["next", "agents"] = TensorDict({"reward": torch.zeros(6, 2)}, [6])
    assert carries(td)["agents", "reward"].kind == carries(td)["agents", "action"].kind == "dropped"
    exact = carries(td, action_keys=[("action",)], reward_keys=[("reward",)])
    assert (exact["agents", "reward"].kind, exact["agents", "action"].kind) == ("carried", "kept")
    assert (exact["reward",].kind, exact["action",].kind) == ("dropped", "dropped")


def test_objects_are_compared_by_equality(ted):
    td = ted(3)
    td["text"] = NonTensorStack("a", "b", "c")
    td["next", "text"] = NonTensorStack("b", "c", "d")
    assert ted_model(td).row("text").carry == Carry("carried", True)
    td["next", "text"] = NonTensorStack("b", "x", "d")
    assert ted_model(td).row("text").carry == Carry("carried", False, (1,), "'x'", "'c'")


def test_objects_without_equality_are_not_judged(ted):
    td = ted(3)
    td["thing"] = NonTensorData(object(), batch_size=[3])
    td["next", "thing"] = NonTensorData(object(), batch_size=[3])
    carry = ted_model(td).row("thing").carry
    assert (carry.holds, carry.why) == (None, "the objects have no equality of their own")


def test_a_leaf_on_one_side_and_a_node_on_the_other_is_a_break(ted):
    td = ted()
    td["x"] = torch.zeros(6)
    td["next", "x"] = TensorDict({"y": torch.zeros(6)}, [6])
    model = ted_model(td)
    assert model.row("x").leaf is False
    assert model.row("x").carry == Carry("carried", False, why='the root holds a leaf, "next" a node')
    assert model.row("x", "y").carry == Carry("carried", why="the root has no such entry to compare with")


@pytest.mark.parametrize(("steps", "why"), [(1, "fewer than two steps"), (0, "fewer than two steps")])
def test_too_few_steps_say_so(ted, steps, why):
    assert ted_model(ted(steps)).row("observation").carry == Carry("carried", why=why)


def test_one_step_without_a_time_dimension(ted):
    model = ted_model(ted(2)[0])
    assert model.steps is None and model.batch == ()
    assert model.row("observation").carry.why == "no time dimension, so no next row to compare with"
    assert model.notes[0].startswith("The batch size is [], so this is a single step")


def test_a_lazy_stack_is_compared_like_a_dense_one(ted):
    rows = [ted(4), ted(4)]
    rows[1]["next", "observation"][2, 0] = -1
    assert ted_model(lazy_stack(rows)).row("observation").carry.index == (1, 2, 0)


def grows(done_at: int = -1) -> list[TensorDict]:
    """Steps whose observation gets longer by one each time."""
    whole = torch.arange(10.0)
    steps = []
    for t in range(4):
        following = {"x": whole[: t + 2].clone(), "done": torch.tensor([t == done_at])}
        steps.append(TensorDict({"x": whole[: t + 1].clone(), "next": following}))
    return steps


def test_pieces_of_differing_shapes_are_compared_along_time():
    steps = grows()
    assert ted_model(lazy_stack(steps)).row("x").carry == Carry("carried", True)
    steps[1]["next", "x"][2] = -1
    assert ted_model(lazy_stack(steps)).row("x").carry == Carry("carried", False, (1, 2), "-1", "2")
    steps = grows()
    steps[2]["next", "x"] = torch.zeros(7)
    why = 'the root at step 3 has shape [4], "next" at step 2 [7]'
    assert ted_model(lazy_stack(steps)).row("x").carry == Carry("carried", False, why=why)
    steps = grows(done_at=2)
    steps[2]["next", "x"] = torch.zeros(7)
    assert ted_model(lazy_stack(steps)).row("x").carry.holds is True


def test_pieces_of_differing_shapes_are_compared_along_the_batch():
    def envs():
        x = [torch.arange(5.0 * n).reshape(5, n) for n in (1, 2)]
        return [TensorDict({"x": a[:4], "next": {"x": a[1:].clone(), "reward": torch.ones(4, 1)}}, [4]) for a in x]

    assert ted_model(lazy_stack(envs())).row("x").carry == Carry("carried", True)
    broken = envs()
    broken[1]["next", "x"][2, 1] = -1
    assert ted_model(lazy_stack(broken)).row("x").carry == Carry("carried", False, (1, 2, 1), "-1", "7")


def varying(batch_by_time=False):
    """Two envs, four steps, a size of its own for each: 10 * env + t, so many times."""

    def step(env, t, done=False):
        root, after = (torch.full((env + k + 1,), 10.0 * env + k) for k in (t, t + 1))
        return TensorDict({"x": root, "next": {"x": after, "done": torch.tensor([done])}})

    if batch_by_time:
        return lazy_stack([lazy_stack([step(env, t) for env in range(2)]) for t in range(4)], 1)
    return lazy_stack([lazy_stack([step(env, t) for t in range(4)]) for env in range(2)])


@pytest.mark.parametrize("batch_by_time", [True, False])
def test_stacks_of_stacks_are_compared(batch_by_time):
    td = varying(batch_by_time)
    row = ted_model(td).row("x")
    assert (row.root.shape, row.carry) == ("[B=2 | T=4 | -1]", Carry("carried", True))
    assert row.root.message == "sizes vary: [1], [2], [3], [4], ..."
    td[1][2]["next", "x"] = torch.full((5,), -1.0)
    assert ted_model(td).row("x").carry == Carry("carried", False, (1, 2, 0), "-1", "13")


def test_sizes_that_vary_on_one_side_only():
    def step(root, after):
        return TensorDict({"x": torch.zeros(root), "next": {"x": torch.zeros(after), "done": torch.tensor([False])}})

    assert ted_model(lazy_stack([step(1, 1), step(1, 2)])).row("x").carry == Carry("carried", True)
    why = 'the root at step 1 has shape [1], "next" at step 0 [2]'
    assert ted_model(lazy_stack([step(1, 2), step(1, 2)])).row("x").carry == Carry("carried", False, why=why)


def test_what_comes_and_goes_is_named():
    td = varying()
    del td[0][2]["x"]
    assert ted_model(td).row("x").carry == Carry("carried", False, why="the root at step 2 lacks the entry")


def test_the_ends_of_episodes_are_listed_with_their_cause(ted):
    td = ted(6, (2,), {1: "terminated", 3: "truncated"})
    td["next", "terminated"][0, 3] = True
    del td["next", "truncated"]
    td["next", "done"][1, 5] = True
    model = ted_model(td)
    assert model.ends == 5
    assert model.boundaries == (
        Boundary(0, 1, "terminated"),
        Boundary(0, 3, "terminated"),
        Boundary(1, 1, "terminated"),
        Boundary(1, 3, "done"),
        Boundary(1, 5, "done"),
    )


def test_terminated_and_truncated_at_once_is_both(ted):
    td = ted(3, (), {1: "terminated"})
    td["next", "truncated"][1] = True
    assert ted_model(td).boundaries == (Boundary(0, 1, "both"),)


def test_without_any_done_flag_all_is_one_episode(ted):
    td = ted(4)
    for key in ("done", "terminated", "truncated"):
        del td["next", key]
    model = ted_model(td)
    assert model.boundaries == () and model.row("observation").carry.holds is True
    assert model.notes == ('There is no done flag in "next", so all steps are taken for one episode.',)
