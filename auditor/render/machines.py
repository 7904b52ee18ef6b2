"""The ledger's two pictures of habit: the dearest machines by day, and the hours of a week."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from auditor.finding import short_name
from auditor.render import charts, figures, view
from auditor.render.extras import MachineDay, WeekHour

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Part:
    """One class of a machine's days: its style, its words, and its path through a box a unit a day wide, 100 high."""

    style: str
    about: str
    path: str


@dataclass(frozen=True)
class Machine:
    """One line of the table of machines."""

    name: str
    within: str
    owner: str
    parts: tuple[Part, ...]
    about: str
    cost: Decimal
    at_work: str


@dataclass(frozen=True)
class Machines:
    """The dearest machines, their days from `first` to `last`, and the classes that occur."""

    rows: tuple[Machine, ...]
    days: int
    first: str
    last: str
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cell:
    """One hour of the week: how much of its cost was not at work."""

    x: int
    y: int
    strength: float
    about: str


@dataclass(frozen=True)
class Week:
    """The profile of a week, with its worst hours in words."""

    cells: tuple[Cell, ...]
    rows: tuple[tuple[str, str, str, Decimal], ...]


def machines(rows: Iterable[MachineDay], currency: str) -> Machines | None:
    """The dearest machines by day; null without any."""
    mine = [row for row in rows if row.currency == currency]
    if not mine:
        return None
    first, last = min(row.day for row in mine), max(row.day for row in mine)
    groups: dict[tuple[str, str], list[MachineDay]] = defaultdict(list)
    for row in mine:
        groups[row.provider, row.resource_id].append(row)
    made = [_machine(group, first, currency) for group in groups.values()]
    made.sort(key=lambda m: (-m.cost, m.name))
    seen = {row.accelerator_class for row in mine}
    legend = tuple((view.class_style(name), words) for name, words in view.CLASSES.items() if name in seen)
    return Machines(tuple(made), (last - first).days + 1, figures.day(first), figures.day(last), legend)


def _machine(rows: Sequence[MachineDay], first: date, currency: str) -> Machine:
    by_day: dict[date, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        by_day[row.day][row.accelerator_class] += row.effective_cost
        sums[row.accelerator_class] += row.effective_cost
    one = rows[0]
    cost = figures.total(sums.values())
    parts = tuple(
        Part(
            view.class_style(name),
            f"{view.CLASSES.get(name, name)}: {figures.percent(sums[name], cost)}, {figures.money(sums[name], currency)}",
            path,
        )
        for name, path in _paths(by_day, first).items()
    )
    judged = sum((value for name, value in sums.items() if name != "no_telemetry"), Decimal(0))
    return Machine(
        short_name(one.name, one.resource_id) or one.resource_id,
        " · ".join(part for part in (view.provider_name(one.provider), one.machine_type) if part),
        one.owner or view.NO_OWNER,
        parts,
        "; ".join(part.about for part in parts),
        cost,
        figures.percent(sums.get("productive", Decimal(0)), judged),
    )


def _paths(by_day: Mapping[date, Mapping[str, Decimal]], first: date) -> dict[str, str]:
    """A path for each class: every day a full column, split by cost, days alike in a row drawn as one."""
    found: dict[str, list[str]] = {name: [] for name in _order(by_day)}
    run: tuple[int, tuple[tuple[str, int, int], ...]] = (0, ())
    length = 0
    for day in [*sorted(by_day), None]:
        bands = _bands(by_day[day], list(found)) if day else ()
        x = (day - first).days if day else -1
        if length and bands == run[1] and x == run[0] + length:
            length += 1
            continue
        for name, top, height in run[1] if length else ():
            found[name].append(f"M{run[0]} {top}h{length}v{height}h-{length}z")
        run, length = (x, bands), 1
    return {name: "".join(parts) for name, parts in found.items() if parts}


def _order(by_day: Mapping[date, Mapping[str, Decimal]]) -> list[str]:
    seen = {name for costs in by_day.values() for name in costs}
    return [*(name for name in view.CLASSES if name in seen), *sorted(seen - set(view.CLASSES))]


def _bands(costs: Mapping[str, Decimal], order: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """(class, top, height) from the bottom up, in hundredths of the day's cost; corrections below zero take none."""
    whole = figures.total(value for value in costs.values() if value > 0)
    bands, below = [], Decimal(0)
    for name in order:
        value = costs.get(name, Decimal(0))
        if value > 0:
            low, high = round(100 * below / whole), round(100 * (below + value) / whole)
            bands.append((name, 100 - high, high - low))
            below += value
    return tuple(band for band in bands if band[2])


def week(rows: Iterable[WeekHour], currency: str) -> Week | None:
    """The share of cost not at work by weekday and hour; null where nothing could be judged."""
    idle: dict[tuple[int, int], Decimal] = defaultdict(Decimal)
    judged: dict[tuple[int, int], Decimal] = defaultdict(Decimal)
    for row in rows:
        if row.currency == currency and row.accelerator_class != "no_telemetry":
            key = (row.weekday, row.hour)
            judged[key] += row.effective_cost
            idle[key] += row.effective_cost if row.accelerator_class != "productive" else Decimal(0)
    if not any(value > 0 for value in judged.values()):
        return None
    cells = tuple(
        Cell(
            hour,
            day,
            charts.rounded(max(Decimal(0), idle[day, hour]) / whole),
            f"{WEEKDAYS[day]} {hour:02}:00 UTC: {figures.percent(idle[day, hour], whole)} not at work, {figures.money(idle[day, hour], currency)}",
        )
        for (day, hour), whole in sorted(judged.items())
        if whole > 0
    )
    return Week(cells, tuple(_weekday(n, idle, judged) for n in range(7)))


def _weekday(
    n: int, idle: Mapping[tuple[int, int], Decimal], judged: Mapping[tuple[int, int], Decimal]
) -> tuple[str, str, str, Decimal]:
    """(weekday, share at night, share by day, cost not at work): the picture in words, for those who cannot see it."""

    def share(hours: Iterable[int]) -> str:
        keys = [(n, hour) for hour in hours if (n, hour) in judged]
        return figures.percent(figures.total(idle[key] for key in keys), figures.total(judged[key] for key in keys))

    cost = figures.total(value for (day, _), value in idle.items() if day == n)
    return WEEKDAYS[n], share([*range(8), *range(20, 24)]), share(range(8, 20)), cost
