"""What a study shows: what varies, the rates against the baseline, the columns asked for, and what is missing."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from studies.quick import Notes, QuickEngine, study

from paceline.errors import WorkerLost
from paceline.measure.stats import Figure
from paceline.numbers import rate
from paceline.spec import RunSpec
from paceline.studies.definition import make_study
from paceline.studies.export import plain, to_csv
from paceline.studies.grid import Grid, spread
from paceline.studies.schedule import carry_out
from paceline.studies.store import Store
from paceline.studies.table import StudyTable, epoch_table, figure, grid_table, make_table, rows_of


def shown(folder: Path, grid: Grid, engine: QuickEngine | None = None) -> StudyTable:
    contents = carry_out(grid, Store(folder), engine or QuickEngine(), Notes())
    return make_table(grid, rows_of(grid, contents), contents)


def test_columns_are_what_varies_the_rates_and_what_was_asked_for(tmp_path: Path) -> None:
    columns = ["val_loss", "accuracy", "utilisation", "time", "epochs", "samples", "updates", "step", "sent", "ideal"]
    table = shown(tmp_path, spread(study(workers=[1, 2], batch=10, columns=columns, validate="end")))
    assert table.headings[:6] == ("strategy", "workers", "devices", "images/s (95 %)", "speed-up", "efficiency")
    last = dict(zip(table.headings, table.texts[-1], strict=True))
    assert (last["strategy"], last["workers"], last["images/s (95 %)"]) == ("allreduce", "2", "200 (198–202)")
    assert (last["speed-up"], last["efficiency"], last["ideal"]) == ("2.00× (1.97×–2.03×)", "100% (99%–101%)", "200")
    assert (last["val_loss"], last["accuracy"], last["utilisation"], last["time"]) == ("4.5", "0.75", "90%", "3s")
    assert (last["epochs"], last["samples"], last["updates"]) == ("2", "80", "4")
    assert (last["step"], last["sent per step"]) == ("100ms", "1 KB")


def test_weak_or_strong_batch_and_rate_stand_beside_the_numbers(tmp_path: Path) -> None:
    weak = shown(tmp_path / "weak", spread(study(workers=[1, 2], batch=8, lr=0.5, lr_rule="linear")))
    assert "weak scaling, vae, batch 8 per worker, lr 0.5, lr rule linear" in weak.title.replace("tried: ", "")
    strong = shown(tmp_path / "strong", spread(study(workers=[1, 2], batch=8, scaling="strong", lr=[0.5, 0.25])))
    assert "strong scaling, vae, batch 8 in total" in strong.title
    assert {"batch per worker", "lr"} <= set(strong.headings)
    assert "lr 0.5" not in strong.title


def test_strong_scaling_is_compared_with_one_worker_of_the_whole_batch(tmp_path: Path) -> None:
    grid = spread(study(workers=[1, 2], batch=[8, 16], scaling="strong"))
    contents = carry_out(grid, Store(tmp_path), QuickEngine(), Notes())
    for row in rows_of(grid, contents):
        assert row.scaling is not None
        assert {r.spec.batch for r in row.scaling.baseline} == {row.cell.settings["batch"]}


def test_where_variants_have_labels_the_label_stands_for_their_settings(tmp_path: Path) -> None:
    variants = [{"label": "one way", "strategy": "allreduce"}, {"label": "other way", "strategy": "ps"}]
    table = shown(tmp_path, spread(study(workers=[1, 2], variant=variants)))
    assert "strategy" not in table.headings
    assert [texts[0] for texts in table.texts] == ["baseline of one way, other way"] + 2 * ["one way"] + 2 * [
        "other way"
    ]


def test_failed_and_impossible_cells_are_shown_as_such_with_the_reason(tmp_path: Path) -> None:
    def fail(spec: RunSpec) -> None:
        if spec.workers == 2:
            raise WorkerLost("Worker 1 was killed by SIGKILL after step 3.\nLast lines:\n  …")

    table = shown(tmp_path, spread(study(workers=[2, 4096], columns=["val_loss"], validate="end")), QuickEngine(fail))
    assert [row["throughput"] is None for row in table.values] == [False, True, True]
    assert [texts[table.headings.index("images/s (95 %)")] for texts in table.texts] == [
        "100 (99–101)",
        "failed",
        "impossible",
    ]
    notes = "\n".join(table.notes)
    assert "workers 2: failed: Worker 1 was killed by SIGKILL after step 3." in notes
    assert "Last lines" not in notes
    assert "workers 4096: impossible: " in notes


def test_repeats_that_are_missing_are_told(tmp_path: Path) -> None:
    def fail(spec: RunSpec) -> None:
        if (spec.workers, spec.turn) == (2, 1):
            raise WorkerLost("Worker 1 was killed.")

    table = shown(tmp_path, spread(study(workers=[2], repeats=2)), QuickEngine(fail))
    assert any("1 of 2 repeats are finished" in note for note in table.notes)


def test_a_column_that_nobody_knows_is_told_with_those_there_are(tmp_path: Path) -> None:
    table = shown(tmp_path, spread(study(columns=["acuracy"])))
    (note,) = (note for note in table.notes if "acuracy" in note)
    assert "val_loss" in note
    assert note.endswith("accuracy.")


def test_columns_that_every_table_has_keep_their_figures_when_they_are_asked_for(tmp_path: Path) -> None:
    always = ["devices", "throughput", "speedup", "efficiency", "workers", "strategy", "throughput_low"]
    plain = shown(tmp_path, spread(study(workers=[1, 2], columns=["time"], repeats=2)))
    again = shown(tmp_path, spread(study(workers=[1, 2], columns=[*always, "time", "time"], repeats=2)))
    assert again.headings == plain.headings
    assert to_csv(again) == to_csv(plain)
    assert again.values == plain.values
    assert not [note for note in again.notes if "is not in these records" in note]


@pytest.mark.parametrize("message", ["", "\n", "  \n \n"])
def test_a_failure_without_words_is_told_by_its_kind(tmp_path: Path, message: str) -> None:
    def fail(spec: RunSpec) -> None:
        raise WorkerLost(message)

    table = shown(tmp_path, spread(study(workers=1)), QuickEngine(fail))
    assert any(note.endswith("failed: WorkerLost") for note in table.notes)


def test_samples_or_updates_that_were_to_be_equal_and_are_not_are_told(tmp_path: Path) -> None:
    """A quick run makes four steps of a whole batch, whatever it is asked for."""
    table = {"name": "tried", "workload": "vae", "workers": [1, 2], "batch": 8}
    met = shown(tmp_path / "met", spread(make_study({**table, "workers": 2, "steps": 4, "equal": "updates"})))
    assert not [note for note in met.notes if "not equal" in note]
    missed = shown(tmp_path / "updates", spread(make_study({**table, "steps": 6, "equal": "updates"})))
    assert any("updates are not equal, 4 of 6" in note for note in missed.notes)
    samples = shown(tmp_path / "samples", spread(make_study({**table, "equal": "samples", "samples": 64})))
    (note,) = (note for note in samples.notes if "not equal" in note)
    assert note.startswith("independent · workers 1; allreduce · workers 1: samples are not equal, 32 of 64; the last ")
    assert "choose a batch that does" in note
    assert "samples" not in met.headings
    assert [row["samples"] for row in samples.values] == [32, 32, 64]


def test_what_is_damaged_is_named_before_it_is_run_again(tmp_path: Path) -> None:
    grid, store = spread(study(workers=[1, 2], repeats=2)), Store(tmp_path)
    carry_out(grid, store, QuickEngine(), Notes())
    harmed = grid.runs_of(grid.cells[1])[0]
    (store.folder_of(harmed) / "series.npz").write_bytes(b"")
    shutil.rmtree(store.folder_of(grid.runs_of(grid.cells[2])[0]))
    (store.folder_of(grid.runs_of(grid.cells[2])[1]) / "record.json").write_text("")
    contents = store.read(grid.in_turns())
    rows = rows_of(grid, contents)
    assert [row.state for row in rows] == ["done", "1 of 2 repeats", "damaged"]
    notes = grid_table(grid, rows, contents, [None] * 3).notes
    assert len(notes) == 2
    assert f"damaged: {store.folder_of(harmed) / 'series.npz'} is not a readable sidecar" in notes[0]
    assert notes[0].endswith("It will be moved aside and run again.")


def test_what_is_said_of_several_rows_is_said_once(tmp_path: Path) -> None:
    table = shown(tmp_path, spread(study(workers=[1, 2, 2048, 4096])))
    (note,) = (note for note in table.notes if "impossible" in note)
    assert note.startswith("allreduce · workers 2048; allreduce · workers 4096 (figures of the first): impossible: ")


def test_a_fixed_timing_is_marked(tmp_path: Path) -> None:
    asked = make_study({"name": "tried", "workload": "vae", "timing": "fixed:warmup=2,steps=2", "batch": 8})
    assert "timing fixed:warmup=2,steps=2, without interval" in shown(tmp_path, spread(asked)).title


def test_csv_has_a_line_per_row_and_intervals_in_columns_of_their_own(tmp_path: Path) -> None:
    table = shown(tmp_path, spread(study(workers=[1, 4096], columns=["val_loss"], validate="end", repeats=2)))
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == 3
    assert float(lines[1]["throughput"]) == pytest.approx(100)
    assert {"throughput_low", "speedup_high", "efficiency_low", "val_loss", "workers"} <= lines[1].keys()
    assert (lines[2]["workers"], lines[2]["throughput"], lines[2]["val_loss"]) == ("4096", "", "")


def test_the_second_table_has_a_row_per_epoch(tmp_path: Path) -> None:
    grid = spread(study(workers=[1, 2], batch=10, repeats=2, per_epoch=True, validate="epoch"))
    contents = carry_out(grid, Store(tmp_path), QuickEngine(), Notes())
    table = epoch_table(grid, rows_of(grid, contents), Store(tmp_path))
    assert table.headings == ("strategy", "workers", "epoch", "time", "loss", "val_loss", "accuracy")
    assert len(table.texts) == 3 * 2
    first, second = (dict(row) for row in table.values[-2:])
    assert (first["epoch"], first["loss"], first["val_loss"], first["accuracy"]) == (1, 3.5, 5.0, 0.5)
    assert (second["epoch"], second["loss"]) == (2, 1.5)
    assert second["time"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Figure(12345.6, 12300.4, 12400.6), "12,346 (12,300–12,401)"),
        (Figure(326.62, 323.1, 328.94), "326.6 (323.1–328.9)"),
        (Figure(1.0, 1.0, 1.0), "1"),
        (Figure(5.0, None, None), "not known"),
        (Figure(5.0, 2e-11, 2e10), "not known"),
        (Figure(5.0, 2.4, 6.0), "not known"),
        (Figure(5.0, fixed=True), "5 (no interval)"),
        (Figure(2.59, 2.54, 2.64, impossible=True), "2.59 (2.54–2.64, above ideal)"),
        (Figure(5.0, 4.0, 6.0, host_limited=True), "5 (host-limited)"),
        (None, "–"),
    ],
)
def test_figures_are_written_with_their_interval(value: Any, text: str) -> None:
    assert figure(value, rate) == text


@pytest.mark.parametrize(
    ("axis", "values"), [("optimizer", ["own", "sgd"]), ("clip_norm", [0.5, 2.0])], ids=["optimizer", "clip_norm"]
)
def test_each_value_of_a_setting_that_changes_the_step_is_compared_with_its_own_baseline(
    tmp_path: Path, axis: str, values: list[Any]
) -> None:
    def pace(spec: RunSpec) -> float:
        return (100.0 if getattr(spec, axis) == values[0] else 140.0) * (0.95 if spec.workers == 2 else 1.0)

    grid = spread(study(workers=[1, 2], strategy=["independent", "allreduce"], **{axis: values}))
    rows = rows_of(grid, carry_out(grid, Store(tmp_path), QuickEngine(rate=pace), Notes()))
    pairs = [row for row in rows if row.cell.setting("workers") == 2]
    efficiencies = [row.scaling and row.scaling.efficiency and row.scaling.efficiency.value for row in pairs]
    assert efficiencies == [pytest.approx(0.95)] * 4, "the faster one's baseline would make it 0.68"


SAME = [{"label": "A", "strategy": "allreduce"}, {"label": "B", "strategy": "allreduce"}]


def test_variants_with_equal_settings_are_rows_of_their_own(tmp_path: Path) -> None:
    grid = spread(study(workers=2, repeats=3, variant=SAME))
    rates = {(None, 0): 100, (None, 1): 101, (None, 2): 99, ("B", 0): 98, ("B", 1): 102, ("B", 2): 100}
    table = shown(tmp_path, grid, QuickEngine(rate=lambda spec: rates[spec.variant, spec.turn]))
    assert [texts[0] for texts in table.texts] == ["baseline of A, B", "A", "B"]
    assert [row["devices"] for row in table.values] == [1, 2, 2]
    one, other = (row["throughput"] for row in table.values[1:])
    assert isinstance(one, Figure)
    assert isinstance(other, Figure)
    assert one.value != other.value
    note = table.notes[0]
    assert note.startswith("Of 2 settings with 2 workers, A was the fastest; B is not measurably different from it.")
    assert "With 3 turns at this noise (" in note
    assert note.endswith("cannot be shown.")


def test_a_slower_setting_is_called_slower_and_one_turn_calls_nothing(tmp_path: Path) -> None:
    def pace(spec: RunSpec) -> float:
        return (80 if spec.variant == "B" else 100) + spec.turn + 0.1 * (spec.turn * len(spec.variant or "") % 2)

    table = shown(tmp_path / "5", spread(study(workers=2, repeats=5, variant=SAME)), QuickEngine(rate=pace))
    assert table.notes[0].startswith("Of 2 settings with 2 workers, A was the fastest; B is 19.")
    assert "% slower (" in table.notes[0]
    once = shown(tmp_path / "1", spread(study(workers=2, variant=SAME)), QuickEngine(rate=pace))
    expected = "Of 2 settings with 2 workers, none can be called faster: that takes two turns."
    assert once.notes[0].startswith(expected)


def test_what_is_not_known_has_no_number_in_any_column_or_file(tmp_path: Path) -> None:
    def wild(spec: RunSpec) -> float:
        return 100.0 * 7 ** (spec.turn - 1) if spec.workers == 2 else 100.0

    table = shown(tmp_path, spread(study(workers=[1, 2], strategy="allreduce", repeats=3)), QuickEngine(rate=wild))
    last = dict(zip(table.headings, table.texts[-1], strict=True))
    assert [last[name] for name in ("images/s (95 %)", "speed-up", "efficiency")] == ["not known"] * 3
    assert plain(table.values[-1]["throughput"]) == {"value": None, "low": None, "high": None}
    assert to_csv(table).splitlines()[-1] == "allreduce,2,2,,,,,,,,,"
    assert any("The rate is not known: its 3 turns differ too much." in note for note in table.notes)
