"""Writes the rules' own documentation from their headers."""

from collections.abc import Mapping, Sequence

from auditor.detect.rule import Rule

_CLOUD_NAMES = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure"}
_INTRODUCTION = """\
# Rules

What auditor looks for, generated from the headers of the rule files. A rule is one SQL
file, `<area>/<stem>.sql`; its id is `<area>.<stem>`. Parameters are set in the configuration under `[rules."ID"]` or with
`--set ID.PARAM=VALUE`.
"""


def rule_pages(rules: Sequence[Rule]) -> str:
    """The text of rules/README.md: a table of all rules, then a page for each."""
    ordered = sorted(rules, key=lambda rule: rule.id)
    rows = [f"| [`{rule.id}`](#{_anchor(rule)}) | {rule.title} | {_clouds(rule)} | {rule.status} |" for rule in ordered]
    table = "\n".join(("| id | finds | clouds | status |", "|---|---|---|---|", *rows))
    return "\n".join((_INTRODUCTION, table, "", *(rule_page(rule) for rule in ordered)))


def rule_page(rule: Rule) -> str:
    """One rule as Markdown."""
    parts = [
        f"## {rule.id}",
        f"{rule.title}. {_clouds(rule)}; {rule.status}; stage `{rule.stage}`"
        + (f"; severity {rule.severity}" if rule.severity else "; severity by the money")
        + (f"; formerly {', '.join(f'`{name}`' for name in rule.was)}" if rule.was else "")
        + ".",
        rule.why,
        f"**Savings:** {rule.savings}.",
        f"**Blind to:** {rule.blind_to}.",
        f"**Needs:** {_views(rule.needs)}." + (f" **Sharper with:** {_views(rule.optional)}." if rule.optional else ""),
    ]
    if rule.parameters:
        rows = [
            f"| `{name}` | {_value(parameter.default)} | {parameter.unit} | {parameter.about} |"
            for name, parameter in rule.parameters.items()
        ]
        parts.append("\n".join(("| parameter | default | unit | meaning |", "|---|---|---|---|", *rows)))
    for cloud, remedy in rule.remedy.items():
        lines = [
            f"**{_CLOUD_NAMES.get(cloud, cloud)}:** {remedy.summary}. Effort: {remedy.effort}. Risk: {remedy.risk}"
        ]
        if remedy.commands:
            lines += ["", "```sh", *remedy.commands, "```"]
        if remedy.terraform:
            lines += ["", "```hcl", remedy.terraform, "```"]
        for variant in remedy.variants:
            lines += ["", f"Where `{variant.column}` matches `{variant.when.pattern}`: {variant.text.summary}."]
            if variant.text.commands:
                lines += ["", "```sh", *variant.text.commands, "```"]
            if variant.text.terraform:
                lines += ["", "```hcl", variant.text.terraform, "```"]
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- <{reference}>" for reference in rule.references))
    return "\n\n".join(parts) + "\n"


def _anchor(rule: Rule) -> str:
    return rule.id.replace(".", "")


def _clouds(rule: Rule) -> str:
    return ", ".join(_CLOUD_NAMES.get(cloud, cloud) for cloud in rule.clouds)


def _views(views: Mapping[str, object]) -> str:
    return ", ".join(f"`{view}`" for view in views)


def _value(value: object) -> str:
    return ", ".join(f"`{item}`" for item in value) if isinstance(value, list) else f"`{value}`"
