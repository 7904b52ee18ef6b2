"""Which machines' days must be seen in finer steps, told from hourly means: a few numbers a machine and hour are kept."""

import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from auditor.collect.aws.series import HOUR, MINUTES, PRESSURE, UTILISATION, Series

# Hourly means that make waiting plausible: the devices work, but not much, while a disk is at its limit for a part of
# the hour. The rules judge more strictly, by the finer samples.
_WORKS, _WAITS = 5.0, 60.0
_AT_LIMIT, _NEAR_LIMIT = 0.1, 50.0
# An hour counts as idle where the highest sample stays under 5 percent. Where the mean does, a burst of five minutes may
# not, unless all of the hour's work in five minutes would still be less.
_IDLE = 5.0
_SURELY_IDLE = _IDLE * MINUTES / HOUR


class Screen:
    """Hour by hour: mean and highest mean of a machine's devices, and whether a disk of it was at its limit."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self._start = start
        self._hours = max(0, int((end - start).total_seconds() // HOUR))
        self._lock = threading.Lock()
        self._sums: dict[str, array[float]] = {}
        self._devices: dict[str, array[int]] = {}
        self._peaks: dict[str, array[float]] = {}
        self._limits: dict[str, bytearray] = {}

    def read(self, series: Sequence[Series], document: Mapping[str, Any]) -> None:
        """Takes in an answer to the queries that were made of these series, in their order."""
        if not any(one.metric in UTILISATION or one.metric in PRESSURE for one in series):
            return
        known = {f"q{number}": one for number, one in enumerate(series)}
        with self._lock:
            for result in document["MetricDataResults"]:
                one = known[result["Id"]]
                if one.machine is None:
                    continue
                for stamp, value in zip(result.get("Timestamps") or (), result.get("Values") or (), strict=False):
                    self._take(one.machine, one.metric, self._hour(str(stamp)), value)

    def _hour(self, stamp: str) -> int:
        when = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
        return int((when - self._start).total_seconds() // HOUR)

    def _take(self, machine: str, metric: str, hour: int, value: float) -> None:
        if not 0 <= hour < self._hours:
            return
        if metric in UTILISATION:
            self._sums.setdefault(machine, array("f", bytes(4 * self._hours)))[hour] += value
            self._devices.setdefault(machine, array("H", bytes(2 * self._hours)))[hour] += 1
            peaks = self._peaks.setdefault(machine, array("f", bytes(4 * self._hours)))
            peaks[hour] = max(peaks[hour], value)
        elif metric in PRESSURE and value >= (_NEAR_LIMIT if metric.endswith("Percentage") else _AT_LIMIT):
            self._limits.setdefault(machine, bytearray(self._hours))[hour] = 1

    def waiting(self) -> dict[str, list[datetime]]:
        """Machine -> the days on which it may have waited for a disk."""

        def waits(machine: str, hour: int) -> bool:
            limits = self._limits.get(machine)
            devices = self._devices[machine][hour]
            return bool(limits and limits[hour] and devices and _WORKS <= self._sums[machine][hour] / devices < _WAITS)

        return self._days(waits)

    def uneven(self) -> dict[str, list[datetime]]:
        """Machine -> the days on which a burst of work may hide in the mean of an hour that looks idle."""
        return self._days(lambda machine, hour: _SURELY_IDLE <= self._peaks[machine][hour] < _IDLE)

    def _days(self, holds: Callable[[str, int], bool]) -> dict[str, list[datetime]]:
        found: dict[str, list[datetime]] = {}
        for machine in self._sums:
            hours = (hour for hour in range(self._hours) if holds(machine, hour))
            days = sorted({(self._start + timedelta(hours=hour)).replace(hour=0) for hour in hours})
            if days:
                found[machine] = days
        return found
