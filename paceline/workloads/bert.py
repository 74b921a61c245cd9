"""BERT as report 004 trained it: a text encoder, pre-trained on masked words and next-sentence prediction."""

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paceline.workloads.base import BatchTensors, Totals, Workload
from paceline.workloads.data import sequences
from paceline.workloads.defaults import BERT
from paceline.workloads.options import BertOptions

POSITIONS = 512
SEGMENTS = 2
NORM_EPS = 1e-12
INITIAL_STD = 0.02
"""At 768 units; larger in a narrower model, in proportion to 1/√units, or its attention hardly starts to learn."""


class Attention(nn.Module):
    """Self-attention over a whole sequence; sequences are of one length, so nothing is masked out."""

    def __init__(self, options: BertOptions) -> None:
        super().__init__()
        self.heads = options.heads
        self.dropout = options.dropout
        self.query = nn.Linear(options.units, options.units)
        self.key = nn.Linear(options.units, options.units)
        self.value = nn.Linear(options.units, options.units)
        self.output = nn.Linear(options.units, options.units)

    def forward(self, inputs: Tensor) -> Tensor:
        """[samples, words, units] → the same shape."""
        query, key, value = (
            part(inputs).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        outputs: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return outputs


class Layer(nn.Module):
    """Attention, then two dense layers with GELU; each is added to its input and normalised after (post-LN)."""

    def __init__(self, options: BertOptions) -> None:
        super().__init__()
        self.attention = Attention(options)
        self.attention_norm = nn.LayerNorm(options.units, NORM_EPS)
        self.widen = nn.Linear(options.units, options.hidden)
        self.narrow = nn.Linear(options.hidden, options.units)
        self.norm = nn.LayerNorm(options.units, NORM_EPS)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """[samples, words, units] → the same shape."""
        inputs = self.attention_norm(inputs + self.dropout(self.attention(inputs)))
        outputs: Tensor = self.norm(inputs + self.dropout(self.narrow(F.gelu(self.widen(inputs)))))
        return outputs


class Encoder(nn.Module):
    """Embeddings of words, positions and segments, the layers, and the pooler: 109,482,240 parameters at base size."""

    def __init__(self, options: BertOptions) -> None:
        super().__init__()
        self.words = nn.Embedding(options.vocabulary, options.units)
        self.positions = nn.Embedding(POSITIONS, options.units)
        self.segments = nn.Embedding(SEGMENTS, options.units)
        self.norm = nn.LayerNorm(options.units, NORM_EPS)
        self.dropout = nn.Dropout(options.dropout)
        self.layers = nn.Sequential(*(Layer(options) for _ in range(options.layers)))
        self.pooler = nn.Linear(options.units, options.units)

    def forward(self, words: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """A vector for every word [samples, words, units], and one for the sequence [samples, units]."""
        positions = self.positions.weight[: words.shape[1]]
        inputs = self.norm(self.words(words) + self.segments(segments) + positions)
        outputs: Tensor = self.layers(self.dropout(inputs))
        return outputs, torch.tanh(self.pooler(outputs[:, 0]))


class Answers(NamedTuple):
    """Logits of both tasks."""

    masked: Tensor
    """[samples, masked words, vocabulary]"""

    following: Tensor
    """[samples, 2]: does the second sentence continue the first, or not."""


class Bert(nn.Module):
    """Encoder and the heads of both tasks: 110,106,428 parameters at base size, 133,547,324 when not tied."""

    def __init__(self, options: BertOptions) -> None:
        super().__init__()
        self.encoder = Encoder(options)
        self.transform = nn.Linear(options.units, options.units)
        self.norm = nn.LayerNorm(options.units, NORM_EPS)
        self.projection = nn.Linear(options.units, options.vocabulary)
        self.following = nn.Linear(options.units, 2)
        self.apply(functools.partial(_initialise, std=INITIAL_STD * math.sqrt(768 / options.units)))
        if options.tied:
            self.projection.weight = self.encoder.words.weight

    def forward(self, words: Tensor, segments: Tensor, positions: Tensor) -> Answers:
        """Answers for the masked words, at `positions` [samples, masked words] only, and for each sequence."""
        outputs, pooled = self.encoder(words, segments)
        masked = outputs.gather(1, positions[:, :, None].expand(-1, -1, outputs.shape[2]))
        masked = self.norm(F.gelu(self.transform(masked)))
        return Answers(self.projection(masked), self.following(pooled))


def _initialise(module: nn.Module, std: float) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def _losses(answers: Answers, masked: Tensor, following: Tensor) -> Tensor:
    """Mean over masked words plus mean over sequences; equal to a mean over samples, see `masked_count`."""
    return F.cross_entropy(answers.masked.flatten(0, 1), masked.flatten()) + F.cross_entropy(
        answers.following, following
    )


def both_losses(model: nn.Module, tensors: BatchTensors) -> Tensor:
    """Cross-entropy of the masked words plus that of the next sentence."""
    words, segments, positions, masked, following = tensors
    return _losses(model(words, segments, positions), masked, following)


def assess(model: nn.Module, tensors: BatchTensors) -> Totals:
    """The loss, and the share of right answers in both tasks."""
    words, segments, positions, masked, following = tensors
    answers: Answers = model(words, segments, positions)
    samples = len(words)
    return {
        "loss": (_losses(answers, masked, following) * samples, samples),
        "masked_accuracy": ((answers.masked.argmax(2) == masked).sum(), masked.numel()),
        "next_sentence_accuracy": ((answers.following.argmax(1) == following).sum(), samples),
    }


def count_words(tensors: BatchTensors) -> int:
    """Samples times length: the symbols between sentences are counted, as the published words/s count them."""
    return tensors[0].numel()


def bert_base(options: BertOptions) -> Workload:
    """The workload. Adam without weight decay: a recipe treats all parameters alike, and norms should not decay."""
    return Workload(
        name="bert-base",
        unit="words",
        model=functools.partial(Bert, options),
        loss=both_losses,
        data=functools.partial(
            sequences.generate, vocabulary=options.vocabulary, length=options.length, samples=options.samples
        ),
        optimizer=BERT.optimizer,
        batch=BERT.batch,
        assess=assess,
        units=count_words,
    )
