"""Write `devices/agent/workloads/data/digits.gz` from the digits of scikit-learn: `python -m experiments.make_digits`.

A gzip file: lines of text that say what it is, an empty line, 1797 labels (a byte each, 0 to 9), then as many images
of 64 pixels, row by row (a byte each, 0 to 16). The first 1437 images are the training part, the rest the test part.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

OUT = Path(__file__).resolve().parent.parent / "devices" / "agent" / "workloads" / "data" / "digits.gz"
TEST = 360
HEADER = """\
# 8x8 digits: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998, UCI repository,
# as distributed with scikit-learn (sklearn.datasets.load_digits), BSD-3-Clause

"""


def encode() -> bytes:
    """The content of the file before compression."""
    digits = load_digits()
    images, labels = digits.data.astype(np.uint8), digits.target.astype(np.uint8)
    order = split(labels)
    return bytes(HEADER.encode() + labels[order].tobytes() + images[order].tobytes())


def split(labels: np.ndarray) -> np.ndarray:
    """The order of the images in the file: training part, then test part, each as they came.

    Every fifth image or so of the list sorted by label is for testing, so that each label has its share.
    """
    count = len(labels)
    by_label = np.argsort(labels, kind="stable")
    steps = np.arange(count + 1) * TEST // count
    is_test = np.zeros(count, dtype=bool)
    is_test[by_label] = np.diff(steps) == 1
    return np.concatenate([np.flatnonzero(~is_test), np.flatnonzero(is_test)])


if __name__ == "__main__":
    OUT.write_bytes(gzip.compress(encode(), compresslevel=9, mtime=0))
