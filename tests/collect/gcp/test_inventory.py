"""Inventory of projects, as the services' lists tell it and the normaliser reads it."""

import json
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from auditor.collect import gcp
from auditor.collect.gcp import rest
from auditor.collect.local import gather as gather_files
from auditor.collect.work import Collection
from auditor.normalise import inventory
from auditor.normalise.recognise import sort_files
from auditor.settings import GcpSource
from tests.collect.gcp.server import Answer, FakeGoogle, error

Make = Callable[..., Collection]
PROJECT = "acme-ml"
COMPUTE = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"


def source(google: FakeGoogle, *projects: str) -> GcpSource:
    return GcpSource(name="prod", projects=list(projects or (PROJECT,)), metrics=False, endpoint_url=google.url)


def instance(number: int, **more: Any) -> dict[str, Any]:
    zone = f"{COMPUTE}/zones/us-central1-{'abc'[number % 3]}"
    return {
        "kind": "compute#instance",
        "id": str(1000 + number),
        "name": f"vm-{number}",
        "status": "RUNNING",
        "zone": zone,
        "machineType": f"{zone}/machineTypes/g2-standard-8",
        "selfLink": f"{zone}/instances/vm-{number}",
        "labels": {"team": "navigation", "env": "prod"},
        "metadata": {"items": [{"key": "startup-script", "value": "export PASSWORD=hunter2"}]},
        "guestAccelerators": [{"acceleratorCount": 1, "acceleratorType": f"{zone}/acceleratorTypes/nvidia-l4"}],
        **more,
    }


def lines(collection: Collection, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (collection.folder.path / name).read_text().splitlines()]


def resources(collection: Collection) -> dict[str, dict[str, Any]]:
    """What the normaliser makes of the folder, by id; every file of the inventory is recognised."""
    files, _ = gather_files([str(collection.folder.path)], collection.spool)
    found = sort_files(files)
    assert found.unread == []
    with duckdb.connect() as con:
        inventory.load(con, [one for one in found.recognised if one.kind == "inventory"])
        cursor = con.execute("select resource_id, resource_type, name, tags, attributes from resources_seen")
        rows = [
            dict(zip((column[0] for column in cursor.description or ()), row, strict=True)) for row in cursor.fetchall()
        ]
    return {row["resource_id"]: row | {"attributes": json.loads(row["attributes"])} for row in rows}


def test_every_page_and_zone_of_an_aggregated_list_lands_without_start_up_scripts(
    google: FakeGoogle, gather: Make
) -> None:
    google.compute[(PROJECT, "instances")] = [instance(number) for number in range(5)]
    collection = gather()
    gcp.collect(source(google), collection)
    assert collection.folder.problems == []
    assert list(collection.folder.entries) == [f"inventory/{PROJECT}/global/compute-instances.jsonl"]
    text = (collection.folder.path / f"inventory/{PROJECT}/global/compute-instances.jsonl").read_text()
    assert "hunter2" not in text and '"env":"prod"' in text
    found = resources(collection)
    assert len(found) == 5
    first = found[f"//compute.googleapis.com/projects/{PROJECT}/zones/us-central1-a/instances/1000"]
    assert (first["name"], first["attributes"]["accelerator_model"]) == ("vm-0", "nvidia-l4")
    assert len(google.asked("aggregated/instances")) == 3


def test_a_newer_snapshot_replaces_the_older_and_an_empty_list_takes_it_away(google: FakeGoogle, gather: Make) -> None:
    name = f"inventory/{PROJECT}/global/compute-instances.jsonl"
    google.compute[(PROJECT, "instances")] = [instance(0), instance(1)]
    gcp.collect(source(google), gather())
    google.compute[(PROJECT, "instances")] = [instance(1, status="TERMINATED")]
    collection = gather()
    gcp.collect(source(google), collection)
    assert [(one["name"], one["status"]) for one in lines(collection, name)] == [("vm-1", "TERMINATED")]
    google.compute[(PROJECT, "instances")] = []
    collection = gather()
    gcp.collect(source(google), collection)
    assert name not in collection.folder.entries and not (collection.folder.path / name).exists()


def test_zones_that_a_list_left_out_are_told_and_the_others_land(google: FakeGoogle, gather: Make) -> None:
    google.compute[(PROJECT, "instances")] = [instance(0)]
    google.warnings["instances"] = {
        "unreachables": ["projects/acme-ml/zones/europe-west4-b"],
        "items": {"zones/asia-east1-a": {"warning": {"code": "UNREACHABLE", "message": "down"}}},
    }
    google.lists["file.googleapis.com/v1/projects/acme-ml/locations/-/instances"] = {
        "unreachable": ["projects/acme-ml/locations/us-east1"]
    }
    collection = gather()
    gcp.collect(source(google), collection)
    told = {(one.what, one.region, one.reason) for one in collection.folder.problems}
    assert told == {
        ("compute:instances.aggregatedList", "europe-west4-b", "the place could not be reached"),
        ("compute:instances.aggregatedList", "asia-east1-a", "the list is incomplete (UNREACHABLE)"),
        ("file:projects.locations.instances.list", "us-east1", "the place could not be reached"),
    }
    assert len(lines(collection, f"inventory/{PROJECT}/global/compute-instances.jsonl")) == 1


