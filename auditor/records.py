"""What the state remembers, as plain values that every room may hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from auditor.finding import Finding


@dataclass(frozen=True)
class DeliveryRecord:
    """One delivery taken in: what of, how much, and whether it still counts.

    `billing_period` is `2026-10`, or empty for a source without periods. `status` is live, superseded or not_counted
    (another source covers the same). The two sums are null where the delivery holds several currencies; `totals` has
    them by currency, then by name. `identities` tells which checks of the bill held.
    """

    id: str
    provider: str | None
    source: str
    billing_account_id: str | None
    format: str
    role: str | None
    billing_period: str
    digest: str
    delivered_at: datetime | None
    rows: int
    source_billed_cost: Decimal | None = None
    lake_billed_cost: Decimal | None = None
    billing_currency: str | None = None
    totals: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    identities: Mapping[str, Any] = field(default_factory=dict)
    status: str = "live"
    superseded_by: str | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class LakeFileRecord:
    """One Parquet file of the lake; `path` is relative to the data directory. Live until a later run says otherwise."""

    table: str
    path: str
    provider: str | None
    source: str
    billing_period: str
    rows: int
    delivery_id: str | None = None
    live_from_run: str | None = None
    live_until_run: str | None = None


@dataclass(frozen=True)
class RunRecord:
    """One run without its document. `status` is running, complete, partial, failed or interrupted (it was killed)."""

    id: str
    started_at: datetime
    ended_at: datetime | None
    as_of: datetime | None
    status: str
    billing_currency: str | None
    windows: Mapping[str, Any]
    exit_status: int | None
    note: str | None


class FindingRecord(NamedTuple):
    """A finding as last seen. Money is a month of 730 hours at 12 decimals, in `billing_currency`.

    A tuple, because lists of a hundred thousand are read at once.
    """

    id: str
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
    monthly_cost: Decimal
    monthly_savings: Decimal
    monthly_savings_net: Decimal
    status: str
    first_seen: datetime
    last_seen: datetime
    resolved_at: datetime | None
    acknowledged_by: str | None
    mute_id: str | None


@dataclass(frozen=True)
class FindingEvent:
    """One change of a finding's status; `status_from` is null for its first sight."""

    at: datetime
    status_from: str | None
    status_to: str
    run_id: str | None
    author: str | None
    note: str | None
    monthly_savings_net: Decimal | None


@dataclass(frozen=True)
class FindingDetail:
    """A finding whole: the record, the finding of its last run and its history, oldest first."""

    record: FindingRecord
    finding: Finding
    events: tuple[FindingEvent, ...]


@dataclass(frozen=True)
class MuteRecord:
    """A reason to stay silent. Every scope that is given must match; `rule`, `resource` and `tag` values take globs.

    `tag` is `key=value`, or `key` for any value. `until` is excluded; null means until it is removed.
    """

    id: str
    author: str
    reason: str
    rule: str | None = None
    resource: str | None = None
    tag: str | None = None
    account: str | None = None
    finding_id: str | None = None
    created_at: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class RealisedSaving:
    """What a later bill shows that a resolved finding saved in one billing period; negative where the cost grew.

    `estimated_savings` are the net savings that the finding promised for the same days.
    """

    finding_id: str
    billing_period: str
    billing_currency: str
    baseline_effective_cost: Decimal
    actual_effective_cost: Decimal
    realised_savings: Decimal
    estimated_savings: Decimal | None = None


class FindingChange(NamedTuple):
    """What became of a finding between two reports: `kind` is new, resolved or reopened."""

    kind: str
    record: FindingRecord


@dataclass(frozen=True)
class NotificationRecord:
    """One report to one recipient for one slot of the schedule.

    `status` is claimed (being prepared), sending (being handed over), sent, failed (not handed over; tried again at
    `retry_at`, or given up), skipped (nothing to report) or unknown (its sender died or lost the connection while
    handing over).
    """

    channel: str
    recipient: str
    slot: str
    run_id: str | None
    status: str
    claimed_at: datetime
    sent_at: datetime | None
    error: str | None
    message_id: str | None
    attempts: int
    retry_at: datetime | None


@dataclass(frozen=True)
class Claim:
    """The right to send one report to one recipient for one slot; `message_id` is the same in every attempt."""

    channel: str
    recipient: str
    slot: str
    message_id: str
    attempt: int
    token: str


@dataclass(frozen=True)
class SlotRecord:
    """One time at which a job was due. `status` is baseline (before the first start), running, done or failed."""

    job: str
    slot: str
    slot_at: datetime
    status: str
    owner: str | None
    attempts: int
    claimed_at: datetime
    ended_at: datetime | None
    retry_at: datetime | None
    error: str | None
