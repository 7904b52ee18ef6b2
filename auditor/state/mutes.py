"""Which findings a mute covers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from auditor.records import MuteRecord


@dataclass(frozen=True)
class Scope:
    """What of a finding a mute can name. `rule_ids` is the rule's id and those it bore before."""

    finding_id: str
    rule_ids: Sequence[str]
    resource_id: str | None
    resource_name: str | None
    subject: str
    sub_account_id: str | None
    tags: Mapping[str, str]


def in_force(mutes: Iterable[MuteRecord], now: datetime) -> list[MuteRecord]:
    """The mutes that have not run out."""
    return [mute for mute in mutes if mute.until is None or mute.until > now]


def covering(mutes: Iterable[MuteRecord], scope: Scope) -> MuteRecord | None:
    """The first mute that covers a finding."""
    return next((mute for mute in mutes if covers(mute, scope)), None)


def covers(mute: MuteRecord, scope: Scope) -> bool:
    """True when every scope that the mute gives matches; ids are compared without case, as providers spell them both ways."""
    if mute.finding_id is not None and mute.finding_id != scope.finding_id:
        return False
    if mute.rule is not None and not any(fnmatchcase(rule_id, mute.rule) for rule_id in scope.rule_ids):
        return False
    if mute.account is not None and not _like(scope.sub_account_id, mute.account):
        return False
    if mute.resource is not None and not any(
        _like(name, mute.resource) for name in (scope.resource_id, scope.resource_name, scope.subject)
    ):
        return False
    return mute.tag is None or _tagged(scope.tags, mute.tag)


def _like(text: str | None, pattern: str) -> bool:
    # equality first: an Azure or ARN id may hold a bracket, which a glob would read as a set
    return text is not None and (text.lower() == pattern.lower() or fnmatchcase(text.lower(), pattern.lower()))


def _tagged(tags: Mapping[str, str], wanted: str) -> bool:
    key, equals, value = wanted.partition("=")
    return any(_key(name) == _key(key) and (not equals or _like(text, value)) for name, text in tags.items())


def _key(name: str) -> str:
    return re.sub(r"[\s_.:/-]", "", name).lower()