def test_services_that_name_by_location_are_read_as_what_they_are(google: FakeGoogle, gather: Make) -> None:
    project, place = f"projects/{PROJECT}", f"projects/{PROJECT}/locations/us-central1"
    google.lists |= {
        f"tpu.googleapis.com/v2/{project}/locations/-/nodes": {
            "pages": [
                {"nodes": [{"name": f"{place}-a/nodes/t{n}", "acceleratorType": "v5litepod-4", "state": "READY",
                            "metadata": {"startup-script": "hunter2"}}]}
                for n in range(2)
            ]
        },
        f"file.googleapis.com/v1/{project}/locations/-/instances": {
            "instances": [{"name": f"{place}/instances/nfs", "tier": "ENTERPRISE", "fileShares": [{"capacityGb": "1024"}]}]
        },
        f"notebooks.googleapis.com/v2/{project}/locations/-/instances": {
            "instances": [{"name": f"{place}-b/instances/nb", "gceSetup": {"machineType": "g2-standard-4"}, "state": "ACTIVE"}]
        },
        f"container.googleapis.com/v1/{project}/locations/-/clusters": {
            "clusters": [
                {
                    "name": "train",
                    "selfLink": f"https://container.googleapis.com/v1/{project}/zones/us-central1-a/clusters/train",
                    "masterAuth": {"clientKey": "hunter2"},
                    "resourceLabels": {"team": "nav"},
                    "nodePools": [
                        {"name": "gpu", "status": "RUNNING", "config": {"machineType": "g2-standard-8", "spot": True,
                         "accelerators": [{"acceleratorCount": "1", "acceleratorType": "nvidia-l4"}]}}
                    ],
                }
            ]
        },
        f"aiplatform.googleapis.com/v1/{project}/locations": {"locations": [{"locationId": "us-central1"}]},
        f"us-central1-aiplatform.googleapis.com/v1/{place}/endpoints": {
            "endpoints": [{"name": f"{place}/endpoints/7", "displayName": "ranker", "deployedModels": []}]
        },
        f"us-central1-aiplatform.googleapis.com/v1/{place}/customJobs": {
            "customJobs": [
                {"name": f"{place}/customJobs/9", "displayName": "job", "state": "JOB_STATE_SUCCEEDED",
                 "jobSpec": {"workerPoolSpecs": [{"machineSpec": {"machineType": "a2-highgpu-1g"}, "replicaCount": "2",
                             "containerSpec": {"env": [{"name": "TOKEN", "value": "hunter2"}]}}]}}
            ]
        },
        f"us-central1-aiplatform.googleapis.com/v1/{place}/notebookRuntimes": {
            "notebookRuntimes": [{"name": f"{place}/notebookRuntimes/5", "displayName": "colab", "runtimeState": "RUNNING"}]
        },
        "storage.googleapis.com/storage/v1/b": {
            "items": [{"kind": "storage#bucket", "name": "acme-data", "location": "US-CENTRAL1", "projectNumber": "1000",
                       "lifecycle": {"rule": [{"action": {"type": "Delete"}}]}}]
        },
    }  # fmt: skip
    collection = gather()
    gcp.collect(source(google), collection)
    assert collection.folder.problems == []
    found = resources(collection)
    assert {identity: row["resource_type"] for identity, row in found.items()} == {
        f"//tpu.googleapis.com/{place}-a/nodes/t0": "tpu_node",
        f"//tpu.googleapis.com/{place}-a/nodes/t1": "tpu_node",
        f"//file.googleapis.com/{place}/instances/nfs": "file_system",
        f"//notebooks.googleapis.com/{place}-b/instances/nb": "notebook",
        f"//container.googleapis.com/{project}/zones/us-central1-a/clusters/train/nodePools/gpu": "node_pool",
        f"//aiplatform.googleapis.com/{place}/endpoints/7": "endpoint",
        f"//aiplatform.googleapis.com/{place}/customJobs/9": "training_job",
        f"//aiplatform.googleapis.com/{place}/notebookRuntimes/5": "notebook",
        "//storage.googleapis.com/projects/_/buckets/acme-data": "bucket",
    }
    pool = found[f"//container.googleapis.com/{project}/zones/us-central1-a/clusters/train/nodePools/gpu"]
    assert (pool["attributes"]["lifecycle"], json.loads(pool["tags"])) == ("spot", {"team": "nav"})
    assert found["//storage.googleapis.com/projects/_/buckets/acme-data"]["attributes"]["has_lifecycle"] is True
    assert not any("hunter2" in path.read_text() for path in collection.folder.path.rglob("*.jsonl"))


