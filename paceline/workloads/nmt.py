"""The translation network of report 002: a recurrent encoder-decoder without attention."""

import functools
import math
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from paceline.workloads.base import BatchTensors, Data, Totals, Workload
from paceline.workloads.data import folder, sentences, text
from paceline.workloads.data.text import PAD, START
from paceline.workloads.defaults import NMT
from paceline.workloads.options import NmtOptions

LAYERS = 4
"""Layers of the decoder, and states of the encoder: every decoder layer starts from one of them."""

FORGET_BIAS = 1.0

LOGITS_AT_ONCE = 2**27
"""A batch of 360 sentences has 360 · 101 · 50,000 logits, 7.3 GB; at most 0.5 GB are kept at a time."""

State: TypeAlias = tuple[Tensor, Tensor]
"""Output and memory, h and c, of every layer: [layers, samples, units] each."""


def initialise(weight: Tensor, units: int) -> None:
    """Uniform in ±0.1 at 512 units, as is usual for this family of networks; wider in proportion to 1/√units."""
    bound = 0.1 * math.sqrt(512 / units)
    nn.init.uniform_(weight, -bound, bound)


class LstmCell(nn.Module):
    """TensorFlow's BasicLSTMCell: one kernel [input + units, 4 · units], one bias, gates in the order i, j, f, o.

    c' = σ(f + 1) · c + σ(i) · tanh(j),  h' = σ(o) · tanh(c').  The forget bias of 1 is added, not learned.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(inputs + units, 4 * units))
        self.bias = nn.Parameter(torch.zeros(4 * units))
        initialise(self.kernel, units)

    def forward(self, inputs: Tensor, h: Tensor, c: Tensor) -> State:
        """One step: h and c after reading `inputs` [samples, inputs]."""
        i, j, f, o = torch.addmm(self.bias, torch.cat([inputs, h], 1), self.kernel).chunk(4, 1)
        c = torch.sigmoid(f + FORGET_BIAS) * c + torch.sigmoid(i) * torch.tanh(j)
        return torch.sigmoid(o) * torch.tanh(c), c


class StepwiseLstm(nn.Module):
    """A stack of cells run word by word from Python, as dynamic_rnn ran it: many small kernels, no fusing."""

    def __init__(self, units: int, layers: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(LstmCell(units, units) for _ in range(layers))

    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Outputs of the last layer [samples, words, units], and the state after each sentence's last word."""
        if state is None:
            nothing = inputs.new_zeros(len(self.cells), *inputs[:, 0].shape)
            state = nothing, nothing
        layers = [(h, c) for h, c in zip(*(part.unbind() for part in state), strict=True)]
        outputs = []
        for place, below in enumerate(inputs.unbind(1)):
            running = None if lengths is None else (place < lengths)[:, None]
            for layer, cell in enumerate(self.cells):
                after: State = cell(below, *layers[layer])
                if running is not None:  # beyond its end a sentence keeps its state
                    h, c = (torch.where(running, new, old) for new, old in zip(after, layers[layer], strict=True))
                    after = h, c
                layers[layer] = after
                below = after[0]
            outputs.append(below)
        h, c = (torch.stack(part) for part in zip(*layers, strict=True))
        return torch.stack(outputs, 1), (h, c)


