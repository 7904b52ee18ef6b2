"""What of a run's document depends on the statuses of its findings and on the clock."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from auditor import money
from auditor.finding import Finding

_SILENT = ("muted", "resolved")


def text(amount: Decimal) -> str:
    """An amount as a plain decimal string of at most 12 decimals."""
    return money.text(money.quantise(amount))


def moment(time: datetime) -> str:
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")


def totals(
    by_currency: Mapping[str, tuple[Decimal, Decimal]], currency: str, findings: Sequence[Finding]
) -> dict[str, Any]:
    """The headline: costs of the windows and what could be saved, one currency apart from the others."""

    def one(name: str) -> dict[str, Any]:
        billed, effective = by_currency.get(name, (Decimal(0), Decimal(0)))
        mine = [finding for finding in findings if finding.billing_currency == name and finding.status not in _SILENT]
        sure = [finding for finding in mine if finding.confidence != "low"]
        return {
            "currency": name,
            "billed_cost": text(billed),
            "effective_cost": text(effective),
            "monthly_savings": text(sum((finding.monthly_savings for finding in sure), Decimal(0))),
            "monthly_savings_net": text(sum((finding.monthly_savings_net for finding in sure), Decimal(0))),
            "monthly_savings_net_low_confidence": text(
                sum((f.monthly_savings_net for f in mine if f.confidence == "low"), Decimal(0))
            ),
        }

    others = sorted({*by_currency, *(finding.billing_currency for finding in findings)} - {currency})
    return {**one(currency), "other_currencies": [one(name) for name in others]}


def costs_of(document: Mapping[str, Any]) -> dict[str, tuple[Decimal, Decimal]] | None:
    """Currency -> (BilledCost, EffectiveCost), as `totals` was given them.

    Null where a currency without costs is shown: the bill may have it, or only a finding that has gone since.
    """
    told = document["totals"]
    found = {
        total["currency"]: (Decimal(total["billed_cost"]), Decimal(total["effective_cost"]))
        for total in (told, *told["other_currencies"])
    }
    others = [costs for currency, costs in found.items() if currency != told["currency"]]
    return found if all(any(costs) for costs in others) else None


def stale_bills(document: Mapping[str, Any], max_data_age: int, now: datetime) -> list[str]:
    """What must be the first thing a reader sees: bills that stopped arriving before the end of the window."""
    notices = []
    for provider, newest in document["run"]["newest_charge"].items():
        window = document["run"]["windows"].get(provider)
        end = min(now, datetime.fromisoformat(window["end"])) if window else None
        age = (end - datetime.fromisoformat(newest)).days if end else 0
        if age > max_data_age:
            notices.append(
                f"The newest charge of {provider} is {age} days older than the end of its window ({newest[:10]}): its bill stopped arriving."
            )
    return notices
