"""Generated road frames: a curved road seen from the driver's seat, and the steering angle that follows it."""

import numpy as np
import numpy.typing as npt
import torch

from paceline.workloads.base import BatchTensors, Indices

HEIGHT, WIDTH = 66, 200
TRAIN = 4_096
VALIDATION = 1_024

_HALF_ROAD = 90  # pixels at the bottom row
_BEND = 4.0  # pixels the middle of the road moves per unit of curvature and of distance
_REACH = 3.0  # half road widths to each side of the middle that the palette covers
_TONES = 1024  # entries of the palette
_GRAIN = 64  # pixels the grain may be shifted by

# Y, U, V from −1 to 1.
_GRASS = (-0.15, -0.25, -0.2)
_LINE = (0.6, 0.0, 0.0)
_ASPHALT = (-0.4, 0.02, 0.0)

_Floats = npt.NDArray[np.float32]


class Roads:
    """Frames drawn on request, the same every time; only five numbers of each are kept."""

    def __init__(self, count: int, *, seed: int) -> None:
        # One row per frame, so that a shorter set is the beginning of a longer one.
        draws = np.random.default_rng(seed).uniform(-1, 1, (count, 5)).astype(np.float32)
        self._curvature = draws[:, 0]
        self._offset = draws[:, 1] / 2  # of the car from the middle, in half road widths
        self._light = draws[:, 2] * np.float32(0.15)
        self._shift = ((draws[:, 3:] + 1) / 2 * _GRAIN).astype(np.int64)
        # Follow the bend and return to the middle. Within ±1, full lock, as simulators log it.
        self._angle = np.float32(0.8) * self._curvature - np.float32(0.4) * self._offset
        self._palette = _palette()
        grain = np.random.default_rng(0).uniform(-0.2, 0.2, (HEIGHT + _GRAIN, WIDTH + _GRAIN)).astype(np.float32)
        self._grain = np.lib.stride_tricks.sliding_window_view(grain, (HEIGHT, WIDTH))

    def __len__(self) -> int:
        return len(self._angle)

    def batch(self, indices: Indices) -> BatchTensors:
        """Frames (samples × 3 × 66 × 200, YUV from −1 to 1) and steering angles from −1 to 1."""
        tones = self._tones(indices)
        frames = np.empty((len(indices), 3, HEIGHT, WIDTH), dtype=np.float32)
        for channel, palette in enumerate(self._palette):
            frames[:, channel] = palette.take(tones, mode="clip")  # beyond the palette it is all grass
        down, right = self._shift[indices].T
        frames[:, 0] += self._grain[down, right]
        frames[:, 0] += self._light[indices, None, None]
        return torch.from_numpy(frames), torch.from_numpy(self._angle[indices])

    def _tones(self, indices: Indices) -> npt.NDArray[np.int64]:
        """For every pixel, where in the palette its sideways position on the ground is."""
        # On flat ground a row's scale is proportional to its height below the horizon (4 pixels above the frame),
        # and its distance to 1/scale. A bend moves the middle by curvature · distance² / 2, seen at that scale.
        scale = (np.arange(HEIGHT, dtype=np.float32) + 4) / (HEIGHT + 3)
        bend = self._curvature[indices, None] * _BEND * (1 / scale - 1)
        middle = WIDTH / 2 + bend - self._offset[indices, None] * _HALF_ROAD * scale
        per_pixel = _TONES / (2 * _REACH) / (_HALF_ROAD * scale)
        start = _TONES / 2 - middle * per_pixel
        tones = np.arange(WIDTH, dtype=np.float32) * per_pixel[:, None] + start[:, :, None].astype(np.float32)
        return tones.astype(np.int64)


def _palette() -> _Floats:
    """Y, U and V from the left verge to the right one: grass, edge line, asphalt, middle line, and back."""
    position = np.abs(np.linspace(-_REACH, _REACH, _TONES))[:, None]
    asphalt_or_line = np.where((position < 0.03) | (position > 0.9), _LINE, _ASPHALT)
    tones: _Floats = np.where(position > 1, _GRASS, asphalt_or_line).astype(np.float32).T
    return np.ascontiguousarray(tones)
