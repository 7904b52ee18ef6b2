"""Metrics of a Prometheus, or whatever speaks its API: the answers of `query_range`, as they come.

Files lie at telemetry/METRIC/START_END.json.gz, END excluded. What they cover is what has been fetched: a file is whole
or not there, so a collection that was killed goes on where it stopped.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

from urllib3.exceptions import HTTPError

from auditor import exporters
from auditor.checks import Check
from auditor.collect.prometheus.answers import Answer, CutOff
from auditor.collect.prometheus.client import Client, Refused, TooMuch, explain
from auditor.collect.prometheus.windows import Window, merged, missing
from auditor.collect.work import Collection, Refusal, Task
from auditor.errors import AuditorError
from auditor.journal import Problem
from auditor.settings import PrometheusSource

log = logging.getLogger(__name__)

_MOST_POINTS = 11_000  # of one series in one answer: the limit that Prometheus itself documents
_MOST_SAMPLES = 10_000_000  # of one answer, some 200 MB of text; Prometheus refuses above 50 million by default
_SETTLING = timedelta(minutes=5)  # managed services show a sample up to four minutes late
_BLOCK = 64 * 1024
_ATTEMPTS = 2  # for an answer that breaks off on its way; then a shorter one is asked for
_NOT_THIS_QUERY = (400, 422, 501)  # products differ in what they take as a pattern for a metric's name
_ASKED = "asked"
_NAME = re.compile(r"telemetry/([^/]+)/(\d{8}T\d{6}Z)_(\d{8}T\d{6}Z)\.json\.gz")
_STAMP = "%Y%m%dT%H%M%SZ"

# Amazon and Azure: $0.10 per 10^9 samples processed (aws.amazon.com/prometheus/pricing, azure.microsoft.com/pricing/
# details/monitor). Processed are all samples stored, so that a scrape every 15 seconds is the dearest usual case.
_PER_SAMPLE = Decimal("0.10") / 10**9
_SCRAPE_SECONDS = 15
# Google: $0.50 per 10^6 time series returned (cloud.google.com/products/observability/pricing).
_PER_SERIES = Decimal("0.50") / 10**6
_SERIES_IF_UNKNOWN = 10_000

_GPU = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "nvidia_smi_utilization_gpu_ratio",
    "neuroncore_utilization_ratio",
)
_HIDES = {
    "DCGM": "what accelerators did",
    "nvid": "what accelerators did",
    "neur": "what accelerators did",
    "kube": "which machines the nodes of Kubernetes are",
}


def collect(source: PrometheusSource, collection: Collection) -> None:
    """Fetches what is missing of each metric between `collection.start` and `end`, the newest first."""
    work = _Work(source, collection, Client(source, collection.limits.parallel))
    work.forget_other_questions()
    work.drop_old()
    wanted = [metric for metric in exporters.metrics() if work.gaps(metric)]
    if not wanted:
        return
    sizes: dict[str, int] = {}
    # Also the probe: a server that cannot be reached or forbids everything is one problem, not one a metric.
    first = Task("telemetry", "query", "what accelerators and machines did", lambda: sizes.update(work.sizes()))
    if not collection.attempt(first, partial(explain, source)):
        return
    collection.each(
        (
            Task(
                "telemetry",
                f"query_range {metric}",
                f"{_HIDES.get(metric[:4], 'what machines did')} ({metric})",
                partial(work.fetch, metric, sizes.get(metric, 0 if sizes else None)),
            )
            for metric in wanted
        ),
        partial(explain, source),
    )


def selector(source: PrometheusSource, metric: str) -> str:
    """The series of a metric that are read, narrowed down as configured."""
    return f"{metric}{{{','.join([*source.match, *exporters.matchers(metric)])}}}"


@dataclass(frozen=True)
class _Work:
    source: PrometheusSource
    collection: Collection
    client: Client

    @property
    def _span(self) -> Window:
        step = self.source.step_seconds
        end = min(self.collection.end, self.collection.now - _SETTLING)
        return int(self.collection.start.timestamp()) // step * step, int(end.timestamp()) // step * step

    def forget_other_questions(self) -> None:
        """Drops what another configuration fetched: it may be of other machines."""
        folder = self.collection.folder
        asked = {"url": self.source.url, "match": self.source.match}
        if folder.mark(_ASKED) not in (None, asked):
            log.info("another Prometheus, or other matchers: fetched anew source=%s", self.source.name)
            folder.drop([name for name in folder.entries if _NAME.fullmatch(name)])
            for metric in exporters.metrics():
                folder.set_mark(f"empty {metric}", [])
        folder.set_mark(_ASKED, asked)

    def drop_old(self) -> None:
        """Drops files of which nothing lies in the time that is audited."""
        old = [name for metric in exporters.metrics() for name, (_, end) in self._files(metric) if end <= self._span[0]]
        self.collection.folder.drop(old)

    def _files(self, metric: str) -> list[tuple[str, Window]]:
        found = ((name, _NAME.fullmatch(name)) for name in self.collection.folder.entries)
        return [
            (name, (_seconds(match[2]), _seconds(match[3]))) for name, match in found if match and match[1] == metric
        ]

    def gaps(self, metric: str) -> list[Window]:
        """What of the audited time has not been fetched, or not completely."""
        partial_ones = self._partial(metric)
        have = [window for name, window in self._files(metric) if name not in partial_ones]
        have += [(start, end) for start, end in self.collection.folder.mark(f"empty {metric}") or ()]
        return missing(have, *self._span, self.source.step_seconds)

    def _partial(self, metric: str) -> list[str]:
        """Names of the answers that lacked something: they are asked for again."""
        return list(self.collection.folder.mark(f"partial {metric}") or ())

    def sizes(self) -> dict[str, int]:
        """How many series each metric has now; nothing where the server does not tell."""
        names = "|".join(exporters.metrics())
        wanted = ",".join([f'__name__=~"{names}"', *self.source.match])
        expression = f"count by (__name__) ({{{wanted}}})"
        self.collection.budget.spend("prometheus:query")
        try:
            found = self.client.query(expression, self._span[1])
        except (Refused, TooMuch) as error:
            if isinstance(error, Refused) and error.status not in _NOT_THIS_QUERY:
                raise
            # the windows then find their size by themselves
            log.info("the number of series is not known source=%s reason=%s", self.source.name, error)
            return {}
        return {each["metric"]["__name__"]: int(each["value"][1]) for each in found}

    def fetch(self, metric: str, series: int | None) -> None:
        """Fetches the gaps of a metric in as few answers as the server gives."""
        step = self.source.step_seconds
        most = max(1, min(_MOST_POINTS, _MOST_SAMPLES // max(1, series or 1)))
        for first, last in reversed(self.gaps(metric)):
            end = last
            while end > first:
                start = max(first, end - most * step)
                try:
                    self._fetch_window(metric, start, end, series)
                except TooMuch:
                    points = (end - start) // step
                    if points == 1:
                        raise
                    most = points // 2
                    log.info("halved metric=%s points=%d", metric, most)
                else:
                    end = start

    def _fetch_window(self, metric: str, start: int, end: int, series: int | None) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._take(metric, start, end, series)
            except (HTTPError, CutOff) as error:
                log.info("answer broke off metric=%s attempt=%d reason=%s", metric, attempt, error)
                if attempt == _ATTEMPTS:
                    raise TooMuch(f"it breaks off on its way ({error})") from error
            else:
                return

    def _take(self, metric: str, start: int, end: int, series: int | None) -> None:
        collection, step = self.collection, self.source.step_seconds
        collection.budget.spend("prometheus:query_range", money=self._price(start, end, series))
        name = f"telemetry/{metric}/{_stamp(start)}_{_stamp(end)}.json.gz"
        question = {
            "query": selector(self.source, metric),
            "start": str(start),
            "end": str(end - step),
            "step": str(step),
        }
        with self.client.range(question) as response:
            answer = Answer(response.headers.get("Content-Encoding"))
            body = response.raw.stream(_BLOCK, decode_content=False)
            collection.folder.write(name, self._noted(metric, name, answer, body), kind="telemetry", now=collection.now)
        self._settle(metric, name, (start, end), answer)

    def _noted(self, metric: str, name: str, answer: Answer, body: Iterator[bytes]) -> Iterator[bytes]:
        yield from answer.blocks(self._counted(body))
        # before the file is put down: a kill must not make a whole answer of a partial one
        others = [other for other in self._partial(metric) if other != name]
        self.collection.folder.set_mark(f"partial {metric}", [*others, name] if answer.remarks else others)

    def _counted(self, body: Iterator[bytes]) -> Iterator[bytes]:
        for block in body:
            self.collection.budget.spend("prometheus:query_range", calls=0, bytes_=len(block))
            self.collection.progress.advance(len(block))
            yield block

    def _settle(self, metric: str, name: str, window: Window, answer: Answer) -> None:
        """Remembers an answer for what it is, and drops partial ones that it replaces."""
        folder = self.collection.folder
        for remark in answer.remarks:
            folder.problem(
                Problem(
                    "telemetry",
                    f"query_range {metric}",
                    f"the answer is partial: {remark}",
                    f"some samples of {metric}",
                    "the next collection asks again",
                )
            )
        if answer.remarks:
            return
        if answer.is_empty:
            folder.drop([name])
            empty = [*((start, end) for start, end in folder.mark(f"empty {metric}") or ()), window]
            folder.set_mark(f"empty {metric}", [each for each in merged(empty) if each[1] > self._span[0]])
        windows = dict(self._files(metric))
        known = [(other, windows[other]) for other in self._partial(metric) if other in windows]
        replaced = [other for other, (start, end) in known if window[0] <= start and end <= window[1]]
        folder.drop(replaced)
        folder.set_mark(f"partial {metric}", [other for other, _ in known if other not in replaced])

    def _price(self, start: int, end: int, series: int | None) -> Decimal:
        """What an answer costs at a managed service at most; 0 at one's own."""
        count = _SERIES_IF_UNKNOWN if series is None else series
        if self.source.auth in ("sigv4", "azure"):
            return count * ((end - start) // _SCRAPE_SECONDS) * _PER_SAMPLE
        return count * _PER_SERIES if self.source.auth == "google" else Decimal(0)


def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_STAMP)


