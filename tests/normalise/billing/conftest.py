from collections.abc import Callable
from pathlib import Path

import pytest
from bill_files import Audit


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "audit")


@pytest.fixture(scope="module")
def new_audit(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Audit]:
    return lambda: Audit(tmp_path_factory.mktemp("audit") / "audit")
