"""Generated images for classifiers: every class is a pattern of coloured patches, every image a noisy copy of one."""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from paceline.workloads.base import BatchTensors, Indices

_PATCHES = 8  # per side
_VALUES = 3 * _PATCHES * _PATCHES

_Words = npt.NDArray[np.uint64]


class Patterns:
    """Images made on request from their index alone; only one small pattern per class is kept."""

    def __init__(self, count: int, image: int, classes: int, *, seed: int) -> None:
        self._count = count
        self._image = image
        self._classes = classes
        self._seed = seed
        # The patterns are the same for every seed: sets with different seeds show the same classes.
        self._patterns = np.random.default_rng(0).standard_normal((classes, _VALUES), dtype=np.float32)

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Indices) -> BatchTensors:
        """Images (samples × 3 × image × image, mean 0, variance 1) and labels."""
        labels = indices % self._classes
        patches = (self._patterns[labels] + self._noise(indices)) * np.float32(0.5**0.5)
        coarse = torch.from_numpy(patches).view(-1, 3, _PATCHES, _PATCHES)
        images = F.interpolate(coarse, size=(self._image, self._image), mode="nearest")
        return images, torch.from_numpy(labels)

    def _noise(self, indices: Indices) -> npt.NDArray[np.float32]:
        """Uniform noise of mean 0 and variance 1, a function of seed, index and position."""
        numbers: _Words = indices.astype(np.uint64) + np.uint64(self._seed << 40)
        positions: _Words = np.arange(_VALUES).astype(np.uint64)
        words = _scramble(np.add.outer(_scramble(numbers), positions))
        uniform = (words >> np.uint64(40)).astype(np.float32) / np.float32(2**24)
        return (uniform - np.float32(0.5)) * np.float32(12**0.5)


def _scramble(words: _Words) -> _Words:
    """The output function of the SplitMix64 generator: independent words from consecutive numbers."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
