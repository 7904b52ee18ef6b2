"""Azure Monitor metrics, 50 resources a call: platform metrics of what runs, and the GPU metrics of Azure ML.

Azure has no GPU metric of a plain virtual machine: what runs inside must tell (a DCGM exporter and Prometheus).
"""

import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any

from azure.core.exceptions import IncompleteReadError, ServiceResponseError

from auditor.collect.azure.clients import Azure, CallFailed, explain
from auditor.collect.azure.inventory import Found, Thing
from auditor.collect.work import Collection, Task
from auditor.errors import SourceError
from auditor.journal import Problem

_BATCH = 50  # resource ids in one call, of one subscription, region and type
_WINDOW = timedelta(days=30)  # in one question
_TOP = 100_000  # series of a resource: without it Azure gives 10 and does not say that it left some out
# https://azure.microsoft.com/pricing/details/monitor/: 0.01 USD per 1,000 calls; the free million a month is not counted
_PRICE = Decimal("0.00001")
_TRIES = 3  # of an answer that breaks off in the middle, which the client itself does not ask for again
_HOUR = timedelta(hours=1)
_TOO_MUCH = (413, 504)


@dataclass(frozen=True)
class Question:
    """Metrics of one namespace that go into one call: they share their dimensions."""

    name: str
    types: tuple[str, ...]  # resource types, each of which is a namespace
    metrics: tuple[str, ...]  # 20 at most
    aggregations: tuple[str, ...]
    dimensions: tuple[str, ...] = ()

    @property
    def filter(self) -> str | None:
        return " and ".join(f"{name} eq '*'" for name in self.dimensions) or None


MACHINES = ("microsoft.compute/virtualmachines", "microsoft.compute/virtualmachinescalesets/virtualmachines")
_ML = "microsoft.machinelearningservices/workspaces"
QUESTIONS = (
    Question(
        "machines",
        MACHINES,
        (
            "Percentage CPU",
            "Network In Total",
            "Network Out Total",
            "OS Disk Bandwidth Consumed Percentage",
            "OS Disk IOPS Consumed Percentage",
            "OS Disk Queue Depth",
            "OS Disk Read Bytes/sec",
            "OS Disk Write Bytes/sec",
            "VM Cached Bandwidth Consumed Percentage",
            "VM Cached IOPS Consumed Percentage",
            "VM Uncached Bandwidth Consumed Percentage",
            "VM Uncached IOPS Consumed Percentage",
        ),
        ("Average", "Total"),
    ),
    Question(
        "data-disks",
        MACHINES,
        (
            "Data Disk Bandwidth Consumed Percentage",
            "Data Disk IOPS Consumed Percentage",
            "Data Disk Queue Depth",
            "Data Disk Read Bytes/sec",
            "Data Disk Write Bytes/sec",
        ),
        ("Average",),
        ("LUN",),
    ),
    Question(
        "nat",
        ("microsoft.network/natgateways",),
        ("ByteCount", "TotalConnectionCount", "SNATConnectionCount"),
        ("Average", "Total"),
    ),
    Question(
        "netapp",
        ("microsoft.netapp/netappaccounts/capacitypools/volumes",),
        ("ReadThroughput", "WriteThroughput", "ThroughputLimitReached"),
        ("Average",),
    ),
    Question(
        "lustre",
        ("microsoft.storagecache/amlfilesystems",),
        ("ClientReadThroughput", "ClientWriteThroughput"),
        ("Average",),
    ),
    Question("storage", ("microsoft.storage/storageaccounts",), ("UsedCapacity", "Egress"), ("Average", "Total")),
    Question(
        "ml-gpus",
        (_ML,),
        ("GpuUtilizationPercentage", "GpuMemoryUtilizationPercentage"),
        ("Average",),
        ("ComputeName", "InstanceId", "DeviceId"),
    ),
    Question("ml-endpoints", (f"{_ML}/onlineendpoints",), ("RequestsPerMinute",), ("Average",), ("deployment",)),
    Question(
        "ml-deployments",
        (f"{_ML}/onlineendpoints/deployments",),
        ("CpuUtilizationPercentage", "GpuUtilizationPercentage", "GpuMemoryUtilizationPercentage"),
        ("Average",),
        ("instanceId",),
    ),
)


