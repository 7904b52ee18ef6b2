"""Each report reaches each reader at most once, whoever dies when."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor import outbox, render
from auditor.outbox import current_slot, recipients, send_slot
from auditor.records import RealisedSaving
from auditor.settings import Settings, parse
from auditor.state import State
from auditor.stored import dump_extras
from tests.deliver.conftest import Post, Received
from tests.deliver.documents import a_document, a_row
from tests.state.conftest import NOW, a_finding, a_postgres_server

ROOT = Path(__file__).parents[2]
SLOT = "2026-03-02T07:00"
READER = "finops@example.com"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> Any:
        return self.now


def configured(port: int, **smtp: Any) -> Settings:
    mail = {
        "host": "localhost",
        "port": port,
        "security": "none",
        "sender": "auditor@example.com",
        "recipients": [READER],
        "timeout": 5,
    }
    return parse({"delivery": {"smtp": {**mail, **smtp}}}, "here")


def an_audit(state: State, *subjects: str, **extras: Any) -> str:
    """A run that found idle machines, one a subject."""
    run = state.begin_run()
    settled = state.record_findings(run, [a_finding(subject) for subject in subjects], {("gpu.idle_instance", "aws")})
    rows = [
        a_row(id=each.id, status=each.status, resource_id=each.subject, monthly_savings_net="100") for each in settled
    ]
    state.finish_run(run, "complete", a_document(*rows, id=run), extras=dump_extras(render.Extras(**extras)))
    return run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path, clock: Clock) -> Iterator[State]:
    with State.open(str(tmp_path / "state.db"), clock=clock) as made:
        an_audit(made, "i-0a")
        yield made


def send(state: State, settings: Settings, clock: Clock, slot: str = SLOT, **how: Any) -> list[str]:
    return [outcome.status for outcome in send_slot(state, settings, how.pop("kind", "report"), slot, clock, **how)]


def test_a_report_goes_out_once_a_slot(state: State, post: Post, clock: Clock) -> None:
    assert send(state, configured(post.port), clock) == ["sent"]
    assert send(state, configured(post.port), clock) == ["untouched"]
    assert send(state, configured(post.port), clock, "2026-03-09T07:00") == ["sent"]
    assert len(post.mails) == 2
    assert len({mail["Message-ID"] for mail in post.mails}) == 2
    assert all(size < 5_000_000 for size in post.sizes)


def test_the_second_report_tells_what_is_new_since_the_first(state: State, post: Post, clock: Clock) -> None:
    send(state, configured(post.port), clock)
    an_audit(state, "i-0a", "i-0b")
    an_audit(state, "i-0a", "i-0b", "i-0c")
    an_audit(state, "i-0b", "i-0c")
    send(state, configured(post.port), clock, "2026-03-09T07:00")
    assert post.mails[0]["Subject"] == "USD 100 a month avoidable, 1 finding (audit to 31 Oct 2026)"
    assert post.mails[1]["Subject"] == "USD 200 a month avoidable, 2 new (USD 200), 1 resolved (audit to 31 Oct 2026)"


def test_a_failure_before_handing_over_is_retried_with_backoff_and_the_same_message_id(
    state: State, post: Post, clock: Clock
) -> None:
    settings = configured(post.port)
    post.answers = ["451 try later", "451 try later"]
    [first] = send_slot(state, settings, "report", SLOT, clock)
    assert (first.status, first.retry_at) == ("failed", NOW + timedelta(minutes=2))
    assert send(state, settings, clock) == ["untouched"]
    clock.now += timedelta(minutes=2)
    [second] = send_slot(state, settings, "report", SLOT, clock)
    assert second.retry_at == clock.now + timedelta(minutes=4)
    clock.now += timedelta(minutes=4)
    assert send(state, settings, clock) == ["sent"]
    assert [each.attempts for each in state.notifications()] == [3]


def test_what_is_refused_for_good_is_given_up_and_others_get_theirs(state: State, post: Post, clock: Clock) -> None:
    post.answers = ["554 never"]
    outcomes = send_slot(state, configured(post.port, recipients=["a@example.com", READER]), "report", SLOT, clock)
    assert [(outcome.status, outcome.retry_at) for outcome in outcomes] == [("failed", None), ("sent", None)]


def test_a_lost_answer_leaves_the_slot_unknown_told_in_the_next_mail_and_sent_again_by_force_only(
    state: State, post: Post, clock: Clock
) -> None:
    settings = configured(post.port)
    post.answers = ["hang up"]
    assert send(state, settings, clock) == ["unknown"]
    clock.now += timedelta(days=7)
    assert send(state, settings, clock) == ["untouched"]
    assert send(state, settings, clock, "2026-03-09T07:00") == ["sent"]
    body = post.mails[-1].get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "UNKNOWN whether it arrived: the report 2026-03-02T07:00" in body
    assert send(state, settings, clock, force=True) == ["sent"]
    assert post.mails[0]["Message-ID"] == post.mails[-1]["Message-ID"]
    clock.now += timedelta(days=7)
    send(state, settings, clock, "2026-03-16T07:00")
    assert "UNKNOWN" not in post.mails[-1].get_body(("plain",)).get_content()  # type: ignore[union-attr]


def test_an_owner_gets_own_findings_and_no_other(state: State, post: Post, clock: Clock) -> None:
    run = state.begin_run()
    state.finish_run(
        run, "complete", a_document(a_row(1, owner="vision"), a_row(2, owner="speech", resource_id="i-secret"), id=run)
    )
    settings = configured(post.port, recipients=[], owners={"Vision": [READER]})
    assert send(state, settings, clock) == ["sent"]
    [mail] = post.mails
    assert mail["Subject"].startswith("Vision: USD 999")
    [table] = mail.iter_attachments()
    assert table.get_filename() == "findings-2026-11-01.csv"
    assert "i-secret" not in mail.as_string() + table.get_content()


def test_a_daily_digest_without_news_is_not_sent(state: State, post: Post, clock: Clock) -> None:
    settings = configured(post.port)
    assert send(state, settings, clock, kind="digest") == ["sent"]
    assert send(state, settings, clock, "2026-03-03T07:00", kind="digest") == ["skipped"]
    an_audit(state, "i-0a", "i-0b")
    assert send(state, settings, clock, "2026-03-04T07:00", kind="digest") == ["sent"]
    assert len(post.mails) == 2


def test_muted_findings_and_an_old_audit_are_heeded_in_the_mail(state: State, post: Post, clock: Clock) -> None:
    state.mute(author="a", reason="b", resource="i-0a")
    clock.now += timedelta(days=20)
    send(state, configured(post.port), clock)
    [mail] = post.mails
    assert mail["Subject"].startswith("[STALE DATA] USD 0.00 a month avoidable")
    assert "The newest audit is 20 days old" in mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]


def test_a_report_too_large_to_attach_is_linked(state: State, post: Post, clock: Clock) -> None:
    send(
        state,
        configured(post.port, max_attachment_bytes=10, report_url="https://audit.example.com/{run}/report.html"),
        clock,
    )
    [mail] = post.mails
    assert list(mail.iter_attachments()) == []
    assert f"https://audit.example.com/{state.runs_list()[0].id}/report.html" in mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]


def test_every_channel_gets_the_slot_once(
    state: State, post: Post, receiver: Received, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_KEY", "hunter2")
    table = configured(post.port).model_dump(exclude_none=True)["delivery"]
    table |= {
        "webhook": {"url": receiver.url, "secret": "env:HOOK_KEY"},
        "files": {"path": str(tmp_path / "drop"), "formats": ["html", "csv"]},
    }
    settings = parse({"delivery": table}, "here")
    assert send(state, settings, clock) == ["sent"] * 3
    assert send(state, settings, clock) == ["untouched"] * 3
    assert (len(post.mails), len(receiver.requests)) == (1, 1)
    assert sorted(path.name for path in (tmp_path / "drop" / "latest").iterdir()) == ["findings.csv", "report.html"]


def test_a_missing_secret_fails_its_channel_and_is_retried(
    state: State, receiver: Received, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_KEY", raising=False)
    settings = parse({"delivery": {"webhook": {"url": receiver.url, "secret": "env:HOOK_KEY"}}}, "here")
    [outcome] = send_slot(state, settings, "report", SLOT, clock)
    assert outcome.status == "failed"
    assert outcome.retry_at is not None
    assert receiver.requests == []


def test_a_report_that_breaks_for_one_reader_goes_to_the_others_and_is_tried_again(
    state: State, post: Post, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configured(post.port, recipients=["a@example.com", READER])
    make = outbox._digest

    def break_once(*given: Any) -> Any:
        monkeypatch.setattr(outbox, "_digest", make)
        raise ValueError("odd")

    monkeypatch.setattr(outbox, "_digest", break_once)
    outcomes = send_slot(state, settings, "report", SLOT, clock)
    assert [(outcome.status, outcome.error) for outcome in outcomes] == [("failed", "ValueError: odd"), ("sent", None)]
    clock.now += timedelta(minutes=2)
    assert send(state, settings, clock) == ["sent", "untouched"]
    assert len(post.mails) == 2


def test_what_breaks_after_the_message_went_out_leaves_its_fate_unknown(
    state: State, post: Post, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_late(*_: Any, handing_over: Callable[[], None], **__: Any) -> None:
        handing_over()
        raise OSError("odd")

    monkeypatch.setattr(outbox.deliver, "hand_over_mail", break_late)
    assert send(state, configured(post.port), clock) == ["unknown"]
    clock.now += timedelta(days=1)
    assert send(state, configured(post.port), clock) == ["untouched"]


def test_the_slot_is_the_newest_that_is_due() -> None:
    settings = parse({"schedule": {"timezone": "Europe/Berlin"}}, "here")
    assert current_slot(settings, "report", NOW) == "2026-02-23T07:00"
    assert current_slot(settings, "digest", NOW) == "2026-03-01"


def test_readers_choose_what_they_want() -> None:
    settings = configured(25, send=["digest"], owners={"a": [READER]})
    assert recipients(settings, "report") == []
    assert [each.key for each in recipients(settings, "digest")] == [READER, f"{READER} for a"]


SENDS = """
import sys, os, signal, json
from datetime import timedelta
from decimal import Decimal
from auditor import deliver, outbox
from auditor.settings import parse
from auditor.state import State
from tests.deliver.test_outbox import NOW, SLOT
url, settings, stage = sys.argv[1:]
def die():
    os.kill(os.getpid(), signal.SIGKILL)
