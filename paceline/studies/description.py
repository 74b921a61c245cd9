"""`study.json`: the study that a folder holds, and whether another study extends it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from paceline.errors import OutputError
from paceline.migrations import migrated_settings
from paceline.settings import Role, SettingValue
from paceline.studies.definition import STUDY_SETTINGS
from paceline.studies.grid import Cell, Grid

STUDY_SCHEMA_VERSION = 1
_IMPOSSIBLE = "impossible"
_IDENTITY = tuple(name for name, one in STUDY_SETTINGS.items() if one.has(Role.IDENTITY))


@dataclass(frozen=True, kw_only=True)
class _Version:
    """The part of the file that every version has."""

    schema_version: int


@dataclass(frozen=True, kw_only=True)
class StudyDescription:
    """The resolved grid as plain data, with a fingerprint of everything that identifies the study."""

    schema_version: int = STUDY_SCHEMA_VERSION
    fingerprint: str
    name: str
    scaling: str
    equal: str | None
    samples: int | None
    repeats: int
    columns: tuple[str, ...] = ()
    per_epoch: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the cells that have one, by key."""

    cells: Mapping[str, Mapping[str, SettingValue]]
    """The settings of every combination by its key; `impossible` says why one cannot run."""

    @classmethod
    def of(cls, grid: Grid) -> "StudyDescription":
        """The description of a grid."""
        study = grid.study
        cells = {cell.key: _settings(cell) for cell in grid.cells}
        identity = json.dumps([{name: getattr(study, name) for name in _IDENTITY}, sorted(cells)], sort_keys=True)
        return cls(
            fingerprint=hashlib.sha256(identity.encode()).hexdigest(),
            name=study.name,
            scaling=study.scaling,
            equal=study.equal,
            samples=study.samples,
            repeats=study.repeats,
            columns=study.columns,
            per_epoch=study.per_epoch,
            labels={cell.key: cell.label for cell in grid.cells if cell.label is not None},
            cells=cells,
        )

    @classmethod
    def read(cls, file: Path) -> "StudyDescription":
        """Read the description from a file; refuses a damaged file or one of a newer Paceline."""
        try:
            content = file.read_bytes()
            version = msgspec.json.decode(content, type=_Version).schema_version
            if version <= STUDY_SCHEMA_VERSION:
                described = msgspec.json.decode(content, type=cls)
                return replace(described, cells={key: migrated_settings(c) for key, c in described.cells.items()})
        except (FileNotFoundError, NotADirectoryError):
            raise
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise OutputError(
                f"{file} cannot be read ({error}): the runs next to it are kept. "
                "Choose another --out, or remove the file if the runs belong to this study."
            ) from error
        raise OutputError(
            f"{file} has schema version {version}; this Paceline reads up to {STUDY_SCHEMA_VERSION}: update it."
        )

    def not_extended_by(self, other: "StudyDescription") -> Iterator[str]:
        """The differences that keep `other` from being this study or an extension of it, setting by setting."""
        for name in _IDENTITY:
            there, here = getattr(self, name), getattr(other, name)
            grown = name == "repeats" and here >= there
            if there != here and not grown:
                yield f"{name}: {there} there, {here} here"
        gone = [cell for key, cell in self.cells.items() if key not in other.cells and _IMPOSSIBLE not in cell]
        if not gone:
            return
        named = False
        for name in gone[0]:
            there, here = (dict.fromkeys(str(cell.get(name)) for cell in side.cells.values()) for side in (self, other))
            if not there.keys() <= here.keys():
                named = True
                yield f"{name}: {', '.join(there)} there, {', '.join(here)} here"
        if not named:
            yield f"{len(gone)} of its combinations are missing here"


def _settings(cell: Cell) -> dict[str, SettingValue]:
    if cell.spec is None:
        return {**cell.settings, _IMPOSSIBLE: cell.problem}
    return {name: value for name, value in cell.spec.to_dict().items() if name != "turn"}
