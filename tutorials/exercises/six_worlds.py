"""Pictures of the worlds of lesson 34, all of one size, so that their players stand side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from tensordict import TensorDictBase
from torch.nn.functional import interpolate

HEIGHT, WIDTH = 132, 176
_PAPER, _LINES = (242, 242, 242), (255, 255, 255)
_BLUE, _ORANGE, _GREEN, _DARK = (0, 114, 178), (213, 94, 0), (0, 158, 115), (0, 80, 60)
_KNIGHTS = (720, 1280, 3)  # a window as wide as this is mostly walls and night


def film(env: Any, name: str, steps: int, copies: int = 3) -> tuple[TensorDictBase, torch.Tensor]:
    """Play random actions, and take a picture before each of them.

    Args:
        env: the env, which is reset. An episode that ends is followed by another.
        name: what to write on the pictures.
        steps: number of actions.
        copies: how many copies to look at, if the env simulates many.

    Returns:
        The rollout, of the first copies only, and its pictures, uint8 ``[steps, height, width, 3]`` or
        ``[copies, steps, height, width, 3]``.
    """
    batched = bool(env.batch_size)
    taken = []

    def look_and_act(td: TensorDictBase) -> TensorDictBase:
        if batched:
            taken.append(torch.stack([picture(env, td[i], f"{name} {i}", env_index=i) for i in range(copies)]))
        else:
            taken.append(picture(env, td, name))
        return env.rand_action(td)

    td = env.rollout(steps, look_and_act, break_when_any_done=False)
    return (td[:copies], torch.stack(taken, 1)) if batched else (td, torch.stack(taken))


def picture(env: Any, td: TensorDictBase, name: str, **which: int) -> torch.Tensor:
    """Draw a board that the data describe, or let the library render; grey where the machine cannot do that."""
    if (grid := td.get("grid", None)) is not None:
        image = _snake(grid)
    elif (planes := td.get(("agents", "observation"), None)) is not None and planes.shape[-3:] == (3, 6, 7):
        image = _connect_four(planes[0])
    else:
        try:
            image = torch.from_numpy(np.ascontiguousarray(env.render(**which)))
        except Exception:  # each library fails in its own way where it finds no display
            image = torch.tensor(_PAPER, dtype=torch.uint8).expand(HEIGHT, WIDTH, 3)
    if image.shape == _KNIGHTS:
        image = image[:, 160:1120]
    return _labelled(_fitted(image), name)


def _snake(grid: torch.Tensor) -> torch.Tensor:
    """Draw Jumanji's snake ``[12, 12, 5]``, whose planes are its body, head and tail, the fruit, and an order."""
    body, head, _, fruit = grid[..., :4].bool().unbind(-1)
    return _tiles(torch.where(head, 2, torch.where(fruit, 3, body.long())), (_PAPER, _GREEN, _DARK, _ORANGE))


def _connect_four(planes: torch.Tensor) -> torch.Tensor:
    """Draw OpenSpiel's Connect Four ``[3, 6, 7]``: discs of the first player, of the second, and free places."""
    return _tiles(planes.argmax(0).flip(0), (_BLUE, _ORANGE, _PAPER))  # the lowest row comes first


def _tiles(kinds: torch.Tensor, colours: tuple[tuple[int, int, int], ...]) -> torch.Tensor:
    size = HEIGHT // kinds.shape[0]
    image = torch.tensor(colours, dtype=torch.uint8)[kinds].repeat_interleave(size, 0).repeat_interleave(size, 1)
    image[::size] = image[:, ::size] = torch.tensor(_LINES, dtype=torch.uint8)
    return image


def _fitted(image: torch.Tensor) -> torch.Tensor:
    """Fit an image ``[h, w, 3]`` into the one size, with white margins."""
    scale = min(HEIGHT / image.shape[0], WIDTH / image.shape[1])
    h, w = round(image.shape[0] * scale), round(image.shape[1] * scale)
    small = interpolate(image.permute(2, 0, 1)[None].float(), (h, w), mode="bilinear", antialias=True)
    whole = torch.full((HEIGHT, WIDTH, 3), 255, dtype=torch.uint8)
    top, left = (HEIGHT - h) // 2, (WIDTH - w) // 2
    whole[top : top + h, left : left + w] = small[0].permute(1, 2, 0).round().byte()
    return whole


def _labelled(image: torch.Tensor, name: str) -> torch.Tensor:
    drawn = Image.fromarray(image.numpy())
    draw = ImageDraw.Draw(drawn)
    draw.rectangle((0, 0, 8 + draw.textlength(name), 15), fill="white")
    draw.text((4, 2), name, fill="black")
    return torch.from_numpy(np.array(drawn))
