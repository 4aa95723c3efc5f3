"""Networks of world models: batches, noise, the latent states along a trajectory, and errors."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.data import Bounded, Categorical
from rlnb.modules import DreamerActor, ObsDecoder, ObsEncoder, RSSMPosterior, RSSMPrior, RSSMRollout
from tests.pairwise import sampled

STATE, BELIEF, ACTION, SEEN = 3, 5, 2, 7
SPEC = Bounded(-1.0, 1.0, (ACTION,))


def prior(**options):
    return RSSMPrior(SPEC, **{"hidden_dim": 6, "rnn_hidden_dim": BELIEF, "state_dim": STATE, **options})


def posterior(**options):
    return RSSMPosterior(**{"hidden_dim": 6, "state_dim": STATE, **options})


def inputs(*batch):
    return torch.randn(*batch, STATE), torch.randn(*batch, BELIEF), torch.randn(*batch, ACTION)


# Prior and posterior ------------------------------------------------------------------------------------------------


def test_the_prior_is_a_gru_and_a_normal_distribution():
    net, (state, belief, action) = prior(scale_lb=0.3), inputs(4)
    noise = torch.randn(4, STATE)
    mean, std, drawn, after = net(state, belief, action, noise)
    moved = nn.functional.elu(net.action_state_projector[0](torch.cat([state, action], -1)))
    assert torch.equal(after, net.rnn(moved, belief))
    hidden = net.rnn_to_prior_projector[:3](after)
    assert torch.equal(mean, hidden[:, :STATE])
    assert torch.allclose(std, nn.functional.softplus(hidden[:, STATE:]).clamp(min=0.3))
    assert torch.equal(drawn, mean + std * noise)


@pytest.mark.parametrize(("batch", "which"), sampled([(), (4,), (4, 3), (2, 1, 3)], ["prior", "posterior"]))
def test_any_batch_dimensions_pass_and_rows_do_not_mix(batch, which):
    if which == "prior":
        net, given = prior(), (*inputs(*batch), torch.randn(*batch, STATE))
    else:
        net, given = posterior(), (torch.randn(*batch, BELIEF), torch.randn(*batch, SEEN), torch.randn(*batch, STATE))
    found = net(*given)
    for value, size in zip(found, (STATE, STATE, STATE, BELIEF), strict=False):
        assert value.shape == (*batch, size)
    if batch:
        alone = net(*(value.reshape(-1, value.shape[-1])[-1] for value in given))
        for value, row in zip(found, alone, strict=True):
            assert torch.allclose(value.reshape(-1, value.shape[-1])[-1], row, atol=1e-6)


def test_noise_is_drawn_and_gradients_reach_the_distribution():
    net, given = prior(), inputs(1000)
    mean, std, state, _ = net(*given)
    noise = ((state - mean) / std).detach()
    assert abs(noise.mean()) < 0.1 and abs(noise.std() - 1) < 0.1
    state.sum().backward()
    assert net.rnn_to_prior_projector[2].weight.grad[STATE:].any()  # through the standard deviation
    assert not torch.equal(net(*given)[2], state)


@pytest.mark.parametrize("shape", [(ACTION,), (4, ACTION)])
def test_the_size_of_the_action_is_that_of_its_spec(shape):
    net = RSSMPrior(Bounded(-1.0, 1.0, shape), state_dim=STATE)
    assert net.action_state_projector[0].in_features == STATE + ACTION
    assert RSSMPrior(Bounded(-1.0, 1.0, shape), action_dim=9).action_state_projector[0].in_features == 39


def test_an_action_that_is_not_a_vector_is_rejected():
    with pytest.raises(ValueError) as error:
        RSSMPrior(Categorical(3))
    assert str(error.value) == (
        "RSSMPrior needs an action that is a vector, and the spec has shape (). Fix: encode a discrete action as "
        "one-hot: GymEnv(..., categorical_action_encoding=False)."
    )
    with pytest.raises(TypeError) as error:
        RSSMPrior(None)
    assert (
        str(error.value) == "RSSMPrior needs the spec of the action, got a NoneType. Fix: RSSMPrior(env.action_spec)."
    )


# Along a trajectory -------------------------------------------------------------------------------------------------


def modules():
    first = TensorDictModule(
        prior(),
        in_keys=["state", "belief", "action"],
        out_keys=[("next", "prior_mean"), ("next", "prior_std"), "_", ("next", "belief")],
    )
    second = TensorDictModule(
        posterior(rnn_hidden_dim=BELIEF, obs_embed_dim=SEEN),
        in_keys=[("next", "belief"), ("next", "seen")],
        out_keys=[("next", "posterior_mean"), ("next", "posterior_std"), ("next", "state")],
    )
    return first, second


def trajectory(*batch):
    state, belief, action = inputs(*batch)
    after = TensorDict({"seen": torch.randn(*batch, SEEN)}, batch)
    return TensorDict({"state": state, "belief": belief, "action": action, "next": after}, batch)


@pytest.mark.parametrize("batch", [(6,), (4, 6), (2, 3, 6), (3, 1)])
def test_a_rollout_is_a_loop_of_prior_and_posterior(batch):
    first, second = modules()
    data = trajectory(*batch)
    before = data.clone()
    torch.manual_seed(0)
    found = RSSMRollout(first, second)(data)
    torch.manual_seed(0)
    state, belief = data["state"][..., 0, :], data["belief"][..., 0, :]
    for t in range(batch[-1]):
        assert torch.equal(found["state"][..., t, :], state) and torch.equal(found["belief"][..., t, :], belief)
        mean, _, _, belief = first.module(state, belief, data["action"][..., t, :])
        _, std, state = second.module(belief, data["next", "seen"][..., t, :])
        assert torch.equal(found["next", "prior_mean"][..., t, :], mean)
        assert torch.equal(found["next", "posterior_std"][..., t, :], std)
    assert found.batch_size == batch and (data == before).all()
    found["next", "state"][..., -1, :].sum().backward()
    assert first.module.rnn.weight_hh.grad.any() and second.module.obs_rnn_to_post_projector[0].weight.grad.any()


@pytest.mark.deep
def test_names_of_dimensions_stay_and_steps_may_be_compiled():
    data = trajectory(2, 3)
    data.names = [None, "time"]
    first, second = modules()
    module = RSSMRollout(first, second, compile_step=True, compile_backend="eager")
    torch.manual_seed(0)
    found = module(data)
    torch.manual_seed(0)
    plain = RSSMRollout(first, second, use_scan=True)(data)
    assert found.names == [None, "time"]
    assert torch.allclose(found["next", "state"], plain["next", "state"])


def test_what_is_missing_or_would_not_move_on_is_named():
    first, second = modules()
    with pytest.raises(KeyError) as error:
        RSSMRollout(first, second)(trajectory(4).exclude("belief", "state"))
    assert error.value.args[0] == (
        "RSSMRollout reads ['state', 'belief'], and the data it was given has [('next', 'seen'), 'action']. Fix: "
        "data['belief'] = torch.zeros(*data.shape, rnn_hidden_dim), and the same for the state, before the first step."
    )
    first.out_keys = ["prior_mean", "prior_std", "_", "belief"]
    second.out_keys = ["mean", "std", "state"]
    with pytest.raises(ValueError) as error:
        RSSMRollout(first, second)
    assert str(error.value) == (
        "RSSMRollout carries what is written under 'next' to the following step: the prior reads ['state', 'belief', "
        "'action'], and the modules write ['prior_mean', 'prior_std', 'belief', 'mean', 'std', 'state']. Fix: "
        "TensorDictModule(RSSMPrior(...), ['state', 'belief', 'action'], ['_', '_', '_', ('next', 'belief')]), and "
        "('next', 'state') from the posterior."
    )


# Images and actor ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "channels"), sampled([(), (2,), (2, 3)], [1, 3]))
def test_the_decoder_turns_latents_into_images_of_the_size_that_the_encoder_reads(batch, channels):
    decoder, encoder = ObsDecoder(channels=2, out_channels=channels), ObsEncoder(channels=2)
    images = decoder(torch.randn(*batch, STATE), torch.randn(*batch, BELIEF))
    assert images.shape == (*batch, channels, 64, 64)
    assert encoder(images).shape == (*batch, 64)


def test_images_and_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError) as error:
        ObsEncoder(channels=2)(torch.zeros(3, 20, 64))
    assert str(error.value) == (
        "ObsEncoder of 4 layers cannot encode an image of 20 x 64 pixels: each layer halves its size. Fix: Resize(64, "
        "64) around the env, or num_layers=2."
    )
    with pytest.raises(ValueError) as error:
        ObsDecoder(num_layers=3, kernel_sizes=[5, 5])
    assert str(error.value) == (
        "ObsDecoder needs one kernel size for each of its 3 layers, got [5, 5]. Fix: kernel_sizes=5, or a list of that "
        "length."
    )
    for kind in (ObsEncoder, ObsDecoder):
        with pytest.raises(ValueError) as error:
            kind(num_layers=0)
        assert str(error.value) == f"{kind.__name__} needs one layer at least, got num_layers=0. Fix: num_layers=4."


def test_the_actor_begins_with_the_scale_that_it_was_given():
    actor = DreamerActor(2, depth=1, num_cells=4, std_bias=0.7, std_min_val=0.2)
    given = torch.randn(5, STATE), torch.randn(5, BELIEF)
    actor(*given)
    with torch.no_grad():
        for value in actor.parameters():
            value.zero_()
        loc, scale = actor(*given)
        assert torch.equal(loc, torch.zeros(5, 2)) and torch.allclose(scale, torch.tensor(0.7))
        actor.backbone[-2].bias.fill_(-50.0)
        assert torch.allclose(actor(*given)[1], torch.tensor(0.2))
