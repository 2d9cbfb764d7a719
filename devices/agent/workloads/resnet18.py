"""ResNet-18 (He et al., 2016, arXiv:1512.03385) for image classification, in plain torch."""

from typing import Any, Iterable, List, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional

SMALL_IMAGE = 64  # up to here a stride-4 stem would leave too little of the picture
SYNTHETIC_TRAIN = 2048
SYNTHETIC_TEST = 512

Batch = Tuple[torch.Tensor, torch.Tensor]  # images (n, 3, size, size) and labels (n,)


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
    """The 18-layer network; small pictures get a 3x3 stem of stride 1 without pooling."""

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


class SyntheticImages(torch.utils.data.Dataset[Tuple[torch.Tensor, int]]):
    """Noise over one fixed pattern a class: right in shape, and something to learn. Item i is always the same."""

    def __init__(self, length: int, image_size: int, num_classes: int, first: int = 0) -> None:
        super().__init__()
        self.length = length
        self.image_size = image_size
        self.num_classes = num_classes
        self.first = first
        coarse = torch.randn(num_classes, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        self.patterns = functional.interpolate(coarse, size=(image_size, image_size), mode="nearest")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, int]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        number = self.first + index
        generator = torch.Generator().manual_seed(number + 1)
        image = torch.randn(3, self.image_size, self.image_size, generator=generator)
        label = number % self.num_classes
        return image + self.patterns[label], label


class ResNet18Workload:
    """ResNet-18 with SGD; 0.1 per 256 samples, the rate of the original paper, scaled to the reference batch.

    The reference batch is what people train with: 128 small pictures, 32 large ones.
    """

    def __init__(self, image_size: int, num_classes: int, data: Optional[str]) -> None:
        self.image_size = image_size
        self.num_classes = num_classes
        self.data = data
        self.reference_batch = 128 if image_size <= SMALL_IMAGE else 32
        self.reference_lr = 0.1 * self.reference_batch / 256

    def model(self) -> nn.Module:
        return ResNet18(self.num_classes, small_stem=self.image_size <= SMALL_IMAGE)

    def loss(self, model: nn.Module, batch: Batch) -> Tuple[torch.Tensor, int]:
        images, labels = batch
        return functional.cross_entropy(model(images), labels, reduction="sum"), len(labels)

    def evaluate(self, model: nn.Module, batch: Batch) -> Tuple[int, int]:
        images, labels = batch
        return int((model(images).argmax(1) == labels).sum()), len(labels)

    def optimizer(self, params: Iterable[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=5e-4)

    def train_data(self) -> Any:
        if self.data is not None:
            return self._stored(self.data, "train")
        return SyntheticImages(SYNTHETIC_TRAIN, self.image_size, self.num_classes)

    def test_data(self) -> Any:
        if self.data is not None:
            return self._stored(self.data, "test")
        return SyntheticImages(SYNTHETIC_TEST, self.image_size, self.num_classes, first=SYNTHETIC_TRAIN)

    def example_input(self, batch_size: int) -> Batch:
        images = torch.zeros(batch_size, 3, self.image_size, self.image_size)
        return images, torch.zeros(batch_size, dtype=torch.long)

    def _stored(self, path: str, part: str) -> Any:
        """Part of a file that torch.save wrote: {"train": (images, labels), "test": ...}; None without a test part."""
        parts = torch.load(path, map_location="cpu")
        if part not in parts:
            if part == "test":
                return None
            raise ValueError("{} has no part '{}'".format(path, part))
        images, labels = parts[part]
        expected = (3, self.image_size, self.image_size)
        if tuple(images.shape[1:]) != expected:
            raise ValueError(
                "{}: images are {} each, this workload takes {}".format(path, tuple(images.shape[1:]), expected)
            )
        return torch.utils.data.TensorDataset(images, labels)


def resnet18(image_size: int = 224, num_classes: int = 10, data: Optional[str] = None) -> ResNet18Workload:
    """The workload; `data` is the path of a stored data set, without it the data are synthetic.

    Raises:
        ValueError: an argument that is no whole number in range.
    """
    for name, value, lowest in (("image_size", image_size, 8), ("num_classes", num_classes, 2)):
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise ValueError("{} must be a whole number >= {}, not {!r}".format(name, lowest, value))
    return ResNet18Workload(image_size, num_classes, data)
