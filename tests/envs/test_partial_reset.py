"""Partial resets: the effect of a "_reset" mask at every level, and what it leaves unchanged."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import EnvBase, TicTacToeEnv
from rlnb.envs.partial_reset import merge_reset
from tests.pairwise import sampled

T, F = True, False


def flag(*values: bool) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(-1) if len(values) > 1 else torch.tensor(values)


def test_only_marked_rows_are_reset(counter):
    env = counter((3,))
    td = TensorDict({"observation": torch.tensor([[1.5], [2.5], [3.5]]), "_reset": flag(F, T, F)}, [3])
    out = env.reset(td)
    assert out["observation"].flatten().tolist() == [1.5, 0, 3.5]
    assert "_reset" not in out


def test_nobody_is_reset_when_no_row_is_marked(counter):
    env = counter((2,))
    td = TensorDict({"observation": torch.ones(2, 1), "_reset": flag(F, F)}, [2])
    assert env.reset(td)["observation"].flatten().tolist() == [1, 1]
    assert env.resets == 0 and "_reset" not in td


class Agents(EnvBase):
    """Zeros after a reset, with end signals for each of two agents, and for all."""

    def __init__(self, root_done: bool) -> None:
        super().__init__()
        bools = Categorical(2, shape=(2,), dtype=torch.bool)
        agents = ("agent0", "agent1")
        self.observation_spec = Composite({(a, "val"): Unbounded(shape=(2,)) for a in agents})
        self.action_spec = Categorical(2)
        levels = [(a, "done") for a in agents] + (["done"] if root_done else [])
        self.done_spec = Composite({level: bools.clone() for level in levels})

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({("agent0", "val"): torch.zeros(2), ("agent1", "val"): torch.zeros(2)})

    def _step(self, tensordict):
        raise AssertionError("not stepped here")

    def _set_seed(self, seed):
        pass


def agents_data(**root) -> TensorDict:
    return TensorDict(
        {
            ("agent0", "val"): torch.tensor([1.0, 1.0]),
            ("agent0", "_reset"): torch.tensor([F, T]),
            ("agent1", "val"): torch.tensor([2.0, 2.0]),
            ("agent1", "_reset"): torch.tensor([T, F]),
            **root,
        }
    )


def test_nested_resets():
    data = Agents(root_done=False).reset(agents_data())
    assert data["agent0", "val"].tolist() == [1, 0] and data["agent1", "val"].tolist() == [0, 2]
    assert not any("_reset" in key for key in data.keys(True, True))


def test_a_reset_at_the_root_overrides_those_below():
    data = Agents(root_done=True).reset(agents_data(_reset=torch.tensor([T, T])))
    assert data["agent0", "val"].tolist() == [0, 0] and data["agent1", "val"].tolist() == [0, 0]


def test_a_reset_without_a_done_beside_it_is_refused():
    text = (
        "The entry '_reset' has no 'done' beside it, so there is nothing to reset. "
        "This env can be reset at: [('agent0', '_reset'), ('agent1', '_reset')]."
    )
    data = agents_data(_reset=torch.tensor([T, T]))
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Agents(root_done=False).reset(data)
    assert data["agent0", "val"].tolist() == [1, 1]


def test_a_mask_of_the_wrong_shape_is_refused(counter):
    env = counter((2,))
    td = TensorDict({"observation": torch.ones(2, 1), "_reset": torch.tensor([T, F])}, [2])
    text = (
        "The mask '_reset' must have the shape and dtype of 'done', (2, 1) and torch.bool, and has (2,) and torch.bool."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.reset(td)


def test_maybe_reset_touches_only_what_is_done(counter):
    env = counter((2,))
    td = env.reset()
    td["observation"] = torch.tensor([[5.0], [6.0]])
    td["done"] = flag(T, F)
    out = env.maybe_reset(td)
    assert out["observation"].flatten().tolist() == [0, 6] and not out["done"].any()
    assert "_reset" not in td and td["done"].any()
    assert env.maybe_reset(out) is out


@pytest.mark.parametrize("batch", [(2,), (2, 2)])
def test_non_tensor_data_is_reset_row_by_row(counter, batch):
    def reset(env):
        notes = (
            NonTensorStack(*["fresh"] * 2)
            if len(batch) == 1
            else NonTensorStack(*[NonTensorStack("fresh", "fresh")] * 2)
        )
        return TensorDict({"observation": torch.zeros(*batch, 1), "note": notes}, batch)

    env = counter(batch, reset=reset)
    td = env.reset()
    td["note"] = NonTensorStack("a", "b") if len(batch) == 1 else NonTensorStack(*[NonTensorStack("a", "b")] * 2)
    td["_reset"] = torch.tensor([T, F]).expand(batch).unsqueeze(-1).clone()
    expected = ["fresh", "b"]
    assert env.reset(td)["note"] == (expected if len(batch) == 1 else [expected, expected])


DONE_SHAPES = [((3,), (3,)), ((3,), (3, 1)), ((3,), (3, 2)), ((3,), (3, 3)), ((3,), (3, 4, 4, 3)), ((), ()), ((), (5,))]


@pytest.mark.parametrize(("batch", "shape"), DONE_SHAPES)
@pytest.mark.parametrize("signals", [1, 3])
def test_partial_resets_keep_shapes_whatever_the_shape_of_done(counter, batch, shape, signals):
    env = counter(batch, reset=lambda env: TensorDict({"observation": torch.zeros(shape)}, batch))
    env.observation_spec = Composite(observation=Unbounded(shape=shape), shape=batch)
    env.done_spec = Categorical(2, shape=(*batch, signals), dtype=torch.bool)
    td = env.reset()
    td["observation"] = torch.ones(shape)
    mask = torch.zeros(*batch, signals, dtype=torch.bool)
    mask[..., 0] = torch.tensor([T, F, T]) if batch else T
    td["_reset"] = mask
    out = env.reset(td)["observation"]
    assert out.shape == shape
    if batch and shape != (3, 3):
        assert [bool(row.any()) for row in out] == [F, T, F]
    if not batch:
        assert not out.any()


@pytest.mark.parametrize(
    ("dtype", "shape", "batch", "own"),
    sampled(
        [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool],
        [(1,), (3,), (40,), (4, 5), (2, 3, 4)],
        [(6,), (2, 3)],
        [(1,), (3,), ()],
    ),
)
def test_rows_are_new_or_what_they_were_to_the_bit(batch, shape, dtype, own):
    """Whatever the width of a row, and however many end signals an env has."""
    if own == (3,):
        shape = (3, *shape)
    old, new = [torch.randint(0, 2**62, (*batch, *shape)).view(torch.float64).to(dtype) for _ in range(2)]
    if dtype.is_floating_point:
        old.view(-1)[::3], old.view(-1)[1::3] = float("nan"), -0.0
    mask = torch.rand((*batch, *own)) < 0.4
    merged = merge_reset(TensorDict({"x": old}, batch), TensorDict({"x": new}, batch), {(): mask}, len(batch))["x"]
    chosen = mask.reshape((*mask.shape, *[1] * (old.ndim - mask.ndim))).expand(old.shape)
    bits = {1: torch.uint8, 4: torch.int32, 8: torch.int64}[old.element_size()]
    assert torch.equal(merged[chosen].view(bits), new[chosen].view(bits))
    assert torch.equal(merged[~chosen].view(bits), old[~chosen].view(bits))
    assert merged.dtype is dtype


@pytest.mark.parametrize("width", [3, 40])
def test_gradients_go_through_a_partial_reset(width):
    old, new = torch.rand(4, width, requires_grad=True), torch.rand(4, width, requires_grad=True)
    mask = flag(T, F, F, T)
    merge_reset(TensorDict({"x": old}, 4), TensorDict({"x": new}, 4), {(): mask}, 1)["x"].sum().backward()
    assert new.grad[:, 0].tolist() == [1, 0, 0, 1] and old.grad[:, -1].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("inference", [False, True])
def test_an_end_signal_that_is_written_to_is_looked_at_again(counter, inference):
    """A step does not look for the end where nothing has changed since the reset found none."""
    with torch.inference_mode(inference):
        env = counter((2,))
        td = env.rand_action(env.reset())
        env.step(td)
        td = env.rand_action(env.maybe_reset(env._step_mdp(td)))
        td["done"].fill_(True)
        with pytest.raises(RuntimeError, match="reset"):
            env.step(td)
        td["done"].fill_(False)
        env.step(td)


def test_the_shape_of_the_end_signals_may_change_from_step_to_step():
    env = TicTacToeEnv()
    for games in (3, 1, 5, 3):
        for ended in (False, True):
            _, data = env.step_and_maybe_reset(env.rand_action(env.reset(TensorDict(batch_size=[games]))))
            data["done"][-1] = ended
            after = env.maybe_reset(data)
            played = (after["board"] >= 0).flatten(1).any(-1)
            assert played.tolist() == [True] * (games - 1) + [not ended]
