"""`auditor sql` over a lake that a scan made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from auditor.cli.app import app
from auditor.errors import SettingsError
from tests.test_cli import one_bill


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    data_dir = folder / "data"
    words = ["scan", str(one_bill(folder / "in")), "--data-dir", str(data_dir), "-o", str(folder / "out"), "-q"]
    result = CliRunner().invoke(app, [*words, "-f", "json"])
    assert result.exit_code == 0, result.output
    return data_dir


def run(lake: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["sql", *words, "--data-dir", str(lake)])


def test_charges_can_be_asked_for_in_three_forms(lake: Path) -> None:
    query = "select ResourceId, sum(BilledCost) as cost from charges group by all"
    assert "4.608000000001" in run(lake, query).output
    assert run(lake, query, "--format", "csv").output == "ResourceId,cost\ni-0abc,4.608000000001\n"
    assert json.loads(run(lake, query, "--format", "json").output) == {"ResourceId": "i-0abc", "cost": "4.608000000001"}


@pytest.mark.parametrize(
    "query",
    [
        "delete from charges",
        "select 1; drop table charges",
        "create table mine as select 1",
        "copy charges to 'x.csv'",
        "set enable_external_access = true",
        "attach 'x.db'",
        "from read_csv('/etc/passwd', columns = {'line': 'varchar'})",
        "select * from '/etc/passwd.csv'",
        "select * from glob('/*')",
        "select nothing from charges",
    ],
)
def test_nothing_can_be_written_and_no_file_read(lake: Path, query: str) -> None:
    result = run(lake, query)
    assert isinstance(result.exception, SettingsError), result.output
    assert run(lake, "select count(*) as n from charges", "-f", "csv").output == "n\n3\n"
