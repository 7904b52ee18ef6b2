"""The deliveries taken in and the lake's files, which change together or not at all."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, or_, select, update

from auditor import money
from auditor.records import DeliveryRecord, LakeFileRecord
from auditor.state.book import Book, run_number
from auditor.state.tables import DELIVERIES, LAKE_FILES, RUNS

_UNTIL = RUNS.alias("until_run")


class DeliveryBook(Book):
    """The deliveries and the files of the lake."""

    def commit_deliveries(
        self, run_id: str, together: Sequence[tuple[DeliveryRecord, Sequence[LakeFileRecord], Sequence[str]]]
    ) -> list[str]:
        """Take in all that came as one, such as the billing periods of one export, whole and at once.

        Each is a delivery, its files and the ids of the deliveries that it supersedes. Its files become live; those of
        the live delivery of its source and billing period, and of the superseded ones, stop being so. Returns the ids
        under which the deliveries are live: the same digest again changes nothing, its id is then the earlier
        delivery's, and its files stay unreferenced. A delivery whose status is not `live` supersedes nothing.
        """
        with self._database.write() as connection:
            number = run_number(connection, run_id)
            return [_commit(connection, number, run_id, *each) for each in together]

    def deliveries(self, *, status: str | None = "live", run_id: str | None = None) -> list[DeliveryRecord]:
        """The deliveries, by provider, source and billing period; with `run_id` those that this run took in."""
        query = select(DELIVERIES).order_by(
            DELIVERIES.c.provider, DELIVERIES.c.source, DELIVERIES.c.billing_period, DELIVERIES.c.id
        )
        if status is not None:
            query = query.where(DELIVERIES.c.status == status)
        if run_id is not None:
            query = query.where(DELIVERIES.c.run_id == run_id)
        with self._database.read() as connection:
            return [_delivery(row) for row in connection.execute(query)]

    def live_files(self, table: str | None = None, run_id: str | None = None) -> list[LakeFileRecord]:
        """The files of a table (of all tables without one) that are live now, or that were so when a run had ended."""
        with self._database.read() as connection:
            condition: ColumnElement[bool] = LAKE_FILES.c.live_until.is_(None)
            if run_id is not None:
                number = run_number(connection, run_id)
                condition = and_(LAKE_FILES.c.live_from <= number, or_(condition, LAKE_FILES.c.live_until > number))
            if table is not None:
                condition = and_(condition, LAKE_FILES.c.table_name == table)
            return _files(connection, condition)

    def unreferenced(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that no run, past or present, knows: what killed runs left behind."""
        with self._database.read() as connection:
            known = set(connection.execute(select(LAKE_FILES.c.path)).scalars())
        return [path for path in paths if path not in known]

    def forget_files(self, before: datetime) -> list[str]:
        """Forget the files replaced by runs that started before a time; returns their paths, which may now be deleted."""
        replaced = LAKE_FILES.c.live_until.in_(select(RUNS.c.number).where(RUNS.c.started_at < before))
        with self._database.write() as connection:
            gone = set(connection.execute(select(LAKE_FILES.c.path).where(replaced)).scalars())
            connection.execute(delete(LAKE_FILES).where(replaced))
            kept = set(connection.execute(select(LAKE_FILES.c.path)).scalars())
        return sorted(gone - kept)


def _commit(
    connection: Connection,
    number: int,
    run_id: str,
    delivery: DeliveryRecord,
    files: Sequence[LakeFileRecord],
    supersedes: Sequence[str],
) -> str:
    same = _live_of(delivery.source, delivery.billing_period)
    live = connection.execute(select(DELIVERIES.c.id, DELIVERIES.c.digest).where(same)).first()
    if live is not None and live.digest == delivery.digest and delivery.status == "live":
        return str(live.id)
    old = [] if delivery.status != "live" else [*supersedes, *([live.id] if live is not None else [])]
    old = [each for each in old if each != delivery.id]
    connection.execute(update(DELIVERIES).where(DELIVERIES.c.id.in_(old)).values(status="superseded"))
    _put(connection, _delivery_row(run_id, delivery))
    connection.execute(update(DELIVERIES).where(DELIVERIES.c.id.in_(old)).values(superseded_by=delivery.id))
    if delivery.status == "live":
        gone = or_(_files_of(delivery.source, delivery.billing_period), LAKE_FILES.c.delivery_id.in_(old))
        _retire(connection, number, gone)
        _add(connection, number, files, delivery.id)
    return delivery.id


