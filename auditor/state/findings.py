"""The findings over time: new, open, acknowledged or muted, resolved, reopened, and who said so."""

import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Float, Row, bindparam, cast, func, insert, or_, select, update

from auditor import money
from auditor.errors import SettingsError
from auditor.finding import SEVERITIES, Finding
from auditor.records import FindingChange, FindingDetail, FindingEvent, FindingRecord, MuteRecord
from auditor.state import payload
from auditor.state.book import Book, run_number
from auditor.state.mutes import Scope, covering, covers, in_force
from auditor.state.tables import FINDING_EVENTS, FINDINGS, MUTES, RUNS

_RECORD = tuple(FINDINGS.c[name] for name in FindingRecord._fields)
_GIVEN = tuple(f.name for f in fields(Finding) if f.name in FindingRecord._fields)
_MUTE = tuple(MUTES.c[f.name] for f in fields(MuteRecord))
_REPORTED = ("complete", "partial")  # how a run ends whose report somebody may have read
_NO_ALIASES: Mapping[str, Sequence[str]] = {}


class FindingBook(Book):
    """The findings, their history and the mutes."""

    def record_findings(
        self,
        run_id: str,
        findings: Sequence[Finding],
        judged: AbstractSet[tuple[str, str]],
        *,
        now: datetime | None = None,
        mutes: Sequence[MuteRecord] = (),
        former_ids: Mapping[str, Sequence[str]] = _NO_ALIASES,
        unjudged_accounts: AbstractSet[tuple[str, str]] = frozenset(),
    ) -> list[Finding]:
        """The findings of a run, each with its status, in the order given.

        `judged` holds the (rule_id, provider) pairs whose rule ran over complete data: a known finding of such a pair that
        is not among `findings` is resolved, unless its (provider, sub_account_id) is in `unjudged_accounts`. `mutes` are
        those of the configuration, `former_ids` the ids that renamed rules bore. Recording the same run again changes
        nothing. Raises SettingsError for an unknown run.
        """
        at = now or self._clock()
        pairs = judged | {(old, provider) for rule_id, provider in judged for old in former_ids.get(rule_id, ())}
        with self._database.write() as connection:
            run_number(connection, run_id)
            active = in_force([*mutes, *_mutes(connection)], at)
            known = {row.id: row for row in connection.execute(_STANDING)}
            ended = select(RUNS.c.id).where(RUNS.c.status.in_(_REPORTED), RUNS.c.id != run_id)
            reported = set(connection.execute(ended).scalars())
            changes = _Changes(run_id, at)
            settled: list[Finding] = []
            present: set[str] = set()
            for finding in findings:
                finding_id = finding.id
                row = known.get(finding_id)
                mute = covering(active, _scope(finding, finding_id, former_ids)) if active else None
                settled.append(replace(finding, status=_next_status(row, mute, reported)))
                present.add(finding_id)
                changes.seen(settled[-1], finding_id, row, mute)
            for row in known.values():
                is_judged = (row.rule_id, row.provider) in pairs
                is_judged = is_judged and (row.provider, row.sub_account_id) not in unjudged_accounts
                if is_judged and row.id not in present and row.status != "resolved":
                    changes.gone(row)
            changes.write(connection)
        return settled

    def resolved_in(self, run_id: str) -> list[Finding]:
        """The findings that a run found gone, with the figures of their last sight."""
        query = select(FINDINGS.c.payload).where(FINDINGS.c.resolved_run_id == run_id).order_by(FINDINGS.c.id)
        with self._database.read() as connection:
            return [payload.decode(text, status="resolved") for text in connection.execute(query).scalars()]

    def findings_of(self, run_id: str) -> list[Finding]:
        """The findings that were last seen by a run, as it saw them, but for those that are resolved by now."""
        query = select(FINDINGS.c.payload).where(FINDINGS.c.last_run_id == run_id, FINDINGS.c.status != "resolved")
        with self._database.read() as connection:
            return [payload.decode(text) for text in connection.execute(query.order_by(FINDINGS.c.id)).scalars()]

    def resolved_findings(self, since: datetime) -> list[tuple[FindingRecord, Finding]]:
        """The findings that are resolved since a time, each with the figures of its last sight."""
        query = select(*_RECORD, FINDINGS.c.payload).where(
            FINDINGS.c.status == "resolved", FINDINGS.c.resolved_at >= since
        )
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(FINDINGS.c.id)).all()
        return [(FindingRecord._make(row[:-1]), payload.decode(row.payload, status="resolved")) for row in rows]

    def changes(self, run_id: str, after_run: str | None = None) -> list[FindingChange]:
        """What became of findings in the runs after `after_run` up to `run_id`: one change for each finding that is news.

        A finding that came and went in between, or that is muted by now, is none. Largest net savings first.
        """
        query = (
            select(FINDING_EVENTS.c.finding_id, FINDING_EVENTS.c.status_from, FINDING_EVENTS.c.status_to)
            .join(RUNS, RUNS.c.id == FINDING_EVENTS.c.run_id)
            .order_by(FINDING_EVENTS.c.id)
        )
        with self._database.read() as connection:
            query = query.where(RUNS.c.number <= run_number(connection, run_id))
            if after_run is not None:
                query = query.where(RUNS.c.number > run_number(connection, after_run))
            moves: dict[str, list[tuple[str | None, str]]] = {}
            for finding_id, before, after in connection.execute(query):
                moves.setdefault(finding_id, []).append((before, after))
            kinds = {finding_id: kind for finding_id, path in moves.items() if (kind := _kind(path)) is not None}
            records = []
            wanted = list(kinds)
            for first in range(0, len(wanted), 500):  # SQLite binds a limited number of values
                some = wanted[first : first + 500]
                found = connection.execute(select(*_RECORD).where(FINDINGS.c.id.in_(some)))
                records += [FindingRecord._make(row) for row in found]
        changes = [FindingChange(kinds[record.id], record) for record in records if record.status != "muted"]
        return sorted(changes, key=lambda change: (-change.record.monthly_savings_net, change.record.id))

    def list_findings(
        self,
        *,
        status: Collection[str] | None = None,
        rule: str | None = None,
        provider: str | None = None,
        sub_account_id: str | None = None,
        resource_id: str | None = None,
        owner: str | None = None,
        severity_at_least: str | None = None,
        limit: int | None = None,
    ) -> list[FindingRecord]:
        """The findings that meet every condition given, largest net savings first; `rule` takes `*` and `?`."""
        query = select(*_RECORD)
        for column, wanted in (
            (FINDINGS.c.provider, provider),
            (FINDINGS.c.sub_account_id, sub_account_id),
            (FINDINGS.c.resource_id, resource_id),
            (FINDINGS.c.owner, owner),
        ):
            if wanted is not None:
                query = query.where(column == wanted)
        if status is not None:
            query = query.where(FINDINGS.c.status.in_(list(status)))
        if rule is not None:
            query = query.where(FINDINGS.c.rule_id.like(_like(rule), escape="\\"))
        if severity_at_least is not None:
            query = query.where(FINDINGS.c.severity.in_(_from_severity(severity_at_least)))
        # only the order is a float's: SQLite holds money as text, which sorts 9 above 10
        query = query.order_by(cast(FINDINGS.c.monthly_savings_net, Float).desc(), FINDINGS.c.id).limit(limit)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [FindingRecord._make(row) for row in rows]

    def count_findings(self) -> dict[str, int]:
        """Status -> number of findings."""
        with self._database.read() as connection:
            query = select(FINDINGS.c.status, func.count()).group_by(FINDINGS.c.status)
            return {row[0]: row[1] for row in connection.execute(query)}

    def find_ids(self, beginning: str, limit: int = 6) -> list[str]:
        """The ids that begin so; the one that is exactly so, where there is one."""
        query = select(FINDINGS.c.id).where(FINDINGS.c.id.startswith(beginning, autoescape=True))
        with self._database.read() as connection:
            found = list(connection.execute(query.order_by(FINDINGS.c.id).limit(limit)).scalars())
        return [beginning] if beginning in found else found

    def get_finding(self, finding_id: str) -> FindingDetail:
        """A finding with its last run's evidence and its history. Raises SettingsError for an unknown id."""
        with self._database.read() as connection:
            row = connection.execute(select(*_RECORD, FINDINGS.c.payload).where(FINDINGS.c.id == finding_id)).first()
            if row is None:
                raise _unknown(finding_id)
            events = connection.execute(
                select(*(FINDING_EVENTS.c[f.name] for f in fields(FindingEvent)))
                .where(FINDING_EVENTS.c.finding_id == finding_id)
                .order_by(FINDING_EVENTS.c.id)
            ).all()
        record = FindingRecord._make(row[:-1])
        finding = payload.decode(row.payload, status=record.status)
        return FindingDetail(record, finding, tuple(FindingEvent(*event) for event in events))

    def ack(self, finding_id: str, author: str, note: str | None = None, *, now: datetime | None = None) -> None:
        """Note that somebody knows of a finding; it stays acknowledged until it is resolved.

        Raises SettingsError for an unknown id and for a finding that is resolved.
        """
        with self._database.write() as connection:
            row = connection.execute(_STANDING.where(FINDINGS.c.id == finding_id)).first()
            if row is None:
                raise _unknown(finding_id)
            if row.status == "resolved":
                raise SettingsError(f"finding {finding_id} is resolved: there is nothing to acknowledge")
            status = "muted" if row.status == "muted" else "acknowledged"
            values = {"status": status, "acknowledged_by": author}
            connection.execute(update(FINDINGS).where(FINDINGS.c.id == finding_id).values(values))
            event = _event(row, "acknowledged", now or self._clock(), author=author, note=note)
            connection.execute(insert(FINDING_EVENTS), event)

    def mute(
        self,
        *,
        author: str,
        reason: str,
        rule: str | None = None,
        resource: str | None = None,
        tag: str | None = None,
        account: str | None = None,
        finding_id: str | None = None,
        until: datetime | None = None,
        now: datetime | None = None,
    ) -> MuteRecord:
        """Silence what every given scope matches, from now on; findings already known become muted at once.

        Raises SettingsError without scope, author or reason, and for an `until` that is past or has no zone.
        """
        at = now or self._clock()
        mute = MuteRecord(secrets.token_hex(4), author, reason, rule, resource, tag, account, finding_id, at, until)
        _check(mute, at)
        with self._database.write() as connection:
            if (
                finding_id is not None
                and connection.execute(select(FINDINGS.c.id).where(FINDINGS.c.id == finding_id)).first() is None
            ):
                raise _unknown(finding_id)
            connection.execute(insert(MUTES), {f.name: getattr(mute, f.name) for f in fields(MuteRecord)})
            rows = connection.execute(_SCOPED.where(FINDINGS.c.status.not_in(("muted", "resolved")))).all()
            covered = [row for row in rows if covers(mute, _row_scope(row))]
            _move(connection, [(row, "muted", mute.id) for row in covered], at, author=author, note=reason)
        return mute

    def unmute(self, mute_id: str, author: str, *, now: datetime | None = None) -> None:
        """Remove a mute; its findings become open or acknowledged again. Raises SettingsError for an unknown mute."""
        at = now or self._clock()
        with self._database.write() as connection:
            ours = (MUTES.c.id == mute_id) & MUTES.c.removed_at.is_(None)
            if connection.execute(update(MUTES).where(ours).values(removed_at=at, removed_by=author)).rowcount == 0:
                raise SettingsError(f"no mute has the id {mute_id!r}")
            _release(connection, at, author=author, note="mute removed")

    def expire_mutes(self, now: datetime | None = None) -> int:
        """Give back the findings whose mute has run out; returns how many. `record_findings` does so by itself."""
        with self._database.write() as connection:
            return _release(connection, now or self._clock(), author=None, note="mute expired")

    def mutes_list(self, *, now: datetime | None = None, expired: bool = False) -> list[MuteRecord]:
        """The mutes in force, oldest first; with `expired` those that ran out too."""
        with self._database.read() as connection:
            mutes = _mutes(connection)
        return mutes if expired else in_force(mutes, now or self._clock())


