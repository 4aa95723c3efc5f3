"""Distributions and greedy choices with fixed numbers, as JSON: python make.py torchrl > golden.json.

The script runs in an environment that has torchrl, and in the tests with rlnb.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict

#: How many samples the moments are taken of.
SAMPLES = 20_000


def wave(*shape: int, start: float = 0.0, step: float = 1.7) -> torch.Tensor:
    """Numbers in [-1, 1] that need no random generator."""
    count = torch.Size(shape).numel()
    return torch.sin(start + step * torch.arange(count, dtype=torch.float64)).to(torch.float32).reshape(shape)


def normal() -> dict[str, torch.Tensor]:
    """Location and scale of three rows of two components."""
    return {"loc": 1.5 * wave(3, 2, start=0.3), "scale": 0.2 + wave(3, 2, start=1).abs()}


def weights(kind: str) -> dict[str, torch.Tensor]:
    """Weights of three rows of four choices."""
    logits = 2 * wave(3, 4, start=0.4)
    return {"logits": logits} if kind == "logits" else {"probs": logits.softmax(-1)}


def mask() -> torch.Tensor:
    """A mask of three rows of four choices."""
    return torch.tensor([[True, True, False, True], [False, True, False, False], [True, False, True, True]])


Case = tuple[str, dict[str, torch.Tensor], dict[str, Any], torch.Tensor]


def cases() -> dict[str, Case]:
    """For each case the class, parameters with gradients, further arguments, and values to ask the density of."""
    box, wide = 0.9 * wave(3, 2, start=2), 3 * wave(3, 2, start=2)
    low, high = torch.tensor([-2.0, -0.5]), torch.tensor([1.0, 3.0])
    between = low + (high - low) * (0.5 + 0.45 * wave(3, 2, start=2))
    index = torch.tensor([0, 1, 3])
    hot = torch.nn.functional.one_hot(index, 4)
    point = {"param": wave(3, 2, start=0.3)}
    found: dict[str, Case] = {
        "TanhNormal": ("TanhNormal", normal(), {}, box),
        "TanhNormal, bounds": ("TanhNormal", normal(), {"low": low, "high": high}, between),
        "TanhNormal, event_dims 0": ("TanhNormal", normal(), {"event_dims": 0}, box),
        "TanhNormal, tanh_loc": ("TanhNormal", normal(), {"tanh_loc": True, "upscale": 0.5}, box),
        "TanhNormal, at the bounds": ("TanhNormal", normal(), {}, box.sign()),
        "TanhNormal, not safe": ("TanhNormal", normal(), {"safe_tanh": False}, box),
        "TruncatedNormal": ("TruncatedNormal", normal(), {}, box),
        "TruncatedNormal, bounds": ("TruncatedNormal", normal(), {"low": low, "high": high}, between),
        "TruncatedNormal, tanh_loc": ("TruncatedNormal", normal(), {"tanh_loc": True, "upscale": 0.5}, box),
        "TruncatedNormal, outside": ("TruncatedNormal", normal(), {}, box + 2),
        "IndependentNormal": ("IndependentNormal", normal(), {}, wide),
        "IndependentNormal, tanh_loc": ("IndependentNormal", normal(), {"tanh_loc": True, "upscale": 0.5}, wide),
        "IndependentNormal, event_dim 2": ("IndependentNormal", normal(), {"event_dim": 2}, wide),
        "Delta": ("Delta", point, {}, torch.where(index[:, None] == 1, point["param"], box)),
        "Delta, atol": ("Delta", point, {"atol": 0.1}, point["param"] + 0.05),
        "TanhDelta": ("TanhDelta", point, {}, torch.where(index[:, None] == 1, point["param"].tanh(), box)),
        "TanhDelta, bounds": ("TanhDelta", point, {"low": low, "high": high}, between),
    }
    for kind in ("logits", "probs"):
        found |= {
            f"OneHotCategorical, {kind}": ("OneHotCategorical", weights(kind), {}, hot),
            f"MaskedCategorical, {kind}": ("MaskedCategorical", weights(kind), {"mask": mask()}, index),
            f"MaskedOneHotCategorical, {kind}": ("MaskedOneHotCategorical", weights(kind), {"mask": mask()}, hot),
        }
    few = torch.tensor([[0, 1], [1, 2], [2, 3]])
    found["MaskedCategorical, indices"] = ("MaskedCategorical", weights("logits"), {"indices": few}, index)
    found["MaskedCategorical, neg_inf"] = (
        "MaskedCategorical",
        weights("logits"),
        {"mask": mask(), "neg_inf": -50.0},
        torch.tensor([2, 1, 1]),
    )
    return found


def numbers(value: Any) -> Any:
    """A tensor as rounded numbers and its shape."""
    value = torch.as_tensor(value).detach().to(torch.float64)
    return [float(f"{number:.6g}") for number in value.flatten().tolist()], list(value.shape)


def gradients(value: torch.Tensor, parameters: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Gradients of a sum with respect to the parameters."""
    if not value.requires_grad:
        return {}
    grads = torch.autograd.grad(value.sum(), parameters.values(), allow_unused=True)
    return {name: numbers(g) for name, g in zip(parameters, grads, strict=True) if g is not None}


