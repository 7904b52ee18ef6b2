"""What is collected is what the readers of landing files know."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.journal import Journal
from auditor.landing import LandingFile, Recognised
from auditor.normalise import inventory
from auditor.normalise.look import look
from auditor.normalise.recognise import recognise
from auditor.settings import Limits
from tests.collect.azure.fake import Cloud, machine

Pull = Callable[..., Journal]
ML = "11111111-0000-0000-0000-000000000001"
BASE = f"/subscriptions/{ML}/resourceGroups/rg-ml/providers"


def resource(type_: str, path: str, **more: Any) -> dict[str, Any]:
    named = {"id": f"{BASE}/{path}", "name": path.rpartition("/")[2], "type": type_, "location": "eastus"}
    return {**named, "subscriptionId": ML, "properties": {}, **more}


@pytest.fixture
def estate(cloud: Cloud) -> Cloud:
    """One of everything."""
    cloud.subscriptions = [ML]
    ml = "microsoft.machinelearningservices/workspaces"
    held = "capacityReservationGroups/g/capacityReservations/held"
    cloud.resources = [
        machine(ML, "vm-gpu", size="Standard_NC24ads_A100_v4"),
        machine(ML, "vm-off", power="deallocated"),
        resource(ml, "Microsoft.MachineLearningServices/workspaces/lab"),
        resource("microsoft.storage/storageaccounts", "Microsoft.Storage/storageAccounts/blobs", kind="StorageV2"),
        resource("microsoft.storage/storageaccounts", "Microsoft.Storage/storageAccounts/files", kind="FileStorage"),
        resource(
            "microsoft.compute/capacityreservationgroups/capacityreservations",
            f"Microsoft.Compute/{held}",
            sku={"name": "Standard_D8s_v5", "capacity": 3},
        ),
        resource("microsoft.network/natgateways", "Microsoft.Network/natGateways/nat"),
    ]
    lab, off = f"{BASE}/Microsoft.MachineLearningServices/workspaces/lab", cloud.resources[1]["id"]
    compute = {
        "id": f"{lab}/computes/ci",
        "name": "ci",
        "type": "Microsoft.MachineLearningServices/workspaces/computes",
        "location": "eastus",
        "properties": {
            "computeType": "ComputeInstance",
            "properties": {"vmSize": "Standard_NC6s_v3", "state": "Running", "schedules": {"computeStartStop": []}},
        },
    }
    share = {
        "id": f"{BASE}/Microsoft.Storage/storageAccounts/files/fileServices/default/shares/data",
        "name": "data",
        "type": "Microsoft.Storage/storageAccounts/fileServices/shares",
        "properties": {"shareQuota": 1024},
    }
    policy = {
        "id": f"{BASE}/Microsoft.Storage/storageAccounts/blobs/managementPolicies/default",
        "name": "DefaultManagementPolicy",
        "type": "Microsoft.Storage/storageAccounts/managementPolicies",
        "properties": {"policy": {"rules": [{"enabled": True, "name": "old", "type": "Lifecycle"}]}},
    }
    status = {
        "id": off,
        "name": "vm-off",
        "type": "Microsoft.Compute/virtualMachines",
        "location": "eastus",
        "properties": {
            "provisioningState": "Succeeded",
            "instanceView": {
                "statuses": [
                    {"code": "ProvisioningState/succeeded", "time": "2026-09-01T08:00:00.1234567+00:00"},
                    {"code": "PowerState/deallocated", "displayStatus": "VM deallocated"},
                ]
            },
        },
    }
    used = {
        **{key: value for key, value in cloud.resources[5].items() if key != "subscriptionId"},
        "properties": {"instanceView": {"utilizationInfo": {"virtualMachinesAllocated": [{"id": off}]}}},
    }
    reservation = {
        "id": "/providers/Microsoft.Capacity/reservationOrders/o/reservations/r",
        "name": "o/r",
        "type": "Microsoft.Capacity/reservationOrders/reservations",
        "sku": {"name": "Standard_NC24ads_A100_v4"},
        "properties": {"quantity": 2, "expiryDateTime": "2026-11-01T00:00:00Z", "displayName": "gpu"},
    }
    plan = {
        "id": "/providers/Microsoft.BillingBenefits/savingsPlanOrders/o/savingsPlans/p",
        "name": "p",
        "type": "Microsoft.BillingBenefits/savingsPlanOrders/savingsPlans",
        "properties": {"term": "P1Y", "expiryDateTime": "2027-01-01T00:00:00Z"},
    }
    cloud.documents = {
        f"{lab}/computes": {"value": [compute]},
        f"{share['id'].rpartition('/')[0]}": {"value": [share]},
        policy["id"]: policy,
        f"/subscriptions/{ML}/providers/Microsoft.Compute/virtualMachines": {"value": [status]},
        cloud.resources[5]["id"]: used,
        "/providers/Microsoft.Capacity/reservations": {"value": [reservation]},
        "/providers/Microsoft.BillingBenefits/savingsPlans": {"value": [plan]},
    }
    scope = f"/subscriptions/{ML}"
    cloud.costs[scope] = [[1.25, 20261001, off, "D8s v5", "USD"]]
    cloud.series = lambda name, metric, when: [({}, {"average": 1.0, "total": 2.0})]
    price = {
        "currencyCode": "USD",
        "retailPrice": 3.673,
        "unitPrice": 3.673,
        "armRegionName": "eastus",
        "unitOfMeasure": "1 Hour",
        "serviceName": "Virtual Machines",
        "armSkuName": "Standard_NC24ads_A100_v4",
        "skuName": "NC24ads A100 v4",
        "productName": "Virtual Machines NCads A100 v4",
        "type": "Consumption",
        "tierMinimumUnits": 0,
    }
    cloud.prices = [{**price, "skuName": f"NC24ads A100 v4 {n}"} for n in range(3)]
    return cloud


def all_of(pull: Pull) -> Journal:
    scopes = [f"/subscriptions/{ML}"]
    return pull(days=1, scopes=scopes, prices=True, limits=Limits(months=1, parallel=4))


def recognised(folder: Path, journal: Journal) -> dict[str, Recognised | None]:
    files = {name: LandingFile(folder / name, name, entry.size) for name, entry in journal.entries.items()}
    return {name: recognise(file, look(file)) for name, file in files.items()}


def test_every_file_is_recognised_as_what_it_was_collected_as(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    journal = all_of(pull)
    assert journal.problems == []
    found = recognised(tmp_path / "azure", journal)
    assert {name for name, one in found.items() if one is None} == set()
    kinds = {name: one.kind for name, one in found.items() if one is not None}
    assert kinds == {name: entry.kind for name, entry in journal.entries.items()}
    assert set(kinds.values()) == {"billing", "inventory", "telemetry", "prices"}
    assert len([name for name in kinds if name.startswith("prices/")]) == 2


def test_details_complete_what_the_graph_tells(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    journal = all_of(pull)
    files = [one for one in recognised(tmp_path / "azure", journal).values() if one and one.kind == "inventory"]
    with duckdb.connect() as con:
        reports = inventory.load(con, files)
        query = """select name, resource_type, state, attributes->>'machine_type', attributes->>'stopped_at',
            attributes->>'used_count', attributes->>'has_lifecycle', attributes->>'size_gib' from resources_seen order by 1"""
        rows = {row[0]: row[1:] for row in con.execute(query).fetchall()}
    assert {report.status for report in reports} == {"ok"}
    assert rows["vm-off"] == ("instance", "deallocated", "Standard_D8s_v5", "2026-09-01 08:00:00", None, None, None)
    assert rows["vm-gpu"][:3] == ("instance", "running", "Standard_NC24ads_A100_v4")
    assert rows["ci"][:3] == ("notebook", "running", "Standard_NC6s_v3")
    assert rows["held"][:5] == ("capacity_reservation", rows["held"][1], "Standard_D8s_v5", None, "1")
    assert rows["blobs"][5] == "true"
    assert rows["data"] == ("file_system", None, None, None, None, None, "1024")
    assert {rows["gpu"][0], rows["p"][0]} == {"commitment"}


def test_a_second_pull_of_everything_asks_only_for_what_may_have_changed(estate: Cloud, pull: Pull) -> None:
    first = all_of(pull)
    estate.seen.clear()
    second = all_of(pull)
    assert second.entries.keys() == first.entries.keys()
    asked = {seen.path for seen in estate.seen}
    assert not any(":getBatch" in path or "retail" in path for path in asked)
