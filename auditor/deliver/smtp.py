"""Hands a mail to an SMTP server, step by step, so that it is known whether the server took it."""

import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr
from pathlib import Path

from auditor.deliver.handover import Handover, NotHandedOver, Uncertain
from auditor.deliver.mail import MAX_LINE


def hand_over_mail(
    message: EmailMessage,
    *,
    host: str,
    port: int,
    security: str,
    username: str | None,
    password: str | None,
    ca_file: Path | None,
    timeout: float,
    handing_over: Handover,
) -> None:
    """Send to the message's one recipient; `handing_over` is called when all but the message itself is agreed.

    Raises NotHandedOver where the server did not take it, Uncertain where its answer never came.
    """
    server: smtplib.SMTP | None = None
    try:
        try:
            server = _connect(host, port, security, ca_file, timeout)
            if username is not None and password is not None:
                server.login(username, password)
            _envelope(server, message)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise NotHandedOver(f"mail server {host}:{port}: {_say(error)}", again=_may_pass(error)) from error
        handing_over()
        _data(server, message, f"{host}:{port}")
    finally:
        if server is not None:
            with suppress(smtplib.SMTPException, OSError):  # what follows the message does not matter any more
                server.quit()
            server.close()


def _connect(host: str, port: int, security: str, ca_file: Path | None, timeout: float) -> smtplib.SMTP:
    context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    if security == "tls":
        return smtplib.SMTP_SSL(host, port, timeout=timeout, context=context)
    server = smtplib.SMTP(host, port, timeout=timeout)
    if security == "starttls":
        try:
            server.starttls(context=context)
        except BaseException:
            server.close()
            raise
    return server


def _envelope(server: smtplib.SMTP, message: EmailMessage) -> None:
    server.ehlo_or_helo_if_needed()
    sender, recipient = parseaddr(message["From"])[1], parseaddr(message["To"])[1]
    options = [] if _is_ascii(sender, recipient) else ["SMTPUTF8"]
    code, answer = server.mail(sender, options)
    if code != 250:
        raise smtplib.SMTPSenderRefused(code, answer, sender)
    code, answer = server.rcpt(recipient)
    if code not in (250, 251):
        raise smtplib.SMTPRecipientsRefused({recipient: (code, answer)})


def _data(server: smtplib.SMTP, message: EmailMessage, where: str) -> None:
    policy = SMTP.clone(max_line_length=MAX_LINE, utf8=not _is_ascii(message["From"], message["To"]))
    try:
        code, answer = server.data(message.as_bytes(policy=policy))
    except smtplib.SMTPDataError as error:  # it refused to listen: nothing was sent
        raise NotHandedOver(f"mail server {where}: {_say(error)}", again=_may_pass(error)) from error
    except (smtplib.SMTPException, OSError) as error:
        raise Uncertain(f"mail server {where}: the connection was lost before it answered: {_say(error)}") from error
    if code != 250:
        refused = smtplib.SMTPDataError(code, answer)
        raise NotHandedOver(f"mail server {where}: {_say(refused)}", again=_may_pass(refused))


def _is_ascii(*addresses: str) -> bool:
    return all(address.isascii() for address in addresses)


def _may_pass(error: Exception) -> bool:
    """Answers of the 400s pass, those of the 500s stay; a network that is away comes back."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code < 500 for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        return error.smtp_code < 500
    return not isinstance(error, (smtplib.SMTPNotSupportedError, ssl.SSLCertVerificationError, ValueError))


def _say(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "; ".join(f"{code} {_text(answer)}" for code, answer in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_text(error.smtp_error)}"
    return str(error) or type(error).__name__


def _text(answer: bytes | str) -> str:
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
