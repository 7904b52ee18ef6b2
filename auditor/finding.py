"""A finding: one waste, its proof and its price."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

HOURS_A_MONTH = Decimal(730)
CONFIDENCES = ("high", "medium", "low")
SEVERITIES = ("low", "medium", "high", "critical")


def short_name(resource_name: str | None, resource_id: str | None) -> str | None:
    """What people call a resource: its name, else the last part of its id; null without either."""
    return resource_name or (resource_id or "").rstrip("/").rpartition("/")[2] or None


@dataclass(frozen=True)
class Remedy:
    """What to do about it, with the finding's own ids filled in."""

    summary: str
    commands: tuple[str, ...]
    risk: str
    effort: str
    terraform: str = ""  # empty where there is nothing to declare


@dataclass(frozen=True)
class Finding:
    """One waste. Money is a month of 730 hours, in `billing_currency`, unrounded.

    `effective_cost` and `committed_cost` are the window's own, unscaled. `stage` and `exclusive_group` tell settle how
    it competes with others for the same dollars.
    """

    rule_id: str
    title: str
    provider: str
    sub_account_id: str | None
    region_id: str | None
    resource_id: str | None
    subject: str
    billing_currency: str
    window_start: datetime
    window_end: datetime
    effective_cost: Decimal
    committed_cost: Decimal
    monthly_cost: Decimal
    monthly_savings: Decimal
    monthly_savings_low: Decimal
    monthly_savings_high: Decimal
    freed_commitment: Decimal
    confidence: str
    severity: str
    reason: str
    remedy: Remedy
    references: tuple[str, ...]
    stage: str
    exclusive_group: str | None = None
    monthly_savings_net: Decimal = Decimal(0)
    instead_of: tuple[str, ...] = ()
    availability_zone: str | None = None
    resource_name: str | None = None
    resource_type: str | None = None
    service_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    status: str = "new"

    @property
    def id(self) -> str:
        """Fingerprint of rule, provider, account and subject: the same problem keeps it from run to run."""
        key = "\x1f".join((self.rule_id, self.provider, self.sub_account_id or "", self.subject.lower()))
        return hashlib.sha256(key.encode()).hexdigest()[:16]
