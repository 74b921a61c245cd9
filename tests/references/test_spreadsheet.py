"""A user's CSV: headings as people write them are understood, wrong files are refused with the line and the remedy."""

from pathlib import Path

import pytest

from paceline.errors import DataError, SpecError
from paceline.references.audit import audit
from paceline.references.base import Row
from paceline.references.columns import parse_columns
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
    assert (table.used, table.unused) == ({"workers": "workers", "throughput": "throughput"}, ("mood",))
    assert (table.notes, audit(table)) == ((), [])


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
        (
            "workers,np,images/s\n1,2,2\n",
            "line 1: 'workers' and 'np' both mean workers and differ: choose one, as in --columns workers=workers",
        ),
        ("workers,images/s\n1,10\n2\n", "line 3: 1 cells, but 2 headings"),
        ("workers,images/s\n1,1,234\n", "line 2: 3 cells, but 2 headings; quote numbers with commas"),
        ("workers,images/s\n1,fast\n", "line 2: images/s 'fast' is not valid: it must be a number above 0"),
        ("workers,images/s\n1,-5\n", "line 2: images/s '-5' is not valid: it must be a number above 0"),
        ("workers,images/s\n1,inf\n", "line 2: images/s 'inf' is not valid"),
        ("workers,images/s\n1.5,10\n", "line 2: workers '1.5' is not valid: it must be a whole number above 0"),
        ("workers,images/s\n0,10\n", "line 2: workers '0' is not valid"),
        ("workers,images/s\n,10\n", "line 2: the worker count is missing"),
        ("workers;images/s\n1;1,234\n2;2,345\n", "'1,234' is 1234 or 1.234: write it without the comma, or with a p"),
        ("workers;images/s\n1;12,5\n2;24.5\n", "'12,5' has a decimal comma and '24.5' a decimal point: write all"),
        ("workers,images/s\n1,12.3k\n", r"images/s '12.3k' is not valid.* Write 12.3 alone, and the unit \(k\)"),
        (
            "workers,throughput\n1,219 img/s\n2,400 words/s\n",
            "throughput is in img/s and in words/s: write all rows in",
        ),
        ("workers,step,_step\n1,1,2\n", r"is a result: name one `throughput`.* --columns throughput=HEADING"),
        ("workers,images/s,words/s\n1,10,20\n2,19,90\n", "both mean throughput and differ: choose one, as in --col"),
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


def test_decimal_commas_are_read_where_cells_are_divided_by_something_else(tmp_path: Path) -> None:
    for text in ("workers;images/s\n1;219,5\n2;1.422,25\n", "workers\timages/s\n1\t219,5\n2\t1422,25\n"):
        assert [row.throughput for row in rows(tmp_path, text)] == [219.5, 1422.25]
    assert [row.throughput for row in rows(tmp_path, "workers;images/s\n1;219.5\n2;1,422\n")] == [219.5, 1422]


def test_a_speed_may_have_its_unit(tmp_path: Path) -> None:
    table = read(written(tmp_path, "workers;throughput\n1;219,5 img/s\n2;422 img/s\n"))
    (series,) = table.series
    assert ([row.throughput for row in series.rows], series.unit) == ([219.5, 422], "img/s")
    assert series.units_per_sample == 1


def test_efficiencies_in_percent_are_divided_once(tmp_path: Path) -> None:
    text = "workers,efficiency (%)\n1,100\n2,250\n4,90\n"
    assert [row.efficiency for row in rows(tmp_path, text)] == [1, 2.5, 0.9]
    assert [row.efficiency for row in rows(tmp_path, "workers,efficiency\n1,100%\n2,250%\n")] == [1, 2.5]
    mixed = rows(tmp_path, "workers,efficiency\n1,1.0\n2,95\n4,0.9\n")
    assert [row.efficiency for row in mixed] == [1, 95, 0.9], "one slip does not change the other rows"


def test_an_export_of_a_tracker_is_read_by_its_rates_and_not_by_the_number_of_a_step(tmp_path: Path) -> None:
    text = (
        "Name,_step,_runtime,config.world_size,train/samples_per_second,train/samples_per_second__MIN\n"
        "a,100,35,1,219,200\nb,100,33,2,422,400\n"
    )
    table = read(written(tmp_path, text))
    assert [(row.workers, row.throughput, row.step_seconds) for row in table.series[0].rows] == [
        (1, 219, None),
        (2, 422, None),
    ]
    assert table.used == {"config.world_size": "workers", "train/samples_per_second": "throughput"}
    assert table.unused == ("Name", "_step", "_runtime", "train/samples_per_second__MIN")


def test_a_column_is_what_the_user_says_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, "size,my speed,images/s,lap (ms)\n1,10,99,100\n2,19,98,105\n")
    table = read(path, {"workers": "size", "throughput": "my speed", "step_seconds": "lap (ms)"})
    assert [(r.workers, r.throughput, r.step_seconds) for r in table.series[0].rows] == [(1, 10, 0.1), (2, 19, 0.105)]
    assert table.unused == ("images/s",)
    with pytest.raises(SpecError, match="has no such heading; it has size, my speed"):
        read(path, {"workers": "np"})
    assert parse_columns("workers=size, throughput=my speed") == {"workers": "size", "throughput": "my speed"}
    with pytest.raises(SpecError, match="write FIELD=HEADING"):
        parse_columns("size")
    with pytest.raises(SpecError, match="workers"):
        parse_columns("worker=size")


@pytest.mark.parametrize(
    ("text", "used", "why"),
    [
        ("np,images/s,words/s,speedup\n1,10,20,1\n2,19,90,1.9\n", "images/s", "it fits the other columns"),
        ("np,batch,step_seconds,words/s,images/s\n1,8,1,99,8\n2,8,1,9,16\n", "images/s", "it fits the other columns"),
        ("np,rate,speed\n1,10,10\n2,9.5,19\n4,9,36\n", "speed", "the other is the rate of one worker"),
        ("np,images/s,words/s\n1,10,200\n2,19,380\n", "images/s", "they are proportional"),
        ("np,images/s,throughput\n1,10,10\n2,19,19\n", "images/s", "they are equal"),
    ],
)
def test_of_two_speeds_the_one_that_fits_is_used_and_the_choice_is_told(
    tmp_path: Path, text: str, used: str, why: str
) -> None:
    table = read(written(tmp_path, text))
    assert [heading for heading, field in table.used.items() if field == "throughput"] == [used]
    (note,) = table.notes
    assert why in note
