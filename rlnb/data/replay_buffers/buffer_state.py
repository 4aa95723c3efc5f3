"""The saved state of a buffer: its random generators, and the batches that were prefetched."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.checkpointers.files import reading
from rlnb.data.replay_buffers.prefetcher import Draw
from rlnb.data.replay_buffers.samplers.base import Sampler
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers import Writer


def check_state_dict(state_dict: Any, storage: Storage, sampler: Sampler, writer: Writer) -> list[torch.Tensor | None]:
    """Check a state for the components of a buffer, except the storage's part; returns the generators' states."""
    if not isinstance(state_dict, dict) or not {"_storage", "_writer", "_sampler"} <= state_dict.keys():
        got = type(state_dict).__name__
        if isinstance(state_dict, dict):
            got = f"a dictionary with the keys {errors.listed(state_dict)}" if state_dict else "an empty dictionary"
        raise ValueError(
            "The state of a buffer is a dictionary with the keys '_storage', '_writer', '_sampler', and got: "
            f"{got}. Nothing was changed. Fix: buffer.load_state_dict(other.state_dict())."
        )
    name, part = "generator", "torch.Generator"
    try:
        rngs = _random_states(state_dict.get("_rng"))
        # Copies load the state, which share only the storages with the components.
        shared = {id(each): each for each in with_members(storage)}
        for component in (sampler, writer):
            name, part = "sampler" if component is sampler else "writer", type(component).__name__
            copy.deepcopy(component, dict(shared)).load_state_dict(state_dict[f"_{name}"])
    except ValueError:
        raise
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"The state does not fit the {name} of this buffer, a {part} ({type(error).__name__}: {error}). Nothing "
            f"was changed. Fix: load it into a buffer with a {name} of the same kind as in the one that was saved."
        ) from error
    return rngs


def _random_states(saved: Any) -> list[torch.Tensor | None]:
    """Return saved generator states as a list; raises ``RuntimeError`` or ``TypeError`` if one is not a state."""
    states = saved if isinstance(saved, list) else [saved]
    for state in states:
        if state is not None:
            torch.Generator().set_state(state)
    return states


def read_buffer_state(folder: Path) -> tuple[list[torch.Tensor | None], int | None, list[Draw]]:
    """Read the random states, the batch size and the prefetched draws that ``ReplayBuffer.dumps`` saved."""
    with reading(folder / "state" / "buffer.json") as state:
        rngs = _random_states(state["rng"])
        if not isinstance(state["ahead"], list):
            raise ValueError("the batches drawn ahead are not a list")
        draws = [(index, dict(info), bool(last)) for index, info, last in state["ahead"]]
        return rngs, state["batch_size"], draws


def with_members(storage: Any) -> Iterator[Any]:
    """Iterate over a storage and, if it is an ensemble, its members."""
    yield storage
    for member in getattr(storage, "storages", ()):
        yield from with_members(member)