@dataclass(frozen=True)
class _Batch:
    """One call: resources of one subscription, region and type, and the hours wanted of them."""

    question: Question
    namespace: str
    subscription: str
    region: str
    ids: tuple[str, ...]
    start: datetime
    end: datetime

    @property
    def group(self) -> str:
        return f"{self.subscription}/{self.region}/{self.question.name}-{_short(self.namespace)}"

    @property
    def file(self) -> str:
        digest = sha256("\n".join(self.ids).encode()).hexdigest()[:12]
        return f"telemetry/{self.group}/{_stamp(self.start)}-{_stamp(self.end)}-{digest}.json.gz"


def collect(azure: Azure, found: Found, c: Collection) -> None:
    """Fetches what is missing up to the last full hour, and drops what lies wholly before the window."""
    _drop_old(c)
    groups: dict[tuple[Question, str, str, str], list[Thing]] = {}
    for question in QUESTIONS:
        for thing in found.of(*question.types):
            groups.setdefault((question, thing.type, thing.subscription, thing.region), []).append(thing)
    done: set[str] = set()
    batches = [batch for key, things in groups.items() for batch in _missing(key, things, c)]
    lock = threading.Lock()

    def run(batch: _Batch) -> None:
        _fetch_or_split(azure, batch, c)
        with lock:
            done.add(batch.file)

    c.each((_task(batch, run) for batch in batches), explain)
    unfinished = {batch.group for batch in batches if batch.file not in done}
    for key, things in groups.items():
        group = _group(key)
        if group not in unfinished:
            c.folder.set_mark(
                f"metrics {group}", {"until": c.end.isoformat(), "ids": sorted(_digest(thing.id) for thing in things)}
            )


def _task(batch: _Batch, run: Callable[[_Batch], None]) -> Task:
    return Task(
        "telemetry",
        "monitor:metrics.getBatch",
        f"{batch.question.name} metrics of {len(batch.ids)} resources from {batch.start:%Y-%m-%d}",
        partial(run, batch),
        batch.subscription,
        batch.region,
    )


def _group(key: tuple[Question, str, str, str]) -> str:
    question, namespace, subscription, region = key
    return f"{subscription}/{region}/{question.name}-{_short(namespace)}"


def _short(namespace: str) -> str:
    return namespace.partition("/")[2].replace("/", "-")


def _digest(identity: str) -> str:
    return sha256(identity.lower().encode()).hexdigest()[:12]


def _stamp(when: datetime) -> str:
    return f"{when:%Y%m%dT%H%M}"


def _missing(key: tuple[Question, str, str, str], things: list[Thing], c: Collection) -> Iterator[_Batch]:
    """Known resources from where the last collection ended, new ones from the window's start.

    The last hour is asked for again, because it may have been incomplete; of equal samples readers keep the later file's.
    """
    question, namespace, subscription, region = key
    mark = c.folder.mark(f"metrics {_group(key)}") or {"until": c.start.isoformat(), "ids": []}
    until, known = datetime.fromisoformat(mark["until"]), set(mark["ids"])
    ids = sorted(thing.id for thing in things)
    seen = [one for one in ids if _digest(one) in known]
    for some, start in ((seen, max(c.start, until - _HOUR)), ([one for one in ids if one not in set(seen)], c.start)):
        if some is seen and until >= c.end:
            continue
        for at in range(0, len(some), _BATCH):
            for first, last in _windows(start, c.end):
                yield _Batch(question, namespace, subscription, region, tuple(some[at : at + _BATCH]), first, last)


