"""AWS as far as the collector sees it, on this machine: answers in each service's own wire format, S3 by moto.

The formats are written by moto's serializers from the SDK's own service models; what moto has no backend for, or what it
is kinder about than AWS, is answered here: exact dimension sets, 500 queries and 100,800 points a request, pages.
"""

import json
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote

import botocore.session
from moto.core.model import ServiceModel
from moto.core.serialize import get_serializer_class
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BASE = "111122223333"
_SIGNING = {
    "monitoring": "cloudwatch",
    "elasticfilesystem": "efs",
    "elasticloadbalancing": "elbv2",
}
_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_ISO = re.compile(r"^\d{4}-\d\d-\d\dT")
_models: dict[str, Any] = {}
_session = botocore.session.Session()


@dataclass(frozen=True)
class Request:
    """One call as it came in."""

    service: str
    operation: str
    account: str
    region: str
    parameters: dict[str, Any]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Fault:
    """An answer in place of the right one."""

    status: int
    code: str
    message: str = "injected"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None  # bytes of the right answer's body after which the connection ends


Answer = Callable[[Request], dict[str, Any]]
Point = tuple[float, float]


class Aws:
    """The whole of it. `answers` by (service, operation); `faults` are asked first, each may return a Fault."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Answer] = {}
        self.faults: list[Callable[[Request], Fault | None]] = []
        self.calls: list[Request] = []
        self.series: dict[tuple[str, str, str, str, tuple[tuple[str, str], ...]], list[Point]] = {}
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.answers |= {
            ("sts", "GetCallerIdentity"): lambda request: {
                "Account": request.account,
                "UserId": "AIDAEXAMPLE",
                "Arn": f"arn:aws:iam::{request.account}:user/auditor",
            },
            ("sts", "AssumeRole"): self._assume,
            ("ec2", "DescribeRegions"): lambda _: {
                "Regions": [{"RegionName": "us-east-1"}, {"RegionName": "eu-west-1"}]
            },
            ("cloudwatch", "ListMetrics"): self._list_metrics,
            ("cloudwatch", "GetMetricData"): self._metric_data,
        }
        self.lifetime = "2099-01-01T00:00:00Z"
        self.emulated: set[str] = set()  # services that moto answers altogether

    def count(self, operation: str) -> int:
        return Counter(call.operation for call in self.calls)[operation]

    def _assume(self, request: Request) -> dict[str, Any]:
        account = request.parameters["RoleArn"].split(":")[4]
        return {
            "Credentials": {
                "AccessKeyId": f"ASIAX{account}",
                "SecretAccessKey": "secret",
                "SessionToken": "token",
                "Expiration": self.lifetime,
            }
        }

    def items(
        self, service: str, operation: str, key: str, items: Callable[[Request], list[Any]], page: int = 1000
    ) -> None:
        """A list that is given in pages, as large as asked for."""

        def answer(request: Request) -> dict[str, Any]:
            found = items(request)
            sizes = [request.parameters.get(name) for name in ("MaxResults", "MaxItems", "PageSize", "maxResults")]
            size = min(page, *(int(one) for one in sizes if one)) if any(sizes) else page
            marks = [request.parameters.get(name) for name in ("NextToken", "Marker", "nextToken")]
            at = int(next((one for one in marks if one), 0))
            more = str(at + size) if at + size < len(found) else None
            name = (
                "NextMarker"
                if service in ("efs", "elbv2")
                else "nextToken"
                if service == "savingsplans"
                else "NextToken"
            )
            return {key: found[at : at + size], **({name: more} if more else {})}

        self.answers[(service, operation)] = answer

    # CloudWatch

    def put(
        self, account: str, region: str, namespace: str, metric: str, points: Iterable[Point], **dimensions: str
    ) -> None:
        key = (account, region, namespace, metric, tuple(sorted(dimensions.items())))
        self.series[key] = sorted(points)

    def _list_metrics(self, request: Request) -> dict[str, Any]:
        wanted = request.parameters
        found = [
            {
                "Namespace": namespace,
                "MetricName": metric,
                "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions],
            }
            for account, region, namespace, metric, dimensions in self.series
            if (account, region) == (request.account, request.region)
            and wanted.get("Namespace") in (None, namespace)
            and wanted.get("MetricName") in (None, metric)
        ]
        at = int(wanted.get("NextToken") or 0)
        more = {"NextToken": str(at + 500)} if at + 500 < len(found) else {}
        return {"Metrics": found[at : at + 500], **more}

    def _metric_data(self, request: Request) -> dict[str, Any]:
        wanted = request.parameters
        queries = wanted["MetricDataQueries"]
        if len(queries) > 500:
            self.wrong.append(f"{len(queries)} queries in one request")
        start, end = _epoch(wanted["StartTime"]), _epoch(wanted["EndTime"])
        results = [self._series(request, query, start, end) for query in queries]
        at, room = int(wanted.get("NextToken") or 0), min(int(wanted.get("MaxDatapoints") or 100_800), 100_800)
        flat = [(number, point) for number, points in enumerate(results) for point in points]
        part = flat[at : at + room]
        shown = {
            number: {"Id": query["Id"], "Label": "x", "Timestamps": [], "Values": [], "StatusCode": "Complete"}
            for number, query in enumerate(queries)
        }
        for number, (when, value) in part:
            shown[number]["Timestamps"].append(when)
            shown[number]["Values"].append(value)
        more = {"NextToken": str(at + room)} if at + room < len(flat) else {}
        return {"MetricDataResults": list(shown.values()), "Messages": [], **more}

    def _series(self, request: Request, query: dict[str, Any], start: float, end: float) -> list[Point]:
        stat = query["MetricStat"]
        metric, period = stat["Metric"], stat["Period"]
        if start % period:
            self.wrong.append(f"{metric['MetricName']} asked from a time that is no multiple of {period}")
        dimensions = tuple(sorted((one["Name"], one["Value"]) for one in metric["Dimensions"]))
        key = (request.account, request.region, metric["Namespace"], metric["MetricName"], dimensions)
        points = self.series.get(key, [])
        buckets: dict[float, list[float]] = {}
        for when, value in points[bisect_left(points, (start, float("-inf"))) :]:
            if when >= end:
                break
            buckets.setdefault(start + (when - start) // period * period, []).append(value)
        mean = stat["Stat"] == "Average"
        return [(when, sum(values) / len(values) if mean else sum(values)) for when, values in buckets.items()]

    # the wire

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        if found is None:
            return _plain(start_response, 403, b"unsigned")
        key, region, signing = found.groups()
        service = _SIGNING.get(signing, signing)
        operation, parameters = _operation(service, environ, body)
        account = key[-12:] if key[-12:].isdigit() else BASE
        request = Request(service, operation, account, region, parameters, environ)
        with self._lock:
            self.calls.append(request)
        fault = next((made for one in self.faults if (made := one(request))), None)
        if fault is not None and fault.cut is None:
            return _fault(start_response, service, fault)
        answer = self.answers.get((service, operation))
        if service in self.emulated or (service == "s3" and answer is None):
            return self._from_moto(environ, body, start_response, fault)
        if answer is None:
            self.wrong.append(f"{service}:{operation} is not answered")
            return _plain(start_response, 501, b"")
        return self._serialized(service, operation, answer(request), start_response)

    def _from_moto(
        self, environ: dict[str, Any], body: bytes, start_response: Any, fault: Fault | None
    ) -> Iterable[bytes]:
        import io

        environ["wsgi.input"] = io.BytesIO(body)
        blocks = self.moto(environ, start_response)
        if fault is None or fault.cut is None:
            return blocks
        return _cut(blocks, fault.cut)

    def _serialized(self, service: str, operation: str, result: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        model = _model(service).operation_model(operation)
        if service == "cloudwatch":  # a hundred thousand points are too many for a serializer written in Python
            data = json.dumps(result).encode()
            return _plain(start_response, 200, data, {"Content-Type": "application/x-amz-json-1.0"})
        serializer = get_serializer_class(service, model.service_model.resolved_protocol)(operation_model=model)
        made = serializer.serialize(_typed(model.output_shape, result))
        data = made["body"]
        return _plain(start_response, 200, data if isinstance(data, bytes) else data.encode(), made["headers"])


def _epoch(value: Any) -> float:
    return float(value) if not isinstance(value, str) else datetime.fromisoformat(value).timestamp()


def _model(service: str) -> Any:
    if service not in _models:
        known = _session.get_service_model(service)
        _models[service] = ServiceModel(known._service_description, known.service_name)
    return _models[service]


def _typed(shape: Any, value: Any) -> Any:
    """Times of a recorded answer as times."""
    if shape is None or value is None:
        return value
    if shape.type_name == "structure":
        return {key: _typed(shape.members.get(key), one) for key, one in value.items()}
    if shape.type_name == "list":
        return [_typed(shape.member, one) for one in value]
    if shape.type_name == "timestamp" and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _operation(service: str, environ: dict[str, Any], body: bytes) -> tuple[str, dict[str, Any]]:
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        return target.rpartition(".")[2], json.loads(body or b"{}")
    if service == "s3":
        return _s3_operation(environ)
    form = dict(parse_qsl(body.decode())) if b"Action=" in body else {}
    if form:
        return form["Action"], form
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    query = dict(parse_qsl(environ.get("QUERY_STRING", "")))
    model = _model(service)
    for name in model.operation_names:
        http = model.operation_model(name).http
        if http["method"] == method and http["requestUri"].rstrip("/") == path.rstrip("/"):
            return name, {**query, **(json.loads(body) if body else {})}
    raise LookupError(f"{service} {method} {path}")


def _s3_operation(environ: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    query = {
        key: values[0] for key, values in parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True).items()
    }
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    named = {"Bucket": bucket, "Key": key, **query}
    if not bucket:
        return "ListBuckets", named
    if "lifecycle" in query:
        return "GetBucketLifecycleConfiguration", named
    if environ["REQUEST_METHOD"] == "GET":
        return ("GetObject" if key else "ListObjectsV2"), named
    return environ["REQUEST_METHOD"], named


def _plain(start_response: Any, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> list[bytes]:
    start_response(f"{status} x", [*(headers or {}).items(), ("Content-Length", str(len(data)))])
    return [data]


def _cut(blocks: Iterable[bytes], after: int) -> Iterator[bytes]:
    data = b"".join(blocks)[:after]
    yield data
    raise ConnectionResetError("cut")  # the server closes the connection before Content-Length is reached


def _fault(start_response: Any, service: str, fault: Fault) -> list[bytes]:
    protocol = _model(service).resolved_protocol
    headers = dict(fault.headers)
    if protocol in ("json", "rest-json"):
        headers |= {"Content-Type": "application/x-amz-json-1.1", "x-amzn-errortype": fault.code}
        data = json.dumps({"__type": fault.code, "message": fault.message}).encode()
    else:
        error = f"<Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
        if protocol == "ec2":
            error = f"<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>"
        elif protocol == "query":
            error = f"<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"
        data = error.encode()
    return _plain(start_response, fault.status, data, headers)


@contextmanager
def serving(aws: Aws) -> Iterator[str]:
    """The address at which it answers while the body runs."""
    import logging

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, aws, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
