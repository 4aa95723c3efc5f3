"""The random numbers of an env: those of its own, once it is seeded, in place of torch's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


def get_rng_state(device: torch.device | None) -> torch.Tensor:
    """Return the state of torch's generator for a device, the CPU's if it is ``None``."""
    return torch.cuda.get_rng_state(device) if device is not None and device.type == "cuda" else torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: torch.device | None) -> None:
    """Set the state of torch's generator for a device, the CPU's if it is ``None``."""
    if device is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


class RandomState:
    """Where the random numbers of a seeded env stand, on each device that it draws them on.

    Args:
        seed: the seed, on every device.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states: dict[str, torch.Tensor] = {}

    def state(self, device: torch.device | None) -> torch.Tensor:
        """Return the state of the generator for a device, the CPU's if it is ``None``."""
        found = self._states.get(str(device or "cpu"))
        return torch.Generator(device or "cpu").manual_seed(self._seed).get_state() if found is None else found

    @contextlib.contextmanager
    def drawing(self, device: torch.device | None) -> Iterator[None]:
        """Draw from here in place of torch's generator for a device, which is restored at the end of the block."""
        outer = get_rng_state(device)
        set_rng_state(self.state(device), device)
        try:
            yield
        finally:
            self._states[str(device or "cpu")] = get_rng_state(device)
            set_rng_state(outer, device)
