"""HTTP requests for datasets: bounded retries, redirects to http and https only, and the reason of each failure."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt."""
LONGEST_PAUSE = 120.0
"""The longest pause, in seconds, that a server may ask for (``Retry-After``). Above it, the request fails."""
PROGRESS = 2**20
"""Bytes after which the attempts are counted from the beginning again."""

_READABLE = "%/:=&?~#+!$,;'@()*[]"  # what quote() leaves as it is: all that has a meaning in a URL
Result = TypeVar("Result")


class DownloadError(OSError):
    """Something could not be downloaded. The message says why, and what to do.

    Args:
        message: the whole text.
        url: what was asked for.
        status: the HTTP status of the answer, or ``None`` if no answer was received.
        code: the hub's name for the error, such as ``"GatedRepo"``, or ``None``.

    Example:
        >>> raise DownloadError("...", "https://example.org/a.h5", 404)
        Traceback (most recent call last):
        rlnb.data.datasets.urls.DownloadError: ...
    """

    def __init__(self, message: str, url: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.url, self.status, self.code = url, status, code


class FailedRequest(Exception):
    """One attempt that failed: why, whether another one may help, and how long the server wants us to wait.

    Args:
        reason: the middle of a sentence, such as ``"the server has no such file (HTTP 404)"``.
        again: whether to try again.
        status: the HTTP status of the answer, if there was one.
        code: the hub's name for the error.
        wait: seconds that the server asks for.
    """

    def __init__(
        self,
        reason: str,
        *,
        again: bool,
        status: int | None = None,
        code: str | None = None,
        wait: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.again, self.status, self.code, self.wait = reason, again, status, code, wait


# Requests -------------------------------------------------------------------------------------------------------------


def open_url(url: str, headers: Mapping[str, str] | None = None, timeout: float = 20.0) -> Any:
    """Send a GET request and return the response, an ``http.client.HTTPResponse`` whose body is not yet read.

    Requests to the Hugging Face hub carry the token of the environment variable ``HF_TOKEN``; no other host receives
    it, not even after a redirect.

    Args:
        url: an address of http or https.
        headers: further headers.
        timeout: seconds without a byte after which the server counts as stalled.

    Raises:
        FailedRequest: If the server cannot be reached or answers with an error.
        ValueError: If the address is not one of http or https.
    """
    check_url(url)
    request = urllib.request.Request(quote(url, safe=_READABLE), headers={"User-Agent": "rlnb", **(headers or {})})
    _authorize(request)
    opener = urllib.request.OpenerDirector()  # build_opener would add the handlers of file:, ftp: and data:
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
        _Redirects,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    try:
        return opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refusal(error.code, error.headers) from None
    except urllib.error.URLError as error:
        raise connection_failure(error.reason, connected=False) from None
    except (OSError, http.client.HTTPException) as error:  # after the connection was made
        raise connection_failure(error, connected=True) from None


def check_url(url: str) -> None:
    """Raise ``ValueError`` if an address is not one of http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"The address of a file must start with https:// or http://, got {url!r}.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but only to http and https."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise urllib.error.HTTPError(newurl, code, msg, headers, fp)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            _authorize(request)
        return request


def hub_endpoint() -> str:
    """The address of the Hugging Face hub: the environment variable ``HF_ENDPOINT``, or https://huggingface.co."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _authorize(request: urllib.request.Request) -> None:
    """Add the token of the hub to a request to the hub."""
    token = os.environ.get("HF_TOKEN")
    here, hub = urlsplit(request.full_url), urlsplit(hub_endpoint())
    if token and (here.scheme, here.netloc) == (hub.scheme, hub.netloc):
        # "Unredirected": urllib does not copy it to the request that follows a redirect, which may go elsewhere.
        request.add_unredirected_header("Authorization", f"Bearer {token.strip()}")


# Why it failed --------------------------------------------------------------------------------------------------------


def _refusal(status: int, headers: Message) -> FailedRequest:
    """The failure that an HTTP status stands for."""
    again = status in (408, 429) or status >= 500
    wait = _retry_after(headers.get("Retry-After")) if again else None
    if status in (404, 410):
        reason = "the server has no such file"
    elif status in (401, 403):
        reason = "the server denies access"
    elif status == 429:
        reason = "the server has received too many requests"
    elif 300 <= status < 400:
        reason = "the server redirects in circles, or to an address that is not one of http or https"
    elif status >= 500:
        reason = "the server reports an error of its own"
    else:
        reason = "the server refuses the request"
    reason = f"{reason} (HTTP {status})"
    if wait is not None and wait > LONGEST_PAUSE:
        again, reason = False, f"{reason} and wants no further request for {wait:.0f} seconds"
    return FailedRequest(reason, again=again, status=status, code=headers.get("X-Error-Code"), wait=wait)


def _retry_after(text: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header, which holds seconds or a date."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
    return max(seconds, 0.0)


def connection_failure(error: Any, *, connected: bool) -> FailedRequest:
    """The failure that an exception of a socket stands for.

    Args:
        error: the exception, or what ``urllib`` gives as its reason.
        connected: whether the server had been reached before. If not, only a timeout is worth another attempt.
    """
    if isinstance(error, TimeoutError):
        return FailedRequest("the server stopped sending", again=True)
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError | http.client.HTTPException):
        return FailedRequest(f"the connection broke ({error or type(error).__name__})", again=True)
    if isinstance(error, ssl.SSLCertVerificationError):
        return FailedRequest(f"the server's certificate is not valid ({error.verify_message})", again=False)
    if isinstance(error, socket.gaierror):
        return FailedRequest(f"the server's address was not found ({error.strerror})", again=connected)
    return FailedRequest(f"there is no connection to the server ({error})", again=connected)


def retry(
    action: Callable[[], Result],
    *,
    sleep: Callable[[float], Any] = time.sleep,
    progress: Callable[[], int] = lambda: 0,
) -> Result:
    """Call a function until it succeeds, with growing pauses, a bounded number of times.

    Args:
        action: the function. A :class:`FailedRequest` with ``again`` is followed by another attempt.
        sleep: how to wait.
        progress: bytes received so far. Whoever receives :data:`PROGRESS` more bytes gets all attempts again, so that
            a large file survives many short interruptions.

    Raises:
        FailedRequest: The last one, if no attempt succeeded.

    Example:
        >>> retry(lambda: 3)
        3
    """
    failures, reached = 0, progress()
    while True:
        try:
            return action()
        except FailedRequest as failure:
            if progress() >= reached + PROGRESS:
                failures, reached = 0, progress()
            if not failure.again or failures == len(PAUSES):
                raise
            sleep(max(PAUSES[failures], failure.wait or 0.0))
            failures += 1
