"""Cloud Monitoring: the hourly figures of accelerators, machines, disks, NAT gateways, file stores and buckets.

A wider window costs no more than a narrow one (the price is by the series returned), so that the first collection asks
for all of it at once, and later ones for what came since. A day's part is asked for again until the day is over.
"""

import gzip
import re
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import IO, Any

from auditor.collect.gcp.rest import Google, Params, Refused
from auditor.collect.work import Collection, Task

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_LATE = timedelta(minutes=10)  # agents' figures are visible some four minutes after their time, at the latest
_POINTS_A_PAGE = 100_000  # the most that the API gives
# 0.50 USD for a million series returned, beyond the first million a month of a billing account, which may be used up;
# https://cloud.google.com/stackdriver/pricing
_PRICE_OF_A_SERIES = Decimal("0.0000005")
# A page is 20 MB: it is not parsed, which would take ten times as much. A quote in a string is escaped, a key's is not.
_TOKEN = re.compile(rb'(?<!\\)"nextPageToken"\s*:\s*"((?:[^"\\]|\\.)*)"')
_SERIES = re.compile(rb'(?<!\\)"metricKind"\s*:')

_NODE_OF_CONTAINER = (
    "metric.label.accelerator_id",
    "metric.label.make",
    "metric.label.model",
    "resource.label.project_id",
    "resource.label.location",
    "resource.label.cluster_name",
    "resource.label.namespace_name",
    "resource.label.pod_name",
    "resource.label.container_name",
    # the machine is told only where it is asked for by name
    "metadata.system_labels.node_name",
)


@dataclass(frozen=True)
class Metric:
    """One metric type: how its points of an hour become one, and its series fewer where there are too many."""

    type: str
    is_sum: bool = False
    where: str = ""
    reducer: str = ""
    keep: tuple[str, ...] = ()

    def params(self, start: datetime, end: datetime) -> dict[str, str | int | list[str]]:
        """The query for the hours of a window.

        An aligned point bears the end of its hour; that of a mean, which has no beginning, would count for the hour
        after. Hours that end a second early keep it in its own. Sums bear their beginning as well, and need none of that.
        """
        early = timedelta(0) if self.is_sum else timedelta(seconds=1)
        asked: dict[str, str | int | list[str]] = {
            "filter": f'metric.type = "{self.type}"' + (f" AND {self.where}" if self.where else ""),
            "interval.startTime": _text(start - early),
            "interval.endTime": _text(end - early),
            "aggregation.alignmentPeriod": "3600s",
            "aggregation.perSeriesAligner": "ALIGN_DELTA" if self.is_sum else "ALIGN_MEAN",
            "pageSize": _POINTS_A_PAGE,
        }
        if self.reducer:
            asked["aggregation.crossSeriesReducer"] = self.reducer
            asked["aggregation.groupByFields"] = list(self.keep)
        return asked


def _sums(*types: str) -> tuple[Metric, ...]:
    return tuple(Metric(one, is_sum=True) for one in types)


def _means(*types: str) -> tuple[Metric, ...]:
    return tuple(Metric(one) for one in types)


