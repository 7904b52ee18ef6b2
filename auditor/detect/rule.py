"""Reads rule files: a TOML header in the first comment, then one SQL statement."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias

from auditor.errors import RuleError, SettingsError
from auditor.finding import SEVERITIES
from auditor.views import VIEWS

STAGES = ("remove", "fix_path", "fix_starvation", "resize", "buy", "inform")
STATUSES = ("trial", "stable")
ENGINE_PARAMETERS = frozenset({"window_start", "window_end", "window_hours"})

_HEADER = re.compile(r"\A\s*/\*\s*rule[ \t]*\n(.*?)\*/", re.DOTALL)
_PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_OPAQUE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)  # comments and strings hold no SQL
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_FORBIDDEN = (
    (re.compile(r";"), "more than one statement"),
    (
        re.compile(
            r"\b(?:now|today|current_date|current_time|current_timestamp|localtimestamp|get_current_\w+)\b", re.I
        ),
        "a clock",
    ),
    (
        re.compile(r"\b(?:random|uuid|gen_random_uuid|setseed)\s*\(|\b(?:tablesample|using\s+sample)\b", re.I),
        "randomness",
    ),
    (re.compile(r"(?:\bselect(?:\s+distinct)?|,)\s*(?:\w+\.)?\*", re.I), "a star"),
)
_TEXTS = ("id", "title", "why", "savings", "blind_to")
_REQUIRED = frozenset({*_TEXTS, "status", "stage", "clouds", "references", "needs", "remedy"})
_KEYS = _REQUIRED | {"parameters", "exclusive_group", "was", "severity", "lookback_days", "cost_line"}
_REMEDY_KEYS = frozenset({"summary", "commands", "risk", "effort"})

ParameterValue: TypeAlias = int | Decimal | str | bool | list[Any]


@dataclass(frozen=True)
class Parameter:
    """One threshold of a rule, with its unit and the sentence that explains it."""

    default: ParameterValue
    unit: str
    about: str


@dataclass(frozen=True)
class RemedyText:
    """What to do on one cloud; `{placeholders}` in commands and Terraform are columns of the rule's row.

    `terraform` is empty where a provider has nothing to declare, as for a purchase or a look at the bill.
    """

    summary: str
    commands: tuple[str, ...]
    risk: str
    effort: str
    terraform: str = ""
    variants: tuple["RemedyVariant", ...] = ()


@dataclass(frozen=True)
class RemedyVariant:
    """What to do instead where a column of the row (the resource's id, unless it says so) matches."""

    when: re.Pattern[str]
    column: str
    text: RemedyText


@dataclass(frozen=True)
class Rule:
    """One rule file.

    `needs` and `optional` map a view to the columns read from it. `cost_line` names the usage kinds the rule's cost
    consists of; empty means every charge of the resource.
    """

    id: str
    title: str
    status: str
    stage: str
    clouds: tuple[str, ...]
    why: str
    savings: str
    blind_to: str
    references: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, Parameter]
    remedy: Mapping[str, RemedyText]
    sql: str
    path: Path
    severity: str | None = None
    exclusive_group: str | None = None
    was: tuple[str, ...] = ()
    lookback_days: int | None = None
    cost_line: tuple[str, ...] = ()
    bound: frozenset[str] = field(default_factory=frozenset)


def load_rules(folders: Iterable[Path]) -> list[Rule]:
    """Every rule below the folders, by id.

    Raises RuleError, which names file and line, for a file that breaks a demand of the rule format and for an id (old
    ids included) that two files claim.
    """
    rules: dict[str, Rule] = {}
    claimed: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise RuleError(f"rules are wanted in the folder {folder}, which does not exist")
        for path in sorted(folder.glob("*/*.sql")):
            rule = load_rule(path)
            for name in (rule.id, *rule.was):
                if name in claimed:
                    raise RuleError(f"{path}:1: the id {name!r} is already taken by {claimed[name]}")
                claimed[name] = path
            rules[rule.id] = rule
    return [rules[rule_id] for rule_id in sorted(rules)]


def load_rule(path: Path) -> Rule:
    """The rule in one file; RuleError names file and line of what is wrong."""
    return _Reader(path).rule()