def _windows(start: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    while start < end:
        last = min(start + _WINDOW, end)
        yield start, last
        start = last


def _fetch_or_split(azure: Azure, batch: _Batch, c: Collection) -> None:
    """One call, or two of half the resources where Azure finds that the answer would be too large or take too long."""
    try:
        _fetch(azure, batch, c)
    except CallFailed as error:
        if getattr(error.error, "status_code", None) not in _TOO_MUCH or len(batch.ids) == 1:
            raise
        half = len(batch.ids) // 2
        for ids in (batch.ids[:half], batch.ids[half:]):
            _fetch_or_split(azure, replace(batch, ids=ids), c)


def _fetch(azure: Azure, batch: _Batch, c: Collection) -> None:
    if batch.file in c.folder.entries:  # put down before a collection was broken off
        return
    for attempt in range(1, _TRIES + 1):
        try:
            count = _ask(azure, batch, c)
            break
        except CallFailed as error:
            if attempt == _TRIES or not isinstance(error.error, IncompleteReadError | ServiceResponseError):
                raise
            time.sleep(attempt)
    if batch.question.dimensions and count.largest >= _TOP:
        c.folder.problem(
            Problem(
                "telemetry",
                "monitor:metrics.getBatch",
                f"an answer holds {_TOP:,} series of one resource, the most that was asked for",
                f"some {batch.question.name} metrics",
                "report it",
                batch.subscription,
                batch.region,
            )
        )


class _Count:
    """Counts series metric by metric in an answer that passes by; an answer of 50 machines is too large to be parsed."""

    _KEYS = re.compile(rb'"(timeseries|metadatavalues|error)"\s*:', re.IGNORECASE)
    _TAIL = 32

    def __init__(self) -> None:
        self._rest = b""
        self._now = 0
        self.largest = 0
        self.last = b""

    def see(self, block: bytes) -> None:
        text = self._rest + block
        end = 0
        for found in self._KEYS.finditer(text):
            end = found.end()
            self._now = 0 if found[1].lower() == b"timeseries" else self._now + 1
            self.largest = max(self.largest, self._now)
        self._rest = text[max(end, len(text) - self._TAIL) :]
        self.last = (self.last + block)[-self._TAIL :]


def _ask(azure: Azure, batch: _Batch, c: Collection) -> _Count:
    """One call, written as it comes: an answer of 50 machines and a month may have 50 MB."""
    count, where = _Count(), f"/subscriptions/{batch.subscription}"

    def take(_: Any, blocks: Iterator[bytes], __: Any) -> dict[str, Any]:
        c.folder.write(
            batch.file, _packed(blocks, count, azure, where), kind="telemetry", now=c.now, account_id=batch.subscription,
            region=batch.region, period=f"{batch.start.isoformat()}/{batch.end.isoformat()}",
        )  # fmt: skip
        return {"values": []}  # what the client itself would make of it is not needed

    question = batch.question
    with azure.asking("monitor:metrics.getBatch", where, money=_PRICE):
        azure.metrics(batch.region).query_resources(
            resource_ids=batch.ids,
            metric_namespace=batch.namespace,
            metric_names=question.metrics,
            timespan=(batch.start, batch.end),
            granularity=_HOUR,
            aggregations=question.aggregations,
            filter=question.filter,
            max_results=_TOP if question.dimensions else None,
            stream=True,
            cls=take,
        )
    return count


def _packed(blocks: Iterable[bytes], count: _Count, azure: Azure, where: str) -> Iterator[bytes]:
    """The answer as gzip. Raises SourceError where it ends before its last brace."""
    packer = zlib.compressobj(3, wbits=31)
    with azure.asking("monitor:metrics.getBatch", where, calls=0):  # what breaks here would pass for a full disk
        for block in blocks:
            azure.came("monitor:metrics.getBatch", len(block))
            count.see(block)
            yield packer.compress(block)
    if not count.last.rstrip().endswith(b"}"):
        raise SourceError("the answer broke off in its middle")
    yield packer.flush()


def _drop_old(c: Collection) -> None:
    c.folder.drop(
        name
        for name, entry in c.folder.entries.items()
        if entry.kind == "telemetry"
        and entry.period
        and datetime.fromisoformat(entry.period.partition("/")[2]) <= c.start
    )