_GKE = tuple(
    Metric(f"kubernetes.io/container/accelerator/{name}", reducer="REDUCE_MEAN", keep=_NODE_OF_CONTAINER)
    for name in ("duty_cycle", "memory_used", "memory_total")
)
# One file a family, so that a small project has few files and a large one is fetched by several at once; what is refused
# of a family hides all of it, so that what differs in kind stands apart.
FAMILIES: dict[str, tuple[str, tuple[Metric, ...]]] = {
    "gpu": (
        "how busy GPUs are",
        _means("agent.googleapis.com/gpu/utilization", "agent.googleapis.com/gpu/memory/bytes_used"),
    ),
    "dcgm": (
        "how busy the parts of GPUs are",
        _means(
            "workload.googleapis.com/gpu.dcgm.utilization",
            "workload.googleapis.com/gpu.dcgm.sm.utilization",
            "workload.googleapis.com/gpu.dcgm.pipe.utilization",
            "workload.googleapis.com/gpu.dcgm.memory.bytes_used",
            "workload.googleapis.com/dcgm.gpu.profiling.sm_utilization",
            "workload.googleapis.com/dcgm.gpu.profiling.pipe_utilization",
        ),
    ),
    "accelerator": (
        "how busy TPUs and the accelerators of GKE nodes are",
        _means(
            "tpu.googleapis.com/accelerator/duty_cycle",
            "kubernetes.io/node/accelerator/duty_cycle",
            "kubernetes.io/node/accelerator/memory_used",
            "kubernetes.io/node/accelerator/memory_total",
        ),
    ),
    "containers": ("how busy the accelerators of GKE containers are", _GKE),
    "vertex": (
        "how busy Vertex AI is",
        (
            *_sums("aiplatform.googleapis.com/prediction/online/prediction_count"),
            *_means(
                "aiplatform.googleapis.com/prediction/online/accelerator/duty_cycle",
                "ml.googleapis.com/training/accelerator/utilization",
                "ml.googleapis.com/training/accelerator/memory/utilization",
            ),
        ),
    ),
    "compute": (
        "how busy processors and networks of machines are",
        (
            *_means("compute.googleapis.com/instance/cpu/utilization"),
            # a series for each of a machine's processors and states otherwise, hundreds of them
            Metric(
                "agent.googleapis.com/cpu/utilization",
                where='metric.labels.cpu_state = "wait"',
                reducer="REDUCE_MEAN",
                keep=(
                    "metric.label.cpu_state",
                    "resource.label.project_id",
                    "resource.label.instance_id",
                    "resource.label.zone",
                ),
            ),
            *_sums(
                "compute.googleapis.com/instance/network/received_bytes_count",
                "compute.googleapis.com/instance/network/sent_bytes_count",
            ),
        ),
    ),
    "disk": (
        "what disks read and write",
        (
            *_sums(
                "compute.googleapis.com/instance/disk/read_bytes_count",
                "compute.googleapis.com/instance/disk/write_bytes_count",
            ),
            *_means("compute.googleapis.com/instance/disk/average_io_queue_depth"),
        ),
    ),
    "network": (
        "what NAT gateways carry",
        (
            *_sums("router.googleapis.com/nat/sent_bytes_count", "router.googleapis.com/nat/received_bytes_count"),
            *_means("router.googleapis.com/nat/open_connections"),
        ),
    ),
    "storage": (
        "what file stores and buckets hold and serve",
        (
            *_sums(
                "file.googleapis.com/nfs/server/read_bytes_count", "file.googleapis.com/nfs/server/write_bytes_count"
            ),
            *_means("storage.googleapis.com/storage/v2/total_bytes"),
            # a series for each method and answer otherwise
            Metric(
                "storage.googleapis.com/network/sent_bytes_count",
                is_sum=True,
                reducer="REDUCE_SUM",
                keep=("resource.label.project_id", "resource.label.bucket_name", "resource.label.location"),
            ),
        ),
    ),
}
# The normaliser reads these too; they repeat what is fetched: each machine's part of NAT, and the older bucket size.
LEFT_OUT = (
    "compute.googleapis.com/nat/sent_bytes_count",
    "compute.googleapis.com/nat/received_bytes_count",
    "compute.googleapis.com/nat/open_connections",
    "storage.googleapis.com/storage/total_bytes",
)


def tasks(project: str, collection: Collection, google: Google) -> Iterator[Task]:
    """One task for each family of metrics and window that is not here yet."""
    end = min(collection.end, _hour(collection.now - _LATE))
    start = _hour(collection.start)
    for family, (hides, _) in FAMILIES.items():
        series = _Series(project, family, collection, google)
        series.drop_before(start)
        for first, last in series.missing(start, end):
            run = partial(series.fetch, first, last)
            yield Task("telemetry", "monitoring:projects.timeSeries.list", hides, run, project)


