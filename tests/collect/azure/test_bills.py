"""Exports from Blob storage, and the Query API where a scope has none."""

import gzip
import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from auditor.collect.azure import objects
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.local import gather
from auditor.journal import Journal
from auditor.settings import Limits
from tests.collect.azure.conftest import ACCOUNT
from tests.collect.azure.fake import NOW, Cloud, Seen, denied, throttled

Pull = Callable[..., Journal]
HEADER = "SubscriptionId,Date,MeterCategory,MeterId,CostInBillingCurrency,BillingCurrencyCode,ResourceId,Quantity\n"
SUBSCRIPTION = "11111111-0000-0000-0000-000000000001"
RUNS = [f"{n:08d}-0000-0000-0000-000000000000" for n in range(1, 9)]


def export(
    container: Any,
    run: str,
    submitted: str,
    *,
    period: str = "20261001-20261031",
    parts: int = 2,
    name: str = "daily",
    absent: int = 0,
    kind: str = "ActualCost",
) -> list[str]:
    """Puts one run of an export there as Cost Management does; `absent` of its last parts are not written."""
    folder = f"costs/{name}/{period}/{run}"
    blobs = []
    for part in range(parts):
        rows = f"{SUBSCRIPTION},10/0{part + 1}/2026,Storage,m,{part + 1}.25,USD,/x/{run},1\n"
        content = gzip.compress((HEADER + rows).encode(), mtime=0)
        blob = f"{folder}/part_{part}_0001.csv.gz"
        if part < parts - absent:
            container.upload_blob(blob, content, overwrite=True)
        blobs.append({"blobName": blob, "byteCount": len(content), "dataRowCount": 1})
    first, last = (f"{day[:4]}-{day[4:6]}-{day[6:]}T00:00:00" for day in period.split("-"))
    manifest = {
        "manifestVersion": "2024-04-01",
        "exportConfig": {"exportName": name, "type": kind, "resourceId": f"/subscriptions/{SUBSCRIPTION}/e/{name}"},
        "runInfo": {"submittedTime": submitted, "runId": run, "startDate": first, "endDate": last},
        "blobs": blobs,
    }
    container.upload_blob(f"{folder}/manifest.json", json.dumps(manifest).encode(), overwrite=True)
    return [f"billing/{ACCOUNT}/{container.container_name}/{one['blobName']}" for one in blobs]


def place(container: Any, prefix: str = "costs") -> str:
    return f"https://{ACCOUNT}.blob.core.windows.net/{container.container_name}/{prefix}"


def bills(journal: Journal) -> list[str]:
    return sorted(name for name in journal.entries if not name.endswith("manifest.json"))


def asked(cloud: Cloud, part: str = "part_") -> list[str]:
    return [seen.path for seen in cloud.seen if part in seen.path]


NOTHING_ELSE = {"metrics": False, "inventory": False}


