"""Imagination in the latent space: starts, endless rollouts, gradients, specs, and decoded frames."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.data import Bounded, Unbounded
from rlnb.envs import (
    Compose,
    DreamerDecoder,
    DreamerEnv,
    GymEnv,
    RenameTransform,
    SerialEnv,
    StepCounter,
    TensorDictPrimer,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.model_based.worlds import ACTION, BELIEF, STATE, decoder, dreamer, latent, latent_model
from tests.pairwise import sampled


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def ends(data):
    """The given data, at the end of an episode."""
    done = torch.ones(*data.batch_size, 1, dtype=torch.bool)
    return data.update({"done": done, "terminated": done.clone()})


# Gradients and values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (6,), (2, 3)])
def test_gradients_of_fifteen_imagined_steps_are_those_of_a_plain_loop(batch):
    model, start = latent_model(), latent(*batch)
    policy = nn.Linear(STATE + BELIEF, ACTION)
    prior, reward = model.module[0].module, model.module[1].module
    everything = [*model.parameters(), *policy.parameters()]
    act = TensorDictModule(lambda s, b: policy(torch.cat([s, b], -1)).tanh(), ["state", "belief"], ["action"])

    def gradients(imagine):
        first = [start[name].clone().requires_grad_() for name in ("state", "belief")]
        torch.manual_seed(1)  # the same noise
        total = imagine(*first)
        return total, torch.autograd.grad(total, [*everything, *first])

    def rolled_out(state, belief):
        data = TensorDict({"state": state, "belief": belief}, batch)
        return dreamer(model=model).rollout(15, act, tensordict=data)["next", "reward"].sum()

    def looped(state, belief):
        total = 0
        for _ in range(15):
            action = policy(torch.cat([state, belief], -1)).tanh()
            _, _, state, belief = prior(state, belief, action)
            total = total + reward(torch.cat([state, belief], -1)).sum()
        return total

    (mine, my_grads), (plain, grads) = gradients(rolled_out), gradients(looped)
    assert torch.allclose(mine, plain, rtol=1e-5)
    for one, other in zip(my_grads, grads, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5) and other.any()


@pytest.mark.parametrize(("size", "lead", "steps"), sampled([(), (2,)], [(), (3,), (2, 2)], [1, 4]))
def test_a_rollout_starts_from_the_given_states_at_any_batch_size(size, lead, steps):
    start = latent(*lead, *size)
    found = dreamer(size).rollout(steps, tensordict=start)
    assert found.batch_size == (*lead, *size, steps)
    for name in ("state", "belief"):
        assert torch.equal(found[name][..., 0, :], start[name])
        assert torch.equal(found[name][..., 1:, :], found["next", name][..., :-1, :])
    assert found["next", "reward"].shape == (*lead, *size, steps, 1)


# Reset and end signals -----------------------------------------------------------------------------------------------


def test_a_reset_keeps_given_states_and_draws_those_that_are_missing():
    env, start = dreamer(), latent(4)
    given = env.reset(start.clone())
    assert torch.equal(given["state"], start["state"]) and torch.equal(given["belief"], start["belief"])
    half = env.reset(start.select("belief"))
    assert torch.equal(half["belief"], start["belief"]) and half["state"].shape == (4, STATE) and half["state"].any()
    drawn = env.reset(), env.reset()
    assert drawn[0]["state"].shape == (STATE,) and not torch.equal(drawn[0]["belief"], drawn[1]["belief"])
    env.set_seed(1)
    seeded = env.reset()["state"]
    env.set_seed(1)
    assert torch.equal(env.reset()["state"], seeded)


def test_a_mask_draws_new_states_where_it_is_true():
    env, start = dreamer(), latent(3)
    mask = torch.tensor([[True], [False], [True]])
    found = env.reset(start.clone().set("_reset", mask))
    kept = (found["state"] == start["state"]).all(-1)
    assert kept.tolist() == [False, True, False] and "_reset" not in found


@pytest.mark.parametrize("how", ["rollout", "rollout, no reset", "step", "step_and_maybe_reset"])
def test_the_end_of_a_real_episode_does_not_end_imagination(how):
    env, start = dreamer(), ends(latent(4))
    if how.startswith("rollout"):
        found = env.rollout(3, auto_reset=how == "rollout", tensordict=start, break_when_any_done=True)
        assert found.shape == (4, 3) and not found["next", "done"].any()
        assert torch.equal(found["state"][:, 0], start["state"])
    else:
        data = env.rand_action(start)
        data = env.step(data) if how == "step" else env.step_and_maybe_reset(data)[0]
        assert not data["next", "done"].any() and not data["next", "terminated"].any()


def test_nothing_is_ever_done():
    env, data = dreamer(), ends(latent(2))
    assert env.any_done(data) is False and "_reset" not in data
    assert env.maybe_reset(data) is data
    with pytest.raises(TypeError, match="maybe_reset takes a TensorDict"):
        env.maybe_reset({})


# Specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(), (3,), (2, 2)])
@pytest.mark.parametrize("seen", [None, decoder])
def test_it_keeps_to_its_specs(size, seen):
    env = dreamer(size, None if seen is None else seen())
    check_env_specs(env, seed=0)
    if seen is not None:
        check_env_specs(TransformedEnv(env, Compose(StepCounter(), DreamerDecoder())))


def primed(**shapes):
    """A real env with a latent state."""
    primer = TensorDictPrimer(random=False, default_value=0.0, **{k: Unbounded(v) for k, v in shapes.items()})
    return TransformedEnv(GymEnv("Pendulum-v1"), primer)


@pytest.mark.parametrize(
    ("size", "real"),
    sampled(
        [(), (3,)],
        {
            "bare": lambda: GymEnv("Pendulum-v1"),
            "batch": lambda: SerialEnv(2, lambda: GymEnv("Pendulum-v1")),
            "primed": lambda: primed(state=(STATE,), belief=(BELIEF,)),
        },
    ),
)
def test_specs_are_those_of_the_real_env_and_of_the_latent_space(size, real):
    real, env = real(), DreamerEnv(latent_model(), (STATE,), (BELIEF,), batch_size=size)
    env.set_specs_from_env(real)
    assert sorted(env.observation_keys) == sorted(env.state_keys) == ["belief", "state"]  # and no "observation"
    assert env.state_spec["state"].shape == (*size, STATE) and env.state_spec["belief"].shape == (*size, BELIEF)
    assert env.action_spec_unbatched == real.action_spec_unbatched.to("cpu")
    assert sorted(env.done_keys) == ["done", "terminated", "truncated"]


def test_an_observation_that_the_model_writes_stays():
    model = latent_model()
    seen = TensorDictModule(lambda state: state.clamp(-1, 1), ["state"], ["observation"])
    env = DreamerEnv(nn.Sequential(model, seen), (STATE,), (BELIEF,))
    env.world_model.out_keys = [*model.out_keys, "observation"]
    env.set_specs_from_env(GymEnv("Pendulum-v1"))
    assert "observation" in env.observation_keys and "observation" not in env.state_keys
    assert env.action_spec.shape == (1,)


@pytest.mark.parametrize(("name", "argument"), [("state", "prior_shape"), ("belief", "belief_shape")])
def test_another_entry_of_that_name_is_refused(name, argument):
    env, shape = dreamer(), {"state": STATE, "belief": BELIEF}[name]
    before = env.specs.clone()
    with pytest.raises(ValueError) as error:
        env.set_specs_from_env(primed(**{name: (17,)}))
    assert str(error.value) == (
        f"The real env has an entry {name!r} of shape (17,), and {argument} is ({shape},). Fix: {argument}=(17,) if "
        f"they are the same latent, or rename the entry first: RenameTransform([{name!r}], ['real_{name}'])."
    )
    assert env.specs == before
    env.set_specs_from_env(TransformedEnv(primed(**{name: (17,)}), RenameTransform([name], [f"real_{name}"])))


# Decoding ---------------------------------------------------------------------------------------------------------


def test_decoding_writes_what_the_decoder_sees():
    seen = decoder()
    env, data = dreamer(seen=seen), latent(4)
    expected = seen.module(data["state"], data["belief"])
    assert env.decode_obs(data) is data and torch.equal(data["reco_pixels"], expected)
    before = data["state"].clone()
    moved = env.decode_obs(data.set("action", torch.zeros(4, ACTION)), compute_latents=True)
    assert not torch.equal(moved["state"], before)
    assert torch.equal(moved["reco_pixels"], seen.module(moved["state"], moved["belief"]))


@pytest.mark.parametrize("size", [(), (2,)])
def test_the_transform_adds_decoded_frames_and_their_spec(size):
    seen = decoder()
    env = TransformedEnv(dreamer(size, seen), DreamerDecoder())
    assert env.observation_spec["reco_pixels"].shape == (*size, 3, 2, 2)
    found = env.rollout(4, tensordict=latent(3, *size))
    for data in (found, found["next"]):
        assert torch.allclose(data["reco_pixels"], seen.module(data["state"], data["belief"]), atol=1e-6)
    assert found["next", "reco_pixels"].requires_grad


def test_the_transform_may_rename_the_frames():
    env = TransformedEnv(dreamer(seen=decoder()), DreamerDecoder(in_keys=["reco_pixels"], out_keys=["pixels"]))
    assert "pixels" in env.rollout(2)["next"] and "reco_pixels" not in env.observation_keys


def test_decoding_without_a_decoder_is_refused():
    text = (
        "This DreamerEnv has no decoder, so there is nothing to see. Fix: DreamerEnv(..., obs_decoder=TensorDictModule("
        "ObsDecoder(), in_keys=['state', 'belief'], out_keys=['reco_pixels']))."
    )
    for ask in (lambda: dreamer().decode_obs(latent()), lambda: TransformedEnv(dreamer(), DreamerDecoder())):
        with pytest.raises(ValueError) as error:
            ask()
        assert str(error.value) == text
    with pytest.raises(TypeError) as error:
        DreamerEnv(latent_model(), (STATE,), (BELIEF,), obs_decoder=print)
    assert str(error.value) == (
        "obs_decoder must be a module over TensorDicts, got a builtin_function_or_method. Fix: TensorDictModule("
        "ObsDecoder(), in_keys=['state', 'belief'], out_keys=['reco_pixels'])."
    )


def test_a_decoder_belongs_into_an_imagined_env():
    real = GymEnv("Pendulum-v1")
    with pytest.raises(TypeError) as error:
        TransformedEnv(real, DreamerDecoder())
    assert str(error.value) == (
        "DreamerDecoder decodes the latent states of a DreamerEnv, and is in a GymEnv. Fix: TransformedEnv("
        "DreamerEnv(..., obs_decoder=decoder), DreamerDecoder())."
    )
    assert real.rollout(1).shape == (1,)


def test_the_first_call_needs_no_specs_of_a_real_env_but_its_action():
    env = DreamerEnv(latent_model(), (STATE,), (BELIEF,))
    with pytest.raises(KeyError, match=r"its world model reads \['action'\]"):
        env.rollout(2)
    env.action_spec = Bounded(-1, 1, (ACTION,))
    assert env.rollout(2).shape == (2,)
