"""Takes the report of a slot of the schedule to everybody who wants it, each at most once."""

import hashlib
import logging
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from email.utils import parseaddr
from pathlib import Path
from typing import Any

from auditor import deliver, render, secret
from auditor.deliver import Attachment, Digest, NotHandedOver, Saved
from auditor.errors import AuditorError, LakeError, SettingsError
from auditor.records import Claim, NotificationRecord
from auditor.settings import Settings, SmtpSettings
from auditor.state import State
from auditor.stored import load_extras

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 6
_LOOKED_AT = 2000  # the newest notifications; what is older was told in a mail long ago
# Mail addresses are personal: logs name a recipient by this many digits of a hash.
_SHORT = 8


@dataclass(frozen=True)
class Recipient:
    """One reader, or one channel. `name` is the address, without any token of it."""

    channel: str
    name: str
    owner: str | None = None
    reference: str | None = None  # of the address, where that is a secret

    @property
    def key(self) -> str:
        """What the state knows this reader as: one address may get the whole report and an owner's."""
        return self.name if self.owner is None else f"{self.name} for {self.owner}"


@dataclass(frozen=True)
class Outcome:
    """What became of one recipient's report. `status` is sent, skipped, failed, unknown or untouched (already dealt with).

    With `retry_at` it is not over: what failed, or what another sender has in its hands, must be looked at again then.
    """

    recipient: Recipient
    status: str
    error: str | None = None
    retry_at: datetime | None = None


@dataclass(frozen=True)
class Report:
    """A stored run, ready to be sent."""

    run_id: str
    started_at: datetime
    document: Mapping[str, Any]
    extras: render.Extras


def load_report(state: State, run_id: str | None = None) -> Report:
    """The report of a run, of the newest without an id. Raises SettingsError where there is none."""
    run = state.get_run(run_id)
    document = None if run is None else state.run_document(run.id)
    if run is None or document is None:
        raise SettingsError("there is no report to send: no audit with this state has ended yet")
    return Report(run.id, run.started_at, document, load_extras(state.run_extras(run.id)))


def recipients(settings: Settings, kind: str) -> list[Recipient]:
    """Everybody who wants this kind of report."""
    delivery = settings.delivery
    found: list[Recipient] = []
    if delivery.smtp and kind in delivery.smtp.send:
        found += [Recipient("smtp", address) for address in dict.fromkeys(delivery.smtp.recipients)]
        for owner, addresses in delivery.smtp.owners.items():
            found += [Recipient("smtp", address, owner) for address in dict.fromkeys(addresses)]
    if delivery.apprise and kind in delivery.apprise.send:
        found += [Recipient("apprise", url, reference=url) for url in dict.fromkeys(delivery.apprise.urls)]
    if delivery.webhook and kind in delivery.webhook.send:
        found.append(Recipient("webhook", delivery.webhook.url))
    if delivery.files and kind in delivery.files.send:
        found.append(Recipient("files", delivery.files.path))
    return found


def current_slot(settings: Settings, kind: str, now: datetime) -> str:
    """The newest slot of the schedule that is due; the day, where this kind is not scheduled."""
    cron = settings.schedule.crons().get(kind)
    due = None if cron is None else cron.last(now)
    return f"{now:%Y-%m-%d}" if due is None else due.slot


def send_slot(
    state: State,
    settings: Settings,
    kind: str,
    slot: str,
    clock: Callable[[], datetime],
    *,
    run_id: str | None = None,
    force: bool = False,
) -> list[Outcome]:
    """Send the report of a slot to everybody who has not got it yet.

    Each recipient's slot is claimed before anything is made, marked as being handed over before the first byte of the
    message goes out, and only then said to be sent, failed or unknown. What failed is claimed again at its `retry_at` by
    the next call; what is unknown only with `force`. One recipient's failure does not keep others waiting.
    """
    state.settle_unknown(now=clock())
    report = load_report(state, run_id)
    return [_send(state, settings, report, kind, slot, each, clock, force) for each in recipients(settings, kind)]


def preview(
    state: State, settings: Settings, kind: str, slot: str, now: datetime, run_id: str | None = None
) -> Iterator[tuple[Recipient, Digest]]:
    """What `send_slot` would say, to whom."""
    report = load_report(state, run_id)
    for each in recipients(settings, kind):
        yield each, _digest(state, settings, report, kind, slot, each, now)


