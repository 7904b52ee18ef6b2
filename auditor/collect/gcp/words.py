"""Google's refusals in words for the report, with what helps."""

import google.auth.exceptions
import requests
from google.api_core.exceptions import GoogleAPICallError, RetryError

from auditor.collect.gcp.calls import Call
from auditor.collect.gcp.rest import Refused
from auditor.collect.work import Refusal

LOGIN = (
    "sign in with `gcloud auth application-default login`, or let GOOGLE_APPLICATION_CREDENTIALS name a service "
    "account's file"
)
_DISABLED = ("SERVICE_DISABLED", "accessNotConfigured")
_ROLES = {
    "dataset": "roles/bigquery.dataViewer on the data set",
    "bucket": "roles/storage.objectViewer on the bucket",
    "billing account": "roles/billing.viewer on the billing account",
}
_AGAIN = "run again; the collection goes on where it stopped"
_OTHERS: tuple[tuple[type[Exception], Refusal], ...] = (
    (google.auth.exceptions.DefaultCredentialsError, Refusal("no Google credentials were found", LOGIN)),
    (
        google.auth.exceptions.GoogleAuthError,
        Refusal("the Google credentials are expired or were withdrawn", LOGIN),
    ),
    (requests.Timeout, Refusal("no answer in time", _AGAIN)),
    (
        requests.RequestException,
        Refusal(
            "the connection failed or was cut",
            "check that this machine reaches googleapis.com by HTTPS, then run again",
        ),
    ),
    (RetryError, Refusal("the service kept failing", _AGAIN)),
)


def explain(error: Exception) -> Refusal | None:
    """What a vendor's exception means, null where it is none of them."""
    if isinstance(error, Refused):
        return _refused(error)
    if isinstance(error, GoogleAPICallError):
        return Refusal(f"{error.code or 'error'}: {_first_line(error.message)}")
    return next((refusal for kind, refusal in _OTHERS if isinstance(error, kind)), None)


def from_client(call: Call, error: GoogleAPICallError) -> Refused:
    """The refusal that a client library raised, as that of the call it made."""
    older = [str(one.get("reason")) for one in error.errors or () if isinstance(one, dict) and one.get("reason")]
    reason = error.reason or (older[0] if older else type(error).__name__)
    return Refused(call, int(error.code or 0), str(reason), str(error.message), error.metadata or {})


def is_disabled(error: Refused) -> bool:
    return error.reason in _DISABLED


def _refused(error: Refused) -> Refusal:
    if is_disabled(error):
        service = error.call.service
        consumer = str(error.about.get("consumer", "projects/PROJECT")).removeprefix("projects/")
        return Refusal(f"the API {service} is not enabled", f"gcloud services enable {service} --project={consumer}")
    if error.status == 403:
        return _forbidden(error)
    if error.status >= 500:
        return Refusal(f"{error.call.service} kept failing ({error.status})", "run again later")
    known = {
        401: Refusal("the Google credentials were not accepted", LOGIN),
        404: Refusal("there is no such thing, or it is hidden from these credentials", "check the name, and the role"),
        429: Refusal(
            f"the rate limit of {error.call.service} is used up",
            "run again later, or lower `parallel` under [limits]",
        ),
    }
    return known.get(error.status) or Refusal(f"{error.status} {error.reason}: {_first_line(error.message)}")


def _forbidden(error: Refused) -> Refusal:
    told = f"{error.reason} {error.message}"
    if "VPC_SERVICE_CONTROLS" in told:
        return Refusal(
            "a VPC Service Controls perimeter forbids the call", "add an ingress rule for the audit's service account"
        )
    if error.reason in ("billingNotEnabled", "BILLING_DISABLED"):
        return Refusal("billing is off for the project that is asked", "link the project to a billing account")
    if "ateLimitExceeded" in error.reason:
        return Refusal(
            f"the rate limit of {error.call.service} is used up",
            "run again later, or lower `parallel` under [limits]",
        )
    wanted = ", ".join(error.call.permissions) or "access"
    where = _ROLES.get(error.call.scope, "the role that `auditor permissions gcp` prints, on the project")
    return Refusal(f"the permission {wanted} is missing", f"grant {where}")


def _first_line(text: object) -> str:
    return (str(text).splitlines() or ["no message"])[0][:300]