def test_the_newest_run_of_a_month_is_fetched_and_the_older_ones_are_not(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    newest = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    export(container, RUNS[0], "2026-10-01T06:00:00Z")  # put there later: when it was made counts
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert (bills(journal), journal.problems) == (newest, [])
    assert len(asked(stored)) == 2


def test_a_second_pull_of_the_same_runs_downloads_nothing(container: Any, stored: Cloud, pull: Pull) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z")
    first = pull(exports=[place(container)], **NOTHING_ELSE)
    stored.seen.clear()
    second = pull(exports=[place(container)], **NOTHING_ELSE)
    assert second.entries == first.entries
    assert [seen.query.get("comp") for seen in stored.seen] == ["list"]


def test_a_newer_run_replaces_the_older_one_and_its_files(
    container: Any, stored: Cloud, pull: Pull, tmp_path: Path
) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z")
    pull(exports=[place(container)], **NOTHING_ELSE)
    newer = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert bills(journal) == newer
    lying = sorted(path.name for path in (tmp_path / "azure/billing").rglob("*") if path.is_file())
    assert lying == ["manifest.json", "part_0_0001.csv.gz", "part_1_0001.csv.gz"]


def test_a_run_that_is_still_being_written_leaves_the_older_one(container: Any, stored: Cloud, pull: Pull) -> None:
    older = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    export(container, RUNS[1], "2026-10-02T06:00:00Z", absent=1)
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert (bills(journal), journal.problems) == (older, [])


def test_a_run_with_a_lost_file_is_fetched_where_there_is_no_other_and_said(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    names = export(container, RUNS[0], "2026-10-01T06:00:00Z", absent=1)
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert bills(journal) == names[:1]
    assert "1 files that are not there" in journal.problems[0].reason


def test_months_before_those_wanted_are_not_fetched_and_stay_where_they_lie(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    september = export(container, RUNS[0], "2026-10-01T06:00:00Z", period="20260901-20260930")
    october = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    wanted = {"exports": [place(container)], "limits": Limits(months=1), **NOTHING_ELSE}
    assert bills(pull(**wanted)) == october
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == sorted(september + october)
    assert bills(pull(**wanted)) == sorted(september + october)


def test_an_export_that_is_deleted_is_dropped(container: Any, stored: Cloud, pull: Pull) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z", name="a")
    kept = export(container, RUNS[1], "2026-10-01T06:00:00Z", name="b")
    pull(exports=[place(container)], **NOTHING_ELSE)
    for blob in container.list_blobs(name_starts_with="costs/a/"):
        container.delete_blob(blob.name)
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == kept


def test_files_without_a_manifest_count_by_their_newest_run(container: Any, stored: Cloud, pull: Pull) -> None:
    folder = "costs/old/20261001-20261031"
    container.upload_blob(f"{folder}/old_{RUNS[0]}.csv", HEADER + "a")
    time.sleep(1.1)  # the service tells whole seconds
    container.upload_blob(f"{folder}/old_{RUNS[1]}.csv", HEADER + "b")
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert [name.rpartition("/")[2] for name in bills(journal)] == [f"old_{RUNS[1]}.csv"]


def test_a_folder_that_begins_alike_is_another_one(container: Any, stored: Cloud, pull: Pull) -> None:
    wanted = export(container, RUNS[0], "2026-10-01T06:00:00Z", name="ea")
    export(container, RUNS[1], "2026-10-01T06:00:00Z", name="ea-old")
    journal = pull(exports=[place(container, "costs/ea")], **NOTHING_ELSE)
    assert bills(journal) == wanted


def is_part(seen: Seen) -> bool:
    return "part_1" in seen.path


def test_a_run_of_which_one_file_is_denied_does_not_show_and_the_older_stays(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    older = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    pull(exports=[place(container)], **NOTHING_ELSE)
    newer = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    stored.once(lambda seen: is_part(seen) and RUNS[1] in seen.path, denied("AuthorizationPermissionMismatch"))
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert [name for name in bills(journal) if "/._" not in name] == older
    problem = journal.problems[0]
    assert "denied" in problem.reason
    assert problem.fix is not None and "Storage Blob Data Reader" in problem.fix
    stored.seen.clear()
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == newer
    assert len(asked(stored)) == 1  # the other part lay there already


def test_a_kill_in_the_middle_of_a_run_shows_nothing_of_it_and_what_came_is_kept(
    container: Any, stored: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    older = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    pull(exports=[place(container)], **NOTHING_ELSE)
    newer = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    download = objects._download

    def dying(azure: Any, where: Any, blob: objects.Blob, *rest: Any, **more: Any) -> None:
        if "part_1" in blob.name:
            raise Killed
        download(azure, where, blob, *rest, **more)

    monkeypatch.setattr(objects, "_download", dying)
    with pytest.raises(Killed):
        pull(exports=[place(container)], **NOTHING_ELSE)
    (tmp_path / "spool").mkdir()
    shown, _ = gather([str(tmp_path / "azure")], tmp_path / "spool")
    assert sorted(file.name for file in shown if "part_" in file.name) == [f"azure/{name}" for name in older]
    monkeypatch.setattr(objects, "_download", download)
    stored.seen.clear()
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == newer
    assert ["part_1" in path for path in asked(stored)] == [True]


def test_a_manifest_that_is_no_json_is_told_and_its_run_still_counts(container: Any, stored: Cloud, pull: Pull) -> None:
    names = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    container.upload_blob(f"costs/daily/20261001-20261031/{RUNS[0]}/manifest.json", b"{ torn", overwrite=True)
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert bills(journal) == names
    assert ["the manifest is no JSON" in problem.reason for problem in journal.problems] == [True]


def test_a_place_of_any_kind_is_mirrored_as_scan_does_it(container: Any, stored: Cloud, tmp_path: Path) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z")
    newest = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    container.upload_blob("costs/metrics.csv", b"time,resource_id,metric,value\n")
    folder = LandingFolder(tmp_path / "mirror", "az", "azure", NOW)
    url = f"az://{ACCOUNT}/{container.container_name}/costs"
    wanted: dict[str, Any] = {"endpoint_url": stored.url, "kind": "billing", "months": None}
    names = objects.fetch(url, folder, Budget(Limits()), NOW, **wanted)
    beside = f"billing/{ACCOUNT}/{container.container_name}/costs/metrics.csv"
    assert sorted(name for name in names if not name.endswith("manifest.json")) == sorted([*newest, beside])
    assert set(names) == set(folder.entries)


def test_a_busy_store_is_asked_again_as_it_says(container: Any, stored: Cloud, pull: Pull) -> None:
    names = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    busy = (503, {"Retry-After": "0.01", "x-ms-error-code": "ServerBusy"}, b"")
    stored.once(is_part, busy, busy)
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert (bills(journal), journal.problems) == (names, [])


def test_a_download_that_is_cut_is_repeated_and_never_half(
    container: Any, stored: Cloud, pull: Pull, tmp_path: Path
) -> None:
    names = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    cuts = [20]
    stored.cut_after = lambda seen: cuts.pop() if cuts and is_part(seen) and seen.method == "GET" else None
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert not cuts
    assert (bills(journal), journal.problems) == (names, [])
    assert all(gzip.decompress((tmp_path / "azure" / name).read_bytes()) for name in names)


def test_a_cap_on_bytes_stops_before_the_download(container: Any, stored: Cloud, pull: Pull) -> None:
    export(container, RUNS[0], "2026-10-01T06:00:00Z")
    journal = pull(exports=[place(container)], limits=Limits(bytes=1000, parallel=1), **NOTHING_ELSE)
    assert [name for name in bills(journal) if "/._" not in name] == []
    assert "the cap of [limits] bytes = 1000 is reached" in journal.problems[-1].reason


def test_an_address_with_a_signature_is_refused_and_not_repeated(stored: Cloud, pull: Pull) -> None:
    journal = pull(exports=[f"https://{ACCOUNT}.blob.core.windows.net/c/p?sv=1&sig=SECRET"], **NOTHING_ELSE)
    assert "without its signature" in journal.problems[0].reason
    assert "SECRET" not in json.dumps([problem.__dict__ for problem in journal.problems])


def scope_export(container: Any, name: str, kind: str, status: str = "Completed") -> dict[str, Any]:
    account = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.CostManagement/exports/{name}",
        "name": name,
        "properties": {
            "definition": {"type": kind},
            "deliveryInfo": {
                "destination": {
                    "resourceId": account,
                    "container": container.container_name,
                    "rootFolderPath": "costs",
                }
            },
            "schedule": {"status": "Active"},
            "runHistory": {"value": [{"properties": {"status": status, "submittedTime": "2026-10-02T06:00:00Z"}}]},
        },
    }


def test_a_scopes_exports_are_found_and_fetched_and_nothing_is_queried(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    names = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    export(container, RUNS[1], "2026-10-01T06:00:00Z", name="sheet", kind="PriceSheet")
    scope = f"/subscriptions/{SUBSCRIPTION}"
    stored.exports[scope] = [
        scope_export(container, "daily", "ActualCost"),
        scope_export(container, "sheet", "PriceSheet"),
    ]
    journal = pull(scopes=[scope], limits=Limits(months=1), **NOTHING_ELSE)
    assert (bills(journal), journal.problems) == (names, [])
    assert not asked(stored, "/query")


def cost_rows(day: int, amount: float) -> list[Any]:
    return [
        amount,
        day,
        f"/subscriptions/{SUBSCRIPTION}/resourcegroups/g/providers/microsoft.compute/disks/d",
        "P30",
        "USD",
    ]


@pytest.fixture
def queried(cloud: Cloud) -> Cloud:
    scope = f"/subscriptions/{SUBSCRIPTION}"
    cloud.costs[scope] = [cost_rows(20260900 + day, 0.1) for day in range(1, 4)] + [cost_rows(20261001, 0.7)]
    return cloud


def pages(journal: Journal) -> list[str]:
    return [name.partition("query/")[2].partition("/")[2] for name in sorted(journal.entries)]


def test_a_scope_without_exports_is_queried_month_by_month_all_pages(queried: Cloud, pull: Pull) -> None:
    journal = pull(scopes=[f"/subscriptions/{SUBSCRIPTION}"], limits=Limits(months=2), **NOTHING_ELSE)
    assert pages(journal) == ["2026-09/page-0001.json", "2026-09/page-0002.json", "2026-10/page-0001.json"]
    assert journal.problems == []


def test_a_429_on_the_second_page_is_waited_out_by_cost_managements_own_header(queried: Cloud, pull: Pull) -> None:
    waits = {"x_ms_ratelimit_microsoft.costmanagement_qpu_retry_after": "0.3"}
    queried.once(lambda seen: "$skiptoken" in seen.query, throttled(**waits))
    before = datetime.now().timestamp()
    journal = pull(scopes=[f"/subscriptions/{SUBSCRIPTION}"], limits=Limits(months=2), **NOTHING_ELSE)
    assert datetime.now().timestamp() - before >= 0.3
    assert len(pages(journal)) == 3
    assert journal.problems == []


def test_a_page_that_is_never_given_leaves_the_older_answer_whole(
    queried: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scope = f"/subscriptions/{SUBSCRIPTION}"
    pull(scopes=[scope], limits=Limits(months=2), **NOTHING_ELSE)
    before = (tmp_path / f"azure/billing/query/subscriptions_{SUBSCRIPTION}/2026-09/page-0001.json").read_bytes()
    queried.costs[scope][0][0] = 99.0
    queried.always(lambda seen: "$skiptoken" in seen.query, denied())
    journal = pull(scopes=[scope], limits=Limits(months=2), **NOTHING_ELSE)
    assert (
        tmp_path / f"azure/billing/query/subscriptions_{SUBSCRIPTION}/2026-09/page-0001.json"
    ).read_bytes() == before
    assert [problem.what for problem in journal.problems] == ["costmanagement:query.usage"]


def test_a_settled_month_is_not_asked_for_again(queried: Cloud, pull: Pull) -> None:
    later = NOW.replace(day=20)
    wanted = {"scopes": [f"/subscriptions/{SUBSCRIPTION}"], "limits": Limits(months=2), "now": later, **NOTHING_ELSE}
    pull(**wanted)
    queried.seen.clear()
    pull(**wanted)
    starts = [seen.body["timePeriod"]["from"][:7] for seen in queried.seen if seen.path.endswith("/query")]
    assert starts == ["2026-10"]


def test_a_denied_scope_stops_no_other_and_says_what_to_grant(queried: Cloud, pull: Pull) -> None:
    billing = "/providers/Microsoft.Billing/billingAccounts/1234"
    queried.always(lambda seen: seen.path.startswith(billing), denied("RBACAccessDenied"))
    scopes = [billing, f"/subscriptions/{SUBSCRIPTION}"]
    journal = pull(scopes=scopes, limits=Limits(months=1), **NOTHING_ELSE)
    assert len(journal.entries) == 1
    (problem,) = journal.problems
    assert (problem.what, problem.account_id) == ("costmanagement:exports.list", billing)
    assert "(RBACAccessDenied)" in problem.reason
    assert problem.fix is not None and "reading role of the billing account" in problem.fix


def test_months_before_an_export_was_made_are_queried_and_given_up_when_it_holds_them(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    scope = f"/subscriptions/{SUBSCRIPTION}"
    stored.costs[scope] = [cost_rows(20260901, 0.1), cost_rows(20261001, 0.7)]
    wanted = {"scopes": [scope], "limits": Limits(months=2), "now": NOW.replace(day=20), **NOTHING_ELSE}
    queried = [f"billing/query/subscriptions_{SUBSCRIPTION}/2026-{month}/page-0001.json" for month in ("09", "10")]
    assert bills(pull(**wanted)) == queried
    october = export(container, RUNS[0], "2026-10-02T06:00:00Z")
    stored.exports[scope] = [scope_export(container, "daily", "ActualCost")]
    assert bills(pull(**wanted)) == sorted([*october, queried[0]])
    september = export(container, RUNS[1], "2026-10-05T06:00:00Z", period="20260901-20260930")
    assert bills(pull(**wanted)) == sorted([*october, *september])


def test_costs_of_an_export_that_may_not_be_read_are_queried(container: Any, stored: Cloud, pull: Pull) -> None:
    scope = f"/subscriptions/{SUBSCRIPTION}"
    export(container, RUNS[0], "2026-10-02T06:00:00Z")
    stored.costs[scope] = [cost_rows(20261001, 0.7)]
    stored.exports[scope] = [scope_export(container, "daily", "ActualCost")]
    stored.always(lambda seen: "part_" in seen.path, denied("AuthorizationPermissionMismatch"))
    journal = pull(scopes=[scope], limits=Limits(months=1), **NOTHING_ELSE)
    shown = [name for name in bills(journal) if "/._" not in name]
    assert shown == [f"billing/query/subscriptions_{SUBSCRIPTION}/2026-10/page-0001.json"]
    assert {problem.what for problem in journal.problems} == {"storage:blobs.get"}


def test_an_older_delivery_of_a_month_stands_and_is_not_queried_beside_it(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    scope = f"/subscriptions/{SUBSCRIPTION}"
    older = export(container, RUNS[0], "2026-10-02T06:00:00Z")
    stored.costs[scope] = [cost_rows(20261001, 0.7)]
    stored.exports[scope] = [scope_export(container, "daily", "ActualCost")]
    wanted = {"scopes": [scope], "limits": Limits(months=1), **NOTHING_ELSE}
    pull(**wanted)
    export(container, RUNS[1], "2026-10-03T06:00:00Z")
    stored.always(lambda seen: f"{RUNS[1]}/part_" in seen.path, denied("AuthorizationPermissionMismatch"))
    assert bills(pull(**wanted)) == older
    stored.always(lambda seen: seen.query.get("comp") == "list", denied("AuthorizationPermissionMismatch"))
    assert bills(pull(**wanted)) == older
    assert not asked(stored, "/query")


def test_an_older_run_that_the_bucket_no_longer_has_stays_until_the_newer_is_whole(
    container: Any, stored: Cloud, pull: Pull
) -> None:
    older = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    pull(exports=[place(container)], **NOTHING_ELSE)
    for blob in container.list_blobs():
        container.delete_blob(blob.name)  # the export overwrites what it wrote before
    export(container, RUNS[1], "2026-10-02T06:00:00Z", absent=1)
    journal = pull(exports=[place(container)], **NOTHING_ELSE)
    assert [name for name in bills(journal) if "/._" not in name] == older
    assert "an older delivery is used" in journal.problems[0].hides
    newer = export(container, RUNS[1], "2026-10-02T06:00:00Z")
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == newer


def test_an_empty_page_is_not_the_end_of_a_list(container: Any, stored: Cloud, pull: Pull) -> None:
    names = export(container, RUNS[0], "2026-10-01T06:00:00Z")
    empty = b"<?xml version='1.0'?><EnumerationResults><Blobs/><NextMarker>a</NextMarker></EnumerationResults>"
    is_list = {"Content-Type": "application/xml"}
    stored.once(lambda seen: seen.query.get("comp") == "list", (200, is_list, empty))
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == names


def test_a_name_that_no_file_system_takes_is_kept_from_pull_to_pull(container: Any, stored: Cloud, pull: Pull) -> None:
    container.upload_blob(f"costs//{'long' * 70}/bill.csv", HEADER + "a")
    first = pull(exports=[place(container)], **NOTHING_ELSE)
    assert len(bills(first)) == 1
    stored.seen.clear()
    assert bills(pull(exports=[place(container)], **NOTHING_ELSE)) == bills(first)
    assert [seen.query.get("comp") for seen in stored.seen] == ["list"]
