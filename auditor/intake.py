"""Takes bills in: deliveries found among the landing files, read, written to the lake, and remembered."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from auditor import bills
from auditor.bills import AccountTotal, Bill
from auditor.errors import LakeError, SourceError
from auditor.lake import store
from auditor.landing import SourceReport
from auditor.normalise.billing import deliveries, manifests, reexports
from auditor.normalise.billing.deliveries import Delivery
from auditor.normalise.billing.ingest import Ingested, delivery_id, ingest
from auditor.normalise.recognise import Sorted
from auditor.progress import Progress, step
from auditor.records import DeliveryRecord, LakeFileRecord
from auditor.state import State
from auditor.tagging import TagSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Place:
    """Where bills are taken in: one run's connection, state and folders."""

    con: duckdb.DuckDBPyConnection
    state: State
    run_id: str
    data_dir: Path
    spool: Path
    tags: TagSettings


@dataclass(frozen=True)
class Taken:
    """What was taken in: one report for each delivery, and which bills each of those became that could be read."""

    reports: list[SourceReport]
    deliveries: list[tuple[Delivery, list[Bill]]]


def take_bills(
    found: Sorted,
    con: duckdb.DuckDBPyConnection,
    state: State,
    run_id: str,
    data_dir: Path,
    spool: Path,
    tags: TagSettings,
    progress: Progress,
) -> Taken:
    """Takes in every delivery that is new; each stands or falls on its own."""
    place = _Place(con, state, run_id, data_dir, spool, tags)
    parsed = [manifests.parse(file) for file in found.recognised if file.kind == "manifest"]
    billing = [file for file in found.recognised if file.kind == "billing"]
    current, outdated = deliveries.group(billing, parsed)
    reports = [_not_read(old.delivery, "skipped", old.reason) for old in outdated]
    with step(progress, "Reading the bills", sum(file.file.size for delivery in current for file in delivery.files)):
        taken: list[tuple[Delivery, list[Bill]]] = []
        for together in current:
            for delivery in _apart(place, together, reports):
                try:
                    taken.append(
                        (delivery, _take_delivery(place, delivery, delivery_id(delivery, found.digests, tags)))
                    )
                except SourceError as error:
                    reports.append(_not_read(delivery, "failed", str(error)))
                except LakeError:
                    raise  # without a place to write to, no other delivery fares better
                except Exception as error:
                    log.exception("delivery failed source=%s", delivery.source)
                    reason = f"cannot be read ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'})"
                    reports.append(
                        _not_read(delivery, "failed", f"{delivery.names[0]}: {reason}; the rest was audited")
                    )
            progress.advance(sum(file.file.size for file in together.files))
    records = {record.id: record for record in state.deliveries(status=None)}
    return Taken(reports + [_report(delivery, made, records) for delivery, made in taken], taken)


def _apart(place: _Place, delivery: Delivery, reports: list[SourceReport]) -> Iterable[Delivery]:
    try:
        return reexports.apart(place.con, delivery, place.spool)
    except SourceError as error:
        reports.append(_not_read(delivery, "failed", str(error)))
        return ()


def _not_read(delivery: Delivery, status: str, reason: str) -> SourceReport:
    periods = [delivery.period] if delivery.period else []
    return SourceReport(
        delivery.provider, "billing", delivery.format, delivery.names, len(delivery.files), 0, periods, status, reason
    )


def _take_delivery(place: _Place, delivery: Delivery, id_: str) -> list[Bill]:
    """The delivery's bills, read now or known from an earlier run with the very same content."""
    known = [record for record in place.state.deliveries(status=None) if record.digest == id_]
    if known and all(record.status == "live" for record in known):
        return [bills.from_record(record) for record in known]
    ingested = ingest(
        place.con, delivery, id_, place.spool, place.tags, lambda text: log.info("delivery read %s", text)
    )
    if not ingested.totals and (ingested.is_damaged or delivery.expected_rows):
        raise SourceError("; ".join(ingested.messages))  # no bill is left to say it
    invoiced = _invoiced(place, ingested)
    prepared = [_prepare(place, ingested, bill, id_) for bill in _bills(ingested, invoiced)]
    # The periods of one delivery become live together: a run that dies in between leaves none of them.
    place.state.commit_deliveries(place.run_id, [each.commit for each in prepared if each.commit is not None])
    taken = [each.bill for each in prepared]
    for table in (ingested.keys, ingested.charges, ingested.hourly):
        place.con.execute(f"drop table {table}")
    return taken


