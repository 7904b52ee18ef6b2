"""Google's REST APIs on this machine: they answer the real clients in the vendor's own forms, from data that a test gives.

Of every request the host meant and the path are kept. A test may put answers in the way: a refusal, a cut, a delay.
"""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]


@dataclass
class Request:
    host: str
    method: str
    path: str
    query: dict[str, list[str]]
    body: Json

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]


@dataclass
class Answer:
    """What the server says instead, once or always: `cut` bytes short, or late."""

    status: int = 200
    body: Json = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    delay: float = 0.0


def error(status: int, reason: str, message: str = "no", **about: str) -> Json:
    """An error in the form of the newer APIs, which the older ones' form is part of."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "metadata": about}]
    return {
        "error": {
            "code": status,
            "message": message,
            "status": reason,
            "errors": [{"reason": reason, "message": message}],
            "details": details if about else [],
        }
    }


@dataclass
class BigTable:
    """A table: rows by partition with the time of each one's last change, or the rows of a view."""

    schema: list[Json]
    partitions: dict[str, list[Json]] = field(default_factory=dict)
    modified: dict[str, int] = field(default_factory=dict)
    kind: str = "TABLE"
    bytes: int = 0
    beneath: list[str] = field(default_factory=list)

    def add(self, partition: str, rows: Sequence[Json], at: int) -> None:
        self.partitions.setdefault(partition, []).extend(rows)
        self.modified[partition] = at


def cell(schema: Json, value: Any) -> Any:
    """A value as the API writes it: everything as text, records as `f` and `v`."""
    if value is None:
        return [] if schema.get("mode") == "REPEATED" else None
    if schema.get("mode") == "REPEATED":
        return [{"v": cell({**schema, "mode": "NULLABLE"}, one)} for one in value]
    if schema["type"] == "RECORD":
        return {"f": [{"v": cell(one, value.get(one["name"]))} for one in schema["fields"]]}
    if schema["type"] == "TIMESTAMP":
        when = datetime.fromisoformat(value.replace(" UTC", "+00:00").replace("Z", "+00:00"))
        return str(int((when - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)))
    return str(value).lower() if isinstance(value, bool) else str(value)


