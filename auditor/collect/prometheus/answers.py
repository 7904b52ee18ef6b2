"""A `query_range` answer of any size, checked while it passes by: whole, successful, empty, complete or partial."""

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from auditor.errors import SourceError

_KEPT = 64 * 1024  # at both ends of an answer: all that is not a sample stands there
_GZIP = 16 + zlib.MAX_WBITS
# The last series, the list of series, `data`: between two series a comma stands instead.
_LAST_SERIES = re.compile(r"\]\s*\]\s*\}\s*\]\s*\}\s*,?")


class CutOff(SourceError):
    """An answer that ends before its end."""


class Answer:
    """Passes an answer through as gzip, and knows after the last block what it was."""

    def __init__(self, encoding: str | None) -> None:
        if encoding not in (None, "", "identity", "gzip"):
            raise SourceError(f"the answer is packed with {encoding}, which was not asked for")
        self._packed = encoding == "gzip"
        self._head = b""
        self._tail = b""
        self._length = 0

    def blocks(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """The same bytes, packed where they were not. Raises SourceError at the end of an answer that is no whole one."""
        # one way or the other: counters are only joined over files that are packed alike
        opener = zlib.decompressobj(_GZIP) if self._packed else None
        packer = None if self._packed else zlib.compressobj(1, wbits=_GZIP)
        for block in body:
            if opener is not None:
                self._see(self._opened(opener, block))
                yield block
            elif packer is not None:
                self._see(block)
                yield packer.compress(block)
        if opener is not None and not opener.eof:
            raise CutOff("the answer was cut off")
        if packer is not None:
            yield packer.flush()
        self._check()

    @staticmethod
    def _opened(opener: Any, block: bytes) -> bytes:
        try:
            return bytes(opener.decompress(block))
        except zlib.error as error:
            raise CutOff(f"the answer cannot be unpacked ({error})") from error

    def _see(self, text: bytes) -> None:
        self._length += len(text)
        if len(self._head) < _KEPT:
            self._head += text[: _KEPT - len(self._head)]
        self._tail = (self._tail + text)[-_KEPT:]

    def _check(self) -> None:
        if self.envelope.get("status") != "success":
            shown = self._head[:200].decode("utf-8", "replace")
            raise SourceError(f"the answer is not one of Prometheus: {shown!r}")

    @property
    def envelope(self) -> dict[str, Any]:
        """Everything beside the samples. Raises SourceError where the text does not end as a JSON object does."""
        try:
            if self._length <= _KEPT:
                found = json.loads(self._head)
                return found if isinstance(found, dict) else {}
            head = re.match(rb'\s*\{\s*"status"\s*:\s*"(\w+)"(?:\s*,\s*"isPartial"\s*:\s*(true|false))?', self._head)
            before = {} if head is None else {"status": head[1].decode(), "isPartial": head[2] == b"true"}
            tail = self._tail.decode("utf-8", "replace")
            last = _LAST_SERIES.search(tail)
            if last is None:
                raise CutOff("the answer was cut off")
            return {**before, **json.loads("{" + tail[last.end() :])}
        except ValueError as error:
            raise CutOff(f"the answer is no JSON, or was cut off ({error})") from error

    @property
    def is_empty(self) -> bool:
        return self._length <= _KEPT and not self.envelope.get("data", {}).get("result")

    @property
    def remarks(self) -> list[str]:
        """Why the answer lacks something (Thanos warns, VictoriaMetrics says isPartial); none where it is complete."""
        envelope = self.envelope
        said = [str(text) for text in envelope.get("warnings") or ()]
        return [*said, *(["isPartial: some storage nodes did not answer"] if envelope.get("isPartial") else ())]
