"""The published JSON Schema is the one that the record's types have, and tells a record from what is none."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from complete import record_of

from paceline.schema import record_schema

PUBLISHED = Path(__file__).parent.parent / "docs" / "record.schema.json"


def content() -> dict[str, Any]:
    written: dict[str, Any] = json.loads(record_of({"spec": {"workers": 2}}).to_json())
    return written


def test_the_published_schema_is_generated_from_the_types() -> None:
    published = json.loads(PUBLISHED.read_text())
    assert published == json.loads(json.dumps(record_schema())), (
        "run: python -m paceline.schema > docs/record.schema.json"
    )


def test_the_schema_is_itself_valid_and_describes_what_is_written() -> None:
    jsonschema.Draft202012Validator.check_schema(record_schema())
    jsonschema.validate(content(), record_schema())


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c.pop("throughput"),
        lambda c: c.update(schema_version=1),
        lambda c: c["spec"].update(workers="two"),
        lambda c: c["per_worker"][0].pop("rank"),
        lambda c: c["phases"].update(forward=None),
        lambda c: c["learning"].update(reduction="product"),
    ],
)
def test_what_is_not_a_record_does_not_satisfy_the_schema(damage: Any) -> None:
    damaged = content()
    damage(damaged)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(damaged, record_schema())


def test_a_record_that_breaks_the_published_schema_fails_the_test_that_writes_it(tmp_path: Path) -> None:
    record = record_of({"spec": {"workers": 2}})
    folders = [tmp_path / name for name in ("right", "wrong")]
    for folder in folders:
        folder.mkdir()
    record.save(folders[0])
    product: Any = "product"
    wrong = dataclasses.replace(record, learning=dataclasses.replace(record.learning, reduction=product))
    with pytest.raises(jsonschema.ValidationError, match="'product' is not one of"):
        wrong.save(folders[1])


def test_every_setting_and_every_documented_field_has_its_description() -> None:
    definitions = record_schema()["$defs"]
    assert all("description" in setting for setting in definitions["RunSpec"]["properties"].values())
    assert definitions["Phases"]["properties"]["exchange"]["description"].startswith("Exposed communication:")
