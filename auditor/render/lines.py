"""Geometry of a finding's chart: the samples behind it, a line each, or columns for what adds up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

from auditor.render import figures
from auditor.render.charts import step
from auditor.render.extras import Samples

TALL = 100  # units of the drawing's height; its width is a unit a step
STYLES = ("mean", "peak", "third", "fourth")


@dataclass(frozen=True)
class Stroke:
    """One line: its style, name and path."""

    style: str
    name: str
    path: str


@dataclass(frozen=True)
class Chart:
    """Strokes over a box `wide` units wide, the label of its upper edge, and the finding's window in it."""

    about: str
    wide: int
    top: str
    strokes: tuple[Stroke, ...]
    filled: bool
    threshold: tuple[float, str] | None
    shade: tuple[float, float] | None
    first: str
    last: str
    each: str


def chart(finding: Mapping[str, Any], lines: Sequence[Samples]) -> Chart | None:
    """The chart of a finding's samples; null where there are none to draw."""
    drawn = [line for line in lines if any(value is not None for value in line.values)][: len(STYLES)]
    if not drawn:
        return None
    first = drawn[0]
    wide = max(len(line.values) for line in drawn)
    limit = next((line.threshold for line in drawn if line.threshold is not None), None)
    top = _top(drawn)
    adds_up = first.unit != "ratio"
    strokes = tuple(
        Stroke(style, line.label, _columns(line.values, top) if adds_up else _line(line.values, top))
        for style, line in zip(STYLES, drawn, strict=False)
    )
    end = first.start + timedelta(hours=first.step_hours * wide)
    span = end - first.start
    return Chart(
        about="; ".join(_words(line) for line in drawn),
        wide=wide,
        top=_value(top, first.unit),
        strokes=strokes,
        filled=adds_up,
        threshold=(round(TALL - TALL * limit / top, 1), _value(limit, first.unit)) if limit is not None else None,
        shade=_shade(finding, first, wide),
        first=figures.day(first.start),
        last=figures.last_day(end.isoformat()),
        each=_each(first.step_hours) if span else "",
    )


def _each(hours: int) -> str:
    return {1: "each hour", 24: "each day"}.get(hours, f"every {hours} hours")


def _top(lines: Sequence[Samples]) -> float:
    if lines[0].unit == "ratio":
        return 1.0
    most = max(value for line in lines for value in line.values if value is not None)
    if most <= 0:
        return 1.0
    unit = step(Decimal(str(most)))
    return float((Decimal(str(most)) / unit).to_integral_value(ROUND_CEILING) * unit)


def _line(values: Sequence[float | None], top: float) -> str:
    """Path through the values, in whole units: a level stretch is one move, a gap starts anew."""
    parts: list[str] = []
    before: int | None = None
    level = 0
    for i, value in enumerate(values):
        if value is None:
            parts += [f"h{level}"] if level else []
            before, level = None, 0
            continue
        y = round(TALL - TALL * min(max(value, 0.0), top) / top)
        if before is None:
            parts.append(f"M{i} {y}h.5")
        elif y == before:
            level += 1
        else:
            parts += [f"h{level}"] if level else []
            parts.append(f"l1{y - before:+d}" if y < before else f"l1 {y - before}")
            level = 0
        before = y
    parts += [f"h{level}"] if level else []
    return "".join(parts)


def _columns(values: Sequence[float | None], top: float) -> str:
    tall = [(i, round(TALL * max(value or 0.0, 0.0) / top, 1)) for i, value in enumerate(values)]
    return "".join(f"M{i} {TALL}v-{height:g}h.8V{TALL}z" for i, height in tall if height > 0)


def _shade(finding: Mapping[str, Any], line: Samples, wide: int) -> tuple[float, float] | None:
    """Where the finding's own window lies, if it is shorter than what is drawn."""
    start, end = figures.moment(finding["window"]["start"]), figures.moment(finding["window"]["end"])
    if start is None or end is None:
        return None
    origin = line.start.replace(tzinfo=start.tzinfo) if line.start.tzinfo is None else line.start
    unit = timedelta(hours=line.step_hours)
    x, until = max(0.0, (start - origin) / unit), min(float(wide), (end - origin) / unit)
    return (round(x, 2), round(until - x, 2)) if 0 < until - x < wide else None


def _value(value: float, unit: str) -> str:
    figure = Decimal(str(value))
    if unit == "ratio":
        return figures.percent(figure)
    if unit == "bytes":
        return figures.size(figure)
    return f"{figures.short(figure)}{figures.NBSP}GB" if unit == "GB" else figures.short(figure)


def _words(line: Samples) -> str:
    seen = [value for value in line.values if value is not None]
    return f"{line.label}: {_value(min(seen), line.unit)} to {_value(max(seen), line.unit)}"
