"""An audit collected live gives the findings of the offline audit of the same data, to the last cent."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.request import make_request
from auditor.collect.folder import LandingFolder
from auditor.progress import Silent
from auditor.scan import scan
from tests.collect.aws import estate
from tests.collect.aws.server import Aws

NOW = datetime(2026, 10, 1, 0, 30, tzinfo=UTC)
MONEY = (
    "monthly_cost",
    "monthly_savings",
    "monthly_savings_range",
    "monthly_savings_net",
    "freed_commitment",
    "currency",
)


@pytest.fixture
def collected(aws: Aws, s3: Any, collect: Callable[..., LandingFolder]) -> LandingFolder:
    estate.serve_estate(aws, s3)
    return collect(
        exports=[f"s3://{bucket}/aws" for bucket in estate.BUCKETS.values()],
        organization="auditor",
        inventory=True,
        metrics=True,
    )


def audit(paths: list[str]) -> dict[str, Any]:
    return scan(make_request(paths=tuple(paths), as_of=date(2026, 10, 1)), Silent(), NOW).document


def told(document: dict[str, Any]) -> dict[str, Any]:
    return {
        finding["id"]: (finding["rule_id"], finding["resource_id"], *(finding[name] for name in MONEY))
        for finding in document["findings"]
    }


@pytest.mark.slow
def test_the_collected_audit_finds_what_the_offline_audit_finds(collected: LandingFolder, tmp_path: Path) -> None:
    assert collected.problems == []
    offline = audit([*estate.write_offline(tmp_path), *estate.shared_files()])
    live = audit([str(collected.path), *estate.shared_files()])
    assert len(told(offline)) > 10
    assert told(live) == told(offline)
    assert [one for one in live["sources"] if one["status"] == "failed"] == []
    for part in ("totals", "gpu_ledger", "reconciliation"):
        assert live[part] == offline[part]
