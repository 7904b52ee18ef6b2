"""The billing export in BigQuery, fetched by the vendor's client from a server on this machine."""

import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor.collect import gcp
from auditor.collect.local import gather as gather_files
from auditor.collect.work import Collection
from auditor.normalise.recognise import sort_files
from auditor.settings import GcpSource
from tests.collect.gcp.bills import DETAILED, SCHEMA, STANDARD, charge, column
from tests.collect.gcp.conftest import NOW
from tests.collect.gcp.server import Answer, BigTable, FakeGoogle, error

Make = Callable[..., Collection]
HOME = f"billing/billing/{DETAILED}"


def source(google: FakeGoogle, **more: Any) -> GcpSource:
    about = {"name": "prod", "billing_dataset": "acme-billing.billing", "metrics": False, "inventory": False}
    return GcpSource(**(about | {"endpoint_url": google.url} | more))


def rows(collection: Collection, name: str) -> list[dict[str, Any]]:
    text = gzip.decompress((collection.folder.path / name).read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def names(collection: Collection) -> list[str]:
    return sorted(collection.folder.entries)


@pytest.fixture
def table(google: FakeGoogle) -> BigTable:
    """September, a day of August with a late row in September, and a day of a period that is not wanted."""
    made = BigTable(SCHEMA)
    made.add("20260715", [charge("2026-07-15", 7)], 1)
    made.add("20260820", [charge("2026-08-20", 0.1), charge("2026-08-20", "1.0E-6"), charge("2026-08-20", 3)], 2)
    made.add("20260901", [charge("2026-08-31", 4, "202608"), charge("2026-09-01", 5)], 3)
    made.add("20261004", [charge("2026-10-04", 6)], 4)
    google.tables[DETAILED] = made
    google.tables[STANDARD] = BigTable(SCHEMA)
    return made


def test_rows_lie_by_period_and_partition_with_every_digit(
    google: FakeGoogle, table: BigTable, gather: Make, tmp_path: Path
) -> None:
    collection = gather(months=3)
    gcp.collect(source(google), collection)
    assert collection.folder.problems == []
    assert names(collection) == [
        f"{HOME}/202608/charges-000020260820.jsonl.gz",
        f"{HOME}/202608/charges-000020260901.jsonl.gz",
        f"{HOME}/202609/charges-000020260901.jsonl.gz",
        f"{HOME}/202610/charges-000020261004.jsonl.gz",
    ]
    first = rows(collection, names(collection)[0])
    assert [row["cost"] for row in first] == ["0.1", "1.0E-6", "3"]
    assert first[0]["usage_start_time"] == "2026-08-20T00:00:00Z"
    assert first[0]["export_time"] == "2026-08-20T05:00:00.123456Z"
    assert first[0]["labels"] == [{"key": "team", "value": "navigation"}] and first[0]["credits"] == []
    files, _ = gather_files([str(tmp_path / "landing")], tmp_path)
    recognised = {(one.kind, one.format) for one in sort_files(files).recognised}
    assert recognised == {("billing", "gcp-detailed-jsonl"), ("journal", "auditor-landing")}
    assert not any("/jobs" in one.path for one in google.requests)  # nothing was paid for


def test_a_second_collection_reads_no_partition_again_but_those_with_late_rows(
    google: FakeGoogle, table: BigTable, gather: Make
) -> None:
    gcp.collect(source(google), gather(months=3))
    first = len(google.asked(r"/data$"))
    gcp.collect(source(google), gather(months=3))
    assert len(google.asked(r"/data$")) == first + 1  # the summary alone
    table.add("20260901", [charge("2026-09-01", 8)], 9)
    collection = gather(months=3)
    gcp.collect(source(google), collection)
    asked = [one.path.rpartition("$")[2] for one in google.asked(r"/data$")[first + 1 :]]
    assert asked == ["__PARTITIONS_SUMMARY__/data", "20260901/data", "20260901/data"]
    assert [row["cost"] for row in rows(collection, f"{HOME}/202609/charges-000020260901.jsonl.gz")] == ["5", "8"]


def test_every_page_of_a_partition_and_of_the_list_of_tables_is_followed(google: FakeGoogle, gather: Make) -> None:
    google.tables = {f"a_table_{n}": BigTable(SCHEMA) for n in range(4)}
    google.tables[DETAILED] = BigTable(SCHEMA)
    google.tables[DETAILED].add("20261004", [charge("2026-10-04", n) for n in range(7)], 1)
    collection = gather()
    gcp.collect(source(google), collection)
    (name,) = names(collection)
    assert [row["cost"] for row in rows(collection, name)] == [str(n) for n in range(7)]


def test_a_period_that_is_no_longer_wanted_goes_as_a_whole(google: FakeGoogle, table: BigTable, gather: Make) -> None:
    gcp.collect(source(google), gather(months=3))
    collection = gather(NOW + timedelta(days=31), months=3)
    gcp.collect(source(google), collection)
    assert {name.split("/")[3] for name in names(collection)} == {"202609", "202610"}
    collection = gather(NOW + timedelta(days=31), months=5)  # asked for again, it comes again, whole
    gcp.collect(source(google), collection)
    found = [Decimal(row["cost"]) for name in names(collection) if "/202608/" in name for row in rows(collection, name)]
    assert sum(found) == Decimal("7.100001")


def test_a_partition_that_fails_is_a_problem_and_the_others_land(
    google: FakeGoogle, table: BigTable, gather: Make, waits: list[float]
) -> None:
    google.say(r"20260901/data", Answer(403, error(403, "accessDenied", "Access Denied: Table acme")))
    collection = gather(months=3)
    gcp.collect(source(google), collection)
    assert [name.rpartition("/")[2] for name in names(collection)] == [
        "charges-000020260820.jsonl.gz",
        "charges-000020261004.jsonl.gz",
    ]
    (problem,) = collection.folder.problems
    assert (problem.what, problem.hides) == ("bigquery:tabledata.list", "charges exported on 20260901")
    assert problem.reason == "the permission bigquery.tables.getData is missing"
    assert problem.fix == "grant roles/bigquery.dataViewer on the data set"
    google.in_the_way.clear()
    collection = gather(months=3)
    before = len(google.asked(r"/data$"))
    gcp.collect(source(google), collection)
    assert len(names(collection)) == 4 and len(google.asked(r"/data$")) == before + 2  # the summary, one page


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(429, error(429, "rateLimitExceeded")),
        Answer(503, error(503, "backendError")),
        Answer(200, cut=40),
    ],
    ids=["throttled", "unavailable", "cut"],
)
def test_passing_trouble_on_the_second_page_is_asked_again_and_loses_no_row(
    google: FakeGoogle, gather: Make, waits: list[float], trouble: Answer
) -> None:
    google.tables[DETAILED] = BigTable(SCHEMA)
    google.tables[DETAILED].add("20261004", [charge("2026-10-04", n) for n in range(5)], 1)
    google.say(r"20261004/data", Answer(200), trouble)
    collection = gather()
    gcp.collect(source(google), collection)
    assert collection.folder.problems == []
    (name,) = names(collection)
    assert [row["cost"] for row in rows(collection, name)] == ["0", "1", "2", "3", "4"]
    assert len(google.asked("20261004/data")) == 4  # three pages, one of them twice


