"""Images and labels in the idx format of MNIST and Fashion-MNIST, plain or gzipped."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from paceline.errors import DataError
from paceline.workloads.base import BatchTensors, Indices
from paceline.workloads.data import folder

Bytes: TypeAlias = npt.NDArray[np.uint8]

MNIST = ("mnist", "MNIST/raw", "MNIST")
FASHION_MNIST = ("fashion-mnist", "fashion", "FashionMNIST/raw", "FashionMNIST")
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts it."""

_UNSIGNED_BYTE = 0x08  # the idx code of the only element type these data sets use


class ByteImages:
    """Grey images kept as one byte per pixel; a batch holds them as floats from 0 to 1, and their labels."""

    def __init__(self, images: Bytes, labels: Bytes) -> None:
        if len(images) != len(labels):
            raise ValueError(f"There are {len(images)} images but {len(labels)} labels.")
        self._images = images
        self._labels = labels

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, indices: Indices) -> BatchTensors:
        """Images (samples × 1 × height × width) and labels."""
        images = torch.from_numpy(self._images[indices]).unsqueeze(1)
        labels = torch.from_numpy(self._labels[indices])
        return images.float().div_(255), labels.long()


def find_fashion_mnist() -> Path | None:
    """The user's folder of Fashion-MNIST, or that of Debian's package."""
    place = folder.find(FASHION_MNIST)
    if place is None and DEBIAN_FASHION_MNIST.is_dir():
        return DEBIAN_FASHION_MNIST
    return place


def load(path: Path, part: str, side: int, samples: int | None = None, *, option: str = "samples") -> ByteImages:
    """The first `samples` square images of `part` (`train` or `t10k`) of the data set in the folder `path`."""
    images_path = _locate(path, f"{part}-images-idx3-ubyte")
    labels_path = _locate(path, f"{part}-labels-idx1-ubyte")
    images, labels = read(images_path, dimensions=3), read(labels_path, dimensions=1)
    if images.shape[1:] != (side, side):
        sizes = "×".join(map(str, images.shape[1:]))
        raise DataError(f"{images_path} holds images of {sizes} pixels: they must be {side}×{side}; use another set.")
    if len(images) != len(labels):
        raise DataError(
            f"{images_path} has {len(images)} images but {labels_path} has {len(labels)} labels: "
            "they belong together; fetch both again."
        )
    count = folder.limit(len(images), samples, str(images_path), option=option)
    return ByteImages(images[:count], labels[:count])


def read(path: Path, *, dimensions: int) -> Bytes:
    """The array in an idx file of unsigned bytes; its header and its exact length are checked."""
    content = _content(path)
    # Header: two zero bytes, the element type, the number of dimensions, then each size as a big-endian uint32.
    expected = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if content[:4] != expected:
        raise DataError(
            f"{path} begins with {content[:4].hex() or 'nothing'}, not {expected.hex()}: "
            f"it is not an idx file of bytes in {dimensions} dimension(s); fetch it again."
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{path} ends inside its header: fetch it again.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    promised = int(np.prod(shape, dtype=object))  # Python integers: a corrupt header must not overflow
    if len(content) - start != promised:
        sizes = "×".join(map(str, shape))
        raise DataError(
            f"{path} holds {len(content) - start} bytes after its header, which announces {sizes} = {promised}: "
            "it is truncated or corrupt; fetch it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _locate(path: Path, name: str) -> Path:
    for candidate in (path / name, path / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DataError(f"There is no {name} or {name}.gz in {path}: put the data set's four idx files there.")


def _content(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return file.read()
        return path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): it is truncated or corrupt; fetch it again.") from error
