"""Geometry of the report's pictures. Widths are percent of the drawing, so text keeps its size on any screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from auditor.render import figures

HEIGHT = 200  # pixels between the top grid line and the lowest
LEFT = 9.0  # percent kept free for the axis
ROOMS = (("wide", 17), ("middle", 12), ("narrow", Decimal("4.5")))  # percent that hold name and share, or the share
MANY_DAYS = 92  # more columns than a quarter has days would be hairlines: they are added up to weeks


@dataclass(frozen=True)
class Segment:
    """One part of a bar: `style` names its colour, `room` how wide it is (wide, middle, narrow, or none for a label)."""

    style: str
    name: str
    value: Decimal
    share: str
    x: float
    width: float
    room: str


@dataclass(frozen=True)
class Column:
    """One part of one day's column."""

    style: str
    about: str
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True)
class Columns:
    """A column for each day (or week), stacked by series, with grid lines and dates."""

    parts: tuple[Column, ...]
    grid: tuple[tuple[float, str], ...]
    dates: tuple[tuple[float, str, str], ...]
    by_week: bool
    zero: float


def bar(parts: Sequence[tuple[str, str, Decimal]], whole: Decimal, scale: Decimal | None = None) -> tuple[Segment, ...]:
    """Segments of a stacked bar from (style, name, value), `scale` being the value of its full width.

    Negative values, which a ledger can hold after a correction, take no width.
    """
    full = scale if scale is not None else sum((max(value, Decimal(0)) for _, _, value in parts), Decimal(0))
    segments, x = [], Decimal(0)
    for style, name, value in parts:
        width = 100 * max(value, Decimal(0)) / full if full > 0 else Decimal(0)
        if width > 0:
            room = next((name for name, least in ROOMS if width >= least), "none")
            share = figures.percent(value, whole)
            segments.append(Segment(style, name, value, share, rounded(x), rounded(width), room))
        x += width
    return tuple(segments)


def folded(values: Sequence[Decimal]) -> list[Decimal]:
    """The values, or where they are more than a small picture can show, the sums of seven at a time."""
    if len(values) <= MANY_DAYS:
        return list(values)
    return [sum(values[i : i + 7], Decimal(0)) for i in range(0, len(values), 7)]


def spark(values: Sequence[Decimal]) -> str:
    """Path of a row of small columns in a box as wide as there are values and 20 high; negative days are left out."""
    top = max(values, default=Decimal(0))
    if top <= 0:
        return ""
    return "".join(
        f"M{i} 20v-{rounded(Decimal(20) * value / top)}h.8V20z" for i, value in enumerate(values) if value > 0
    )


def columns(
    values: Mapping[tuple[date, str], Decimal],
    series: Sequence[tuple[str, str]],
    currency: str,
    expected: Mapping[tuple[date, str], Decimal] | None = None,
) -> Columns | None:
    """Stacked columns of values by (day, series), series being (style, name) from the bottom up; null without a day.

    `expected` days follow those of `values` and are drawn faint; columns of weeks have none.

    Costs below zero (a correction) hang under the base line.
    """
    days = _every_day({day for day, _ in values})
    if not days:
        return None
    ahead: list[date] = []
    if expected and len(days) <= MANY_DAYS:
        known = days[-1]
        ahead = [day for day in _every_day({known, *(day for day, _ in expected)}) if day > known]
        days = [*days, *ahead]
        values = {**values, **{key: value for key, value in expected.items() if key[0] > known}}
    by_week = len(days) - len(ahead) > MANY_DAYS
    if by_week:
        days, values = _weeks(values)
    faint = set(ahead)
    heights = [[values.get((day, name), Decimal(0)) for _, name in series] for day in days]
    top = max(sum((v for v in column if v > 0), Decimal(0)) for column in heights)
    bottom = min(sum((v for v in column if v < 0), Decimal(0)) for column in heights)
    unit = step(max(top, -bottom))
    top = (top / unit).to_integral_value(ROUND_CEILING) * unit
    bottom = (bottom / unit).to_integral_value(ROUND_FLOOR) * unit
    if top == bottom:
        top = unit
    pixels = Decimal(HEIGHT) / (top - bottom)
    pitch = (100 - LEFT) / len(days)
    parts: list[Column] = []
    for i, (day, column) in enumerate(zip(days, heights, strict=True)):
        x = LEFT + i * pitch
        parts.extend(
            _stack(
                day=day,
                column=column,
                series=[(f"{style} faint", f"{name}, expected") for style, name in series] if day in faint else series,
                currency=currency,
                x=x,
                pitch=pitch,
                top=top,
                pixels=pixels,
            )
        )
    count = int((top - bottom) / unit)
    grid = tuple((rounded((unit * i) * pixels), figures.short(top - unit * i)) for i in range(count + 1))
    return Columns(tuple(parts), grid, _dates(days, pitch), by_week, rounded(top * pixels))


def _stack(
    *,
    day: date,
    column: Sequence[Decimal],
    series: Sequence[tuple[str, str]],
    currency: str,
    x: float,
    pitch: float,
    top: Decimal,
    pixels: Decimal,
) -> list[Column]:
    parts, above, below = [], Decimal(0), Decimal(0)
    for (style, name), value in zip(series, column, strict=True):
        if value == 0:
            continue
        start = above + value if value > 0 else below
        about = f"{figures.day(day)}, {name}: {figures.money(value, currency)}"
        y, height = rounded((top - start) * pixels), rounded(abs(value) * pixels)
        parts.append(Column(style, about, round(x + pitch * 0.1, 2), round(pitch * 0.8, 2), y, height))
        above, below = (above + value, below) if value > 0 else (above, below + value)
    return parts


def _dates(days: Sequence[date], pitch: float) -> tuple[tuple[float, str, str], ...]:
    """(middle of the column, text, importance): at most six dates, three of which remain on a small screen."""
    stride = max(1, -(-len(days) // 6))
    return tuple(
        (
            round(LEFT + (i + 0.5) * pitch, 2),
            f"{day.day} {figures.MONTHS[day.month - 1]}",
            "minor" if n % 2 else "major",
        )
        for n, (i, day) in enumerate(list(enumerate(days))[::stride])
    )


def _every_day(seen: set[date]) -> list[date]:
    if not seen:
        return []
    first, last = min(seen), max(seen)
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _weeks(values: Mapping[tuple[date, str], Decimal]) -> tuple[list[date], dict[tuple[date, str], Decimal]]:
    weekly: dict[tuple[date, str], Decimal] = {}
    for (day, name), value in values.items():
        monday = day - timedelta(days=day.weekday())
        weekly[monday, name] = weekly.get((monday, name), Decimal(0)) + value
    return sorted({day for day, _ in weekly}), weekly


def step(top: Decimal) -> Decimal:
    """Distance of the grid lines: 1, 2 or 5 times a power of ten, so that about four lines reach the top."""
    if top <= 0:
        return Decimal(1)
    unit = Decimal(1).scaleb((top / 4).adjusted())
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor * 4 >= top)


def rounded(value: Decimal) -> float:
    """As coordinates are written."""
    return round(float(value), 2)
