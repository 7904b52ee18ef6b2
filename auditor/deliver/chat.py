"""A digest as a message to Slack, Teams and whatever else apprise speaks to."""

import logging
import re

from auditor.deliver import words
from auditor.deliver.digest import Digest, Item
from auditor.deliver.handover import Handover, NotHandedOver, Uncertain
from auditor.deliver.mail import subject

LISTED = 8  # a chat message is read at a glance
_REFUSED = re.compile(r"error[=: ]+([45]\d\d)\b", re.IGNORECASE)


def message(digest: Digest) -> str:
    """The digest in plain lines, the same for every service."""
    lines = [f"Notice: {notice}" for notice in digest.notices]
    for title, items in (("New", digest.new), ("Back again", digest.reopened), ("Resolved", digest.resolved)):
        if items and not digest.is_first:
            lines += [f"{title}:", *_listed(items, min(LISTED, digest.rows))]
    if digest.is_first or digest.kind == "report":
        lines += ["Worth most:", *_listed(digest.open, min(LISTED, digest.rows))]
    for saved in digest.realised:
        amount, estimated = (words.money(each, saved.currency) for each in (saved.savings, saved.estimated))
        lines.append(f"Saved in {saved.billing_period}: {amount} by the bill, {estimated} estimated for the same days")
    lines += [f"Unknown whether it arrived: {text}" for text in digest.unknown]
    if digest.report_url:
        lines.append(digest.report_url)
    return "\n".join(lines)


def _listed(items: tuple[Item, ...], rows: int) -> list[str]:
    lines = [f"• {words.a_month(item.savings, item.currency)}: {item.title}, {item.where}" for item in items[:rows]]
    return [*lines, f"• and {len(items) - rows} more"] if len(items) > rows else lines


def hand_over_chat(digest: Digest, url: str, handing_over: Handover) -> None:
    """Post to one apprise URL.

    Raises NotHandedOver for a URL that no service has and where the service refused, Uncertain where apprise cannot tell.
    """
    try:
        import apprise
    except ModuleNotFoundError as error:
        raise NotHandedOver("chat needs apprise: install auditor[chat]", again=False) from error
    service = apprise.Apprise.instantiate(url)
    if service is None:
        raise NotHandedOver(
            "chat: no service of apprise has such a URL (it is not shown: it holds a token)", again=False
        )
    handing_over()
    with apprise.LogCapture(level=logging.WARNING) as captured:  # type: ignore[no-untyped-call]  # apprise types it not
        is_sent = service.notify(title=subject(digest), body=message(digest))
        said = captured.getvalue()
    if is_sent:
        return
    name = str(service.service_name or "chat")
    if refused := _REFUSED.search(said):
        raise NotHandedOver(f"{name} answered {refused.group(1)}", again=refused.group(1) not in ("401", "403", "404"))
    raise Uncertain(f"{name} did not confirm the message")
