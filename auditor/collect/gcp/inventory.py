"""What runs in a project, as the services' own lists tell it; the newest snapshot replaces the older one."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from auditor.collect.gcp.calls import CALLS
from auditor.collect.gcp.rest import Google, Params, Refused
from auditor.collect.gcp.words import is_disabled
from auditor.collect.work import Collection, Task
from auditor.journal import Problem

log = logging.getLogger(__name__)

_COMPUTE = {
    "instances": "machines: their types, accelerators, networks and disks",
    "disks": "disks, and which of them nothing uses",
    "routers": "NAT gateways",
    "subnetworks": "subnets, and whether they reach Google's services without NAT",
    "addresses": "reserved addresses",
    "reservations": "reservations of capacity",
    "commitments": "resource-based commitments",
    "forwardingRules": "load balancers and private endpoints",
    "resourcePolicies": "placement policies",
}
_GLOBAL = {"networks": "networks", "snapshots": "snapshots"}
_LOCATED = {
    "container.projects.locations.clusters.list": ("gke-clusters", "GKE clusters and their node pools"),
    "tpu.projects.locations.nodes.list": ("tpu-nodes", "TPUs"),
    "file.projects.locations.instances.list": ("filestore-instances", "Filestore instances"),
    "lustre.projects.locations.instances.list": ("lustre-instances", "Managed Lustre instances"),
    "notebooks.projects.locations.instances.list": ("workbench-instances", "notebooks of Vertex AI Workbench"),
}
_VERTEX = {
    "endpoints": "endpoints of Vertex AI",
    "customJobs": "training jobs of Vertex AI",
    "notebookRuntimes": "notebooks of Colab Enterprise",
}
_SECRETIVE = frozenset({"metadata", "masterAuth", "env", "args", "command"})
_PAGE = 500  # the most that Compute gives


def tasks(project: str, collection: Collection, google: Google, regions: Mapping[str, list[str]]) -> Iterator[Task]:
    """One task for each list of a project, so that one that is refused stands alone; `regions` are those of Vertex AI."""
    place = _Place(project, collection, google)
    for name, hides in _COMPUTE.items():
        yield place.task(f"compute.{name}.aggregatedList", hides, partial(place.compute, name, hides))
    for name, hides in _GLOBAL.items():
        yield place.task(f"compute.{name}.list", hides, partial(place.compute_global, name))
    for name, (file, hides) in _LOCATED.items():
        yield place.task(name, hides, partial(place.located, name, file, hides))
    for region in regions.get(project, ()):
        for name, hides in _VERTEX.items():
            run = partial(place.vertex, name, region)
            yield place.task(f"aiplatform.projects.locations.{name}.list", hides, run, region)
    yield place.task("storage.buckets.list", "buckets and their lifecycle rules", place.buckets)


def find_regions(project: str, collection: Collection, google: Google, found: dict[str, list[str]]) -> Task:
    """The task that finds the regions of Vertex AI, which answers by region only."""
    place = _Place(project, collection, google)

    def run() -> None:
        found[project] = list(place.vertex_regions())

    return place.task("aiplatform.projects.locations.list", "all of Vertex AI", run)


class _Place:
    """One project of the inventory."""

    def __init__(self, project: str, collection: Collection, google: Google) -> None:
        self._project, self._collection, self._google = project, collection, google

    def task(self, name: str, hides: str, run: Callable[[], None], region: str | None = None) -> Task:
        what = name.replace(".", ":", 1)
        return Task("inventory", what, hides, partial(self._unless_off, run), self._project, region)

    def _unless_off(self, run: Callable[[], None]) -> None:
        """An API that is off in the project has nothing there; one that is off for the caller hides what there is."""
        try:
            run()
        except Refused as error:
            if not is_disabled(error) or not self._is_own(error):
                raise
            log.info("nothing there, the API is off project=%s api=%s", self._project, error.call.service)

    def _is_own(self, error: Refused) -> bool:
        consumer = str(error.about.get("consumer") or f"projects/{self._project}").removeprefix("projects/")
        if not consumer.isdigit():
            return consumer == self._project
        told = json.loads(self._google.ask("cloudresourcemanager.projects.get", project=self._project))
        return str(told.get("name")) == f"projects/{consumer}"

    def _put(self, name: str, found: Iterator[Mapping[str, Any]], region: str = "global") -> None:
        """One resource a line. Without any there is no file, and an older one goes: what it told is no longer so."""
        path = f"inventory/{self._project}/{region}/{name}.jsonl"
        first = next(found, None)
        if first is None:
            self._collection.folder.drop([path] if path in self._collection.folder.entries else [])
            return

        def lines() -> Iterator[bytes]:
            yield _line(first)
            yield from map(_line, found)

        self._collection.folder.write(
            path, lines(), kind="inventory", now=self._collection.now, account_id=self._project, region=region
        )

    def _partial(self, call: str, hides: str, places: list[str], reason: str) -> None:
        """Notes places that a list left out, which otherwise would look empty."""
        what = call.replace(".", ":", 1)
        for place in sorted({place.rpartition("/")[2] for place in places}):
            problem = Problem("inventory", what, reason, hides, "run again later", self._project, place)
            self._collection.folder.problem(problem)

    def _pages(self, call: str, params: Params, hides: str, **where: str) -> Iterator[dict[str, Any]]:
        for page in self._google.pages(call, params, project=self._project, **where):
            unreachable = [*page.get("unreachables", ()), *page.get("unreachable", ())]
            if unreachable:
                self._partial(call, hides, unreachable, "the place could not be reached")
            yield page

    def compute(self, name: str, hides: str) -> None:
        """An aggregated list as `gcloud compute … list` prints it; a scope with a warning other than "none" is noted."""
        call = f"compute.{name}.aggregatedList"

        def found() -> Iterator[Mapping[str, Any]]:
            for page in self._pages(call, {"maxResults": _PAGE, "returnPartialSuccess": "true"}, hides):
                for scope, part in (page.get("items") or {}).items():
                    warning = part.get("warning") or {}
                    if warning.get("code", "NO_RESULTS_ON_PAGE") != "NO_RESULTS_ON_PAGE":
                        self._partial(call, hides, [scope], f"the list is incomplete ({warning['code']})")
                    yield from part.get(name, ())

        self._put(f"compute-{name}", found())

    def compute_global(self, name: str) -> None:
        call = f"compute.{name}.list"
        pages = self._google.pages(call, {"maxResults": _PAGE}, project=self._project)
        self._put(f"compute-{name}", (one for page in pages for one in page.get("items", ())))

    def located(self, call: str, file: str, hides: str) -> None:
        # clusters come in one answer, which knows no pages
        params: Params = {} if call.startswith("container.") else {"pageSize": _PAGE}
        key = CALLS[call].url.rpartition("/")[2]
        self._put(file, (one for page in self._pages(call, params, hides) for one in page.get(key, ())))

    def vertex_regions(self) -> Iterator[str]:
        pages = self._google.pages("aiplatform.projects.locations.list", {"pageSize": _PAGE}, project=self._project)
        yield from (str(one["locationId"]) for page in pages for one in page.get("locations", ()))

    def vertex(self, name: str, region: str) -> None:
        call = f"aiplatform.projects.locations.{name}.list"
        pages = self._google.pages(call, {"pageSize": 100}, project=self._project, location=region)
        self._put(f"vertex-{name}", (one for page in pages for one in page.get(name, ())), region)

    def buckets(self) -> None:
        params: Params = {"project": self._project, "maxResults": 1000, "projection": "noAcl"}
        pages = self._google.pages("storage.buckets.list", params)
        self._put("storage-buckets", (one for page in pages for one in page.get("items", ())))


def _line(one: Mapping[str, Any]) -> bytes:
    return json.dumps(_without_secrets(one), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _without_secrets(value: Any) -> Any:
    """The resource without its metadata, environment and command lines: keys and passwords stand there, and nothing read."""
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: inner if "label" in key.lower() else _without_secrets(inner)  # a label may be called env
        for key, inner in value.items()
        if key not in _SECRETIVE
    }