def _kind(path: Sequence[tuple[str | None, str]]) -> str | None:
    """new, resolved, reopened or nothing, for the statuses that a finding went through."""
    is_first, last = path[0][0] is None, path[-1][1]
    if last == "resolved":
        return None if is_first or path[0][0] == "resolved" else "resolved"
    if is_first:
        return "new"
    return "reopened" if any(after == "reopened" for _, after in path) else None


_STANDING_COLUMNS = tuple(
    FINDINGS.c[name]
    for name in (
        "id",
        "rule_id",
        "provider",
        "sub_account_id",
        "status",
        "last_run_id",
        "acknowledged_by",
        "monthly_savings_net",
    )
)
_SCOPE_COLUMNS = tuple(FINDINGS.c[name] for name in ("resource_id", "resource_name", "subject", "tags"))
_STANDING = select(*_STANDING_COLUMNS)
_SCOPED = select(*_STANDING_COLUMNS, *_SCOPE_COLUMNS)


class _Changes:
    """What one run changes, gathered so that each table is written in one go."""

    def __init__(self, run_id: str, at: datetime) -> None:
        self._run_id = run_id
        self._at = at
        self._new: dict[str, dict[str, Any]] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self._gone: list[dict[str, Any]] = []
        self._events: dict[str, dict[str, Any]] = {}

    def seen(self, finding: Finding, finding_id: str, row: Row[Any] | None, mute: MuteRecord | None) -> None:
        values = _values(finding, finding_id)
        values |= {"last_seen": self._at, "last_run_id": self._run_id, "mute_id": mute.id if mute else None}
        if row is None:
            self._new[finding_id] = values | {"first_seen": self._at}
        else:
            self._known[finding_id] = values | {"key": finding_id}
        if row is None or row.status != finding.status:
            self._events[finding_id] = {
                "finding_id": finding_id,
                "run_id": self._run_id,
                "at": self._at,
                "status_from": row.status if row else None,
                "status_to": finding.status,
                "author": mute.author if mute else None,
                "note": mute.reason if mute else None,
                "monthly_savings_net": values["monthly_savings_net"],
            }

    def gone(self, row: Row[Any]) -> None:
        self._gone.append({"key": row.id, "resolved_at": self._at, "resolved_run_id": self._run_id})
        self._events[row.id] = _event(row, "resolved", self._at, run_id=self._run_id)

    def write(self, connection: Connection) -> None:
        by_key = FINDINGS.c.id == bindparam("key")
        if self._new:
            connection.execute(insert(FINDINGS), list(self._new.values()))
        if self._known:
            names = [name for name in next(iter(self._known.values())) if name != "key"]
            values: dict[str, Any] = {name: bindparam(name) for name in names} | {
                "resolved_at": None,
                "resolved_run_id": None,
            }
            connection.execute(update(FINDINGS).where(by_key).values(values), list(self._known.values()))
        if self._gone:
            gone: dict[str, Any] = {name: bindparam(name) for name in ("resolved_at", "resolved_run_id")}
            # a problem that returns is looked at afresh
            gone |= {"status": "resolved", "acknowledged_by": None, "mute_id": None}
            connection.execute(update(FINDINGS).where(by_key).values(gone), self._gone)
        if self._events:
            connection.execute(insert(FINDING_EVENTS), list(self._events.values()))


