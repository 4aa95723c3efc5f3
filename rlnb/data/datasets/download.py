"""Resumable downloads of several files at once, with checksums and a progress bar."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import io
import json
import os
import queue
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlnb.data.datasets.archives import safe_path
from rlnb.data.datasets.urls import (
    DownloadError,
    FailedRequest,
    check_url,
    connection_failure,
    hub_endpoint,
    open_url,
    retry,
)

_BLOCK = 2**20
_NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


class RemoteFile(NamedTuple):
    """A file on a server, and where it belongs in the folder of a dataset.

    Args:
        url: its address, http or https.
        path: its path relative to the folder, with ``/`` between the parts.
        size: its number of bytes, if it is known beforehand.
        sha256: its checksum in hexadecimal digits, if it is known beforehand.

    Example:
        >>> RemoteFile("https://example.org/data/walker.hdf5", "walker.hdf5", size=1024).path
        'walker.hdf5'
    """

    url: str
    path: str
    size: int | None = None
    sha256: str | None = None


def download(
    files: Iterable[RemoteFile],
    folder: str | os.PathLike[str],
    *,
    parallel: int = 4,
    timeout: float = 20.0,
    progress: bool = True,
) -> list[Path]:
    """Download files into a folder, several at once.

    A file is written to ``name.part`` and renamed when it is complete and its size and checksum are right, so a file
    with its final name is whole. One that is there already, with the right size and checksum as far as they are known,
    is not requested again, so no network is needed. A partial file is continued where it ends, also in a later call,
    unless the server's file has changed in between. Broken connections, stalls and errors of the server are retried
    with growing pauses.

    Ctrl+C ends all transfers at once and leaves the partial files. Two processes must not download into the same folder
    at the same time.

    Args:
        files: the files. No path may leave the folder, or occur twice.
        folder: where to put them; created if it is missing.
        parallel: the number of files at a time.
        timeout: seconds without a byte after which a server counts as stalled.
        progress: whether to show a progress bar, or a line if ``tqdm`` is not installed, on standard error.

    Returns:
        The paths of the files, in the order of ``files``.

    Raises:
        DownloadError: If a file cannot be downloaded: no network, no such file, no access, a wrong size or checksum.
        OSError: If the disk is full, or the folder cannot be written.
        ValueError: If an address or a path is not allowed.

    Example:
        >>> import tempfile
        >>> download([], tempfile.gettempdir())
        []
    """
    files, folder = list(files), Path(folder).expanduser()
    if parallel < 1:
        raise ValueError(f"parallel is the number of files at a time and must be at least 1, got {parallel}.")
    stop = threading.Event()
    transfers = [_Transfer(file, safe_path(folder, file.path), timeout, stop) for file in files]
    names = Counter(name for each in transfers for name in (each.target, each.part, each.notes))
    for name, times in names.items():
        if times > 1:
            raise ValueError(f"The files of one download need different paths, got {name} {times} times.")
    folder.mkdir(parents=True, exist_ok=True)
    waiting, finished = queue.SimpleQueue[_Transfer](), queue.SimpleQueue[tuple[_Transfer, BaseException | None]]()
    for transfer in transfers:
        waiting.put(transfer)
    # Daemons: a thread that waits for a server cannot be interrupted, and must not keep Python from ending.
    workers = [
        threading.Thread(target=_work, args=(waiting, finished, stop), daemon=True)
        for _ in range(min(parallel, len(transfers)))
    ]
    try:
        for worker in workers:
            worker.start()
        _watch(transfers, finished, folder, progress)
    finally:
        stop.set()
        for worker in workers:
            if worker.is_alive():
                worker.join(timeout=0.2)
    return [transfer.target for transfer in transfers]


def _work(waiting: queue.SimpleQueue[_Transfer], finished: queue.SimpleQueue[Any], stop: threading.Event) -> None:
    """Transfer one file after another."""
    while not stop.is_set():
        try:
            transfer = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            transfer.run()
        except _Stopped:
            return
        except BaseException as error:
            finished.put((transfer, error))
            return
        finished.put((transfer, None))


def _watch(transfers: Sequence[_Transfer], finished: queue.SimpleQueue[Any], folder: Path, show_progress: bool) -> None:
    """Wait for all transfers, show their progress, and raise the first error."""
    left = len(transfers)
    error: BaseException | None = None
    with contextlib.closing(_Progress(transfers, folder, show_progress)) as progress:
        while left and error is None:
            # With a timeout, because on Windows Ctrl+C does not interrupt a wait without one.
            with contextlib.suppress(queue.Empty):
                transfer, error = finished.get(timeout=0.1)
                left -= 1
            progress.update()
    if isinstance(error, FailedRequest):
        url, target = transfer.file.url, transfer.target
        wrong = f"The file {target} is not the right one: its size or checksum differs. " if target.is_file() else ""
        login = ""
        if error.status in (401, 403) and url.startswith(f"{hub_endpoint()}/"):
            login = (
                "If the dataset is gated, accept its terms on its page and set the environment variable HF_TOKEN to a "
                f"token from {hub_endpoint()}/settings/tokens. "
            )
        raise DownloadError(
            f"{url} could not be downloaded: {error.reason}. {_kept(transfers)}{wrong}{login}"
            f"Fix: download {url} yourself and put it at {target}; it is taken from there.",
            url,
            error.status,
            error.code,
        )
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        missing = [each.total - each.received for each in transfers if not each.complete and each.total is not None]
        raise OSError(
            error.errno,
            f"The disk is full: {transfer.target} could not be written ({error.strerror}). {_kept(transfers)}"
            f"Fix: free at least {sum(missing):,} bytes on the disk of {folder} and call again.",
            os.fspath(transfer.target),
        ) from error
    if error is not None:
        raise error


def _kept(transfers: Sequence[_Transfer]) -> str:
    """What stays after an error."""
    complete = [transfer.file.path for transfer in transfers if transfer.complete]
    if len(transfers) == 1:
        return "What was received stays and is continued next time. " if transfers[0].part.is_file() else ""
    names = f" ({', '.join(complete[:3])}{', ...' if len(complete) > 3 else ''})" if complete else ""
    return (
        f"{len(complete)} of {len(transfers)} files are complete{names} and stay; the others are continued next time. "
    )


def open_stream(file: RemoteFile, *, timeout: float = 20.0) -> io.BufferedReader:
    """Open a remote file, to be read forward without being stored.

    A broken connection is made again where it ended, a bounded number of times.

    Args:
        file: the file. Its checksum is not compared.
        timeout: seconds without a byte after which the server counts as stalled.

    Raises:
        DownloadError: If the file cannot be downloaded; raised while it is read.

    Example:
        >>> with open_stream(RemoteFile("https://example.org/a.tar", "a.tar")) as file:  # doctest: +SKIP
        ...     file.read(262)
    """
    return io.BufferedReader(_Stream(file, timeout), _BLOCK)


class _Stream(io.RawIOBase):
    """A remote file that is read forward."""

    def __init__(self, file: RemoteFile, timeout: float) -> None:
        check_url(file.url)
        self.file, self.timeout = file, timeout
        self.name = file.url
        self.response: Any = None
        self.etag: str | None = None
        self.total = file.size
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = retry(lambda: self._read(len(buffer)))
        except FailedRequest as failure:
            raise DownloadError(
                f"{self.name} could not be read: {failure.reason}. It was read up to byte {self.position:,}. "
                "Fix: connect to the internet, and begin again.",
                self.name,
                failure.status,
                failure.code,
            ) from None
        buffer[: len(block)] = block
        self.position += len(block)
        return len(block)

    def _read(self, size: int) -> bytes:
        if self.response is None:
            self._connect()
        try:
            block: bytes = self.response.read1(size)
        except (OSError, http.client.HTTPException) as error:
            self._disconnect()
            raise connection_failure(error, connected=True) from None
        if not block and size and self.total is not None and self.position < self.total:
            self._disconnect()
            raise FailedRequest(f"the connection ended after {self.position} of {self.total} bytes", again=True)
        return block

    def _connect(self) -> None:
        headers = {"Range": f"bytes={self.position}-"} if self.position else {}
        response = open_url(self.file.url, headers, self.timeout)
        etag = response.headers.get("ETag")
        if self.position and (response.status != 206 or etag != self.etag):
            response.close()
            raise FailedRequest("the server cannot continue where it ended, or the file changed", again=False)
        if not self.position:
            self.etag, self.total = etag, response.length if self.total is None else self.total
        self.response = response

    def _disconnect(self) -> None:
        if self.response is not None:
            self.response.close()
            self.response = None

    def close(self) -> None:
        super().close()
        self._disconnect()


class _Stopped(Exception):
    """Ends the thread of a transfer when another one has failed, or at Ctrl+C."""


class _Transfer:
    """The download of one file: its partial file, what is known about the server's file, and how far it is."""

    def __init__(self, file: RemoteFile, target: Path, timeout: float, stop: threading.Event) -> None:
        check_url(file.url)
        self.file, self.target, self.timeout, self.stop = file, target, timeout, stop
        self.part = target.with_name(f"{target.name}.part")
        self.notes = target.with_name(f"{target.name}.part.json")  # which version of the server's file the part is of
        self.total = file.size
        self.received = 0  # bytes that are on disk
        self.asked = False  # whether it needed the network
        self.answered = False  # whether the server has sent something
        self.complete = False

    def run(self) -> None:
        """Download the file, unless it is there."""
        if not self._is_there():
            self.asked, self.total = True, self.file.size
            self.target.parent.mkdir(parents=True, exist_ok=True)
            retry(self._attempt, sleep=self.stop.wait, progress=lambda: self.received)
        self.complete = True

    def _is_there(self) -> bool:
        """Whether the file is there, with the right size and checksum as far as they are known."""
        if not self.target.is_file():
            return False
        self.received = self.target.stat().st_size
        self.total = self.received if self.file.size is None else self.file.size
        return self.received == self.total and self._has_right_checksum(self.target)

    def _has_right_checksum(self, path: Path) -> bool:
        if self.file.sha256 is None:
            return True
        digest = hashlib.sha256()
        with open(path, "rb") as content:
            while block := content.read(_BLOCK):
                self._check_stop()
                digest.update(block)
        return digest.hexdigest() == self.file.sha256.lower()

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise _Stopped

    def _attempt(self) -> None:
        """Receive the rest of the file, check it, and give it its name."""
        self._check_stop()
        known = self._read_notes()
        offset = self.received = self._resumable(known)
        if offset and offset == known.get("total"):
            self.total = offset
        else:
            self._receive(offset, known)
        if self.total is not None and self.received != self.total:
            raise FailedRequest(f"the connection ended after {self.received} of {self.total} bytes", again=True)
        if not self._has_right_checksum(self.part):
            self._forget()
            # Resumed at the wrong place, perhaps: worth a second attempt from the first byte.
            raise FailedRequest(f"its content does not have the checksum {self.file.sha256}", again=offset > 0)
        os.replace(self.part, self.target)
        self.notes.unlink(missing_ok=True)

    def _resumable(self, known: dict[str, Any]) -> int:
        """The number of bytes of the partial file that can be kept."""
        size = self.part.stat().st_size if self.part.is_file() else 0
        same = known.get("url") == self.file.url and (known.get("etag") or known.get("modified"))
        total = known.get("total")
        if total is not None and (size > total or self.file.size not in (None, total)):
            return 0
        return size if same or self.file.sha256 else 0

    def _receive(self, offset: int, known: dict[str, Any]) -> None:
        """Request the file from a byte on, and write what the server sends."""
        headers = {}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            # A weak ETag (W/) does not promise the same bytes and is not allowed here.
            strong = known["etag"] if not (known.get("etag") or "W/").startswith("W/") else known.get("modified")
            headers |= {"If-Range": strong} if strong else {}
        try:
            response = open_url(self.file.url, headers, self.timeout)
        except FailedRequest as failure:
            if failure.status == 416 and offset:  # the server's file ends before: it is another one
                self._forget()
                failure.again = True
            if failure.status is None and self.answered:  # the server was there a moment ago
                failure.again = True
            raise
        with response:
            offset = self._accept(response, offset, known)
            with open(self.part, "r+b" if offset else "wb") as part:
                part.seek(offset)
                part.truncate()
                self.received = offset
                self._copy(response, part)
                part.flush()
                os.fsync(part.fileno())

    def _accept(self, response: Any, offset: int, known: dict[str, Any]) -> int:
        """Check the head of a response, note the version of the file, and return where its content begins."""
        etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
        if response.status == 206:
            place = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
            total = int(place[2]) if place and place[2] != "*" else None
            now = {"etag": etag, "modified": modified, "total": total}
            changed = any(known.get(key) and now[key] and known[key] != now[key] for key in now)
            if not place or int(place[1]) != offset or changed:
                self._forget()
                raise FailedRequest("the file on the server changed while it was downloaded", again=True)
        elif response.status == 200:
            offset, total = 0, response.length
        else:
            raise FailedRequest(f"the server answers without the file (HTTP {response.status})", again=False)
        if self.file.size is not None and total is not None and total != self.file.size:
            raise FailedRequest(f"the server's file has {total} bytes instead of {self.file.size}", again=False)
        self.answered, self.total = True, total if self.file.size is None else self.file.size
        if offset == 0:
            self.part.write_bytes(b"")  # before the notes, which must not describe what is left of another version
        notes = {"url": self.file.url, "etag": etag, "modified": modified, "total": self.total}
        self.notes.write_text(json.dumps(notes), encoding="utf-8")
        return offset

    def _copy(self, response: Any, part: Any) -> None:
        """Write the body of a response to the partial file."""
        while True:
            try:
                block = response.read1(_BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise connection_failure(error, connected=True) from None
            self._check_stop()  # after the wait, so that nothing is written once the call is over
            if not block:
                return
            if self.total is not None and self.received + len(block) > self.total:
                self._forget()
                raise FailedRequest(f"the server sends more than {self.total} bytes", again=False)
            part.write(block)
            self.received += len(block)

    def _read_notes(self) -> dict[str, Any]:
        try:
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # it may have been cut off, too
            return {}
        return notes if isinstance(notes, dict) else {}

    def _forget(self) -> None:
        """Begin from the first byte next time."""
        self.part.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


class _Progress:
    """A progress bar over the bytes of all transfers, shown once one of them needs the network."""

    def __init__(self, transfers: Sequence[_Transfer], folder: Path, wanted: bool) -> None:
        self.transfers, self.folder, self.wanted = transfers, folder, wanted
        self.bar: Any = None
        self.shown = 0.0

    def update(self, last: bool = False) -> None:
        """Show the state of the transfers, ten times a second at the most."""
        if self.wanted and self.bar is None and any(transfer.asked for transfer in self.transfers):
            self._begin()
        if self.bar is not None and (last or time.monotonic() > self.shown + 0.1):
            self.shown = time.monotonic()
            totals = [transfer.total for transfer in self.transfers]
            self.bar.total = None if None in totals else sum(total or 0 for total in totals)
            self.bar.n = sum(transfer.received for transfer in self.transfers)
            complete = sum(transfer.complete for transfer in self.transfers)
            self.bar.set_postfix_str(f"{complete} of {len(self.transfers)} files")

    def _begin(self) -> None:
        files = "1 file" if len(self.transfers) == 1 else f"{len(self.transfers)} files"
        try:
            from tqdm.auto import tqdm
        except ImportError:
            print(f"Downloading {files} to {self.folder}", file=sys.stderr)
            self.wanted = False
        else:
            self.bar = tqdm(desc=f"Downloading to {self.folder}", unit="B", unit_scale=True, unit_divisor=1000)

    def close(self) -> None:
        """Show the last state and leave the bar."""
        self.update(last=True)
        if self.bar is not None:
            self.bar.close()
