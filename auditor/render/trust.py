"""Can the figures be trusted: one answer for each thing that may be missing or may not add up, and one about the whole."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from auditor.render import figures, view
from auditor.render.extras import Extras

_LAG = 2  # days by which the bills of the clouds are usually behind


@dataclass(frozen=True)
class Check:
    """One answer about the data: `state` is good, fair or bad."""

    state: str
    title: str
    text: str


def checks(document: Mapping[str, Any], extras: Extras) -> list[Check]:
    """Whether the data is complete and adds up, in the order in which a reader should worry."""
    return [
        _sources_check(document),
        _reconciliation_check(document),
        _days_check(document),
        _telemetry_check(document),
        _rules_check(document),
        *_classification_check(extras),
    ]


def verdict(document: Mapping[str, Any], answers: Sequence[Check]) -> Check:
    """One line about the whole."""
    if document["run"]["status"] != "complete":
        return Check("bad", "Partial", "A source, a file or a rule failed: the figures cover what could be read.")
    if any(check.state == "bad" for check in answers):
        return Check("bad", "Check the data first", "Something below does not add up.")
    if any(check.state == "fair" for check in answers):
        return Check("fair", "Complete, with limits", "Everything was read; the limits are named below.")
    return Check("good", "Complete", "Everything was read and adds up.")


def _sources_check(document: Mapping[str, Any]) -> Check:
    sources = document["sources"]
    failed = [s for s in sources if s["status"] == "failed"]
    skipped = [s for s in sources if s["status"] == "skipped"]
    rows = sum(s.get("rows") or 0 for s in sources if s["status"] != "skipped")
    text = f"{view.plural(len(sources) - len(skipped), 'source')}, {figures.number(rows)} rows"
    if skipped:
        text += f"; {len(skipped)} left out"
    if failed:
        return Check("bad", f"{view.plural(len(failed), 'source')} failed", f"{text}. The reasons are listed below.")
    if not any(s["kind"] == "billing" and s["status"] == "ok" for s in sources):
        return Check("bad", "No billing data", text)
    return Check("good", "All sources read", text)


def _reconciliation_check(document: Mapping[str, Any]) -> Check:
    rows = document["reconciliation"]
    off = [r for r in rows if figures.amount(r["difference"]) != 0]
    if not rows:
        return Check("bad", "Not reconciled", "No bill was compared with what the report counts.")
    if off:
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for row in off:
            sums[row["currency"]] += abs(figures.amount(row["difference"]))
        difference = ", ".join(f"{currency} {figures.exact(value)}" for currency, value in sorted(sums.items()))
        return Check(
            "bad", "Does not reconcile", f"{difference} apart in {len(off)} of {view.plural(len(rows), 'bill')}."
        )
    return Check(
        "good", "Reconciles exactly", f"{view.plural(len(rows), 'bill')} compared with their source: difference 0."
    )


def _days_check(document: Mapping[str, Any]) -> Check:
    gaps = document["run"].get("gaps") or []
    newest = document["run"].get("newest_charge") or {}
    until = "; ".join(
        f"{view.provider_name(provider)} to {figures.last_day(when)}" for provider, when in newest.items()
    )
    if gaps:
        days = sum(len(gap["days"]) for gap in gaps)
        return Check(
            "bad",
            f"{view.plural(days, 'day')} without charges",
            "Telemetry or inventory shows resources running on them; they are listed below.",
        )
    text = f"Newest charges: {until}." if until else "No charge is dated."
    windows = document["run"]["windows"]
    ends = {provider: windows[provider]["end"] for provider in newest if provider in windows}
    if any(
        (datetime.fromisoformat(end) - datetime.fromisoformat(newest[name])).days > _LAG for name, end in ends.items()
    ):
        return Check("fair", "Bills end early", f"{text} The window goes on to {figures.last_day(max(ends.values()))}.")
    return Check("good", "No missing days", text)


def _telemetry_check(document: Mapping[str, Any]) -> Check:
    gpu = document["coverage"].get("gpu") or {}
    resources, measured = gpu.get("resources") or 0, gpu.get("with_telemetry") or 0
    if not resources:
        return Check("good", "No accelerators billed", "Nothing to measure.")
    cost, seen = gpu.get("effective_cost"), gpu.get("effective_cost_with_telemetry")
    text = (
        f"{measured} of {view.plural(resources, 'accelerator resource')}, {figures.percent(seen, cost)} of their cost."
    )
    if not measured:
        return Check("fair", "No GPU telemetry", text)
    return Check("good" if measured == resources else "fair", "GPU telemetry", text)


def failed_rules(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Coverage entries of rules that broke: published as skipped, their reason says so."""
    return [rule for rule in document["coverage"]["rules"] if str(rule["reason"] or "").startswith("failed: ")]


def _rules_check(document: Mapping[str, Any]) -> Check:
    counts: dict[str, int] = defaultdict(int)
    for rule in document["coverage"]["rules"]:
        counts[rule["status"]] += 1
    broken = failed_rules(document)
    if broken:
        names = ", ".join(rule["rule_id"] for rule in broken[:3])
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        return Check(
            "bad", f"{view.plural(len(broken), 'rule')} failed", f"{names}{more} found nothing, because the rule broke."
        )
    rest = sum(counts.values()) - counts["ran"]
    text = ", ".join(f"{count} {status}" for status, count in counts.items())
    return Check("fair" if rest else "good", "Rules limited by data" if rest else "All rules ran", f"{text}.")


def _classification_check(extras: Extras) -> list[Check]:
    found = []
    for part in extras.classification or ():
        share = part.other_cost / part.total_cost if part.total_cost else Decimal(0)
        text = f"{figures.percent(part.other_cost, part.total_cost, 1)} of {part.currency} cost has no known kind."
        found.append(Check("fair" if share > Decimal("0.05") else "good", "Charges recognised", text))
    return found
