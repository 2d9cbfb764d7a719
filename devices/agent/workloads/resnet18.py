"""ResNet-18 (He et al., 2016, arXiv:1512.03385) for image classification, in plain torch."""

from typing import Iterable, List, Optional

import torch
from torch import nn
from torch.nn import functional

from ._common import ImageWorkload


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut; `stride` halves the picture in the first."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu_(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return torch.relu_(out + self.shortcut(x))


class ResNet18(nn.Module):
    """The 18-layer network: pictures (n, 3, height, width) to scores (n, num_classes).

    Small pictures get a 3x3 stem of stride 1 without pooling.
    """

    def __init__(self, num_classes: int, small_stem: bool) -> None:
        super().__init__()
        if small_stem:
            self.stem = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
            )
        else:
            self.stem = nn.Sequential(
                nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
                nn.BatchNorm2d(64),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(3, stride=2, padding=1),
            )
        blocks: List[nn.Module] = []
        channels_in = 64
        for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks.append(BasicBlock(channels_in, channels, stride))
            blocks.append(BasicBlock(channels, channels, 1))
            channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.stem(x))
        out: torch.Tensor = self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return out


class ResNet18Workload(ImageWorkload):
    """ResNet-18 with SGD; 0.1 per 256 samples, the rate of the original paper, scaled to the reference batch."""

    def __init__(self, image_size: int, num_classes: int, data: Optional[str]) -> None:
        super().__init__(image_size, num_classes, data)
        self.reference_lr = 0.1 * self.reference_batch / 256

    def model(self) -> nn.Module:
        return ResNet18(self.num_classes, small_stem=self.small)

    def optimizer(self, params: Iterable[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=5e-4)


def resnet18(image_size: int = 224, num_classes: int = 10, data: Optional[str] = None) -> ResNet18Workload:
    """The workload; `data` is the path of a stored data set (see `ImageWorkload`), without it the data are synthetic.

    Raises:
        ValueError: an argument that is no whole number in range.
    """
    return ResNet18Workload(image_size, num_classes, data)
