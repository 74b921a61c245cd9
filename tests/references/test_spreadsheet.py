"""A user's CSV: headings as people write them are understood, wrong files are refused with the line and the remedy."""

from pathlib import Path

import pytest

from paceline.errors import DataError
from paceline.references.audit import audit
from paceline.references.base import Row
from paceline.references.headings import read_heading
from paceline.references.spreadsheet import read


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def rows(folder: Path, text: str) -> tuple[Row, ...]:
    (series,) = read(written(folder, text)).series
    return series.rows


@pytest.mark.parametrize(
    ("heading", "field", "unit"),
    [
        ("workers", "workers", None),
        ("np", "workers", None),
        ("World size", "workers", None),
        ("gpus", "devices", None),
        ("#GPU", "devices", None),
        ("GPU number", "devices", None),
        ("nranks_per_gpu", "workers_per_device", None),
        ("images/s", "throughput", "images/s"),
        ("imgs/sec", "throughput", "imgs/s"),
        ("words per second", "throughput", "words/s"),
        ("Throughput (images/s)", "throughput", "images/s"),
        ("throughput_images_per_s", "throughput", "images/s"),
        ("Processing speed (words/s)", "throughput", "words/s"),
        ("speed-up", "speedup", None),
        ("Speedup ratio", "speedup", None),
        ("Scalability (x)", "speedup", "x"),
        ("Efficiency [%]", "efficiency", "%"),
        ("efficiency_percent", "efficiency", "%"),
        ("step time (ms)", "step_seconds", "ms"),
        ("step_ms", "step_seconds", "ms"),
        ("step_seconds", "step_seconds", None),
        ("sync_seconds", "sync_seconds", None),
        ("sync time (ms)", "sync_seconds", "ms"),
        ("Total time (min)", "seconds", "m"),
        ("batch size per GPU", "batch", None),
        ("global batch", "global_batch", None),
        ("val_loss", "val_loss", None),
        ("GPU_util%", "utilisation_percent", "%"),
        ("total_imgs_processed", "samples", None),
        ("images/s/gpu", None, None),
        ("comment", None, None),
    ],
)
def test_a_heading_is_understood_with_its_unit(heading: str, field: str | None, unit: str | None) -> None:
    understood = read_heading(heading)
    assert (understood.field, understood.unit) == (field, unit)


def test_nothing_to_synchronise_is_a_figure_and_less_than_nothing_is_refused(tmp_path: Path) -> None:
    alone, two = rows(tmp_path, "workers,step_seconds,sync (ms)\n1,0.2,0\n2,0.3,95\n")
    assert (alone.sync_seconds, two.sync_seconds) == (0, 0.095)
    with pytest.raises(DataError, match=r"line 2: sync_seconds '-1' is not valid: it must be a number not below 0"):
        rows(tmp_path, "workers,step_seconds,sync_seconds\n1,0.2,-1\n")


def test_figures_are_read_in_the_ways_people_write_them(tmp_path: Path) -> None:
    one, two = rows(
        tmp_path,
        "gpus,images/s,speedup,efficiency,step time (ms),time,val_loss\n"
        '1,"1,234.5",1.00x,100%,250,0m33.5s,n/a\n'
        "2,2222,1.80×,90 %,281,8 min,-0.5\n",
    )
    assert (one.workers, one.devices, one.throughput, one.speedup) == (1, 1, 1234.5, 1.0)
    assert (one.efficiency, one.step_seconds, one.seconds, one.val_loss) == (1.0, 0.25, 33.5, None)
    assert (two.efficiency, two.step_seconds, two.seconds, two.val_loss) == (0.9, 0.281, 480, -0.5)
    assert (one.line, two.line) == (2, 3)


def test_efficiencies_in_percent_are_told_by_their_size(tmp_path: Path) -> None:
    assert [row.efficiency for row in rows(tmp_path, "np,efficiency\n1,100\n2,92\n4,85\n")] == [1, 0.92, 0.85]
    assert [row.efficiency for row in rows(tmp_path, "np,efficiency\n1,1\n2,1.3\n")] == [1, 1.3]


@pytest.mark.parametrize(
    "text",
    [
        "workers;throughput\n1;10\n2;19\n",
        "workers\tthroughput\n1\t10\n2\t19\n",
        "| workers | throughput |\n|:--|--:|\n| 1 | 10 |\n| 2 | 19 |\n",
        "\ufeffworkers,throughput\r\n1,10\r\n\r\n2,19,\r\n",
        "# measured on Tuesday\nworkers, throughput\n1, 10\n2, 19\n",
    ],
)
def test_delimiters_blank_lines_remarks_and_markdown_are_no_obstacle(tmp_path: Path, text: str) -> None:
    assert [(row.workers, row.throughput) for row in rows(tmp_path, text)] == [(1, 10), (2, 19)]


