"""An HTTP server on the loopback interface for tests of downloads, which fails as real servers do.

    with Server() as server:
        url = server.put("data/a.bin", b"...")          # serve bytes, with Range, ETag and Last-Modified
        server.fail("data/a.bin", 503, times=2)         # the next two requests
        server.cut("data/a.bin", after=1000, times=1)   # end the connection after 1000 bytes of the body
        server.stall("data/a.bin", after=1000, times=1) # stop sending, and keep the connection
        server.hang_up("data/a.bin", times=1)           # close the connection without an answer
        server.slow("data/a.bin", 100_000)              # bytes a second
        server.without_range("data/a.bin")              # answer 200 with everything, whatever is asked for
        server.without_if_range("data/a.bin")           # answer 206 though the file has changed
        server.without_validators("data/a.bin")         # no ETag, no Last-Modified
        server.with_length("data/a.bin", 10)            # lie about Content-Length
        server.redirect("old/a.bin", url)               # 302
        server.put("data/a.bin", b"new")                # another content, so another ETag
        server.put_hub("owner/name", {"a/b.tar": b"..."})   # a dataset of the Hugging Face hub: listing and files
        server.requests                                 # what was asked for: path, headers, and when
        server.asked("data/a.bin")                      # those for one path

The fixture ``server`` of ``conftest.py`` makes one, sets HF_ENDPOINT to it and makes the pauses between attempts short.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit


class Request(NamedTuple):
    """A request that the server received."""

    path: str
    headers: dict[str, str]
    time: float


@dataclass
class Resource:
    """What the server has at a path, and how it misbehaves there."""

    content: bytes = b""
    modified: float = 1.7e9
    headers: dict[str, str] = field(default_factory=dict)
    exists: bool = False
    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    cuts: list[tuple[int, bool]] = field(default_factory=list)  # after how many bytes, and whether to stall there
    bytes_per_second: float | None = None
    ranges: bool = True
    if_range: bool = True
    validators: bool = True
    length: int | None = None

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class Server:
    """A server that is a context manager. See the module's docstring."""

    def __init__(self) -> None:
        self.resources: defaultdict[str, Resource] = defaultdict(Resource)
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def put(self, path: str, content: bytes, *, headers: Mapping[str, str] | None = None) -> str:
        """Serve bytes at a path, or change them, and return the address."""
        resource = self.resources[path]
        resource.modified += resource.exists
        resource.content, resource.headers, resource.exists = content, dict(headers or {}), True
        return f"{self.url}/{quote(path, safe='/$')}"

    def fail(self, path: str, status: int, times: int = 1, headers: Mapping[str, str] | None = None) -> None:
        """Answer the next requests with an error."""
        self.resources[path].failures += [(status, dict(headers or {}))] * times

    def hang_up(self, path: str, times: int = 1) -> None:
        """Close the connection of the next requests without an answer."""
        self.fail(path, 0, times)

    def cut(self, path: str, after: int, times: int = 1) -> None:
        """End the connection of the next requests after so many bytes of the body."""
        self.resources[path].cuts += [(after, False)] * times

    def stall(self, path: str, after: int, times: int = 1) -> None:
        """Send nothing more on the next requests after so many bytes of the body."""
        self.resources[path].cuts += [(after, True)] * times

    def slow(self, path: str, bytes_per_second: float) -> None:
        """Limit the speed."""
        self.resources[path].bytes_per_second = bytes_per_second

    def without_range(self, path: str) -> None:
        """Send everything, whatever is asked for."""
        self.resources[path].ranges = False

    def without_if_range(self, path: str) -> None:
        """Send the range, even if the file is another one now."""
        self.resources[path].if_range = False

    def without_validators(self, path: str) -> None:
        """Send neither ETag nor Last-Modified."""
        self.resources[path].validators = False

    def with_length(self, path: str, length: int) -> None:
        """State another Content-Length."""
        self.resources[path].length = length

    def redirect(self, path: str, to: str) -> str:
        """Redirect always to an address, and return the one that does."""
        self.fail(path, 302, 10**4, {"Location": to})
        return f"{self.url}/{quote(path)}"

    def put_hub(self, repo: str, files: Mapping[str, bytes], revision: str = "main", page: int = 1000) -> None:
        """Serve a dataset as the Hugging Face hub does: its listing, in pages, and its files.

        Files of more than 100 bytes have checksums, as large files have there.
        """
        entries = []
        for path, content in files.items():
            self.put(f"datasets/{repo}/resolve/{revision}/{path}", content)
            entry: dict[str, Any] = {"type": "file", "oid": "0" * 40, "size": len(content), "path": path}
            if len(content) > 100:
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            entries.append(entry)
        for folder in sorted({path.rpartition("/")[0] for path in files} - {""}):
            entries.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": folder})
        listing = f"api/datasets/{repo}/tree/{revision}"
        for start in range(0, max(len(entries), 1), page):
            name = listing + (f"?cursor={start}" if start else "")
            more = start + page < len(entries)
            link = {"Link": f'<{self.url}/{listing}?recursive=true&cursor={start + page}>; rel="next"'} if more else {}
            self.put(name, json.dumps(entries[start : start + page]).encode(), headers=link)

    def asked(self, path: str) -> list[Request]:
        """The requests for a path."""
        return [request for request in self.requests if request.path == path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        server: Server = self.server.owner  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/")
        cursor = parse_qs(parts.query).get("cursor")
        path += f"?cursor={cursor[0]}" if cursor else ""
        server.requests.append(Request(path, dict(self.headers.items()), time.monotonic()))
        self.close_connection = True
        resource = server.resources[path]
        with contextlib.suppress(ConnectionError):
            if resource.failures and resource.failures[0][0] == 0:
                resource.failures.pop(0)
            elif resource.failures:
                self._head(*resource.failures.pop(0))
            elif not resource.exists:
                self._head(404)
            else:
                self._send(server, resource)

    def _head(self, status: int, headers: Mapping[str, str] | None = None, length: int = 0) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), "Connection": "close", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, server: Server, resource: Resource) -> None:
        content, headers, status = resource.content, dict(resource.headers), 200
        modified = email.utils.formatdate(resource.modified, usegmt=True)
        if resource.validators:
            headers |= {"ETag": resource.etag, "Last-Modified": modified}
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, resource.etag, modified) or not resource.if_range
        if wanted and resource.ranges and same:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self._head(416, {"Content-Range": f"bytes */{len(content)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            content, status = content[start:], 206
        self._head(status, headers, len(content) if resource.length is None else resource.length)
        after, stalls = resource.cuts.pop(0) if resource.cuts else (len(content), False)
        step = 2**16 if resource.bytes_per_second is None else max(int(resource.bytes_per_second / 50), 1)
        for start in range(0, min(after, len(content)), step):
            self.wfile.write(content[start : min(start + step, after)])
            if resource.bytes_per_second and server.closing.wait(step / resource.bytes_per_second):
                return
        if stalls:
            server.closing.wait()