def _next_status(row: Row[Any] | None, mute: MuteRecord | None, reported: AbstractSet[str]) -> str:
    if mute is not None:
        return "muted"
    if row is None:
        return "new"
    if row.status == "resolved":
        return "reopened"
    if row.status == "muted":
        return _unmuted(row)
    if row.status in ("new", "reopened") and row.last_run_id in reported:
        return "open"  # until a report has shown it, it is still news
    return str(row.status)


def _unmuted(row: Row[Any]) -> str:
    return "open" if row.acknowledged_by is None else "acknowledged"


def _values(finding: Finding, finding_id: str) -> dict[str, Any]:
    values = {name: _storable(getattr(finding, name)) for name in _GIVEN}
    for name in ("monthly_cost", "monthly_savings", "monthly_savings_net"):
        values[name] = money.quantise(values[name])
    values["tags"] = json.dumps(dict(finding.tags))
    return values | {"id": finding_id, "payload": payload.encode(finding)}


def _storable(value: Any) -> Any:
    # names come from bills and tags as people typed them; PostgreSQL's text takes no NUL, UTF-8 no lone surrogate
    return value.replace("\0", "").encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _event(row: Row[Any], status: str, at: datetime, **more: str | None) -> dict[str, Any]:
    """An event of a known finding; all of one insert have the same keys."""
    return {
        "finding_id": row.id,
        "run_id": more.get("run_id"),
        "at": at,
        "status_from": row.status,
        "status_to": status,
        "author": more.get("author"),
        "note": more.get("note"),
        "monthly_savings_net": row.monthly_savings_net,
    }