def test_a_table_of_report_002_is_read_as_it_stands(tmp_path: Path) -> None:
    text = (
        "|GPU number|Batch size|Total time to process 20 batches (s)|Processing speed (words/s)|Speedup ratio|\n"
        "|:--|:--|:--|:--|:--|\n|1|360|28.940|50007.279||\n|2|360|31.380|92236.723|1.84|\n|8|360|42.113|274915.239|5.50|\n"
    )
    table = read(written(tmp_path, text))
    (series,) = table.series
    assert [(row.workers, row.steps, row.seconds) for row in series.rows] == [
        (1, 20, 28.94),
        (2, 20, 31.38),
        (8, 20, 42.113),
    ]
    assert (table.notes, audit(table)) == ((), [])


def test_precision_is_that_of_the_text(tmp_path: Path) -> None:
    (series,) = read(
        written(tmp_path, 'np,images/s,speedup,efficiency\n1,"1,000.0",1.00x,100%\n2,1900,1.90,95%\n')
    ).series
    assert series.decimals == {"throughput": 1, "speedup": 2, "efficiency": 2}


def test_series_are_told_apart_by_what_names_them(tmp_path: Path) -> None:
    text = "strategy,model,workers,images/s\nps,a,1,10\nps,a,2,18\nallreduce,a,1,10\nallreduce,a,2,19\n"
    servers, ring = read(written(tmp_path, text)).series
    assert (servers.label, servers.strategy, servers.workload) == ("a ps", "ps", "a")
    assert [ring.efficiency(row) for row in ring.rows] == [1, 0.95]


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    table = read(written(tmp_path, "workers,throughput,mood\n1,10,good\n2,19,fair\n"))
    assert table.notes == ("Ignored columns: mood.",)
    assert audit(table) == []


def test_workers_follow_from_devices_and_workers_on_each(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "gpus,ranks per gpu,images/s\n2,4,100\n")
    assert (row.workers, row.devices, row.used_devices) == (8, 2, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no rows: write headings"),
        ("workers,throughput\n", "has no rows: write headings"),
        ("a,b\n1,2\n", r"line 1: none of the headings \(a, b\) is a worker count: name one `workers` or `gpus`"),
        ("workers,mood\n1,2\n", r"line 1: none of the headings \(workers, mood\) is a result"),
        ("workers,np,images/s\n1,1,2\n", "line 1: 'workers' and 'np' both mean workers: keep one"),
        ("workers,images/s\n1,10\n2\n", "line 3: 1 cells, but 2 headings"),
        ("workers,images/s\n1,1,234\n", "line 2: 3 cells, but 2 headings; quote numbers with commas"),
        ("workers,images/s\n1,fast\n", "line 2: images/s 'fast' is not valid: it must be a number above 0"),
        ("workers,images/s\n1,-5\n", "line 2: images/s '-5' is not valid: it must be a number above 0"),
        ("workers,images/s\n1,inf\n", "line 2: images/s 'inf' is not valid"),
        ("workers,images/s\n1.5,10\n", "line 2: workers '1.5' is not valid: it must be a whole number above 0"),
        ("workers,images/s\n0,10\n", "line 2: workers '0' is not valid"),
        ("workers,images/s\n,10\n", "line 2: the worker count is missing"),
        ("workers;images/s\n1;12,5\n", "line 2: images/s '12,5' is not valid"),
        ("workers,time\n1,soon\n", "line 2: time 'soon' is not valid"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_remedy(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(written(tmp_path, text))


def test_what_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DataError, match="is not text"):
        read(tmp_path / "picture.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "missing.csv")


def test_faults_of_a_users_table_are_found(tmp_path: Path) -> None:
    text = (
        "gpus,batch,step time (s),images/s,speedup,efficiency,machine\n"
        "1,32,0.32,100,1.00,100%,a\n2,32,0.32,200,2.00,100%,a\n4,32,0.40,330,3.20,80%,a\n8,32,0.40,600,6.00,75%,b\n"
    )
    found = {(f.check, f.severity, tuple(row.line for row in f.rows)) for f in audit(read(written(tmp_path, text)))}
    assert ("speed-up", "fault", (4,)) in found
    assert ("rate", "fault", (4,)) in found
    assert ("machine", "fault", (5,)) in found
