"""Sequences for masked words and next sentence, made by index: deterministic, learnable, all of one length."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from paceline.workloads.base import BatchTensors, Data, Indices
from paceline.workloads.data.sentences import zipf

CLASSIFY, SEPARATE, MASK = 1, 2, 3
FIRST_WORD = 4
"""Ids below this one are not words; 0 is reserved for padding."""

CONTINUES, RANDOM = 0, 1
"""Answers to whether the second sentence follows the first."""

VALIDATION_SEQUENCES = 1_280
MASKED_SHARE = 0.15

_SUCCESSOR_BOUNDS = np.array([0.7, 0.9, 0.97])
"""A word's successors are drawn with probabilities 0.7, 0.2, 0.07 and 0.03."""

_TABLE_SEED, _TRAIN_SEED, _VALIDATION_SEED = 4001, 4002, 4003

Integers = npt.NDArray[np.int64]
Draws = npt.NDArray[np.float64]


def generate(*, vocabulary: int, length: int, samples: int) -> Data:
    """`samples` training sequences and a validation set over the same chains.

    Every word belongs to a topic and is followed by one of four words of its topic, so that a masked word can be
    predicted from its neighbours. The second sentence continues the first, or comes from another topic.
    """
    chains = Chains.of(vocabulary)
    return Data(
        train=Sequences(chains, length, samples, _TRAIN_SEED),
        validation=Sequences(chains, length, VALIDATION_SEQUENCES, _VALIDATION_SEED),
        source=f"generated sequences of {length} words, vocabulary {vocabulary:,}",
        generated=True,
    )


def masked_count(length: int) -> int:
    """How many words of every sequence are masked: 15 %, at least one.

    The number is the same in all of them: then the mean over masked words is the mean over samples, and weighting
    workers by their samples gives exactly the large batch.
    """
    return max(1, round(MASKED_SHARE * length))


@dataclass(frozen=True, eq=False)
class Chains:
    """A Markov chain of order one per topic."""

    topics: int
    successors: Integers
    """[words, 4]: what may follow each word, the likeliest first. Word r of topic t has the number r · topics + t."""

    @classmethod
    def of(cls, vocabulary: int) -> "Chains":
        """The chains over a vocabulary; words left over by an even division into topics are not used."""
        words = vocabulary - FIRST_WORD
        topics = min(8, words // 4)
        size = words // topics
        draws = np.random.default_rng(_TABLE_SEED).random((size, topics, len(_SUCCESSOR_BOUNDS) + 1))
        ranks = zipf(draws, size)
        # The likeliest successor runs through the whole topic, so that no chain is caught in a corner of it.
        ranks[:, :, 0] = (np.arange(size)[:, None] + 1) % size
        numbers = ranks * topics + np.arange(topics)[:, None]
        return cls(topics, numbers.reshape(size * topics, -1))

    @property
    def words(self) -> int:
        """How many words the chains use."""
        return len(self.successors)

    def first(self, topics: Integers, draws: Draws) -> Integers:
        """A word of each topic to begin with."""
        return zipf(draws, self.words // self.topics) * self.topics + topics

    def follow(self, words: Integers, draws: Draws) -> Integers:
        """What comes after each word."""
        return self.successors[words, np.searchsorted(_SUCCESSOR_BOUNDS, draws, side="right")]


class Sequences:
    """Examples made on the fly: sample i depends on the seed and i alone, whatever batch it is in.

    A batch is words [n, length], segments [n, length], masked positions [n, masked], the words that were
    there [n, masked], and whether the second sentence continues the first [n].
    """

    def __init__(self, chains: Chains, length: int, count: int, seed: int) -> None:
        self.chains = chains
        self.length = length
        self.masked = masked_count(length)
        self._count = count
        self._seed = seed
        self._first = (length - 3) // 2  # words of the first sentence; three places are not words
        self._places = np.delete(np.arange(length), [0, self._first + 1, length - 1])

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Indices) -> BatchTensors:
        """These sequences, masked."""
        words = len(self._places)
        draws = self._draws(indices, 4 + 2 * words + 2 * self.masked)
        head, chain, order, change, other = np.split(draws, np.cumsum([4, words, words, self.masked]), axis=1)
        answer = np.where(head[:, 0] < 0.5, CONTINUES, RANDOM)
        rows = np.full((len(indices), self.length), SEPARATE, np.int64)
        rows[:, 0] = CLASSIFY
        rows[:, self._places] = FIRST_WORD + self._sentences(head, chain, answer)
        segments = np.zeros_like(rows)
        segments[:, self._first + 2 :] = 1
        positions = np.sort(self._places[np.argsort(order, axis=1)[:, : self.masked]], axis=1)
        answers = np.take_along_axis(rows, positions, axis=1)
        np.put_along_axis(rows, positions, self._hidden(answers, change, other), axis=1)
        return tuple(map(torch.from_numpy, (rows, segments, positions, answers, answer)))

    def _draws(self, indices: Indices, count: int) -> Draws:
        """Uniform draws, `count` for each sample: a generator of its own, keyed by seed and index."""
        keys = (np.array([self._seed, index], np.uint64) for index in indices)
        return np.stack([np.random.Generator(np.random.Philox(key=key)).random(count) for key in keys])

    def _sentences(self, head: Draws, chain: Draws, answer: Integers) -> Integers:
        """Numbers of the words of both sentences; the second has a new start where the answer is random."""
        chains = self.chains
        topics = (head[:, 1] * chains.topics).astype(np.int64)
        others = (topics + 1 + (head[:, 2] * (chains.topics - 1)).astype(np.int64)) % chains.topics
        words = np.empty(chain.shape, np.int64)
        words[:, 0] = chains.first(topics, chain[:, 0])
        for place in range(1, chain.shape[1]):
            words[:, place] = chains.follow(words[:, place - 1], chain[:, place])
            if place == self._first:
                anew = chains.first(others, head[:, 3])
                words[:, place] = np.where(answer == RANDOM, anew, words[:, place])
        return words

    def _hidden(self, answers: Integers, change: Draws, other: Draws) -> Integers:
        """What replaces masked words: 80 % the mask, 10 % any word, 10 % the word itself."""
        random = FIRST_WORD + (other * self.chains.words).astype(np.int64)
        return np.where(change < 0.8, MASK, np.where(change < 0.9, random, answers))
