"""ActionMask: random actions are legal, in batches and over partial resets."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import (
    ActionMask,
    Compose,
    GridWorldEnv,
    RandomPolicy,
    RenameTransform,
    StepCounter,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.transforms.cases import Numbers, grid


def legal(found):
    return bool((found["action_mask"] & found["action"].bool()).any(-1).all())


@pytest.mark.parametrize("batch_size", [(), (4,), (2, 3)], ids=str)
def test_random_actions_are_legal(batch_size):
    env = TransformedEnv(
        grid(batch_size), Compose(ActionMask(action_key="action", mask_key="action_mask"), StepCounter())
    )
    env.set_seed(0)
    check_env_specs(env)
    assert legal(env.rollout(60, break_when_any_done=False))
    policy = RandomPolicy(env.action_spec)
    assert legal(env.rollout(60, policy, break_when_any_done=False))
    bare = grid(batch_size)
    bare.set_seed(0)
    assert not legal(bare.rollout(60, break_when_any_done=False)), "without the transform they are not"


def test_the_rows_that_are_not_reset_keep_their_masks():
    env = TransformedEnv(grid((3,)), ActionMask())
    env.set_seed(0)
    td = env.reset()
    td["action"] = torch.tensor([[0, 1, 0, 0]]).expand(3, 4).clone()  # down
    td = env._step_mdp(env.step(td))
    before = td["action_mask"].clone()
    fresh = env.base_env._reset

    def garbage(tensordict=None, **kwargs):
        data = fresh(tensordict, **kwargs)
        return data.set("action_mask", torch.where(tensordict["_reset"], data["action_mask"], False))

    env.base_env._reset = garbage
    td = env.reset(td.set("_reset", torch.tensor([[False], [True], [False]])))
    assert torch.equal(env.action_spec.mask[[0, 2]], before[[0, 2]])
    assert torch.equal(env.action_spec.mask, td["action_mask"]) and not torch.equal(td["action_mask"][1], before[1])


def test_a_mask_survives_new_specs():
    env = TransformedEnv(grid(), ActionMask())
    mask = env.reset()["action_mask"]
    env.append_transform(StepCounter())
    assert torch.equal(env.action_spec.mask, mask)
    assert env.base_env.action_spec.mask is None
    assert env.transform[0].clone()._mask is None


def test_a_mask_of_another_name():
    env = TransformedEnv(
        grid(), Compose(RenameTransform("action_mask", ("m", "legal")), ActionMask(mask_key=("m", "legal")))
    )
    assert torch.equal(env.reset()["m", "legal"], env.action_spec.mask)
    assert repr(env.transform[1]) == "ActionMask(keys=['action', ('m', 'legal')])"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: ActionMask()(TensorDict({"action_mask": torch.ones(2, dtype=torch.bool)})),
            RuntimeError,
            "ActionMask writes into the action spec of an env, so it works in an env only. "
            "Fix: TransformedEnv(env, ActionMask(...)).",
        ),
        (
            lambda: ActionMask()._call(TensorDict({"action_mask": torch.ones(2, dtype=torch.bool)})),
            RuntimeError,
            "ActionMask writes into the action spec of an env, so it works in an env only. "
            "Fix: TransformedEnv(env, ActionMask(...)).",
        ),
        (
            lambda: TransformedEnv(GridWorldEnv(), ActionMask()),
            KeyError,
            "no key 'action_mask' in the observation spec, which has 'observation'.",
        ),
        (
            lambda: TransformedEnv(grid(), ActionMask("acton")),
            KeyError,
            "no key 'acton' in the action spec, which has 'action'. Did you mean 'action'?",
        ),
        (
            lambda: TransformedEnv(Numbers(), ActionMask(mask_key="velocity")),
            TypeError,
            "ActionMask masks a choice among actions, and the spec of 'action' is a BoundedContinuous. "
            "Specs that can be masked: Categorical, OneHot, MultiCategorical, MultiOneHot.",
        ),
    ],
)
def test_refused(make, error, text):
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value) == text
