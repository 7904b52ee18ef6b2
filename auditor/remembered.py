"""What the state remembers that a report shows beside its own findings: the run before, mutes, realised savings."""

from decimal import Decimal

from auditor import render
from auditor.state import State


def previous_run(state: State, run_id: str) -> render.PreviousRun | None:
    """The figures of the newest finished run before this one; null without one that left its document."""
    for run in state.runs_list():
        if run.id == run_id or run.status not in ("complete", "partial"):
            continue
        before = state.run_document(run.id)
        if before and before["run"]["as_of"]:
            totals = before["totals"]
            return render.PreviousRun(
                run.id,
                before["run"]["as_of"],
                Decimal(totals["effective_cost"]),
                Decimal(totals["monthly_savings_net"]),
                totals["currency"],
            )
    return None


def realised(state: State) -> list[render.Realised]:
    """What later bills show that resolved findings saved, the largest first."""
    known = {finding.id: finding for finding in state.list_findings(status=["resolved"])}
    rows = [(saving, known[saving.finding_id]) for saving in state.realised_savings() if saving.finding_id in known]
    return [
        render.Realised(
            finding.title,
            finding.resource_name or finding.resource_id or finding.subject,
            saving.billing_period,
            saving.baseline_effective_cost,
            saving.actual_effective_cost,
            saving.realised_savings,
            saving.billing_currency,
            saving.estimated_savings,
        )
        for saving, finding in sorted(rows, key=lambda row: (-row[0].realised_savings, row[0].finding_id))
    ]


def mutes(state: State) -> dict[str, render.Mute]:
    """Finding id -> why it is muted."""
    known = {mute.id: mute for mute in state.mutes_list(expired=True)}
    muted = ((finding.id, known.get(finding.mute_id or "")) for finding in state.list_findings(status=["muted"]))
    return {
        finding_id: render.Mute(mute.author, mute.reason, mute.until.isoformat() if mute.until else None)
        for finding_id, mute in muted
        if mute is not None
    }