if stage == "claimed":
    outbox._digest = lambda *_: die()
if stage == "about to":
    outbox._about_to = lambda *_: die()
if stage == "handing over":
    import smtplib
    smtplib.SMTP.data = lambda *_: die()
if stage == "handed over":
    State.slot_sent = lambda *_, **__: die()
with State.open(url, clock=lambda: NOW) as state:
    print(json.dumps([o.status for o in outbox.send_slot(state, parse(json.loads(settings), "x"), "report", SLOT, lambda: NOW)]))
"""


def sender(url: str, settings: Settings, stage: str = "") -> subprocess.Popen[str]:
    text = settings.model_dump_json(include={"delivery"}, exclude_none=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", SENDS, url, text, stage],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "mails_then", "later", "mails_later"),
    [
        ("claimed", 0, "sent", 1),
        ("about to", 0, "sent", 1),
        ("handing over", 0, "untouched", 0),
        ("handed over", 1, "untouched", 1),
    ],
)
def test_a_sender_killed_at_any_stage_sends_nothing_twice(
    state: State, post: Post, clock: Clock, tmp_path: Path, stage: str, mails_then: int, later: str, mails_later: int
) -> None:
    settings = configured(post.port, attach=False)
    process = sender(str(tmp_path / "state.db"), settings, stage)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, said
    assert len(post.mails) == mails_then
    clock.now += timedelta(hours=1)
    assert send(state, settings, clock) == [later]
    assert len(post.mails) == mails_later
    unknown = [each.status for each in state.notifications()] == ["unknown"]
    assert unknown is (later == "untouched")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_five_senders_at_once_send_one_mail(kind: str, post: Post, tmp_path: Path) -> None:
    def check(url: str) -> None:
        with State.open(url, clock=lambda: NOW) as state:
            an_audit(state, "i-0a")
        processes = [sender(url, configured(post.port, attach=False)) for _ in range(5)]
        said = [process.communicate(timeout=120) for process in processes]
        assert sorted(json.loads(out)[0] for out, _ in said) == ["sent", *["untouched"] * 4], said
        assert len(post.mails) == 1

    _with_url(kind, tmp_path, check)


def _with_url(kind: str, tmp_path: Path, check: Callable[[str], None]) -> None:
    if kind == "sqlite":
        check(str(tmp_path / "other.db"))
        return
    with a_postgres_server() as server:
        check(f"postgresql://postgres@/postgres?host={server.folder}")


def test_no_address_is_logged(state: State, post: Post, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="auditor")
    post.answers = ["451 try later"]
    send(state, configured(post.port), clock)
    clock.now += timedelta(minutes=5)
    send(state, configured(post.port), clock)
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("auditor"))
    assert "delivery sent" in ours
    assert "example.com" not in ours


def test_the_message_id_differs_for_each_reader_and_slot() -> None:
    settings = configured(25)
    reader = outbox.Recipient("smtp", READER)
    ids = {
        outbox._message_id(settings, each, slot)
        for each in (reader, replace(reader, owner="a"))
        for slot in ("report a", "report b")
    }
    assert len(ids) == 4


def test_a_mail_tells_what_a_resolved_finding_saved_beside_its_estimate_for_the_same_days(
    state: State, post: Post, clock: Clock
) -> None:
    [known] = state.list_findings()
    run = state.begin_run()
    state.record_findings(run, [], {("gpu.idle_instance", "aws")})
    state.finish_run(run, "complete", a_document(id=run), extras=dump_extras(render.Extras()))
    saving = RealisedSaving(known.id, "2026-03", "USD", Decimal(33), Decimal(3), Decimal(30), Decimal("32.876"))
    without = replace(saving, billing_period="2026-04", estimated_savings=None)
    state.record_realised(run, [saving, without])
    send(state, configured(post.port), clock)
    text = post.mails[0].get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "- 2026-03: USD 30.00\n  1 resolved finding; estimated for the same days: USD 32.88" in text.replace(
        "\r", ""
    )
    assert "2026-04" not in text
