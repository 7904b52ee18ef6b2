"""What the next weeks cost if the last four go on: weekday by weekday, or nothing where the data cannot carry it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from statistics import median

from auditor.render.extras import DayTotal

WEEKS = 4  # looked at: fewer say nothing of a weekday, more tell of another time
DAYS = 30  # foretold
ENOUGH = 7 * WEEKS


@dataclass(frozen=True)
class Forecast:
    """Expected cost of the DAYS days from `first` on; low and high repeat the cheapest and the dearest of the weeks."""

    first: date
    last: date
    cost: Decimal
    low: Decimal
    high: Decimal
    by_day: Mapping[tuple[date, str], Decimal]


@dataclass(frozen=True)
class Unknown:
    """Why nothing is foretold."""

    reason: str


def forecast(history: Iterable[DayTotal], currency: str) -> Forecast | Unknown:
    """The sum of every provider's forecast. The median of a weekday leaves out what happened once, such as a fee."""
    by_provider: dict[str, dict[date, Decimal]] = defaultdict(dict)
    for row in history:
        if row.currency == currency:
            days = by_provider[row.provider]
            days[row.day] = days.get(row.day, Decimal(0)) + row.effective_cost
    if not by_provider:
        return Unknown("there is no daily cost to go by")
    first = max(max(days) for days in by_provider.values()) + timedelta(days=1)
    by_day: dict[tuple[date, str], Decimal] = {}
    low = high = Decimal(0)
    for provider, days in sorted(by_provider.items()):
        end = max(days) + timedelta(days=1)
        recent = [end - timedelta(days=n) for n in range(1, ENOUGH + 1)]
        seen = sum(day in days for day in recent)
        if seen < ENOUGH:
            return Unknown(f"{provider} has charges on {seen} of the {ENOUGH} days that it takes")
        expected = {n: median(days[day] for day in recent if day.weekday() == n) for n in range(7)}
        for n in range(DAYS):
            day = first + timedelta(days=n)
            by_day[day, provider] = expected[day.weekday()]
        weeks = [sum((days[day] for day in recent[7 * n : 7 * n + 7]), Decimal(0)) for n in range(WEEKS)]
        low += min(weeks) * DAYS / 7
        high += max(weeks) * DAYS / 7
    cost = sum(by_day.values(), Decimal(0))
    return Forecast(first, first + timedelta(days=DAYS - 1), cost, min(low, cost), max(high, cost), by_day)
