"""Makes foreign text harmless: names and tags come from bills, and anyone who can tag a machine can write them."""

import re
import unicodedata
from urllib.parse import urlsplit

INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))  # controls, formats (bidi, zero width), surrogates, separators
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&$:@^=])")


def visible(text: str, keep: str = "") -> str:
    """The text with control, bidirectional and zero-width characters written out as their code points.

    Characters in `keep` stay: line breaks and tabs of a command, say.
    """
    if text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(char):04X}⟩" if unicodedata.category(char) in INVISIBLE and char not in keep else char
        for char in text
    )


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters of the text, with a mark where the rest was left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def markdown_text(text: str) -> str:
    """The text as Markdown that shows it literally, on one line."""
    return MARKDOWN.sub(r"\\\1", visible(" ".join(text.splitlines())))


def markdown_code(text: str) -> str:
    """A fenced block of the text, whose fence no backtick in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    shown = visible(text, keep="\n\t")
    return f"{fence}\n{shown}\n{fence}"


def safe_url(text: object) -> str | None:
    """The address if a browser may follow it (http or https with a host and nothing invisible), else null."""
    if not isinstance(text, str) or not text.isprintable() or re.search(r"[\s\"'<>`\\]", text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:  # such as a broken IPv6 host: no address at all
        return None
    return text if parts.scheme in ("http", "https") and parts.hostname else None


def spreadsheet_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula."""
    return "'" + text if text.startswith(FORMULA_STARTS) else text
