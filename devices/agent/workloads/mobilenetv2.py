"""MobileNetV2 (Sandler et al., 2018, arXiv:1801.04381) for image classification, in plain torch."""

from typing import Iterable, List, Optional

import torch
from torch import nn
from torch.nn import functional

from ._common import ImageWorkload

# Table 2 of the paper: expansion, channels, blocks, stride of the first block
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
FEATURES = 1280


def convolution(channels_in: int, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> List[nn.Module]:
    """A convolution that keeps the size of the picture (but for `stride`), batch norm and ReLU6."""
    return [
        nn.Conv2d(channels_in, channels, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(inplace=True),
    ]


class InvertedResidual(nn.Module):
    """1x1 convolution to `expansion` times the channels, 3x3 depthwise, 1x1 back without activation.

    The input is added where the output has its shape.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels_in * expansion
        layers = convolution(channels_in, inner, 1) if expansion != 1 else []
        layers += convolution(inner, inner, 3, stride=stride, groups=inner)
        layers += convolution(inner, channels, 1)[:2]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels_in == channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return x + out if self.residual else out


class MobileNetV2(nn.Module):
    """The network of width 1: pictures (n, 3, height, width) to scores (n, num_classes).

    For small pictures the stem and the second stage have stride 1, so that 32 pixels end as 4 and not as 1. There is
    no dropout: a step is then a function of its batch alone.
    """

    def __init__(self, num_classes: int, small: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(*convolution(3, 32, 3, stride=1 if small else 2))
        blocks: List[nn.Module] = []
        channels_in = 32
        for number, (expansion, channels, count, stride) in enumerate(STAGES):
            first = 1 if small and number == 1 else stride
            for index in range(count):
                blocks.append(InvertedResidual(channels_in, channels, first if index == 0 else 1, expansion))
                channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(*convolution(channels_in, FEATURES, 1))
        self.head = nn.Linear(FEATURES, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.last(self.blocks(self.stem(x)))
        out: torch.Tensor = self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return out


class MobileNetV2Workload(ImageWorkload):
    """MobileNetV2 with SGD; 0.045 per 256 samples, as it is commonly retrained, scaled to the reference batch."""

    def __init__(self, image_size: int, num_classes: int, data: Optional[str]) -> None:
        super().__init__(image_size, num_classes, data)
        self.reference_lr = 0.045 * self.reference_batch / 256

    def model(self) -> nn.Module:
        return MobileNetV2(self.num_classes, small=self.small)

    def optimizer(self, params: Iterable[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=4e-5)


def mobilenetv2(image_size: int = 224, num_classes: int = 10, data: Optional[str] = None) -> MobileNetV2Workload:
    """The workload; `data` is the path of a stored data set (see `ImageWorkload`), without it the data are synthetic.

    Raises:
        ValueError: an argument that is no whole number in range.
    """
    return MobileNetV2Workload(image_size, num_classes, data)
