"""Collecting from a Prometheus: as few answers as it gives, whatever goes wrong on the way."""

import gzip
import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor import exporters
from auditor.collect import prometheus as collector
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.prometheus import client, windows
from auditor.collect.work import Collection
from auditor.journal import Problem
from auditor.progress import Silent
from auditor.settings import Limits, PrometheusSource

from .fake import EMPTY, Fake, Question, Reply, error, matrix, packed, serve

GPU = "DCGM_FI_DEV_GPU_UTIL"
LABELS = {"gpu": "0", "UUID": "GPU-1", "Hostname": "node-1"}
NOW = datetime(2026, 10, 31, 6, 30, tzinfo=UTC)
END = datetime(2026, 10, 31, 6, tzinfo=UTC)
START = datetime(2026, 9, 28, tzinfo=UTC)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as server:
        yield server


def source(fake: Fake, **about: Any) -> PrometheusSource:
    return PrometheusSource(name="cluster", url=fake.url, **about)


def pull(
    path: Path,
    asked: PrometheusSource,
    *,
    start: datetime = START,
    end: datetime = END,
    progress: Any = None,
    **limits: Any,
) -> tuple[list[Problem], Budget]:
    caps = Limits(**limits)
    now = end + timedelta(minutes=30)
    with LandingFolder(path, asked.name, None, now) as folder:
        budget = Budget(caps)
        collector.collect(asked, Collection(folder, budget, caps, start, end, now, progress or Silent(), path))
        return folder.problems, budget


def only(metric: str, **beside: Any) -> Any:
    """A reply with one device's samples for one metric, nothing for all others."""

    def reply(question: Question) -> Reply:
        if question["path"].endswith("query_range") and question["query"].startswith(f"{metric}{{"):
            return 200, {}, matrix(metric, LABELS, question, **beside)
        return 200, {}, EMPTY

    return reply


def times(path: Path, metric: str = GPU) -> list[int]:
    """The times of all samples fetched, file by file."""
    found = []
    for file in sorted(path.glob(f"telemetry/{metric}/*.json.gz")):
        document = json.loads(gzip.decompress(file.read_bytes()))
        found += [int(at) for series in document["data"]["result"] for at, _ in series["values"]]
    return found


def every(step: int, start: datetime = START, end: datetime = END) -> list[int]:
    return list(range(int(start.timestamp()), int(end.timestamp()), step))