def _send(
    state: State,
    settings: Settings,
    report: Report,
    kind: str,
    slot: str,
    recipient: Recipient,
    clock: Callable[[], datetime],
    force: bool,
) -> Outcome:
    name = f"{kind} {slot}"
    claim = state.claim_slot(
        recipient.channel,
        recipient.key,
        name,
        message_id=_message_id(settings, recipient, name),
        run_id=report.run_id,
        force=force,
        now=clock(),
    )
    if claim is None:
        again = state.slot_free_at(recipient.channel, recipient.key, name, now=clock())
        why = None if again is None else "another sender is at it, or it is to be tried again later"
        return Outcome(recipient, "untouched", why, again)
    is_out = False

    def handing_over() -> None:
        nonlocal is_out
        _about_to(state, claim, clock)
        is_out = True

    try:
        digest = _digest(state, settings, report, kind, slot, recipient, clock())
        if kind == "digest" and not digest.has_news:
            state.slot_skipped(claim, "nothing new")
            return Outcome(recipient, "skipped", "nothing new")
        _hand_over(settings, report, digest, recipient, claim, clock, handing_over)
    except LakeError:
        raise  # without the state nothing can be noted: what was claimed is settled once it is back
    except (NotHandedOver, SettingsError) as error:
        return _failed(state, claim, recipient, error, clock())
    except Exception as error:
        # whatever it is, it is this reader's alone: the others get theirs
        log.debug("delivery broke", exc_info=True)
        if not is_out:
            return _failed(state, claim, recipient, error, clock())
        state.slot_unknown(claim, _say(error))
        log.warning("delivery unknown channel=%s recipient=%s slot=%s", recipient.channel, _short(recipient), name)
        return Outcome(recipient, "unknown", _say(error))
    state.slot_sent(claim, now=clock())
    log.info("delivery sent channel=%s recipient=%s slot=%s", recipient.channel, _short(recipient), name)
    return Outcome(recipient, "sent")


def _about_to(state: State, claim: Claim, clock: Callable[[], datetime]) -> None:
    if not state.slot_sending(claim, now=clock()):
        raise NotHandedOver("another sender took this slot over", again=False)


def _failed(state: State, claim: Claim, recipient: Recipient, error: Exception, now: datetime) -> Outcome:
    is_final = claim.attempt >= MAX_ATTEMPTS or (isinstance(error, NotHandedOver) and not error.again)
    retry_at = None if is_final else now + min(timedelta(minutes=2**claim.attempt), timedelta(hours=1))
    state.slot_failed(claim, _say(error), retry_at=retry_at)
    log.warning(
        "delivery failed channel=%s recipient=%s attempt=%d retry_at=%s reason=%s",
        recipient.channel,
        _short(recipient),
        claim.attempt,
        retry_at and retry_at.isoformat(),
        "see `auditor doctor`",
    )
    return Outcome(recipient, "failed", _say(error), retry_at)


def _say(error: Exception) -> str:
    return str(error) if isinstance(error, (AuditorError, OSError)) else f"{type(error).__name__}: {error}"


def _digest(
    state: State, settings: Settings, report: Report, kind: str, slot: str, recipient: Recipient, now: datetime
) -> Digest:
    outlet = getattr(settings.delivery, recipient.channel)
    last = state.last_reported_run(recipient.channel, recipient.key, kind=kind, before_slot=f"{kind} {slot}")
    realised = [] if recipient.owner else _saved(state, now)
    return deliver.make_digest(
        _as_of_now(state, report.document),
        state.changes(report.run_id, last) if last != report.run_id else (),
        kind=kind,
        is_first=last is None,
        realised=realised,
        notices=[*report.extras.notices, *_age(settings, report, now)],
        unknown=[_tell(each) for each in _unknown(state, recipient, f"{kind} {slot}")],
        owner=recipient.owner,
        min_savings=Decimal(outlet.min_savings),
        rows=outlet.rows,
        report_url=outlet.report_url,
    )


def _saved(state: State, now: datetime) -> list[Saved]:
    """What the bills show of the findings that are resolved within the year, beside what was estimated."""
    resolved = {finding.id: finding for _, finding in state.resolved_findings(now - timedelta(days=366))}
    return [
        Saved(saving, resolved[saving.finding_id], saving.estimated_savings)
        for saving in state.realised_savings()
        if saving.finding_id in resolved and saving.estimated_savings is not None
    ]


