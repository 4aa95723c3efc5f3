"""World models as JSON, with fixed weights: python make.py torchrl > golden.json.

The script runs in an environment that has torchrl, and in the tests with rlnb.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

NAMES = ("WorldModelWrapper", "RSSMPrior", "RSSMPosterior", "RSSMRollout", "ObsEncoder", "ObsDecoder", "DreamerActor")
ENVS = ("ModelBasedEnvBase", "DreamerEnv", "DreamerDecoder")


def wave(*shape: int, start: float = 0.0, step: float = 1.7) -> torch.Tensor:
    """Numbers in [-1, 1] that need no random generator."""
    count = torch.Size(shape).numel()
    return torch.sin(start + step * torch.arange(count, dtype=torch.float64)).to(torch.float32).reshape(shape)


def numbers(value: torch.Tensor) -> Any:
    """A tensor as its shape and the first rounded numbers."""
    flat = value.detach().to(torch.float64).flatten().tolist()
    return [float(f"{number:.5g}") for number in flat[:40]], list(value.shape)


def set_weights(net: nn.Module) -> None:
    """Give a network weights that need no random generator."""
    with torch.no_grad():
        for i, (_, value) in enumerate(sorted(net.named_parameters())):
            value.copy_(0.5 * wave(*value.shape, start=0.3 + i))


def networks(m: Any, d: Any) -> dict[str, tuple[Callable[[], nn.Module], list[torch.Tensor]]]:
    """How each network is made, and its inputs."""
    action = d.Bounded(-1, 1, (2,))
    prior = [wave(4, 3), wave(4, 5, start=1), wave(4, 2, start=2), wave(4, 3, start=3)]
    posterior = [wave(4, 5), wave(4, 7, start=1), wave(4, 3, start=2)]
    image, latent = [wave(2, 3, 64, 64)], [wave(2, 3), wave(2, 5, start=1)]
    sizes = {"hidden_dim": 5, "rnn_hidden_dim": 5, "state_dim": 3}
    return {
        "RSSMPrior": (lambda: m.RSSMPrior(action, **sizes), prior),
        "RSSMPrior, one": (lambda: m.RSSMPrior(action, **sizes), [value[0] for value in prior]),
        "RSSMPrior, scale": (lambda: m.RSSMPrior(action, scale_lb=0.7, action_dim=2, **sizes), prior),
        "RSSMPosterior": (lambda: m.RSSMPosterior(6, 3), posterior),
        "RSSMPosterior, sizes": (lambda: m.RSSMPosterior(6, 3, 0.8, rnn_hidden_dim=5, obs_embed_dim=7), posterior),
        "RSSMPosterior, time": (
            lambda: m.RSSMPosterior(6, 3),
            [wave(2, 3, 5), wave(2, 3, 7, start=1), wave(2, 3, 3, start=2)],
        ),
        "ObsEncoder": (lambda: m.ObsEncoder(channels=2), image),
        "ObsEncoder, layers": (lambda: m.ObsEncoder(num_layers=3, in_channels=3, depth=2), image),
        "ObsEncoder, time": (lambda: m.ObsEncoder(channels=2), [wave(2, 1, 3, 64, 64)]),
        "ObsEncoder, one": (lambda: m.ObsEncoder(channels=2), [wave(3, 64, 64)]),
        "ObsDecoder": (lambda: m.ObsDecoder(channels=2), latent),
        "ObsDecoder, layers": (lambda: m.ObsDecoder(2, 3, latent_dim=8, out_channels=1), latent),
        "ObsDecoder, one kernel": (lambda: m.ObsDecoder(num_layers=2, kernel_sizes=3, depth=2), latent),
        "ObsDecoder, kernels": (lambda: m.ObsDecoder(2, 3, [3, 4, 5]), latent),
        "ObsDecoder, five layers": (lambda: m.ObsDecoder(1, 5), latent),
        "ObsDecoder, one": (lambda: m.ObsDecoder(2), [value[0] for value in latent]),
        "ObsDecoder, time": (lambda: m.ObsDecoder(2), [wave(2, 3, 3), wave(2, 3, 5, start=1)]),
        "DreamerActor": (lambda: m.DreamerActor(2, num_cells=6), latent),
        "DreamerActor, options": (
            lambda: m.DreamerActor(2, 1, 6, nn.ReLU, std_bias=0.5, std_min_val=0.3),
            latent,
        ),
    }


def run(net: nn.Module, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Set the weights of a network, and compute its outputs."""
    net(*inputs)  # lazy parameters get their sizes
    set_weights(net)
    found = net(*inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    shapes = {name: list(value.shape) for name, value in net.state_dict().items()}
    return {"outputs": [numbers(value) for value in outputs], "shapes": shapes}


class Certain(nn.Module):
    """A network of the RSSM that draws its mean."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Call the network without noise."""
        return self.net(*inputs, torch.zeros(*inputs[0].shape[:-1], 3))


def parts(m: Any, d: Any) -> tuple[nn.Module, nn.Module]:
    """A prior and a posterior without noise."""
    prior = Certain(m.RSSMPrior(d.Bounded(-1, 1, (1,)), hidden_dim=5, rnn_hidden_dim=5, state_dim=3, action_dim=1))
    posterior = Certain(m.RSSMPosterior(6, 3, rnn_hidden_dim=5, obs_embed_dim=7))
    set_weights(prior)
    set_weights(posterior)
    return prior, posterior


def of_rollout(m: Any, d: Any) -> dict[str, Any]:
    """What RSSMRollout writes."""
    prior, posterior = parts(m, d)
    first = TensorDictModule(
        prior,
        in_keys=["state", "belief", "action"],
        out_keys=[("next", "prior_mean"), ("next", "prior_std"), "_", ("next", "belief")],
    )
    second = TensorDictModule(
        posterior,
        in_keys=[("next", "belief"), ("next", "encoded_latents")],
        out_keys=[("next", "posterior_mean"), ("next", "posterior_std"), ("next", "state")],
    )
    module, found = m.RSSMRollout(first, second), {}
    for batch in ([4], [2, 4], [1, 1]):
        steps = {"state": wave(*batch, 3), "belief": wave(*batch, 5, start=1), "action": wave(*batch, 1, start=2)}
        after = {"encoded_latents": wave(*batch, 7, start=3), "done": torch.zeros(*batch, 1, dtype=torch.bool)}
        data = TensorDict({**steps, "next": TensorDict(after, batch)}, batch)
        out = module(data)
        found[str(batch)] = {
            "same": out is data,
            "entries": {str(key): numbers(out[key]) for key in sorted(out.keys(True, True), key=str)},
        }
    keys = [[str(key) for key in keys if key != "_"] for keys in (module.in_keys, module.out_keys)]
    return {"keys": keys, "found": found}


def of_envs(m: Any, d: Any, e: Any) -> dict[str, Any]:
    """Imagined rollouts: entries, shapes and numbers."""
    prior, _ = parts(m, d)
    reward, picture = m.MLP(8, 1, num_cells=[4]), m.MLP(8, (3, 2, 2), num_cells=[4])
    set_weights(reward)
    set_weights(picture)
    latent = ["state", "belief"]
    world_model = m.WorldModelWrapper(
        TensorDictModule(prior, in_keys=[*latent, "action"], out_keys=["_", "_", *latent]),
        TensorDictModule(reward, in_keys=latent, out_keys=["reward"]),
    )
    decoder = TensorDictModule(picture, in_keys=latent, out_keys=["reco_pixels"])
    dreamer = importlib.import_module(f"{e.__name__}.model_based.dreamer")
    env = dreamer.DreamerEnv(world_model, prior_shape=(3,), belief_shape=(5,), obs_decoder=decoder)
    primer = e.TensorDictPrimer(
        random=False, default_value=0.0, state=d.Unbounded((3,)), belief=d.Unbounded((5,)),
    )  # fmt: skip
    env.set_specs_from_env(e.TransformedEnv(e.GymEnv("Pendulum-v1"), primer))
    policy = TensorDictModule(lambda state: state[..., :1].tanh(), in_keys=["state"], out_keys=["action"])
    found: dict[str, Any] = {
        "specs": {
            name: {str(k): [list(v.shape), str(v.dtype)] for k, v in getattr(env, name).items(True, True)}
            for name in ("state_spec", "full_action_spec", "full_reward_spec", "full_done_spec")
        },
        "batch_locked": env.batch_locked,
        "operators": [type(op).__name__ for op in
                      (world_model.get_transition_model_operator(), world_model.get_reward_operator())],
        "keys": [[str(k) for k in keys if k != "_"] for keys in (world_model.in_keys, world_model.out_keys)],
    }  # fmt: skip
    for batch in ([], [7], [2, 3]) if e.__name__.startswith("rlnb") else ([], [7]):
        start = TensorDict({"state": wave(*batch, 3), "belief": wave(*batch, 5, start=1)}, batch)
        out = env.rollout(4, policy, tensordict=start)
        found[f"rollout {batch}"] = {str(k): numbers(out[k].float()) for k in sorted(out.keys(True, True), key=str)}
    start = TensorDict(
        {"state": wave(7, 3), "belief": wave(7, 5, start=1), "done": torch.ones(7, 1, dtype=torch.bool)}, [7]
    )
    found["any_done"] = env.any_done(start)
    found["maybe_reset"] = env.maybe_reset(start) is start
    decoded = env.decode_obs(start)
    found["decode_obs"] = decoded is start, numbers(decoded["reco_pixels"])
    watched = e.TransformedEnv(env, dreamer.DreamerDecoder()).rollout(3, policy)
    found["decoder"] = [list(watched["next", "reco_pixels"].shape), list(watched["reco_pixels"].shape)]
    return found


def parameters(kind: Any) -> dict[str, str]:
    """Names and defaults of the arguments of a class."""
    known = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return {p.name: repr(p.default) for p in known if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def results(package: str) -> dict[str, Any]:
    """The results of all cases."""
    m, d, e = (importlib.import_module(f"{package}.{name}") for name in ("modules", "data", "envs"))
    kinds = {name: getattr(m, name) for name in NAMES} | {name: getattr(e, name) for name in ENVS}
    forwards = {name: list(inspect.signature(getattr(m, name).forward).parameters) for name in NAMES[1:]}
    torch.manual_seed(0)
    return {
        "signatures": {name: parameters(kind) for name, kind in kinds.items()},
        "forwards": forwards,
        "homes": {name: kind.__module__.partition(".")[2] for name, kind in kinds.items()},
        "networks": {name: run(make(), inputs) for name, (make, inputs) in networks(m, d).items()},
        "rollout": of_rollout(m, d),
        "envs": of_envs(m, d, e),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(results(sys.argv[1]), separators=(",", ":")))
