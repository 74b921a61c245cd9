"""Sentence pairs of an invented language and its translation: deterministic, learnable, every one of full length."""

import numpy as np
import numpy.typing as npt

from paceline.workloads.base import Data
from paceline.workloads.data.text import FIRST_WORD, Pairs, Sentences, Words

PAIRS = 20_000
VALIDATION_PAIRS = 1_000

_CLAUSE = np.array([0, 1, 2, 1])
"""The class of every word of a source clause: 0 quality, 1 thing, 2 action."""

_CLASSES = 3
_ORDER = np.array([1, 0, 3, 2])
"""Which word of the source clause is at each place of the target clause."""

_DICTIONARY_SEED, _TRAIN_SEED, _VALIDATION_SEED = 2002, 2003, 2004


def generate(*, vocabulary: int, length: int, samples: int | None = None) -> Data:
    """`samples` training pairs and a validation set; the first n pairs are the same however many are requested.

    A clause of the source is quality, thing, action, thing. Every word has one translation, and the translated
    clause puts the quality after its thing and the action at the end: thing, quality, thing, action. Words of a
    class follow Zipf's law: the r-th most frequent one is drawn with a probability in proportion to 1/r.
    """
    return Data(
        train=_pairs(vocabulary, length, samples or PAIRS, _TRAIN_SEED),
        validation=_pairs(vocabulary, length, VALIDATION_PAIRS, _VALIDATION_SEED),
        source=f"generated sentence pairs of {length} words, vocabulary {vocabulary:,}",
        generated=True,
    )


def dictionary(vocabulary: int) -> Words:
    """The translation of every source word, by id; ids that are not words stay themselves."""
    words = np.arange(vocabulary, dtype=np.int32)
    np.random.default_rng(_DICTIONARY_SEED).shuffle(words[FIRST_WORD:])
    return words


def target_order(length: int) -> npt.NDArray[np.int64]:
    """For every place of a target sentence, the place of its word in the source; a cut last clause stays in order."""
    places = np.arange(length)
    whole = length - length % len(_ORDER)
    places[:whole] = (places[:whole].reshape(-1, len(_ORDER)))[:, _ORDER].ravel()
    return places


def _pairs(vocabulary: int, length: int, count: int, seed: int) -> Pairs:
    draws = np.random.default_rng(seed).random((count, length), dtype=np.float32)
    source = np.empty((count, length), np.int32)
    classes = np.resize(_CLAUSE, length)
    for kind in range(_CLASSES):
        # ids FIRST_WORD + kind, + kind + 3, + kind + 6 …: low ids are frequent, as in a vocabulary ranked by count
        ids = np.arange(FIRST_WORD + kind, vocabulary, _CLASSES, dtype=np.int32)
        source[:, classes == kind] = ids[zipf(draws[:, classes == kind], len(ids))]
    target = dictionary(vocabulary)[source[:, target_order(length)]]
    starts = np.arange(count + 1, dtype=np.int64) * length
    return Pairs(Sentences(source.ravel(), starts), Sentences(target.ravel(), starts))


def zipf(draws: npt.NDArray[np.floating], count: int) -> npt.NDArray[np.intp]:
    """Uniform draws from [0, 1) to ranks 0 … count − 1 with probabilities in proportion to 1/(rank + 1)."""
    cumulative = np.cumsum(1 / np.arange(1, count + 1))
    bounds = (cumulative / cumulative[-1]).astype(draws.dtype)
    return np.minimum(np.searchsorted(bounds, draws, side="right"), count - 1)
