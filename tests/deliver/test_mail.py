"""What a mail says."""

import html
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest

from auditor.deliver import Attachment, Digest, Saved, compose, make_digest, subject, write
from auditor.deliver.mail import MAX_BYTES
from auditor.records import RealisedSaving
from tests.deliver.documents import a_change, a_document, a_row
from tests.state.conftest import a_finding

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


def test_a_resource_without_a_name_is_called_by_the_end_of_its_id() -> None:
    nat = "arn:aws:ec2:eu-west-1:111122223333:natgateway/nat-1"
    (item,) = digest(a_row(resource_id=nat)).open
    assert item.where == "nat-1 (aws · 111122223333 · eu-west-1)"
    (item,) = digest(a_row(resource_id=nat, resource_name="egress")).open
    assert item.where.startswith("egress (")


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


def a_saving(subject: str, period: str, savings: int, estimated: int) -> Saved:
    saving = RealisedSaving(subject, period, "USD", Decimal(1000), Decimal(1000 - savings), Decimal(savings))
    return Saved(saving, a_finding(subject), Decimal(estimated))


def test_what_was_saved_in_the_newest_two_months_is_told_beside_what_was_estimated() -> None:
    saved = [a_saving("i-0a", period, 8, 20) for period in ("2026-08", "2026-09", "2026-10")]
    saved.append(a_saving("i-0b", "2026-10", 300, 280))
    text = write(digest(realised=saved)).text
    assert "- 2026-10: USD 308\n  2 resolved findings; estimated for the same days: USD 300\n" in text
    assert "Accelerator instance idle: USD 300\n    estimated: USD 280; i-0b (aws" in text
    assert text.index("i-0b") < text.index("i-0a")
    assert "2026-09" in text
    assert "2026-08" not in text


def test_the_savings_that_came_true_are_capped_and_the_rest_counted() -> None:
    made = digest(realised=[a_saving(f"i-{n:04x}", "2026-10", n, n) for n in range(40)], rows=3)
    written = write(made)
    assert "USD 780" in written.text
    assert "and 37 more findings" in written.text
    assert [item.savings for item in made.realised[0].items] == [39, 38, 37]


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
    saved = [a_saving(f"i-0{n}", "2026-10", 8 + n, 700 + n) for n in range(4)]
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


# What Gmail, Outlook (which draws with Word's engine) and Apple Mail all honour, or ignore without harm.
TAGS = {"html", "head", "meta", "title", "style", "body", "div", "table", "tr", "td", "h1", "h2", "strong", "br", "span", "a"}  # fmt: skip
ATTRIBUTES = {
    "html": {"lang", "xmlns"},
    "meta": {"charset", "name", "content"},
    "table": {"role", "width", "cellpadding", "cellspacing", "border", "bgcolor"},
    "td": {"width", "align", "valign", "colspan", "bgcolor"},
    "a": {"href"},
}
PROPERTIES = {
    "background-color", "border-collapse", "border-top", "color", "display", "font-family", "font-size", "line-height",
    "margin", "max-height", "max-width", "mso-hide", "overflow", "padding", "text-align", "white-space", "word-break",
}  # fmt: skip
# Outlook and Gmail's app drop the sheet or parts of it: it may only recolour what inlined styles have laid out.
SHEET_PROPERTIES = {"color", "background-color", "border-color", "color-scheme", "supported-color-schemes"}


class Layout(HTMLParser):
    """What a page asks of the program that shows it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.sheet = ""
        self._is_sheet = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._is_sheet = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._is_sheet = False

    def handle_data(self, data: str) -> None:
        if self._is_sheet:
            self.sheet += data


def everything(**more: Any) -> Digest:
    """A mail in which every part of the page is there."""
    how: dict[str, Any] = {
        "changes": [a_change("new", 1), a_change("reopened", 2), a_change("resolved", 77)],
        "realised": [a_saving(f"i-0{n}", "2026-10", 8 + n, 700 + n) for n in range(4)],
        "notices": ["The bill of aws stopped arriving."],
        "unknown": ["the report 2026-10-26T07:00 of 2026-10-26 07:00 UTC"],
        "min_savings": Decimal(994),
        "rows": 3,
        "report_url": "https://audit.example.com/{run}",
        **more,
    }
    document = a_document(
        *(a_row(n, confidence="low" if n == 4 else "high", currency="EUR" if n == 5 else "USD") for n in range(9))
    )
    source = {"status": "failed", "paths": ["aws/cur.csv.gz"], "message": "cut off in the middle"}
    return digest(document={**document, "sources": [source] * 5}, **how)


def test_the_page_asks_only_for_what_mail_programs_show() -> None:
    page = Layout(write(everything(), "report.html").html)
    for tag, attributes in page.elements:
        assert tag in TAGS
        assert set(attributes) - {"style", "class"} <= ATTRIBUTES.get(tag, set())
        declared = [each for each in attributes.get("style", "").split(";") if each.strip()]
        assert {each.partition(":")[0].strip() for each in declared} <= PROPERTIES
        assert "url(" not in attributes.get("style", "")
        if tag == "table":
            assert attributes["role"] == "presentation"  # a screen reader reads it as text
            assert attributes["width"]
        if attributes.get("bgcolor"):  # Word takes the attribute, the others the style
            assert f"background-color:{attributes['bgcolor']};" in attributes["style"]
        if tag == "a":
            assert attributes["href"].startswith("https://")
    assert set(re.findall(r"([\w-]+)\s*:[^;{}]+;", page.sheet)) <= SHEET_PROPERTIES
    assert re.findall(r"@[\w-]+[^{]*", page.sheet) == ["@media (prefers-color-scheme: dark) "]


def test_every_figure_of_the_page_is_in_the_text() -> None:
    written = write(everything(), "report.html")
    page = Words()
    page.feed(written.html)
    amounts = re.compile(r"[A-Z]{3} -?[\d,.]*\d|\d+ %|\d[\d,.-]*")
    shown = amounts.findall(" ".join(page.words))
    assert len(shown) > 40
    assert not set(shown) - set(amounts.findall(" ".join(written.text.split())))


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
