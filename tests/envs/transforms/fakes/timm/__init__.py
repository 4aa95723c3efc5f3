"""A small stand-in for timm, for tests only; see ``tests/envs/transforms/conftest.py``.

It has what VC1Transform relies on: ``create_model(name, pretrained=False, num_classes=0, **sizes)`` returns a
module that maps images ``[N, 3, 224, 224]`` to vectors of the width of the named network, or of ``embed_dim``.
"""

import torch
from torch import nn

WIDTHS = {"tiny": 192, "small": 384, "base": 768, "large": 1024}


class PatchEmbed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Conv2d(3, width, 16, 16)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """The patches of an image with their positions, averaged in place of attention."""

    def __init__(self, width):
        super().__init__()
        self.patch_embed = PatchEmbed(width)
        self.pos_embed = nn.Parameter(torch.randn(1, 197, width))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        patches = self.patch_embed(x)
        assert patches.shape[1] == 196, "images of 224 by 224"
        return self.norm((patches * self.pos_embed[:, 1:]).mean(1))


def create_model(model_name, pretrained=False, *, num_classes=1000, embed_dim=None, depth=12, num_heads=12):
    kind, size, patch, image = model_name.split("_")
    assert (kind, patch, image, pretrained, num_classes) == ("vit", "patch16", "224", False, 0)
    return VisionTransformer(WIDTHS[size] if embed_dim is None else embed_dim)
