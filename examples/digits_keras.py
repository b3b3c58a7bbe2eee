# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits for Keras; cpp/data/README.md names their source."""

import pathlib

import keras
import numpy as np

DIGITS = pathlib.Path(__file__).parent / "cpp" / "data" / "digits.txt"


def load() -> tuple[np.ndarray, np.ndarray]:
    """1797 images of 8 by 8 pixels with values from 0 to 1, and their labels."""
    lines = DIGITS.read_text().splitlines()
    labels = np.array([int(line[0]) for line in lines])
    pixels = np.array([["0123456789abcdefg".index(c) for c in line[2:]] for line in lines])
    return pixels.reshape(-1, 8, 8, 1).astype("float32") / 16, labels


def is_test(labels: np.ndarray) -> np.ndarray:
    """Every fifth image is a test image, which is not used in training."""
    return np.arange(len(labels)) % 5 == 0


def net() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
