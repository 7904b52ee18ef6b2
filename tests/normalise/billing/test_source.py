"""What the statistics of Parquet files tell of a column is taken only where it is certain."""

from pathlib import Path

import duckdb
import pytest

from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.billing import source


def opened(tmp_path: Path, *selects: str) -> source.Source:
    con = duckdb.connect()
    files = []
    for number, select in enumerate(selects):
        path = tmp_path / f"{number}.parquet"
        con.execute(f"copy ({select}) to '{path}' (format parquet, row_group_size 2048)")
        file = LandingFile(path, path.name, path.stat().st_size)
        files.append(Recognised(file, Shape("parquet"), "billing", "cur2-parquet", "aws"))
    return source.open_source(con, "bill", files, tmp_path)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("null::double", "null"),
        ("null::varchar", "null"),
        ("''", None),
        ("0.0::double", "0"),
        ("0::decimal(30,12)", "0"),
        ("'0.00'", "0"),
        ("case when i = 4999 then 1e-9 else 0 end::double", None),
        ("case when i = 4999 then null else 0 end::double", None),
        ("case when i % 2 = 0 then '0' else '0.0' end", None),
        ("case when i = 0 then 'x' else '' end", None),
        ("'zero'", None),
        ("map {'a': '0'}", None),
    ],
)
def test_a_column_is_empty_or_zero_only_where_every_line_is(tmp_path: Path, values: str, told: str | None) -> None:
    assert opened(tmp_path, f"select {values} as Amount from range(5000) as t(i)").constants.get("amount") == told


def test_a_column_that_one_file_lacks_is_not_zero(tmp_path: Path) -> None:
    whole = opened(tmp_path, "select 0.0 as cost, null::varchar as tag", "select 1 as other")
    assert whole.constants == {"tag": "null"}


def test_a_column_that_differs_in_the_last_file_is_read(tmp_path: Path) -> None:
    whole = opened(tmp_path, "select 0.0::double as cost, '' as tag", "select 2.0::double as cost, 'x' as tag")
    assert whole.constants == {}
    assert whole.text("tag") != "null::varchar"
