"""Resource Graph and what it does not show."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import DefaultAzureCredential

from auditor.collect.azure import clients
from auditor.collect.azure.clients import Azure
from auditor.collect.budget import Budget
from auditor.errors import SourceError
from auditor.journal import Journal
from auditor.settings import Limits
from tests.collect.azure.fake import Cloud, Seen, denied, machine, throttled

Pull = Callable[..., Journal]
ML, APPS = "11111111-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000010"
ONLY = {"metrics": False}


def resource(type_: str, name: str, **properties: Any) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{ML}/resourceGroups/rg-ml/providers/{type_}/{name}",
        "name": name,
        "type": type_.lower(),
        "location": "eastus",
        "kind": properties.pop("kind", ""),
        "subscriptionId": ML,
        "properties": properties,
    }


@pytest.fixture
def estate(cloud: Cloud) -> Cloud:
    cloud.subscriptions = [ML, APPS]
    cloud.resources = [machine(ML, "vm-a"), machine(ML, "vm-b"), machine(APPS, "vm-c")]
    cloud.documents["/providers/Microsoft.Capacity/reservations"] = {"value": []}
    cloud.documents["/providers/Microsoft.BillingBenefits/savingsPlans"] = {"value": []}
    return cloud


def graph(cloud: Cloud) -> list[Seen]:
    return [seen for seen in cloud.seen if seen.path.endswith("/resources")]


def names_in(folder: Path) -> list[str]:
    return sorted(
        row["name"] for path in folder.rglob("resources-*.json") for row in json.loads(path.read_text())["data"]
    )


def test_every_page_of_the_graph_is_put_down_as_it_came(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    estate.graph_page = 2
    journal = pull(**ONLY)
    assert names_in(tmp_path) == ["vm-a", "vm-b", "vm-c"]
    assert [name for name in journal.entries if "/resources-" in name] == [
        "inventory/graph/resources-00001.json",
        "inventory/graph/resources-00002.json",
    ]
    assert journal.problems == []


def test_pages_of_an_earlier_snapshot_that_are_no_more_are_dropped(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    estate.graph_page = 1
    pull(**ONLY)
    estate.resources = estate.resources[:1]
    pull(**ONLY)
    assert names_in(tmp_path) == ["vm-a"]


def test_a_subscription_that_may_not_be_read_is_told_and_the_others_are_read(
    estate: Cloud, pull: Pull, tmp_path: Path
) -> None:
    other = "22222222-0000-0000-0000-000000000009"
    journal = pull(subscriptions=[APPS, other], **ONLY)
    assert names_in(tmp_path) == ["vm-c"]
    (problem,) = journal.problems
    assert problem.account_id == other
    assert problem.fix is not None and f"--scope /subscriptions/{other}" in problem.fix


def test_the_graphs_quota_is_waited_out_as_its_header_says(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    estate.graph_page = 2
    busy = throttled(x_ms_user_quota_remaining="0", x_ms_user_quota_resets_after="00:00:00.2")
    estate.once(lambda seen: "$skipToken" in seen.body.get("options", {}), busy)
    journal = pull(**ONLY)
    assert names_in(tmp_path) == ["vm-a", "vm-b", "vm-c"]
    assert journal.problems == []


def test_an_answer_that_is_cut_without_a_token_is_a_problem(estate: Cloud, pull: Pull) -> None:
    row = estate.resources[0]
    cut = {"count": 1, "totalRecords": 5, "resultTruncated": "true", "data": [row]}
    answer = (200, {"Content-Type": "application/json"}, json.dumps(cut).encode())
    estate.always(lambda seen: str(seen.body.get("query")).startswith("resources "), answer)
    journal = pull(**ONLY)
    assert ["cut its answer" in problem.reason for problem in journal.problems] == [True]


def test_an_expired_token_is_told_with_what_to_run(estate: Cloud, pull: Pull) -> None:
    body = json.dumps(
        {"error": {"code": "ExpiredAuthenticationToken", "message": "The access token expired."}}
    ).encode()
    estate.always(lambda seen: True, (401, {}, body))
    (problem,) = pull(**ONLY).problems
    assert "(ExpiredAuthenticationToken)" in problem.reason
    assert problem.fix is not None and "az login" in problem.fix


def test_reservations_that_may_not_be_seen_hide_only_themselves(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    estate.always(lambda seen: "Microsoft.Capacity/reservations" in seen.path, denied())
    (problem,) = pull(**ONLY).problems
    assert problem.what == "capacity:reservations.list"
    assert problem.fix == "grant the role Reservations Reader at the scope /providers/Microsoft.Capacity"
    assert names_in(tmp_path) == ["vm-a", "vm-b", "vm-c"]


def test_details_that_the_graph_lacks_are_asked_of_the_resource_manager(
    estate: Cloud, pull: Pull, tmp_path: Path
) -> None:
    workspace = resource("Microsoft.MachineLearningServices/workspaces", "lab")
    group = "Microsoft.Compute/capacityReservationGroups"
    reserved = resource(f"{group}/capacityReservations", "held")
    reserved["id"] = f"/subscriptions/{ML}/resourceGroups/rg-ml/providers/{group}/g/capacityReservations/held"
    account = resource("Microsoft.Storage/storageAccounts", "acmedata", kind="StorageV2")
    bare = resource("Microsoft.Storage/storageAccounts", "acmebare", kind="StorageV2")
    standing = machine(APPS, "vm-off", power="deallocated")
    estate.resources += [workspace, reserved, account, bare, standing]
    computes = f"{workspace['id']}/computes"
    link = f"{estate.url}{computes}-more"
    first = {"id": f"{computes}/one", "name": "one", "properties": {"computeType": "ComputeInstance"}}
    estate.documents[computes] = {"value": [first], "nextLink": link}
    estate.documents[f"{computes}-more"] = {"value": [{**first, "id": f"{computes}/two", "name": "two"}]}
    estate.documents[reserved["id"]] = {"id": reserved["id"], "properties": {"instanceView": {"utilizationInfo": {}}}}
    policy = {"id": f"{account['id']}/managementPolicies/default", "properties": {"policy": {"rules": []}}}
    estate.documents[f"{account['id']}/managementPolicies/default"] = policy
    statuses = {"value": [{"id": standing["id"], "properties": {"instanceView": {"statuses": []}}}]}
    estate.documents[f"/subscriptions/{APPS}/providers/Microsoft.Compute/virtualMachines"] = statuses
    journal = pull(**ONLY)
    assert journal.problems == []  # that one account has no policy is no failure
    details = sorted(name for name in journal.entries if "/graph/" not in name)
    group_name = group.replace("/", "_")
    assert details == [
        f"inventory/{ML}/eastus/capacityReservations/rg-ml_{group_name}_g_capacityReservations_held.json",
        f"inventory/{ML}/eastus/computes/rg-ml_Microsoft.MachineLearningServices_workspaces_lab-0002.json",
        f"inventory/{ML}/eastus/computes/rg-ml_Microsoft.MachineLearningServices_workspaces_lab.json",
        f"inventory/{ML}/eastus/managementPolicies/rg-ml_Microsoft.Storage_storageAccounts_acmedata.json",
        f"inventory/{APPS}/all/virtual-machines-status.json",
    ]
    estate.resources.remove(workspace)
    assert not [name for name in pull(**ONLY).entries if "/computes/" in name]


def test_a_next_page_elsewhere_is_not_followed(estate: Cloud, pull: Pull) -> None:
    elsewhere = {"value": [{"id": "/providers/Microsoft.Capacity/r"}], "nextLink": "http://127.0.0.1:9/steal"}
    estate.documents["/providers/Microsoft.Capacity/reservations"] = elsewhere
    (problem,) = pull(**ONLY).problems
    assert "which is not asked" in problem.reason


def test_a_cap_on_calls_stops_and_is_told(estate: Cloud, pull: Pull) -> None:
    journal = pull(limits=Limits(calls=2, parallel=1), **ONLY)
    assert "the cap of [limits] calls = 2 is reached" in journal.problems[0].reason
    assert len(estate.seen) == 2


def test_more_subscriptions_than_the_graph_looks_into_are_told(estate: Cloud, pull: Pull) -> None:
    headers = {"Content-Type": "application/json", "x-ms-tenant-subscription-limit-hit": "true"}
    body = json.dumps({"count": 0, "totalRecords": 0, "resultTruncated": "false", "data": []}).encode()
    estate.always(lambda seen: str(seen.body.get("query")).startswith("resourcecontainers"), (200, headers, body))
    assert "10,000 subscriptions at most" in pull(**ONLY).problems[0].reason


def test_no_token_travels_in_the_clear(estate: Cloud, pull: Pull) -> None:
    pull(**ONLY)
    assert {seen.authorization for seen in estate.seen} == {None}
    with pytest.raises(SourceError, match="http is for this machine only"):
        Azure(Budget(Limits()), "http://example.com")
    assert isinstance(Azure(Budget(Limits()), "https://proxy.example.com").credential, DefaultAzureCredential)


def test_a_service_that_is_down_is_told_and_the_others_are_asked(
    estate: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clients, "_RETRIES", 1)
    estate.always(lambda seen: "savingsPlans" in seen.path, (503, {"Retry-After": "0.01"}, b""))
    (problem,) = pull(**ONLY).problems
    assert (problem.what, problem.hides) == ("billingbenefits:savingsPlans.list", "savings plans that end")
    assert problem.reason.startswith("Azure did not answer")
    assert names_in(tmp_path) == ["vm-a", "vm-b", "vm-c"]


def test_an_answer_that_does_not_come_is_asked_for_again(
    estate: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(clients._TIMEOUTS, "read_timeout", 0.3)
    slow = [1.0]
    estate.faults.append(lambda seen: time.sleep(slow.pop()) if slow and seen.path.endswith("/resources") else None)
    assert pull(**ONLY).problems == []
    assert not slow
    assert names_in(tmp_path) == ["vm-a", "vm-b", "vm-c"]


def test_details_stay_where_the_graph_was_not_heard_to_its_end(estate: Cloud, pull: Pull) -> None:
    workspace = resource("Microsoft.MachineLearningServices/workspaces", "lab")
    estate.resources.append(workspace)
    estate.documents[f"{workspace['id']}/computes"] = {"value": [{"id": f"{workspace['id']}/computes/one"}]}
    pull(**ONLY)
    estate.graph_page = 1
    estate.always(lambda seen: "$skipToken" in seen.body.get("options", {}), denied())
    journal = pull(**ONLY)
    assert [problem.what for problem in journal.problems] == ["resourcegraph:resources"]
    assert [name for name in journal.entries if "/computes/" in name]


def test_without_a_credential_the_logins_are_named() -> None:
    error = ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token.\nAttempted: ...")
    refusal = clients.explain(clients.CallFailed("resourcegraph:resources", "", error))
    assert refusal is not None
    assert refusal.reason == (
        "no credential of Azure's default chain works: DefaultAzureCredential failed to retrieve a token."
    )
    assert refusal.fix is not None and "az login" in refusal.fix
