"""A small decoder-only transformer that predicts the next character of a text, in plain torch.

A character is a byte of the text's UTF-8: any file will do, and the model does not depend on it.
"""

import math
from typing import Iterable, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional

from ._common import check_whole, read_data

VOCABULARY = 256

Batch = Tuple[torch.Tensor, torch.Tensor]  # characters (n, sequence) and their successors (n, sequence), int64


class Block(nn.Module):
    """Causal self-attention, then a two-layer network, each normalized before and added after.

    Args:
        embedding: Width of the (n, sequence, embedding) tensors that go in and out.
        heads: Attention heads; divides `embedding`.
        sequence: Longest sequence.
    """

    future: torch.Tensor

    def __init__(self, embedding: int, heads: int, sequence: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(embedding)
        self.query_key_value = nn.Linear(embedding, 3 * embedding)
        self.out = nn.Linear(embedding, embedding)
        self.norm2 = nn.LayerNorm(embedding)
        self.network = nn.Sequential(
            nn.Linear(embedding, 4 * embedding), nn.GELU(), nn.Linear(4 * embedding, embedding)
        )
        positions = torch.arange(sequence)
        self.register_buffer("future", positions[None, :] > positions[:, None], persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        out: torch.Tensor = x + self.network(self.norm2(x))
        return out

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Attention of every position to itself and what came before; torch 1 has no call for all of it."""
        count, length, width = x.shape
        parts = self.query_key_value(x).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)  # each (n, heads, sequence, width / heads)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(self.future[:length, :length], -math.inf).softmax(-1)
        out: torch.Tensor = self.out((weights @ value).transpose(1, 2).reshape(count, length, width))
        return out


class CharTransformer(nn.Module):
    """Characters (n, sequence) to the scores of the next one (n, sequence, 256).

    There is no dropout: a step is then a function of its batch alone.
    """

    def __init__(self, layers: int, heads: int, embedding: int, sequence: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, embedding)
        self.positions = nn.Parameter(torch.zeros(sequence, embedding))
        self.blocks = nn.Sequential(*[Block(embedding, heads, sequence) for _ in range(layers)])
        self.norm = nn.LayerNorm(embedding)
        self.head = nn.Linear(embedding, VOCABULARY)
        nn.init.normal_(self.positions, std=0.02)
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                # What is added to the sum of the blocks starts small, so that their number does not matter.
                added = name.endswith((".out", ".network.2"))
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * layers) if added else 0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.characters(x) + self.positions[: x.shape[1]]
        out: torch.Tensor = self.head(self.norm(self.blocks(x)))
        return out


class Windows(torch.utils.data.Dataset[Tuple[torch.Tensor, torch.Tensor]]):
    """Windows of a text: item i is (sequence,) characters from i * stride on, and their successors.

    Args:
        text: Characters, uint8, (length,) with length > sequence.
        sequence: Characters a window.
        stride: Characters between the beginnings of two windows.
    """

    def __init__(self, text: torch.Tensor, sequence: int, stride: int) -> None:
        super().__init__()
        self.text = text
        self.sequence = sequence
        self.stride = stride

    def __len__(self) -> int:
        return (len(self.text) - self.sequence - 1) // self.stride + 1

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        window = self.text[index * self.stride :][: self.sequence + 1].long()
        return window[:-1], window[1:]


class CharTransformerWorkload:
    """The transformer with AdamW. Losses and counts are of characters, `sequence` of them a sample.

    The last tenth of the text is the test part. Training windows overlap by three quarters, test windows do not.
    """

    reference_batch = 64
    reference_lr = 1e-3

    def __init__(self, layers: int, heads: int, embedding: int, sequence: int, data: Optional[str]) -> None:
        self.layers = layers
        self.heads = heads
        self.embedding = embedding
        self.sequence = sequence
        self.data = data

    def model(self) -> nn.Module:
        return CharTransformer(self.layers, self.heads, self.embedding, self.sequence)

    def loss(self, model: nn.Module, batch: Batch) -> Tuple[torch.Tensor, int]:
        characters, successors = batch
        scores = model(characters).flatten(0, 1)
        return functional.cross_entropy(scores, successors.flatten(), reduction="sum"), successors.numel()

    def evaluate(self, model: nn.Module, batch: Batch) -> Tuple[int, int]:
        characters, successors = batch
        return int((model(characters).argmax(-1) == successors).sum()), successors.numel()

    def optimizer(self, params: Iterable[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.95), weight_decay=0.1)

    def train_data(self) -> Windows:
        return Windows(self._text()[0], self.sequence, max(self.sequence // 4, 1))

    def test_data(self) -> Windows:
        return Windows(self._text()[1], self.sequence, self.sequence)

    def example_input(self, batch_size: int) -> Batch:
        characters = torch.zeros(batch_size, self.sequence, dtype=torch.long)
        return characters, characters.clone()

    def _text(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """The training part and the test part of the text, uint8."""
        raw = read_data(self.data, "prose.txt")
        train = len(raw) - len(raw) // 10
        if len(raw) // 10 <= self.sequence:
            raise ValueError(
                "{} is too short: with sequence {} it takes {} characters, it has {}".format(
                    self.data or "the text", self.sequence, 10 * (self.sequence + 1), len(raw)
                )
            )
        text = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return text[:train], text[train:]


def char_transformer(
    layers: int = 6, heads: int = 8, embedding: int = 256, sequence: int = 64, data: Optional[str] = None
) -> CharTransformerWorkload:
    """The workload; `data` is the path of a text, without it the one that ships with the program.

    Raises:
        ValueError: an argument that is no whole number in range, or heads that do not divide the embedding.
    """
    check_whole(1, layers=layers, heads=heads, embedding=embedding, sequence=sequence)
    if embedding % heads:
        raise ValueError("embedding must be a multiple of heads, not {} with {} heads".format(embedding, heads))
    return CharTransformerWorkload(layers, heads, embedding, sequence, data)