_SHARES = ("max_utilization", "max_p95", "max_memory", "min_coverage", "max_used_ratio")


def checked_overrides(
    rules: Sequence[Rule], overrides: Mapping[str, Mapping[str, object]], shared: Mapping[str, object]
) -> dict[str, dict[str, ParameterValue]]:
    """Parameter values of every rule: its defaults, then the shared settings, then the rule's own.

    `shared` may name parameters that only some rules have. Old ids of a renamed rule are understood. Raises
    SettingsError for a rule or parameter that does not exist and for a value of another type.
    """
    current = {name: rule for rule in rules for name in (rule.id, *rule.was)}
    values: dict[str, dict[str, ParameterValue]] = {
        rule.id: {
            name: _coerced(shared[name], parameter.default, f"{rule.id}.{name}")
            if name in shared
            else parameter.default
            for name, parameter in rule.parameters.items()
        }
        for rule in rules
    }
    for rule_id, settings in overrides.items():
        if rule_id not in current:
            raise SettingsError(
                f"parameters are set for the rule {rule_id!r}, which does not exist{_nearest(rule_id, current)}"
            )
        rule = current[rule_id]
        for name, value in settings.items():
            if name not in rule.parameters:
                raise SettingsError(f"the rule {rule.id} has no parameter {name!r}{_nearest(name, rule.parameters)}")
            parameter = rule.parameters[name]
            found = _coerced(value, parameter.default, f"{rule.id}.{name}")
            # A utilisation, a coverage and the like are shares; a ratio of two costs may well be above 1.
            if (
                parameter.unit == "ratio"
                and name.startswith(_SHARES)
                and isinstance(found, int | Decimal)
                and found > 1
            ):
                raise SettingsError(f"{rule.id}.{name} is set to {value}, and it is a ratio between 0 and 1")
            values[rule.id][name] = found
    return values


def bound_names(sql: str) -> frozenset[str]:
    """Names of the parameters that a statement binds."""
    return frozenset(_PARAMETER.findall(_OPAQUE.sub(" ", sql)))