def _invoiced(place: _Place, ingested: Ingested) -> set[str]:
    """Ids of the bills all of whose lines bear an invoice: those that are final."""
    found = place.con.execute(
        f"select delivery_id from {ingested.keys} group by delivery_id having count(*) = count(InvoiceId)"
    )
    return {row[0] for row in found.fetchall()}


def _bills(ingested: Ingested, invoiced: set[str]) -> list[Bill]:
    """One bill for each billing period and provider: a FOCUS file may hold several of both."""
    made = []
    for bill_id, provider, period in sorted({(t.bill_id, t.provider, t.billing_period) for t in ingested.totals}):
        totals = tuple(
            AccountTotal(
                t.billing_account_id,
                t.sub_account_id,
                t.billing_period,
                t.currency,
                t.source_billed_cost,
                t.lake_billed_cost,
                t.source_rows,
                t.bill_day.isoformat() if t.bill_day else None,
            )
            for t in ingested.totals
            if t.bill_id == bill_id
        )
        account, delivery = min(total.billing_account_id for total in totals), ingested.delivery
        made.append(
            Bill(
                id=bill_id,  # as the charges' delivery_id
                provider=provider,
                source="/".join([provider, account, delivery.source, *([ingested.role] if ingested.role else [])]),
                format=delivery.format,
                role=ingested.role,
                billing_period=period,
                paths=tuple(delivery.names),
                rows=sum(total.rows for total in totals),
                totals=totals,
                has_resource_ids=ingested.has_resource_ids,
                is_net=ingested.is_net,
                newest_charge=ingested.newest_charge,
                delivered_at=delivery.time,
                messages=ingested.messages,
                is_damaged=ingested.is_damaged,
                is_whole=ingested.is_whole,
                is_monthly=ingested.is_monthly,
                is_invoiced=bill_id in invoiced,
            )
        )
    return made


@dataclass(frozen=True)
class _Prepared:
    """A bill whose files are written, and what makes them live; nothing where a newer delivery stays in its stead."""

    bill: Bill
    commit: tuple[DeliveryRecord, Sequence[LakeFileRecord], Sequence[str]] | None


def _prepare(place: _Place, ingested: Ingested, bill: Bill, digest: str) -> _Prepared:
    """Writes one bill's files; a newer delivery of the same export that covers it stays instead."""
    live = [bills.from_record(record) for record in place.state.deliveries() if record.identities]
    placement = bills.place(bill, [other for other in live if other.id != bill.id])
    if placement.outdated_by is not None:
        log.info("delivery is older than the live one source=%s period=%s", bill.source, bill.billing_period)
        return _Prepared(bills.with_note(bill, bills.outdated_note(bill, placement.outdated_by)), None)
    files = store.write_delivery(
        place.con,
        place.data_dir,
        keys=ingested.keys,
        charges=ingested.charges,
        hourly=ingested.hourly,
        provider=bill.provider,
        source=placement.source,
        delivery_id=bill.id,
        billing_period=bill.billing_period,
    )
    record = DeliveryRecord(
        id=bill.id,
        provider=bill.provider,
        source=placement.source,
        billing_account_id=bill.totals[0].billing_account_id,
        format=bill.format,
        role=bill.role,
        billing_period=bill.billing_period,
        digest=digest,
        delivered_at=bill.delivered_at,
        rows=bill.rows,
        identities=bills.to_summary(bill),
        status="live",
    )
    return _Prepared(bill, (record, files, [other.id for other in placement.supersedes]))


def _report(delivery: Delivery, made: Sequence[Bill], records: Mapping[str, DeliveryRecord]) -> SourceReport:
    """The delivery's entry; what another delivery of this run outdated says so, and counts for nothing."""
    messages = list(dict.fromkeys(message for bill in made for message in bill.messages))
    live = [bill for bill in made if bill.id in records and records[bill.id].status == "live"]
    for bill in made:
        newer = records[bill.id].superseded_by if bill.id in records and bill not in live else None
        if newer is not None and newer in records:
            messages.append(bills.outdated_note(bill, bills.from_record(records[newer])))
    damaged = any(bill.is_damaged for bill in made)
    return SourceReport(
        provider=delivery.provider
        if not made
        else made[0].provider
        if len({bill.provider for bill in made}) == 1
        else None,
        kind="billing",
        format=delivery.format,
        paths=delivery.names,
        files=len(delivery.files),
        rows=sum(bill.rows for bill in made),
        billing_periods=sorted({bill.billing_period for bill in made}),
        status="failed" if damaged else "ok" if live or not made else "skipped",
        message="; ".join(messages) or (None if made else "the export has no rows: no data, not zero spend"),
    )
