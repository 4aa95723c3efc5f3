"""ResNet: deep residual networks for images, with the parameter names of torchvision."""

from __future__ import annotations

import torch
from torch import nn

#: Of each variant: whether its blocks are bottlenecks, the blocks of each of the four layers, and the features.
RESNETS: dict[str, tuple[bool, tuple[int, int, int, int], int]] = {
    "resnet18": (False, (2, 2, 2, 2), 512),
    "resnet34": (False, (3, 4, 6, 3), 512),
    "resnet50": (True, (3, 4, 6, 3), 2048),
}


class BasicBlock(nn.Module):
    """Two convolutions of 3x3, whose result is added to what came in.

    Args:
        channels_in: of the input.
        width: the channels of the result.
        stride: of the first convolution: 2 halves rows and columns.
    """

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(channels_in, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels_in, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features of shape ``[N, width, H / stride, W / stride]`` for ``x`` of ``[N, channels_in, H, W]``."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1, whose result is added to what came in.

    Args:
        channels_in: of the input.
        width: the channels between the convolutions; the result has four times as many.
        stride: of the middle convolution: 2 halves rows and columns.
    """

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * self.expansion
        self.conv1, self.bn1 = _conv(channels_in, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _conv(width, out, 1), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels_in, out, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features of shape ``[N, 4 * width, H / stride, W / stride]`` for ``[N, channels_in, H, W]``."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A residual network (He et al. 2016, https://arxiv.org/abs/1512.03385) up to its features.

    Args:
        block: :class:`BasicBlock` or :class:`Bottleneck`.
        blocks: how many of them each of the four layers has.
        n_out: the size of a last linear layer ``fc``; None for none.

    Example:
        >>> network = ResNet(BasicBlock, (1, 1, 1, 1), n_out=5)
        >>> network(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self, block: type[BasicBlock] | type[Bottleneck], blocks: tuple[int, ...], n_out: int | None = None
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for i, count in enumerate(blocks):
            width, stride = 64 * 2**i, 1 if i == 0 else 2
            layer = [block(channels, width, stride)]
            channels = width * block.expansion
            layer += [block(channels, width, 1) for _ in range(count - 1)]
            self.add_module(f"layer{i + 1}", nn.Sequential(*layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Identity() if n_out is None else nn.Linear(channels, n_out)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn images into features.

        Args:
            x: of shape ``[N, 3, H, W]``.

        Returns:
            Of shape ``[N, features]``.
        """
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for name, layer in self.named_children():
            if name.startswith("layer"):
                x = layer(x)
        features: torch.Tensor = self.fc(self.avgpool(x).flatten(1))
        return features


def resnet(name: str, n_out: int | None = None) -> ResNet:
    """Make a ResNet by its name.

    Args:
        name: of :data:`RESNETS`.
        n_out: the size of a last linear layer; None for none.

    Returns:
        The network, with random weights.

    Example:
        >>> sum(parameter.numel() for parameter in resnet("resnet18", n_out=1000).parameters())
        11689512
    """
    bottleneck, blocks, _ = RESNETS[name]
    return ResNet(Bottleneck if bottleneck else BasicBlock, blocks, n_out)


def _conv(channels_in: int, channels_out: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, size, stride, size // 2, bias=False)


def _shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Sequential | None:
    """What makes the input of a block fit its output, where it does not."""
    if channels_in == channels_out and stride == 1:
        return None
    return nn.Sequential(_conv(channels_in, channels_out, 1, stride), nn.BatchNorm2d(channels_out))


__all__ = ["RESNETS", "BasicBlock", "Bottleneck", "ResNet", "resnet"]
