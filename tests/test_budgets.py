"""Budgets of the configuration, as rules read them."""

from collections.abc import Iterator

import duckdb
import pytest

from auditor import budgets
from auditor.errors import SettingsError
from auditor.settings import parse


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def _table(con: duckdb.DuckDBPyConnection, *tables: dict[str, object]) -> list[tuple[object, ...]]:
    settings = parse({"budgets": list(tables)}, "here")
    budgets.create_table(con, settings.budgets, ["gcp", "aws"])
    return con.execute(
        "select provider, name, monthly::varchar, currency, account, tag_key, tag_value, provider_count from budgets order by name, provider"
    ).fetchall()


def test_a_budget_of_one_provider_is_one_row(con: duckdb.DuckDBPyConnection) -> None:
    assert _table(con, {"name": "ml", "monthly": 1000.5, "provider": "AWS", "account": "111122223333"}) == [
        ("aws", "ml", "1000.500000000000", "USD", "111122223333", None, None, 1)
    ]


def test_a_budget_without_a_provider_covers_every_provider_with_charges(con: duckdb.DuckDBPyConnection) -> None:
    rows = _table(con, {"name": "all", "monthly": 10, "currency": "eur"})
    assert [(row[0], row[3], row[7]) for row in rows] == [("aws", "EUR", 2), ("gcp", "EUR", 2)]


def test_a_tag_is_compared_without_case_separators_and_prefixes(con: duckdb.DuckDBPyConnection) -> None:
    rows = _table(con, {"monthly": 10, "provider": "aws", "tag": "user:Cost-Center = LLM"})
    assert rows[0][5:7] == ("costcenter", "llm")


def test_without_budgets_the_table_is_empty(con: duckdb.DuckDBPyConnection) -> None:
    assert _table(con) == []


def test_a_budget_without_a_name_is_called_by_its_scope() -> None:
    settings = parse({"budgets": [{"monthly": 10, "provider": "aws", "tag": "team=ml"}, {"monthly": 10}]}, "here")
    assert [budget.title for budget in settings.budgets] == ["aws team=ml", "all"]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ([{"monthly": 10}, {"monthly": 20}], "two budgets are called 'all'"),
        ([{"monthly": 0}], "greater than 0"),
        ([{"montly": 10}], "did you mean 'monthly'"),
        ([{"monthly": 10, "tag": "team"}], "budgets.0.tag"),
    ],
)
def test_a_wrong_budget_is_refused_with_the_reason(tables: list[dict[str, object]], says: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse({"budgets": tables}, "here")
    assert says in str(error.value)
