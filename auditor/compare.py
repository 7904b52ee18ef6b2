"""What changed from one report to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from auditor import money

_TOTALS = ("billed_cost", "effective_cost", "monthly_savings_net")
_GONE = ("resolved",)


@dataclass(frozen=True)
class Moved:
    """A finding whose status or net savings differ."""

    finding: Mapping[str, Any]
    status_before: str
    savings_before: Decimal


@dataclass(frozen=True)
class Comparison:
    """Two reports beside each other. `totals` is name -> (currency, before, after), of currencies that both have."""

    totals: Mapping[str, tuple[str, Decimal, Decimal]]
    added: tuple[Mapping[str, Any], ...]
    gone: tuple[Mapping[str, Any], ...]
    moved: tuple[Moved, ...]

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON has it."""
        return {
            "totals": {
                name: {"currency": currency, "before": money.text(before), "after": money.text(after)}
                for name, (currency, before, after) in self.totals.items()
            },
            "added": [_brief(finding) for finding in self.added],
            "gone": [_brief(finding) for finding in self.gone],
            "changed": [
                {
                    **_brief(each.finding),
                    "status_before": each.status_before,
                    "monthly_savings_net_before": money.text(each.savings_before),
                }
                for each in self.moved
            ],
        }

    def lines(self) -> list[str]:
        """The comparison for people."""
        lines = [
            f"{name.replace('_', ' '):<20} {currency} {before:,.2f} → {after:,.2f} ({after - before:+,.2f})"
            for name, (currency, before, after) in self.totals.items()
        ]
        lines += [_line("+", finding) for finding in self.added]
        lines += [_line("-", finding) for finding in self.gone]
        for each in self.moved:
            before = f"{each.status_before}, {each.savings_before:,.2f}"
            lines.append(f"{_line('~', each.finding)}  was {before}")
        return lines if self.added or self.gone or self.moved else [*lines, "no finding changed"]


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    """What the later document has that the earlier has not, and the reverse; a resolved finding is gone."""
    before = {finding["id"]: finding for finding in old["findings"] if finding["status"] not in _GONE}
    after = {finding["id"]: finding for finding in new["findings"] if finding["status"] not in _GONE}
    moved = [
        Moved(finding, before[id_]["status"], Decimal(before[id_]["monthly_savings_net"]))
        for id_, finding in after.items()
        if id_ in before and _state(finding) != _state(before[id_])
    ]
    currency = new["totals"]["currency"]
    comparable = old["totals"]["currency"] == currency
    return Comparison(
        {
            name: (currency, Decimal(old["totals"][name]), Decimal(new["totals"][name]))
            for name in _TOTALS
            if comparable
        },
        tuple(finding for id_, finding in after.items() if id_ not in before),
        tuple(finding for id_, finding in before.items() if id_ not in after),
        tuple(moved),
    )


def _state(finding: Mapping[str, Any]) -> tuple[str, Decimal]:
    # a finding that was news and is none any more has not changed
    status = "open" if finding["status"] in ("new", "reopened") else finding["status"]
    return status, round(Decimal(finding["monthly_savings_net"]), 2)


def _brief(finding: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "id",
        "rule_id",
        "title",
        "provider",
        "account_id",
        "resource_id",
        "owner",
        "status",
        "monthly_savings_net",
        "currency",
    )
    return {name: finding[name] for name in names}


def _line(mark: str, finding: Mapping[str, Any]) -> str:
    where = finding["resource_name"] or finding["resource_id"] or finding["account_id"] or "—"
    saving = f"{finding['currency']} {Decimal(finding['monthly_savings_net']):,.2f}"
    return f"{mark} {finding['id']}  {saving:>16}  {finding['status']:<12} {finding['rule_id']}  {where}"
