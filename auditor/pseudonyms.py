"""Words that name somebody or something, replaced by others under a key: equal words stay equal, nothing else stays.

Replaced is word by word, so that every join survives: an account inside an ARN becomes what the account's own column
becomes. Numbers and hexadecimal ids are permuted within their length, which no two of them can share; other words become
letters of a keyed hash. What clouds and auditor themselves say (`arn:aws:ec2`, `zones/us-east1-b`, `training`) stays.
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache

from auditor import exporters
from auditor.tagging import NEGATIVE_VALUES, TagSettings

_ROUNDS = 8
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LETTERS = 12  # 26^12: among a million words two alike are as good as impossible
_CACHED = 200_000

# What vendors write as a part of a host, a path, a URL or a file's name. It stays where it stands alone there: not in a
# name of several words, which is the client's.
_VENDOR_WORDS = frozenset(
    """
    amazon amazonaws api app arn auditor aws azure az abfs abfss azurewebsites billing blob bucket cn cloudapp com compute
    core cpu csv data default delivery dev dfs dns ec ecs efs eks elasticfilesystem eth export exports file filestore flows
    focus fsx gce gcp google googleapis gov gpu gs gz host http https instance internal inventory ip json jsonl
    kubernetes lo local localhost log logs lustre manifest metadata metrics microsoft monitoring nat net network nvidia nvme
    parquet prices prometheus public query resources s3 sagemaker sd sh slurm storage svc table telemetry total tpu txt us vpc
    windows www xvda sda zst
    true yes on enabled all-apis vpc-sc running available succeeded
    """.split()
)
# Halves of a word that tells the work (`fine-tuning`, `real-time`), and words by which rules know logs and the disks of
# systems. They stay everywhere.
_TELLING = frozenset("pre post fine hyper real time log logs os disk osdisk".split())
# Words by which rules know copies and checkpoints: as those that tell the work, they stay with a mark behind them.
_MARKED = frozenset(
    """
    tune tunes tuned param params parameter parameters box backup backups replica archive snapshot snapshots mirror
    schedule checkpoint checkpoints
    """.split()
)
_ARN_WITHOUT_TYPE = frozenset({"s3", "sqs", "sns"})
_SEGMENTS = frozenset(
    """
    _ accelerators acceleratortypes addresses agentpools amlfilesystems backendservices batchendpoints billingaccounts
    billingprofiles blobservices buckets capacityblocks capacitypools capacityreservationgroups capacityreservations clusters
    commitments computes containers customers customjobs deployments disks disktypes enrollmentaccounts datasets endpoints
    fileservices forwardingrules frontendipconfigurations global images instancegroupmanagers instancegroups instances
    instancetemplates invoicesections ipconfigurations jobs keys licenses loadbalancers locations machinetypes
    managedclusters managementgroups managementpolicies models natgateways netappaccounts networkinterfaces networks
    nodepools nodes notebooks onlineendpoints organizations folders operations privateendpoints projects providers
    publicipaddresses queuedresources regions reservationorders reservations resourcegroups resourcepolicies routers
    routes routetables savingsplanorders savingsplans securitygroups serviceaccounts serviceattachments services shares
    snapshots storageaccounts subnets subnetworks subscriptions targetpools tenants trainingpipelines trainingjobs
    virtualmachines virtualmachinescalesets virtualnetworkpeerings virtualnetworks volumes workspaces zones b o v1 v2 beta
    tagkeys tagvalues benefits departments metrics
    """.split()
)
_VALUE_STAYS_AFTER = frozenset(
    "zones regions locations machinetypes disktypes acceleratortypes licenses versions".split()
)

_PLAIN = re.compile(
    r"|true|false|null|none|[-+]?\d{1,6}"
    r"|[-+]?\d*\.\d+(?:[eE][-+]?\d+)?|[-+]?\d+(?:\.\d*)?[eE][-+]?\d+"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z/\d{4}-\d\d-\d\dT[\d:.]+Z|\d{1,2}/\d{1,2}/\d{2,4}(?: [\d:]+)?|P(?:\d+D)?(?:T[\dHMS]+)?",
    re.IGNORECASE,
)
_WHOLE_NUMBER = re.compile(r"\d+")
_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_REGIONS = (
    r"(?:us|eu|ap|ca|sa|me|af|il|mx|cn)(?:-gov|-iso[a-z]?)?-(?:central|(?:north|south)?(?:east|west)?)-\d[a-z]?"
    r"|(?:us|europe|asia|australia|northamerica|southamerica|africa|me)-(?:central|(?:north|south)?(?:east|west)?)\d{1,2}(?:-[a-z])?"
)
_AWS_IDS = (
    "i|vol|snap|nat|eni|vpc|vpce|subnet|rtb|igw|sg|ami|eipalloc|eipassoc|fs|fsmt|fsvol|cr|cr-block|lt|r|tgw|pcx|acl|"
    "aclassoc|rtbassoc|dopt|pl|fl|sir|h|asg|svm|backup|o|ou|vpce-svc|mi|mr"
)
_METRICS = "|".join(sorted(exporters.metrics(), key=len, reverse=True))
_PARTS = re.compile(
    rf"""
    (?P<guid>(?<![0-9A-Za-z])[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}(?![0-9A-Za-z]))
    |(?P<billing>(?<![0-9A-Za-z])[0-9A-F]{{6}}([-_])[0-9A-F]{{6}}\3[0-9A-F]{{6}}(?![0-9A-Za-z]))
    |(?P<mac>(?<![0-9A-Za-z:])(?:[0-9a-f]{{2}}:){{5}}[0-9a-f]{{2}}(?![0-9A-Za-z:]))
    |(?P<six>(?<![0-9A-Za-z:])(?:[0-9a-f]{{1,4}}:){{2,7}}(?::?[0-9a-f]{{1,4}})*(?:::)?(?![0-9A-Za-z]))
    |(?P<four>(?<![\d.])\d{{1,3}}([.-])\d{{1,3}}\7\d{{1,3}}\7\d{{1,3}}(?![\d]))
    |(?P<region>(?<![0-9A-Za-z])(?:{_REGIONS})(?![0-9A-Za-z]))
    |(?P<aws>(?<![0-9A-Za-z])(?P<prefix>{_AWS_IDS})-(?P<tail>[0-9a-f]{{17}}|[0-9a-f]{{8}})(?![0-9A-Za-z]))
    |(?P<metric>(?<![0-9A-Za-z])(?:{_METRICS})(?![0-9A-Za-z]))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LABEL = re.compile(r"[^\W_]+(?:[-_]+[^\W_]+)*")