def _move(
    connection: Connection,
    moves: Sequence[tuple[Row[Any], str, str | None]],
    at: datetime,
    *,
    author: str | None,
    note: str | None,
) -> None:
    """Give findings another status or another mute, with an event where the status changes."""
    if moves:
        values: dict[str, Any] = {"status": bindparam("to"), "mute_id": bindparam("by")}
        parameters = [{"key": row.id, "to": status, "by": mute_id} for row, status, mute_id in moves]
        connection.execute(update(FINDINGS).where(FINDINGS.c.id == bindparam("key")).values(values), parameters)
    events = [_event(row, status, at, author=author, note=note) for row, status, _ in moves if status != row.status]
    if events:
        connection.execute(insert(FINDING_EVENTS), events)


def _release(connection: Connection, at: datetime, *, author: str | None, note: str) -> int:
    """Move on the findings whose stored mute is over; a mute of the configuration is not judged here."""
    over = select(MUTES.c.id).where(or_(MUTES.c.removed_at.is_not(None), MUTES.c.until <= at))
    rows = connection.execute(_SCOPED.where(FINDINGS.c.status == "muted", FINDINGS.c.mute_id.in_(over))).all()
    active = in_force(_mutes(connection), at)
    moves: list[tuple[Row[Any], str, str | None]] = []
    for row in rows:
        other = covering(active, _row_scope(row))
        moves.append((row, "muted", other.id) if other else (row, _unmuted(row), None))
    _move(connection, moves, at, author=author, note=note)
    return sum(status != "muted" for _, status, _ in moves)


