"""A digest posted with a signature."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from auditor.deliver import NotHandedOver, Uncertain, drop, hand_over_chat, hand_over_webhook, make_digest
from tests.deliver.conftest import Received
from tests.deliver.documents import a_change, a_document, a_row

NOW = datetime(2026, 11, 2, 7, tzinfo=UTC)
DIGEST = make_digest(
    a_document(*(a_row(n) for n in range(5))), [a_change("new", 1)], kind="report", is_first=False, rows=2
)


def post(url: str, **how: Any) -> None:
    plain: dict[str, Any] = {
        "secret": "hunter2",
        "message_id": "<m@example.com>",
        "now": NOW,
        "ca_file": None,
        "timeout": 3,
    }
    hand_over_webhook(DIGEST, url=url, **{**plain, "handing_over": lambda: None, **how})


def test_the_receiver_can_tell_who_sent_it_when_and_that_it_is_whole(receiver: Received) -> None:
    post(receiver.url)
    [(headers, body)] = receiver.requests
    signed = headers["X-Auditor-Timestamp"].encode() + b"." + body
    assert headers["X-Auditor-Signature"] == "sha256=" + hmac.new(b"hunter2", signed, hashlib.sha256).hexdigest()
    assert headers["X-Auditor-Timestamp"] == str(int(NOW.timestamp()))
    assert headers["Idempotency-Key"] == "m@example.com"


def test_money_is_text_and_lists_are_cut_and_counted(receiver: Received) -> None:
    post(receiver.url)
    found = json.loads(receiver.requests[0][1])
    assert (found["savings"], found["open_count"], len(found["open"])) == ("4990", 5, 2)
    assert found["new"][0]["savings"] == "999"
    assert found["schema_version"] == "1.0"


@pytest.mark.parametrize(("status", "again"), [(503, True), (429, True), (403, False), (404, False)])
def test_an_answer_that_refuses_says_whether_to_try_again(receiver: Received, status: int, again: bool) -> None:
    receiver.status = status
    with pytest.raises(NotHandedOver, match=str(status)) as error:
        post(receiver.url)
    assert error.value.again is again


def test_a_signed_body_follows_no_redirect(receiver: Received) -> None:
    receiver.status, receiver.location = 307, receiver.url
    with pytest.raises(NotHandedOver, match="307"):
        post(receiver.url)
    assert len(receiver.requests) == 1


def test_a_receiver_that_is_not_there_got_nothing() -> None:
    with pytest.raises(NotHandedOver, match="refused") as error:
        post("http://127.0.0.1:1/")
    assert error.value.again


def test_a_receiver_that_dies_before_it_answers_leaves_it_uncertain(receiver: Received) -> None:
    receiver.status = 0
    with pytest.raises(Uncertain, match="no answer"):
        post(receiver.url)


def test_chat_posts_the_news_through_apprise(receiver: Received) -> None:
    pytest.importorskip("apprise")
    receiver.status = 200
    hand_over_chat(DIGEST, receiver.url.replace("http://", "json://"), lambda: None)
    found = json.loads(receiver.requests[0][1])
    assert found["title"].startswith("USD 4,990 a month avoidable, 1 new")
    assert "USD 999 a month: Accelerator machine runs without work" in found["message"]


def test_chat_that_refuses_or_has_a_wrong_address_was_not_handed_over(receiver: Received) -> None:
    pytest.importorskip("apprise")
    with pytest.raises(NotHandedOver, match="no service") as error:
        hand_over_chat(DIGEST, "nonsense://secret-token", lambda: None)
    assert "secret-token" not in str(error.value)
    receiver.status = 404
    with pytest.raises(NotHandedOver, match="404"):
        hand_over_chat(DIGEST, receiver.url.replace("http://", "json://"), lambda: None)


def test_chat_that_does_not_answer_is_uncertain(receiver: Received) -> None:
    pytest.importorskip("apprise")
    receiver.status = 0
    with pytest.raises(Uncertain, match="did not confirm"):
        hand_over_chat(DIGEST, receiver.url.replace("http://", "json://"), lambda: None)


def test_files_are_dropped_under_their_run_and_as_the_latest(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    for text in ("old", "new"):
        report.write_text(text)
        drop([report], str(tmp_path / "drop"), "run-1", lambda: None)
    for folder in ("run-1", "latest"):
        assert [path.name for path in (tmp_path / "drop" / folder).iterdir()] == ["report.html"]
        assert (tmp_path / "drop" / folder / "report.html").read_text() == "new"


def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "drop").write_text("a file where a folder should be")
    (tmp_path / "report.html").write_text("x")
    with pytest.raises(NotHandedOver, match="cannot be written") as error:
        drop([tmp_path / "report.html"], str(tmp_path / "drop"), "run-1", lambda: None)
    assert error.value.again
