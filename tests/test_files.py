"""Files are there whole or not at all, whoever writes them and however it ends."""

import errno
import os
from pathlib import Path

import pytest

from paceline.files import whole_file, write_whole


def test_text_and_bytes_are_written_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_whole(file, "95 %: 1–2 µs")
    assert file.read_text(encoding="utf-8") == "95 %: 1–2 µs"
    write_whole(file, b"\x00\xff")
    assert file.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_fails_midway_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_whole(file, "old")

    def write_half() -> None:
        with whole_file(file) as out:
            out.write(b"half of the ne")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_the_name_is_given_only_when_all_is_written(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.npz") as out:
        out.write(b"half")
        out.flush()
        assert not (tmp_path / "a.npz").exists()
    assert (tmp_path / "a.npz").read_bytes() == b"half"


@pytest.mark.parametrize("links", [True, False])
def test_what_must_not_be_overwritten_is_not_even_by_a_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, "this file system has no links")

    def write_too_late() -> None:
        with whole_file(tmp_path / "raced", overwrite=False) as out:
            out.write(b"slow")
            (tmp_path / "raced").write_text("fast")

    if not links:
        monkeypatch.setattr("os.link", refuse)
    write_whole(tmp_path / "new", "first", overwrite=False)
    assert (tmp_path / "new").read_text() == "first"
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "new", "second", overwrite=False)
    with pytest.raises(FileExistsError):
        write_too_late()
    assert ((tmp_path / "new").read_text(), (tmp_path / "raced").read_text()) == ("first", "fast")
    assert sorted(os.listdir(tmp_path)) == ["new", "raced"]


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_link_is_followed_so_that_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here.html").symlink_to(tmp_path / "there" / "page.html")
    write_whole(tmp_path / "here.html", "page")
    assert (tmp_path / "here.html").is_symlink()
    assert (tmp_path / "there" / "page.html").read_text() == "page"


def test_a_folder_that_is_not_there_is_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "a.json", "text")