def _as_of_now(state: State, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with the findings that were muted since its run silent: nobody wants to be told of them again."""
    muted = {record.id for record in state.list_findings(status=["muted"])}
    findings = [{**each, "status": "muted"} if each["id"] in muted else each for each in document["findings"]]
    return {**document, "findings": findings}


def _age(settings: Settings, report: Report, now: datetime) -> list[str]:
    """An audit that did not run is news, as data that did not come is."""
    days = (now - report.started_at).days
    if days <= settings.audit.max_data_age:
        return []
    return [f"The newest audit is {days} days old: later ones failed or did not run."]


def _unknown(state: State, recipient: Recipient, slot: str) -> list[NotificationRecord]:
    """Reports to this reader, since the last that certainly arrived, of which nobody knows whether they did."""
    mine = [
        each
        for each in state.notifications(limit=_LOOKED_AT)
        if (each.channel, each.recipient) == (recipient.channel, recipient.key) and each.slot != slot
    ]
    arrived = max((each.claimed_at for each in mine if each.status == "sent"), default=None)
    return [each for each in mine if each.status == "unknown" and (arrived is None or each.claimed_at > arrived)]


def _tell(each: NotificationRecord) -> str:
    return f"the {each.slot} of {each.claimed_at:%Y-%m-%d %H:%M} UTC"


def _hand_over(
    settings: Settings,
    report: Report,
    digest: Digest,
    recipient: Recipient,
    claim: Claim,
    clock: Callable[[], datetime],
    handing_over: deliver.Handover,
) -> None:
    delivery = settings.delivery
    if recipient.channel == "smtp" and delivery.smtp:
        message = compose_mail(delivery.smtp, report, digest, recipient, claim.message_id, clock())
        smtp = delivery.smtp
        deliver.hand_over_mail(
            message,
            host=smtp.host,
            port=smtp.port,
            security=smtp.security,
            username=smtp.username,
            password=None if smtp.password is None else secret.resolve(smtp.password),
            ca_file=smtp.ca_file,
            timeout=smtp.timeout,
            handing_over=handing_over,
        )
    elif recipient.channel == "apprise" and recipient.reference:
        deliver.hand_over_chat(digest, secret.resolve(recipient.reference), handing_over)
    elif recipient.channel == "webhook" and delivery.webhook:
        hook = delivery.webhook
        deliver.hand_over_webhook(
            digest,
            url=hook.url if "://" in hook.url else secret.resolve(hook.url),
            secret=secret.resolve(hook.secret),
            message_id=claim.message_id,
            now=clock(),
            ca_file=hook.ca_file,
            timeout=hook.timeout,
            handing_over=handing_over,
        )
    elif delivery.files:
        with _rendered(report.document, report.extras, delivery.files.formats) as files:
            place = delivery.files
            deliver.drop(files, place.path, report.run_id, handing_over, endpoint_url=place.endpoint_url)


def compose_mail(
    smtp: SmtpSettings, report: Report, digest: Digest, recipient: Recipient, message_id: str, now: datetime
) -> Any:
    """The mail of one recipient with what is attached: the whole report, or an owner's findings as a table."""
    return deliver.compose(
        digest,
        sender=smtp.sender,
        recipient=recipient.name,
        message_id=message_id,
        now=now,
        attachments=_attachments(smtp, report, recipient),
    )


def _attachments(smtp: SmtpSettings, report: Report, recipient: Recipient) -> tuple[Attachment, ...]:
    if not smtp.attach:
        return ()
    day = report.document["run"]["as_of"] or report.run_id
    if recipient.owner is not None:
        own = [f for f in report.document["findings"] if (f["owner"] or "").casefold() == recipient.owner.casefold()]
        with _rendered({**report.document, "findings": own}, report.extras, ["csv"]) as files:
            content = files[0].read_bytes()
        return (Attachment(f"findings-{day}.csv", "text/csv", content),)
    with _rendered(report.document, report.extras, ["html"]) as files:
        content = files[0].read_bytes()
    if len(content) > smtp.max_attachment_bytes:
        return ()
    return (Attachment(f"auditor-report-{day}.html", "text/html", content),)


@contextmanager
def _rendered(document: Mapping[str, Any], extras: render.Extras, formats: Sequence[str]) -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory(prefix="auditor-") as folder:
        yield render.render(document, extras, formats, Path(folder))


def _message_id(settings: Settings, recipient: Recipient, slot: str) -> str:
    """The same for every attempt at this slot and reader, so that a mail sent by force is seen to be the same mail."""
    sender = settings.delivery.smtp.sender if settings.delivery.smtp else ""
    domain = parseaddr(sender)[1].rpartition("@")[2] or socket.gethostname()
    key = "\x1f".join((recipient.channel, recipient.key, slot, domain))
    return f"<auditor-{hashlib.sha256(key.encode()).hexdigest()[:24]}@{domain}>"


def _short(recipient: Recipient) -> str:
    return hashlib.sha256(recipient.key.encode()).hexdigest()[:_SHORT]
