"""Makes report.md: the report for a ticket or a chat, in Markdown that shows foreign text literally."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from auditor.render import evidence, figures, trust, view
from auditor.render.extras import Extras
from auditor.render.text import markdown_code, markdown_text, safe_url

FULL = 50  # findings told in full; the table before them has all


def markdown(document: Mapping[str, Any], extras: Extras) -> str:
    """The whole text."""
    return "\n".join(_lines(document, extras)).rstrip() + "\n"


def _lines(document: Mapping[str, Any], extras: Extras) -> Iterator[str]:
    answers = trust.checks(document, extras)
    verdict = trust.verdict(document, answers)
    yield "# Cloud spend audit"
    yield ""
    for notice in extras.notices:
        yield f"> **{_md(notice)}**"
        yield ""
    yield _md("; ".join(f"{names}, {period}" for names, period in view.windows(document)) or "No provider was audited.")
    yield ""
    yield f"**{verdict.title}.** {verdict.text}"
    yield ""
    yield from _totals(document)
    yield from _table(("Check", "State", "What was seen"), [(c.title, c.state, c.text) for c in answers])
    for ledger in view.ledgers(document, extras):
        yield f"## Accelerators ({_md(ledger.currency)})"
        yield ""
        rows = [
            (name, figures.number(spent), _cash(cost, ledger.currency), share)
            for _, name, _, spent, cost, share in ledger.classes
        ]
        yield from _table(("Class", "Device hours", "Cost", "Share"), rows)
    yield from _findings(document, extras)
    yield from _coverage(document)


def _totals(document: Mapping[str, Any]) -> Iterator[str]:
    totals = document["totals"]
    names = {
        "effective_cost": "Effective cost in the window",
        "billed_cost": "Billed cost in the window",
        "monthly_savings_net": "Avoidable a month, net",
        "monthly_savings_net_low_confidence": "Of low confidence, not counted",
    }
    rows = [(name, _cash(totals[key], totals["currency"])) for key, name in names.items()]
    for other in totals.get("other_currencies") or []:
        if isinstance(other, Mapping):
            rows += [(f"{name}, not added up", _cash(other.get(key), other["currency"])) for key, name in names.items()]
    yield from _table(("Figure", "Amount"), rows)


def _findings(document: Mapping[str, Any], extras: Extras) -> Iterator[str]:
    opened = view.opened(document)
    yield "## Findings"
    yield ""
    if not opened:
        yield "No open finding."
        yield ""
        return
    rows = [
        (
            f["title"],
            view.subject(f),
            f["owner"] or view.NO_OWNER,
            f["severity"],
            f["confidence"],
            _cash(f["monthly_savings_net"], f["currency"]),
        )
        for f in opened
    ]
    yield from _table(("Finding", "Resource", "Owner", "Severity", "Confidence", "Net a month"), rows)
    for finding in opened[:FULL]:
        yield from _finding(finding, extras)
    if len(opened) > FULL:
        yield f"The other {len(opened) - FULL} stand in the table above and in the data files."
        yield ""


def _finding(finding: Mapping[str, Any], extras: Extras) -> Iterator[str]:
    remedy, currency = finding["remediation"], finding["currency"]
    yield f"### {_md(finding['title'])}: {_md(view.subject(finding))}"
    yield ""
    yield f"{_md(finding['reason'])}"
    yield ""
    yield f"{_md(view.where(finding))}, {_md(figures.period(finding['window']))}, rule {_md(finding['rule_id'])}"
    yield ""
    rows = [(f"{step.sign} {step.words}".strip(), _cash(step.value, currency)) for step in evidence.arithmetic(finding)]
    yield from _table(("Savings", "A month"), rows)
    facts = [(fact.name, fact.text) for fact in evidence.facts(finding)]
    if facts:
        yield from _table(("Evidence", "Value"), facts)
    if remedy["summary"]:
        yield f"**What to do.** {_md(remedy['summary'])}"
        yield ""
    for command in remedy["commands"]:
        yield markdown_code(command)
        yield ""
    if remedy.get("terraform"):
        yield "Or in Terraform:"
        yield ""
        yield markdown_code(remedy["terraform"])
        yield ""
    if remedy["risk"]:
        yield f"**Risk.** {_md(remedy['risk'])}"
        yield ""
    if known := (extras.rule_texts or {}).get(finding["rule_id"]):
        yield f"**Not seen.** {_md(known.blind_to)}"
        yield ""
    links = [f"- <{address}>" for address in map(safe_url, finding["references"]) if address]
    if links:
        yield from links
        yield ""


def _coverage(document: Mapping[str, Any]) -> Iterator[str]:
    yield "## Coverage"
    yield ""
    sources = [
        (
            ", ".join(s["paths"][:3]),
            s["kind"] or figures.ABSENT,
            s["status"],
            figures.number(s["rows"]),
            s["message"] or "",
        )
        for s in document["sources"]
    ]
    yield from _table(("Source", "Kind", "Status", "Rows", "Message"), sources)
    used = [
        (
            use["api"],
            figures.number(use["calls"]),
            figures.number(use["bytes"]),
            "unknown" if use["cost"] is None else figures.money(use["cost"], use["currency"], 4),
        )
        for use in document.get("own_usage") or ()
    ]
    if used:
        yield from _table(("Used by this audit", "Calls", "Bytes", "Cost"), used)
    limited = [
        (r["rule_id"], r["status"], r["reason"] or "") for r in document["coverage"]["rules"] if r["status"] != "ran"
    ]
    if limited:
        yield from _table(("Rule", "Status", "Reason"), limited)
    yield "## Reconciliation"
    yield ""
    bills = [
        (
            str(r["billing_account_id"] or figures.ABSENT),
            r["billing_period"],
            _cash(r["source_billed_cost"], r["currency"]),
            _cash(r["lake_billed_cost"], r["currency"]),
            figures.exact(r["difference"]),
        )
        for r in document["reconciliation"]
    ]
    if bills:
        yield from _table(("Billing account", "Period", "In the source", "In the report", "Difference"), bills)
    else:
        yield "Nothing to reconcile: no bill was read."


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_md(cell) for cell in row)} |"
    yield ""


def _cash(value: Any, currency: str) -> str:
    return figures.money(value, currency)


def _md(text: str) -> str:
    return markdown_text(text)