def describe(make: Callable[..., Any], parameters: dict[str, torch.Tensor], value: torch.Tensor) -> dict[str, Any]:
    """Everything that a distribution says; what it does not define is left out."""
    parameters = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
    ask = {
        "log_prob": lambda d: d.log_prob(value),
        "mode": lambda d: d.mode,
        "deterministic_sample": lambda d: d.deterministic_sample,
        "mean": lambda d: d.mean,
        "variance": lambda d: d.variance,
        "entropy": lambda d: d.entropy(),
    }
    found: dict[str, Any] = {}
    for name, question in ask.items():
        try:
            answer = question(make(**parameters))
        except (NotImplementedError, RuntimeError, AttributeError, ValueError):
            continue
        found[name] = numbers(answer)
        if answer.requires_grad and bool(answer.isfinite().all()):
            found[f"gradient of {name}"] = gradients(answer, parameters)
    torch.manual_seed(0)
    dist = make(**parameters)
    samples = dist.sample((SAMPLES,)).to(torch.float64)
    found["samples"] = {
        "shape": list(dist.sample().shape),
        "mean": numbers(samples.mean(0)),
        "std": numbers(samples.std(0)),
    }
    found["shapes"] = [list(dist.batch_shape), list(dist.event_shape)]
    return found


def mappings(m: Any) -> dict[str, Any]:
    """Outputs and gradients of NormalParamExtractor for each mapping."""
    found = {}
    for mapping in ("biased_softplus_1.0", "biased_softplus_0.5", "softplus", "exp", "relu", "expln"):
        for bound in (1e-4, 0.3):
            x = (4 * wave(3, 6)).requires_grad_()
            loc, scale = m.NormalParamExtractor(scale_mapping=mapping, scale_lb=bound)(x)
            (gradient,) = torch.autograd.grad((loc + scale).sum(), x)
            found[f"{mapping}, {bound}"] = {name: numbers(v) for name, v in
                                            (("loc", loc), ("scale", scale), ("gradient", gradient))}  # fmt: skip
    return found


def choices(m: Any, d: Any) -> dict[str, Any]:
    """What QValueModule writes, for each action space, with and without a spec and a mask."""
    values = wave(3, 5, start=0.6)
    legal = torch.ones(3, 5, dtype=torch.bool).scatter_(-1, values.argmax(-1, keepdim=True), False)
    ties = torch.tensor([[1.0, 2.0, 2.0, 0.0, 2.0]]).expand(3, 5)
    made: dict[str, dict[str, Any]] = {
        "one-hot": {"action_space": "one-hot"},
        "categorical": {"action_space": "categorical"},
        "mult-one-hot": {"action_space": "mult-one-hot", "var_nums": [2, 3]},
        "one-hot spec": {"spec": d.OneHot(5)},
        "categorical spec": {"spec": d.Categorical(5)},
        "mult-one-hot spec": {"spec": d.MultiOneHot([2, 3]), "var_nums": [2, 3]},
        "composite spec": {"spec": d.Composite(action=d.Categorical(5), action_value=None, chosen_action_value=None)},
        "safe": {"spec": d.OneHot(5), "safe": True},
        "keys": {"action_space": "categorical", "action_value_key": "q", "out_keys": ["a", "q", "best"]},
    }
    found = {}
    for name, options in made.items():
        for kind, given in (("", values), (", ties", ties)):
            for masked in (False, True):
                title, key = f"{name}{kind}", {}
                if masked:
                    title, key = f"{title}, mask", {"action_mask_key": "mask"}
                try:
                    module = m.QValueModule(**options, **key)
                    out = module(TensorDict({module.in_keys[0]: given.clone(), "mask": legal}, [3]))
                except Exception as e:
                    print("FAILED", title, repr(e)[:300], file=sys.stderr)
                    continue
                keys = [list(module.in_keys), list(module.out_keys)]
                found[title] = {"keys": keys, "out": {key: numbers(out[key]) for key in module.out_keys}}
    return found


def results(package: str) -> dict[str, Any]:
    """The results of all cases."""
    m, d = importlib.import_module(f"{package}.modules"), importlib.import_module(f"{package}.data")
    found: dict[str, Any] = {}
    for name, (kind, parameters, options, value) in cases().items():
        try:
            found[name] = describe(
                lambda kind=kind, options=options, **p: getattr(m, kind)(**p, **options), parameters, value
            )
        except Exception as e:
            print("FAILED", name, repr(e)[:300], file=sys.stderr)
    return {"distributions": found, "mappings": mappings(m), "choices": choices(m, d)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(results(sys.argv[1]), separators=(",", ":")))
