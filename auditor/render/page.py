"""Makes report.html: one file that opens offline, asks for nothing and reads without a script."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from auditor.assets import room
from auditor.render import evidence, figures, forecast, lines, machines, transfers, trust, view
from auditor.render.extras import Extras
from auditor.render.text import safe_url, shorten, visible

CARDS = 900_000  # bytes of the findings told in full
PATH = 52  # characters of a source's path that a column holds
COMMAND = 4000  # characters of one command shown; no remedy comes near it


def html(document: Mapping[str, Any], extras: Extras) -> str:
    """The whole page. Every text that reaches it is escaped, its invisible characters written out."""
    folder = room("reports")
    style = (folder / "report.css").read_text("utf-8")
    script = (folder / "report.js").read_text("utf-8")
    environment = _environment(extras)
    template = environment.get_template("report.html.j2")
    answers = trust.checks(document, extras)
    first = document["totals"]["currency"]
    currencies = {row["currency"] for row in document["gpu_ledger"]}
    return template.render(
        style=Markup(style),  # noqa: S704 - our own files, and the policy below names their digests
        script=Markup(script),  # noqa: S704
        style_digest=_digest(style),
        script_digest=_digest(script),
        document=document,
        run=document["run"],
        totals=document["totals"],
        extras=extras,
        answers=answers,
        verdict=trust.verdict(document, answers),
        windows=view.windows(document),
        sources=view.sources(document),
        split=view.savings(document),
        disagree=view.savings_disagree(document),
        share_of_spend=view.share_of_spend(document),
        ledgers=view.ledgers(document, extras),
        spends=view.spend(extras, first),
        top=[f for f in view.opened(document) if figures.amount(f["monthly_savings_net"]) > 0][:5],
        owners=view.owners(document),
        cards=_cards(environment, document, extras),
        opened=view.opened(document),
        closed=view.closed(document),
        left_out=view.opened(document)[view.LISTED :],
        changes=view.changes(document, extras),
        moved=view.moved(document, extras),
        machines={ledger: machines.machines(extras.machine_days or (), ledger) for ledger in currencies},
        weeks={ledger: machines.week(extras.week_hours or (), ledger) for ledger in currencies},
        maps=transfers.maps(extras.transfer_edges or (), first),
        payers=transfers.payers(extras.transfer_payers or (), first),
        fired=_fired(document),
        generated=extras.generated_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if extras.generated_at else None,
    )


def _cards(environment: Environment, document: Mapping[str, Any], extras: Extras) -> dict[str, Markup]:
    """Findings told in full, by id: the dearest, as many as keep the file light enough for a mail."""
    template = environment.get_template("card.html.j2")
    cards: dict[str, Markup] = {}
    left = CARDS
    rivals = view.rivals(document)
    for finding in view.shown(document):
        others = [
            other for other in rivals.get((finding["provider"], finding["resource_id"]), ()) if other is not finding
        ]
        chart = lines.chart(finding, extras.samples.get(finding["id"], ()))
        card = template.render(f=finding, extras=extras, rivals=others, chart=chart)
        left -= len(card.encode("utf-8", "replace"))
        if left < 0:
            break
        cards[finding["id"]] = Markup(card)  # noqa: S704 - it comes escaped from our template
    return cards


def _environment(extras: Extras) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(room("reports")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters.update(
        money=_money,
        whole=lambda value, currency: _money(value, currency, 0),
        figure=lambda value, places=0: _data(value, figures.number(value, places)),
        percent=figures.percent,
        plainfigure=figures.number,
        target=transfers.target,
        lastday=_last_day,
        short_path=_short_path,
        tail=lambda text: text.rpartition("/")[2] or text,
        day=figures.day,
        period=figures.period,
        url=safe_url,
        shorten=shorten,
        sentence=lambda text: text[:1].upper() + text[1:].rstrip(". ") + "." if text else "",
        transfer=lambda kind: transfers.KINDS.get(kind, kind),
        command=_command,
        provider=view.provider_name,
        plural=view.plural,
        where=lambda finding: view.where(finding, extras.account_names),
        foretold=lambda ahead: isinstance(ahead, forecast.Forecast),
        short=figures.short,
        subject=view.subject,
    )
    environment.globals.update(
        facts=evidence.facts,
        arithmetic=evidence.arithmetic,
        savings_range=evidence.savings_range,
        amount=figures.amount,
        counted=view.counted,
        no_owner=view.NO_OWNER,
    )
    return environment


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _money(value: Any, currency: str | None, places: int = 2) -> Markup:
    if figures.decimal(value) is None:
        return escape(figures.ABSENT)
    digits = figures.exact(value)
    code = visible(currency or "?")
    return Markup('<span title="{} {}"><i>{}</i>\u00a0{}</span>').format(
        digits, code, code, figures.number(value, places)
    )


def _data(value: Any, text: str) -> Markup:
    if figures.decimal(value) is None:
        return escape(figures.ABSENT)
    digits = figures.exact(value)
    return Markup('<span title="{}">{}</span>').format(digits, text)


def _last_day(as_of: str) -> str:
    """The last day before an end given as a date or a time."""
    return figures.last_day(as_of if "T" in as_of else f"{as_of}T00:00:00")


def _short_path(path: str) -> str:
    """The last folders of a path that is longer than a line."""
    parts = path.split("/")
    kept = parts[-1:]
    while len(kept) < len(parts) and len("/".join(kept)) + len(parts[-len(kept) - 1]) < PATH:
        kept.insert(0, parts[-len(kept) - 1])
    return path if len(kept) == len(parts) else "…/" + "/".join(kept)


def _command(text: str) -> Markup:
    return escape(visible(shorten(text, COMMAND), keep="\n\t"))


def _fired(document: Mapping[str, Any]) -> dict[str, int]:
    fired: dict[str, int] = {}
    for finding in document["findings"]:
        if finding["status"] in view.OPEN:
            fired[finding["rule_id"]] = fired.get(finding["rule_id"], 0) + 1
    return fired
