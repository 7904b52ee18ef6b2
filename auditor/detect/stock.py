"""Which data there is, and what a rule lacks of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from auditor.detect.rule import Rule
from auditor.views import VIEWS

# Which kind of source fills a view: what a reader has to deliver when it is empty.
_SOURCE_OF_VIEW = {
    **{view: f"inventory of {view.replace('_', ' ')}" for view in VIEWS},
    "charges": "charges",
    "transfers": "transfer charges",
    "accelerator_hours": "accelerator charges",
    "commitment_hours": "commitment charges",
    "metric_hours": "telemetry",
    "flows_daily": "flow logs",
    "paid_rates": "accelerator charges of known machine types",
    "accelerator_peaks": "peak compute of accelerators",
    "prices": "prices",
    "budgets": "budgets in the configuration",
}
# Columns of accelerator_hours that only samples fill; coverage is 0 without them, which is knowledge too.
SAMPLED_COLUMNS = frozenset(
    {"utilization_mean", "utilization_max", "memory_used_ratio", "storage_pressure", "input_wait"}
)


@dataclass(frozen=True)
class Readiness:
    """For which providers a rule runs, and its status and reason in the coverage."""

    providers: tuple[str, ...]
    status: str
    reason: str | None


class Stock:
    """Which views hold rows of which providers."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._existing = {row[0] for row in con.execute("select table_name from information_schema.tables").fetchall()}
        self._providers: dict[str, frozenset[str]] = {}

    def providers(self, view: str) -> frozenset[str]:
        """The providers of which the view has a row."""
        if view not in self._providers:
            self._providers[view] = (
                self._query(f"select distinct provider from {view}") if view in self._existing else frozenset()
            )
        return self._providers[view]

    def sampled(self) -> frozenset[str]:
        """The providers of which any accelerator-hour has samples."""
        if "" not in self._providers:
            self._providers[""] = self._query("select distinct provider from accelerator_hours where coverage > 0")
        return self._providers[""]

    def readiness(self, rule: Rule, windows: Mapping[str, object]) -> Readiness:
        """For which providers the rule has its data, and what to say about the others.

        Providers are those with a window that the rule covers; with charges of none of them it has nothing to judge.
        """
        self._give_missing_views(rule)
        covered = [name for name in sorted(windows) if name in rule.clouds]
        if not covered:
            return Readiness((), "skipped", f"covers {', '.join(rule.clouds)}, of which there is no billing data")
        lacks = {name: self._lacking(rule.needs, name) for name in covered}
        ready = tuple(name for name in covered if not lacks[name])
        if not ready:
            return Readiness((), "skipped", _gaps(lacks))
        lacks_optional = {name: self._lacking(rule.optional, name) for name in ready}
        reason = _gaps({**lacks, **{name: [*lacks[name], *gaps] for name, gaps in lacks_optional.items()}})
        return Readiness(ready, "degraded" if reason else "ran", reason or None)

    def _lacking(self, views: Mapping[str, Sequence[str]], provider: str) -> list[str]:
        lacking = [_SOURCE_OF_VIEW[view] for view in views if provider not in self.providers(view)]
        sampled = SAMPLED_COLUMNS & set(views.get("accelerator_hours", ()))
        if sampled and not lacking and provider not in self.sampled():
            lacking.append("samples of accelerator use")
        return lacking

    def _give_missing_views(self, rule: Rule) -> None:
        """A view that was not built is given empty, so that the query of a rule that does without it still binds."""
        for view in (*rule.needs, *rule.optional):
            if view not in self._existing:
                columns = ", ".join(f'null::{kind} as "{name}"' for name, kind in VIEWS[view].items())
                self._con.execute(f"create temp view {view} as select {columns} where false")
                self._existing.add(view)

    def _query(self, sql: str) -> frozenset[str]:
        return frozenset(row[0] for row in self._con.execute(sql).fetchall() if row[0] is not None)


def _gaps(lacks: Mapping[str, Sequence[str]]) -> str:
    """One sentence for each lack: `no inventory of nat gateways for aws, gcp`."""
    providers = defaultdict(list)
    for provider, gaps in lacks.items():
        for gap in gaps:
            providers[gap].append(provider)
    return "; ".join(f"no {gap} for {', '.join(dict.fromkeys(names))}" for gap, names in providers.items())
