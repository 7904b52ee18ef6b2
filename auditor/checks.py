"""One line of `auditor doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing looked at: `state` is ok, warn or bad; `fix` is the exact remedy, where there is one."""

    state: str
    subject: str
    text: str
    fix: str | None = None
