"""Files that appear under their name whole or not at all, and survive a loss of power."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""What file systems answer that have no hard links."""


@contextlib.contextmanager
def whole_file(file: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block ends well, and is removed when it does not.

    Without `overwrite`, `FileExistsError` is raised where the name is taken, even if it was taken meanwhile. What is
    no regular file, such as /dev/stdout, is written to directly.
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
    """Write all of a file's content, whole or not at all; text as UTF-8."""
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
    """Unlike a rename, a link fails when somebody else was faster."""
    try:
        os.link(partial, target)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        partial.rename(target)
