"""The translation network and BERT: their counts, their arithmetic and that they learn."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from paceline.errors import DataError
from paceline.workloads import catalogue, nmt
from paceline.workloads.base import BatchTensors, Workload
from paceline.workloads.data.text import END, PAD
from paceline.workloads.options import NmtOptions

SMALL_NMT = "nmt:data=generated,units=16,vocabulary=30,length=6,samples=64"
SMALL_BERT = "bert-base:layers=2,units=32,heads=2,hidden=64,vocabulary=60,length=16,dropout=0"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small models are quicker on one thread, above all when other tests run beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def size(module: nn.Module) -> tuple[int, int]:
    parameters = list(module.parameters())
    return sum(p.numel() for p in parameters), len(parameters)


def built(text: str) -> tuple[Workload, nn.Module]:
    torch.manual_seed(0)
    workload = catalogue.build(text)
    return workload, workload.model().double()


def first(workload: Workload, count: int) -> BatchTensors:
    return workload.data().train.batch(np.arange(count))


def uneven() -> BatchTensors:
    """Sentences of 5, 2 and 3 source words and of 2, 4 and 1 target words."""
    source = torch.tensor([[4, 5, 6, 7, 8], [9, 10, PAD, PAD, PAD], [11, 12, 13, PAD, PAD]])
    target = torch.tensor([[5, 6, END, PAD, PAD], [7, 8, 9, 10, END], [11, END, PAD, PAD, PAD]])
    return source, target


@pytest.mark.parametrize(
    ("text", "parameters", "tensors"),
    [
        ("nmt", 93_593_600, 19),
        ("nmt:direction=uni", 93_593_600, 19),
        ("nmt:cell=fused", 95_707_136, 35),
        ("nmt:cell=fused,direction=uni", 93_609_984, 35),
        ("bert-base", 110_106_428, 206),
        ("bert-base:tied=off", 133_547_324, 207),
    ],
)
def test_models_have_the_published_number_of_parameters(text: str, parameters: int, tensors: int) -> None:
    with torch.device("meta"):
        model = catalogue.build(text).model()
    assert size(model) == (parameters, tensors)
    assert text != "nmt" or parameters == catalogue.WORKLOADS["nmt"].parameters


def test_the_encoder_of_bert_with_its_pooler_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = catalogue.build("bert-base").model()
    assert size(model.get_submodule("encoder"))[0] == 109_482_240


def copy_into(lstm: nn.LSTM, stack: nmt.StepwiseLstm, suffix: str = "") -> None:
    """Stepwise weights into torch's layout: gates i, j, f, o become i, f, g, o, and the forget bias is added."""
    units = lstm.hidden_size
    for layer, cell in enumerate(stack.cells):
        assert isinstance(cell, nmt.LstmCell)
        i, j, f, o = torch.split(cell.kernel.detach(), units, 1)
        kernel = torch.cat([i, f, j, o], 1).T
        bias_i, bias_j, bias_f, bias_o = torch.split(cell.bias.detach(), units)
        bias = torch.cat([bias_i, bias_f + nmt.FORGET_BIAS, bias_j, bias_o])
        weights = kernel[:, :units], kernel[:, units:], bias, torch.zeros_like(bias)
        for name, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights, strict=True):
            lstm.get_parameter(f"{name}_l{layer}{suffix}").data.copy_(weight)


def stack(layers: int) -> nmt.StepwiseLstm:
    torch.manual_seed(1)
    made = nmt.StepwiseLstm(8, layers).double()
    for cell in made.cells:
        assert isinstance(cell, nmt.LstmCell)
        nn.init.normal_(cell.bias)
    return made


