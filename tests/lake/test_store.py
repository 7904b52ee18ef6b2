"""The lake's files and tables: what is written comes back, what does not count goes, what is gone is said."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from auditor.errors import LakeError
from auditor.lake import store
from auditor.records import LakeFileRecord


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    made = store.connect("256MiB", 1, tmp_path)
    for table, columns in (("keys", "charge_keys"), ("days", "charge_days"), ("hours", "charge_hours")):
        store.create_empty(made, table, store.FILES[columns])
    made.execute("""
        insert into keys by name
        select 1 as charge_key, 'd1' as delivery_id, 'a' as SubAccountId, 'r1' as ResourceId, 'accelerator.hours' as usage_kind
        union all by name select 2 as charge_key, 'd1' as delivery_id, 'a' as SubAccountId, 'compute.hours' as usage_kind, 'sp-1' as CommitmentDiscountId
        union all by name select 3 as charge_key, 'd2' as delivery_id, 'a' as SubAccountId, 'accelerator.hours' as usage_kind, 'sp-2' as CommitmentDiscountId
    """)
    made.execute("""
        insert into days by name
        select 1 as charge_key, 1.000000000001::decimal(30,12) as BilledCost, day as bill_day, day, 1 as source_rows
        from (select date '2026-10-01' + i::integer as day from range(3) as t(i))
        union all by name select 3 as charge_key, 5 as BilledCost, date '2026-10-01' as day, 1 as source_rows
    """)
    made.execute("""
        insert into hours by name
        select charge_key, date '2026-10-01' as day, timestamp '2026-10-01 07:00' as hour, 'hour' as grain from keys
    """)
    yield made
    made.close()


def write(con: duckdb.DuckDBPyConnection, data_dir: Path, delivery_id: str = "d1") -> list[LakeFileRecord]:
    return store.write_delivery(
        con,
        data_dir,
        keys="keys",
        charges="days",
        hourly="hours",
        provider="acme clouds/..",
        source="s",
        delivery_id=delivery_id,
        billing_period="2026-10",
    )


def test_a_delivery_is_written_apart_from_others_and_read_back_to_the_last_digit(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    files = write(con, tmp_path / "data")
    assert {(file.table, file.rows) for file in files} == {
        ("charge_keys", 2),
        ("charge_days", 3),
        ("charge_hours", 2),
    }
    store.load(con, tmp_path / "data", files)
    assert con.execute("select sum(BilledCost), count(distinct delivery_id) from charges").fetchone() == (
        Decimal("3.000000000003"),
        1,
    )


def test_a_provider_s_name_never_leaves_the_lake(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for file in write(con, tmp_path / "data"):
        assert ".." not in file.path
        assert (tmp_path / "data" / file.path).is_file()


def test_the_keys_of_several_deliveries_stay_apart(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    first = write(con, tmp_path)
    con.execute("delete from keys; delete from days; delete from hours")
    con.execute("insert into keys by name select 1 as charge_key, 'd2' as delivery_id, 'r9' as ResourceId")
    con.execute("insert into days by name select 1 as charge_key, 7 as BilledCost, date '2026-10-05' as day")
    store.load(con, tmp_path, [*first, *write(con, tmp_path, "d2")])
    query = "select delivery_id, ResourceId, sum(BilledCost)::integer from charges group by all order by all"
    assert con.execute(query).fetchall() == [("d1", "r1", 3), ("d2", "r9", 7)]


def test_an_hour_of_an_accelerator_under_a_commitment_is_in_both_details(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    store.load(con, tmp_path, [*write(con, tmp_path), *write(con, tmp_path, "d2")])
    for table, found in (("accelerator_charges", ["d1", "d2"]), ("commitment_charges", ["d1", "d2"])):
        assert con.execute(f"select delivery_id from {table} order by all").fetchall() == [(each,) for each in found]
    both = "select hour::varchar, ChargePeriodEnd::varchar from accelerator_charges join commitment_charges using (hour, ChargePeriodEnd, delivery_id)"
    assert ("2026-10-01 07:00:00", "2026-10-02 00:00:00") in con.execute(both).fetchall()


def test_files_of_an_earlier_version_are_not_taken_for_none(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    wide = replace(write(con, tmp_path)[0], table="charges")
    with pytest.raises(LakeError, match="earlier version"):
        store.load(con, tmp_path, [wide])


def test_a_table_without_files_is_empty(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    store.load(con, tmp_path, [])
    assert con.execute("select count(*) from accelerator_charges").fetchone() == (0,)


def test_a_live_file_that_is_gone_is_named(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    gone = replace(write(con, tmp_path)[0], path="lake/charges/gone.parquet")
    with pytest.raises(LakeError, match=r"gone\.parquet is missing"):
        store.load(con, tmp_path, [gone])


def test_a_directory_that_cannot_be_written_is_named_and_no_part_stays(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (tmp_path / "lake").write_text("a file where a folder should be")
    with pytest.raises(LakeError, match="cannot be written"):
        write(con, tmp_path)
    assert not list(tmp_path.rglob("*.part"))


def test_what_does_not_count_is_taken_out_whole_or_day_by_day(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    store.load(con, tmp_path, [*write(con, tmp_path), *write(con, tmp_path, "d2")])
    store.keep_counted(con, [("d2", "a")], [("d1", "a", "2026-10-02")])
    assert con.execute("select delivery_id, bill_day::varchar from charges order by all").fetchall() == [
        ("d1", "2026-10-02"),
        ("d2", None),
    ]


def test_the_memory_limit_is_never_above_two_gibibytes() -> None:
    assert store.default_memory_limit().endswith("MiB")
    assert int(store.default_memory_limit()[:-3]) <= 2048
