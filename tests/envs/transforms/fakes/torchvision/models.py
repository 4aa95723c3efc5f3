"""Small networks with the call signatures, the class name and some parameter names of ``torchvision.models``' ResNets.

They have what R3MTransform and VIPTransform rely on: ``resnet18(weights=None)`` returns a module that maps images
``[N, 3, H, W]`` to the output of its last layer ``fc``, whose input has 512 (ResNet-50: 2048) features, and whose batch
norms are named ``bn1``.
"""

from torch import nn


class Block(nn.Module):
    """A convolution of 1x1 and a batch norm."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)

    def forward(self, x):
        return self.bn1(self.conv1(x))


class ResNet(nn.Module):
    """A few convolutions, an average over the image, and the linear layer ``fc``."""

    def __init__(self, blocks, features):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(*(Block() for _ in range(blocks)))
        self.layer4 = nn.Conv2d(8, features, 3, 4)
        self.fc = nn.Linear(features, 1000)

    def forward(self, x):
        x = self.layer1(self.bn1(self.conv1(x)).relu())
        return self.fc(self.layer4(x).relu().mean((-2, -1)))


def resnet18(*, weights=None):
    assert weights is None
    return ResNet(2, 512)


def resnet34(*, weights=None):
    assert weights is None
    return ResNet(3, 512)


def resnet50(*, weights=None):
    assert weights is None
    return ResNet(3, 2048)