def test_one_answer_a_metric_holds_the_whole_window(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    problems, budget = pull(tmp_path, source(fake))
    assert problems == []
    assert times(tmp_path) == every(300)
    assert sorted(each["query"].partition("{")[0] for each in fake.ranges) == sorted(exporters.metrics())
    assert {each.api: each.calls for each in budget.take()} == {
        "prometheus:query": 1,
        "prometheus:query_range": len(exporters.metrics()),
    }
    assert [file.parent.name for file in tmp_path.glob("telemetry/*/*")] == [GPU]


def test_no_answer_exceeds_eleven_thousand_points_a_series(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    pull(tmp_path, source(fake, step_seconds=60))
    asked = fake.of(GPU)
    assert len(asked) == -(-len(every(60)) // 11_000)
    assert max((int(each["end"]) - int(each["start"])) // 60 + 1 for each in asked) == 11_000
    assert times(tmp_path) == every(60)


def test_many_series_are_asked_for_in_shorter_windows(fake: Fake, tmp_path: Path) -> None:
    plain = only(GPU)

    def reply(question: Question) -> Reply:
        if question["path"].endswith("/query"):
            vector = [{"metric": {"__name__": GPU}, "value": [0, "8000"]}]
            return (
                200,
                {},
                json.dumps({"status": "success", "data": {"resultType": "vector", "result": vector}}).encode(),
            )
        return plain(question)  # type: ignore[no-any-return]

    fake.reply = reply
    pull(tmp_path, source(fake))
    assert max((int(each["end"]) - int(each["start"])) // 300 + 1 for each in fake.of(GPU)) == 10_000_000 // 8000
    assert times(tmp_path) == every(300)


def test_a_second_collection_fetches_only_what_came_since(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    pull(tmp_path, source(fake))
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("telemetry/*/*")}
    fake.asked.clear()
    pull(tmp_path, source(fake))
    assert fake.asked == []
    pull(tmp_path, source(fake), start=START + timedelta(days=1), end=END + timedelta(days=1))
    assert {(each["start"], each["end"]) for each in fake.ranges} == {
        (str(int(END.timestamp())), str(int(END.timestamp()) + 86400 - 300))
    }
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert times(tmp_path) == every(300, end=END + timedelta(days=1))


def test_samples_that_may_still_arrive_are_left_for_later(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    now = END + timedelta(seconds=20)
    with LandingFolder(tmp_path, "cluster", None, now) as folder:
        collector.collect(
            source(fake), Collection(folder, Budget(Limits()), Limits(), START, END, now, Silent(), tmp_path)
        )
    assert times(tmp_path) == every(300, end=END - timedelta(minutes=5))


def test_files_wholly_before_the_audited_time_go(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    pull(tmp_path, source(fake), start=START, end=START + timedelta(days=2))
    pull(tmp_path, source(fake), start=START + timedelta(days=3), end=START + timedelta(days=5))
    assert times(tmp_path) == every(300, START + timedelta(days=3), START + timedelta(days=5))


def test_other_matchers_fetch_anew(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    pull(tmp_path, source(fake))
    fake.asked.clear()
    pull(tmp_path, source(fake, match=['cluster="prod"']))
    assert times(tmp_path) == every(300)
    assert all('cluster="prod"' in each["query"] for each in fake.asked)


@pytest.mark.parametrize(
    "refusal",
    [
        error(422, "query processing would load too many samples into memory in query execution"),
        error(400, "exceeded maximum resolution of 11,000 points per timeseries"),
        error(413, "the response is too large"),
        error(503, "query timed out in expression evaluation"),
        (504, {}, b"<html>Gateway Time-out</html>"),
    ],
    ids=["samples", "points", "body", "timeout", "gateway"],
)
def test_windows_are_halved_until_the_server_gives_them(fake: Fake, tmp_path: Path, refusal: Reply) -> None:
    plain = only(GPU)

    def reply(question: Question) -> Reply:
        is_long = question["path"].endswith("range") and int(question["end"]) - int(question["start"]) >= 10 * 86400
        return refusal if is_long and question["query"].startswith(GPU) else plain(question)

    fake.reply = reply
    problems, _ = pull(tmp_path, source(fake))
    assert problems == []
    assert times(tmp_path) == every(300)
    assert len(fake.of(GPU)) == 2 + 4  # the whole and its half are refused; what fits once is kept to


def test_a_server_that_gives_nothing_at_all_is_a_problem(fake: Fake, tmp_path: Path) -> None:
    fake.reply = lambda question: error(422, "exceeding maximum") if GPU in question["query"] else (200, {}, EMPTY)
    problems, _ = pull(tmp_path, source(fake))
    assert [(each.what, each.hides) for each in problems] == [(f"query_range {GPU}", f"what accelerators did ({GPU})")]
    assert "not even one step" in problems[0].reason


def test_throttling_is_waited_for_as_the_server_says(fake: Fake, tmp_path: Path) -> None:
    plain, refused = only(GPU), []

    def reply(question: Question) -> Reply:
        if GPU in question["query"] and len(fake.of(GPU)) == 2 and not refused:
            refused.append(question)
            return error(429, "slow down", Retry_After="1")
        return plain(question)  # type: ignore[no-any-return]

    fake.reply = reply
    problems, _ = pull(tmp_path, source(fake, step_seconds=120))
    assert (len(refused), problems) == (1, [])
    assert times(tmp_path) == every(120)


def test_an_answer_that_breaks_off_is_asked_for_again(fake: Fake, tmp_path: Path) -> None:
    plain, cut = only(GPU), []

    def reply(question: Question) -> Reply:
        status, headers, body = plain(question)
        if GPU in question["query"] and not cut:
            cut.append(question)
            return status, {"Content-Length": str(len(body))}, body[: len(body) // 2]
        return status, headers, body

    fake.reply = reply
    problems, _ = pull(tmp_path, source(fake))
    assert (len(cut), problems) == (1, [])
    assert times(tmp_path) == every(300)


def test_an_answer_that_ends_early_without_saying_so_is_no_answer(fake: Fake, tmp_path: Path) -> None:
    plain = only(GPU)

    def reply(question: Question) -> Reply:
        status, headers, body = plain(question)
        is_range = question["path"].endswith("range") and GPU in question["query"]
        wide = is_range and int(question["end"]) - int(question["start"]) > 10 * 86400
        return (status, headers, body[:-40]) if wide else (status, headers, body)

    fake.reply = reply
    problems, _ = pull(tmp_path, source(fake))
    assert problems == []
    assert times(tmp_path) == every(300)


def test_packed_answers_are_kept_as_they_came(fake: Fake, tmp_path: Path) -> None:
    plain = only(GPU)
    fake.reply = lambda question: (200, *packed(plain(question)[2]))
    pull(tmp_path, source(fake))
    assert times(tmp_path) == every(300)
    assert {each["Accept-Encoding"] for each in fake.headers} == {"gzip"}


@pytest.mark.parametrize("beside", [{"warnings": ["store eu-1 did not answer: ]]}"]}, {"isPartial": True}])
def test_a_partial_answer_is_told_and_asked_for_again(fake: Fake, tmp_path: Path, beside: dict[str, Any]) -> None:
    def victoria(question: Question) -> Reply:
        status, headers, body = only(GPU)(question)
        if GPU in question["query"] and question["path"].endswith("range"):
            document = json.loads(matrix(GPU, LABELS, question))
            order = (
                {"status": "success", **beside, "data": document["data"]}
                if "isPartial" in beside
                else {**document, **beside}
            )
            body = json.dumps(order).encode()
        return status, headers, body

    fake.reply = victoria
    problems, _ = pull(tmp_path, source(fake))
    assert [each.what for each in problems] == [f"query_range {GPU}"]
    assert problems[0].reason.startswith("the answer is partial: ")
    assert times(tmp_path) == every(300), "what came is kept meanwhile"
    fake.asked.clear()
    fake.reply = only(GPU)
    problems, _ = pull(tmp_path, source(fake), end=END + timedelta(hours=1))
    assert problems == []
    assert len(fake.of(GPU)) == 1
    assert times(tmp_path) == every(300, end=END + timedelta(hours=1)), "the whole answer replaces the partial one"


def test_a_metric_that_is_denied_stops_no_other(fake: Fake, tmp_path: Path) -> None:
    plain = only(GPU)
    fake.reply = lambda question: (
        error(403, "forbidden") if "node_disk_read" in question["query"][:20] else plain(question)
    )
    problems, _ = pull(tmp_path, source(fake, auth="bearer", token="env:TOKEN"))
    assert [each.reason for each in problems] == ["secret env:TOKEN: the environment variable TOKEN is not set"]
    problems, _ = pull(tmp_path, source(fake))
    assert [(each.what, each.reason) for each in problems] == [
        ("query_range node_disk_read_bytes_total", "HTTP 403: forbidden")
    ]
    assert problems[0].fix is not None
    assert problems[0].fix.startswith("set `auth`")
    assert times(tmp_path) == every(300)


def test_an_expired_token_is_read_again(fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = tmp_path / "token"
    token.write_text("old-token-value")
    plain = only(GPU)

    def reply(question: Question) -> Reply:
        if fake.headers[-1].get("Authorization") != "Bearer new-token-value":
            token.write_text("new-token-value\n")
            return error(401, "token is expired")
        return plain(question)  # type: ignore[no-any-return]

    fake.reply = reply
    caplog.set_level(logging.DEBUG)
    problems, _ = pull(tmp_path / "landing", source(fake, auth="bearer", token=f"file:{token}"))
    assert problems == []
    assert times(tmp_path / "landing") == every(300)
    written = b"".join(file.read_bytes() for file in (tmp_path / "landing").rglob("*") if file.is_file())
    assert b"token-value" not in written
    assert "token-value" not in caplog.text


def test_caps_stop_the_collection_and_a_later_one_goes_on(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    problems, _ = pull(tmp_path, source(fake, step_seconds=60), calls=4, parallel=1)
    assert {each.reason.partition(";")[0] for each in problems} == {"the cap of [limits] calls = 4 is reached"}
    done = {(each["query"], each["start"]) for each in fake.ranges}
    assert len(done) == 3
    fake.asked.clear()
    problems, _ = pull(tmp_path, source(fake, step_seconds=60))
    assert problems == []
    assert done.isdisjoint((each["query"], each["start"]) for each in fake.ranges)
    assert times(tmp_path) == every(60)


def test_a_cap_of_bytes_leaves_no_half_file(fake: Fake, tmp_path: Path) -> None:
    fake.reply = only(GPU)
    problems, _ = pull(tmp_path, source(fake), bytes=70_000)
    assert any("bytes = 70000" in each.reason for each in problems)
    assert list(tmp_path.glob("telemetry/*/*")) == []


def test_a_killed_collection_goes_on_where_it_stopped(fake: Fake, tmp_path: Path) -> None:
    class Kill(Silent):
        def __init__(self) -> None:
            self.seen = 0

        def advance(self, bytes_done: int) -> None:
            if bytes_done > 10_000:
                self.seen += 1
                if self.seen > 6:
                    raise KeyboardInterrupt

    fake.reply = only(GPU)
    with pytest.raises(KeyboardInterrupt):
        pull(tmp_path, source(fake, step_seconds=60), progress=Kill(), parallel=1)
    kept = times(tmp_path)
    assert 0 < len(kept) < len(every(60))
    fake.asked.clear()
    problems, _ = pull(tmp_path, source(fake, step_seconds=60))
    assert problems == []
    assert times(tmp_path) == every(60)
    assert not set(kept) & {int(each["start"]) for each in fake.of(GPU)}


def test_managed_services_are_paid_from_the_budget(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    vector = [{"metric": {"__name__": GPU}, "value": [0, "1000"]}]
    told = json.dumps({"status": "success", "data": {"resultType": "vector", "result": vector}}).encode()
    plain = only(GPU)
    fake.reply = lambda question: (200, {}, told) if question["path"].endswith("/query") else plain(question)
    problems, budget = pull(tmp_path, source(fake, auth="sigv4"))
    assert problems == []
    assert all("/eu-west-1/aps/aws4_request" in each["Authorization"] for each in fake.headers)
    spent = sum((each.money or Decimal(0) for each in budget.take()), Decimal(0))
    samples = 1000 * (END - START) // timedelta(seconds=15)
    assert spent == Decimal(samples) * Decimal("0.1") / 10**9


@pytest.mark.parametrize("auth", ["google", "azure"])
def test_no_token_of_a_cloud_goes_to_this_machine(fake: Fake, tmp_path: Path, auth: str) -> None:
    fake.reply = only(GPU)
    assert pull(tmp_path, source(fake, auth=auth))[0] == []
    assert all("Authorization" not in each for each in fake.headers)


def test_a_password_and_a_tenant_are_sent(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "schön")
    monkeypatch.setenv("TENANT", "acme")
    about = {"auth": "basic", "username": "reader", "password": "env:PASSWORD"}
    pull(tmp_path, source(fake, **about, headers={"X-Scope-OrgID": "env:TENANT"}))
    assert {each["X-Scope-OrgID"] for each in fake.headers} == {"acme"}
    assert all(each["Authorization"].startswith("Basic ") for each in fake.headers)


@pytest.mark.parametrize(
    ("reply", "reason", "fix"),
    [
        ((302, {"Location": "https://login.example.com/"}, b""), "HTTP 302", "set `url` to the address"),
        ((404, {}, b"404 page not found"), "HTTP 404: 404 page not found", "/select/0/prometheus"),
        ((200, {}, b"<html>Welcome</html>"), "not one of Prometheus", None),
        ((200, {}, b'{"hello":"world"}'), "not one of Prometheus", None),
        (None, "cannot be reached", "check `url`"),
    ],
    ids=["redirect", "no-api", "html", "other-json", "hangs-up"],
)
def test_what_is_no_prometheus_is_said(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Reply | None, reason: str, fix: str | None
) -> None:
    monkeypatch.setattr(client, "Retry", lambda **about: _Impatient(**{**about, "backoff_factor": 0}))
    monkeypatch.setattr(exporters, "metrics", lambda: [GPU])
    fake.reply = lambda question: reply
    problems, _ = pull(tmp_path, source(fake), start=END - timedelta(minutes=10))
    assert len(problems) == 1
    assert reason in problems[0].reason
    assert fix is None or fix in str(problems[0].fix)
    assert list(tmp_path.glob("telemetry/*/*")) == []


_Impatient = client.Retry


def test_gaps_are_what_is_not_there() -> None:
    assert windows.missing([], 0, 100, 10) == [(0, 100)]
    assert windows.missing([(20, 40), (30, 60)], 0, 100, 10) == [(0, 20), (60, 100)]
    assert windows.missing([(0, 60), (60, 100)], 0, 100, 10) == []
    assert windows.missing([(-50, 5), (90, 300)], 0, 100, 10) == [(10, 90)]


def test_requests_run_side_by_side_and_no_more_than_allowed(fake: Fake, tmp_path: Path) -> None:
    running, most, lock = [0], [0], threading.Lock()
    fake.reply = only(GPU)
    original = client.Client.range

    def counted(self: client.Client, parameters: Any) -> Any:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        try:
            return original(self, parameters)
        finally:
            with lock:
                running[0] -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.Client, "range", counted)
        pull(tmp_path, source(fake), parallel=3)
    assert most[0] <= 3
