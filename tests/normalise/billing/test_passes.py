"""Lines are told apart by the hash of what decides their key, and added up exactly."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from auditor.lake import store
from auditor.normalise.billing import passes, source
from auditor.normalise.billing.passes import Lines
from auditor.normalise.billing.source import Source

COLUMNS = {
    "resource": "VARCHAR",
    "team": "VARCHAR",
    "tags": "MAP(VARCHAR, VARCHAR)",
    "start": "TIMESTAMP",
    "cost": "VARCHAR",
}
OPENED = Source("bill", COLUMNS, {name: name for name in COLUMNS}, "csv")
READ = Lines(
    start='"start"',
    end='"start" + interval 1 hour',
    bill_day='"start"::date',
    keys={
        "resource": 'lower("resource")',
        "tags": "to_json(tags)::varchar",
        "month": "date_trunc('month', \"start\")",
        "hourly": "starts_with(\"resource\", 'gpu')",
    },
    measures={"amount": '"cost"::decimal(30,12)'},
)


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    made = store.connect("256MiB", 1, tmp_path)
    made.execute(f"""
        copy (
        select case when i % 3 = 0 then 'gpu-' else 'I-' end || i % 7 as resource, 'x' as team, map {{'a': (i % 2)::varchar}} as tags,
            timestamp '2026-10-31' + to_hours(i % 48) as start, '0.1' as cost
        from range(3000) as t(i)
        ) to '{tmp_path}/bill.parquet' (format parquet, row_group_size 2048)
    """)
    made.execute(f"create temp view bill as select *, {source.PLACE} from read_parquet('{tmp_path}/bill.parquet')")
    yield made
    made.close()


def test_the_columns_that_sql_reads_are_found_but_not_those_it_only_spells() -> None:
    columns = {"team": "VARCHAR", "resourcetags/owner's": "VARCHAR", "usage": "VARCHAR", "cost": "VARCHAR"}
    sql = """case when team = 'usage "cost"' then "resourcetags/owner's" end"""
    assert passes.mentioned([sql], columns) == ["team", "resourcetags/owner's"]


def test_every_line_is_in_the_sum_of_its_key_and_slot(con: duckdb.DuckDBPyConnection) -> None:
    passes.add_up(con, OPENED, READ)
    by_facts = "select resource, tags, month, hourly, start_at, sum(amount), sum(source_rows)::bigint from bill_facts join bill_keys using (key_hash, other_hash) group by all"
    by_lines = """
        select lower(resource), to_json(tags)::varchar, date_trunc('month', start), starts_with(resource, 'gpu'),
            case when starts_with(resource, 'gpu') then start else date_trunc('day', start) end, sum(cost::decimal(30,12)), count(*)
        from bill group by all
    """
    assert con.execute(f"({by_facts}) except ({by_lines})").fetchall() == []
    assert con.execute("select sum(amount), sum(source_rows)::bigint from bill_facts").fetchone() == (
        Decimal(300),
        3000,
    )


def test_a_key_that_differs_by_the_month_of_the_line_is_one_a_month(con: duckdb.DuckDBPyConnection) -> None:
    passes.add_up(con, OPENED, READ)
    assert con.execute(
        "select count(distinct key), count(distinct month) from bill_keys where resource = 'gpu-0'"
    ).fetchone() == (4, 2)


def test_a_charge_of_more_than_ten_years_has_no_dates_but_a_day_on_the_bill(con: duckdb.DuckDBPyConnection) -> None:
    passes.add_up(con, OPENED, replace(READ, end='"start" + interval 11 year'))
    rows = con.execute(
        "select start_at, end_at, bill_day is null, sum(source_rows)::bigint from bill_facts group by all"
    )
    assert rows.fetchall() == [(None, None, False, 3000)]


def test_columns_that_others_decide_are_read_once_for_each_key(con: duckdb.DuckDBPyConnection) -> None:
    passes.add_up(con, OPENED, READ)
    apart = con.execute("select count(*) from bill_keys").fetchone()
    passes.add_up(con, OPENED, replace(READ, implied={"tags": ("resource",)}))
    together = con.execute("select count(*), count(tags) from bill_keys").fetchone()
    assert apart is not None and together is not None
    assert together[0] * 2 == apart[0]
    assert together[1] == together[0]


def test_a_measure_that_is_the_same_on_every_line_is_counted_not_read(con: duckdb.DuckDBPyConnection) -> None:
    passes.add_up(
        con,
        OPENED,
        replace(READ, measures={**READ.measures, "upfront": "0.5::decimal(30,12)", "net": "null::decimal(30,12)"}),
    )
    assert con.execute("select sum(upfront), count(net) from bill_facts").fetchone() == (Decimal(1500), 0)
