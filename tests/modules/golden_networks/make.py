"""Outputs of networks with fixed weights, as JSON: python make.py torchrl > golden.json.

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
from torch import nn


def wave(*shape: int, start: float = 0.0, step: float = 1.7) -> torch.Tensor:
    """Numbers in [-1, 1] that need no random generator."""
    count = torch.Size(shape).numel()
    return torch.sin(start + step * torch.arange(count, dtype=torch.float64)).to(torch.float32).reshape(shape)


def vectors(*shape: int) -> list[torch.Tensor]:
    """One input."""
    return [wave(*shape)]


Case = tuple[Callable[[Any, Any], nn.Module], list[torch.Tensor]]


def mlp_cases() -> dict[str, Case]:
    """Perceptrons: how one is made, and its inputs."""
    norms = {"norm_class": nn.LayerNorm, "norm_kwargs": [{"normalized_shape": 4}, {"normalized_shape": 5}]}
    options: dict[str, dict[str, Any]] = {
        "no hidden layer": {},
        "depth": {"depth": 2},
        "sizes": {"num_cells": [4, 5]},
        "one size": {"depth": 3, "num_cells": 4},
        "relu": {"num_cells": [4, 5], "activation_class": nn.ReLU},
        "activation_kwargs": {"num_cells": [4], "activation_class": nn.ELU, "activation_kwargs": {"alpha": 0.3}},
        "norm": {"num_cells": [4, 5], **norms},
        "no last bias": {"num_cells": [4], "bias_last_layer": False},
        "single last bias": {"num_cells": [4], "single_bias_last_layer": True},
        "active last": {"num_cells": [4], "activate_last_layer": True, "dropout": 0.5},
        "layer_kwargs": {"num_cells": [4], "layer_kwargs": [{"bias": False}, {"bias": True}]},
        "layer_kwargs of all": {"num_cells": [4], "layer_kwargs": {"bias": False}},
    }
    cases: dict[str, Case] = {
        f"MLP, {name}": (lambda m, k, given=given: m.MLP(3, 2, **given), vectors(5, 3))
        for name, given in options.items()
    }
    return cases | {
        "MLP, lazy": (lambda m, k: m.MLP(out_features=2, num_cells=[4]), vectors(5, 3)),
        "MLP, shape": (lambda m, k: m.MLP(3, (2, 3), num_cells=[4]), vectors(5, 3)),
        "MLP, several inputs": (lambda m, k: m.MLP(5, 2, num_cells=[4]), [wave(6, 5, 3), wave(6, 5, 2, start=1)]),
    }


def image_cases() -> dict[str, Case]:
    """Networks of images."""
    norm = {"norm_class": nn.GroupNorm, "norm_kwargs": [{"num_groups": 2, "num_channels": c} for c in (4, 6)]}
    pool = {"aggregator_class": nn.AdaptiveAvgPool2d, "aggregator_kwargs": {"output_size": (1, 1)}}
    options: dict[str, dict[str, Any]] = {
        "depth": {"depth": 2, "num_cells": 4},
        "lists": {"num_cells": [4, 5], "kernel_sizes": [4, (2, 3)], "strides": [2, 1], "paddings": [1, 0]},
        "norm": {"num_cells": [4, 6], **norm},
        "tanh": {"num_cells": [4, 6], "activation_class": nn.Tanh},
        "pooled": {"num_cells": [4], **pool, "squeeze_output": True},
        "depth of a list": {"num_cells": 4, "strides": [1, 2]},
    }
    cases: dict[str, Case] = {
        f"ConvNet, {name}": (lambda m, k, given=given: m.ConvNet(3, **given), vectors(2, 3, 9, 9))
        for name, given in options.items()
    }
    small = {"num_cells": [3, 4], "kernel_sizes": [4, 3], "strides": [2, 1]}
    return cases | {
        "ConvNet, lazy, batches": (lambda m, k: m.ConvNet(num_cells=[4]), vectors(2, 3, 1, 6, 6)),
        "ConvNet, one image": (lambda m, k: m.ConvNet(3, num_cells=[4]), vectors(3, 6, 6)),
        "DuelingCnnDQNet": (
            lambda m, k: m.DuelingCnnDQNet(3, cnn_kwargs=small, mlp_kwargs={"num_cells": 5}),
            vectors(2, 2, 12, 12),
        ),
        "DuelingMlpDQNet": (
            lambda m, k: k.DuelingMlpDQNet(
                3, mlp_kwargs_feature={"num_cells": [5], "out_features": 4}, mlp_kwargs_output={"num_cells": 5}
            ),
            vectors(4, 3),
        ),
    }


def other_cases() -> dict[str, Case]:
    """Networks of DDPG and of several agents."""
    cases: dict[str, Case] = {
        "DdpgMlpActor": (lambda m, k: m.DdpgMlpActor(2, mlp_net_kwargs={"num_cells": [5, 4]}), vectors(4, 3)),
        "DdpgMlpQNet": (
            lambda m, k: m.DdpgMlpQNet({"out_features": 5}, {"num_cells": [4]}),
            [wave(4, 3), wave(4, 2, start=1)],
        ),
        "VDNMixer": (lambda m, k: m.VDNMixer(4, "cpu"), vectors(5, 4, 1)),
        "QMixer": (lambda m, k: m.QMixer((3, 2), 5, 4, "cpu"), [wave(6, 5, 4, 1), wave(6, 5, 3, 2, start=1)]),
    }
    for shared in (True, False):
        for central in (True, False):
            how = {"share_params": shared, "centralized": central}
            name = f"{'shared' if shared else 'own'}, {'central' if central else 'local'}"
            cases |= {
                f"MultiAgentMLP, {name}": (
                    lambda m, k, how=how: m.MultiAgentMLP(3, 2, 4, num_cells=[5], **how),
                    vectors(6, 5, 4, 3),
                ),
                f"MultiAgentMLP, {name}, lazy": (
                    lambda m, k, how=how: m.MultiAgentMLP(None, 2, 4, depth=1, activation_class=nn.ReLU, **how),
                    vectors(5, 4, 3),
                ),
                f"MultiAgentConvNet, {name}": (
                    lambda m, k, how=how: m.MultiAgentConvNet(2, in_features=3, num_cells=[4], kernel_sizes=3, **how),
                    vectors(5, 2, 3, 6, 6),
                ),
            }
    return cases


def numbers(value: torch.Tensor) -> Any:
    """A tensor as rounded numbers."""
    return [float(f"{number:.6g}") for number in value.detach().to(torch.float64).flatten().tolist()], list(value.shape)


def run(make: Callable[[Any, Any], nn.Module], inputs: list[torch.Tensor], m: Any, k: Any) -> dict[str, Any]:
    """Make a network, set its parameters, and compute its output and the gradients of the sum of its squares."""
    net = make(m, k).eval()
    text = repr(net)
    net(*inputs)  # lazy parameters get their sizes
    named = sorted(net.named_parameters())
    with torch.no_grad():
        for i, (_, value) in enumerate(named):
            value.copy_(0.5 * wave(*value.shape, start=0.3 + i))
    output = net(*inputs)
    if named:
        output.square().sum().backward()
    gradients = {name: numbers(value.grad) for name, value in named if value.grad is not None and value.numel() < 100}
    shapes = {name: list(value.shape) for name, value in net.state_dict().items()}
    return {"text": text, "output": numbers(output), "shapes": shapes, "gradients": gradients}


def results(package: str) -> dict[str, Any]:
    """The results of all cases."""
    modules = importlib.import_module(f"{package}.modules"), importlib.import_module(f"{package}.modules.models.models")
    return {
        name: run(make, inputs, *modules)
        for name, (make, inputs) in {**mlp_cases(), **image_cases(), **other_cases()}.items()
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(results(sys.argv[1]), separators=(",", ":")))