class StepwiseEncoder(nn.Module):
    """Two forward and two backward layers that do not see each other, or four forward ones."""

    def __init__(self, units: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.forwards = StepwiseLstm(units, LAYERS // 2 if bidirectional else LAYERS)
        self.backwards = StepwiseLstm(units, LAYERS // 2) if bidirectional else None

    def forward(self, inputs: Tensor, lengths: Tensor) -> State:
        """The final states, forward and backward in turns from the lowest layer up, which is nn.LSTM's order."""
        (h, c) = self.forwards(inputs, None, lengths)[1]
        if self.backwards is None:
            return h, c
        back_h, back_c = self.backwards(reverse(inputs, lengths), None, lengths)[1]
        return torch.stack([h, back_h], 1).flatten(0, 1), torch.stack([c, back_c], 1).flatten(0, 1)


class FusedEncoder(nn.Module):
    """Two bidirectional layers, the second reading both directions of the first, or four forward ones."""

    def __init__(self, units: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.lstm = _fused(units, LAYERS // 2 if bidirectional else LAYERS, bidirectional=bidirectional)

    def forward(self, inputs: Tensor, lengths: Tensor) -> State:
        """The final states, forward and backward in turns from the lowest layer up."""
        known = lengths.cpu()  # synchronises with a GPU: the fused kernel wants the lengths on the host
        full = int(known.min()) == inputs.shape[1]
        state: State
        _, state = self.lstm(inputs if full else pack_padded_sequence(inputs, known, True, enforce_sorted=False))
        return state


def _fused(units: int, layers: int, *, bidirectional: bool = False) -> nn.LSTM:
    """torch.nn.LSTM initialised like the stepwise cells: its forget bias, which is learned, starts at 1."""
    lstm = nn.LSTM(units, units, layers, batch_first=True, bidirectional=bidirectional)
    for name, parameter in lstm.named_parameters():
        if name.startswith("weight"):
            initialise(parameter, units)
        else:
            nn.init.zeros_(parameter)
        if name.startswith("bias_ih"):  # gates in the order i, f, g, o
            nn.init.constant_(parameter.detach()[units : 2 * units], FORGET_BIAS)
    return lstm


class Words(NamedTuple):
    """The result for every target word [samples, words]; padding is 0 in both fields."""

    losses: Tensor
    hits: Tensor | None
    """1 where the right word was the likeliest; None unless requested."""


class Translator(nn.Module):
    """Encoder, decoder and a projection on the target vocabulary. Parameters at 512 units and 50,000 words:

    embeddings 2 · 50,000 · 512 and projection 512 · 50,000, no bias           76,800,000
    stepwise, uni or bi: 8 layers of 1024 · 2048 + 2048                        16,793,600 → 93,593,600 in 19 tensors
    fused, bi, two biases a layer and direction, as in cuDNN:
        encoder layer 1: 2 directions of (512 + 512) · 2048 + 2 · 2048          4,202,496
        encoder layer 2: 2 directions of (1024 + 512) · 2048 + 2 · 2048         6,299,648
        decoder: 4 layers of (512 + 512) · 2048 + 2 · 2048                      8,404,992 → 95,707,136
    fused, uni: 8 layers of (512 + 512) · 2048 + 2 · 2048                      16,809,984 → 93,609,984

    torch.nn.LSTM keeps cuDNN's two biases, so the fused counts are PyTorch's too, in 35 tensors where TensorFlow
    has one opaque buffer for each LSTM. Stepwise layers with PyTorch's two biases would come to 93,609,984.
    Gradients of embeddings are dense here; they were sparse in the original.
    """

    def __init__(self, options: NmtOptions) -> None:
        super().__init__()
        units, bidirectional = options.units, options.direction == "bi"
        self.source = nn.Embedding(options.vocabulary, units)
        self.target = nn.Embedding(options.vocabulary, units)
        self.encoder: nn.Module
        self.decoder: nn.Module
        if options.cell == "stepwise":
            self.encoder = StepwiseEncoder(units, bidirectional=bidirectional)
            self.decoder = StepwiseLstm(units, LAYERS)
        else:
            self.encoder = FusedEncoder(units, bidirectional=bidirectional)
            self.decoder = _fused(units, LAYERS)
        self.projection = nn.Linear(units, options.vocabulary, bias=False)
        initialise(self.projection.weight, units)
        for embedding in (self.source, self.target):
            nn.init.uniform_(embedding.weight, -1, 1)

    def forward(self, source: Tensor, target: Tensor, *, hits: bool = False) -> Words:
        """How well each target word is predicted from the source and the target words before it."""
        state = self.encoder(self.source(source), (source != PAD).sum(1))
        before = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], 1)
        outputs = self.decoder(self.target(before), state)[0].flatten(0, 1)
        losses, right = self._score(outputs, target.flatten(), hits)
        return Words(losses.view_as(target), right.view_as(target) if hits else None)

    def _score(self, outputs: Tensor, words: Tensor, hits: bool) -> tuple[Tensor, Tensor]:
        """Losses and hits; where the logits would not fit, computed piece by piece and again in backward."""
        piece = max(1, LOGITS_AT_ONCE // self.projection.out_features)
        if len(words) <= piece:
            return self._score_piece(outputs, words, hits)
        pieces = [
            checkpoint(self._score_piece, *part, hits, use_reentrant=False, preserve_rng_state=False)
            for part in zip(torch.split(outputs, piece), torch.split(words, piece), strict=True)
        ]
        losses, right = (torch.cat(part) for part in zip(*pieces, strict=True))
        return losses, right

    def _score_piece(self, outputs: Tensor, words: Tensor, hits: bool) -> tuple[Tensor, Tensor]:
        logits = self.projection(outputs)
        right = (logits.argmax(1) == words) & (words != PAD) if hits else words.new_empty(0)
        return F.cross_entropy(logits, words, ignore_index=PAD, reduction="none"), right


def reverse(inputs: Tensor, lengths: Tensor) -> Tensor:
    """Every sentence from its last word to its first; padding stays where it is."""
    places = torch.arange(inputs.shape[1], device=inputs.device)
    places = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return inputs.gather(1, places[:, :, None].expand_as(inputs))


def count_words(tensors: BatchTensors) -> int:
    """Source words and target words with the end symbol; padding is not counted."""
    source, target = tensors
    return int((source != PAD).sum() + (target != PAD).sum())


def sentence_loss(model: nn.Module, tensors: BatchTensors) -> Tensor:
    """Cross-entropy summed over the words of a sentence, mean over sentences.

    A mean over sentences makes workers weighted by samples equal to one large batch. The original summed over the
    batch; Adam makes such a constant factor immaterial.
    """
    words: Words = model(*tensors)
    return words.losses.sum() / len(words.losses)


def assess(model: nn.Module, tensors: BatchTensors) -> Totals:
    """Loss per sentence and per word, and the share of target words that came out right."""
    words: Words = model(*tensors, hits=True)
    assert words.hits is not None
    loss, count = words.losses.sum(), float((tensors[1] != PAD).sum())
    return {
        "loss": (loss, len(words.losses)),
        "word_loss": (loss, count),
        "token_accuracy": (words.hits.sum(), count),
    }


def load(options: NmtOptions) -> Data:
    """Real text if it is available, otherwise generated pairs."""
    place = None if options.data == "generated" else folder.find(text.SUBFOLDERS)
    if options.data == "real" and place is None:
        raise folder.missing("parallel text", text.SUBFOLDERS)
    produce = functools.partial(text.load, place) if place else sentences.generate
    return produce(vocabulary=options.vocabulary, length=options.length, samples=options.samples)


def nmt(options: NmtOptions) -> Workload:
    """The workload."""
    return Workload(
        name="nmt",
        unit="words",
        model=functools.partial(Translator, options),
        loss=sentence_loss,
        data=functools.partial(load, options),
        optimizer=NMT.optimizer,
        batch=NMT.batch,
        assess=assess,
        units=count_words,
    )
