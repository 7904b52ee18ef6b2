"""What doctor says of a source, and the policy that covers every call."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from auditor.checks import Check
from auditor.collect import azure, policy
from auditor.collect.azure import doctor
from auditor.collect.azure.calls import CALLS, GRAPH_TYPES
from auditor.journal import Journal
from auditor.settings import AzureSource, Limits
from tests.collect.azure.fake import Cloud, denied
from tests.collect.azure.test_bills import RUNS, SUBSCRIPTION, export, place, scope_export
from tests.collect.azure.test_read import ML, estate

__all__ = ["estate"]
SCOPE = f"/subscriptions/{SUBSCRIPTION}"


def said(cloud: Cloud, **settings: Any) -> dict[str, list[Check]]:
    """Checks by what they are of."""
    checks = list(azure.check(AzureSource(name="azure", endpoint_url=cloud.url, **settings)))
    by_subject: dict[str, list[Check]] = {}
    for check in checks:
        by_subject.setdefault(check.subject.removeprefix("source azure: "), []).append(check)
    return by_subject


def test_a_source_in_order_is_ok_in_everything_but_what_azure_cannot_measure(
    estate: Cloud, container: Any, stored: Cloud
) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z", name="daily")
    export(container, RUNS[1], "2026-10-01T06:00:00Z", name="spread", kind="AmortizedCost")
    stored.exports[SCOPE] = [
        scope_export(container, "daily", "ActualCost"),
        scope_export(container, "spread", "AmortizedCost"),
    ]
    checks = said(stored, scopes=[SCOPE], exports=[place(container)])
    states = {subject: [check.state for check in some] for subject, some in checks.items()}
    gpus = states.pop("GPU metrics of machines")
    assert gpus == ["warn"]
    assert "dcgm-exporter" in str(checks["GPU metrics of machines"][0].fix)
    # Each export's own folder is looked at too, and the actual one alone lacks its sister.
    assert states.pop(place(container, "costs/daily")) == ["ok", "warn"]
    assert {state for some in states.values() for state in some} == {"ok"}
    assert "4 files" not in checks[place(container)][0].text
    assert checks[place(container)][0].text.startswith("6 files, the newest of ")


def test_a_scope_without_exports_gets_the_command_that_makes_one(estate: Cloud) -> None:
    (check,) = said(estate, scopes=[SCOPE])[f"exports of {SCOPE}"]
    assert check.state == "warn"
    assert check.fix is not None
    assert check.fix.startswith("az costmanagement export create --name auditor-actual --type ActualCost")
    assert f"--scope {SCOPE}" in check.fix


def test_a_failed_run_and_an_inactive_export_are_told(estate: Cloud, container: Any, stored: Cloud) -> None:
    failed = scope_export(container, "daily", "ActualCost", status="Failed")
    off = scope_export(container, "spread", "AmortizedCost")
    off["properties"]["schedule"]["status"] = "Inactive"
    estate.exports[SCOPE] = [failed, off]
    texts = [(check.state, check.text) for check in said(estate, scopes=[SCOPE])[f"exports of {SCOPE}"]]
    assert texts == [
        ("bad", "actualcost export daily: its last run is Failed"),
        ("warn", "amortizedcost export spread is inactive"),
    ]


def test_an_export_that_stopped_and_one_that_never_ran_are_told(
    container: Any, stored: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z")
    monkeypatch.setattr(doctor, "_STALE", timedelta(seconds=-1))
    checks = said(stored, exports=[place(container), place(container, "empty")], metrics=False, inventory=False)
    assert [check.state for check in checks[place(container)]] == ["warn", "warn"]
    assert "no run for 0 days" in checks[place(container)][0].text
    (empty,) = checks[place(container, "empty")]
    assert (empty.state, empty.text) == ("bad", "reachable, but empty")


def test_what_is_denied_is_told_with_its_grant_and_stops_no_other_check(estate: Cloud) -> None:
    estate.always(lambda seen: ":getBatch" in seen.path, denied())
    checks = said(estate, scopes=[SCOPE], subscriptions=[ML, "22222222-0000-0000-0000-000000000009"])
    (metrics,) = checks["metrics"]
    assert metrics.state == "bad"
    assert metrics.fix is not None and "Microsoft.Insights/Metrics/Read" in metrics.fix
    (missing,) = checks["subscriptions"]
    assert (missing.state, missing.text) == ("bad", "22222222-0000-0000-0000-000000000009 cannot be read")
    assert checks["GPU metrics of machines"]


def test_a_machine_without_metrics_is_told(estate: Cloud) -> None:
    estate.series = lambda resource, metric, when: []
    (check,) = said(estate, scopes=[SCOPE])["metrics"]
    assert (check.state, "no CPU metric" in check.text) == ("warn", True)


def test_a_source_without_any_bill_is_bad(estate: Cloud) -> None:
    assert said(estate, metrics=False, inventory=False)["bill"][0].state == "bad"


PARTS = {
    "scope": r".+",
    "subscription": r"[^/]+",
    "container": r"[^/]+/[^/]+",
    "blob": r".+",
    "reservation": r"/.*/capacityReservations/[^/]+",
    "workspace": r"/.*/workspaces/[^/]+",
    "account": r"/.*/storageAccounts/[^/]+",
}


def name_of(method: str, path: str, is_list: bool) -> str:
    """The call of the table that a request is."""
    found = []
    for name, call in CALLS.items():
        pattern = "".join(
            PARTS[part[1:-1]] if part.startswith("{") else re.escape(part)
            for part in re.split(r"(\{\w+\})", call.path.partition("?")[0])
        )
        if call.method == method and re.fullmatch(pattern, path) and ("?restype" in call.path) == is_list:
            found.append(name)
    assert len(found) >= 1, f"{method} {path} is no call of the table"
    return min(found, key=lambda name: name == "storage:blobs.get")


def test_every_call_that_is_made_stands_in_the_table_that_the_policy_is_made_of(
    estate: Cloud, container: Any, stored: Cloud, pull: Callable[..., Journal]
) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z")
    wanted: dict[str, Any] = {"exports": [place(container)], "scopes": [f"/subscriptions/{ML}"], "prices": True}
    journal = pull(days=1, limits=Limits(months=1, parallel=4), **wanted)
    assert journal.problems == []
    said(stored, **wanted)
    made = {name_of(seen.method, seen.path, seen.query.get("restype") == "container") for seen in stored.seen}
    assert made == set(CALLS)
    assert {usage.api for usage in journal.usage} == set(CALLS)
    assert sum(usage.calls for usage in journal.usage) <= len(stored.seen)


def test_the_policy_grants_every_call_and_nothing_that_writes() -> None:
    role = json.loads(policy("azure"))
    for call in CALLS.values():
        assert set(call.actions) <= set(role["Actions"])
        assert set(call.data_actions) <= set(role["DataActions"])
        needs_none = call.path == "/api/retail/prices"
        assert call.actions or call.data_actions or call.granted_by or needs_none
    assert set(GRAPH_TYPES.values()) <= set(role["Actions"])
    assert all(
        re.fullmatch(r"Microsoft\.[\w./]+/read", one, re.IGNORECASE) for one in role["Actions"] + role["DataActions"]
    )
    assert role["AssignableScopes"] == ["/subscriptions/00000000-0000-0000-0000-000000000000"]
    assert (role["NotActions"], role["NotDataActions"], role["IsCustom"]) == ([], [], True)


def test_no_client_registers_a_resource_provider_by_itself(estate: Cloud, pull: Callable[..., Journal]) -> None:
    body = {"error": {"code": "MissingSubscriptionRegistration", "message": "Register 'Microsoft.ResourceGraph'"}}
    estate.always(lambda seen: True, (409, {"Content-Type": "application/json"}, json.dumps(body).encode()))
    pull(days=1, scopes=[SCOPE])
    assert {seen.method for seen in estate.seen} <= {"GET", "POST"}
    assert not [seen.path for seen in estate.seen if "register" in seen.path.lower()]
