"""Every call that is made of Google Cloud, with the permission it needs: the policy is written from this table.

Nothing is asked that does not stand here, and nothing here writes.
"""

from typing import NamedTuple


class Call(NamedTuple):
    """One method of a Google API: `scope` is what the permission is granted on; REST calls have an address."""

    name: str
    permissions: tuple[str, ...]
    scope: str  # project, dataset, bucket, billing account
    used_for: str
    url: str = ""

    @property
    def service(self) -> str:
        """The API that must be enabled, such as compute.googleapis.com."""
        return f"{self.name.partition('.')[0]}.googleapis.com"


_COMPUTE = "https://compute.googleapis.com/compute/v1/projects/{project}"


def _compute(collection: str, *, where: str = "aggregated/") -> Call:
    method = "aggregatedList" if where == "aggregated/" else "list"
    return Call(
        f"compute.{collection}.{method}",
        (f"compute.{collection}.list",),
        "project",
        "inventory",
        f"{_COMPUTE}/{where}{collection}",
    )


def _located(service: str, version: str, collection: str, permission: str, location: str = "-") -> Call:
    """A list of the services that name resources by location; `-` stands for all of them where a service knows it."""
    return Call(
        f"{service}.projects.locations.{collection}.list",
        (permission,),
        "project",
        "inventory",
        f"https://{service}.googleapis.com/{version}/projects/{{project}}/locations/{location}/{collection}",
    )


def _vertex(collection: str) -> Call:
    call = _located("aiplatform", "v1", collection, f"aiplatform.{collection}.list", "{location}")
    return call._replace(url=call.url.replace("https://aiplatform", "https://{location}-aiplatform"))


_CALLS = (
    Call("bigquery.tables.list", ("bigquery.tables.list",), "dataset", "bills"),
    Call("bigquery.tables.get", ("bigquery.tables.get",), "dataset", "bills"),
    Call("bigquery.tabledata.list", ("bigquery.tables.getData",), "dataset", "bills"),
    Call("bigquery.jobs.query", ("bigquery.jobs.create",), "project", "bills of a view"),
    Call("storage.objects.list", ("storage.objects.list",), "bucket", "bills in buckets"),
    Call("storage.objects.get", ("storage.objects.get",), "bucket", "bills in buckets"),
    Call(
        "cloudbilling.billingAccounts.projects.list",
        ("billing.resourceAssociations.list",),
        "billing account",
        "the projects of a bill",
        "https://cloudbilling.googleapis.com/v1/billingAccounts/{account}/projects",
    ),
    Call(
        "cloudbilling.billingAccounts.list",
        ("billing.accounts.list",),
        "billing account",
        "the projects of a bill",
        "https://cloudbilling.googleapis.com/v1/billingAccounts",
    ),
    Call(
        "cloudbilling.services.skus.list",
        (),  # the catalogue is public; the API wants credentials all the same
        "billing account",
        "list prices",
        "https://cloudbilling.googleapis.com/v1/services/{service}/skus",
    ),
    Call(
        "cloudresourcemanager.projects.get",
        ("resourcemanager.projects.get",),
        "project",
        "the number of a project",
        "https://cloudresourcemanager.googleapis.com/v3/projects/{project}",
    ),
    Call(
        "monitoring.projects.timeSeries.list",
        ("monitoring.timeSeries.list",),
        "project",
        "metrics",
        "https://monitoring.googleapis.com/v3/projects/{project}/timeSeries",
    ),
    _compute("instances"),
    _compute("disks"),
    _compute("routers"),
    _compute("subnetworks"),
    _compute("addresses"),
    _compute("reservations"),
    _compute("commitments"),
    _compute("forwardingRules"),
    _compute("resourcePolicies"),
    _compute("networks", where="global/"),
    _compute("snapshots", where="global/"),
    _located("container", "v1", "clusters", "container.clusters.list"),
    _located("tpu", "v2", "nodes", "tpu.nodes.list"),
    _located("file", "v1", "instances", "file.instances.list"),
    _located("lustre", "v1", "instances", "lustre.instances.list"),
    _located("notebooks", "v2", "instances", "notebooks.instances.list"),
    Call(
        "aiplatform.projects.locations.list",
        ("aiplatform.locations.list",),
        "project",
        "inventory",
        "https://aiplatform.googleapis.com/v1/projects/{project}/locations",
    ),
    _vertex("endpoints"),
    _vertex("customJobs"),
    _vertex("notebookRuntimes"),
    Call(
        "storage.buckets.list",
        ("storage.buckets.list",),
        "project",
        "inventory",
        "https://storage.googleapis.com/storage/v1/b",
    ),
)

CALLS = {call.name: call for call in _CALLS}


def policy() -> str:
    """The custom role of all calls on projects, as `gcloud iam roles create` takes it, and what else must be granted."""
    wanted = sorted({one for call in _CALLS if call.scope == "project" for one in call.permissions})
    on_dataset = ", ".join(sorted({one for call in _CALLS if call.scope == "dataset" for one in call.permissions}))
    on_bucket = ", ".join(sorted({one for call in _CALLS if call.scope == "bucket" for one in call.permissions}))
    on_bill = ", ".join(sorted({one for call in _CALLS if call.scope == "billing account" for one in call.permissions}))
    lines = [
        "# Read-only role of the audit, without any permission that writes. Save as auditor-role.yaml, then:",
        "#   gcloud iam roles create auditor --organization=ORGANIZATION --file=auditor-role.yaml",
        "#   gcloud organizations add-iam-policy-binding ORGANIZATION --member=MEMBER \\",
        "#     --role=organizations/ORGANIZATION/roles/auditor",
        "# or with --project=PROJECT in place of the organization. MEMBER is serviceAccount:NAME@PROJECT.iam.gserviceaccount.com.",
        "#",
        f"# On the data set of the billing export ({on_dataset}):",
        "#   bq add-iam-policy-binding --member=MEMBER --role=roles/bigquery.dataViewer PROJECT:DATASET",
        f"# On buckets with extracted bills ({on_bucket}):",
        "#   gcloud storage buckets add-iam-policy-binding gs://BUCKET --member=MEMBER --role=roles/storage.objectViewer",
        f"# On the billing account, where projects are not listed in the configuration ({on_bill}):",
        "#   gcloud billing accounts add-iam-policy-binding ACCOUNT --member=MEMBER --role=roles/billing.viewer",
        "title: auditor",
        "description: What auditor reads of projects",
        "stage: GA",
        "includedPermissions:",
        *(f"  - {permission}" for permission in wanted),
    ]
    return "\n".join(lines) + "\n"
