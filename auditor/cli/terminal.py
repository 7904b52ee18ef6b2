"""A terminal whose reader may go away."""

import errno

from rich.console import Console


class Patient(Console):
    """A console whose reader may go away: that ends the showing, not the program with a status that means a finding."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "the reader went away")
