"""Speaks to systemd: ready, alive, stopping. Silent where nobody listens."""

import os
import socket
from collections.abc import Mapping


def notify(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send lines such as `READY=1` to the service manager; false where there is none."""
    address = environment.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket: the kernel wants a NUL in front
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.settimeout(1)
        try:
            channel.sendto(text.encode(), address)
        except OSError:  # a manager that is gone must not stop the service
            return False
    return True


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often at least a sign of life is wanted; null where none is."""
    usec = environment.get("WATCHDOG_USEC", "")
    pid = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not usec.isdecimal() or pid != str(os.getpid()):
        return None
    return int(usec) / 1_000_000
