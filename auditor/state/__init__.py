"""Remembers runs, deliveries, the files of the lake and findings over time."""

from auditor.state.lock import RunLock as RunLock
from auditor.state.lock import RunLocked as RunLocked
from auditor.state.store import State as State
