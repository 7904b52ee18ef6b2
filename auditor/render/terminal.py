"""Says on the terminal, in 80 columns, what the run found and where the rest stands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.render import figures, trust, view
from auditor.render.text import shorten, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH = 80
STATES = {"good": ("ok", "green"), "fair": ("!", "yellow"), "bad": ("x", "bold red")}
TOP = 8
LIMITS = 6  # sources and rules named before the rest is counted


def terminal_summary(document: Mapping[str, Any], console: "Console", written: Sequence[Path]) -> None:
    """Prints totals, GPU dollars by class, top findings, what was left out, the files and the next step."""
    from auditor.render.extras import Extras

    answers = trust.checks(document, Extras())
    width = min(WIDTH, console.width)
    _print(console, _heading(document, trust.verdict(document, answers)), width)
    _print(console, _totals(document), width)
    for ledger in view.ledgers(document, Extras()):
        _print(console, _ledger(ledger), width)
    _print(console, _top(document), width)
    _print(console, _checks(answers), width)
    for line in _limits(document):
        console.print(_text(shorten(line, 3 * width - 1)), width=width)
    _print(console, _files(written), width)


def _print(console: "Console", part: Any, width: int) -> None:
    console.print(part, width=width)
    console.print()


def _text(text: str, style: str = "") -> "Text":
    """Foreign text, never read as markup: a resource may be called `[red]`."""
    from rich.text import Text

    return Text(visible(text), style=style)


def _heading(document: Mapping[str, Any], verdict: trust.Check) -> "Text":
    line = _text("Audit of ", "bold")
    line.append(_text("; ".join(f"{names}, {period}" for names, period in view.windows(document)) or "nothing"))
    line.append("\n")
    line.append(_text(f"{verdict.title}. {verdict.text}", STATES[verdict.state][1]))
    return line


def _grid(*justify: str) -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 2), expand=False)
    for side in justify:
        table.add_column(justify="right" if side == "right" else "left", no_wrap=side == "right", overflow="fold")
    return table


def _totals(document: Mapping[str, Any]) -> Any:
    totals = document["totals"]
    currency, split = totals["currency"], view.savings(document)
    table = _grid("left", "right", "left")
    rows = (
        ("Effective cost", "effective_cost", f"{figures.money(totals['billed_cost'], currency)} billed"),
        (
            "Avoidable a month, net",
            "monthly_savings_net",
            f"{figures.money(split['high'], currency)} with high confidence",
        ),
    )
    for name, key, note in rows:
        table.add_row(_text(name), _text(figures.money(totals[key], currency), "bold"), _text(note, "dim"))
    low = totals["monthly_savings_net_low_confidence"]
    if figures.amount(low):
        table.add_row(
            _text("Low confidence, besides"), _text(figures.money(low, currency)), _text("not counted", "dim")
        )
    for other in totals.get("other_currencies") or []:
        if isinstance(other, Mapping):
            money = figures.money(other["effective_cost"], other["currency"])
            table.add_row(_text("In another currency"), _text(money), _text("not added up", "dim"))
    return table


def _ledger(ledger: view.Ledger) -> Any:
    table = _grid("left", "right", "right", "left")
    table.add_row(_text("Accelerators", "bold"), _text(figures.money(ledger.cost, ledger.currency), "bold"), "", "")
    for _, name, _, _, cost, share in ledger.classes:
        width = round(24 * max(cost, figures.amount(0)) / ledger.cost) if ledger.cost > 0 else 0
        table.add_row(
            _text(name), _text(figures.money(cost, ledger.currency)), _text(share), _text("█" * width, "cyan")
        )
    return table


def _top(document: Mapping[str, Any]) -> Any:
    opened = view.opened(document)
    if not opened:
        return _text("No open finding.", "bold")
    saving = [finding for finding in opened if figures.amount(finding["monthly_savings_net"]) > 0]
    if not saving:
        return _text(f"No finding that saves money among {view.plural(len(opened), 'open finding')}.", "bold")
    table = _grid("left", "right")
    table.add_row(
        _text(f"Worth most of {view.plural(len(opened), 'open finding')}", "bold"), _text("net a month", "dim")
    )
    for finding in saving[:TOP]:
        what = _text(shorten(visible(finding["title"]), 58))
        place = f"{finding['severity']}, {finding['confidence']} confidence · {view.subject(finding)}"
        what.append("\n")
        what.append(_text(shorten(visible(place), 58), "dim"))
        table.add_row(what, _text(figures.money(finding["monthly_savings_net"], finding["currency"])))
    return table


def _checks(answers: Sequence[trust.Check]) -> Any:
    table = _grid("left", "left", "left")
    for check in answers:
        mark, style = STATES[check.state]
        table.add_row(_text(mark, style), _text(check.title), _text(check.text, "dim"))
    return table


def _limits(document: Mapping[str, Any]) -> list[str]:
    """What failed, was skipped or saw less, by name; the first few of each kind."""
    lines: list[str] = []
    for status in ("failed", "skipped"):
        sources = [s for s in document["sources"] if s["status"] == status]
        lines += [f"{status}: {_source(s)}" for s in sources[:LIMITS]]
        lines += _more(len(sources), f"{status} source")
    gaps = document["run"].get("gaps") or []
    lines += [f"no charges: {g['provider']} {g['account_id'] or ''}: {', '.join(g['days'])}" for g in gaps[:LIMITS]]
    lines += _more(len(gaps), "gap")
    broken = trust.failed_rules(document)
    lines += [f"rule failed: {r['rule_id']}: {str(r['reason']).removeprefix('failed: ')}" for r in broken]
    for status in ("skipped", "degraded"):
        rules = [r for r in document["coverage"]["rules"] if r["status"] == status and r not in broken]
        lines += [f"rule {status}: {r['rule_id']}: {r['reason'] or 'no reason given'}" for r in rules[:LIMITS]]
        lines += _more(len(rules), f"{status} rule")
    return [*lines, ""] if lines else []


def _source(source: Mapping[str, Any]) -> str:
    message = source["message"] or "no reason given"
    named = [path for path in source["paths"] if not message.startswith(path)]
    more = f" and {len(named) - 1} more files" if len(named) > 1 else ""
    return f"{named[0]}{more}: {message}" if named else message


def _more(count: int, noun: str) -> list[str]:
    return [f"and {view.plural(count - LIMITS, f'more {noun}')}, all in the report"] if count > LIMITS else []


def _files(written: Sequence[Path]) -> "Text":
    text = _text("")
    for n, path in enumerate(written):
        text.append("\n" if n else "").append(_text(f"wrote {path}"))
    page = next((path for path in written if path.suffix == ".html"), None)
    step = f"open {page}" if page else "run again with `-f html` for the report that people read"
    text.append("\n" if written else "").append(_text(f"Next: {step}.", "bold"))
    return text
