"""Reads the members of large JSON documents one by one: an offer file has gigabytes, one product a few kilobytes."""

import codecs
import json
import zlib
from collections.abc import Iterator
from decimal import Decimal
from types import TracebackType
from typing import Any

import zstandard

from auditor.landing import Recognised
from auditor.normalise.look import open_decoded

_BLOCK = 1 << 20
_LARGEST = 64 << 20  # characters of one member; more is no price list but a file whose end is lost
_BLANK = " \t\r\n"


class Damaged(Exception):
    """The document breaks off or is malformed; the text says where."""


class Document:
    """A file as a text of which the part that is being read is in memory."""

    def __init__(self, one: Recognised) -> None:
        self._stream = open_decoded(one.file.path, one.shape.compression)
        self._decoder = codecs.getincrementaldecoder(
            "utf-8-sig" if one.shape.encoding == "utf-8" else one.shape.encoding
        )(errors="replace")
        self._json = json.JSONDecoder(parse_float=Decimal)
        self._text = ""
        self._at = 0
        self._read = 0
        self._ended = False

    def __enter__(self) -> "Document":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def peek(self) -> str:
        """The next character that is not blank, empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(_BLOCK):
                return ""

    def take(self, wanted: str) -> None:
        """Steps over one character. Raises Damaged where another stands there."""
        if self.peek() != wanted:
            raise self._damaged()
        self._at += 1

    def value(self) -> Any:
        """The whole value that begins here. Raises Damaged."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._damaged() from error
            except ValueError:
                end, value = len(self._text), None
                is_whole = False
            else:
                # a number that touches the end of the text may go on
                is_whole = end < len(self._text) or isinstance(value, str | list | dict)
            if is_whole or (self._ended and value is not None):
                self._at = end
                return value
            held = len(self._text) - self._at
            if held > _LARGEST or not self._more(max(_BLOCK, held)):
                raise self._damaged()

    def _more(self, size: int) -> bool:
        if self._ended:
            return False
        try:
            block = self._stream.read(size)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise Damaged(f"the compressed data is damaged or cut off ({error})") from error
        self._ended = not block
        self._read += self._at
        self._text = self._text[self._at :] + self._decoder.decode(block, final=self._ended)
        self._at = 0
        return not self._ended

    def _damaged(self) -> Damaged:
        return Damaged(f"the JSON breaks off or is malformed after {self._read + self._at:,} characters")


def members(document: Document, paths: frozenset[str], path: str = "") -> Iterator[tuple[str, str, Any]]:
    """(path, key, value) of every member of the objects and lists at the dotted `paths`; of a list the key is empty."""
    is_list = document.peek() == "["
    document.take("[" if is_list else "{")
    while document.peek() not in ("]", "}", ""):
        key = ""
        if not is_list:
            key = str(document.value())
            document.take(":")
        inner = f"{path}.{key}".lstrip(".")
        if document.peek() in ("{", "[") and not is_list and any(f"{name}.".startswith(f"{inner}.") for name in paths):
            yield from members(document, paths, inner)
        else:
            value = document.value()
            if path in paths:
                yield path, key, value
        if document.peek() == ",":
            document.take(",")
    document.take("]" if is_list else "}")


def entries(document: Document, key: str | None) -> Iterator[Any]:
    """The entries of the lists under `key` of all documents of a file, or with None the documents themselves.

    The documents may stand in a list or one after another.
    """
    while document.peek():
        if document.peek() == "[":
            document.take("[")
            while document.peek() not in ("]", ""):
                yield from _entries(document, key)
                if document.peek() == ",":
                    document.take(",")
            document.take("]")
        else:
            yield from _entries(document, key)


def _entries(document: Document, key: str | None) -> Iterator[Any]:
    if key is None:
        yield document.value()
    else:
        for _, _, value in members(document, frozenset({key})):
            yield value
