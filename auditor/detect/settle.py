"""Lets findings compete for the same dollars, so that no dollar is saved twice.

Each resource has one ledger of avoidable cost, cut into cost lines: a rule speaks of the whole resource or of some of
its usage kinds (`cost_line`). A finding saves its share of what the ones before it left on its lines, so two findings
of half each leave a quarter. With C the avoidable cost of a line and s the savings of the findings on it, a line yields
C x (1 - product of (1 - s / C)): the order decides which finding is credited, never the total.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, Decimal, localcontext

from auditor.detect.rule import STAGES, Rule
from auditor.finding import Finding

_NIL = Decimal(0)
_ONE = Decimal(1)
_SMALLEST = Decimal("1e-12")  # the lake's own precision
_PRECISION = 60  # digits: sums of twelve-decimal money times several ratios stay exact far below _SMALLEST
_LEVELS = ((Decimal(10_000), "critical"), (Decimal(1_000), "high"), (Decimal(100), "medium"))

Line = tuple[str, ...]
Key = tuple[str, str, str]  # provider, resource or scope, currency


@dataclass
class _Ledger:
    """Avoidable cost of one resource: `whole` as a whole, `lines` by cost line, and what is left of each (0 to 1)."""

    whole: Decimal = _NIL
    lines: dict[Line, Decimal] = field(default_factory=dict)
    left: dict[Line, Decimal] = field(default_factory=dict)

    def widen(self, line: Line, cost: Decimal) -> None:
        """Findings look at windows of their own; the dearest view of a line is its cost."""
        if line:
            self.lines[line] = max(self.lines.get(line, _NIL), cost)
        else:
            self.whole = max(self.whole, cost)

    def close(self) -> None:
        """The remainder of the whole becomes the line (), so that the lines add up to the resource."""
        rest = max(self.whole - sum(self.lines.values(), _NIL), _NIL)
        self.lines[()] = rest
        self.left = dict.fromkeys(self.lines, _ONE)

    def take(self, line: Line, savings: Decimal) -> Decimal:
        touched = [line] if line else list(self.lines)
        cost = sum((self.lines[each] for each in touched), _NIL)
        if cost <= 0 or savings <= 0:
            return _NIL
        share = min(savings / cost, _ONE)
        taken = _NIL
        for each in touched:
            taken += self.lines[each] * self.left[each] * share
            self.left[each] *= _ONE - share
        return taken


def settle(findings: Sequence[Finding], rules: Iterable[Rule]) -> list[Finding]:
    """The findings with `monthly_savings_net`, `instead_of` and, unless the rule states it, `severity` filled in.

    High and medium confidence first, low on what they left; within that by stage. Of exclusive alternatives on one
    resource and cost line the best counts, the others name it in `instead_of`. A finding about several resources
    (`evidence.members`) draws on each by its cost, where findings of its own tell it, and on the others in equal parts.
    Sorted by net savings, then id.
    """
    by_id = {rule.id: rule for rule in rules}
    lines = {rule_id: tuple(sorted(rule.cost_line)) for rule_id, rule in by_id.items()}
    with localcontext() as context:
        context.prec = _PRECISION
        settled = _net(findings, lines)
    result = [
        finding
        if finding.rule_id in by_id and by_id[finding.rule_id].severity
        else replace(finding, severity=severity_of(finding.monthly_savings_net))
        for finding in settled
    ]
    return sorted(result, key=lambda each: (-each.monthly_savings_net, -each.monthly_cost, each.id))


def severity_of(monthly_savings_net: Decimal) -> str:
    """Severity of a finding by the money it saves a month."""
    return next((name for floor, name in _LEVELS if monthly_savings_net >= floor), "low")


def _net(findings: Sequence[Finding], lines: dict[str, Line]) -> list[Finding]:
    ledgers: dict[Key, _Ledger] = defaultdict(_Ledger)
    shares = _shares(findings, lines)
    for finding in findings:
        for key, share in shares[finding.id].items():
            ledgers[key].widen(lines.get(finding.rule_id, ()), _avoidable(finding) * share)
    for ledger in ledgers.values():
        ledger.close()
    winners = _winners(findings, lines)
    settled = []
    for finding in sorted(findings, key=_turn):
        winner = winners.get(_group(finding, lines)) if finding.exclusive_group else None
        if winner is not None and winner.id != finding.id:
            settled.append(replace(finding, monthly_savings_net=_NIL, instead_of=(winner.id,)))
            continue
        taken = sum(
            (
                ledgers[key].take(lines.get(finding.rule_id, ()), finding.monthly_savings * share)
                for key, share in shares[finding.id].items()
            ),
            _NIL,
        )
        settled.append(replace(finding, monthly_savings_net=taken.quantize(_SMALLEST, ROUND_DOWN), instead_of=()))
    return settled


def _shares(findings: Sequence[Finding], lines: dict[str, Line]) -> dict[str, dict[Key, Decimal]]:
    """By finding id: which part of it falls on each of its resources, adding up to one.

    Equal parts of a cluster would make a small member dearer than it is, and more could be saved on it than it costs.
    """
    known: dict[tuple[Key, Line], Decimal] = defaultdict(Decimal)
    for finding in findings:
        keys = _keys(finding)
        if len(keys) == 1:
            line = (keys[0], lines.get(finding.rule_id, ()))
            known[line] = max(known[line], _avoidable(finding))
    return {finding.id: _split(finding, known, lines.get(finding.rule_id, ())) for finding in findings}


def _split(finding: Finding, known: Mapping[tuple[Key, Line], Decimal], line: Line) -> dict[Key, Decimal]:
    keys = _keys(finding)
    costs = {key: known[key, line] for key in keys if known.get((key, line))}
    rest = max(_avoidable(finding) - sum(costs.values(), _NIL), _NIL)
    silent = [key for key in keys if key not in costs]
    costs |= dict.fromkeys(silent, rest / len(silent) if silent else _NIL)
    total = sum(costs.values(), _NIL)
    return {key: cost / total if total else _ONE / len(keys) for key, cost in costs.items()}


def _avoidable(finding: Finding) -> Decimal:
    """What the finding's cost line could still save: its cost without the part that a commitment goes on paying."""
    if finding.effective_cost <= 0:
        return finding.monthly_savings
    share = _ONE - min(finding.committed_cost / finding.effective_cost, _ONE)
    return max(finding.monthly_cost * share, finding.monthly_savings)


def _keys(finding: Finding) -> list[Key]:
    members = finding.evidence.get("members")
    if isinstance(members, list) and members:
        return [(finding.provider, str(member), finding.billing_currency) for member in sorted(set(map(str, members)))]
    return [(finding.provider, finding.resource_id or f"{finding.rule_id} {finding.id}", finding.billing_currency)]


def _group(finding: Finding, lines: dict[str, Line]) -> tuple[object, ...]:
    return (*_keys(finding), lines.get(finding.rule_id, ()), finding.exclusive_group)


def _winners(findings: Sequence[Finding], lines: dict[str, Line]) -> dict[tuple[object, ...], Finding]:
    """The best of each exclusive group; one that counts in the totals beats any of low confidence."""
    winners: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        if finding.exclusive_group:
            key = _group(finding, lines)
            best = winners.get(key)
            if best is None or _merit(finding) > _merit(best):
                winners[key] = finding
    return winners


def _merit(finding: Finding) -> tuple[bool, Decimal, str]:
    return (finding.confidence != "low", finding.monthly_savings, finding.id)


def _turn(finding: Finding) -> tuple[bool, int, Decimal, str]:
    return (finding.confidence == "low", STAGES.index(finding.stage), -finding.monthly_savings, finding.id)
