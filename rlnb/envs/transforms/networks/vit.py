"""VisionTransformer: a transformer over the patches of an image, with the parameter names of timm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class ViTShape:
    """The sizes of a vision transformer.

    Args:
        width: of the vector of each patch.
        depth: the number of blocks.
        heads: of the attention in each block.
    """

    width: int
    depth: int
    heads: int


#: Of each variant the sizes: the usual small, base and large one (Touvron et al. 2021; Dosovitskiy et al. 2021), and a
#: tiny one for trying things out.
VITS = {
    "tiny": ViTShape(64, 2, 2),
    "small": ViTShape(384, 12, 6),
    "base": ViTShape(768, 12, 12),
    "large": ViTShape(1024, 24, 16),
}


class PatchEmbed(nn.Module):
    """Cuts an image into patches, and makes a vector of each.

    Args:
        patch: the rows and columns of a patch.
        width: of a vector.
    """

    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[N, patches, width]`` for images ``[N, 3, H, W]``."""
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention of several heads.

    Args:
        width: of a vector.
        heads: the number of heads, a divisor of ``width``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return vectors of the shape of ``x``, ``[N, tokens, width]``."""
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*split)
        attended: torch.Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return attended


class Mlp(nn.Module):
    """Two linear layers with a GELU between them.

    Args:
        width: of a vector; the layer between has four times as many entries.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return vectors of the shape of ``x``."""
        out: torch.Tensor = self.fc2(functional.gelu(self.fc1(x)))
        return out


class Block(nn.Module):
    """Attention and a small network, each after a layer norm and added to what came in.

    Args:
        width: of a vector.
        heads: of the attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=1e-6), Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return vectors of the shape of ``x``."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """A vision transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929) that gives the class token.

    Args:
        shape: its sizes.
        image: the rows and columns of an image.
        patch: the rows and columns of a patch.

    Example:
        >>> VisionTransformer(ViTShape(width=8, depth=1, heads=2), image=32)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 8])
    """

    def __init__(self, shape: ViTShape, image: int = 224, patch: int = 16) -> None:
        super().__init__()
        width = shape.width
        self.patch_embed = PatchEmbed(patch, width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, shape.heads) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        for parameter in (self.cls_token, self.pos_embed):
            nn.init.trunc_normal_(parameter, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn images into vectors.

        Args:
            x: of shape ``[N, 3, image, image]``.

        Returns:
            Of shape ``[N, width]``.
        """
        patches = self.patch_embed(x)
        tokens = torch.cat((self.cls_token.expand(len(x), -1, -1), patches), 1) + self.pos_embed
        out: torch.Tensor = self.norm(self.blocks(tokens))[:, 0]
        return out


def vit(name: str) -> VisionTransformer:
    """Make a vision transformer for images of 224 by 224 by the name of its size.

    Args:
        name: of :data:`VITS`.

    Returns:
        The network, with random weights.

    Example:
        >>> sum(parameter.numel() for parameter in vit("small").parameters())
        21665664
    """
    return VisionTransformer(VITS[name])


__all__ = ["VITS", "Attention", "Block", "Mlp", "PatchEmbed", "ViTShape", "VisionTransformer", "vit"]