def test_a_collection_killed_between_two_partitions_goes_on_behind_the_first(
    google: FakeGoogle, table: BigTable, gather: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = gather(months=3, parallel=1)
    write = collection.folder.write

    def killed(name: str, *given: Any, **more: Any) -> Path:
        if "20260901" in name:
            raise KeyboardInterrupt
        return write(name, *given, **more)

    monkeypatch.setattr(collection.folder, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        gcp.collect(source(google), collection)
    before = len(google.asked(r"20260820/data"))
    collection = gather(months=3)
    gcp.collect(source(google), collection)
    assert len(names(collection)) == 4
    assert len(google.asked(r"20260820/data")) == before


def test_the_cap_on_calls_ends_the_reading_and_the_report_says_what_is_missing(
    google: FakeGoogle, table: BigTable, gather: Make
) -> None:
    collection = gather(months=3, calls=6)
    gcp.collect(source(google), collection)
    (*_, problem) = collection.folder.problems
    assert "[limits] calls = 6 is reached" in problem.reason and problem.hides.startswith("charges exported on")
    # a partition of which a page was not read is not there at all
    found = {name.rpartition("/")[2]: len(rows(collection, name)) for name in names(collection)}
    assert all(found[name] == 3 for name in found if "20260820" in name)


def test_without_any_export_the_console_s_switch_is_named(google: FakeGoogle, gather: Make) -> None:
    google.tables = {"sales": BigTable(SCHEMA)}
    collection = gather()
    gcp.collect(source(google), collection)
    (problem,) = collection.folder.problems
    assert "switch on the detailed usage cost export" in problem.reason


FOCUS = [
    column("BillingPeriodStart", "TIMESTAMP"),
    column("ChargePeriodStart", "TIMESTAMP"),
    column("BilledCost", "NUMERIC"),
    column("ChargeCategory"),
    column("Tags", "JSON"),
]


def focus(month: str, cost: str) -> dict[str, Any]:
    start = f"{month}-01T00:00:00Z"
    return {"BillingPeriodStart": start, "ChargePeriodStart": start, "BilledCost": cost, "ChargeCategory": "Usage",
            "Tags": json.dumps({"team": "vision"})}  # fmt: skip


@pytest.fixture
def view(google: FakeGoogle) -> BigTable:
    made = BigTable(FOCUS, kind="VIEW", bytes=2**40 // 100, beneath=[DETAILED])
    made.partitions["all"] = [focus("2026-08", "1.000000001"), focus("2026-09", "2"), focus("2026-10", "3")]
    google.tables["focus_view"] = made
    google.tables[DETAILED] = BigTable(SCHEMA)
    google.tables[DETAILED].modified["20261004"] = 5
    return made


def queries(google: FakeGoogle) -> list[str]:
    return [
        str(one.body["configuration"]["query"]["query"])
        for one in google.asked("/jobs$")
        if not one.body["configuration"].get("dryRun")
    ]


def test_a_view_is_queried_once_after_a_dry_run_and_its_price_is_booked(
    google: FakeGoogle, view: BigTable, gather: Make, tmp_path: Path
) -> None:
    collection = gather(months=3)
    gcp.collect(source(google, billing_table="focus_view"), collection)
    assert collection.folder.problems == []
    assert [name.split("/")[3] for name in names(collection)] == ["202608", "202609", "202610"]
    (first,) = rows(collection, names(collection)[0])
    assert (first["BilledCost"], first["Tags"]) == ("1.000000001", {"team": "vision"})
    assert queries(google) == [
        "select * from `acme-billing.billing.focus_view` where BillingPeriodStart >= TIMESTAMP '2026-08-01'"
    ]
    used = {one.api: one for one in collection.budget.take()}
    assert used["bigquery:jobs.query"].money == Decimal("0.06875")  # 1.1 hundredths of a TiB at 6.25 dollars
    files, _ = gather_files([str(tmp_path / "landing")], tmp_path)
    assert ("billing", "focus-1.0-jsonl") in {(one.kind, one.format) for one in sort_files(files).recognised}


def test_a_view_is_not_paid_for_again_until_the_tables_beneath_it_change(
    google: FakeGoogle, view: BigTable, gather: Make
) -> None:
    asked = source(google, billing_table="focus_view")
    gcp.collect(asked, gather(months=3))
    gcp.collect(asked, gather(months=3))
    assert len(queries(google)) == 1
    google.tables[DETAILED].modified["20261004"] = 6
    view.partitions["all"].append(focus("2026-10", "4"))
    collection = gather(months=3)
    gcp.collect(asked, collection)
    # August was fetched fifteen days after its end, and is settled
    assert queries(google)[1].endswith("'2026-09-01'")
    assert len(rows(collection, "billing/billing/focus_view/202610/charges-000000000000.jsonl.gz")) == 2


def test_a_view_that_costs_more_than_the_cap_is_not_queried(google: FakeGoogle, view: BigTable, gather: Make) -> None:
    view.bytes = 2**40
    collection = gather(months=3, money=Decimal(5), bytes=10**13)
    gcp.collect(source(google, billing_table="focus_view"), collection)
    (problem,) = collection.folder.problems
    assert "[limits] money = 5 is reached" in problem.reason and problem.fix
    assert queries(google) == [] and names(collection) == []


@pytest.mark.parametrize(
    ("text", "project"),
    [("acme.billing", "acme"), ("acme:billing", "acme"), ("example.com:acme.billing", "example.com:acme")],
)
def test_a_data_set_is_named_as_bigquery_or_its_tool_names_it(
    google: FakeGoogle, gather: Make, text: str, project: str
) -> None:
    google.tables[DETAILED] = BigTable(SCHEMA)
    collection = gather()
    gcp.collect(source(google, billing_dataset=text), collection)
    assert collection.folder.problems == []
    assert google.requests[0].path.startswith(f"/bigquery/v2/projects/{project}/datasets/billing/")


def test_a_data_set_that_is_named_otherwise_is_refused_with_the_form_wanted(google: FakeGoogle, gather: Make) -> None:
    collection = gather()
    gcp.collect(source(google, billing_dataset="billing"), collection)
    (problem,) = collection.folder.problems
    assert "wanted PROJECT.DATASET" in problem.reason and google.requests == []
