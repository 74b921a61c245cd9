"""What holds for every test of a testbed: it leaves no network namespace behind."""

import os
from collections.abc import Iterator

import pytest
from testbed.hosts_here import namespaces


@pytest.fixture(scope="module", autouse=True)
def _no_namespace_is_left_behind() -> Iterator[None]:
    before = _held()
    yield
    assert _held() == before


def _held() -> set[int]:
    """Network namespaces that this process is in, or holds."""
    return {namespace for namespace, pids in namespaces().items() if os.getpid() in pids}
