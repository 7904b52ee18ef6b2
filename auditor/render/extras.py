"""What a report can show beyond findings.json. None means the run did not supply it; empty means it found nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple


class DailyCost(NamedTuple):
    """EffectiveCost of one account, service and owner on one day."""

    provider: str
    account_id: str | None
    service: str | None
    owner: str | None
    day: date
    currency: str
    effective_cost: Decimal


class GpuSlice(NamedTuple):
    """Part of the GPU ledger: one class of one day, owner or model, which is the `key`."""

    key: str | date | None
    accelerator_class: str
    accelerator_hours: Decimal
    effective_cost: Decimal
    currency: str


class DayTotal(NamedTuple):
    """EffectiveCost of one provider on one day, also of days before the window: what a forecast goes by."""

    provider: str
    day: date
    currency: str
    effective_cost: Decimal


class MachineDay(NamedTuple):
    """Part of the GPU ledger: one class of one machine on one day."""

    provider: str
    resource_id: str
    name: str | None
    owner: str | None
    machine_type: str | None
    day: date
    accelerator_class: str
    effective_cost: Decimal
    currency: str


class WeekHour(NamedTuple):
    """Part of the GPU ledger: one class of one hour (0-23, UTC) of one weekday, Monday being 0."""

    weekday: int
    hour: int
    accelerator_class: str
    effective_cost: Decimal
    currency: str


class Samples(NamedTuple):
    """One line of a finding's chart: a value for each step of hours, null where nothing was sampled.

    `unit` is ratio, GB, bytes or count; `threshold` is what the rule compares with, in the same unit.
    """

    label: str
    unit: str
    start: datetime
    step_hours: int
    values: tuple[float | None, ...]
    threshold: float | None = None


class TransferPayer(NamedTuple):
    """What one owner's resource paid for one kind of transfer or NAT."""

    owner: str | None
    provider: str
    account_id: str | None
    resource_id: str | None
    resource_name: str | None
    kind: str
    gigabytes: Decimal | None
    effective_cost: Decimal
    currency: str


class TransferEdge(NamedTuple):
    """Charged bytes from one place to another; a place is a region, a zone, `internet`, or null where unknown."""

    source: str | None
    target: str | None
    kind: str
    effective_cost: Decimal
    currency: str


class NoTelemetry(NamedTuple):
    """An accelerator resource without samples, and the step that would bring them."""

    resource_id: str
    machine_type: str | None
    effective_cost: Decimal
    currency: str
    step: str


class Unjoined(NamedTuple):
    """What one kind of source (telemetry, bill, inventory) says of a resource that the others do not know."""

    kind: str
    provider: str | None
    id: str | None
    reason: str
    effective_cost: Decimal | None
    currency: str | None
    samples: int | None


class Classification(NamedTuple):
    """How much of the cost in the window no pattern of the classifier recognised."""

    other_cost: Decimal
    total_cost: Decimal
    currency: str


class SourceNote(NamedTuple):
    """Which of several sources for the same bill counts (`role` primary or secondary), and why."""

    name: str
    role: str
    note: str


class Mute(NamedTuple):
    """Why a finding is muted, by whom, and until which day (null: until it is lifted)."""

    author: str
    reason: str
    until: str | None


class Realised(NamedTuple):
    """What the bill of one period shows that a resolved finding saved; negative where the cost grew.

    `estimated` is what the finding promised for the same days; null where it was not kept.
    """

    title: str
    resource: str
    billing_period: str
    baseline_cost: Decimal
    actual_cost: Decimal
    saved: Decimal
    currency: str
    estimated: Decimal | None = None


class Setting(NamedTuple):
    """A setting of the audit that shaped the figures, with the sentence that explains it."""

    name: str
    value: str
    about: str


class PreviousRun(NamedTuple):
    """The figures of the run before this one."""

    run_id: str
    as_of: str
    effective_cost: Decimal
    monthly_savings_net: Decimal
    currency: str


@dataclass(frozen=True)
class RuleText:
    """What a rule's header says. `parameters` holds the values used, name to value or to a table with `value`,
    `unit`, `about` and, where another than the rule's own was used, `default`."""

    title: str
    why: str
    savings: str
    blind_to: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Extras:
    """Series and texts that findings.json does not hold.

    `notices` are sentences that must be the first thing a reader sees, such as data that stopped arriving. `samples`
    and `mutes` are by finding id, `account_names` by account id, where the bill names the account.
    """

    daily_costs: tuple[DailyCost, ...] | None = None
    gpu_by_day: tuple[GpuSlice, ...] | None = None
    gpu_by_owner: tuple[GpuSlice, ...] | None = None
    gpu_by_model: tuple[GpuSlice, ...] | None = None
    history: tuple[DayTotal, ...] | None = None
    machine_days: tuple[MachineDay, ...] | None = None
    week_hours: tuple[WeekHour, ...] | None = None
    transfer_edges: tuple[TransferEdge, ...] | None = None
    transfer_payers: tuple[TransferPayer, ...] | None = None
    samples: Mapping[str, tuple[Samples, ...]] = field(default_factory=dict)
    account_names: Mapping[str, str] = field(default_factory=dict)
    mutes: Mapping[str, Mute] = field(default_factory=dict)
    settings: tuple[Setting, ...] | None = None
    realised: tuple[Realised, ...] | None = None
    no_telemetry: tuple[NoTelemetry, ...] | None = None
    unjoined: tuple[Unjoined, ...] | None = None
    classification: tuple[Classification, ...] | None = None
    rule_texts: Mapping[str, RuleText] | None = None
    source_notes: tuple[SourceNote, ...] | None = None
    previous: PreviousRun | None = None
    rule_seconds: Mapping[str, float] | None = None  # rule id -> how long its query took
    notices: tuple[str, ...] = ()
    generated_at: datetime | None = None
    version: str | None = None