def _live_of(source: str, billing_period: str) -> ColumnElement[bool]:
    return and_(
        DELIVERIES.c.source == source, DELIVERIES.c.billing_period == billing_period, DELIVERIES.c.status == "live"
    )


def _files_of(source: str, billing_period: str) -> ColumnElement[bool]:
    return and_(LAKE_FILES.c.source == source, LAKE_FILES.c.billing_period == billing_period)


def _put(connection: Connection, row: dict[str, Any]) -> None:
    # a delivery that was superseded and comes back keeps its id
    changed = connection.execute(update(DELIVERIES).where(DELIVERIES.c.id == row["id"]).values(row))
    if changed.rowcount == 0:
        connection.execute(insert(DELIVERIES), row)


def _retire(connection: Connection, number: int, condition: ColumnElement[bool]) -> None:
    connection.execute(update(LAKE_FILES).where(LAKE_FILES.c.live_until.is_(None), condition).values(live_until=number))


def _add(connection: Connection, number: int, files: Sequence[LakeFileRecord], delivery_id: str | None) -> None:
    rows = [
        {
            "table_name": file.table,
            "path": file.path,
            "provider": file.provider,
            "source": file.source,
            "billing_period": file.billing_period,
            "delivery_id": delivery_id or file.delivery_id,
            "rows": file.rows,
            "live_from": number,
        }
        for file in files
    ]
    if rows:
        connection.execute(insert(LAKE_FILES), rows)


def _files(connection: Connection, condition: ColumnElement[bool]) -> list[LakeFileRecord]:
    query = (
        select(
            LAKE_FILES.c.table_name,
            LAKE_FILES.c.path,
            LAKE_FILES.c.provider,
            LAKE_FILES.c.source,
            LAKE_FILES.c.billing_period,
            LAKE_FILES.c.rows,
            LAKE_FILES.c.delivery_id,
            RUNS.c.id,
            _UNTIL.c.id,
        )
        .join(RUNS, RUNS.c.number == LAKE_FILES.c.live_from)
        .outerjoin(_UNTIL, _UNTIL.c.number == LAKE_FILES.c.live_until)
        .where(condition)
        .order_by(LAKE_FILES.c.table_name, LAKE_FILES.c.path, LAKE_FILES.c.id)
    )
    return [LakeFileRecord(*row) for row in connection.execute(query)]


def _delivery_row(run_id: str, delivery: DeliveryRecord) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "provider": delivery.provider,
        "source": delivery.source,
        "billing_account_id": delivery.billing_account_id,
        "format": delivery.format,
        "role": delivery.role,
        "billing_period": delivery.billing_period,
        "digest": delivery.digest,
        "delivered_at": delivery.delivered_at,
        "rows": delivery.rows,
        "source_billed_cost": delivery.source_billed_cost,
        "lake_billed_cost": delivery.lake_billed_cost,
        "billing_currency": delivery.billing_currency,
        "totals": {
            currency: {name: money.text(amount) for name, amount in sums.items()}
            for currency, sums in delivery.totals.items()
        },
        "identities": dict(delivery.identities),
        "status": delivery.status,
        "superseded_by": delivery.superseded_by,
        "run_id": run_id,
    }


def _delivery(row: Row[Any]) -> DeliveryRecord:
    values = dict(row._mapping)
    del values["fingerprint"], values["fingerprint_key"]
    values["totals"] = {
        currency: {name: Decimal(amount) for name, amount in sums.items()} for currency, sums in row.totals.items()
    }
    return DeliveryRecord(**values)