_WORD = re.compile(r"[^\W_]+")
_RUNS = re.compile(r"\d+|[^\W\d_]+")
_MIXED = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[0-9A-Za-z]{2,24}")
_HEX = re.compile(r"(?=[^A-Z]*$|[^a-z]*$)(?=.*\d)(?=.*[a-fA-F])[0-9a-fA-F]{6,}")
_SENSITIVE = re.compile(
    r"arn:aws[\w-]*:[^\s,;\"'<>()]+|/subscriptions/[^\s,;\"'<>()]+|(?<![\w.])projects/[^\s,;\"'<>()]+|[\w.+-]+@[\w.-]+"
    rf"|(?<!\d)\d{{12}}(?!\d)|(?<![0-9A-Za-z])(?:{_AWS_IDS})-(?:[0-9a-f]{{17}}|[0-9a-f]{{8}})(?![0-9A-Za-z])"
    r"|(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"
)


class Pseudonyms:
    """Replaces words under one key. `hide` is a pure function of the key and the text."""

    def __init__(self, key: bytes, tags: TagSettings | None = None) -> None:
        self._key = key
        tags = tags or TagSettings()
        work = [*tags.training_words, *tags.inference_words, *tags.notebook_words]
        self._work = re.compile("|".join(work) or r"(?!)")
        self.hide: Callable[[str], str] = lru_cache(_CACHED)(self._hide)
        self.scrub: Callable[[str], str] = lru_cache(_CACHED)(self._scrub)
        self._permuted = lru_cache(_CACHED)(self._permute)
        self._alone = _VENDOR_WORDS | _TELLING | frozenset(NEGATIVE_VALUES)

    def opaque(self, text: str) -> str:
        """A text of no meaning in place of one that nothing is joined by."""
        return hashlib.sha256(self._key + text.encode()).hexdigest()[:32]

    @property
    def opaque_prefix(self) -> str:
        """What stands before a text whose SHA-256 begins with `opaque` of it, in hexadecimal."""
        return self._key.hex()

    def number(self, digits: str) -> str:
        """Another number of as many digits."""
        return str(self._permuted(digits, 10))

    def _hide(self, text: str) -> str:
        if _PLAIN.fullmatch(text):
            return text
        if _WHOLE_NUMBER.fullmatch(text):
            return self._digits(text)
        if "/" not in text:
            return self._arn(text) if text.startswith("arn:") else self._words(text)
        if text.startswith("arn:"):
            return self._arn(text)
        return self._path(text)

    def _arn(self, text: str) -> str:
        head, parts = text.split(":", 5)[:5], text.split(":", 5)[5:]
        if not parts:
            return self._words(text)
        account = self._words(head[4]) if head[4] != "aws" else "aws"
        kind, sign, rest = parts[0], "", ""
        found = re.match(r"([A-Za-z][A-Za-z0-9-]*)([/:])", parts[0])
        if found and head[2] not in _ARN_WITHOUT_TYPE:
            kind, sign, rest = found[1], found[2], parts[0][found.end() :]
            return ":".join([*head[:4], account, f"{kind}{sign}{self._path(rest)}"])
        return ":".join([*head[:4], account, self._path(kind)])

    def _path(self, text: str) -> str:
        """Collections stay, and what stands behind them goes; below an Azure namespace types and names take turns."""
        made: list[str] = []
        before, turn = "", ""
        for segment in text.split("/"):
            low = segment.casefold()
            stays = low in _SEGMENTS or before in _VALUE_STAYS_AFTER or low.endswith(".googleapis.com")
            if turn == "name":
                stays, turn = False, "type"
            elif turn == "type" and low != "providers":
                stays, turn = segment.isalpha(), "name"
            elif re.fullmatch(r"microsoft\.[a-z.]+", low):
                stays, turn = True, "type"
            else:
                turn = ""
            made.append(segment if stays else self._words(segment))
            before = low
        return "/".join(made)

    def _words(self, text: str) -> str:
        if text.casefold() in self._alone or self._is_telling(text.casefold()):
            return text
        made, at = [], 0
        for found in _PARTS.finditer(text):
            made += [self._labels(text[at : found.start()]), self._part(found)]
            at = found.end()
        return "".join([*made, self._labels(text[at:])])

    def _part(self, found: re.Match[str]) -> str:
        text = found[0]
        if found["guid"] or found["billing"] or found["mac"]:
            return self._hexadecimal(text)
        if found["aws"]:
            return f"{found['prefix']}-{self._hexadecimal(found['tail'])}"
        if found["four"]:
            return self._address(text)
        return self._six(text) if found["six"] else text  # a region, or a metric

    def _labels(self, text: str) -> str:
        return _LABEL.sub(lambda found: self._label(found[0]), text)

    def _label(self, label: str) -> str:
        """What stands between dots, slashes and the like: `ec2`, or `acme-gpu-01`."""
        is_alone = _WORD.fullmatch(label) is not None
        return _WORD.sub(lambda word: self._word(word[0], is_alone), label)

    def _word(self, word: str, is_alone: bool) -> str:
        if len(word) >= 6 and _HEX.fullmatch(word):
            made = self._hexadecimal(word)
            while not _HEX.fullmatch(made):  # digits alone, or letters alone, are other words' names
                made = self._hexadecimal(made)
            return made
        if is_alone and word.casefold() in self._alone:
            return word
        if len(word) > 1 and _MIXED.fullmatch(word) and not self._is_known(word, is_alone):
            permuted = str(self._permuted(word.lower(), 36))
            while self._is_known(permuted, True):  # it would be another's name
                permuted = str(self._permuted(permuted, 36))
            return permuted.upper() if word.isupper() else permuted
        return _RUNS.sub(lambda run: self._run(run[0], is_alone), word)

    def _is_known(self, word: str, is_alone: bool) -> bool:
        """Whether the letters of a word with digits say something to rules, or to a reader of hosts and devices."""
        runs = [run.casefold() for run in _RUNS.findall(word) if len(run) > 1 and not run[0].isdigit()]
        return any(self._is_telling(run) or (is_alone and run in self._alone) for run in runs)

    def _run(self, run: str, is_alone: bool) -> str:
        low = run.casefold()
        if run[0].isdigit():
            return self._digits(run)
        if len(run) == 1 or low in _TELLING or (is_alone and low in self._alone):
            return run
        if self._is_telling(low):
            return run + self._mark(low)
        made = self._letters(low)
        if run.isupper():
            return made.upper()
        # camelCase: a part may tell the work
        parts = [part for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", run) if self._work.fullmatch(part.lower())]
        if parts:
            return f"{made}{parts[0].capitalize()}{self._mark(low)}"
        return made.capitalize() if run[0].isupper() else made

    def _is_telling(self, word: str) -> bool:
        return word in _TELLING or word in _MARKED or bool(self._work.fullmatch(word))

    def _mark(self, word: str) -> str:
        """Digits that make a telling word part of another name; they may stand behind it without changing what it tells."""
        return f"{int.from_bytes(self._hash('mark', word)[:4], 'big') % 10**6:06d}"

    def _digits(self, run: str) -> str:
        return run if len(run) < 7 or _DATE.fullmatch(run) else self.number(run)

    def _letters(self, word: str) -> str:
        number = int.from_bytes(self._hash("word", word)[:16], "big")
        letters = []
        for _ in range(_LETTERS):
            number, place = divmod(number, 26)
            letters.append(chr(ord("a") + place))
        return "".join(letters)

    def _hexadecimal(self, text: str) -> str:
        digits = re.sub(r"[^0-9A-Fa-f]", "", text)
        made = str(self._permuted(digits.lower(), 16))
        made = made.upper() if any(each.isupper() for each in digits) else made
        places = iter(made)
        return "".join(next(places) if each.isalnum() else each for each in text)

    def _address(self, text: str) -> str:
        """A public address becomes another public one; private ones name no one, and subnets hold them."""
        sign = re.sub(r"\d", "", text)[0]
        try:
            address = ipaddress.IPv4Address(text.replace(sign, "."))
        except ValueError:
            return text
        if not address.is_global:
            return text
        while True:
            address = ipaddress.IPv4Address(int(self._permuted(f"{int(address):08x}", 16), 16))
            if address.is_global:
                return str(address).replace(".", sign)

    def _six(self, text: str) -> str:
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            return ":".join(self._words(part) for part in text.split(":"))
        if not address.is_global:
            return text
        return str(ipaddress.IPv6Address(int("2" + self._permuted(f"{int(address):032x}"[1:], 16), 16)))

    def _permute(self, text: str, base: int) -> str:
        """A permutation of all texts of this length; of base 10 with or without a leading zero, of 36 with letters and digits."""
        made = text
        while True:
            made = self._mixed(made, base)
            if base == 16 or (base == 10 and (made[0] == "0") == (text[0] == "0")):
                return made
            if base == 36 and not made.isdigit() and not made.isalpha():
                return made

    def _mixed(self, digits: str, base: int) -> str:
        """A Feistel network: each round adds a keyed hash of one half to the other."""
        half = len(digits) // 2
        left, right = digits[:half], digits[half:]
        for turn in range(_ROUNDS):
            added = int.from_bytes(self._hash(f"{base}/{len(digits)}/{turn}", right)[:16], "big")
            mixed = (int(left, base) + added) % base ** len(left)
            left, right = right, self._written(mixed, base, len(left))
        return left + right

    @staticmethod
    def _written(number: int, base: int, length: int) -> str:
        if base == 36:
            return "".join(_DIGITS[number // 36**place % 36] for place in reversed(range(length)))
        return f"{number:0{length}x}" if base == 16 else f"{number:0{length}d}"

    def _hash(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self._key, f"{purpose}\0{text}".encode(), "sha256")

    def _scrub(self, text: str) -> str:
        return str(_SENSITIVE.sub(lambda found: self._hide(found[0]), text))