class _Reader:
    """Checks one file and remembers where its lines are, for the messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")

    def rule(self) -> Rule:
        match = _HEADER.match(self.text)
        if match is None:
            raise self.error(1, "a rule begins with a comment `/* rule` that holds its TOML header")
        header = self._header(match)
        body = self.text[match.end() :]
        sql = body.strip()
        self._check_statement(sql, self._line(match.end() + len(body) - len(body.lstrip())))
        needs, optional = self._needs(header["needs"])
        parameters = self._parameters(header.get("parameters", {}), sql)
        return Rule(
            **{key: self._text(header[key], key) for key in _TEXTS},
            status=self._one_of(header["status"], "status", STATUSES),
            stage=self._one_of(header["stage"], "stage", STAGES),
            clouds=self._texts(header["clouds"], "clouds"),
            references=self._texts(header["references"], "references"),
            needs=needs,
            optional=optional,
            parameters=parameters,
            remedy=self._remedies(header["remedy"], header["clouds"]),
            sql=sql,
            path=self.path,
            severity=self._severity(header),
            exclusive_group=self._text(header["exclusive_group"], "exclusive_group")
            if "exclusive_group" in header
            else None,
            was=self._texts(header["was"], "was") if "was" in header else (),
            lookback_days=self._lookback(header),
            cost_line=self._texts(header["cost_line"], "cost_line") if "cost_line" in header else (),
            bound=bound_names(sql),
        )

    def error(self, line: int, message: str) -> RuleError:
        return RuleError(f"{self.path}:{line}: {message}")

    def at(self, key: str, message: str) -> RuleError:
        """An error at the line where the header names the key, else at its first line."""
        found = re.search(rf"^[ \t]*(?:\[[^\]\n]*)?\b{re.escape(key)}\b", self.text, re.MULTILINE)
        return self.error(self._line(found.end()) if found else 1, message)

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def _header(self, match: re.Match[str]) -> dict[str, Any]:
        first = self._line(match.start(1))
        try:
            header = tomllib.loads(match.group(1), parse_float=Decimal)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            raise self.error(
                first + int(found.group(1)) - 1 if found else first, f"the header is not TOML: {error}"
            ) from error
        for key in sorted(set(header) - _KEYS):
            raise self.at(key, f"the header has the key {key!r}, which no rule knows{_nearest(key, _KEYS)}")
        missing = sorted(_REQUIRED - set(header))
        if missing:
            raise self.error(first, f"the header lacks {', '.join(missing)}")
        wanted = f"{self.path.parent.name}.{self.path.stem}"
        if header["id"] != wanted:
            raise self.at("id", f"the id is {header['id']!r}, but folder and file name say {wanted!r}")
        return header

    def _check_statement(self, sql: str, line: int) -> None:
        bare = _OPAQUE.sub(" ", sql)
        if not re.match(r"\s*(?:with|select)\b", bare, re.IGNORECASE):
            raise self.error(line, "after the header one select statement is wanted")
        for pattern, what in _FORBIDDEN:
            if pattern.search(bare):
                raise self.error(
                    line, f"the statement holds {what}; a rule is one statement without clock, randomness or star"
                )

    def _text(self, value: object, key: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.at(key, f"{key} wants a text that is not empty, found {value!r}")
        return value.strip()

    def _texts(self, value: object, key: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise self.at(key, f"{key} wants a list of texts that is not empty, found {value!r}")
        return tuple(self._text(item, key) for item in value)

    def _one_of(self, value: object, key: str, allowed: Sequence[str]) -> str:
        if value not in allowed:
            raise self.at(key, f"{key} is {value!r}, wanted one of {', '.join(allowed)}")
        return str(value)

    def _severity(self, header: Mapping[str, Any]) -> str | None:
        if "severity" in header:
            return self._one_of(header["severity"], "severity", SEVERITIES)
        if header["stage"] == "inform":
            raise self.at("stage", "a rule of stage inform saves nothing, so it has to state its severity")
        return None

    def _lookback(self, header: Mapping[str, Any]) -> int | None:
        days = header.get("lookback_days")
        if days is not None and (not isinstance(days, int) or days < 1):
            raise self.at("lookback_days", f"lookback_days wants a whole number of days, found {days!r}")
        return days

    def _needs(self, needs: object) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
        if not isinstance(needs, dict):
            raise self.at("needs", "needs is a table: view = [columns]")
        optional = needs.get("optional", {})
        firm = {view: self._columns(view, columns) for view, columns in needs.items() if view != "optional"}
        soft = {view: self._columns(view, columns) for view, columns in optional.items()}
        if not firm:
            raise self.at("needs", "a rule needs at least one view")
        for view in sorted(set(firm) & set(soft)):
            raise self.at(view, f"the view {view!r} is both needed and optional")
        return firm, soft

    def _columns(self, view: str, columns: object) -> tuple[str, ...]:
        if view not in VIEWS:
            raise self.at(view, f"needs names the view {view!r}, which does not exist{_nearest(view, VIEWS)}")
        names = self._texts(columns, view)
        for name in names:
            if name not in VIEWS[view]:
                raise self.at(view, f"the view {view} has no column {name!r}{_nearest(name, VIEWS[view])}")
        return names

    def _parameters(self, table: object, sql: str) -> dict[str, Parameter]:
        if not isinstance(table, dict):
            raise self.at("parameters", "parameters is a table")
        for name in sorted(set(table) & ENGINE_PARAMETERS):
            raise self.at(name, f"the parameter {name!r} is the engine's own")
        used = bound_names(sql) - ENGINE_PARAMETERS
        for name in sorted(set(table) - used):
            raise self.at(name, f"the parameter {name!r} is declared, but the query does not use it")
        for name in sorted(used - set(table)):
            raise self.error(1, f"the query uses ${name}, which the header does not declare{_nearest(name, table)}")
        return {name: self._parameter(name, entry) for name, entry in table.items()}

    def _parameter(self, name: str, entry: object) -> Parameter:
        if not isinstance(entry, dict) or set(entry) != {"default", "unit", "about"}:
            raise self.at(name, f"the parameter {name!r} wants exactly default, unit and about")
        default = entry["default"]
        if not isinstance(default, int | Decimal | str | list):
            raise self.at(name, f"the default of {name!r} is {default!r}, wanted a number, text, truth value or list")
        return Parameter(default, self._text(entry["unit"], name), self._text(entry["about"], name))

    def _remedies(self, remedies: object, clouds: Sequence[str]) -> dict[str, RemedyText]:
        if not isinstance(remedies, dict) or set(remedies) != set(clouds):
            found = ", ".join(sorted(remedies)) if isinstance(remedies, dict) else repr(remedies)
            raise self.at("remedy", f"a remedy is wanted for each of {', '.join(clouds)}, found {found}")
        return {cloud: self._remedy(cloud, entry) for cloud, entry in remedies.items()}

    def _remedy(self, cloud: str, entry: object) -> RemedyText:
        if not isinstance(entry, dict) or set(entry) - {"terraform", "variants"} != _REMEDY_KEYS:
            raise self.at(
                f"remedy.{cloud}",
                f"the remedy for {cloud} wants exactly summary, commands, risk and effort, and may have terraform and variants",
            )
        variants = entry.get("variants", {})
        if not isinstance(variants, dict):
            raise self.at("variants", "variants of a remedy is a table: name = { when, ... }")
        return replace(
            self._remedy_text(cloud, entry),
            variants=tuple(self._variant(cloud, name, each, entry) for name, each in variants.items()),
        )

    def _variant(self, cloud: str, name: str, variant: object, entry: Mapping[str, Any]) -> RemedyVariant:
        """A variant takes from its remedy what it does not say, but for the Terraform, which is of another resource."""
        if not isinstance(variant, dict) or set(variant) - _REMEDY_KEYS - {"when", "on", "terraform"}:
            raise self.at(
                name, f"the variant {name!r} may have when, on, summary, commands, terraform, risk and effort"
            )
        pattern, column = self._text(variant.get("when"), "when"), self._text(variant.get("on", "resource_id"), "on")
        try:
            when = re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise self.at("when", f"{pattern!r} is no regular expression: {error}") from error
        inherited = {key: entry[key] for key in _REMEDY_KEYS}
        return RemedyVariant(when, column, self._remedy_text(cloud, {**inherited, **variant}))

    def _remedy_text(self, cloud: str, entry: Mapping[str, Any]) -> RemedyText:
        commands = entry["commands"]
        if not isinstance(commands, list):
            raise self.at(f"remedy.{cloud}", f"commands of the remedy for {cloud} is a list, which may be empty")
        for command in commands:
            for name in _PLACEHOLDER.findall(self._text(command, "commands")):
                if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                    raise self.at("commands", f"{{{name}}} is no placeholder: lower-case words and underscores only")
        texts = {key: self._text(entry[key], key) for key in ("summary", "risk", "effort")}
        return RemedyText(
            texts["summary"], tuple(commands), texts["risk"], texts["effort"], terraform=self._terraform(entry)
        )

    def _terraform(self, entry: Mapping[str, Any]) -> str:
        """The Terraform of a remedy. Its braces are the language's own, so only `{lower_case}` is a placeholder."""
        if "terraform" not in entry:
            return ""
        text = self._text(entry["terraform"], "terraform")
        for mark in ("${", "%{", "\\"):
            if mark in text:
                raise self.at("terraform", f"terraform holds {mark}, which is escaped like a value; write it without")
        return text


def _coerced(value: object, default: ParameterValue, name: str) -> ParameterValue:
    """A setting in the type of the parameter's default; command lines deliver texts."""
    message = f"{name} is set to {value!r}, wanted a value like {default!r}"
    if isinstance(default, bool):
        words = {"true": True, "false": False}
        found = value if isinstance(value, bool) else words.get(str(value).lower())
        if found is None:
            raise SettingsError(message)
        return found
    if isinstance(default, int | Decimal):
        if isinstance(value, bool):
            raise SettingsError(message)
        try:
            number = Decimal(str(value))
        except InvalidOperation as error:
            raise SettingsError(message) from error
        if not number.is_finite():
            raise SettingsError(message)
        if number < 0:
            raise SettingsError(f"{name} is set to {value}, and a threshold is never below 0")
        return number
    if isinstance(default, list):
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, list | tuple):
            return list(value)
        raise SettingsError(message)
    if not isinstance(value, str):
        raise SettingsError(message)
    return value


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
