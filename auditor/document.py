"""The run's document: findings.json as users read it, and the series beside it that only the report shows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from importlib import metadata
from typing import Any

import duckdb

from auditor import render, series
from auditor.bills import Bill, Choice
from auditor.detect.rule import Rule
from auditor.detect.run import DetectResult, RuleCoverage, Window
from auditor.finding import Finding
from auditor.landing import SourceReport
from auditor.totals import moment, stale_bills, text, totals

SCHEMA_VERSION = "1.0"


def build(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    known: Sequence[Bill],
    choice: Choice,
    reports: Sequence[SourceReport],
    windows: Mapping[str, Window],
    result: DetectResult,
    status: str,
    wanted_currency: str | None,
) -> dict[str, Any]:
    """findings.json: run, sources, reconciliation, coverage, ledger, totals and findings."""
    by_currency = _costs(con)
    currency = wanted_currency or max(by_currency, key=lambda name: by_currency[name][1], default="USD")
    as_of = max((window.end for window in windows.values()), default=None)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {
            "id": run_id,
            "as_of": as_of.date().isoformat() if as_of else None,
            "windows": {
                provider: {"start": moment(window.start), "end": moment(window.end)}
                for provider, window in sorted(windows.items())
            },
            "newest_charge": _newest_charge(con),
            "status": status,
            "currency": currency,
            "gaps": _gaps(con),
        },
        "sources": [_source(report) for report in reports],
        "reconciliation": _reconciliation(con, known, choice),
        "coverage": {
            "rules": [_coverage(entry) for entry in result.coverage],
            "gpu": _gpu_coverage(con, currency),
        },
        "gpu_ledger": _ledger(con),
        "totals": totals(by_currency, currency, result.findings),
        "findings": [_finding(finding) for finding in result.findings],
    }


def _costs(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[Decimal, Decimal]]:
    """Currency -> (BilledCost, EffectiveCost) of the audit windows."""
    rows = con.execute("""
        select BillingCurrency, sum(BilledCost), sum(EffectiveCost)
        from charges join audit_windows using (provider)
        where day >= window_start and day < window_end
        group by all
    """).fetchall()
    return {row[0]: (row[1], row[2]) for row in rows}


def _newest_charge(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    rows = con.execute(
        "select provider, max(ChargePeriodEnd) from charges where ChargeCategory = 'Usage' group by all order by all"
    ).fetchall()
    return {row[0]: moment(row[1]) for row in rows}


def _gaps(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Days of the window without a charge of an account whose resources telemetry shows running."""
    rows = con.execute("""
        with owners as (
            select provider, ResourceId, any_value(SubAccountId) as SubAccountId from charges where ResourceId is not null group by all
            union
            select provider, ResourceId, SubAccountId from resources where SubAccountId is not null
        ),
        seen as (
            select distinct m.provider, o.SubAccountId, m.hour::date as day
            from metric_hours as m join owners as o using (provider, ResourceId)
        ),
        billed as (select distinct provider, SubAccountId, day from charges)
        select s.provider, s.SubAccountId, list(s.day order by s.day)
        from seen as s
        join audit_windows as w using (provider)
        left join billed as b on b.provider = s.provider and b.SubAccountId is not distinct from s.SubAccountId and b.day = s.day
        where b.day is null and s.day >= w.window_start and s.day < w.window_end
        group by all order by all
    """).fetchall()
    return [{"provider": row[0], "account_id": row[1], "days": [day.isoformat() for day in row[2]]} for row in rows]


def _source(report: SourceReport) -> dict[str, Any]:
    return {
        "provider": report.provider,
        "kind": report.kind,
        "format": report.format,
        "paths": report.paths,
        "files": report.files,
        "rows": report.rows,
        "billing_periods": report.billing_periods,
        "status": report.status,
        "message": report.message,
    }


def _reconciliation(con: duckdb.DuckDBPyConnection, known: Sequence[Bill], choice: Choice) -> list[dict[str, Any]]:
    """The sources' own sums beside the lake's, for every provider, billing account, period and currency that counts.

    A delivery of which every file breaks off has no total to compare with and is left out; its source says so.
    """
    paired = {
        (row[0], row[1].strftime("%Y-%m")): (row[2].isoformat(), row[3].isoformat())
        for row in con.execute("select SubAccountId, BillingPeriodStart, first_day, last_day from paired").fetchall()
    }
    source: dict[tuple[str, str, str, str], Decimal] = defaultdict(Decimal)
    broken: set[str] = set()
    for bill in known:
        if not bill.is_whole:
            broken.add(bill.id)
            continue
        for total in bill.totals:
            if not choice.counts(bill, total):
                continue
            # Of days that both of Azure's exports have, the actual one says what was billed.
            days = paired.get((total.sub_account_id, total.billing_period))
            if bill.role == "amortized" and days and days[0] <= (total.bill_day or "") <= days[1]:
                continue
            source[(bill.provider, total.billing_account_id, total.billing_period, total.currency)] += (
                total.source_billed_cost
            )
    lake: dict[tuple[str, str, str, str], Decimal] = defaultdict(Decimal)
    rows = con.execute(
        """
        select provider, coalesce(BillingAccountId, 'unknown'), strftime(BillingPeriodStart, '%Y-%m'), BillingCurrency, sum(BilledCost)
        from charges where not list_contains(?, delivery_id) group by all
        """,
        [sorted(broken)],
    ).fetchall()
    for provider, account, period, currency, billed in rows:
        lake[(provider, account, period, currency)] += billed
    return [
        {
            "provider": key[0],
            "billing_account_id": key[1],
            "billing_period": key[2],
            "source_billed_cost": text(source[key]),
            "lake_billed_cost": text(lake[key]),
            "difference": text(lake[key] - source[key]),
            "currency": key[3],
        }
        for key in sorted({*source, *lake})
    ]


def _coverage(entry: RuleCoverage) -> dict[str, Any]:
    """A rule that broke found nothing, like one without its data; the reason and the run's status tell them apart."""
    if entry.status == "failed":
        return {"rule_id": entry.rule_id, "status": "skipped", "reason": f"failed: {entry.reason}"}
    return {"rule_id": entry.rule_id, "status": entry.status, "reason": entry.reason}


def _gpu_coverage(con: duckdb.DuckDBPyConnection, currency: str) -> dict[str, Any]:
    """Accelerators that run, and those of them that samples cover; capacity in which nothing runs has nothing to sample."""
    row = con.execute(
        """
        with by_resource as (
            select provider, ResourceId, sum(EffectiveCost) as cost,
                coalesce(sum(EffectiveCost) filter (where class <> 'no_telemetry'), 0) as seen,
                count(*) filter (where class <> 'no_telemetry') > 0 as is_seen
            from accelerator_hours where BillingCurrency = ? and class <> 'reserved_unused' group by all
        )
        select count(ResourceId), count(ResourceId) filter (where is_seen), coalesce(sum(cost), 0), coalesce(sum(seen), 0) from by_resource
        """,
        [currency],
    ).fetchone()
    resources, with_telemetry, cost, seen = row or (0, 0, Decimal(0), Decimal(0))
    return {
        "resources": resources,
        "with_telemetry": with_telemetry,
        "effective_cost": text(cost),
        "effective_cost_with_telemetry": text(seen),
    }


