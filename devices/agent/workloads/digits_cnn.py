"""A small convolutional network on 1797 handwritten digits of 8x8 pixels: real data, learnt in seconds.

The images are in `data/digits.gz`; `data/README.md` says where they come from.
"""

import zlib
from typing import Any, Iterable, Optional, Tuple

import torch
from torch import nn

from ._common import Batch, Classification, read_data

TRAIN = 1437
TEST = 360
MAGIC = b"# 8x8 digits"
HIGHEST = 16  # pixels are 0 to 16


class DigitsCNN(nn.Module):
    """Two convolutions, pooling, two linear layers: images (n, 1, 8, 8) to scores (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(inplace=True),
            nn.Linear(128, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


class DigitsWorkload(Classification):
    """The network with SGD; reaches 95 % of the test images within a few epochs. `data`: another file of that form."""

    reference_batch = 32
    reference_lr = 0.01  # 0.05 would do at this batch, but not scaled to one of 256

    def __init__(self, data: Optional[str]) -> None:
        self.data = data

    def model(self) -> nn.Module:
        return DigitsCNN()

    def optimizer(self, params: Iterable[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, momentum=0.9)

    def train_data(self) -> Any:
        images, labels = self._read()
        return torch.utils.data.TensorDataset(images[:TRAIN], labels[:TRAIN])

    def test_data(self) -> Any:
        images, labels = self._read()
        return torch.utils.data.TensorDataset(images[TRAIN:], labels[TRAIN:])

    def example_input(self, batch_size: int) -> Batch:
        return torch.zeros(batch_size, 1, 8, 8), torch.zeros(batch_size, dtype=torch.long)

    def _read(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """All images (1797, 1, 8, 8), 0 to 1, and labels (1797,); the training part comes first."""
        raw = read_data(self.data, "digits.gz")
        try:
            head, _, body = zlib.decompress(raw, 16 + zlib.MAX_WBITS).partition(b"\n\n")
        except zlib.error:
            head, body = b"", b""
        count = TRAIN + TEST
        if not head.startswith(MAGIC) or len(body) != count * 65:
            raise ValueError("{} is no file of digits as experiments/make_digits.py writes it".format(self.data))
        values = torch.frombuffer(bytearray(body), dtype=torch.uint8)
        images = values[count:].reshape(count, 1, 8, 8).float() / HIGHEST
        return images, values[:count].long()


def digits_cnn(data: Optional[str] = None) -> DigitsWorkload:
    """The workload; `data` is the path of a file of digits, without it the images that ship with the program."""
    return DigitsWorkload(data)
