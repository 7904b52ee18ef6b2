"""Stretches of time, half open, in Unix seconds: which are there, which are missing."""

from collections.abc import Iterable

Window = tuple[int, int]


def merged(windows: Iterable[Window]) -> list[Window]:
    """The same stretches, in order, none touching another."""
    whole: list[Window] = []
    for start, end in sorted(windows):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        elif start < end:
            whole.append((start, end))
    return whole


def missing(have: Iterable[Window], start: int, end: int, step: int) -> list[Window]:
    """What lies between `start` and `end` and is not there, on whole steps; the oldest first."""
    gaps = []
    at = start
    for first, last in merged(have):
        gaps.append((at, min(first, end)))
        at = max(at, last)
    gaps.append((at, end))
    aligned = ((-(-first // step) * step, last // step * step) for first, last in gaps)
    return [(first, last) for first, last in aligned if first < last]
