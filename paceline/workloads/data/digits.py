"""Generated handwriting: grey 28×28 images of the ten digits, the same on every machine and for every run."""

import numpy as np
import numpy.typing as npt

SIDE = 28
TRAIN = 60_000
VALIDATION = 10_000

_SHAPES_PER_DIGIT = 200
_MARGIN = 2  # pixels a digit may be shifted by, each way

# Pen strokes on a grid 8 wide and 12 high, y downwards.
_STROKES = (
    "3,0 5,0 7,2 8,6 7,10 5,12 3,12 1,10 0,6 1,2 3,0",
    "2,3 5,0 5,12",
    "0,3 1,1 4,0 7,1 8,3 7,6 0,12 8,12",
    "0,1 4,0 7,1 7,4 3,6 7,7 8,10 5,12 2,12 0,10",
    "6,12 6,0 0,8 8,8",
    "7,0 1,0 1,5 5,5 8,7 8,10 5,12 2,12 0,11",
    "7,0 3,2 0,7 1,11 4,12 7,11 8,8 5,6 2,6 0,9",
    "0,0 8,0 5,6 3,12",
    "4,6 1,4 1,1 4,0 7,1 7,4 4,6 8,8 8,11 4,12 0,11 0,8 4,6",
    "8,5 5,7 2,6 1,3 3,0 6,0 8,2 8,5 7,9 4,12",
)

_CENTRE = np.array([4, 6], dtype=np.float32)

_Floats = npt.NDArray[np.float32]
_Bytes = npt.NDArray[np.uint8]


def generate(total: int, *, seed: int, first: int | None = None) -> tuple[_Bytes, _Bytes]:
    """The first `first` of `total` images with their labels; they depend on `seed` and `total` only."""
    random = np.random.default_rng(seed)
    shapes = np.pad(_shapes(random), ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN)))
    labels = random.integers(0, 10, total, dtype=np.uint8)
    shape = labels.astype(np.int64) * _SHAPES_PER_DIGIT + random.integers(0, _SHAPES_PER_DIGIT, total)
    down, right = random.integers(0, 2 * _MARGIN + 1, (2, total))
    ink = random.integers(160, 256, total, dtype=np.uint16)
    windows = np.lib.stride_tricks.sliding_window_view(shapes, (SIDE, SIDE), axis=(1, 2))
    part = slice(0, first)
    images = windows[shape[part], down[part], right[part]]
    images = (images * ink[part, None, None] // 255).astype(np.uint8)
    return images, labels[part]


def _shapes(random: np.random.Generator) -> _Bytes:
    """Every digit in many handwritings, digit by digit."""
    return np.concatenate([_draw(_hands(strokes, random), random) for strokes in _STROKES])


def _hands(strokes: str, random: np.random.Generator) -> _Floats:
    """The corners of one digit in pixels (shapes × corners × 2), each in a different handwriting."""
    corners = np.array([point.split(",") for point in strokes.split()], dtype=np.float32) - _CENTRE
    count = _SHAPES_PER_DIGIT
    wobbled = corners + random.normal(0, 0.35, (count, *corners.shape)).astype(np.float32)
    width, height = random.uniform(1.1, 1.7, (2, count, 1)).astype(np.float32)
    slant = random.normal(0, 0.2, (count, 1)).astype(np.float32)
    y = wobbled[..., 1] * height
    x = wobbled[..., 0] * width - slant * y
    return np.stack([x, y], axis=-1) + np.float32((SIDE - 1) / 2)


def _draw(corners: _Floats, random: np.random.Generator) -> _Bytes:
    """Draw the lines from corner to corner with a soft pen of random thickness."""
    pen = random.uniform(0.7, 1.6, (len(corners), 1)).astype(np.float32)
    rows, columns = np.divmod(np.arange(SIDE * SIDE, dtype=np.float32), SIDE)
    squared = np.full((len(corners), SIDE * SIDE), np.inf, dtype=np.float32)
    for start, end in zip(corners[:, :-1].swapaxes(0, 1), corners[:, 1:].swapaxes(0, 1), strict=True):
        (x, y), (dx, dy) = start.T[..., None], (end - start).T[..., None]
        # The nearest point of the line is start + along·(end − start), 0 ≤ along ≤ 1.
        along = np.clip(((columns - x) * dx + (rows - y) * dy) / (dx * dx + dy * dy + 1e-6), 0, 1)
        np.minimum(squared, (columns - x - along * dx) ** 2 + (rows - y - along * dy) ** 2, out=squared)
    cover: _Floats = np.clip(pen - np.sqrt(squared) + 0.5, 0, 1)
    return (cover * 255).astype(np.uint8).reshape(-1, SIDE, SIDE)
