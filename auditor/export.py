"""Bills written as FOCUS: every charge of every line, one file for each provider, billing account and billing period.

Which bills count is decided as in an audit, on the sums of the lake; the lines come from the landing files once more.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb

from auditor import bills, conform, live, money
from auditor.bills import Bill, Choice
from auditor.collect.local import gather
from auditor.errors import LakeError, SettingsError, SourceError
from auditor.focus import CHARGE_COLUMNS, MEASURES, MONEY
from auditor.intake import Taken, take_bills
from auditor.lake import store
from auditor.landing import SourceReport
from auditor.normalise.billing.deliveries import Delivery
from auditor.normalise.billing.lines import read_lines
from auditor.normalise.billing.source import literal, quote
from auditor.normalise.recognise import sort_files
from auditor.progress import Progress, step
from auditor.reuse import EXPORT
from auditor.scan import DONE, NOTHING, PARTIAL, ScanRequest, workplace
from auditor.state import State

log = logging.getLogger(__name__)

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
# What an actual and an amortized export of Azure write of one charge in their own ways.
_LOOSE = ("ChargeDescription", "InvoiceId", "ListUnitPrice", "ContractedUnitPrice", "x_CostBasis", "bill_day")


@dataclass(frozen=True, order=True)
class Unit:
    """What one file holds."""

    provider: str
    billing_account_id: str
    billing_period: str


@dataclass(frozen=True)
class Written:
    """One file, and the sums of what it holds by currency: BilledCost and EffectiveCost."""

    unit: Unit
    path: Path
    rows: int
    costs: dict[str, tuple[Decimal, Decimal]]


@dataclass(frozen=True)
class Exported:
    """The files, what was left out because another bill covers it, and what could not be written and why."""

    files: tuple[Written, ...]
    left_out: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        if not self.files:
            return NOTHING
        return PARTIAL if self.problems else DONE


def check_version(version: str) -> str:
    """The version, if it is known. Raises SettingsError for another."""
    if version not in conform.VERSIONS:
        raise SettingsError(f"--focus {version}: this version is not known; known are {', '.join(conform.VERSIONS)}")
    return version


def export(request: ScanRequest, version: str, target: Path, progress: Progress, now: datetime) -> Exported:
    """Writes the bills under the request's paths, or those that its live sources were collected into, below `target`.

    A file's sums are compared with the bills' own before it gets its name. Raises SettingsError for an unknown version,
    LakeError where a disk is full or cannot be written.
    """
    check_version(version)
    with (
        workplace(request) as (data_dir, spool),
        State.open(request.settings.state.address(data_dir)) as state,
        state.run_lock(f"export, process {os.getpid()}") as lock,
    ):
        paths = live.fetch(request.paths, request.settings, data_dir, spool, progress, now)
        if request.live:
            paths += [str(folder) for folder in live.folders(request.settings, data_dir)]
        con = store.connect(request.settings.engine.memory_limit, request.settings.engine.threads, spool)
        run_id = state.begin_run(as_of=None, now=now, note=EXPORT)
        try:
            with step(progress, "Looking at the files"):
                files, unopened = gather(paths, spool)
                found = sort_files(files)
            tags = request.settings.tags.settings()
            taken = take_bills(found, con, state, run_id, data_dir, spool, tags, progress)
            lock.check()
            known = [bills.from_record(record) for record in state.deliveries() if record.identities]
            choice = bills.choose(known)
            store.load(con, data_dir, state.live_files())
            store.keep_counted(con, choice.counted, choice.partly)
            store.pair_azure_costs(con)
            conform.prepare(con)
            with step(progress, "Writing FOCUS"):
                written, problems = _Writer(con, spool, target, version, known, choice, taken).write()
            state.finish_run(run_id, "complete", None, exit_status=DONE)
        except BaseException as error:
            how = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            state.finish_run(run_id, how, None, exit_status=NOTHING)
            raise
        finally:
            con.close()
    problems = [*(f"{name}: {reason}" for name, reason in unopened), *_failed(taken.reports), *problems]
    return Exported(tuple(written), _left_out(choice, taken.reports), tuple(problems))


def _failed(reports: Iterable[SourceReport]) -> list[str]:
    return [f"{report.paths[0]}: {report.message}" for report in reports if report.status == "failed"]


def _left_out(choice: Choice, reports: Iterable[SourceReport]) -> tuple[str, ...]:
    notes = [f"{bill.paths[0] if bill.paths else bill.source}: {note}" for bill, note in choice.notes]
    notes += [f"{report.paths[0]}: {report.message}" for report in reports if report.status == "skipped"]
    return tuple(dict.fromkeys(notes))


class _Writer:
    """Writes the units of one export: straight from the lines where one delivery is one unit, else by way of the spool."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        spool: Path,
        target: Path,
        version: str,
        known: Sequence[Bill],
        choice: Choice,
        taken: Taken,
    ) -> None:
        self._con, self._spool, self._target, self._version, self._choice = con, spool, target, version, choice
        counted = {bill.id: bill for bill in known if any(choice.counts(bill, total) for total in bill.totals)}
        self._deliveries = [(each, [bill for bill in made if bill.id in counted]) for each, made in taken.deliveries]
        self._units: dict[Unit, list[Bill]] = {}
        for bill in counted.values():
            for unit in self._units_of(bill):
                self._units.setdefault(unit, []).append(bill)
        self._expected = _sums(con, "charges")
        self._paired = {row[0] for row in con.execute("select distinct SubAccountId from paired").fetchall()}

    def write(self) -> tuple[list[Written], list[str]]:
        """The files written, and why others were not."""
        problems: list[str] = []
        at_hand = {bill.id for _, made in self._deliveries for bill in made}
        for unit, of in list(self._units.items()):
            absent = [bill for bill in of if bill.id not in at_hand]
            if absent:
                problems.append(_not_at_hand(unit, absent))
                del self._units[unit]
        made: list[Written] = []
        staged: dict[str, Path] = {}
        for number, (delivery, of) in enumerate(self._deliveries):
            try:
                made += self._take_lines(number, delivery, of, staged)
            except SourceError as error:
                problems.append(str(error))
        for unit, of in self._units.items():
            if all(bill.id in staged for bill in of):
                made.append(self._write_unit(unit, self._staged(unit, of, staged)))
        sound = []
        for file in made:
            trouble = self._settle(file)
            problems += [trouble] if trouble else []
            sound += [] if trouble else [replace(file, path=_final(file.path))]
        return sorted(sound, key=lambda file: file.unit), problems

    def _units_of(self, bill: Bill) -> set[Unit]:
        return {
            Unit(bill.provider, total.billing_account_id, bill.billing_period)
            for total in bill.totals
            if self._choice.counts(bill, total)
        }

    def _take_lines(
        self, number: int, delivery: Delivery, of: Sequence[Bill], staged: dict[str, Path]
    ) -> list[Written]:
        """Reads one delivery once: into its unit's file, or into the spool where several deliveries or units meet."""
        units = [unit for unit, holders in self._units.items() if any(bill in holders for bill in of)]
        if not units:
            return []
        made: list[Written] = []
        if len(units) == 1 and len(self._units[units[0]]) == 1:

            def use(lines: str) -> None:
                made.append(self._write_unit(units[0], self._counted(number, lines, of)))

        else:
            path = self._spool / f"focus-{number}.parquet"
            staged |= {bill.id: path for bill in of}

            def use(lines: str) -> None:
                _copy(self._con, f"select * from {self._counted(number, lines, of)}", path)

        read_lines(self._con, delivery, self._spool, use, net=of[0].is_net, role=of[0].role)
        return made

    def _counted(self, number: int, lines: str, of: Sequence[Bill]) -> str:
        """The relation without the lines that another bill covers, or that belong to a bill which gave way whole."""
        whole: list[dict[str, str | None]] = []
        days: list[dict[str, str | None]] = []
        for bill in of:
            of_bill: dict[str, str | None] = {"provider": bill.provider, "period": bill.billing_period}
            for total in bill.totals:
                if (bill.id, total.sub_account_id) in self._choice.counted:
                    whole.append(of_bill | {"account": total.sub_account_id})
                elif self._choice.counts(bill, total):
                    days.append(of_bill | {"account": total.sub_account_id, "day": total.bill_day})
        unique = [dict(pairs) for pairs in sorted({tuple(each.items()) for each in whole}, key=str)]
        shape = '[{"provider":"VARCHAR","period":"VARCHAR","account":"VARCHAR","day":"DATE"}]'
        for table, rows in ((f"whole_{number}", unique), (f"days_{number}", days)):
            self._con.execute(
                f"create or replace temp table {table} as select unnest(from_json(?, '{shape}'), recursive := true)",
                [json.dumps(rows)],
            )
        # Joined, not asked for with `exists`: two of these in one condition make the engine hold the whole bill.
        same = "{0}.provider = c.provider and {0}.period = strftime(c.BillingPeriodStart, '%Y-%m') and {0}.account is not distinct from c.SubAccountId"
        return (
            f"(select c.* from {lines} as c left join whole_{number} as w on {same.format('w')} "
            f"left join days_{number} as d on {same.format('d')} and d.day is not distinct from c.bill_day "
            "where w.provider is not null or d.provider is not null)"
        )

    def _staged(self, unit: Unit, of: Sequence[Bill], staged: dict[str, Path]) -> str:
        paths = ", ".join(literal(str(path)) for path in sorted({staged[bill.id] for bill in of}))
        relation = f"""(
            select * from read_parquet([{paths}], union_by_name=true, hive_partitioning=false)
            where provider = {literal(unit.provider)}
                and coalesce(BillingAccountId, 'unknown') = {literal(unit.billing_account_id)}
                and strftime(BillingPeriodStart, '%Y-%m') = {literal(unit.billing_period)}
        )"""
        is_paired = any(total.sub_account_id in self._paired for bill in of if bill.role for total in bill.totals)
        return _paired(relation) if is_paired else relation

    def _write_unit(self, unit: Unit, relation: str) -> Written:
        """Writes the unit under a name that says it is not finished."""
        folder = (
            self._target / _folder("provider", unit.provider) / _folder("billing_account_id", unit.billing_account_id)
        )
        path = folder / _folder("billing_period", unit.billing_period) / f"focus-{self._version}.parquet.part"
        rows = _copy(self._con, conform.select(relation, self._version), path)
        return Written(unit, path, rows, {})

    def _settle(self, file: Written) -> str | None:
        """Compares the file's sums with the bill's and gives it its name; else why it must not stay."""
        found = _sums(self._con, f"read_parquet({literal(str(file.path))})", literal(file.unit.provider)).get(
            file.unit, {}
        )
        expected = self._expected.get(file.unit, {})
        if found != expected:
            file.path.unlink()
            return (
                f"{file.unit.provider} account {file.unit.billing_account_id}, {file.unit.billing_period}: not written, its lines add up to "
                f"{_told(found)} where the bill has {_told(expected)}; please report this"
            )
        file.costs.update(found)
        file.path.replace(_final(file.path))
        return None


