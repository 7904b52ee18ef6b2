"""What the doctor says, and that the policy covers what is asked."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import Credentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError

from auditor.checks import Check
from auditor.collect import gcp
from auditor.collect.gcp import rest
from auditor.collect.gcp.calls import CALLS
from auditor.collect.work import Collection
from auditor.settings import GcpSource
from tests.collect.gcp.bills import DETAILED, SCHEMA, STANDARD, charge
from tests.collect.gcp.server import Answer, BigTable, FakeGoogle, error
from tests.collect.gcp.test_inventory import PROJECT, instance
from tests.collect.gcp.test_metrics import GPU, vm

Make = Callable[..., Collection]


def source(google: FakeGoogle, **more: Any) -> GcpSource:
    about = {"name": "prod", "billing_dataset": "acme-billing.billing", "projects": [PROJECT]}
    return GcpSource(**(about | {"endpoint_url": google.url} | more))


def said(google: FakeGoogle, **more: Any) -> dict[str, Check]:
    """The checks by what their text says first."""
    return {f"{one.state} {one.text}": one for one in gcp.check(source(google, **more))}


def bill(google: FakeGoogle, name: str, at: datetime) -> None:
    schema = [column for column in SCHEMA if name == DETAILED or column["name"] != "resource"]
    google.tables[name] = BigTable(schema)
    google.tables[name].add("20261004", [charge("2026-10-04", 1)], int(at.timestamp() * 1000))


def test_a_healthy_source_has_resource_ids_a_fresh_bill_and_figures_of_its_gpus(google: FakeGoogle) -> None:
    now = datetime.now(UTC)
    bill(google, DETAILED, now)
    google.compute[(PROJECT, "instances")] = [instance(0)]
    google.series[(PROJECT, GPU)] = [vm(0, 0, [(now - timedelta(hours=1), 5.0)])]
    checks = list(gcp.check(source(google)))
    assert [one.state for one in checks] == ["ok"] * len(checks)
    texts = " | ".join(one.text for one in checks)
    assert "names resources" in texts and "machines can be listed, 1 of them with GPUs" in texts
    assert f"figures of accelerators come in ({GPU})" in texts


def test_each_lack_is_named_with_its_remedy(google: FakeGoogle) -> None:
    bill(google, STANDARD, datetime.now(UTC) - timedelta(days=9))
    google.compute[(PROJECT, "instances")] = [instance(0), instance(1, guestAccelerators=[])]
    standard, age, figures = (one for one in gcp.check(source(google)) if one.state == "warn")
    assert standard.text.startswith("the standard export names no resources")
    assert "enable the detailed usage cost export" in str(standard.fix)
    assert age.text.endswith("the export seems to have stopped")
    assert figures.text == "no figures of GPUs came in the last day, and there are machines with some: 1"
    assert str(figures.fix).startswith("install the Ops Agent")


def test_a_refusal_is_bad_with_its_remedy_and_stops_no_other_check(google: FakeGoogle) -> None:
    google.say("bigquery", Answer(403, error(403, "accessDenied")))
    google.say("timeSeries", Answer(403, error(403, "PERMISSION_DENIED")))
    told = said(google)
    assert (
        told["bad the permission bigquery.tables.list is missing"].fix
        == "grant roles/bigquery.dataViewer on the data set"
    )
    assert "bad the permission monitoring.timeSeries.list is missing" in told
    assert "ok machines can be listed, 0 of them with GPUs" in told


def test_without_credentials_the_ways_to_get_some_are_told(google: FakeGoogle, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: object) -> None:
        raise DefaultCredentialsError("none")  # type: ignore[no-untyped-call]

    monkeypatch.setattr("google.auth.default", none)
    (check,) = gcp.check(source(google, endpoint_url=None))
    assert (check.state, check.text) == ("bad", "no Google credentials were found")
    assert "gcloud auth application-default login" in str(check.fix)


def test_anonymous_credentials_are_for_a_stand_in_on_this_machine_only(
    google: FakeGoogle, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("google.auth.default", lambda **given: asked.append(given) or ("found", "acme"))
    assert rest.credentials("https://proxy.example.com") == ("found", "acme")
    assert rest.credentials(None) == ("found", "acme") and len(asked) == 2
    assert type(rest.credentials(google.url)[0]).__name__ == "AnonymousCredentials" and len(asked) == 2


def test_the_policy_is_a_role_that_reads_only() -> None:
    lines = gcp.policy().splitlines()
    permissions = [line.removeprefix("  - ") for line in lines[lines.index("includedPermissions:") + 1 :]]
    assert permissions == sorted(set(permissions)) and "compute.instances.list" in permissions
    assert "monitoring.timeSeries.list" in permissions
    everything = {one for call in CALLS.values() for one in call.permissions}
    reads = re.compile(r"\.(list|get|getData)$")
    assert [one for one in everything if not reads.search(one)] == ["bigquery.jobs.create"]  # a query is a job
    assert all(one in gcp.policy() for one in everything)


def test_every_call_that_is_made_stands_in_the_table_and_the_other_way_round(google: FakeGoogle, gather: Make) -> None:
    """All calls of one collection that uses everything, as the budget and the server saw them."""
    bill(google, DETAILED, datetime.now(UTC))
    google.tables["a_view"] = BigTable(SCHEMA, {"all": [charge("2026-10-04", 1)]}, kind="VIEW", beneath=[DETAILED])
    google.lists |= {
        "cloudbilling.googleapis.com/v1/billingAccounts": {"billingAccounts": [{"name": "billingAccounts/0A"}]},
        "cloudbilling.googleapis.com/v1/billingAccounts/0A/projects": {"projectBillingInfo": [{"projectId": PROJECT}]},
        f"aiplatform.googleapis.com/v1/projects/{PROJECT}/locations": {"locations": [{"locationId": "us-central1"}]},
    }
    google.say(r"tpu\.", Answer(403, error(403, "SERVICE_DISABLED", consumer="projects/1")))
    collection = gather()
    wanted = {"projects": [], "prices": True, "exports": ["gs://acme-bills/export"]}
    gcp.collect(source(google, **wanted), collection)
    gcp.collect(source(google, **wanted, billing_table="a_view"), collection)
    used = {one.api.replace(":", ".", 1) for one in collection.budget.take()}
    assert set(CALLS) - used == {"storage.objects.get"}  # which the tests of buckets make
    rest_calls = [call for call in CALLS.values() if call.url]
    for request in google.requests:
        if request.host == "127.0.0.1":
            assert re.match(r"/(bigquery|storage)/v\d/", request.path)
            assert request.method == "GET" or request.path.endswith("/jobs")
            continue
        address = f"https://{request.host}{request.path}"
        known = [
            one for one in rest_calls if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one.url)), address)
        ]
        assert known and request.method == "GET", address


def test_no_client_is_called_but_through_the_table() -> None:
    """The clients' own methods that reach Google stand inside `ask`, which takes the name of the call."""
    package = Path(gcp.__file__).parent
    reaching = re.compile(r"\.(get_table|list_tables|list_rows|query|list_blobs|download_to_file|get_bucket|insert_\w+|delete\w*|create\w*|update\w*|upload\w*)\(")  # fmt: skip
    found = {(path.name, match[1]) for path in package.glob("*.py") for match in reaching.finditer(path.read_text())}
    assert found == {
        ("bigquery.py", "get_table"),
        ("bigquery.py", "list_tables"),
        ("bigquery.py", "list_rows"),
        ("bigquery.py", "query"),
        ("objects.py", "list_blobs"),
        ("objects.py", "download_to_file"),
    }
    assert [path.name for path in package.glob("*.py") if re.search(r"session\.(?!get\b)\w+\(", path.read_text())] == []


