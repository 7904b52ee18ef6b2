"""What an audit of the example has to find, and the small things every part of the generator uses."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

SEED = 20261001
BILLED_FROM = datetime(2026, 8, 1, tzinfo=UTC)
WATCHED_FROM = datetime(2026, 9, 1, tzinfo=UTC)  # telemetry covers the audit window only
AS_OF = datetime(2026, 10, 1, tzinfo=UTC)
MONTHS = (BILLED_FROM, WATCHED_FROM)
PARTIAL_UNTIL = datetime(2026, 9, 19, tzinfo=UTC)  # where the deliveries that were sent too early stop
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
COMPANY = "Acme Robotics"

PAYER, SERVING, VISION = "111122223333", "222233334444", "444455556666"
GCP_BILLING = "0A1B2C-3D4E5F-6A7B8C"
GCP_PROJECTS = {"acme-ml-train": "100000000001", "acme-serving": "100000000002"}
EA_ACCOUNT = "7654321"
SUB_ML = "11111111-0000-0000-0000-000000000001"
SUB_APPS = "11111111-0000-0000-0000-000000000010"

Row = dict[str, Any]


@dataclass
class Truth:
    """What an audit of the estate has to find, collected while the rows are made."""

    totals: dict[tuple[str, str, str, str], list[Decimal]] = field(
        default_factory=lambda: defaultdict(lambda: [Decimal(0), Decimal(0)])
    )
    planted: list[Row] = field(default_factory=list)
    silent: list[Row] = field(default_factory=list)

    def add(self, provider: str, account: str, when: datetime, billed: Decimal, effective: Decimal) -> None:
        total = self.totals[provider, account, f"{when:%Y-%m}", "USD"]
        total[0] += billed
        total[1] += effective

    def plant(self, rule_id: str, provider: str, resource_id: str) -> None:
        self.planted.append({"rule_id": rule_id, "provider": provider, "resource_id": resource_id})

    def keep_silent(self, rule_id: str, provider: str, resource_id: str, why: str) -> None:
        self.silent.append({"rule_id": rule_id, "provider": provider, "resource_id": resource_id, "why": why})

    def document(self) -> Row:
        return {
            "as_of": f"{AS_OF:%Y-%m-%d}",
            "totals": [
                {
                    "provider": provider,
                    "billing_account_id": account,
                    "billing_period": period,
                    "currency": currency,
                    "billed_cost": plain(billed),
                    "effective_cost": plain(effective),
                }
                for (provider, account, period, currency), (billed, effective) in sorted(self.totals.items())
            ],
            "planted": self.planted,
            "silent": self.silent,
        }


def plain(amount: Decimal) -> str:
    """The amount without exponent and without trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(amount: Decimal, places: int = 10) -> Decimal:
    """The amount as a bill prints it: doubles in exports carry ten decimals without noise."""
    return amount.quantize(Decimal(1).scaleb(-places))


@cache
def digest(*parts: str, length: int) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:length]


def number(name: str) -> str:
    """A numeric id such as Google's, the same for the same name."""
    return str(10**18 + int(digest(name, length=15), 16))


def guid(name: str) -> str:
    h = digest(name, length=32)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:]}"


def steps(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    while start < end:
        yield start
        start += step


@cache
def month_end(start: datetime) -> datetime:
    return (start + 32 * DAY).replace(day=1)


@cache
def stamp(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"


@cache
def rfc3339(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
