"""LazyNetwork: a network that is made, and its weights loaded, when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from rlnb.envs.transforms.networks.weights import Checkpoint, find_weights, load_weights


class LazyNetwork(nn.Module):
    """A frozen network that costs nothing before it is used.

    Without a file of weights they are random, and always the same: the copies of an env in several processes must see
    the same things alike. Torch's generator is left alone.

    Args:
        make: makes the network.
        checkpoint: the weights that were published for it.
        download: fetch them if they are not there.
        path: a file of weights, or the folder in which they are kept.
        requires_grad: whether gradients flow through the network. Else it computes none.

    Attributes:
        network: the network, or None before it was used.

    Example:
        >>> lazy = LazyNetwork(lambda: nn.Linear(2, 3), Checkpoint("linear.pt"))
        >>> lazy.network is None, lazy(torch.zeros(1, 2)).shape, lazy.network
        (True, torch.Size([1, 3]), Linear(in_features=2, out_features=3, bias=True))
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        checkpoint: Checkpoint,
        download: bool = False,
        path: str | Path | None = None,
        requires_grad: bool = False,
    ) -> None:
        super().__init__()
        self.make, self.checkpoint = make, checkpoint
        self.download, self.path, self.requires_grad = download, path, requires_grad
        self.network: nn.Module | None = None

    @property
    def is_random(self) -> bool:
        """Whether the weights are random."""
        return not self.download and self.path is None

    def built(self) -> nn.Module:
        """Make the network if it is not there yet.

        Returns:
            The network.

        Raises:
            FileNotFoundError: if there are no weights where they should be.
            ConnectionError: if they cannot be fetched.
            ValueError: if they do not fit.
        """
        if self.network is None:
            file = find_weights(self.checkpoint, self.download, self.path)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                network = self.make()
            if file is not None:
                load_weights(network, file, self.checkpoint)
            self.network = network.eval().requires_grad_(self.requires_grad)
        return self.network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Turn images into vectors; see :meth:`built` for what can go wrong the first time.

        Args:
            images: of shape ``[N, 3, H, W]``.

        Returns:
            Of shape ``[N, features]``.
        """
        network = self.built()
        parameter = next(network.parameters())
        if parameter.device != images.device:
            parameter = next(network.to(images.device).parameters())
        with torch.set_grad_enabled(self.requires_grad and torch.is_grad_enabled()):
            result: torch.Tensor = network(images.to(parameter.dtype))
        return result

    def train(self, mode: bool = True) -> LazyNetwork:
        """Leave the network as it was trained: its batch norms must not follow what an env shows.

        Args:
            mode: of no account.

        Returns:
            Itself.
        """
        return self


__all__ = ["LazyNetwork"]
