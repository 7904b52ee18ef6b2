"""Who owns a charge, what it is for, which job it belongs to."""

import json
from collections.abc import Iterator

import duckdb
import pytest

from auditor.normalise.classify import settled
from auditor.normalise.ownership import learn, owned
from auditor.tagging import TagSettings

GIVEN = ("provider", "ServiceName", "x_ServiceCode", "ResourceName", "ResourceId", "Tags", "service_workload_kind")
FIELDS = ("owner", "job", "workload_kind", "workload_signal", "standby")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def derived(
    con: duckdb.DuckDBPyConnection, rows: list[dict[str, object]], settings: TagSettings | None = None
) -> list[dict[str, object]]:
    """What is derived for each row; `Tags` may be given as a dict."""
    con.execute("""
    create or replace table charges (place integer, provider varchar, ServiceName varchar, x_ServiceCode varchar,
        ResourceName varchar, ResourceId varchar, Tags varchar, service_workload_kind varchar, usage_kind varchar, purchase_option varchar,
        x_LineItemType varchar, owner varchar, job varchar,
        workload_kind varchar, workload_signal varchar, standby boolean)
    """)
    given = [
        {
            **row,
            "place": place,
            "Tags": json.dumps(row["Tags"]) if isinstance(row.get("Tags"), dict) else row.get("Tags"),
        }
        for place, row in enumerate(rows)
    ]
    shape = json.dumps([{"place": "INTEGER", **dict.fromkeys(GIVEN, "VARCHAR")}])
    con.execute(
        f"insert into charges by name select unnest(from_json($rows::json, '{shape}'), recursive := true)",
        {"rows": json.dumps(given)},
    )
    con.execute("update charges set provider = 'aws' where provider is null")
    learn(con, "charges", settings or TagSettings())
    found = con.execute(f"select {', '.join(FIELDS)} from {owned(settled('charges'))} order by place").fetchall()
    return [dict(zip(FIELDS, row, strict=True)) for row in found]


def test_tag_keys_are_compared_without_case_separators_and_provider_prefix(con: duckdb.DuckDBPyConnection) -> None:
    spellings = [
        "team",
        "Team",
        "user:Team",
        "user_team",
        "resourceTags/user:TEAM",
        "TEAM_name",
        "cost-center",
        "CostCenter",
    ]
    found = derived(con, [{"Tags": {spelling: "vision"}} for spelling in spellings])
    assert [row["owner"] for row in found] == ["vision"] * len(spellings)


def test_the_first_owner_key_of_the_settings_wins_and_placeholders_own_nothing(con: duckdb.DuckDBPyConnection) -> None:
    found = derived(
        con,
        [
            {"Tags": {"project": "atlas", "owner": "ana"}},
            {"Tags": {"owner": "  ", "project": "atlas"}},
            {"Tags": {"owner": "N/A"}},
            {"Tags": {"aws:createdBy": "root"}},
            {"Tags": "no json"},
            {"Tags": None},
        ],
    )
    assert [row["owner"] for row in found] == ["ana", "atlas", None, None, None, None]


def test_a_workload_value_is_matched_by_whole_words(con: duckdb.DuckDBPyConnection) -> None:
    values = {
        "train-llm": "training", "PreTraining": "training", "sft": "training", "fine_tune": "training", "LLMFineTuning": "training",
        "prod-api": "inference", "vllm-serving": "inference", "real time": "inference", "jupyter": "notebook",
        "constraint": None, "restrained": None, "observer": None, "development": None, "etl": None,
    }  # fmt: skip
    found = derived(con, [{"Tags": {"workload": value}} for value in values])
    assert dict(zip(values, [row["workload_kind"] for row in found], strict=True)) == values


def test_signals_are_asked_in_order_and_the_deciding_one_is_named(con: duckdb.DuckDBPyConnection) -> None:
    sage = {"ServiceName": "Amazon SageMaker", "service_workload_kind": "training", "ResourceName": "serve-1"}
    found = derived(
        con,
        [
            {**sage, "Tags": {"user:Workload": "inference", "job": "train-7"}},
            {**sage, "Tags": {"job": "infer-7"}},
            {"Tags": {"job-name": "train-7"}, "ResourceName": "serve-1"},
            {"ResourceName": "projects/acme-ml/instances/train-asr-4"},
            {
                "provider": "gcp",
                "ServiceName": "Compute Engine",
                "Tags": {"goog-caip-notebook": ""},
                "ResourceName": "train-1",
            },
            {"ResourceId": "i-0123456789abcdef0"},
        ],
    )
    assert [(row["workload_kind"], row["workload_signal"]) for row in found] == [
        ("inference", "tag Workload=inference"),
        ("training", "service Amazon SageMaker"),
        ("training", "tag job-name=train-7"),
        ("training", "name train-asr-4"),
        ("notebook", "label goog-caip-notebook"),
        (None, None),
    ]
    assert [row["job"] for row in found] == ["train-7", "infer-7", "train-7", None, None, None]


def test_a_job_is_nearer_than_its_cluster(con: duckdb.DuckDBPyConnection) -> None:
    found = derived(
        con,
        [
            {"Tags": {"goog-k8s-cluster-name": "blue", "slurm_job_id": "8812"}},
            {"Tags": {"goog-k8s-cluster-name": "blue"}},
        ],
    )
    assert [row["job"] for row in found] == ["8812", "blue"]


def test_standby_is_a_tag_that_is_not_denied(con: duckdb.DuckDBPyConnection) -> None:
    found = derived(
        con,
        [
            {"Tags": {"Standby": "true"}},
            {"Tags": {"disaster-recovery": "eu"}},
            {"Tags": {"standby": "false"}},
            {"Tags": {"owner": "dr"}},
            {"Tags": None},
        ],
    )
    assert [row["standby"] for row in found] == [True, True, False, False, False]


def test_settings_replace_keys_and_words(con: duckdb.DuckDBPyConnection) -> None:
    settings = TagSettings(owner_tags=("Guild",), workload_tags=("zweck",), training_words=("lernen",))
    (found,) = derived(con, [{"Tags": {"guild": "north", "owner": "ana", "Zweck": "Lernen"}}], settings)
    assert (found["owner"], found["workload_kind"]) == ("north", "training")
