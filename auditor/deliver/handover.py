"""The moment at which a message leaves our hands: before it a failure is tried again, after it nobody knows."""

from collections.abc import Callable

from auditor.errors import DeliveryError

# Called right before the first byte of the message goes out. Raises NotHandedOver where another sender took the slot.
Handover = Callable[[], None]


class NotHandedOver(DeliveryError):
    """The message certainly did not go out; `again` tells whether another try may help."""

    def __init__(self, message: str, *, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


class Uncertain(DeliveryError):
    """The message may have gone out: the connection was lost before the answer came."""
