"""Names this process so that another one of the same machine can tell whether it still lives."""

import os
from pathlib import Path

_PROC = Path("/proc")


def this_process() -> str | None:
    """`<boot>/<pid namespace>/<pid>/<start>`; null where the system does not tell, as outside of Linux."""
    place = _place()
    start = _start(os.getpid())
    return None if place is None or start is None else f"{place}/{os.getpid()}/{start}"


def is_dead(process: str | None) -> bool:
    """Whether it is certain that a process ended.

    Of another machine, another boot or another container nobody here knows: what these held expires by time.
    """
    before, _, began = (process or "").rpartition("/")
    place, _, pid = before.rpartition("/")
    if not place or place != _place() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's, and alive
    start = _start(int(pid))
    return start is not None and start != began


def _place() -> str | None:
    """What process numbers are counted in: they are one machine's, since its start, in one container."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = (_PROC / "self/ns/pid").readlink().name.strip("pid:[]")
    except (OSError, ValueError):
        return None
    return f"{boot}/{namespace}" if boot and namespace else None


def _start(pid: int) -> str | None:
    """When a process began, in ticks since boot; `ended` for one of which only the exit status is left; null if hidden."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:  # hidden from us (hidepid), or gone just now
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return "ended" if state in "ZX" else fields[18]
