"""A digest as mail: a subject that carries the news, and a page and a text that say the same."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import lru_cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from auditor.assets import room
from auditor.deliver import words
from auditor.deliver.digest import Digest, Item

MAX_BYTES = 96_000  # Gmail cuts a mail off at 102 kB; what follows is lost to the reader
_SUBJECT = 140
# Python breaks a long subject right after its name, which some readers show as a blank in front.
MAX_LINE = 300
_POLICY = SMTP.clone(max_line_length=MAX_LINE)


@dataclass(frozen=True)
class Attachment:
    """A file to go with the mail."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True)
class Written:
    """A digest as page and text."""

    html: str
    text: str


def subject(digest: Digest) -> str:
    """What a reader needs to know if nothing else is read."""
    parts = [f"{words.money(digest.savings, digest.currency)} a month avoidable"]
    for name, items in (("new", digest.new), ("back", digest.reopened)):
        if items and not digest.is_first:
            parts.append(f"{len(items)} {name} ({_sum(items, digest.currency)})")
    if digest.resolved and not digest.is_first:
        parts.append(f"{len(digest.resolved)} resolved")
    if digest.is_first:
        parts.append(words.count(len(digest.open) + digest.unlisted, "finding"))
    elif len(parts) == 1:
        parts.append("nothing new")
    warnings = [
        text for is_so, text in ((digest.notices, "STALE DATA"), (digest.status != "complete", "PARTIAL")) if is_so
    ]
    lead = "".join(f"[{warning}] " for warning in warnings)
    whose = f"{digest.owner}: " if digest.owner else ""
    return words.plain(f"{lead}{whose}{', '.join(parts)} (audit to {words.day_before(digest.as_of)})", _SUBJECT)


def _sum(items: tuple[Item, ...], currency: str) -> str:
    return words.money(sum((item.savings for item in items if item.currency == currency), Decimal(0)), currency)


def write(digest: Digest, attached: str | None = None) -> Written:
    """Page and text, with as many rows as fit into MAX_BYTES; `attached` is the name of the report that comes along."""
    rows = digest.rows
    while True:
        shown = digest.with_rows(rows)
        values = {"digest": shown, "subject": subject(shown), "attached": attached}
        made = Written(
            _template("mail.html.j2").render(values),
            _template("mail.txt.j2").render(values).strip() + "\n",
        )
        if rows == 1 or len(made.html.encode()) + len(made.text.encode()) <= MAX_BYTES:
            return made
        rows = max(1, rows * 2 // 3)


def compose(
    digest: Digest,
    *,
    sender: str,
    recipient: str,
    message_id: str,
    now: datetime,
    attachments: tuple[Attachment, ...] = (),
) -> EmailMessage:
    """The mail to one recipient."""
    written = write(digest, attachments[0].name if attachments else None)
    message = EmailMessage(policy=_POLICY)
    message["Subject"] = subject(digest)
    message["From"] = sender
    message["To"] = recipient
    message["Date"] = format_datetime(now)
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"  # keeps out-of-office replies away
    message["X-Auditor-Run"] = digest.run_id
    message.set_content(written.text, cte="quoted-printable")
    message.add_alternative(written.html, subtype="html", cte="quoted-printable")
    for attachment in attachments:
        main, _, sub = attachment.media_type.partition("/")
        message.add_attachment(attachment.content, maintype=main, subtype=sub, filename=attachment.name)
    return message


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(room("reports")),
        autoescape=select_autoescape(enabled_extensions=("html.j2",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["money"] = words.money
    made.filters["percent"] = words.percent
    made.filters["unbroken"] = words.unbroken
    made.filters["day_before"] = words.day_before
    made.globals["count"] = words.count
    made.globals["a_month"] = words.a_month
    return made


def _template(name: str) -> Any:
    return _environment().get_template(name)
