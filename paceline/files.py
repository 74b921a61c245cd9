"""Write files atomically: a file appears complete or not at all, and survives a power loss."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""Error codes of file systems without hard links."""


@contextlib.contextmanager
def whole_file(file: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block succeeds, and is removed when the block fails.

    Without `overwrite`, raise `FileExistsError` if the name is taken, even if it was taken meanwhile. Anything but a
    regular file, such as /dev/stdout, is written to directly.
    """
    if not overwrite and file.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
    if file.exists() and not file.is_file():
        with file.open("wb") as out:
            yield out
        return
    target = file.resolve() if file.is_symlink() else file
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if overwrite:
            partial.replace(target)
        else:
            _give_name(partial, target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    sync(target.parent)


def write_whole(file: Path, content: str | bytes, *, overwrite: bool = True) -> None:
    """Write a file's content, complete or not at all; text is encoded as UTF-8."""
    with whole_file(file, overwrite=overwrite) as out:
        out.write(content.encode() if isinstance(content, str) else content)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give_name(partial: Path, target: Path) -> None:
    """Link instead of renaming: a link fails if another process has taken the name first."""
    try:
        os.link(partial, target)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        partial.rename(target)
