"""Writes figures and foreign text for messages."""

import re
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def money(amount: Decimal, currency: str) -> str:
    """`USD 1,235`; below a hundred with cents."""
    step = Decimal(1) if abs(amount) >= 100 else Decimal("0.01")
    return f"{currency} {amount.quantize(step, ROUND_HALF_UP):,}"


def a_month(savings: Decimal, currency: str) -> str:
    """`USD 1,235 a month`; in words where a finding claims no saving."""
    return f"{money(savings, currency)} a month" if savings else "no saving claimed"


def percent(part: Decimal, whole: Decimal) -> str:
    """`18 %`, or nothing where there is no whole."""
    return f"{(100 * part / whole).quantize(Decimal(1), ROUND_HALF_UP)} %" if whole else ""


def unbroken(text: str) -> str:
    """The text with its amounts of money kept on one line."""
    return re.sub(r"\b([A-Z]{3}) (-?\d)", "\\1\N{NO-BREAK SPACE}\\2", text)


def count(number: int, noun: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def day_before(end: str | None) -> str:
    """The last day of a window that ends, excluded, on a day: `31 Oct 2026`."""
    if not end:
        return "—"
    last = datetime.fromisoformat(end).date() - timedelta(days=1)
    return day(last)


def day(when: date) -> str:
    """`31 Oct 2026`."""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def plain(text: object, limit: int = 200) -> str:
    """Foreign text on one line, without characters that steer a terminal or turn text around, cut at a limit."""
    line = " ".join(str(text).split())
    shown = "".join(char if char.isprintable() else f"⟨U+{ord(char):04X}⟩" for char in line)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