def _final(path: Path) -> Path:
    return path.with_suffix("")


def _folder(key: str, value: str) -> str:
    """A folder's name; what cannot be written out is told apart by its digest."""
    plain = _NOT_PLAIN.sub("_", value)[:80]
    return f"{key}={plain}" if plain == value else f"{key}={plain}-{hashlib.sha256(value.encode()).hexdigest()[:8]}"


def _not_at_hand(unit: Unit, absent: Sequence[Bill]) -> str:
    names = ", ".join(dict.fromkeys(path for bill in absent for path in bill.paths[:1]))
    return (
        f"{unit.provider} account {unit.billing_account_id}, {unit.billing_period}: not written, {names} counts and is not "
        "under the paths; name its folder too"
    )


def _told(costs: dict[str, tuple[Decimal, Decimal]]) -> str:
    told = (
        f"{money.text(billed)} billed and {money.text(effective)} effective in {currency}"
        for currency, (billed, effective) in sorted(costs.items())
    )
    return ", ".join(told) or "nothing"


def _sums(
    con: duckdb.DuckDBPyConnection, relation: str, provider: str = "provider"
) -> dict[Unit, dict[str, tuple[Decimal, Decimal]]]:
    """Unit -> currency -> (BilledCost, EffectiveCost)."""
    rows = con.execute(f"""
        select {provider}, coalesce(BillingAccountId, 'unknown'), strftime(BillingPeriodStart::timestamp, '%Y-%m'), BillingCurrency,
            sum(BilledCost), sum(EffectiveCost)
        from {relation} group by all
    """).fetchall()
    sums: dict[Unit, dict[str, tuple[Decimal, Decimal]]] = {}
    for provider_, account, period, currency, billed, effective in rows:
        sums.setdefault(Unit(provider_, account, period), {})[currency] = (billed, effective)
    return sums


