"""What can go wrong, as one tree.

AuditorError
├── SettingsError      wrong usage or configuration: exit status 2
├── RuleError          a rule file that cannot be loaded or run: exit status 2 where it cannot be loaded
├── SourceError        a landing file that is recognised but cannot be read
├── LakeError          the data directory cannot be used
└── DeliveryError      a report that could not be sent
"""


class AuditorError(Exception):
    """Any failure that a user can understand; its text is the whole message."""


class SettingsError(AuditorError):
    """Wrong usage or configuration."""


class RuleError(AuditorError):
    """A rule file that cannot be loaded or run."""


class SourceError(AuditorError):
    """A recognised landing file that is damaged, truncated or unreadable."""


class LakeError(AuditorError):
    """The data directory cannot be used."""


class DeliveryError(AuditorError):
    """A report that could not be sent."""