def _mutes(connection: Connection) -> list[MuteRecord]:
    query = select(*_MUTE).where(MUTES.c.removed_at.is_(None)).order_by(MUTES.c.created_at, MUTES.c.id)
    return [MuteRecord(*row) for row in connection.execute(query)]


def _scope(finding: Finding, finding_id: str, former_ids: Mapping[str, Sequence[str]]) -> Scope:
    return Scope(
        finding_id,
        (finding.rule_id, *former_ids.get(finding.rule_id, ())),
        finding.resource_id,
        finding.resource_name,
        finding.subject,
        finding.sub_account_id,
        finding.tags,
    )


def _row_scope(row: Row[Any]) -> Scope:
    tags = json.loads(row.tags)
    return Scope(row.id, (row.rule_id,), row.resource_id, row.resource_name, row.subject, row.sub_account_id, tags)


def _check(mute: MuteRecord, now: datetime) -> None:
    scopes: Iterable[str | None] = (mute.rule, mute.resource, mute.tag, mute.account, mute.finding_id)
    if not any(scopes):
        raise SettingsError("a mute needs a scope: a finding, rule, resource, tag or account")
    if not mute.author.strip() or not mute.reason.strip():
        raise SettingsError(
            "a mute needs an author and a reason: give --reason (and --author, where your user name is none)"
        )
    if mute.until is not None and mute.until.tzinfo is None:
        raise SettingsError(f"a mute's end needs a time zone, got {mute.until.isoformat()}")
    if mute.until is not None and mute.until <= now:
        raise SettingsError(f"a mute's end lies ahead, got {mute.until.isoformat()}")


def _like(glob: str) -> str:
    escaped = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%").replace("?", "_")


def _from_severity(least: str) -> Sequence[str]:
    if least not in SEVERITIES:
        raise SettingsError(f"no severity is called {least!r}; there are {', '.join(SEVERITIES)}")
    return SEVERITIES[SEVERITIES.index(least) :]


def _unknown(finding_id: str) -> SettingsError:
    return SettingsError(f"no finding has the id {finding_id!r}; `auditor findings list` shows those there are")
