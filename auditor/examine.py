"""`auditor doctor`: what is configured, reachable and missing, and what was left undone."""

import importlib.util
import shutil
import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from auditor import collect, secret
from auditor.checks import Check
from auditor.daemon import describe
from auditor.errors import AuditorError, SettingsError
from auditor.readiness import readiness
from auditor.settings import Settings
from auditor.state import State

_REACH_SECONDS = 5.0
_LOW_DISK = 2 * 2**30  # a month of a large bill, ingested, fits into this


def examine(settings: Settings, data_dir: Path, now: datetime) -> list[Check]:
    """Every check, in the order in which they depend on one another; none stops the others."""
    return [
        *_data_dir(data_dir),
        *_sources(settings),
        *_live_sources(settings),
        *_rules(settings, data_dir),
        *_secrets(settings),
        *_outlets(settings),
        *_schedule(settings, now),
        *_state(settings, data_dir, now),
    ]


def _data_dir(data_dir: Path) -> Iterator[Check]:
    subject = f"data directory {data_dir}"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        probe = data_dir / ".auditor-doctor"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        yield Check("bad", subject, f"cannot be written: {error.strerror}")
        return
    free = shutil.disk_usage(data_dir).free
    yield Check("warn" if free < _LOW_DISK else "ok", subject, f"writable, {free / 10**9:,.1f} GB free")


def _sources(settings: Settings) -> Iterator[Check]:
    if not settings.sources.files and not collect.live_sources(settings):
        yield Check(
            "warn", "sources", "none is configured: `auditor scan PATH` audits files, `auditor serve` needs sources"
        )
    for source in settings.sources.files:
        for name in source.paths:
            path = Path(name).expanduser()
            is_there = "://" in name or path.exists()
            yield Check(
                "ok" if is_there else "bad",
                f"source {source.name}",
                f"{name} {'' if is_there else 'does not exist'}".strip(),
            )


def _live_sources(settings: Settings) -> Iterator[Check]:
    yield from collect.check(settings)


def _rules(settings: Settings, data_dir: Path) -> Iterator[Check]:
    try:
        yield from readiness(settings, _newest_document(settings, data_dir))
    except AuditorError as error:
        yield Check("bad", "rules", str(error))


def _newest_document(settings: Settings, data_dir: Path) -> dict[str, Any] | None:
    """The newest audit's report; null where there is none, or where its state cannot be opened, which is told elsewhere."""
    if settings.state.url is None and not (data_dir / "state.db").is_file():
        return None
    try:
        with State.open(settings.state.address(data_dir)) as state:
            return state.run_document()
    except AuditorError:
        return None


def _secrets(settings: Settings) -> Iterator[Check]:
    for where, reference in _references(settings):
        try:
            secret.resolve(reference)
        except SettingsError as error:
            yield Check("bad", where, str(error))
        else:
            yield Check("ok", where, f"{reference} is there")


def _references(settings: Settings) -> Iterator[tuple[str, str]]:
    delivery = settings.delivery
    if settings.state.password:
        yield "[state] password", settings.state.password
    if delivery.smtp and delivery.smtp.password:
        yield "[delivery.smtp] password", delivery.smtp.password
    if delivery.webhook:
        yield "[delivery.webhook] secret", delivery.webhook.secret
        if "://" not in delivery.webhook.url:
            yield "[delivery.webhook] url", delivery.webhook.url
    for url in delivery.apprise.urls if delivery.apprise else ():
        yield "[delivery.apprise] urls", url


def _outlets(settings: Settings) -> Iterator[Check]:
    delivery = settings.delivery
    if not any((delivery.smtp, delivery.apprise, delivery.webhook, delivery.files)):
        yield Check("warn", "delivery", "nobody gets a report: configure [delivery.smtp], .apprise, .webhook or .files")
    if delivery.smtp:
        yield _reach("[delivery.smtp]", delivery.smtp.host, delivery.smtp.port)
        if not delivery.smtp.recipients and not delivery.smtp.owners:
            yield Check("bad", "[delivery.smtp]", "has neither recipients nor owners")
    if delivery.webhook and "://" in delivery.webhook.url:
        parts = urlsplit(delivery.webhook.url)
        yield _reach("[delivery.webhook]", parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    if delivery.apprise and importlib.util.find_spec("apprise") is None:
        yield Check("bad", "[delivery.apprise]", "apprise is not installed: install auditor[chat]")


def _reach(subject: str, host: str, port: int) -> Check:
    try:
        socket.create_connection((host, port), _REACH_SECONDS).close()
    except OSError as error:
        return Check("bad", subject, f"{host}:{port} cannot be reached: {error.strerror or error}")
    return Check("ok", subject, f"{host}:{port} answers")


def _schedule(settings: Settings, now: datetime) -> Iterator[Check]:
    for job, cron in settings.schedule.crons().items():
        due = cron.next(now)
        subject = f"schedule of {job}"
        if due is None:
            yield Check("bad", subject, f"{cron.expression!r} never comes")
        else:
            yield Check("ok", subject, f"next {due.slot} {cron.zone}")


def _state(settings: Settings, data_dir: Path, now: datetime) -> Iterator[Check]:
    subject = "state"
    if settings.state.url is None and not (data_dir / "state.db").is_file():
        yield Check("warn", subject, "there is none yet: no audit was run with this data directory")
        return
    try:
        with State.open(settings.state.address(data_dir)) as state:
            yield Check("ok", subject, "opens, its schema is current")
            yield from _runs(state, now)
            yield from _slots(state, now)
            yield from _notifications(state, now)
    except AuditorError as error:
        yield Check("bad", subject, str(error))


def _runs(state: State, now: datetime) -> Iterator[Check]:
    runs = state.runs_list(20)
    good = next((run for run in runs if run.status in ("complete", "partial")), None)
    if good is None:
        yield Check("warn", "audits", "none has ended well yet")
        return
    age = now - good.started_at
    yield Check(
        "warn" if age > timedelta(days=8) else "ok", "audits", f"the newest that ended well is {good.id}, {good.status}"
    )
    for run in runs[: runs.index(good)]:
        yield Check("bad" if run.status != "running" else "ok", "audits", f"{run.id} since then is {run.status}")


def _slots(state: State, now: datetime) -> Iterator[Check]:
    for slot in state.slots(200):
        if slot.status == "failed" and slot.slot_at > now - timedelta(days=35):
            yield Check("warn" if slot.retry_at else "bad", "slot", describe(slot))
    for slot in state.unfinished_jobs(now=now):
        if slot.status == "running":
            yield Check("bad", "slot", f"{describe(slot)}: its daemon died; the next `auditor serve` takes it over")


def _notifications(state: State, now: datetime) -> Iterator[Check]:
    state.settle_unknown(now=now)
    for each in state.notifications(status="unknown"):
        yield Check(
            "bad",
            f"{each.channel} to {each.recipient}",
            f"nobody knows whether the {each.slot} arrived: {each.error}; "
            f"`auditor send --force --kind {each.slot.partition(' ')[0]} --slot {each.slot.partition(' ')[2]}` sends it again",
        )
    for each in state.notifications(status="failed"):
        again = f", again at {each.retry_at:%Y-%m-%d %H:%M} UTC" if each.retry_at else ", given up"
        yield Check(
            "warn" if each.retry_at else "bad",
            f"{each.channel} to {each.recipient}",
            f"the {each.slot} failed{again}: {each.error}",
        )
