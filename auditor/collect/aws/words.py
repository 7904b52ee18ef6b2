"""AWS's refusals in words for the report, each with what helps."""

import re
from typing import Any

from auditor.collect.aws.access import CallFailed
from auditor.collect.aws.calls import CALLS
from auditor.collect.work import Refusal

_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "UnauthorizedException",
    "AuthorizationError",
    "AccessDeniedForDependencyException",
    "Forbidden",
    "403",
}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_UNKNOWN = {
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
    "AuthFailure",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
}
_TOO_MANY = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
    "LimitExceededException",
    "SlowDown",
    "RequestThrottled",
    "RequestThrottledException",
    "BandwidthLimitExceeded",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "TransactionInProgressException",
    "EC2ThrottledException",
    "429",
}
_OFF = {"OptInRequired", "RegionDisabledException", "SubscriptionRequiredException", "RegionDisabled"}
_LOGIN = "log in again (aws sso login, or renew the keys) and run `auditor collect`, which goes on where it stopped"


def explain(error: Exception) -> Refusal | None:
    """Why a call failed, and what helps; null for what is not AWS's doing."""
    if not isinstance(error, CallFailed):
        return None
    response = getattr(error.error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _answered(error.name, response["Error"])
    return _unanswered(error.name, error.error)


# Codes of an answer, what they mean, and what helps.
_ANSWERS: tuple[tuple[set[str], str, str], ...] = (
    (_EXPIRED, "the credentials have expired", _LOGIN),
    (
        _UNKNOWN,
        "the credentials are not accepted",
        "check them with `aws sts get-caller-identity`; in a Region that is off no key is known: name `regions`",
    ),
    (
        _TOO_MANY,
        "too many calls, even after waiting",
        "lower [limits] parallel, or collect at another time; what came is kept",
    ),
    (_OFF, "the service is not switched on for this account", "leave the Region out of `regions`"),
    (
        {"NoSuchBucket", "NoSuchKey", "404"},
        "it does not exist",
        "correct the address under `exports` or `flow_logs`",
    ),
    (
        {"AWSOrganizationsNotInUseException"},
        "the account belongs to no organization",
        "name `roles` instead of `organization`",
    ),
)


def _answered(name: str, answer: dict[str, Any]) -> Refusal:
    code, message = str(answer.get("Code", "")), str(answer.get("Message", ""))
    if code in _DENIED:
        return Refusal(f"access is denied ({code}{_cause(message)})", _allow(name))
    for codes, reason, fix in _ANSWERS:
        if code in codes:
            return Refusal(f"{reason} ({code})", fix)
    return Refusal(f"AWS refused ({code}{_first_sentence(message)})")


def _allow(name: str) -> str:
    actions = " and ".join(CALLS[name].actions) or name
    if name == "sts:AssumeRole":
        return "let the role trust this identity (with this external id), and allow sts:AssumeRole; `auditor permissions aws` prints the policy"
    more = "; an encrypted bucket needs kms:Decrypt of its key too" if name == "s3:GetObject" else ""
    return f"allow {actions}{more}; `auditor permissions aws` prints the whole policy"


_CAUSE = re.compile(r"(because no [a-z-]+ policy allows|with an explicit deny in an? [a-z -]+policy)", re.IGNORECASE)


def _cause(message: str) -> str:
    """Which policy denies. The rest names identity and resource, which would make one cause look like many."""
    found = _CAUSE.search(message)
    return f", {found.group(1)}" if found else ""


def _first_sentence(message: str) -> str:
    """What follows an encoded message is long and only its account can read it."""
    plain = message.partition("Encoded authorization failure message")[0].strip()
    return f": {plain.splitlines()[0][:240]}" if plain else ""


# Exceptions of the SDK without an answer, likewise.
_SILENCES: tuple[tuple[set[str], str, str], ...] = (
    (
        {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"},
        "no credentials were found by AWS's own chain",
        "set AWS_PROFILE, `profile`, or run on a machine with a role; `aws sts get-caller-identity` must work",
    ),
    (
        {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "ConnectionClosedError"},
        "the service cannot be reached",
        "check network, proxy and `endpoint_url`; where a Region has no such service, name `regions` without it",
    ),
    (
        {"ReadTimeoutError", "IncompleteReadError", "ResponseStreamingError"},
        "the answer broke off",
        "run `auditor collect` again, which goes on where it stopped",
    ),
    ({"SSLError"}, "the service's certificate is not trusted", "set AWS_CA_BUNDLE to your proxy's certificate"),
    ({"ProfileNotFound"}, "there is no such profile", "correct `profile`, or write it to ~/.aws/config"),
    (
        {"UnauthorizedSSOTokenError", "SSOTokenLoadError", "TokenRetrievalError", "LoginRefreshRequired"},
        "the session of AWS's single sign-on is over",
        _LOGIN,
    ),
)


def _unanswered(name: str, error: Exception) -> Refusal:
    kind = type(error).__name__
    for kinds, reason, fix in _SILENCES:
        if kind in kinds:
            return Refusal(f"{reason} ({kind})", fix)
    return Refusal(f"{name} failed ({kind}: {_first_sentence(str(error)).removeprefix(': ') or 'no message'})")