class FakeGoogle:
    """The data, and the routes to it."""

    def __init__(self) -> None:
        self.tables: dict[str, BigTable] = {}
        self.page_rows = 2
        self.page_items = 2
        self.compute: dict[tuple[str, str], list[Json]] = defaultdict(list)  # (project, collection) -> resources
        self.warnings: dict[str, Json] = {}  # collection -> further scopes of its aggregated list
        self.lists: dict[str, Json] = {}  # host and path -> answer
        self.series: dict[tuple[str, str], list[Json]] = defaultdict(list)  # (project, metric) -> series of raw points
        self.units: dict[str, str] = {}
        self.requests: list[Request] = []
        self.in_the_way: list[tuple[Callable[[Request], bool], list[Answer]]] = []
        self.jobs: dict[str, str] = {}
        self._aligned: dict[tuple[str, ...], list[Json]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "FakeGoogle":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def say(self, where: str, *answers: Answer) -> None:
        """Answers these to the next requests whose host and path match; the last one stays where it is an error 4xx."""
        pattern = re.compile(where)
        self.in_the_way.append((lambda request: bool(pattern.search(request.host + request.path)), list(answers)))

    def asked(self, where: str = "") -> list[Request]:
        return [one for one in self.requests if re.search(where, one.host + one.path)]

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            for matches, answers in self.in_the_way:
                if answers and matches(request):
                    first = answers[0]
                    if not 400 <= first.status < 429:
                        answers.pop(0)
                    if first.status >= 400:
                        return first
                    told = self._route(request)
                    return Answer(told.status, told.body, told.headers, first.cut, first.delay)
            return self._route(request)

    def _route(self, request: Request) -> Answer:
        for pattern, route in _ROUTES:
            found = pattern.fullmatch(request.host + request.path) or pattern.fullmatch("*" + request.path)
            if found:
                return route(self, request, **found.groupdict())
        listed = self.lists.get(request.host + request.path)
        if listed is None:
            return Answer(200, {})
        if isinstance(listed, dict) and "pages" in listed:
            page = int(request.one("pageToken", "0"))
            more = {"nextPageToken": str(page + 1)} if page + 1 < len(listed["pages"]) else {}
            return Answer(200, listed["pages"][page] | more)
        return Answer(200, listed)

    def _tables(self, request: Request, dataset: str) -> Answer:
        names = sorted(self.tables)
        at = int(request.one("pageToken", "0"))
        part = names[at : at + self.page_items]
        reference = [
            {"tableReference": {"projectId": "acme-billing", "datasetId": dataset, "tableId": one}} for one in part
        ]
        more = {"nextPageToken": str(at + self.page_items)} if at + self.page_items < len(names) else {}
        return Answer(200, {"kind": "bigquery#tableList", "tables": reference, **more})

    def _table(self, request: Request, project: str, dataset: str, table: str) -> Answer:
        found = self.tables.get(table)
        if found is None:
            return Answer(404, error(404, "notFound", f"Not found: Table {table}"))
        newest = max(found.modified.values(), default=1)
        return Answer(
            200,
            {
                "kind": "bigquery#table",
                "id": f"{project}:{dataset}.{table}",
                "etag": f"e{newest}",
                "type": found.kind,
                "tableReference": {"projectId": project, "datasetId": dataset, "tableId": table},
                "schema": {"fields": found.schema},
                "lastModifiedTime": str(newest),
                **({"timePartitioning": {"type": "DAY"}} if found.kind == "TABLE" else {"view": {"query": "select 1"}}),
            },
        )

    def _rows(self, request: Request, table: str) -> Answer:
        name, _, part = table.partition("$")
        found = self.tables[name]
        if part == "__PARTITIONS_SUMMARY__":
            rows = [{"f": [{"v": one}, {"v": str(found.modified[one])}]} for one in sorted(found.partitions)]
        else:
            wanted = found.partitions[part] if part else [row for rows in found.partitions.values() for row in rows]
            rows = [cell({"type": "RECORD", "fields": found.schema}, row) for row in wanted]
        return self._page(request, rows)

    def _page(self, request: Request, rows: list[Json], **more: Any) -> Answer:
        at = int(request.one("pageToken", "0"))
        size = len(rows) if "PARTITIONS" in request.path else self.page_rows
        token = {"pageToken": str(at + size)} if at + size < len(rows) else {}
        return Answer(200, {"totalRows": str(len(rows)), "rows": rows[at : at + size], **token, **more})

    def _insert_job(self, request: Request, project: str) -> Answer:
        configuration = request.body["configuration"]
        sql = configuration["query"]["query"]
        view = self.tables[re.search(r"`[^`]*\.([^`.]+)`", sql)[1]]  # type: ignore[index]
        identity = request.body["jobReference"]["jobId"]
        beneath = [{"projectId": "acme-billing", "datasetId": "billing", "tableId": one} for one in view.beneath]
        statistics = {
            "totalBytesProcessed": str(view.bytes),
            "query": {"referencedTables": beneath, "totalBytesProcessed": str(view.bytes)},
        }
        most = int(configuration["query"].get("maximumBytesBilled", view.bytes))
        if most < view.bytes:
            return Answer(400, error(400, "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed"))
        if not configuration.get("dryRun"):
            self.jobs[identity] = sql
        return Answer(
            200,
            {
                "kind": "bigquery#job",
                "jobReference": {"projectId": project, "jobId": identity, "location": "US"},
                "configuration": configuration,
                "status": {"state": "DONE"},
                "statistics": statistics,
            },
        )

    def _results(self, request: Request, project: str, job: str) -> Answer:
        sql = self.jobs[job]
        view = self.tables[re.search(r"`[^`]*\.([^`.]+)`", sql)[1]]  # type: ignore[index]
        since = re.search(r"'(\d{4}-?\d{2})", sql)[1].replace("-", "")  # type: ignore[index]
        rows = [row for rows in view.partitions.values() for row in rows]
        wanted = [row for row in rows if _month(row) >= since]
        encoded = [cell({"type": "RECORD", "fields": view.schema}, row) for row in wanted]
        return self._page(
            request,
            encoded,
            jobComplete=True,
            schema={"fields": view.schema},
            jobReference={"projectId": project, "jobId": job, "location": "US"},
        )

    def _aggregated(self, request: Request, project: str, collection: str) -> Answer:
        everything = self.compute[(project, collection)]
        at = int(request.one("pageToken", "0"))
        items: dict[str, Json] = {"zones/us-west1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        for one in everything[at : at + self.page_items]:
            place = re.search(r"projects/[^/]+/((?:zones|regions)/[^/]+|global)", one["selfLink"])[1]  # type: ignore[index]
            items.setdefault(place, {}).setdefault(collection, []).append(one)
        more: Json = {"nextPageToken": str(at + self.page_items)} if at + self.page_items < len(everything) else {}
        extra = self.warnings.get(collection, {})
        return Answer(200, {"kind": "compute#list", "items": items | extra.get("items", {}), **more,
                            **{key: value for key, value in extra.items() if key != "items"}})  # fmt: skip

    def _compute_list(self, request: Request, project: str, collection: str) -> Answer:
        return Answer(200, {"kind": "compute#list", "items": self.compute[(project, collection)]})

    def _time_series(self, request: Request, project: str) -> Answer:
        metric = re.search(r'metric\.type = "([^"]+)"', request.one("filter"))[1]  # type: ignore[index]
        if (project, metric) not in self.series:
            return Answer(404, error(404, "NOT_FOUND", f"Cannot find metric(s) that match type = {metric}"))
        key = (project, metric, request.one("interval.startTime"), request.one("interval.endTime"))
        if key not in self._aligned:
            aligned = [_aligned(one, request) for one in self.series[(project, metric)]]
            self._aligned = {key: [one for one in aligned if one["points"]]}  # the pages of a query come one by one
        return self._page_of_points(self._aligned[key], request, self.units.get(metric))

    def _page_of_points(self, series: list[Json], request: Request, unit: str | None) -> Answer:
        at, size = int(request.one("pageToken", "0")), int(request.one("pageSize"))
        page: list[Json] = []
        seen = 0
        for one in series:
            first, last = max(0, at - seen), min(len(one["points"]), at + size - seen)
            if first < last:
                page.append({**one, "points": one["points"][first:last]})
            seen += len(one["points"])
        more = {"nextPageToken": str(at + size)} if at + size < seen else {}
        return Answer(200, {"timeSeries": page, **({"unit": unit} if unit else {}), **more} if page else {})


def _month(row: Json) -> str:
    return str(row["invoice"]["month"]) if "invoice" in row else str(row["BillingPeriodStart"])[:7].replace("-", "")


def _aligned(series: Json, request: Request) -> Json:
    """The series with one point an hour, whose end is a whole number of hours before the query's end."""
    start = datetime.fromisoformat(request.one("interval.startTime"))
    end = datetime.fromisoformat(request.one("interval.endTime"))
    is_sum = request.one("aggregation.perSeriesAligner") == "ALIGN_DELTA"
    hours: dict[int, list[float]] = defaultdict(list)
    for when, value in series["raw"]:
        if start < when <= end:  # a point at the beginning belongs to what was before
            hours[int((end - when) / timedelta(hours=1))].append(value)
    points = []
    for back, values in sorted(hours.items()):  # the newest first
        last = end - timedelta(hours=back)
        begin = last - timedelta(hours=1) if is_sum else last
        value = sum(values) if is_sum else sum(values) / len(values)
        interval = {"startTime": f"{begin:%Y-%m-%dT%H:%M:%SZ}", "endTime": f"{last:%Y-%m-%dT%H:%M:%SZ}"}
        points.append({"interval": interval, "value": {"doubleValue": value}})
    about = {key: value for key, value in series.items() if key != "raw"}
    return about | {"metricKind": "DELTA" if is_sum else "GAUGE", "valueType": "DOUBLE", "points": points}


_BQ = r"[^/]*/bigquery/v2/projects"
_ROUTES: tuple[tuple[re.Pattern[str], Callable[..., Answer]], ...] = (
    (re.compile(rf"{_BQ}/[^/]+/datasets/(?P<dataset>[^/]+)/tables"), FakeGoogle._tables),
    (re.compile(rf"{_BQ}/(?P<project>[^/]+)/datasets/(?P<dataset>[^/]+)/tables/(?P<table>[^/]+)"), FakeGoogle._table),
    (re.compile(rf"{_BQ}/[^/]+/datasets/[^/]+/tables/(?P<table>[^/]+)/data"), FakeGoogle._rows),
    (re.compile(rf"{_BQ}/(?P<project>[^/]+)/jobs"), FakeGoogle._insert_job),
    (re.compile(rf"{_BQ}/(?P<project>[^/]+)/queries/(?P<job>[^/]+)"), FakeGoogle._results),
    (
        re.compile(r"compute\.googleapis\.com/compute/v1/projects/(?P<project>[^/]+)/aggregated/(?P<collection>\w+)"),
        FakeGoogle._aggregated,
    ),
    (
        re.compile(r"compute\.googleapis\.com/compute/v1/projects/(?P<project>[^/]+)/global/(?P<collection>\w+)"),
        FakeGoogle._compute_list,
    ),
    (re.compile(r"monitoring\.googleapis\.com/v3/projects/(?P<project>[^/]+)/timeSeries"), FakeGoogle._time_series),
)


def _handler(fake: FakeGoogle) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self._serve("POST")

        def _serve(self, method: str) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            host = str(self.headers.get("Host")).partition(":")[0]
            answer = fake.answer(Request(host, method, unquote(parts.path), parse_qs(parts.query), body))
            sleep(answer.delay)
            data = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) - answer.cut])
            if answer.cut:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler
