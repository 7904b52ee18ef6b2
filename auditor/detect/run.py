"""Runs rules over the views and turns their rows into findings."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from math import isfinite
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import duckdb

from auditor.detect.context import tags_of, with_context
from auditor.detect.remedies import filled
from auditor.detect.rule import ENGINE_PARAMETERS, ParameterValue, Rule, checked_overrides
from auditor.detect.settle import settle
from auditor.detect.stock import Stock
from auditor.errors import RuleError
from auditor.finding import CONFIDENCES, HOURS_A_MONTH, Finding, Remedy
from auditor.views import RULE_RESULT, RULE_RESULT_OPTIONAL

logger = logging.getLogger(__name__)

_MONEY_COLUMNS = ("effective_cost", "committed_cost", "avoidable_cost", "avoidable_low", "avoidable_high")
_NIL = Decimal(0)
_SMALLEST = Decimal("1e-12")  # the lake's own precision
_TOO_MUCH = Decimal("1e18")  # the lake's money, decimal(30, 12), ends below it
_PRECISION = 60  # digits: the largest amount of the lake, scaled from an hour to a month, stays exact
_WORDS = ("provider", "BillingCurrency", "confidence", "reason")


@dataclass(frozen=True)
class Window:
    """A half-open stretch of time, UTC and aware."""

    start: datetime
    end: datetime

    @property
    def hours(self) -> Decimal:
        span = self.end - self.start
        return Decimal(span.days * 86400 + span.seconds) / 3600


@dataclass(frozen=True)
class RuleCoverage:
    """What became of one rule: ran, degraded (without some data), skipped (without its data) or failed."""

    rule_id: str
    status: str
    reason: str | None = None


@dataclass(frozen=True)
class DetectResult:
    """Settled findings, by falling net savings, and one coverage entry for every rule."""

    findings: tuple[Finding, ...]
    coverage: tuple[RuleCoverage, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)  # rule id -> how long its query took


def detect(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    windows: Mapping[str, Window],
    overrides: Mapping[str, Mapping[str, object]] | None = None,
    shared: Mapping[str, object] | None = None,
) -> DetectResult:
    """Runs every rule over every provider's window and settles what they find.

    `windows` is by provider; providers that share a window are looked at in one run of the query. `overrides` is rule
    id -> parameter -> value, `shared` holds the settings that several rules know by the same name. A rule without its
    data is skipped, one that breaks is recorded as failed; neither ends the run. Raises SettingsError for an override
    that no rule understands.
    """
    values = checked_overrides(rules, overrides or {}, shared or {})
    stock = Stock(con)
    findings: list[Finding] = []
    rows: list[Mapping[str, Any]] = []
    coverage: list[RuleCoverage] = []
    seconds: dict[str, float] = {}
    for rule in rules:
        ready = stock.readiness(rule, windows)
        started = time.perf_counter()
        if ready.providers:
            try:
                found = list(_run(con, rule, {name: windows[name] for name in ready.providers}, values[rule.id]))
            except Exception as error:  # a rule may be anybody's: whatever it does wrong is its own failure
                logger.debug("rule failed rule=%s", rule.id, exc_info=True)
                coverage.append(RuleCoverage(rule.id, "failed", _failure(error)))
                continue
            finally:
                seconds[rule.id] = round(time.perf_counter() - started, 3)
            findings.extend(finding for finding, _ in found)
            rows.extend(row for _, row in found)
            logger.debug("rule ran rule=%s findings=%d", rule.id, len(found))
        coverage.append(RuleCoverage(rule.id, ready.status, ready.reason))
    by_id = {rule.id: rule for rule in rules}
    known = [
        _with_commands(by_id[finding.rule_id], finding, row)
        for finding, row in zip(with_context(con, findings), rows, strict=True)
    ]
    settled = settle(known, rules)
    for entry in coverage:
        if entry.status == "failed":
            logger.error("rule failed rule=%s error=%s", entry.rule_id, entry.reason)
    logger.info("rules ran rules=%d findings=%d", len(rules), len(settled))
    return DetectResult(tuple(settled), tuple(coverage), seconds)


def _failure(error: Exception) -> str:
    """The first line of what went wrong; an error that nobody wrote a sentence for says its kind."""
    said = str(error).strip().partition("\n")[0]
    return said if said and isinstance(error, duckdb.Error | RuleError) else f"{type(error).__name__}: {said}"


def _run(
    con: duckdb.DuckDBPyConnection, rule: Rule, windows: Mapping[str, Window], values: Mapping[str, ParameterValue]
) -> Iterable[tuple[Finding, Mapping[str, Any]]]:
    by_window: dict[Window, list[str]] = defaultdict(list)
    for provider, window in windows.items():
        by_window[_shortened(window, rule.lookback_days)].append(provider)
    seen: set[str] = set()
    for window in sorted(by_window, key=lambda each: (each.start, each.end)):
        for row in run_query(con, rule, window, values):
            if row["provider"] in by_window[window]:
                yield _unique(finding_of(rule, row, window), seen, rule), row


def run_query(
    con: duckdb.DuckDBPyConnection, rule: Rule, window: Window, values: Mapping[str, ParameterValue]
) -> list[dict[str, Any]]:
    """Rows of the rule's query over one window, checked against what a rule must return.

    Ids come back as text, whatever the rule made of them. Raises RuleError for missing columns and for values that no
    finding can hold, duckdb.Error where the query itself breaks.
    """
    # DuckDB's TIMESTAMP is without zone; the views hold UTC, so the bound times are UTC without saying so.
    engine = {"window_start": _naive(window.start), "window_end": _naive(window.end), "window_hours": window.hours}
    bound = {name: engine[name] if name in ENGINE_PARAMETERS else values[name] for name in rule.bound}
    cursor = con.execute(rule.sql, bound)
    columns = [column[0] for column in cursor.description or ()]
    missing = [name for name in RULE_RESULT if name not in columns]
    if missing:
        raise RuleError(f"{rule.id}: the query does not return {', '.join(missing)}")
    rows = [_in_text(rule, dict(zip(columns, row, strict=True))) for row in cursor.fetchall()]
    for row in rows:
        _check(rule, row)
    return rows


def _in_text(rule: Rule, row: dict[str, Any]) -> dict[str, Any]:
    """The row with its ids and names as text: an account number that was read as a number is the same account."""
    for name in (*RULE_RESULT, *RULE_RESULT_OPTIONAL):
        if name in (*_MONEY_COLUMNS, *_WORDS, "window_start", "window_end", "Tags"):
            continue
        value = row.get(name)
        if isinstance(value, int | Decimal | UUID) and not isinstance(value, bool):
            row[name] = format(value, "f") if isinstance(value, Decimal) else str(value)
        elif not isinstance(value, str | None):
            raise RuleError(f"{rule.id}: {name} is {type(value).__name__}, wanted text")
    return row


def _check(rule: Rule, row: Mapping[str, Any]) -> None:
    for name in ("provider", "BillingCurrency", *_MONEY_COLUMNS):
        if row[name] is None:
            raise RuleError(f"{rule.id}: a row for {row['ResourceId']} has no {name}")
    for name in _MONEY_COLUMNS:
        if not isinstance(row[name], Decimal | int) or isinstance(row[name], bool):
            raise RuleError(f"{rule.id}: {name} is {type(row[name]).__name__}, and money has to stay decimal")
        if abs(row[name]) >= _TOO_MUCH:
            raise RuleError(f"{rule.id}: {name} of {row['ResourceId']} is {row[name]}, more than money can be")
    for name in _WORDS:
        if not isinstance(row[name], str | None):
            raise RuleError(f"{rule.id}: {name} is {type(row[name]).__name__}, wanted text")
    for name in ("window_start", "window_end"):
        if not isinstance(row.get(name), date | None):
            raise RuleError(f"{rule.id}: {name} is {type(row[name]).__name__}, wanted a timestamp")
    if not isinstance(row.get("standby"), bool | None):
        raise RuleError(f"{rule.id}: standby is {type(row['standby']).__name__}, wanted a boolean")
    if row["confidence"] not in CONFIDENCES:
        raise RuleError(f"{rule.id}: confidence is {row['confidence']!r}, wanted one of {', '.join(CONFIDENCES)}")


def finding_of(rule: Rule, row: Mapping[str, Any], window: Window) -> Finding:
    """The finding that one checked row of a rule is, in dollars a month.

    Savings are held between nothing and the uncommitted part of the cost: a credit line can make the cost of a
    resource smaller than its usage. A row that says `standby` saves nothing, and its reason says why.
    """
    own = Window(_aware(row.get("window_start")) or window.start, _aware(row.get("window_end")) or window.end)
    if own.hours <= 0:
        raise RuleError(f"{rule.id}: the window of {row['ResourceId']} is empty ({own.start} to {own.end})")
    money = {name: Decimal(row[name]) for name in _MONEY_COLUMNS}
    standby = bool(row.get("standby"))
    committed = min(max(money["committed_cost"], _NIL), max(money["effective_cost"], _NIL))
    most = _NIL if standby else max(money["effective_cost"] - committed, _NIL)
    expected, low, high = (
        min(max(money[name], _NIL), most) for name in ("avoidable_cost", "avoidable_low", "avoidable_high")
    )
    inform = rule.stage == "inform"
    # A text put together from a figure that the bill does not have is null; the finding stands all the same.
    reason = row["reason"] or rule.title

    def a_month(amount: Decimal) -> Decimal:
        with localcontext() as context:
            context.prec = _PRECISION
            return (amount * HOURS_A_MONTH / own.hours).quantize(_SMALLEST)

    return Finding(
        rule_id=rule.id,
        title=rule.title,
        provider=row["provider"],
        sub_account_id=row["SubAccountId"],
        region_id=row["RegionId"],
        resource_id=row["ResourceId"],
        subject=_subject(row),
        billing_currency=row["BillingCurrency"],
        window_start=own.start,
        window_end=own.end,
        effective_cost=money["effective_cost"],
        committed_cost=committed,
        monthly_cost=a_month(money["effective_cost"]),
        monthly_savings=a_month(expected),
        monthly_savings_low=a_month(min(low, expected)),
        monthly_savings_high=a_month(max(high, expected)),
        freed_commitment=_NIL if standby or inform else a_month(committed),
        confidence=row["confidence"],
        severity=rule.severity or "low",
        reason=f"stated standby: {reason}" if standby else reason,
        remedy=_remedy(rule, row),
        references=_references(rule, str(row["provider"])),
        stage=rule.stage,
        exclusive_group=rule.exclusive_group,
        availability_zone=row.get("AvailabilityZone"),
        resource_name=row.get("ResourceName"),
        resource_type=row.get("ResourceType"),
        service_name=row.get("ServiceName"),
        tags=tags_of(row.get("Tags")),
        owner=row.get("owner"),
        evidence=_evidence(row),
    )


def _shortened(window: Window, days: int | None) -> Window:
    return window if days is None else Window(max(window.start, window.end - timedelta(days=days)), window.end)


def _naive(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(tzinfo=None)


def _aware(time: date | None) -> datetime | None:
    if time is None:
        return None
    if not isinstance(time, datetime):
        return datetime(time.year, time.month, time.day, tzinfo=UTC)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _subject(row: Mapping[str, Any]) -> str:
    return row.get("subject") or row["ResourceId"] or "/".join((row["RegionId"] or "-", row.get("ServiceName") or "-"))


def _unique(finding: Finding, seen: set[str], rule: Rule) -> Finding:
    """The finding, its subject made longer by the currency where a resource is billed in two."""
    if finding.id in seen:
        finding = replace(finding, subject=f"{finding.subject} {finding.billing_currency}")
    if finding.id in seen:
        raise RuleError(f"{rule.id}: two rows speak of {finding.subject} in account {finding.sub_account_id}")
    seen.add(finding.id)
    return finding


def _evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    known = (*RULE_RESULT, *RULE_RESULT_OPTIONAL)
    return {
        name: _money_or_plain(name, value) for name, value in row.items() if name not in known and not _lacks(value)
    }


def _money_or_plain(name: str, value: Any) -> Any:
    """A cost or price that a rule computed as a float is money all the same, and money is written as text."""
    if isinstance(value, float) and name.endswith(("_cost", "_price", "_savings")):
        return _plain(Decimal(repr(value)))
    return _plain(value)


def _plain(value: Any) -> Any:
    """The value as JSON knows it: decimals and times as text, so that nothing is rounded on the way."""
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if value.tzinfo else value.isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or (isinstance(value, str | int | float) and not _lacks(value)) else str(value)


def _lacks(value: Any) -> bool:
    """A ratio of nothing to nothing is a missing figure, and JSON has no word for it."""
    return value is None or (isinstance(value, float) and not isfinite(value))


# Whose documentation a reference is, by its host.
_HOSTS = {
    "aws": ("aws.amazon.com",),
    "gcp": ("cloud.google.com", "developers.google.com"),
    "azure": ("microsoft.com",),
}


def _references(rule: Rule, provider: str) -> tuple[str, ...]:
    """The rule's references but for those to another cloud's documentation."""
    others = tuple(host for cloud, hosts in _HOSTS.items() if cloud != provider for host in hosts)
    mine = tuple(link for link in rule.references if not (urlsplit(link).hostname or "").endswith(others))
    return mine or rule.references


def _remedy(rule: Rule, row: Mapping[str, Any]) -> Remedy:
    text = rule.remedy.get(row["provider"])
    if text is None:
        raise RuleError(f"{rule.id}: a row is of {row['provider']}, for which the rule has no remedy")
    return filled(text, row)


def _with_commands(rule: Rule, finding: Finding, row: Mapping[str, Any]) -> Finding:
    """The finding with its commands filled from all that is known of its resource, not from the rule's row alone."""
    learnt = {
        "AvailabilityZone": finding.availability_zone,
        "ResourceName": finding.resource_name,
        "ResourceType": finding.resource_type,
        "ServiceName": finding.service_name,
    }
    return replace(finding, remedy=_remedy(rule, {**row, **{name: value for name, value in learnt.items() if value}}))
