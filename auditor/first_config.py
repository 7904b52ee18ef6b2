"""The configuration that `auditor init` writes: the commented example, with what was asked for filled in."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from auditor.errors import SettingsError
from auditor.settings import parse


@dataclass(frozen=True)
class Answers:
    """What a user said about their clouds; nothing is required."""

    aws_export: Sequence[str] = ()
    gcp_dataset: str | None = None
    azure_scope: Sequence[str] = ()
    prometheus: str | None = None
    path: Sequence[str] = ()
    data_dir: str | None = None
    mail_to: Sequence[str] = ()
    smtp_host: str | None = None

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, each.name) for each in fields(self))


def configuration(example: str, answers: Answers) -> str:
    """The example with the answers in it. Raises SettingsError, naming the key, for an answer that cannot be."""
    text = example
    for table, values in _tables(answers).items():
        text = _filled(text, table, values)
    parse(tomllib.loads(text), "that would be written")
    return text


def _tables(answers: Answers) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    if answers.data_dir:
        tables["lake"] = {"data_dir": answers.data_dir}
    if answers.path:
        tables["sources.files"] = {"name": "files", "paths": list(answers.path)}
    if answers.aws_export:
        tables["sources.aws"] = {"name": "aws", "exports": list(answers.aws_export)}
    if answers.gcp_dataset:
        tables["sources.gcp"] = {"name": "gcp", "billing_dataset": answers.gcp_dataset}
    if answers.azure_scope:
        tables["sources.azure"] = {"name": "azure", "scopes": list(answers.azure_scope)}
    if answers.prometheus:
        tables["sources.prometheus"] = {"name": "prometheus", "url": answers.prometheus}
    if answers.mail_to or answers.smtp_host:
        tables["delivery.smtp"] = _mail(answers)
    return tables


def _mail(answers: Answers) -> dict[str, Any]:
    if not answers.mail_to or not answers.smtp_host:
        raise SettingsError("--mail-to and --smtp-host go together")
    domain = answers.mail_to[0].rpartition("@")[2]
    local = answers.smtp_host in ("localhost", "127.0.0.1")
    return {
        "host": answers.smtp_host,
        **({"security": "none", "port": 25} if local else {}),
        "sender": f"auditor@{domain}",
        "recipients": list(answers.mail_to),
    }


def _filled(text: str, table: str, values: Mapping[str, Any]) -> str:
    """One table of the example, switched on: its head and the keys that have a value lose their comment signs."""
    lines = text.split("\n")
    heads = (f"#[[{table}]]", f"#[{table}]", f"[{table}]")
    at = next(place for place, line in enumerate(lines) if line in heads)
    lines[at] = lines[at].removeprefix("#")
    left = dict(values)
    for place in range(at + 1, len(lines)):
        if not lines[place]:
            break
        key = lines[place].removeprefix("#").partition(" = ")[0]
        if lines[place].startswith("#") and key in left:
            lines[place] = f"{key} = {json.dumps(left.pop(key), ensure_ascii=False)}"
    if left:
        raise SettingsError(f"the example knows no {', '.join(left)} in [{table}]")
    return "\n".join(lines)
