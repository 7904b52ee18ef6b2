"""One rendering of the invented company's report for all tests that only read it."""

from pathlib import Path

import pytest

from auditor.render import FORMATS, render
from tests.render import invented


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a report in every format."""
    folder = tmp_path_factory.mktemp("reports")
    render(invented.document(), invented.extras(), tuple(FORMATS), folder)
    return folder
