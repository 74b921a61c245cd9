"""Frames and steering angles of a driving simulator: its driving_log.csv, and the frames beside it."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from paceline.errors import DataError
from paceline.workloads.base import BatchTensors, Indices
from paceline.workloads.data import folder

FOLDERS = ("driving",)
LOG = "driving_log.csv"
HEIGHT, WIDTH = 66, 200

# Of a frame's height: what is sky and hills above the road, and the car's own hood below it.
_SKY, _HOOD = 0.375, 0.15

_CENTRE, _STEERING = 0, 3  # columns of a log without a header: centre, left, right, steering, throttle, brake, speed
_VALIDATE_EVERY = 5


@dataclass(frozen=True)
class Shot:
    """One row of the log: the centre camera's frame and the steering angle at that moment."""

    row: int
    frame: Path
    angle: float


class Frames:
    """Frames that are decoded at first use and then kept cropped and small: 39,600 bytes each."""

    def __init__(self, shots: Sequence[Shot]) -> None:
        self._shots = shots
        self._angles = np.array([shot.angle for shot in shots], dtype=np.float32)
        self._decoded = np.empty((len(shots), 3, HEIGHT, WIDTH), dtype=np.uint8)
        self._known = np.zeros(len(shots), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._shots)

    def batch(self, indices: Indices) -> BatchTensors:
        """Frames (samples × 3 × 66 × 200, YUV from −1 to 1) and steering angles in the unit of the log."""
        for index in indices[~self._known[indices]]:
            self._decoded[index] = _decode(self._shots[index])
            self._known[index] = True
        frames = torch.from_numpy(self._decoded[indices]).float()
        return frames.div_(127.5).sub_(1), torch.from_numpy(self._angles[indices])


def load(path: Path, samples: int | None = None) -> tuple[Frames, Frames]:
    """Frames to train on (the first `samples` of them) and to validate with: every fifth, so both cover the track."""
    log = path / LOG
    shots = read(log)
    if len(shots) < _VALIDATE_EVERY:
        raise DataError(
            f"{log} has {len(shots)} rows: at least {_VALIDATE_EVERY} are needed, of which one is for validation."
        )
    _check_presence(log, shots)
    validation = shots[_VALIDATE_EVERY - 1 :: _VALIDATE_EVERY]
    train = [shot for number, shot in enumerate(shots, 1) if number % _VALIDATE_EVERY]
    return Frames(train[: folder.limit(len(train), samples, str(log))]), Frames(validation)


def read(log: Path) -> list[Shot]:
    """The rows of a log, with or without a header; frames are looked for next to it, whichever machine wrote it."""
    try:
        # A damaged character in a foreign folder's name does no harm: only the frame's own name is used.
        with log.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file, skipinitialspace=True)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except (OSError, csv.Error) as error:
        raise DataError(f"{log} cannot be read ({error}): put the simulator's log there.") from error
    centre, steering = _CENTRE, _STEERING
    if rows and _is_header(rows[0][1]):
        centre, steering = _columns(log, rows.pop(0)[1])
    return [_shot(log, number, row, centre, steering) for number, row in rows]


def _is_header(row: Sequence[str]) -> bool:
    return any(cell.lower() == "steering" for cell in row)


def _columns(log: Path, header: Sequence[str]) -> tuple[int, int]:
    names = [cell.lower() for cell in header]
    centre = next((names.index(name) for name in ("center", "centre") if name in names), None)
    if centre is None:
        raise DataError(
            f"{log} has no column 'center', only {', '.join(header)}: rename the column of the frames to center."
        )
    return centre, names.index("steering")


def _shot(log: Path, number: int, row: Sequence[str], centre: int, steering: int) -> Shot:
    if len(row) <= max(centre, steering):
        raise DataError(
            f"Row {number} of {log} has {len(row)} columns, too few for frame and steering angle: correct or remove it."
        )
    try:
        angle = float(row[steering])
    except ValueError:
        angle = math.nan
    if not math.isfinite(angle):
        raise DataError(
            f"Row {number} of {log} has the steering angle {row[steering]!r}, not a number: correct or remove it."
        )
    return Shot(number, _frame(log.parent, row[centre]), angle)


def _frame(path: Path, written: str) -> Path:
    """Where a frame should be: in IMG/ under its own name, or where the log says if that is relative."""
    foreign = PureWindowsPath(written)  # splits at / and at \
    in_img = path / "IMG" / foreign.name
    relative = path / foreign.as_posix()
    if not foreign.anchor and not in_img.is_file() and relative.is_file():
        return relative
    return in_img


def _check_presence(log: Path, shots: Sequence[Shot]) -> None:
    missing = [shot for shot in shots if not shot.frame.is_file()]
    if len(missing) == len(shots):
        raise DataError(f"None of the {len(shots)} frames of {log} is in {log.parent / 'IMG'}: put the frames there.")
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(shots)} frames of {log} are missing, first {missing[0].frame} of row "
            f"{missing[0].row}: add the frames, or remove their rows."
        )


def _decode(shot: Shot) -> npt.NDArray[np.uint8]:
    """A frame without sky and hood, 3 × 66 × 200 in YUV."""
    try:
        with Image.open(shot.frame) as opened:
            width, height = opened.size
            road = (0, round(height * _SKY), width, round(height * (1 - _HOOD)))
            frame = opened.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR, box=road)
    except (OSError, SyntaxError, ValueError) as error:  # all that Pillow raises for a damaged file
        raise DataError(
            f"Row {shot.row}: the frame {shot.frame} cannot be read ({error}): replace it, or remove the row."
        ) from error
    return np.asarray(frame.convert("YCbCr")).transpose(2, 0, 1)