def _ledger(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    rows = con.execute("""
        select provider, class, sum(accelerator_hours), sum(EffectiveCost), BillingCurrency
        from accelerator_hours group by all order by all
    """).fetchall()
    return [
        {
            "provider": row[0],
            "class": row[1],
            "accelerator_hours": None
            if row[2] is None
            else text(row[2]),  # an unused reservation may not tell its hours
            "effective_cost": text(row[3]),
            "currency": row[4],
        }
        for row in rows
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    """The one place where our names become those that users read."""
    evidence = dict(finding.evidence)
    if finding.instead_of:
        evidence["instead_of"] = list(finding.instead_of)
    return {
        "id": finding.id,
        "rule_id": finding.rule_id,
        "title": finding.title,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "status": finding.status,
        "provider": finding.provider,
        "account_id": finding.sub_account_id,
        "region": finding.region_id,
        "zone": finding.availability_zone,
        "resource_id": finding.resource_id,
        "resource_name": finding.resource_name,
        "resource_type": finding.resource_type,
        "service": finding.service_name,
        "tags": dict(finding.tags),
        "owner": finding.owner,
        "window": {"start": moment(finding.window_start), "end": moment(finding.window_end)},
        "monthly_cost": text(finding.monthly_cost),
        "monthly_savings": text(finding.monthly_savings),
        "monthly_savings_range": [text(finding.monthly_savings_low), text(finding.monthly_savings_high)],
        "monthly_savings_net": text(finding.monthly_savings_net),
        "freed_commitment": text(finding.freed_commitment),
        "currency": finding.billing_currency,
        "reason": finding.reason,
        "evidence": evidence,
        "remediation": {
            "summary": finding.remedy.summary,
            "commands": list(finding.remedy.commands),
            "terraform": finding.remedy.terraform,
            "risk": finding.remedy.risk,
            "effort": finding.remedy.effort,
        },
        "references": list(finding.references),
    }


def build_extras(
    con: duckdb.DuckDBPyConnection,
    made: Mapping[str, Any],
    windows: Mapping[str, Window],
    rules: Sequence[Rule],
    choice: Choice,
    max_data_age: int,
    now: datetime,
    *,
    parameters: Mapping[str, Mapping[str, object]] | None = None,
    settings: Sequence[render.Setting] | None = None,
    previous: render.PreviousRun | None = None,
    mutes: Mapping[str, render.Mute] | None = None,
    realised: Sequence[render.Realised] | None = None,
    rule_seconds: Mapping[str, float] | None = None,
) -> render.Extras:
    """The series and texts that the report shows beside the document.

    `parameters` is rule id -> parameter -> the value used in this run; without it the rules' own defaults hold.
    """
    used = parameters or {rule.id: {name: p.default for name, p in rule.parameters.items()} for rule in rules}
    return render.Extras(
        daily_costs=series.daily_costs(con),
        history=series.history(con),
        gpu_by_day=series.gpu_slices(con, "hour::date"),
        gpu_by_owner=series.gpu_slices(con, "owner"),
        gpu_by_model=series.gpu_slices(con, "accelerator_model"),
        machine_days=series.machine_days(con),
        week_hours=series.week_hours(con),
        transfer_edges=series.transfer_edges(con),
        transfer_payers=series.transfer_payers(con),
        no_telemetry=series.no_telemetry(con),
        unjoined=series.unjoined(con),
        classification=series.classification(con),
        samples=series.samples(con, made["findings"], used),
        account_names=series.account_names(con),
        rule_texts={rule.id: _rule_text(rule, used.get(rule.id, {})) for rule in rules},
        settings=tuple(settings) if settings is not None else None,
        mutes=mutes or {},
        realised=tuple(realised) if realised is not None else None,
        previous=previous,
        rule_seconds=rule_seconds,
        source_notes=tuple(
            render.SourceNote(bill.paths[0] if bill.paths else bill.source, role, note)
            for role, notes in (("primary", choice.primaries), ("secondary", choice.notes))
            for bill, note in notes
        ),
        notices=_notices(con, made, max_data_age, now),
        generated_at=now,
        version=metadata.version("auditor"),
    )


def _rule_text(rule: Rule, used: Mapping[str, object]) -> render.RuleText:
    parameters = {}
    for name, parameter in rule.parameters.items():
        value = used.get(name, parameter.default)
        parameters[name] = {"value": value, "unit": parameter.unit, "about": parameter.about}
        if value != parameter.default:
            parameters[name]["default"] = parameter.default
    return render.RuleText(rule.title, rule.why, rule.savings, rule.blind_to, parameters)


def _notices(
    con: duckdb.DuckDBPyConnection,
    made: Mapping[str, Any],
    max_data_age: int,
    now: datetime,
) -> tuple[str, ...]:
    """What must be the first thing a reader sees: data that stopped arriving before the end of the window."""
    notices = stale_bills(made, max_data_age, now)
    for provider, account, newest in _left_behind(con):
        notices.append(
            f"The charges of {provider} account {account} end on {newest:%Y-%m-%d}, before the window begins: none of them is in these figures."
        )
    return tuple(notices)


def _left_behind(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str, date]]:
    """Billing accounts of which no charge lies in the window, and the last day of their charges."""
    rows: list[tuple[str, str, date]] = con.execute("""
        select c.provider, coalesce(c.BillingAccountId, 'unknown'), max(c.day)
        from charges as c join audit_windows as w using (provider)
        group by all
        having count(*) filter (where c.day >= w.window_start and c.day < w.window_end) = 0
        order by all
    """).fetchall()
    return rows
