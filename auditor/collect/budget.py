"""What the audit itself may spend at the vendors, and what it has spent."""

import threading
from decimal import Decimal

from auditor.errors import SourceError
from auditor.journal import Usage
from auditor.settings import Limits


class BudgetReached(SourceError):
    """A cap under [limits] forbids the next call."""


class Budget:
    """Counts calls, bytes and money of one collection by API, against the caps that all sources share."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._used: dict[str, Usage] = {}
        self._untold: dict[str, Usage] = {}

    def spend(self, api: str, *, calls: int = 1, money: Decimal = Decimal(0), bytes_: int = 0) -> None:
        """Books what is about to be used; `api` is the vendor's own name, such as ce:GetCostAndUsage.

        Raises BudgetReached, and books nothing, where it would pass a cap.
        """
        with self._lock:
            total = self._total()
            for name, cap, wanted in (
                ("money", self._limits.money, (total.money or 0) + money),
                ("calls", self._limits.calls, total.calls + calls),
                ("bytes", self._limits.bytes, total.bytes + bytes_),
            ):
                if wanted > cap:
                    raise BudgetReached(f"the cap of [limits] {name} = {cap} is reached; {api} was not asked")
            for book in (self._used, self._untold):
                before = book.get(api, Usage(api, 0, 0, Decimal(0)))
                book[api] = Usage(api, before.calls + calls, before.bytes + bytes_, (before.money or 0) + money)

    def _total(self) -> Usage:
        used = self._used.values()
        money = sum((each.money or Decimal(0) for each in used), Decimal(0))
        return Usage("all", sum(each.calls for each in used), sum(each.bytes for each in used), money)

    def take(self) -> list[Usage]:
        """What was used since the last time this was asked, by API: one source's part."""
        with self._lock:
            told, self._untold = self._untold, {}
        return [told[api] for api in sorted(told)]