def _paired(relation: str) -> str:
    """The two halves of Azure's bill as one: BilledCost from actual, EffectiveCost and quantities from amortized rows.

    A line is paired with the line of the other export that says the same; of equal lines the first with the first.
    """
    measures = [name for name in CHARGE_COLUMNS if name in MEASURES]
    keys = [name for name in CHARGE_COLUMNS if name not in MEASURES and name not in _LOOSE]
    names = ", ".join(quote(name) for name in keys)
    sums = ", ".join(f"sum({quote(name)})::{CHARGE_COLUMNS[name]} as {quote(name)}" for name in measures)
    kept = ", ".join(f"any_value({quote(name)}) as {quote(name)}" for name in keys)
    loose = ", ".join(f"max({quote(name)}) as {quote(name)}" for name in _LOOSE)
    is_usage = "x_CostBasis = 'actual' and ChargeCategory <> 'Purchase'"
    return f"""(
        with halves as (
            select u.* replace (
                case when is_both and x_CostBasis = 'actual' then 0 else EffectiveCost end::{MONEY} as EffectiveCost,
                case when is_both and x_CostBasis = 'amortized' then 0 else BilledCost end::{MONEY} as BilledCost,
                case when is_both and {is_usage} then 0 else ListCost end::{MONEY} as ListCost,
                case when is_both and {is_usage} then 0 else ContractedCost end::{MONEY} as ContractedCost,
                case when is_both and x_CostBasis = 'actual' then null else ConsumedQuantity end as ConsumedQuantity,
                case when is_both and {is_usage} then null else PricingQuantity end as PricingQuantity
            )
            from (
                select l.*, p.BillingPeriodStart is not null and x_CostBasis is not null and bill_day between first_day and last_day as is_both
                from {relation} as l
                left join paired as p on p.SubAccountId is not distinct from l.SubAccountId and p.BillingPeriodStart = l.BillingPeriodStart
            ) as u
        ),
        marked as (
            select *, hash({names}) as first_hash, hash('second', {", ".join(quote(name) for name in reversed(keys))}) as second_hash
            from halves where is_both
        ),
        counted as (
            select *, row_number() over (partition by x_CostBasis, first_hash, second_hash) as occurrence from marked
        )
        select * exclude (is_both) from halves where not is_both
        union all by name
        select {kept}, {loose}, {sums} from counted group by first_hash, second_hash, occurrence
    )"""


def _copy(con: duckdb.DuckDBPyConnection, query: str, path: Path) -> int:
    """Writes the query's rows and returns their number. Raises LakeError where the disk does not take them."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = con.execute(
            f"copy ({query}) to {literal(str(path))} (format parquet, compression zstd, compression_level 1)"
        ).fetchone()
        with path.open("rb") as written:
            os.fsync(written.fileno())
    except (OSError, duckdb.IOException) as error:
        with suppress(OSError):  # the first reason is the one to tell
            path.unlink(missing_ok=True)
        raise LakeError(
            f"{path.parent} cannot be written: {str(error).splitlines()[0]}; free some space or choose another -o"
        ) from error
    return int(found[0]) if found else 0
