"""Parallel text, generated sentences and generated sequences."""

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.errors import DataError
from paceline.workloads.data import sentences, sequences, text
from paceline.workloads.data.text import END, FIRST_WORD, PAD, UNKNOWN

ENGLISH = ["A dog runs.", "A dog sleeps, a cat runs.", "A cat."]
GERMAN = ["Ein Hund rennt.", "Ein Hund schläft, eine Katze rennt.", "Eine Katze."]


def write(path: Path, lines: Sequence[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def parallel(path: Path, *, suffix: str = "") -> Path:
    write(path / f"train.en{suffix}", ENGLISH)
    write(path / f"train.de{suffix}", GERMAN)
    return path


def everything(examples: object) -> tuple[torch.Tensor, ...]:
    assert isinstance(examples, text.Pairs | sequences.Sequences)
    return examples.batch(np.arange(len(examples)))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_plain_and_gzipped_text_is_read_with_the_most_frequent_words_first(tmp_path: Path, suffix: str) -> None:
    data = text.load(parallel(tmp_path, suffix=suffix), vocabulary=100, length=20)
    source, target = everything(data.train)
    a, dog, runs, stop = (int(id_) for id_ in source[0, :4])
    assert (a, stop) == (FIRST_WORD, FIRST_WORD + 1)  # "a" occurs four times, "." three times
    assert source[2].tolist() == [a, int(source[1, 5]), stop, *[PAD] * 5]
    assert target[0].tolist()[3:] == [int(target[1, -2]), END, *[PAD] * 4]
    assert target[1, -1] == END
    assert {dog, runs}.isdisjoint({a, stop, UNKNOWN, PAD})
    assert "en to de" in data.source
    assert not data.generated


def test_sentences_are_cut_to_the_length_and_the_end_symbol_comes_behind_the_cut(tmp_path: Path) -> None:
    source, target = everything(text.load(parallel(tmp_path), vocabulary=100, length=2).train)
    assert source.shape == (3, 2)
    assert target.shape == (3, 3)
    assert (target[:, 2] == END).all()


def test_words_beyond_the_vocabulary_are_unknown(tmp_path: Path) -> None:
    source, _ = everything(text.load(parallel(tmp_path), vocabulary=FIRST_WORD + 1, length=20).train)
    assert source[2].tolist()[:3] == [FIRST_WORD, UNKNOWN, UNKNOWN]


def test_a_given_vocabulary_decides_the_ids(tmp_path: Path) -> None:
    write(tmp_path / "vocab.en", ["<unk>", "<s>", "</s>", "cat", "Dog", "zebra", "runs"])
    source, _ = everything(text.load(parallel(tmp_path), vocabulary=100, length=20).train)
    cat, dog, runs = FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 3
    assert source[0].tolist()[:4] == [UNKNOWN, dog, runs, UNKNOWN]
    assert source[2].tolist()[:3] == [UNKNOWN, cat, UNKNOWN]


def test_only_the_first_samples_are_taken(tmp_path: Path) -> None:
    assert len(text.load(parallel(tmp_path), vocabulary=100, length=20, samples=2).train) == 2


def test_pairs_with_an_empty_side_are_left_out_of_both_sides(tmp_path: Path) -> None:
    write(tmp_path / "train.en", ["one", "", "three", "four"])
    write(tmp_path / "train.de", ["eins", "zwei", "   ", "vier"])
    data = text.load(tmp_path, vocabulary=100, length=5)
    source, target = everything(data.train)
    assert source.tolist() == [[4], [5]]
    assert target.tolist() == [[4, END], [5, END]]


@pytest.mark.parametrize("stem", ["val", "valid", "dev", "test_2016_flickr"])
def test_validation_text_uses_the_words_of_the_training_text(tmp_path: Path, stem: str) -> None:
    write(tmp_path / f"{stem}.en", ["a zebra"])
    write(tmp_path / f"{stem}.de.gz", ["ein zebra"])
    data = text.load(parallel(tmp_path), vocabulary=100, length=20)
    source, target = everything(data.validation)
    assert source.tolist() == [[FIRST_WORD, UNKNOWN]]
    assert target[0, 1:].tolist() == [UNKNOWN, END]


def test_val_is_preferred_to_test_and_without_either_there_is_no_validation(tmp_path: Path) -> None:
    assert text.load(parallel(tmp_path), vocabulary=100, length=20).validation is None
    for stem, lines in {"test": ["a", "a"], "val": ["a"]}.items():
        write(tmp_path / f"{stem}.en", lines)
        write(tmp_path / f"{stem}.de", lines)
    validation = text.load(tmp_path, vocabulary=100, length=20).validation
    assert validation is not None
    assert len(validation) == 1


def test_another_pair_of_languages_is_found_by_its_files(tmp_path: Path) -> None:
    write(tmp_path / "train.cs", ["pes"])
    write(tmp_path / "train.en", ["dog"])
    assert "en to cs" in text.load(tmp_path, vocabulary=100, length=20).source


def test_one_language_or_three_are_refused_naming_what_is_there(tmp_path: Path) -> None:
    write(tmp_path / "train.en", ENGLISH)
    with pytest.raises(DataError, match=r"exactly two languages.*train\.en"):
        text.load(tmp_path, vocabulary=100, length=20)
    write(tmp_path / "train.de", GERMAN)
    write(tmp_path / "train.fr", GERMAN)
    with pytest.raises(DataError, match=r"train\.de, train\.en, train\.fr"):
        text.load(tmp_path, vocabulary=100, length=20)


def test_files_of_different_line_counts_are_refused_with_both_counts(tmp_path: Path) -> None:
    write(tmp_path / "train.en", ENGLISH)
    write(tmp_path / "train.de", GERMAN[:2])
    with pytest.raises(DataError, match=r"train\.en has 3 and .*train\.de has 2 lines"):
        text.load(tmp_path, vocabulary=100, length=20)


def test_a_truncated_gzip_file_is_refused_by_name(tmp_path: Path) -> None:
    lines = [" ".join(map(str, np.random.default_rng(line).integers(0, 10**6, 20))) for line in range(200)]
    for language in ("en", "de"):
        write(tmp_path / f"train.{language}.gz", lines)
    packed = tmp_path / "train.de.gz"
    packed.write_bytes(packed.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"train\.de\.gz is truncated or not gzip.*fetch it again"):
        text.load(tmp_path, vocabulary=100, length=20)


def test_a_plain_file_named_gz_is_refused_by_name(tmp_path: Path) -> None:
    parallel(tmp_path, suffix=".gz")
    (tmp_path / "train.en.gz").write_text("a dog\n" * 3)
    with pytest.raises(DataError, match=r"train\.en\.gz is truncated or not gzip"):
        text.load(tmp_path, vocabulary=100, length=20)


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    parallel(tmp_path)
    (tmp_path / "train.de").write_bytes("Ein Hund.\nEin Hund schläft.\nEine Katze.\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"train\.de, line 2, is not UTF-8: convert"):
        text.load(tmp_path, vocabulary=100, length=20)


def test_empty_files_and_half_a_validation_pair_are_refused(tmp_path: Path) -> None:
    for language in ("en", "de"):
        write(tmp_path / f"train.{language}", [])
    with pytest.raises(DataError, match="hold no pair of sentences"):
        text.load(tmp_path, vocabulary=100, length=20)
    parallel(tmp_path)
    write(tmp_path / "vocab.de", [])
    with pytest.raises(DataError, match=r"vocab\.de is empty"):
        text.load(tmp_path, vocabulary=100, length=20)
    (tmp_path / "vocab.de").unlink()
    write(tmp_path / "val.en", ENGLISH)
    with pytest.raises(DataError, match=r"val\.en has no val\.de beside it"):
        text.load(tmp_path, vocabulary=100, length=20)


def test_real_multi30k_text_is_read_whole(real_data: Path) -> None:
    if not (real_data / "multi30k").is_dir():
        pytest.skip("PACELINE_DATA holds no multi30k: there is no real text to try")
    data = text.load(real_data / "multi30k", vocabulary=50_000, length=100)
    assert len(data.train) == 29_000
    assert data.validation is not None
    assert len(data.validation) == 1_014
    source, target = data.train.batch(np.arange(360))
    assert (source[0] != PAD).sum() == 11  # two young , white males are outside near many bushes .
    assert UNKNOWN not in source  # 50,000 words hold all of it
    assert ((target == END).sum(1) == 1).all()


def test_generated_sentences_follow_the_dictionary_and_the_reordering() -> None:
    pairs = sentences.generate(vocabulary=100, length=10, samples=50).train
    source, target = everything(pairs)
    translated = torch.from_numpy(sentences.dictionary(100))[source][:, sentences.target_order(10)]
    assert torch.equal(target[:, :-1], translated.long())
    assert sentences.target_order(6).tolist() == [1, 0, 3, 2, 4, 5]
    assert not torch.equal(source, translated)


def test_generated_sentences_are_full_deterministic_and_the_same_however_many_are_asked_for() -> None:
    few = everything(sentences.generate(vocabulary=100, length=7, samples=5).train)
    many = sentences.generate(vocabulary=100, length=7, samples=500).train.batch(np.arange(5))
    for one, other in zip(few, many, strict=True):
        assert torch.equal(one, other)
        assert (one != PAD).all()
    assert few[0].shape == (5, 7)
    assert few[1].shape == (5, 8)


def test_generated_words_follow_zipfs_law_and_their_class() -> None:
    source, _ = everything(sentences.generate(vocabulary=304, length=8, samples=4_000).train)
    things = ((source[:, 1::2] - FIRST_WORD) % 3 == 1).all(0)
    assert things.tolist() == [True, True, True, True]
    counts = torch.bincount((source[:, 1].long() - FIRST_WORD) // 3, minlength=100)
    harmonic = sum(1 / rank for rank in range(1, 101))
    assert counts[0] / 4_000 == pytest.approx(1 / harmonic, rel=0.15)
    assert counts[1] / counts[0] == pytest.approx(1 / 2, rel=0.2)


@pytest.mark.parametrize("length", [8, 33, 128])
def test_every_sequence_has_the_same_number_of_masked_words_and_none_is_a_symbol(length: int) -> None:
    data = sequences.generate(vocabulary=200, length=length, samples=64)
    words, segments, positions, answers, following = everything(data.train)
    assert words.shape == segments.shape == (64, length)
    assert positions.shape == answers.shape == (64, max(1, round(0.15 * length)))
    assert (answers >= FIRST_WORD).all()
    assert (positions.diff(dim=1) > 0).all()
    assert (words[:, 0] == sequences.CLASSIFY).all()
    assert ((words == sequences.SEPARATE).sum(1) == 2).all()
    assert set(following.tolist()) == {sequences.CONTINUES, sequences.RANDOM}
    assert (segments.diff(dim=1) >= 0).all()


def test_eight_in_ten_masked_words_are_hidden_and_one_in_ten_is_kept() -> None:
    words, _, positions, answers, _ = everything(sequences.generate(vocabulary=2_000, length=128, samples=500).train)
    shown = words.gather(1, positions)
    assert (shown == sequences.MASK).double().mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == answers).double().mean() == pytest.approx(0.1, abs=0.02)


def test_a_sequence_is_the_same_in_any_batch() -> None:
    examples = sequences.generate(vocabulary=200, length=20, samples=50).train
    together = examples.batch(np.array([7, 3, 11]))
    alone = examples.batch(np.array([3]))
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one[1:2], other)
    validation = sequences.generate(vocabulary=200, length=20, samples=50).validation
    assert validation is not None
    assert not torch.equal(validation.batch(np.array([3]))[0], alone[0])


def test_words_follow_their_predecessors_and_a_random_second_sentence_changes_the_topic() -> None:
    examples = sequences.generate(vocabulary=200, length=21, samples=40).train
    assert isinstance(examples, sequences.Sequences)
    words, segments, positions, answers, following = everything(examples)
    numbers = words.scatter(1, positions, answers).numpy() - sequences.FIRST_WORD
    chains = examples.chains
    for row, answer in zip(numbers, following, strict=True):
        first, second = row[1:10], row[11:20]
        for sentence in (first, second):
            assert all(b in chains.successors[a] for a, b in itertools.pairwise(sentence))
        seam = second[0] in chains.successors[first[-1]]
        same_topic = first[0] % chains.topics == second[0] % chains.topics
        assert seam == same_topic == (answer == sequences.CONTINUES)
    assert segments[0].tolist() == [0] * 11 + [1] * 10
