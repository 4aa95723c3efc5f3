"""Grouped optimizers update like the separate ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rlnb.objectives import group_optimizers

KINDS = {
    "Adam": lambda values, rate: torch.optim.Adam(values, lr=rate),
    "SGD": lambda values, rate: torch.optim.SGD(values, lr=rate, momentum=rate),
    "AdamW": lambda values, rate: torch.optim.AdamW(values, lr=rate, weight_decay=rate),
}


def networks(kind):
    """Two networks and the optimizer of each, one of which has two groups."""
    torch.manual_seed(0)
    nets = [nn.Linear(3, 2), nn.Linear(3, 1)]
    both = [{"params": [nets[1].weight]}, {"params": [nets[1].bias], "lr": 0.3}]
    return nets, [KINDS[kind](nets[0].parameters(), 0.1), KINDS[kind](both, 0.2)]


def update(nets, optimizers):
    sum(net(torch.ones(3)).square().sum() for net in nets).backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [0, 2])
def test_it_updates_as_each_would(kind, before):
    (nets, optimizers), (others, theirs) = networks(kind), networks(kind)
    for _ in range(before):
        update(nets, optimizers)
        update(others, theirs)
    grouped = group_optimizers(*optimizers)
    assert type(grouped) is type(optimizers[0])
    assert [group["lr"] for group in grouped.param_groups] == [0.1, 0.2, 0.3]
    for _ in range(3):
        update(nets, [grouped])
        update(others, theirs)
    for net, other in zip(nets, others, strict=True):
        assert torch.equal(net.weight, other.weight) and torch.equal(net.bias, other.bias)


def test_those_that_were_given_stay_as_they_were():
    nets, optimizers = networks("Adam")
    update(nets, optimizers)
    grouped = group_optimizers(*optimizers)
    grouped.param_groups[0]["lr"] = 0.7
    update(nets, [grouped])
    assert optimizers[0].param_groups[0]["lr"] == 0.1
    assert optimizers[0].state[nets[0].weight]["step"] == 1 and grouped.state[nets[0].weight]["step"] == 2
