# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits that the examples train on; cpp/data/README.md names their source."""

import pathlib

import torch
from torch import nn

DIGITS = pathlib.Path(__file__).parent / "cpp" / "data" / "digits.txt"


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """1797 images of 8 by 8 pixels with values from 0 to 1, and their labels."""
    lines = DIGITS.read_text().splitlines()
    labels = torch.tensor([int(line[0]) for line in lines])
    pixels = torch.tensor([["0123456789abcdefg".index(c) for c in line[2:]] for line in lines])
    return pixels.view(-1, 1, 8, 8) / 16, labels


def is_test(labels: torch.Tensor) -> torch.Tensor:
    """Every fifth image is a test image, which is not used in training."""
    return torch.arange(len(labels)) % 5 == 0


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 10),
        )
