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
    `unit` and `about`."""

    title: str
    why: str
    savings: str
    blind_to: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Extras:
    """Series and texts that findings.json does not hold.

    `notices` are sentences that must be the first thing a reader sees, such as data that stopped arriving.
    """

    daily_costs: tuple[DailyCost, ...] | None = None
    gpu_by_day: tuple[GpuSlice, ...] | None = None
    gpu_by_owner: tuple[GpuSlice, ...] | None = None
    gpu_by_model: tuple[GpuSlice, ...] | None = None
    transfer_edges: tuple[TransferEdge, ...] | None = None
    no_telemetry: tuple[NoTelemetry, ...] | None = None
    classification: tuple[Classification, ...] | None = None
    rule_texts: Mapping[str, RuleText] | None = None
    source_notes: tuple[SourceNote, ...] | None = None
    previous: PreviousRun | None = None
    notices: tuple[str, ...] = ()
    generated_at: datetime | None = None
    version: str | None = None