def test_a_denied_project_and_a_denied_list_stand_alone_with_their_remedy(
    google: FakeGoogle, gather: Make, waits: list[float]
) -> None:
    google.compute[(PROJECT, "instances")] = [instance(0)]
    google.say(r"projects/secret/", Answer(403, error(403, "forbidden", "Required permission")))
    google.say(r"acme-ml/aggregated/disks", Answer(403, error(403, "forbidden", "Required permission")))
    collection = gather()
    gcp.collect(source(google, "secret", PROJECT), collection)
    assert list(collection.folder.entries) == [f"inventory/{PROJECT}/global/compute-instances.jsonl"]
    (denied,) = [one for one in collection.folder.problems if one.account_id == PROJECT]
    assert (denied.what, denied.reason) == (
        "compute:disks.aggregatedList",
        "the permission compute.disks.list is missing",
    )
    assert denied.fix == "grant the role that `auditor permissions gcp` prints, on the project"
    assert {one.account_id for one in collection.folder.problems} == {"secret", PROJECT}


def test_an_api_that_is_off_in_the_project_hides_nothing_but_one_that_is_off_for_the_caller_does(
    google: FakeGoogle, gather: Make
) -> None:
    google.lists["cloudresourcemanager.googleapis.com/v3/projects/acme-ml"] = {"name": "projects/1000"}
    off = error(403, "SERVICE_DISABLED", "it is off", consumer="projects/1000", service="tpu.googleapis.com")
    google.say(r"tpu\.googleapis\.com", Answer(403, off))
    other = error(403, "SERVICE_DISABLED", "it is off", consumer="projects/777", service="file.googleapis.com")
    google.say(r"file\.googleapis\.com", Answer(403, other))
    collection = gather()
    gcp.collect(source(google), collection)
    (problem,) = collection.folder.problems
    assert problem.reason == "the API file.googleapis.com is not enabled"
    assert problem.fix == "gcloud services enable file.googleapis.com --project=777"


def test_a_rate_limit_waits_as_long_as_google_asks_and_a_cut_answer_is_asked_for_again(
    google: FakeGoogle, gather: Make, waits: list[float]
) -> None:
    google.compute[(PROJECT, "instances")] = [instance(number) for number in range(5)]
    limited = Answer(429, error(429, "rateLimitExceeded"), {"Retry-After": "17"})
    google.say("aggregated/instances", Answer(200), limited, Answer(200, cut=30), Answer(502))
    collection = gather()
    gcp.collect(source(google), collection)
    assert collection.folder.problems == []
    assert len(lines(collection, f"inventory/{PROJECT}/global/compute-instances.jsonl")) == 5
    assert 17 in waits and len(waits) == 3


def test_an_answer_that_does_not_come_in_time_is_asked_for_again(
    google: FakeGoogle, gather: Make, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "_TIMEOUT", (5, 0.2))
    google.compute[(PROJECT, "instances")] = [instance(0)]
    google.say("aggregated/instances", Answer(200, delay=0.6))
    collection = gather()
    gcp.collect(source(google), collection)
    assert collection.folder.problems == [] and len(waits) == 1
    assert len(lines(collection, f"inventory/{PROJECT}/global/compute-instances.jsonl")) == 1


def test_a_service_that_keeps_failing_is_given_up_and_told(
    google: FakeGoogle, gather: Make, waits: list[float]
) -> None:
    google.say("aggregated/disks", *(Answer(503, error(503, "UNAVAILABLE")) for _ in range(6)))
    collection = gather()
    gcp.collect(source(google), collection)
    (problem,) = collection.folder.problems
    assert problem.reason == "compute.googleapis.com kept failing (503)" and len(waits) == 5


def test_projects_are_those_linked_to_the_bill_on_every_page(google: FakeGoogle, gather: Make) -> None:
    google.lists |= {
        "cloudbilling.googleapis.com/v1/billingAccounts": {"billingAccounts": [{"name": "billingAccounts/0A-1B"}]},
        "cloudbilling.googleapis.com/v1/billingAccounts/0A-1B/projects": {
            "pages": [
                {"projectBillingInfo": [{"projectId": "one", "billingEnabled": True}]},
                {"projectBillingInfo": [{"projectId": "two", "billingEnabled": True}, {"projectId": "off", "billingEnabled": False}]},
            ]
        },
    }  # fmt: skip
    collection = gather()
    gcp.collect(GcpSource(name="prod", metrics=False, endpoint_url=google.url), collection)
    assert {one.path.split("/")[4] for one in google.asked("aggregated")} == {"one", "two"}


def test_the_catalogue_lands_as_pages_that_the_price_reader_knows(google: FakeGoogle, gather: Make) -> None:
    sku = {"skuId": "1", "description": "Nvidia L4 GPU running in Americas", "category": {"usageType": "OnDemand"},
           "serviceRegions": ["us-central1"], "pricingInfo": []}  # fmt: skip
    google.lists["cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"] = {
        "pages": [{"skus": [sku]}, {"skus": [sku]}]
    }
    collection = gather()
    asked = GcpSource(name="prod", prices=True, metrics=False, inventory=False, endpoint_url=google.url)
    gcp.collect(asked, collection)
    files, _ = gather_files([str(collection.folder.path)], collection.spool)
    found = sort_files(files)
    assert found.unread == []
    prices = [one for one in found.recognised if one.kind == "prices"]
    assert [one.format for one in prices] == ["gcp-billing-catalog"] * 2
    assert not any("nextPageToken" in one.shape.head for one in prices)