class Expiring(Credentials):
    """A token that the service no longer takes until it was refreshed; refused for good after that where `is_dead`."""

    def __init__(self, *, is_dead: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token, self.is_dead, self.refreshed = "old", is_dead, 0

    def refresh(self, request: object) -> None:
        self.refreshed += 1
        if self.is_dead:
            raise RefreshError("invalid_grant: token eyJhbGciOi has been revoked")  # type: ignore[no-untyped-call]
        self.token = "new"


@pytest.mark.parametrize("is_dead", [False, True])
def test_an_expired_token_is_renewed_once_and_a_withdrawn_one_is_told_without_the_token(
    google: FakeGoogle, gather: Make, monkeypatch: pytest.MonkeyPatch, is_dead: bool
) -> None:
    token = Expiring(is_dead=is_dead)
    monkeypatch.setattr(rest, "credentials", lambda _: (token, None))
    google.in_the_way.append((lambda request: token.token == "old", [Answer(401, error(401, "UNAUTHENTICATED"))]))
    google.compute[(PROJECT, "instances")] = [instance(0)]
    collection = gather(parallel=1)
    gcp.collect(source(google, billing_dataset=None, metrics=False), collection)
    reasons = {one.reason for one in collection.folder.problems}
    if is_dead:
        assert reasons == {"the Google credentials are expired or were withdrawn"}
        assert not any("eyJ" in path.read_text() for path in collection.folder.path.rglob("*") if path.is_file())
    else:
        assert reasons == set() and token.refreshed == 1 and len(collection.folder.entries) == 1
