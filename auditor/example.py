"""The commented configuration that `auditor init` writes, made from the settings themselves so that none is missing."""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from auditor import secret
from auditor.settings import Settings

HEAD = f"""\
# auditor's configuration. Every key is optional and shown with its default; take the # away to change it.
# Secrets are named, never written down: {secret.FORMS}.
# It is looked for in ./auditor.toml, ~/.config/auditor/auditor.toml and /etc/auditor/auditor.toml, in this order.
"""


def example() -> str:
    """The text of config/auditor.example.toml."""
    return HEAD + "".join(f"{line}\n" for line in _table("", Settings))


def _table(name: str, model: type[BaseModel]) -> Iterator[str]:
    below: list[tuple[str, type[BaseModel], bool]] = []
    for key, field in model.model_fields.items():
        inner, is_list = _inner(field)
        if inner is not None:
            below.append((f"{name}.{key}" if name else key, inner, is_list))
        else:
            yield from _key(key, field)
    for path, inner, is_list in below:
        if any(_inner(field)[0] is None for field in inner.model_fields.values()):
            yield ""
            yield from _comment(_about(inner, path))
            yield f"#[[{path}]]" if is_list else f"#[{path}]" if _is_wanted(inner) else f"[{path}]"
        yield from _table(path, inner)


def _inner(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The table that a field holds, and whether it holds several."""
    annotation = field.annotation
    parts = [annotation, *get_args(annotation)]
    model = next((part for part in parts if inspect.isclass(part) and issubclass(part, BaseModel)), None)
    return model, get_origin(annotation) is list


def _is_wanted(model: type[BaseModel]) -> bool:
    """Whether the table cannot stand without keys of the user's."""
    return any(field.is_required() for field in model.model_fields.values())


def _about(model: type[BaseModel], path: str) -> str:
    said = " ".join((inspect.getdoc(model) or "").split()).rstrip(".")
    return said.partition(": ")[2] or said or path


def _key(key: str, field: FieldInfo) -> Iterator[str]:
    annotation = str(field.annotation)
    if key == "rules":
        yield ""
        yield from _comment("parameters of one rule; `auditor rules list` names the rules")
        yield '#[rules."gpu.idle_instance"]'
        yield "#enabled = true"
        return
    if field.description:
        yield from _comment(field.description)
    default = field.get_default(call_default_factory=True)
    mark = "" if not field.is_required() else "  # required"
    yield f"#{key} = {_value(default, annotation)}{mark}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 100)]


def _value(default: Any, annotation: str) -> str:
    """The default as TOML; where there is none, a value of the right kind."""
    if isinstance(default, bool | int | float | Decimal | date):
        return str(default).lower()
    if isinstance(default, str | Path | list | tuple):
        return json.dumps(list(default) if isinstance(default, list | tuple) else str(default))
    return next((shown for kind, shown in _SHOWN.items() if re.search(rf"\b{kind}\b", annotation)), '""')


_SHOWN = {"date": "2026-11-01", "int": "1", "float": "1.0", "Decimal": "0", "dict": "{}", "list": "[]"}
