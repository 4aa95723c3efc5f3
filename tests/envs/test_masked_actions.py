"""Environments whose legal actions change, and policies that respect the mask."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.data import Binary, Categorical, Composite, OneHot, Unbounded
from rlnb.envs import EnvBase
from rlnb.envs.utils import ExplorationType, check_env_specs, set_exploration_type
from rlnb.modules import MaskedCategorical, MaskedOneHotCategorical

PLACES = 6


class EachOnce(EnvBase):
    """Every action can be taken once; the episode ends when one is left."""

    def __init__(self, batch_size=(), one_hot=False, strict=True):
        super().__init__(batch_size=batch_size)
        self.strict = strict
        batch = tuple(batch_size)
        self.observation_spec = Composite(
            {
                "observation": Unbounded(shape=(*batch, PLACES)),
                "action_mask": Binary(shape=(*batch, PLACES), dtype=torch.bool),
            },
            shape=batch,
        )
        self.one_hot = one_hot
        self.action_spec = (
            OneHot(PLACES, shape=(*batch, PLACES), dtype=torch.int64) if one_hot else Categorical(PLACES, shape=batch)
        )

    def _observe(self, mask):
        return {"observation": mask.float(), "action_mask": mask}

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict(self._observe(torch.ones(*self.batch_size, PLACES, dtype=torch.bool)), self.batch_size)

    def _step(self, tensordict):
        action, mask = tensordict["action"], tensordict["action_mask"]
        taken = action.bool() if self.one_hot else nn.functional.one_hot(action, PLACES).bool()
        assert not (self.strict and (taken & ~mask).any()), "an illegal action"
        mask = mask & ~taken
        done = mask.sum(-1, keepdim=True) <= 1
        return TensorDict({**self._observe(mask), "reward": done.float(), "done": done}, self.batch_size)

    def _set_seed(self, seed):
        self.seed = seed


def make_actor(distribution: type) -> TensorDictSequential:
    """The documented policy: logits from the observation, and a distribution that takes the mask."""
    module = TensorDictModule(nn.Linear(PLACES, PLACES), in_keys=["observation"], out_keys=["logits"])
    dist = ProbabilisticTensorDictModule(
        in_keys={"logits": "logits", "mask": "action_mask"}, out_keys=["action"], distribution_class=distribution
    )
    return TensorDictSequential(module, dist)


@pytest.mark.parametrize("batch_size", [(), (7,)])
def test_the_mask_is_an_observation(batch_size):
    env = EachOnce(batch_size)
    assert "action_mask" in env.observation_keys
    assert env.reset()["action_mask"].shape == (*batch_size, PLACES)


EITHER = pytest.mark.parametrize("distribution", [MaskedCategorical, MaskedOneHotCategorical])


@pytest.mark.parametrize("kind", [ExplorationType.RANDOM, ExplorationType.MODE, ExplorationType.DETERMINISTIC])
@EITHER
@pytest.mark.parametrize("batch_size", [(), (7,)])
def test_the_documented_policy_never_takes_a_masked_action(batch_size, distribution, kind):
    torch.manual_seed(0)
    env = EachOnce(batch_size, one_hot=distribution is MaskedOneHotCategorical)
    with set_exploration_type(kind):
        data = env.rollout(100, make_actor(distribution))
    assert data.shape == (*batch_size, PLACES - 1)  # it ends when one action is left: no action came twice
    assert data["next", "done"][..., -1, :].all()


@pytest.mark.parametrize("kind", [ExplorationType.MEDIAN, ExplorationType.MEAN])
def test_a_median_or_mean_of_actions_is_refused(kind):
    with pytest.raises((ValueError, NotImplementedError), match=kind.value), set_exploration_type(kind):
        make_actor(MaskedCategorical)(EachOnce().reset())


def test_the_mean_of_one_hot_actions_is_their_probabilities():
    actor, data = make_actor(MaskedOneHotCategorical), EachOnce((2,)).reset()
    with set_exploration_type(ExplorationType.MEAN):
        assert torch.equal(actor(data)["action"], actor[-1].get_dist(data).probs)


def test_a_missing_mask_is_named():
    data = EachOnce().reset().exclude("action_mask")
    with pytest.raises(ValueError) as caught:
        make_actor(MaskedCategorical)(data)
    assert str(caught.value) == (
        "MaskedCategorical takes a mask (booleans, True for a legal action) or indices (of the legal actions), "
        "got neither. In a policy, check that the TensorDict has the entry that in_keys names, such as 'action_mask'."
    )


def test_log_probs_of_a_rollout_are_those_of_the_masked_policy():
    torch.manual_seed(0)
    module = TensorDictModule(nn.Linear(PLACES, PLACES), in_keys=["observation"], out_keys=["logits"])
    dist = ProbabilisticTensorDictModule(
        in_keys={"logits": "logits", "mask": "action_mask"},
        out_keys=["action"],
        distribution_class=MaskedCategorical,
        default_interaction_type=ExplorationType.RANDOM,
        return_log_prob=True,
    )
    data = EachOnce((3,)).rollout(10, TensorDictSequential(module, dist))
    key = dist.log_prob_key
    again = data["logits"].masked_fill(~data["action_mask"], -torch.inf).log_softmax(-1)
    assert torch.allclose(data[key], again.gather(-1, data["action"].unsqueeze(-1)).squeeze(-1))
    assert data[key].isfinite().all()


def test_a_random_policy_that_ignores_the_mask_is_caught_by_this_env():
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match="an illegal action"):
        EachOnce((20,)).rollout(10)


@pytest.mark.parametrize("one_hot", [False, True])
def test_the_env_keeps_its_specs(one_hot):
    check_env_specs(EachOnce((2,), one_hot=one_hot, strict=False), seed=0)
