"""What a mail says."""

import html
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest

from auditor.deliver import Attachment, Digest, compose, make_digest, subject, write
from auditor.deliver.mail import MAX_BYTES
from auditor.records import RealisedSaving
from tests.deliver.documents import a_change, a_document, a_row

NOW = datetime(2026, 11, 2, 7, tzinfo=UTC)


def digest(*findings: dict[str, Any], changes: Any = (), document: Any = None, **more: Any) -> Digest:
    how = {"kind": "report", "is_first": False, **more}
    return make_digest(document or a_document(*findings), changes, **how)


def test_the_subject_carries_the_news() -> None:
    made = digest(
        a_row(0),
        a_row(1),
        a_row(2, status="reopened"),
        changes=[a_change("new", 1), a_change("reopened", 2), a_change("resolved", 3)],
    )
    assert (
        subject(made)
        == "USD 2,997 a month avoidable, 1 new (USD 999), 1 back (USD 998), 1 resolved (audit to 31 Oct 2026)"
    )
    assert subject(digest(a_row())) == "USD 1,000 a month avoidable, nothing new (audit to 31 Oct 2026)"
    assert subject(digest(a_row(), is_first=True)) == "USD 1,000 a month avoidable, 1 finding (audit to 31 Oct 2026)"


def test_stale_data_and_a_partial_audit_come_first_in_the_subject() -> None:
    made = digest(document=a_document(status="partial"), notices=["The bill of aws stopped arriving."])
    assert subject(made).startswith("[STALE DATA] [PARTIAL] USD 0.00")


def test_low_confidence_is_shown_beside_and_never_in_the_sum() -> None:
    made = digest(a_row(0), a_row(1, confidence="low"), a_row(2, currency="EUR"), a_row(3, status="muted"))
    assert (made.savings, made.savings_low, made.other_savings) == (
        Decimal(1000),
        Decimal(999),
        (("EUR", Decimal(998)),),
    )
    assert len(made.open) == 3


def test_an_owner_reads_of_own_findings_only() -> None:
    theirs = a_row(1, owner="Speech", title="Somebody else's machine")
    made = digest(
        a_row(0), theirs, changes=[a_change("resolved", 2, owner="speech", title="Somebody else's too")], owner="VISION"
    )
    written = write(made)
    assert "Somebody else" not in written.html + written.text
    assert "Accelerators" not in written.text
    assert "Cost of the window" not in written.text
    assert made.savings == Decimal(1000)


def test_what_was_saved_is_told_by_the_bill_for_the_newest_two_months() -> None:
    saved = [
        RealisedSaving("a", period, "USD", Decimal(9), Decimal(1), Decimal(8))
        for period in ("2026-08", "2026-09", "2026-10")
    ]
    saved.append(RealisedSaving("b", "2026-10", "USD", Decimal(9), Decimal(0), Decimal(300)))
    text = write(digest(realised=saved)).text
    assert "Saved in 2026-10, as the bill shows: USD 308 by 2 resolved findings" in text
    assert "2026-09" in text
    assert "2026-08" not in text


class Words(HTMLParser):
    """The words that a reader of the page sees."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("style", "title") or (tag == "div" and "display:none" in (dict(attrs).get("style") or "")):
            self._hidden = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("style", "title", "div"):
            self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words += data.split()


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w.,%]*\w%?", text))


def test_page_and_text_say_the_same() -> None:
    saved = [RealisedSaving("a", "2026-10", "USD", Decimal(9), Decimal(1), Decimal(8))]
    made = digest(
        *(a_row(n, confidence="low" if n == 4 else "high") for n in range(9)),
        changes=[a_change("new", 1), a_change("resolved", 77)],
        realised=saved,
        notices=["The bill of aws stopped arriving."],
        unknown=["the report 2026-10-26T07:00 of 2026-10-26 07:00 UTC"],
        min_savings=Decimal(994),
        rows=3,
        report_url="https://audit.example.com/{run}",
    )
    written = write(made, "report.html")
    page = Words()
    page.feed(written.html)
    seen, said = words(" ".join(page.words)), words(written.text)
    assert said - seen <= {"https", "audit.example.com", made.run_id}  # the page has the address behind a link
    assert seen - said <= {"In"}


def test_the_page_is_tables_without_script_picture_or_drawing() -> None:
    page = Words()
    page.feed(write(digest(a_row())).html)
    assert not {"script", "svg", "img", "link", "iframe", "form"} & set(page.tags)


def test_names_that_try_to_be_markup_headers_or_invisible_stay_text() -> None:
    evil = "<script>alert(1)</script>\r\nBcc: all@example.com \u202egnp.exe\x1b[2J"
    made = digest(a_row(0, title=evil, resource_name=evil, owner=evil, reason=evil), notices=[evil])
    message = compose(
        made, sender="auditor@example.com", recipient="a@example.com", message_id="<m@example.com>", now=NOW
    )
    page = message.get_body(("html",)).get_content()  # type: ignore[union-attr]
    assert "<script" not in page
    assert html.escape("<script>") in page
    for text in (page, message.get_body(("plain",)).get_content(), str(message["Subject"])):  # type: ignore[union-attr]
        assert not {"\u202e", "\x1b"} & set(text)
    assert message["Bcc"] is None


def test_rows_are_capped_and_the_mail_stays_under_its_limit() -> None:
    long = "a very long name of a machine " * 20
    made = digest(
        *(a_row(n, title=long, reason=long, resource_name=long) for n in range(5000)),
        rows=100,
        changes=[a_change("new", n) for n in range(5000)],
    )
    written = write(made)
    assert len(written.html.encode()) + len(written.text.encode()) <= MAX_BYTES
    assert re.search(r"and [\d,]+ more findings in the full report", written.text)


def test_a_mail_has_both_parts_and_the_report_beside() -> None:
    made = compose(
        digest(a_row()),
        sender="Auditor <auditor@example.com>",
        recipient="a@example.com",
        message_id="<m@example.com>",
        now=NOW,
        attachments=(Attachment("auditor-report.html", "text/html", b"<!DOCTYPE html>"),),
    )
    assert [part.get_content_type() for part in made.walk()] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "text/html",
        "text/html",
    ]
    assert (made["Message-ID"], made["Auto-Submitted"]) == ("<m@example.com>", "auto-generated")
    assert [part.get_filename() for part in made.iter_attachments()] == ["auditor-report.html"]


@pytest.mark.parametrize(
    ("change", "has_news"), [({}, False), ({"notices": ("x",)}, True), ({"unknown": ("x",)}, True)]
)
def test_a_digest_without_news_has_none(change: dict[str, Any], has_news: bool) -> None:
    assert replace(digest(a_row()), **change).has_news is has_news
