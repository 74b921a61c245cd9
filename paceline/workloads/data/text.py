"""Parallel text: a reader of `train.en`, `train.de` and similar files, and sentence pairs stored without padding."""

import gzip
import itertools
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from paceline.errors import DataError
from paceline.workloads.base import BatchTensors, Data, Indices

PAD, UNKNOWN, START, END = range(4)
FIRST_WORD = 4
"""Ids below this one are not words."""

SUBFOLDERS = ("wmt14", "multi30k", "text")
"""Where parallel text is looked for; the first folder that exists is used."""

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_TOKEN = re.compile(r"\w+|[^\w\s]")

Words: TypeAlias = npt.NDArray[np.int32]
Numbers: TypeAlias = "defaultdict[str, int]"
"""Words in the order they were first seen, so that the text is read once and ranked afterwards."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences stored one after another, so that short ones take no extra memory."""

    words: Words
    starts: Indices
    """Where each sentence begins, and finally where the last one ends."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def padded(self, indices: Indices, *, end: bool = False) -> Tensor:
        """These sentences, padded to the longest of them; with the end symbol after each if requested."""
        starts = self.starts[indices]
        lengths = self.starts[indices + 1] - starts
        columns = np.arange(lengths.max() + end)
        inside = columns < lengths[:, None]
        rows = np.where(inside, self.words[np.where(inside, starts[:, None] + columns, 0)], PAD).astype(np.int64)
        if end:
            rows[np.arange(len(rows)), lengths] = END
        return torch.from_numpy(rows)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Examples of translation: a batch is the source words, and the target words with the end symbol."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, indices: Indices) -> BatchTensors:
        """These pairs, each side padded to the longest sentence of the batch."""
        return self.source.padded(indices), self.target.padded(indices, end=True)


@dataclass(frozen=True)
class _Files:
    """The two files of one part of the data; line n of one translates line n of the other."""

    source: Path
    target: Path

    def __iter__(self) -> Iterator[Path]:
        return iter((self.source, self.target))


def load(folder: Path, *, vocabulary: int, length: int, samples: int | None = None) -> Data:
    """The parallel text in `folder`, cut to `length` words a sentence and to the first `samples` pairs.

    Pairs with an empty side are left out. The vocabulary is the most frequent words of the training text,
    or the lines of `vocab.en` and `vocab.de` if these files exist.
    """
    languages = _languages(folder)
    numbers = cast("tuple[Numbers, Numbers]", tuple(defaultdict(itertools.count().__next__) for _ in languages))
    train = _read(_training(folder, languages), numbers, length, samples)
    files = _validation(folder, languages)
    validation = _read(files, numbers, length, None) if files else None
    ids = [
        _ids(folder, language, known, side.words, vocabulary)
        for language, known, side in zip(languages, numbers, (train.source, train.target), strict=True)
    ]
    return Data(
        train=_translated(train, ids),
        validation=_translated(validation, ids) if validation else None,
        source=f"{folder} ({languages[0]} to {languages[1]})",
    )


def tokens(line: str) -> list[str]:
    """Lower-cased words and single punctuation marks; nothing else is done to a sentence."""
    return _TOKEN.findall(line.lower())


def _languages(folder: Path) -> tuple[str, str]:
    names = (re.fullmatch(r"train\.(?!gz)([A-Za-z_-]+)(?:\.gz)?", path.name) for path in folder.iterdir())
    languages = sorted({match[1] for match in names if match})
    if len(languages) != 2:
        there = ", ".join(f"train.{language}" for language in languages) or "no such file"
        raise DataError(
            f"{folder} must hold the training text of exactly two languages, but holds {there}.\n"
            "Put train.en and train.de there (plain or .gz), or use data=generated."
        )
    source, target = sorted(languages, key=lambda language: language != "en")  # from English, if it is one of them
    return source, target


def _file(folder: Path, stem: str, language: str) -> Path | None:
    plain, packed = folder / f"{stem}.{language}", folder / f"{stem}.{language}.gz"
    return next((path for path in (plain, packed) if path.is_file()), None)


def _training(folder: Path, languages: Sequence[str]) -> _Files:
    files = _pair(folder, "train", languages)
    assert files is not None  # its languages were read off the names of these files
    return files


def _validation(folder: Path, languages: Sequence[str]) -> _Files | None:
    tests = {path.name.removesuffix(".gz").rpartition(".")[0] for path in folder.glob("test*.*")}
    pairs = (_pair(folder, stem, languages) for stem in ("val", "valid", "dev", *sorted(tests)))
    return next(filter(None, pairs), None)


def _pair(folder: Path, stem: str, languages: Sequence[str]) -> _Files | None:
    source, target = (_file(folder, stem, language) for language in languages)
    if source and target:
        return _Files(source, target)
    if source or target:
        absent = languages[1] if source else languages[0]
        raise DataError(f"{source or target} has no {stem}.{absent} beside it: add that file, or remove this one.")
    return None


def _lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with cast("IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            for number, line in enumerate(file, 1):  # noqa: B007 (named in the refusal below)
                yield line.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}, line {number}, is not UTF-8: convert the file, as with iconv -t UTF-8.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is truncated or not gzip ({error}): fetch it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check that you may read it.") from error


def _read(files: _Files, numbers: tuple[Numbers, Numbers], length: int, samples: int | None) -> Pairs:
    """All pairs of two files, their words as `numbers`; read side by side, once."""
    sides = [array("i"), array("i")]
    starts = [array("q", [0]), array("q", [0])]
    pairs = itertools.zip_longest(*map(_lines, files))
    while samples is None or len(starts[0]) <= samples:
        lines = next(pairs, None)
        if lines is None:
            break
        if None in lines:
            raise _uneven(files)
        words = [tokens(line)[:length] for line in lines]
        if all(words):
            for side, start, known, sentence in zip(sides, starts, numbers, words, strict=True):
                side.extend(map(known.__getitem__, sentence))
                start.append(len(side))
    if len(starts[0]) == 1:
        raise DataError(f"{files.source} and {files.target} hold no pair of sentences: fetch them again.")
    source, target = (
        Sentences(np.frombuffer(side, np.int32), np.frombuffer(start, np.int64))
        for side, start in zip(sides, starts, strict=True)
    )
    return Pairs(source, target)


def _uneven(files: _Files) -> DataError:
    counts = [sum(1 for _ in _lines(path)) for path in files]
    there = " and ".join(f"{path} has {count:,}" for path, count in zip(files, counts, strict=True))
    return DataError(f"{there} lines: line n must translate line n. Fetch both files again.")


def _ids(folder: Path, language: str, numbers: Mapping[str, int], words: Words, vocabulary: int) -> Words:
    """From the number of a word to its id in a vocabulary of this size."""
    ids = np.full(len(numbers), UNKNOWN, np.int32)
    given = _file(folder, "vocab", language)
    if given:
        entries = dict.fromkeys(line.strip().lower() for line in _lines(given))
        listed = [word for word in entries if word and word not in _SPECIAL][: vocabulary - FIRST_WORD]
        if not listed:
            raise DataError(f"{given} is empty: write one word per line, or remove it to count the words instead.")
        for id_, word in enumerate(listed, FIRST_WORD):
            if word in numbers:
                ids[numbers[word]] = id_
        return ids
    counts = np.bincount(words, minlength=len(numbers))
    ranked = np.argsort(-counts, kind="stable")[: min(vocabulary - FIRST_WORD, np.count_nonzero(counts))]
    ids[ranked] = np.arange(FIRST_WORD, FIRST_WORD + len(ranked))
    return ids


def _translated(pairs: Pairs, ids: Sequence[Words]) -> Pairs:
    source, target = (
        Sentences(table[side.words], side.starts) for table, side in zip(ids, (pairs.source, pairs.target), strict=True)
    )
    return Pairs(source, target)
