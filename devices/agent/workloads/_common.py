"""What named workloads share: argument checks, classification of images, synthetic and stored pictures."""

import os
import pkgutil
from typing import Any, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional

SMALL_IMAGE = 64  # up to here the stem of a network for large pictures would leave too little of them
SYNTHETIC_TRAIN = 2048
SYNTHETIC_TEST = 512

Batch = Tuple[torch.Tensor, torch.Tensor]  # images (n, channels, height, width), float, and labels (n,), int64


def check_whole(lowest: int, **values: Any) -> None:
    """Refuse every value that is no whole number >= `lowest`.

    Raises:
        ValueError: names the argument.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise ValueError("{} must be a whole number >= {}, not {!r}".format(name, lowest, value))


def read_data(path: Optional[str], shipped: str) -> bytes:
    """The bytes of the file at `path`; without one, of the file `shipped` in this package's folder `data`.

    Raises:
        ValueError: the file cannot be read.
    """
    try:
        if path is not None:
            with open(os.path.expanduser(path), "rb") as file:
                return file.read()
        folder = os.environ.get("TUNER_AGENT_DATA")  # where the agent's archive was copied without its data
        if folder is not None:
            with open(os.path.join(folder, shipped), "rb") as file:
                return file.read()
        raw = pkgutil.get_data(__name__, "data/" + shipped)
    except OSError as error:
        what = "{} of this program".format(shipped) if path is None else path
        raise ValueError("the data cannot be read: {}: {}".format(what, error.strerror or error)) from error
    if raw is None:
        raise ValueError("the data cannot be read: {} is not shipped with this program".format(shipped))
    return raw


class Classification:
    """Loss and accuracy of one label a sample."""

    def loss(self, model: nn.Module, batch: Batch) -> Tuple[torch.Tensor, int]:
        images, labels = batch
        return functional.cross_entropy(model(images), labels, reduction="sum"), len(labels)

    def evaluate(self, model: nn.Module, batch: Batch) -> Tuple[int, int]:
        images, labels = batch
        return int((model(images).argmax(1) == labels).sum()), len(labels)


class ImageWorkload(Classification):
    """Classification of square pictures of three channels, synthetic or from a file.

    Args:
        image_size: Height and width in pixels.
        num_classes: Labels are 0 to num_classes - 1.
        data: Path of a file that torch.save wrote: {"train": (images, labels), "test": (images, labels)}, images
            (n, 3, image_size, image_size), floating point, labels (n,), int64; "test" may be left out.

    Raises:
        ValueError: an argument that is no whole number in range.
    """

    def __init__(self, image_size: int, num_classes: int, data: Optional[str]) -> None:
        check_whole(8, image_size=image_size)
        check_whole(2, num_classes=num_classes)
        self.image_size = image_size
        self.num_classes = num_classes
        self.data = data
        self.small = image_size <= SMALL_IMAGE
        self.reference_batch = 128 if self.small else 32  # what people train small and large pictures with

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
        """A part of the file at `path`; None where it has no test part."""
        try:
            parts = torch.load(os.path.expanduser(path), map_location="cpu")
        except Exception as error:  # torch raises many kinds, for what is absent as for what is no such file
            raise ValueError(
                "the data cannot be read: {}: {}".format(path, str(error).split("\n")[0] or type(error).__name__)
            ) from error
        form = 'torch.save writes it from {"train": (images, labels), "test": (images, labels)}'
        if not isinstance(parts, dict):
            raise ValueError("{} is no stored data set; {}".format(path, form))
        if part not in parts:
            if part == "test":
                return None
            raise ValueError("{} has no part '{}'; {}".format(path, part, form))
        pair = parts[part]
        if (
            not isinstance(pair, (tuple, list))
            or len(pair) != 2
            or not all(isinstance(tensor, torch.Tensor) for tensor in pair)
            or pair[1].dim() != 1
            or len(pair[0]) != len(pair[1])
            or len(pair[1]) == 0
        ):
            raise ValueError("{}: part '{}' is no pair of as many images as labels; {}".format(path, part, form))
        images, labels = pair
        expected = (3, self.image_size, self.image_size)
        if tuple(images.shape[1:]) != expected:
            raise ValueError(
                "{}: images are {} each, this workload takes {}".format(path, tuple(images.shape[1:]), expected)
            )
        if not images.is_floating_point() or labels.dtype != torch.long:
            raise ValueError(
                "{}: images are {} and labels {}; they must be floating point and int64".format(
                    path, images.dtype, labels.dtype
                )
            )
        if int(labels.min()) < 0 or int(labels.max()) >= self.num_classes:
            raise ValueError(
                "{}: labels go from {} to {}, this workload takes 0 to {}; set num_classes".format(
                    path, int(labels.min()), int(labels.max()), self.num_classes - 1
                )
            )
        return torch.utils.data.TensorDataset(images, labels)


class SyntheticImages(torch.utils.data.Dataset[Tuple[torch.Tensor, int]]):
    """Noise over one fixed pattern a class: right in shape, and something to learn. Item i is always the same.

    Args:
        length: Number of items.
        image_size: Items are (3, image_size, image_size), with a label.
        num_classes: Number of patterns.
        first: Number of the first item; parts that share no number share no item.
    """

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
