"""Peak compute of accelerators: one table, a source on each row, every model that the rules name."""

import re
from collections.abc import Iterator

import duckdb
import pytest

from auditor import peaks
from auditor.assets import room


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        peaks.create_table(con)
        yield con


def test_each_figure_bears_a_source_and_those_that_were_read_a_date(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute(
        "select accelerator_model from accelerator_peaks where peak_tflops is null or peak_tflops <= 0 or source is null "
        "or quality not in ('ok', 'unconfirmed') or (quality = 'ok') <> (as_of is not null) or use not in ('inference', 'training', 'both')"
    ).fetchall() == []  # fmt: skip


def test_each_cloud_has_each_accelerator_once(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute(
        "select provider, count(*) = count(distinct accelerator_model) from accelerator_peaks group by provider order by provider"
    ).fetchall() == [("aws", True), ("azure", True), ("gcp", True)]


def test_the_peak_of_each_successor_is_known(con: duckdb.DuckDBPyConnection) -> None:
    rule = (room("rules") / "gpu" / "previous_generation.sql").read_text(encoding="utf-8")
    pairs = re.findall(r"\('([^']+)', '([^']+)', (?:true|false)\)", rule)
    known = {row[0] for row in con.execute("select accelerator_model from accelerator_peaks").fetchall()}
    assert len(pairs) > 20
    assert {model for pair in pairs for model in pair} <= known
