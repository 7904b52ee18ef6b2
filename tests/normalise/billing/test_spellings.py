"""One bill in the shapes that engines, loaders and shells give it: the figures stay what they were."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal as D
from pathlib import Path
from typing import Any

import duckdb
import pytest
from bill_files import Audit, as_csv, as_json_lines, as_parquet, azure_line, cur_line, focus_line, gcp_line

CREDITS = [
    {"name": "Sustained use", "type": "SUSTAINED_USAGE_DISCOUNT", "amount": "-0.25"},
    {"name": "Bob's promotion", "type": "PROMOTION", "amount": "-0.5"},
]
GCP = [gcp_line("1.5", day=day, credits=CREDITS, labels=[{"key": "team", "value": "ml"}]) for day in (1, 2)]
GCP_TOTAL = 2 * D("0.75")


def flat(row: Mapping[str, Any], joint: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            made |= {f"{name}{joint}{field}": inner for field, inner in value.items()}
        else:
            made[name] = json.dumps(value) if isinstance(value, list) else value
    return made


def texts(row: Mapping[str, Any], printed: Callable[[Any], str]) -> dict[str, Any]:
    return {name: printed(value) if isinstance(value, (dict, list)) else value for name, value in row.items()}


GCP_FILES: dict[str, str | bytes] = {
    "one_line.json": "".join(json.dumps(row) for row in GCP),
    "utf16.json": as_json_lines(GCP).encode("utf-16"),
    "utf16_list.json": json.dumps(GCP).encode("utf-16"),
    "flat.json": as_json_lines([flat(row, ".") for row in GCP]),
    "flat_.json.gz": gzip.compress(json.dumps([flat(row, "_") for row in GCP], indent=1).encode()),
    "text.json": as_json_lines([texts(row, json.dumps) for row in GCP]),
    "printed.json": as_json_lines([texts(row, repr) for row in GCP]),
    "pretty.csv": as_csv([texts(row, lambda value: json.dumps(value, indent=2)) for row in GCP]),
    "printed.csv": as_csv([texts(row, repr) for row in GCP]),
}


@pytest.mark.parametrize("name", GCP_FILES)
def test_structs_and_credits_of_google_are_read_in_every_spelling(audit: Audit, name: str) -> None:
    audit.take({name: GCP_FILES[name]})
    assert audit.statuses == ["ok"]
    assert audit.total() == GCP_TOTAL
    assert audit.differences() == {D(0)}
    assert audit.rows("distinct ServiceName, SubAccountId, RegionId", "ChargeCategory = 'Usage'") == [
        ("Compute Engine", "acme-ml", "us-central1")
    ]


def test_credits_that_a_query_added_up_are_taken_off(audit: Audit) -> None:
    summed = [{**flat(gcp_line("2", day=day), "_"), "credits": "-0.75"} for day in (1, 2)]
    audit.take(
        {
            "a/bill.csv": as_csv(summed),
            "b/bill.json": as_json_lines({**gcp_line("2", day=3), "credits": -0.75} for _ in "x"),
        }
    )
    assert audit.total() == 2 * D("1.25") + D("1.25")


def test_credits_that_a_query_added_up_are_taken_off_in_parquet(audit: Audit, tmp_path: Path) -> None:
    summed = [{**flat(gcp_line("2", day=day), "_"), "credits": -0.75} for day in (1, 2)]
    assert audit.take({"bill.parquet": as_parquet(summed, tmp_path)}).total() == D("2.5")


def test_a_text_in_place_of_credits_makes_the_source_failed(audit: Audit) -> None:
    audit.take({"bill.csv": as_csv([{**flat(gcp_line("2"), "_"), "credits": "see invoice"}])})
    assert audit.statuses == ["failed"]
    assert "their credit is no number" in audit.messages


def test_an_export_without_credits_says_that_its_costs_are_before_them(audit: Audit) -> None:
    audit.take({"bill.csv": as_csv([flat(gcp_line("2"), "_")])})
    assert audit.total() == 2
    assert "its costs are those before credits" in audit.messages


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("spelled", [snake, str.lower, lambda name: snake(name).replace("_", " ").title()])
def test_focus_as_json_is_read_in_other_letters(audit: Audit, spelled: Callable[[str], str]) -> None:
    rows = [
        {spelled(name): value for name, value in focus_line("1.5", day=day, Tags={"team": "ml"}).items()}
        for day in (1, 2)
    ]
    audit.take({"focus.json": as_json_lines(rows)})
    assert audit.costs() == (D(3), D(3))
    assert audit.rows("distinct Tags, ServiceName") == [('{"team":"ml"}', "Amazon EC2")]


def test_json_in_other_spellings_that_breaks_off_is_named(audit: Audit) -> None:
    rows = as_json_lines([flat(row, ".") for row in GCP])
    audit.take({"bill.json": rows[:-40], "cur.csv": as_csv([cur_line()])})
    assert audit.statuses == ["failed", "ok"]
    assert "cut off after 1 rows" in audit.messages
    assert audit.total() == 1


def test_an_answer_that_powershell_saved_is_read(audit: Audit) -> None:
    answer = {
        "ResultsByTime": [
            {
                "TimePeriod": {"Start": "2026-10-01", "End": "2026-10-02"},
                "Groups": [
                    {"Keys": ["Amazon EC2"], "Metrics": {"UnblendedCost": {"Amount": "1.0000000001", "Unit": "USD"}}}
                ],
            }
        ]
    }
    assert audit.take({"ce.json": json.dumps(answer).encode("utf-16")}).total() == D("1.0000000001")


def test_a_table_in_utf16_without_its_mark_is_read(audit: Audit) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        audit.take({"cur.csv": as_csv([cur_line(cost="1.5"), cur_line(cost="2.5", day=2)]).encode(encoding)})
        assert (audit.total(), audit.statuses) == (4, ["ok"])


def typed_parquet(rows: list[dict[str, object]], path: Path, **columns: str) -> bytes:
    """The rows as Parquet, these columns as SQL has them."""
    (path / "rows.csv").write_text(as_csv(rows))
    replaced = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    with duckdb.connect() as con:
        read = f"select * from read_csv('{path / 'rows.csv'}', all_varchar=true)"
        con.execute(
            f"copy (select * exclude ({', '.join(columns)}), {replaced} from ({read})) to '{path / 'typed.parquet'}'"
        )
    return (path / "typed.parquet").read_bytes()


def cur2_lines(*costs: str) -> list[dict[str, object]]:
    rows = [cur_line(cost=cost, day=day) for day, cost in enumerate(costs, start=1)]
    made = [{"_".join(snake(part) for part in name.split("/")): value for name, value in row.items()} for row in rows]
    return [{**row, "resource_tags": "", "product": ""} for row in made]


COST_TYPES = {
    "float": ("0.1", "0.25"),
    "double": ("0.1", "1234.56"),
    "decimal(38,18)": ("0.000000000001", "-3.25"),
    "bigint": ("7", "-2"),
}


@pytest.mark.parametrize("kind", COST_TYPES)
def test_amounts_of_every_type_are_what_the_file_says(audit: Audit, tmp_path: Path, kind: str) -> None:
    costs = COST_TYPES[kind]
    cast = f"line_item_unblended_cost::{kind}"
    audit.take({"cur.parquet": typed_parquet(cur2_lines(*costs), tmp_path, line_item_unblended_cost=cast)})
    assert audit.total() == sum(map(D, costs)).normalize()
    assert audit.differences() == {D(0)}


MAPS = {
    "map": "map {'user_team': 'ml'}",
    "struct": "{'user_team': 'ml', 'user_env': null::varchar}",
    "pairs": "[{'key': 'user_team', 'value': 'ml'}]",
    "text": '\'{"user_team":"ml"}\'',
}


@pytest.mark.parametrize("shape", MAPS)
def test_tags_and_product_are_read_in_every_shape_of_a_map(audit: Audit, tmp_path: Path, shape: str) -> None:
    product = MAPS[shape].replace("user_team", "region").replace("ml", "eu-west-1")
    content = typed_parquet(cur2_lines("1.5"), tmp_path, resource_tags=MAPS[shape], product=product)
    audit.take({"cur.parquet": content})
    assert audit.rows("Tags, RegionId, BilledCost") == [('{"user_team":"ml"}', "eu-west-1", D("1.5"))]


@pytest.mark.parametrize("shape", MAPS)
def test_focus_tags_are_read_in_every_shape_of_a_map(audit: Audit, tmp_path: Path, shape: str) -> None:
    audit.take({"focus.parquet": typed_parquet([focus_line(Tags="")], tmp_path, Tags=MAPS[shape])})
    assert audit.rows("Tags") == [('{"user_team":"ml"}',)]


LINES: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "cur": lambda cost, day: cur_line(cost=cost, day=day),
    "azure": azure_line,
    "focus": focus_line,
    "gcp": lambda cost, day: flat(gcp_line(cost, day=day), "_"),
}


@pytest.mark.parametrize("amount", ["", "NULL"])
@pytest.mark.parametrize("family", LINES)
def test_trap_35_a_bill_whose_amounts_are_all_empty_is_not_free_of_charge(
    audit: Audit, family: str, amount: str
) -> None:
    audit.take({"bill.csv": as_csv([LINES[family](amount, day) for day in (1, 2)])})
    assert audit.statuses == ["failed"]
    assert "2 rows could not be read: their amount is empty" in audit.messages


def test_a_delivery_of_which_no_row_is_left_is_not_called_empty(audit: Audit) -> None:
    audit.take(
        {"bill.csv": as_csv([{**cur_line(), "bill/BillingPeriodStartDate": "", "lineItem/UsageStartDate": "soon"}])}
    )
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read: they have no date" in audit.messages
