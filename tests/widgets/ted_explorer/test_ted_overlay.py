"""A TED checked against specs; the library does the checking."""

from __future__ import annotations

import pytest
import torch
from rlnb_widgets import TEDExplorer
from rlnb_widgets.ted_explorer import ted_model
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs.libs.gym import GymEnv

FLAG = {"n": 2, "dtype": torch.bool}


def full_specs(batch: tuple[int, ...] = ()) -> Composite:
    shape = (*batch, 1)
    return Composite(
        input_spec=Composite(
            full_action_spec=Composite(action=Categorical(3, shape=batch), shape=batch),
            full_state_spec=Composite(shape=batch),
            shape=batch,
        ),
        output_spec=Composite(
            full_observation_spec=Composite(observation=Bounded(-10, 2000, shape=(*batch, 2)), shape=batch),
            full_reward_spec=Composite(reward=Unbounded(shape=shape), shape=batch),
            full_done_spec=Composite(
                done=Categorical(shape=shape, **FLAG),
                terminated=Categorical(shape=shape, **FLAG),
                truncated=Categorical(shape=shape, **FLAG),
                shape=batch,
            ),
            shape=batch,
        ),
        shape=batch,
    )


class Env:
    """What an environment looks like from outside."""

    def __init__(self, specs):
        self.specs = specs


def problems(td, spec):
    return {row.path: [p.text() for p in row.problems] for row in ted_model(td, spec).rows if row.problems}


@pytest.mark.parametrize("wrap", [lambda specs: specs, Env], ids=["specs", "env"])
@pytest.mark.parametrize(("batch", "spec_batch"), [((), ()), ((4,), ()), ((4,), (4,)), ((2, 3), (2, 3))])
def test_a_ted_that_fits(ted, wrap, batch, spec_batch):
    model = ted_model(ted(5, batch, {2: "truncated"}), wrap(full_specs(spec_batch)))
    assert problems(ted(5, batch, {2: "truncated"}), wrap(full_specs(spec_batch))) == {}
    assert model.checked and model.notes == ()


def test_missing_extra_shape_dtype_and_domain(ted):
    td = ted()
    td["foo"] = torch.zeros(6)
    td["action"][4] = 7
    td["next", "observation"][3, 1] = 5000
    td["next", "reward"] = td["next", "reward"].double()
    td["next", "done"] = torch.zeros(6, 2, dtype=torch.bool)
    del td["terminated"]
    assert problems(td, full_specs()) == {
        ("observation",): ["next: outside its domain at [3, 1]: expected [-10, 2000], got 5000"],
        ("action",): ["root: outside its domain at [4]: expected {0, 1, 2}, got 7"],
        ("done",): ["next: shape: expected [6, 1], got [6, 2]"],
        ("foo",): ["root: in the data and not in the spec"],
        ("terminated",): [
            "root: in the spec and not in the data: expected a tensor of shape [6, 1] and dtype torch.bool"
        ],
        ("reward",): ["next: dtype: expected torch.float32, got torch.float64"],
    }


def test_an_entry_missing_on_both_sides_has_a_row(ted):
    spec = Composite(agents=Composite(x=Unbounded(shape=(2,))), observation=Unbounded(shape=(2,)))
    row = ted_model(ted(), spec).row("agents")
    assert [p.side for p in row.problems] == ["root", "next"] and row.root is None and row.next is None


def test_an_observation_spec_says_nothing_of_action_reward_and_done(ted):
    td = ted()
    td["foo"] = torch.zeros(6)
    spec = Composite(observation=Unbounded(shape=(2,)))
    assert problems(td, spec) == {("foo",): ["root: in the data and not in the spec"]}


def test_a_spec_with_next_is_taken_at_its_word(ted):
    spec = Composite(
        observation=Unbounded(shape=(2,)), next=Composite(observation=Bounded(0, 5, shape=(2,)), reward=Unbounded((1,)))
    )
    found = problems(ted(), spec)
    assert found["observation",] == ["next: outside its domain at [2, 0]: expected [0, 5], got 6"]
    assert found["action",] == ["root: in the data and not in the spec"]


def test_a_tensordict_without_next_is_held_against_the_root_only():
    td = TensorDict({"observation": torch.tensor([[0.0], [9.0]])}, [2])
    assert problems(td, Composite(observation=Bounded(0, 1, shape=(1,)))) == {
        ("observation",): ["root: outside its domain at [1, 0]: expected [0, 1], got 9"]
    }


@pytest.mark.parametrize("spec", [Unbounded(shape=(2,)), "observation", 3])
def test_what_is_no_composite_is_refused_with_the_remedy(ted, spec):
    with pytest.raises(TypeError) as caught:
        ted_model(ted(), spec)
    assert str(caught.value) == (
        "spec must be a Composite (such as env.observation_spec or env.specs) or an environment, got "
        f"{type(spec).__name__}. Give a single spec a key: Composite(observation=spec)."
    )


def test_a_side_that_cannot_be_checked_is_a_note_and_no_crash(ted, monkeypatch):
    def fail(*args, **keywords):
        raise RuntimeError("not today\nmore")

    monkeypatch.setattr("rlnb_widgets.ted_explorer.overlay.violations", fail)
    assert ted_model(ted(), full_specs()).notes == (
        "The root could not be held against the spec: RuntimeError: not today",
        "The next could not be held against the spec: RuntimeError: not today",
    )


def test_a_rollout_of_a_real_environment_fits_and_keeps_the_rule():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    explorer = TEDExplorer(env.rollout(60, break_when_any_done=False), env)
    assert all(row.problems == () and row.carry.holds is not False for row in explorer.model.rows)
    assert explorer.model.ends > 0 and repr(explorer).endswith("\nspec: every entry fits")


def test_the_keys_of_an_environment_are_exact(ted):
    env = Env(full_specs())
    env.action_keys, env.reward_keys = [("agents", "move")], ["gain"]
    td = ted()
    td["agents", "move"] = torch.zeros(6)
    td["next", "gain"] = torch.zeros(6, 1)
    model = TEDExplorer(td, env).model
    kinds = {row.path: row.carry.kind for row in model.rows if row.leaf}
    assert kinds["agents", "move"] == kinds["gain",] == "dropped"
    assert kinds["action",] == "kept" and kinds["reward",] == "carried"
