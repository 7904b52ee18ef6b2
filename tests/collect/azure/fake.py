"""A small Azure on this machine: the resource manager, metrics, Resource Graph and prices in their wire format.

What begins with the name of a storage account is handed on to Azurite. Faults are put before the answers, and every
request is remembered.
"""

import http.client
import http.server
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
Answer = tuple[int, Mapping[str, str], bytes]
Series = Callable[[str, str, datetime], list[tuple[dict[str, str], dict[str, float]]]]


def denied(message: str = "AuthorizationFailed") -> Answer:
    body = {"error": {"code": message, "message": "The client does not have authorization to perform action."}}
    return 403, {}, json.dumps(body).encode()


def throttled(**headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return 429, named, json.dumps({"error": {"code": "429", "message": "Too many requests."}}).encode()


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    body: Json
    authorization: str | None = None


@dataclass
class Cloud:
    """What exists there. `series` gives (dimensions, figures by aggregation) of a resource, a metric and an hour."""

    resources: list[Json] = field(default_factory=list)
    scale_set_machines: list[Json] = field(default_factory=list)
    subscriptions: list[str] = field(default_factory=list)
    documents: dict[str, Json] = field(default_factory=dict)  # path -> the resource manager's answer
    exports: dict[str, list[Json]] = field(default_factory=dict)  # scope -> exports
    costs: dict[str, list[list[Any]]] = field(default_factory=dict)  # scope -> rows of a query
    cost_columns: list[str] = field(default_factory=lambda: ["Cost", "UsageDate", "ResourceId", "Meter", "Currency"])
    cost_page: int = 2
    graph_page: int | None = None
    prices: list[Json] = field(default_factory=list)
    price_page: int = 2
    series: Series = lambda resource, metric, when: []
    batch: Callable[[Seen], bytes] | None = None  # answers of metrics that are made faster than `series` makes them
    accounts: tuple[str, ...] = ()
    azurite: int | None = None
    faults: list[Callable[[Seen], Answer | None]] = field(default_factory=list)
    cut_after: Callable[[Seen], int | None] = lambda seen: None  # bytes of an answer after which the line is cut
    seen: list[Seen] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def once(self, matches: Callable[[Seen], bool], *answers: Answer) -> None:
        """Gives these answers to the first requests that match, then the true ones."""
        waiting = list(answers)

        def fault(seen: Seen) -> Answer | None:
            return waiting.pop(0) if waiting and matches(seen) else None

        self.faults.append(fault)

    def always(self, matches: Callable[[Seen], bool], answer: Answer) -> None:
        self.faults.append(lambda seen: answer if matches(seen) else None)

    def answer(self, seen: Seen) -> Answer:
        for fault in self.faults:
            found = fault(seen)
            if found is not None:
                return found
        if self.batch is not None and seen.path.endswith("/metrics:getBatch"):
            return 200, {"Content-Type": "application/json"}, self.batch(seen)
        body = self._body(seen)
        if body is None:
            return 404, {}, json.dumps({"error": {"code": "ResourceNotFound", "message": "not there"}}).encode()
        return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()

    def _body(self, seen: Seen) -> Json | None:
        path = seen.path
        if path == "/providers/Microsoft.ResourceGraph/resources":
            return self._graph(seen)
        if path.endswith("/metrics:getBatch"):
            return self._metrics(seen)
        if path.endswith("/providers/Microsoft.CostManagement/exports"):
            return {"value": self.exports.get(path.partition("/providers/Microsoft.CostManagement")[0], [])}
        if path.endswith("/providers/Microsoft.CostManagement/query"):
            return self._costs(seen)
        if path == "/api/retail/prices":
            return self._prices(seen)
        return self.documents.get(path)

    def _graph(self, seen: Seen) -> Json:
        query = seen.body["query"]
        among = [one.lower() for one in seen.body.get("subscriptions") or self.subscriptions]
        if query.startswith("resourcecontainers"):
            kind = "microsoft.resources/subscriptions"
            rows = [{"id": f"/subscriptions/{one}", "subscriptionId": one, "type": kind} for one in self.subscriptions]
        else:
            rows = self.scale_set_machines if query.startswith("computeresources") else self.resources
            named = re.search(r"type (?:in~ \((.*?)\)|=~ ('[^']*'))", query)
            assert named is not None
            types = set(re.findall(r"'([^']+)'", named[1] or named[2]))
            rows = [row for row in rows if row["type"].lower() in types and row["subscriptionId"].lower() in among]
            if "startswith 'Standard_N'" in query:
                rows = [row for row in rows if row["properties"]["hardwareProfile"]["vmSize"].startswith("Standard_N")]
            if "PowerState/running" in query:
                rows = [row for row in rows if "running" in json.dumps(row["properties"])]
        if "take 1" in query:
            rows = rows[:1]
        rows = sorted(rows, key=lambda row: str(row["id"]))
        options = seen.body["options"]
        first, page = int(options.get("$skipToken", 0)), self.graph_page or options.get("$top", 100)
        answer = {
            "totalRecords": len(rows),
            "count": len(rows[first : first + page]),
            "resultTruncated": "false",
            "facets": [],
            "data": rows[first : first + page],
        }
        if first + page < len(rows):
            answer["$skipToken"] = str(first + page)
        return answer

    def _metrics(self, seen: Seen) -> Json:
        first, last = (
            datetime.fromisoformat(seen.query[name].replace("Z", "+00:00")) for name in ("starttime", "endtime")
        )
        split = bool(seen.query.get("filter"))
        asked = [name.lower() for name in seen.query["aggregation"].split(",")]
        namespace = seen.query["metricnamespace"]
        values = []
        for identity in seen.body["resourceids"]:
            metrics = []
            for name in seen.query["metricnames"].split(","):
                by_series: dict[str, tuple[dict[str, str], list[Json]]] = {}
                when = first
                while when < last:
                    for dimensions, figures in self.series(identity, name, when):
                        key = json.dumps(dimensions)
                        data = by_series.setdefault(key, (dimensions, []))[1]
                        wanted = {kind: figure for kind, figure in figures.items() if kind in asked}
                        data.append({"timeStamp": f"{when:%Y-%m-%dT%H:%M:%SZ}", **wanted})
                    when += timedelta(hours=1)
                timeseries = [
                    {
                        "metadatavalues": [{"name": {"value": k}, "value": v} for k, v in dimensions.items()],
                        "data": data,
                    }
                    for dimensions, data in by_series.values()
                    if split or not dimensions
                ]
                top = int(seen.query.get("top", 10))
                metrics.append(
                    {
                        "id": f"{identity}/providers/Microsoft.Insights/metrics/{name}",
                        "type": "Microsoft.Insights/metrics",
                        "name": {"value": name, "localizedValue": name},
                        "unit": UNITS.get(name, "Count"),
                        "timeseries": timeseries[:top] if split else timeseries,
                        "errorCode": "Success",
                    }
                )
            values.append(
                {
                    "starttime": seen.query["starttime"],
                    "endtime": seen.query["endtime"],
                    "interval": seen.query["interval"],
                    "namespace": namespace,
                    "resourceregion": "eastus",
                    "resourceid": identity,
                    "value": metrics,
                }
            )
        return {"values": values}

    def _costs(self, seen: Seen) -> Json:
        scope = seen.path.partition("/providers/Microsoft.CostManagement")[0]
        first = seen.body["timePeriod"]["from"][:10].replace("-", "")
        last = seen.body["timePeriod"]["to"][:10].replace("-", "")
        day = self.cost_columns.index("UsageDate")
        rows = [row for row in self.costs.get(scope, []) if first <= str(row[day]) <= last]
        at = int(seen.query.get("$skiptoken", 0))
        more = at + self.cost_page < len(rows)
        link = f"{self.url}{seen.path}?api-version=2025-03-01&$skiptoken={at + self.cost_page}"
        return {
            "id": f"{scope.strip('/')}/providers/Microsoft.CostManagement/query/{at}",
            "name": str(at),
            "type": "Microsoft.CostManagement/query",
            "properties": {
                "nextLink": link if more else None,
                "columns": [
                    {"name": name, "type": "Number" if name in ("Cost", "UsageDate") else "String"}
                    for name in self.cost_columns
                ],
                "rows": rows[at : at + self.cost_page],
            },
        }

    def _prices(self, seen: Seen) -> Json:
        region = re.search(r"armRegionName eq '(\w+)'", seen.query["$filter"])
        rows = [row for row in self.prices if region and row["armRegionName"] == region[1]]
        at = int(seen.query.get("$skip", 0))
        more = at + self.price_page < len(rows)
        link = f"{self.url}/api/retail/prices?$filter={seen.query['$filter']}&$skip={at + self.price_page}"
        return {
            "BillingCurrency": "USD",
            "Items": rows[at : at + self.price_page],
            "NextPageLink": link.replace(" ", "%20") if more else None,
            "Count": len(rows[at : at + self.price_page]),
        }


UNITS = {
    "Percentage CPU": "Percent",
    "Network In Total": "Bytes",
    "Network Out Total": "Bytes",
    "ByteCount": "Bytes",
    "Data Disk Bandwidth Consumed Percentage": "Percent",
    "Data Disk Read Bytes/sec": "BytesPerSecond",
}


class _Handler(http.server.BaseHTTPRequestHandler):
    cloud: Cloud
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        seen = Seen(
            self.command, parts.path, query, json.loads(content) if content else {}, self.headers.get("Authorization")
        )
        self.cloud.seen.append(seen)
        if parts.path.split("/")[1] in self.cloud.accounts:
            status, headers, body = self._blob(seen)
        else:
            status, headers, body = self.cloud.answer(seen)
        cut = self.cloud.cut_after(seen)
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(BrokenPipeError, ConnectionResetError):  # a collector that was killed listens no more
                self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def _blob(self, seen: Seen) -> Answer:
        for fault in self.cloud.faults:
            found = fault(seen)
            if found is not None:
                return found
        line = http.client.HTTPConnection("127.0.0.1", self.cloud.azurite, timeout=30)
        try:
            passed = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            line.request(self.command, self.path, headers=passed)
            answer = line.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            line.close()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(cloud: Cloud) -> Iterator[Cloud]:
    handler = type("Handler", (_Handler,), {"cloud": cloud})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    cloud.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def machine(subscription: str, name: str, *, size: str = "Standard_D8s_v5", power: str = "running") -> Json:
    """A row of Resource Graph."""
    return {
        "id": f"/subscriptions/{subscription}/resourceGroups/rg-ml/providers/Microsoft.Compute/virtualMachines/{name}",
        "name": name,
        "type": "microsoft.compute/virtualmachines",
        "location": "eastus",
        "subscriptionId": subscription,
        "resourceGroup": "rg-ml",
        "tags": {},
        "properties": {
            "hardwareProfile": {"vmSize": size},
            "provisioningState": "Succeeded",
            "extended": {
                "instanceView": {"powerState": {"code": f"PowerState/{power}", "displayStatus": f"VM {power}"}}
            },
        },
    }


def wait_until_answering(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            line.request("GET", "/")
            line.getresponse().read()
            line.close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


NOW = datetime(2026, 10, 3, 6, 30, tzinfo=UTC)
