"""The tables of the state database. They stay inside this room: callers see the records of `auditor.records`."""

from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Table, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from auditor.state.types import Money, UtcDateTime


class RunRow(SQLModel, table=True):
    """One run. `number` gives runs their order; `id` is what people see."""

    __tablename__ = "runs"

    number: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    started_at: datetime = Field(sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    as_of: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status: str
    billing_currency: str | None = None
    windows: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    exit_status: int | None = None
    document: str | None = Field(default=None, sa_type=Text)  # findings.json as written, key order kept
    note: str | None = None
    extras: str | None = Field(default=None, sa_type=Text)  # what the report shows beside the document


class DeliveryRow(SQLModel, table=True):
    """One delivery; at most one of a source and billing period is live."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(
            "deliveries_live",
            "source",
            "billing_period",
            unique=True,
            sqlite_where=text("status = 'live'"),
            postgresql_where=text("status = 'live'"),
        ),
    )

    id: str = Field(primary_key=True)
    provider: str | None
    source: str
    billing_account_id: str | None
    format: str
    role: str | None
    billing_period: str
    digest: str
    fingerprint: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    fingerprint_key: str = Field(index=True)
    delivered_at: datetime | None = Field(sa_type=UtcDateTime)
    rows: int = Field(sa_type=BigInteger)
    source_billed_cost: Decimal | None = Field(sa_type=Money)
    lake_billed_cost: Decimal | None = Field(sa_type=Money)
    billing_currency: str | None
    totals: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    identities: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    status: str
    superseded_by: str | None = Field(sa_column=Column(Text, ForeignKey("deliveries.id"), nullable=True))
    run_id: str = Field(foreign_key="runs.id")


class LakeFileRow(SQLModel, table=True):
    """One Parquet file of the lake and the runs between which it is live."""

    __tablename__ = "lake_files"
    __table_args__ = (
        Index("lake_files_live", "table_name", "live_until"),
        Index("lake_files_of", "source", "billing_period"),
    )

    id: int | None = Field(default=None, primary_key=True)
    table_name: str
    path: str = Field(index=True)  # not unique: a delivery may come back and be live twice
    provider: str | None
    source: str
    billing_period: str
    delivery_id: str | None = Field(foreign_key="deliveries.id")
    rows: int = Field(sa_type=BigInteger)
    live_from: int = Field(foreign_key="runs.number")
    live_until: int | None = Field(foreign_key="runs.number")


class LockRow(SQLModel, table=True):
    """A lock that is held until `expires_at`, which its owner keeps moving."""

    __tablename__ = "locks"

    name: str = Field(primary_key=True)
    owner: str
    token: str
    acquired_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)


class MuteRow(SQLModel, table=True):
    """One mute; removed ones stay as history."""

    __tablename__ = "mutes"

    id: str = Field(primary_key=True)
    rule: str | None
    resource: str | None
    tag: str | None
    account: str | None
    finding_id: str | None
    author: str
    reason: str
    created_at: datetime = Field(sa_type=UtcDateTime)
    until: datetime | None = Field(sa_type=UtcDateTime)
    removed_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    removed_by: str | None = None


class FindingRow(SQLModel, table=True):
    """A finding as its last run saw it. `payload` is the whole of it as JSON, read only for one finding at a time."""

    __tablename__ = "findings"
    __table_args__ = (Index("findings_of", "rule_id", "provider"),)

    id: str = Field(primary_key=True)
    rule_id: str
    title: str
    provider: str
    sub_account_id: str | None
    region_id: str | None
    resource_id: str | None
    resource_name: str | None
    subject: str
    owner: str | None
    severity: str
    confidence: str
    billing_currency: str
    monthly_cost: Decimal = Field(sa_type=Money)
    monthly_savings: Decimal = Field(sa_type=Money)
    monthly_savings_net: Decimal = Field(sa_type=Money)
    status: str = Field(index=True)
    first_seen: datetime = Field(sa_type=UtcDateTime)
    last_seen: datetime = Field(sa_type=UtcDateTime)
    last_run_id: str = Field(foreign_key="runs.id")
    resolved_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    resolved_run_id: str | None = Field(default=None, foreign_key="runs.id", index=True)
    acknowledged_by: str | None = None
    mute_id: str | None = None  # no foreign key: a mute may stand in the configuration
    tags: str = Field(sa_type=Text)
    payload: str = Field(sa_type=Text)


class FindingEventRow(SQLModel, table=True):
    """One change of a finding's status."""

    __tablename__ = "finding_events"

    id: int | None = Field(default=None, primary_key=True)
    finding_id: str = Field(foreign_key="findings.id", index=True)
    run_id: str | None = Field(foreign_key="runs.id")
    at: datetime = Field(sa_type=UtcDateTime)
    status_from: str | None
    status_to: str
    author: str | None
    note: str | None
    monthly_savings_net: Decimal | None = Field(sa_type=Money)


class NotificationRow(SQLModel, table=True):
    """One report to one recipient for one slot of the schedule."""

    __tablename__ = "notifications"
    __table_args__ = (UniqueConstraint("channel", "recipient", "slot", name="notifications_slot"),)

    id: int | None = Field(default=None, primary_key=True)
    channel: str
    recipient: str
    slot: str
    run_id: str | None = Field(foreign_key="runs.id")
    status: str
    claimed_at: datetime = Field(sa_type=UtcDateTime)
    sent_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    error: str | None = None
    message_id: str | None = None
    token: str | None = None  # of the sender whose claim this is
    attempts: int = 1
    retry_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ScheduleSlotRow(SQLModel, table=True):
    """One time at which a job of the schedule was due. `slot` is local wall time, so that a repeated hour is one slot."""

    __tablename__ = "schedule_slots"
    __table_args__ = (UniqueConstraint("job", "slot", name="schedule_slots_slot"),)

    id: int | None = Field(default=None, primary_key=True)
    job: str
    slot: str
    slot_at: datetime = Field(sa_type=UtcDateTime)
    status: str
    owner: str | None = None
    token: str | None = None
    attempts: int
    claimed_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    retry_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    error: str | None = None


class RealisedSavingRow(SQLModel, table=True):
    """What one billing period shows that a resolved finding saved."""

    __tablename__ = "realised_savings"
    __table_args__ = (UniqueConstraint("finding_id", "billing_period", name="realised_savings_period"),)

    id: int | None = Field(default=None, primary_key=True)
    finding_id: str = Field(foreign_key="findings.id")
    billing_period: str
    billing_currency: str
    baseline_effective_cost: Decimal = Field(sa_type=Money)
    actual_effective_cost: Decimal = Field(sa_type=Money)
    realised_savings: Decimal = Field(sa_type=Money)
    run_id: str = Field(foreign_key="runs.id")
    recorded_at: datetime = Field(sa_type=UtcDateTime)


def _table(row: type[SQLModel]) -> Table:
    return cast(Table, row.__table__)  # type: ignore[attr-defined]  # SQLModel does not declare it


RUNS = _table(RunRow)
DELIVERIES = _table(DeliveryRow)
LAKE_FILES = _table(LakeFileRow)
LOCKS = _table(LockRow)
MUTES = _table(MuteRow)
FINDINGS = _table(FindingRow)
FINDING_EVENTS = _table(FindingEventRow)
NOTIFICATIONS = _table(NotificationRow)
SCHEDULE_SLOTS = _table(ScheduleSlotRow)
REALISED_SAVINGS = _table(RealisedSavingRow)