class _Series:
    """The files of one family of metrics in one project, each of one window."""

    def __init__(self, project: str, family: str, collection: Collection, google: Google) -> None:
        self._project, self._family = project, family
        self._collection, self._google = collection, google
        self._mark = f"telemetry/{project}/{family}"
        self._lock = threading.Lock()  # two gaps of one family may be fetched side by side

    def _name(self, start: datetime) -> str:
        return f"{self._mark}/{start:%Y%m%dT%H}Z.jsonl.gz"

    def _windows(self) -> dict[datetime, tuple[datetime, bool]]:
        """Start -> (end, whether there is a file) of the windows that lie here, or were found empty."""
        told: dict[str, Any] = self._collection.folder.mark(self._mark) or {}
        entries = self._collection.folder.entries
        windows = {}
        for text, (end, has_file) in told.items():
            start = datetime.fromisoformat(text)
            if not has_file or self._name(start) in entries:
                windows[start] = (datetime.fromisoformat(end), has_file)
        return windows

    def _remember(self, windows: dict[datetime, tuple[datetime, bool]]) -> None:
        told = {start.isoformat(): [end.isoformat(), has_file] for start, (end, has_file) in sorted(windows.items())}
        self._collection.folder.set_mark(self._mark, told)

    def drop_before(self, start: datetime) -> None:
        windows = self._windows()
        old = [first for first, (last, _) in windows.items() if last <= start]
        if not old:
            return
        self._collection.folder.drop({self._name(first) for first in old} & set(self._collection.folder.entries))
        self._remember({first: told for first, told in windows.items() if first not in old})

    def missing(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The gaps of start to end; a window shorter than a day that began today is asked for again up to now."""
        at = start
        for first, (last, _) in sorted(self._windows().items()):
            if last <= at:
                continue
            if first > at:
                yield at, min(first, end)
            is_part = last - first < _DAY and first >= end.replace(hour=0) and last < end
            at = first if is_part else last
        if at < end:
            yield at, end

    def fetch(self, start: datetime, end: datetime) -> None:
        with tempfile.TemporaryFile(dir=self._collection.spool) as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=5, mtime=0) as packer:
                has_any = False
                for metric in FAMILIES[self._family][1]:
                    for page in self._pages(metric, start, end):
                        has_any = True
                        packer.write(b" ".join(page.splitlines()) + b"\n")  # one answer a line
            if has_any:
                self._put(file, start)
            else:
                older = {self._name(start)} & set(self._collection.folder.entries)
                self._collection.folder.drop(older)
        with self._lock:
            windows = self._windows()
            windows[start] = (end, has_any)
            self._remember(windows)

    def _put(self, file: IO[bytes], start: datetime) -> None:
        file.seek(0)
        self._collection.folder.write(
            self._name(start),
            iter(partial(file.read, 1 << 20), b""),
            kind="telemetry",
            now=self._collection.now,
            account_id=self._project,
        )

    def _pages(self, metric: Metric, start: datetime, end: datetime) -> Iterator[bytes]:
        """The answers that hold series, as delivered."""
        asked = metric.params(start, end)
        while True:
            page = ask(self._google, self._project, asked)
            count = len(_SERIES.findall(page))
            if count:
                self._google.book("monitoring.projects.timeSeries.list", calls=0, money=count * _PRICE_OF_A_SERIES)
                self._collection.progress.advance(len(page))
                yield page
            token = _TOKEN.search(page)
            if not token or not token[1]:
                return
            asked["pageToken"] = token[1].decode()


def ask(google: Google, project: str, params: Params) -> bytes:
    """One page of series, as delivered; an empty one of a metric that nobody ever wrote in the project."""
    try:
        return google.ask("monitoring.projects.timeSeries.list", params, project=project)
    except Refused as error:
        if error.status == 404 and "metric" in error.message.lower():
            return b"{}"
        raise


def _hour(when: datetime) -> datetime:
    return when.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _text(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
