"""Fills the remedies of rules with a row's own ids: commands for a POSIX shell, Terraform for its configuration language.

Ids and names come from bills and inventories, so both are quoted: a value can never end the word or string it stands in.
"""

import re
import shlex
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from auditor.detect.rule import RemedyText
from auditor.finding import Remedy

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
# A line of Terraform is cut into strings, comments and bare placeholders; each takes values in a spelling of its own.
_TERRAFORM = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|\{[a-z][a-z0-9_]*\}')
_SPECIAL = re.compile(r'["\\]|[$%]\{')
_LABEL = 60  # characters of a resource's label; ids may be much longer

# azurerm tells the words of an id by their case, bills write them in any. Names between them stay as they are.
_AZURE_WORDS = {
    word.lower(): word
    for word in (
        "subscriptions resourceGroups providers Microsoft.Compute Microsoft.Network Microsoft.Storage Microsoft.StorageCache "
        "Microsoft.NetApp Microsoft.MachineLearningServices Microsoft.Capacity virtualMachines virtualMachineScaleSets disks "
        "capacityReservationGroups capacityReservations natGateways virtualNetworks subnets publicIPAddresses loadBalancers "
        "applicationGateways privateEndpoints networkInterfaces storageAccounts fileServices shares amlFilesystems "
        "netAppAccounts capacityPools volumes workspaces computes onlineEndpoints deployments reservationOrders reservations"
    ).split()
}


def filled(text: RemedyText, row: Mapping[str, Any]) -> Remedy:
    """The remedy with the row's values in the place of `{placeholders}`.

    A column is named in snake_case (`{region_id}` is RegionId); `{resource_last_part}` is the last part of an ARN or
    path, and so is `{resource_short_id}`, but that gcloud wants a name where Google's bill has a number.
    `{resource_label}` is a Terraform label made of it. What the row does not know stays `<name>`, for a person to fill in.
    """
    values = _values(row)
    text = _fitting(text, values)

    def in_shell(match: re.Match[str]) -> str:
        return _shell(match.group(1), values)

    commands = tuple(_PLACEHOLDER.sub(in_shell, command) for command in text.commands)
    return Remedy(text.summary, commands, text.risk, text.effort, _terraform(text.terraform, values))


def _fitting(text: RemedyText, values: Mapping[str, Any]) -> RemedyText:
    """The first variant that the row fits, else the remedy itself."""
    return next((each.text for each in text.variants if each.when.search(str(values.get(each.column, "")))), text)


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        _snake(name): value
        for name, value in row.items()
        if isinstance(value, str | int | Decimal | list) and value not in ("", [])
    }
    last = "this"
    if row.get("ResourceId"):
        last = last_part(row["ResourceId"])
        named = row["provider"] == "gcp" and last.isdecimal() and row.get("ResourceName")
        values.setdefault("resource_last_part", last)
        values.setdefault("resource_short_id", last_part(row["ResourceName"]) if named else last)
    values["resource_label"] = _label(str(values.get("resource_short_id", last)))
    return values


def last_part(path: str) -> str:
    """What follows the last slash or colon of an ARN, a path or a plain id."""
    return re.split(r"[/:]", path)[-1]


@lru_cache(maxsize=1024)  # a few column names, for every finding
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _label(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:_LABEL]
    return plain if re.match(r"[A-Za-z]", plain) else f"r_{plain}"


def _shell(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    return f"<{name}>" if value is None or isinstance(value, list) else shlex.quote(str(value))


def _terraform(text: str, values: Mapping[str, Any]) -> str:
    """The text filled: values within a string escaped, bare ones as literals, those of a comment as words of a shell.

    The second word of a block's head (`resource "type" "label"`) is a string too, so a label goes into it unchanged.
    """

    def token(match: re.Match[str]) -> str:
        found = match.group()
        if found.startswith('"'):
            # escaped as a whole: two values side by side may make a `${` that neither holds
            return f'"{_escaped(_PLACEHOLDER.sub(lambda each: _plain(each.group(1), values), found[1:-1]))}"'
        if found.startswith("#"):
            # a comment ends with its line, so nothing that could end it may get in
            said = _PLACEHOLDER.sub(lambda each: _shell(each.group(1), _azure_spelled(values)), found)
            return "".join(character if character.isprintable() else " " for character in said)
        name = found[1:-1]
        return str(values[name]) if name == "resource_label" else _literal(name, values.get(name))

    return _TERRAFORM.sub(token, text)


def _plain(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    return f"<{name}>" if value is None or isinstance(value, list) else _spelled(value)


def _literal(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return format(Decimal(value).normalize(), "f")
    if isinstance(value, list):
        return f"[{', '.join(_literal(name, each) for each in value)}]"
    return f'"{_escaped(f"<{name}>" if value is None else _spelled(value))}"'


def _spelled(value: Any) -> str:
    """The value as text; an Azure id in the case that azurerm demands."""
    text = str(value)
    if not text.lower().startswith("/subscriptions/"):
        return text
    parts = text.split("/")
    return "/".join(
        # words and names alternate, but for `providers`, whose namespace is a word as well
        _AZURE_WORDS.get(part.lower(), part) if index % 2 or parts[index - 1].lower() == "providers" else part
        for index, part in enumerate(parts)
    )


def _azure_spelled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _spelled(value) if isinstance(value, str) else value for name, value in values.items()}


def _escaped(text: str) -> str:
    """The text within a quoted string of HCL, where `${` and `%{` would begin a template."""
    if text.isprintable() and not _SPECIAL.search(text):
        return text
    names = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    kept = "".join(
        names.get(character) or (character if character.isprintable() else _code(character)) for character in text
    )
    return kept.replace("${", "$${").replace("%{", "%%{")


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