def _seconds(stamp: str) -> int:
    return int(datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp())


def check(source: PrometheusSource) -> Iterator[Check]:
    """Reachable, permitted, are accelerators measured, how old is the newest sample, how far back do samples go."""
    subject = f"source {source.name}"
    now = datetime.now(UTC)
    try:
        client = Client(source, retries=1, backoff_seconds=0.2)
        yield from _looked(client, source, subject, int(now.timestamp()))
    except Exception as error:  # whatever an SDK raises is an answer here
        refusal = explain(source, error) or Refusal(f"{type(error).__name__}: {error}")
        yield Check("bad", subject, str(error) if isinstance(error, AuditorError) else refusal.reason, refusal.fix)


def _looked(client: Client, source: PrometheusSource, subject: str, now: int) -> Iterator[Check]:
    client.query("vector(1)", now)
    yield Check("ok", subject, f"{source.url} answers")
    flowing = [metric for metric in _GPU if client.query(f"count({selector(source, metric)})", now)]
    if not flowing:
        ever = [metric for metric in _GPU if client.query(f"count(max_over_time({selector(source, metric)}[1d]))", now)]
        said = f"{ever[0]} was last sampled within a day, but not in the last minutes" if ever else "none for a day"
        yield Check(
            "bad",
            f"{subject}: accelerator metrics",
            said,
            "run dcgm-exporter on every GPU node and let this Prometheus scrape it; `match` must not leave it out",
        )
        return
    metric = flowing[0]
    age = client.query(f"time() - max(timestamp({selector(source, metric)}))", now)
    devices = client.query(f"count({selector(source, metric)})", now)
    yield Check(
        "ok",
        f"{subject}: accelerator metrics",
        f"{metric} of {float(devices[0]['value'][1]):,.0f} devices, the newest {float(age[0]['value'][1]):,.0f} s old",
    )
    if not client.query(f"count({selector(source, metric)} offset 30d)", now):
        yield Check(
            "warn",
            f"{subject}: history",
            f"there is no {metric} of 30 days ago",
            "keep samples longer (--storage.tsdb.retention.time=60d), or let `auditor serve` collect daily meanwhile",
        )
    if not client.query(f"count({selector(source, exporters.NODES)})", now):
        yield Check(
            "warn",
            f"{subject}: machines",
            "there is no kube_node_info: nodes of Kubernetes are matched with the bill by their names only",
            "run kube-state-metrics, or give the scrape job a label provider_id or instance_id",
        )