def test_the_stepwise_lstm_computes_what_torchs_lstm_computes() -> None:
    stepwise, fused = stack(3), nn.LSTM(8, 8, 3, batch_first=True).double()
    copy_into(fused, stepwise)
    inputs = torch.randn(4, 7, 8, dtype=torch.float64)
    state = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 4, 8, dtype=torch.float64)
    outputs, final = stepwise(inputs, state)
    expected, expected_final = fused(inputs, state)
    torch.testing.assert_close(outputs, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(final, expected_final, atol=1e-12, rtol=0)


def test_stepwise_and_fused_networks_agree_on_uneven_sentences_when_their_weights_do() -> None:
    stepwise = built("nmt:units=8,vocabulary=30,direction=uni")[1]
    workload, fused = built("nmt:units=8,vocabulary=30,direction=uni,cell=fused")
    for part in ("encoder", "decoder"):
        cells = stepwise.get_submodule("encoder.forwards" if part == "encoder" else "decoder")
        lstm = fused.get_submodule("encoder.lstm" if part == "encoder" else "decoder")
        assert isinstance(cells, nmt.StepwiseLstm)
        assert isinstance(lstm, nn.LSTM)
        copy_into(lstm, cells)
    for name in ("source.weight", "target.weight", "projection.weight"):
        fused.get_parameter(name).data.copy_(stepwise.get_parameter(name))
    losses = [workload.loss(model, uneven()) for model in (stepwise, fused)]
    torch.testing.assert_close(*losses, atol=1e-12, rtol=0)


def test_both_cells_start_with_the_same_forget_bias() -> None:
    lstm = built("nmt:units=8,vocabulary=30,cell=fused")[1].get_submodule("encoder.lstm")
    total = lstm.get_parameter("bias_ih_l1_reverse") + lstm.get_parameter("bias_hh_l1_reverse")
    assert total.tolist() == [0.0] * 8 + [nmt.FORGET_BIAS] * 8 + [0.0] * 16


def test_the_backward_stack_reads_every_sentence_from_its_last_word_to_its_first() -> None:
    torch.manual_seed(2)
    encoder = nmt.StepwiseEncoder(8, bidirectional=True).double()
    inputs, lengths = torch.randn(3, 5, 8, dtype=torch.float64), torch.tensor([5, 2, 3])
    state = encoder(inputs, lengths)
    backwards, forwards = encoder.backwards, encoder.forwards
    assert backwards is not None
    for row, length in enumerate(lengths.tolist()):
        sentence = inputs[row : row + 1, :length]
        for reader, read, offset in ((forwards, sentence, 0), (backwards, sentence.flip(1), 1)):
            for got, expected in zip(state, reader(read)[1], strict=True):
                torch.testing.assert_close(got[offset::2, row], expected[:, 0], atol=1e-12, rtol=0)


def test_every_layer_of_the_decoder_starts_from_one_state_of_the_encoder() -> None:
    encoder = nmt.FusedEncoder(8, bidirectional=True)
    h, c = encoder(torch.randn(3, 5, 8), torch.tensor([5, 2, 3]))
    assert h.shape == c.shape == (nmt.LAYERS, 3, 8)


@pytest.mark.parametrize("cell", ["stepwise", "fused"])
@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_padding_changes_neither_the_loss_nor_the_gradients(cell: str, direction: str) -> None:
    workload, model = built(f"nmt:units=8,vocabulary=30,cell={cell},direction={direction}")
    source, target = uneven()
    longer = nn.functional.pad(source, (0, 4)), nn.functional.pad(target, (0, 2))
    results = []
    for batch in ((source, target), longer):
        model.zero_grad()
        loss = workload.loss(model, batch)
        loss.backward()
        results.append((loss.detach(), [p.grad for p in model.parameters()]))
    torch.testing.assert_close(*results, atol=1e-12, rtol=0)
    alone = [workload.loss(model, (source[row : row + 1], target[row : row + 1])) for row in range(3)]
    torch.testing.assert_close(torch.stack(alone).mean(), results[0][0], atol=1e-12, rtol=0)


def test_what_stands_in_the_vectors_of_the_padding_symbol_is_immaterial() -> None:
    workload, model = built("nmt:units=8,vocabulary=30")
    before = workload.loss(model, uneven())
    for name in ("source.weight", "target.weight"):
        model.get_parameter(name).data[PAD] += 5
    assert torch.equal(workload.loss(model, uneven()), before)


def test_logits_taken_piece_by_piece_give_the_same_loss_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, model = built(SMALL_NMT)
    batch = first(workload, 5)

    def measured() -> list[Tensor]:
        model.zero_grad()
        totals = workload.totals(model, batch)
        totals["loss"][0].backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [totals["loss"][0].detach(), totals["token_accuracy"][0].double(), *gradients]

    whole = measured()
    monkeypatch.setattr(nmt, "LOGITS_AT_ONCE", 30 * 8)
    torch.testing.assert_close(measured(), whole, atol=1e-12, rtol=0)
    assert len(whole) == 2 + 19


def test_a_default_batch_of_generated_sentences_holds_72360_words() -> None:
    workload = catalogue.build("nmt:data=generated")
    assert workload.units(first(workload, workload.batch)) == 360 * (100 + 101) == 72_360


def test_only_real_words_are_counted_and_the_metrics_are_sums_over_them() -> None:
    workload, model = built("nmt:units=8,vocabulary=30")
    source, target = uneven()
    assert workload.units((source, target)) == (5 + 2 + 3) + (3 + 5 + 2)
    totals = workload.totals(model, (source, target))
    assert {name: count for name, (_, count) in totals.items()} == {"loss": 3, "word_loss": 10, "token_accuracy": 10}
    torch.testing.assert_close(totals["loss"][0] / 3, workload.loss(model, (source, target)))
    model.get_parameter("projection.weight").data.zero_()  # all words equally likely: the first one, padding, wins
    with torch.no_grad():
        totals = workload.totals(model, (source, target))
    assert float(totals["word_loss"][0]) / 10 == pytest.approx(np.log(30))
    assert float(totals["token_accuracy"][0]) == 0


def test_real_text_is_refused_when_there_is_none_and_auto_generates(no_data: None) -> None:
    with pytest.raises(DataError, match="PACELINE_DATA"):
        nmt.nmt(NmtOptions(data="real")).data()
    assert nmt.nmt(NmtOptions(samples=3, length=5)).data().generated


def test_tied_bert_shares_one_matrix_and_untied_does_not() -> None:
    for tied, shared in (("on", True), ("off", False)):
        _, model = built(f"{SMALL_BERT},tied={tied}")
        same = model.get_parameter("projection.weight") is model.get_parameter("encoder.words.weight")
        assert same is shared


def test_the_loss_of_bert_over_a_batch_is_the_mean_of_its_samples() -> None:
    workload, model = built(SMALL_BERT)
    batch = first(workload, 6)
    alone = [workload.loss(model, tuple(t[row : row + 1] for t in batch)) for row in range(6)]
    torch.testing.assert_close(torch.stack(alone).mean(), workload.loss(model, batch), atol=1e-12, rtol=0)
    assert workload.units(batch) == 6 * 16


def test_bert_answers_only_at_masked_positions_and_from_all_the_other_words() -> None:
    workload, model = built(SMALL_BERT)
    words, segments, positions, masked, _ = first(workload, 3)
    answers = model(words, segments, positions)
    assert answers.masked.shape == (*masked.shape, 60)
    changed = words.clone()
    changed[:, 1] = torch.where(changed[:, 1] == 10, 11, 10)
    assert not torch.allclose(model(changed, segments, positions).masked, answers.masked)
    swapped = model(words, segments, positions.flip(1)).masked
    torch.testing.assert_close(swapped.flip(1), answers.masked, atol=1e-12, rtol=0)


def test_dropout_of_bert_acts_in_training_only() -> None:
    workload, model = built(SMALL_BERT.replace("dropout=0", "dropout=0.5"))
    batch = first(workload, 3)
    assert not torch.equal(workload.loss(model, batch), workload.loss(model, batch))
    model.eval()
    assert torch.equal(workload.loss(model, batch), workload.loss(model, batch))


def trained(text: str, *, steps: int, batch: int, lr: float) -> dict[str, float]:
    torch.manual_seed(0)
    workload = catalogue.build(text)
    model, data = workload.model(), workload.data()
    optimizer = workload.optimizer.build(model.parameters())
    optimizer.param_groups[0]["lr"] = lr
    order = np.random.default_rng(0)
    for _ in range(steps):
        loss = workload.loss(model, data.train.batch(order.integers(0, len(data.train), batch)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert data.validation is not None
    model.eval()
    with torch.no_grad():
        totals = workload.totals(model, data.validation.batch(np.arange(400)))
    return {name: float(total) / count for name, (total, count) in totals.items()}


def test_the_translation_network_learns_the_invented_language() -> None:
    text = "nmt:data=generated,units=32,vocabulary=40,length=4,samples=2000"
    untrained = trained(text, steps=0, batch=32, lr=5e-3)
    learned = trained(text, steps=200, batch=32, lr=5e-3)
    assert untrained["token_accuracy"] < 0.2
    assert learned["token_accuracy"] > 0.8
    assert learned["loss"] < 0.2 * untrained["loss"]


def test_bert_learns_topics_and_next_sentences() -> None:
    untrained = trained(SMALL_BERT, steps=0, batch=64, lr=3e-3)
    learned = trained(SMALL_BERT, steps=150, batch=64, lr=3e-3)
    assert learned["next_sentence_accuracy"] > 0.9
    assert learned["masked_accuracy"] > 0.15 > 3 * untrained["masked_accuracy"]
    assert learned["loss"] < 0.6 * untrained["loss"]
