"""Studies are tried as on a machine with eight cores; nothing is started on them."""

import pytest

from paceline.devices import cpu


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: tuple(range(8)))
