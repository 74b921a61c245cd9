"""The JSON Schema of a record, generated from its types: `python -m paceline.schema > docs/record.schema.json`."""

import ast
import dataclasses
import inspect
import json
import textwrap
from typing import Any

import msgspec

from paceline import record, record_parts
from paceline.migrations import SCHEMA_VERSION
from paceline.spec import SETTINGS, RunSpec


def record_schema() -> dict[str, Any]:
    """What `record.json` holds. A field with a default was added later, and older records of this version lack it."""
    generated = msgspec.json.schema(record.Record)
    for name, definition in generated["$defs"].items():
        described = _described(
            RunSpec if name == RunSpec.__name__ else getattr(record if name == "Record" else record_parts, name)
        )
        for field, property_ in definition["properties"].items():
            if described.get(field):
                property_["description"] = described[field]
    whole = generated["$defs"]["Record"]
    whole["properties"]["schema_version"] |= {"const": SCHEMA_VERSION}
    whole["required"] = sorted({*whole["required"], "schema_version"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Paceline record, schema version {SCHEMA_VERSION}",
        **generated,
    }


def _described(kind: type) -> dict[str, str]:
    """What each field means: the help of a setting, or the text below a field of a record."""
    if kind is RunSpec:
        return {name: setting.help for name, setting in SETTINGS.items()}
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef), "the source of a class"
    described = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        below = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and below:
            described[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())  # type: ignore[attr-defined]
    assert described.keys() <= {field.name for field in dataclasses.fields(kind)}
    return described


if __name__ == "__main__":
    print(json.dumps(record_schema(), indent=2, ensure_ascii=False))
