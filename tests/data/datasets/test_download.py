"""download: whole files or none, resumed transfers, and errors that suggest a fix."""

from __future__ import annotations

import _thread
import errno
import hashlib
import io
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest

from rlnb.data.datasets import download as module
from rlnb.data.datasets import urls
from rlnb.data.datasets.download import RemoteFile, download
from rlnb.data.datasets.urls import DownloadError, retry

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


def fetch(server, folder, *, size=None, sha256=None, **kwargs):
    """Download a.bin and return its content."""
    file = RemoteFile(f"{server.url}/a.bin", "a.bin", size, sha256)
    (path,) = download([file], folder, progress=False, **kwargs)
    assert path == folder / "a.bin"
    assert not list(folder.glob("*.part*"))
    return path.read_bytes()


def ranges(server, path="a.bin"):
    return [request.headers.get("Range") for request in server.asked(path)]


def leave_part(server, folder, after=100_000):
    """A partial file, as an interrupted call leaves it."""
    server.put("a.bin", CONTENT)
    server.cut("a.bin", after, times=len(urls.PAUSES) + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(urls, "PAUSES", ())
        with pytest.raises(DownloadError, match=f"ended after {after} of 300000 bytes"):
            fetch(server, folder)
    server.resources["a.bin"].cuts.clear()
    server.requests.clear()
    assert (folder / "a.bin.part").stat().st_size == after


# Whole files --------------------------------------------------------------------------------------------------------


def test_several_files_at_once_in_folders_in_their_order(server, tmp_path):
    contents = {f"part {k}/$x$_{k}.bin": bytes([k]) * (1000 * k) for k in range(9)}
    files = [RemoteFile(server.put(path, content), path, len(content)) for path, content in contents.items()]
    server.slow("part 8/$x$_8.bin", 100_000)
    paths = download(files, tmp_path / "new" / "folder", parallel=3, progress=False)
    assert paths == [tmp_path / "new" / "folder" / path for path in contents]
    assert [path.read_bytes() for path in paths] == list(contents.values())
    assert len(server.requests) == 9


def test_as_many_at_once_as_asked_for(server, tmp_path):
    files = [RemoteFile(server.put(f"{k}", b"x" * 1000), f"{k}") for k in range(4)]
    for k in range(4):
        server.slow(f"{k}", 10_000)  # a tenth of a second each
    times = []
    for parallel in (1, 4):
        start = time.monotonic()
        download(files, tmp_path / str(parallel), parallel=parallel, progress=False)
        times.append(time.monotonic() - start)
    assert times[0] > 0.3 > times[1]


def test_what_is_there_is_not_requested_again(server, tmp_path):
    server.put("a.bin", CONTENT)
    for known in ({}, {"size": 300_000}, {"sha256": SHA}, {"size": 300_000, "sha256": SHA.upper()}):
        assert fetch(server, tmp_path, **known) == CONTENT
    assert len(server.requests) == 1


def test_what_was_put_there_by_hand_is_taken_without_a_network(tmp_path):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    file = RemoteFile("http://127.0.0.1:9/a.bin", "a.bin", len(CONTENT), SHA)
    assert download([file], tmp_path) == [tmp_path / "a.bin"]


@pytest.mark.parametrize("known", [{"size": 300_000}, {"sha256": SHA}])
def test_a_wrong_file_in_its_place_is_replaced(server, tmp_path, known):
    server.put("a.bin", CONTENT)
    (tmp_path / "a.bin").write_bytes(b"an error page")
    assert fetch(server, tmp_path, **known) == CONTENT


def test_an_empty_file(server, tmp_path):
    server.put("a.bin", b"")
    assert fetch(server, tmp_path) == b""
    assert fetch(server, tmp_path, size=0, sha256=hashlib.sha256(b"").hexdigest()) == b""


def test_no_files_need_no_thread(tmp_path):
    assert download([], tmp_path) == []


# Interruptions ------------------------------------------------------------------------------------------------------


def test_a_cut_connection_is_continued(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.cut("a.bin", 100_000)
    server.cut("a.bin", 50_000)
    assert fetch(server, tmp_path) == CONTENT
    assert ranges(server) == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_continues(server, tmp_path):
    leave_part(server, tmp_path)
    assert fetch(server, tmp_path) == CONTENT
    assert ranges(server) == ["bytes=100000-"]
    assert server.requests[0].headers["If-Range"] == server.resources["a.bin"].etag


def test_a_server_that_stalls_is_asked_again(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.stall("a.bin", 100_000)
    server.stall("a.bin", 0)
    assert fetch(server, tmp_path, timeout=0.1) == CONTENT
    assert ranges(server) == [None, "bytes=100000-", "bytes=100000-"]


def test_a_slow_server_is_not_a_stalled_one(server, tmp_path):
    server.put("a.bin", CONTENT[:3000])
    server.slow("a.bin", 10_000)
    assert fetch(server, tmp_path, timeout=0.2) == CONTENT[:3000]
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_errors_that_pass(server, tmp_path, status):
    server.put("a.bin", CONTENT)
    server.fail("a.bin", status, times=4)
    assert fetch(server, tmp_path) == CONTENT
    assert len(server.requests) == 5


def test_a_server_that_hangs_up(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.hang_up("a.bin", times=3)
    assert fetch(server, tmp_path) == CONTENT
    server.hang_up("b.bin", times=9)
    with pytest.raises(DownloadError, match=r"the connection broke \(Remote end closed connection without response\)"):
        download([RemoteFile(f"{server.url}/b.bin", "b.bin")], tmp_path, progress=False)


def test_an_invalid_certificate_is_not_retried():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "certificate has expired"
    failure = urls.connection_failure(error, connected=False)
    assert failure.reason == "the server's certificate is not valid (certificate has expired)" and not failure.again


def test_attempts_are_bounded_and_their_pauses_grow(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.fail("a.bin", 503, times=9)
    with pytest.raises(DownloadError, match=r"the server reports an error of its own \(HTTP 503\)") as caught:
        fetch(server, tmp_path)
    assert caught.value.status == 503 and caught.value.url == f"{server.url}/a.bin"
    times = [request.time for request in server.requests]
    assert len(times) == 5
    pauses = [after - before for before, after in pairwise(times)]
    assert all(pause >= wanted for pause, wanted in zip(pauses, urls.PAUSES, strict=True))


def test_a_file_that_ends_early_each_time_is_given_up(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.cut("a.bin", 100, times=99)
    with pytest.raises(DownloadError, match="the connection ended after 500 of 300000 bytes"):
        fetch(server, tmp_path)
    assert len(server.requests) == 5


def test_who_gets_on_gets_all_attempts_again(server, tmp_path, monkeypatch):
    monkeypatch.setattr(urls, "PROGRESS", 20_000)
    server.put("a.bin", CONTENT)
    server.cut("a.bin", 25_000, times=99)
    assert fetch(server, tmp_path) == CONTENT
    assert len(server.requests) == 12


def test_retry_after_in_seconds_and_as_a_date(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.fail("a.bin", 429, headers={"Retry-After": "1"})
    server.fail("a.bin", 503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})
    server.fail("a.bin", 503, headers={"Retry-After": "soon"})
    start = time.monotonic()
    fetch(server, tmp_path)
    assert 1 <= time.monotonic() - start < 2.5  # a busy machine adds to it


def test_a_server_that_wants_to_be_left_alone(server, tmp_path):
    server.fail("a.bin", 429, headers={"Retry-After": "3600"})
    with pytest.raises(DownloadError, match=r"too many requests \(HTTP 429\) and wants no further request for 3600 s"):
        fetch(server, tmp_path)
    assert len(server.requests) == 1


def test_a_server_that_goes_away_in_the_middle_may_come_back(server, tmp_path, monkeypatch):
    server.put("a.bin", CONTENT)
    server.cut("a.bin", 100_000)
    calls = []

    def open_url(*args):
        calls.append(args)
        if len(calls) > 1:
            raise urls.connection_failure(ConnectionRefusedError(111, "Connection refused"), connected=False)
        return urls.open_url(*args)

    monkeypatch.setattr(module, "open_url", open_url)
    with pytest.raises(DownloadError, match=r"there is no connection to the server .*What was received stays"):
        fetch(server, tmp_path)
    assert len(calls) == 5


# Versions of the server's file ----------------------------------------------------------------------------------------


def test_a_server_without_ranges_sends_all_again(server, tmp_path):
    leave_part(server, tmp_path)
    server.without_range("a.bin")
    assert fetch(server, tmp_path) == CONTENT


@pytest.mark.parametrize("careless", [False, True])
def test_a_file_that_changed_is_not_mixed_with_the_old_one(server, tmp_path, careless):
    leave_part(server, tmp_path)
    server.put("a.bin", OTHER)
    if careless:
        server.without_if_range("a.bin")
    assert fetch(server, tmp_path) == OTHER


def test_a_shorter_file_than_the_part(server, tmp_path):
    leave_part(server, tmp_path)
    server.put("a.bin", OTHER[:50_000])
    server.without_if_range("a.bin")  # so it answers 416
    assert fetch(server, tmp_path) == OTHER[:50_000]
    assert ranges(server) == ["bytes=100000-", None]


def test_without_validators_only_a_checksum_allows_to_continue(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.without_validators("a.bin")
    server.cut("a.bin", 100_000)
    assert fetch(server, tmp_path / "1") == CONTENT
    assert ranges(server) == [None, None]
    server.requests.clear()
    server.cut("a.bin", 100_000)
    assert fetch(server, tmp_path / "2", sha256=SHA) == CONTENT
    assert ranges(server) == [None, "bytes=100000-"]


def test_a_part_of_another_file_is_found_by_the_checksum(server, tmp_path):
    server.put("a.bin", CONTENT)
    (tmp_path / "a.bin.part").write_bytes(OTHER[:1000])
    assert fetch(server, tmp_path, sha256=SHA) == CONTENT
    assert ranges(server) == ["bytes=1000-", None]


def test_a_part_without_notes_is_not_trusted(server, tmp_path):
    server.put("a.bin", CONTENT)
    (tmp_path / "a.bin.part").write_bytes(OTHER[:1000])
    for notes in (None, "", "[1]", '{"etag": '):
        if notes is not None:
            (tmp_path / "a.bin.part.json").write_text(notes)
        assert fetch(server, tmp_path) == CONTENT
        (tmp_path / "a.bin").unlink()
        (tmp_path / "a.bin.part").write_bytes(OTHER[:1000])


def test_a_part_that_was_complete_needs_no_network(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    assert fetch(server, tmp_path) == CONTENT
    assert server.requests == []


def test_a_complete_part_beside_a_wrong_file(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    (tmp_path / "a.bin").write_bytes(b"wrong")
    assert fetch(server, tmp_path, sha256=SHA) == CONTENT
    assert server.requests == []


def test_a_complete_part_of_another_size_than_is_wanted_now(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    server.put("a.bin", CONTENT + OTHER)
    assert fetch(server, tmp_path, size=600_000) == CONTENT + OTHER
    assert ranges(server) == [None]


def test_a_download_is_resumed_by_date_if_its_etag_is_weak(server, tmp_path):
    leave_part(server, tmp_path)
    notes = tmp_path / "a.bin.part.json"
    notes.write_text(notes.read_text().replace('"etag": "', '"etag": "W/'))
    assert fetch(server, tmp_path) == CONTENT
    assert server.requests[0].headers["If-Range"].endswith("GMT")


# Errors ---------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_gone(server, tmp_path):
    url = f"{server.url}/a.bin"
    with pytest.raises(DownloadError) as caught:
        fetch(server, tmp_path)
    assert str(caught.value) == (
        f"{url} could not be downloaded: the server has no such file (HTTP 404). Fix: download {url} yourself and put "
        f"it at {tmp_path / 'a.bin'}; it is taken from there."
    )
    assert len(server.requests) == 1


def test_of_several_files_it_says_which_are_complete(server, tmp_path):
    files = [RemoteFile(server.put(f"{k}.bin", CONTENT), f"{k}.bin") for k in range(5)]
    server.fail("4.bin", 404)
    with pytest.raises(DownloadError) as caught:
        download(files, tmp_path, parallel=1, progress=False)
    assert "4 of 5 files are complete (0.bin, 1.bin, 2.bin, ...) and stay; the others are continued" in str(
        caught.value
    )
    server.requests.clear()
    download(files, tmp_path, progress=False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_file_of_the_hub_that_needs_a_token(server, tmp_path, status, monkeypatch):
    server.fail("a.bin", status, times=9)
    hint = (
        f"the server denies access (HTTP {status}). If the dataset is gated, accept its terms on its page and set the "
        f"environment variable HF_TOKEN to a token from {server.url}/settings/tokens. Fix: download"
    )
    with pytest.raises(DownloadError) as caught:
        fetch(server, tmp_path)
    assert hint in str(caught.value)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    with pytest.raises(DownloadError) as caught:
        fetch(server, tmp_path)
    assert "HF_TOKEN" not in str(caught.value)


def test_no_network(tmp_path, server):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a.bin"
    start = time.monotonic()
    with pytest.raises(DownloadError, match=f"{url} could not be downloaded: there is no connection to the server"):
        download([RemoteFile(url, "a.bin")], tmp_path, progress=False)
    assert time.monotonic() - start < 1  # nobody there: no use in asking again


def test_an_unknown_host(tmp_path, server, monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DownloadError, match=r"the server's address was not found \(Name or service not known\)"):
        download([RemoteFile("http://nowhere.invalid/a", "a")], tmp_path, progress=False)


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    server.put("a.bin", OTHER)
    with pytest.raises(DownloadError, match=f"its content does not have the checksum {SHA}"):
        fetch(server, tmp_path, sha256=SHA)
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) == 1


def test_a_wrong_size_is_noticed_before_it_is_received(server, tmp_path):
    server.put("a.bin", CONTENT)
    with pytest.raises(DownloadError, match="the server's file has 300000 bytes instead of 299999"):
        fetch(server, tmp_path, size=299_999)
    assert not (tmp_path / "a.bin").exists()


def test_a_wrong_file_in_its_place_is_mentioned(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"half of i")
    with pytest.raises(DownloadError, match="is not the right one: its size or checksum differs"):
        fetch(server, tmp_path, size=10)
    assert (tmp_path / "a.bin").read_bytes() == b"half of i"


def test_a_server_that_states_a_wrong_length(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.with_length("a.bin", 400_000)
    server.without_range("a.bin")
    with pytest.raises(DownloadError, match="the connection ended after 300000 of 400000 bytes"):
        fetch(server, tmp_path)
    server.with_length("a.bin", 1000)
    with pytest.raises(DownloadError, match="does not have the checksum"):
        fetch(server, tmp_path, sha256=SHA)


@pytest.mark.parametrize(
    "path", ["../a", "/a", "a/../../b", "..", "", ".", "C:/a", "C:a", "\\a", "..\\a", "a/..\\..\\b", "//host/a", "a\0b"]
)
def test_no_file_leaves_its_folder(tmp_path, path):
    with pytest.raises(ValueError) as caught:
        download([RemoteFile("http://127.0.0.1:9/a", path)], tmp_path / "in")
    assert str(caught.value) == f"A file must be inside of its folder, got the path {path!r}."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["file:/etc/passwd", "ftp://host/a", "data:,a", "a.bin", "http:///a", ""])
def test_only_http(tmp_path, url):
    with pytest.raises(ValueError) as caught:
        download([RemoteFile(url, "a")], tmp_path)
    assert str(caught.value) == f"The address of a file must start with https:// or http://, got {url!r}."


def test_two_files_of_one_name(tmp_path):
    files = [RemoteFile("http://127.0.0.1:9/a", "x/a"), RemoteFile("http://127.0.0.1:9/b", "x//a")]
    with pytest.raises(ValueError) as caught:
        download(files, tmp_path)
    assert str(caught.value) == f"The files of one download need different paths, got {tmp_path / 'x' / 'a'} 2 times."


def test_a_file_that_has_the_name_of_a_partial_one(tmp_path):
    files = [RemoteFile("http://127.0.0.1:9/a", "a"), RemoteFile("http://127.0.0.1:9/b", "a.part")]
    with pytest.raises(ValueError, match=r"need different paths, got .*a\.part 2 times"):
        download(files, tmp_path)


def test_at_least_one_at_a_time(tmp_path):
    with pytest.raises(ValueError, match="parallel is the number of files at a time and must be at least 1, got 0"):
        download([], tmp_path, parallel=0)


# Redirects and tokens -------------------------------------------------------------------------------------------------


def test_redirects_are_followed_and_resumed(server, tmp_path):
    server.put("new/a.bin", CONTENT)
    server.cut("new/a.bin", 1000)
    server.redirect("a.bin", "/new/a.bin")
    assert fetch(server, tmp_path) == CONTENT
    assert ranges(server, "new/a.bin") == [None, "bytes=1000-"]


@pytest.mark.parametrize("to", ["file:/etc/passwd", "ftp://127.0.0.1/a", "data:,a", "/a.bin"])
def test_redirects_to_elsewhere_are_refused(server, tmp_path, to):
    server.redirect("a.bin", to)
    with pytest.raises(DownloadError, match="redirects in circles, or to an address that is not one of http or https"):
        fetch(server, tmp_path)


def test_only_the_hub_gets_the_token(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    server.put("b.bin", CONTENT)
    server.redirect("near.bin", "/b.bin")
    server.redirect("far.bin", f"{elsewhere}/b.bin")
    for path in ("near.bin", "far.bin"):
        download([RemoteFile(f"{server.url}/{path}", path)], tmp_path, progress=False)
    download([RemoteFile(f"{elsewhere}/b.bin", "b")], tmp_path, progress=False)
    got = [(request.path, request.headers.get("Authorization")) for request in server.requests]
    token = "Bearer hf_secret"
    assert got == [("near.bin", token), ("b.bin", token), ("far.bin", token), ("b.bin", None), ("b.bin", None)]


# Ctrl+C, a full disk --------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_all_at_once_and_leaves_parts(server, tmp_path):
    files = [RemoteFile(server.put(f"{k}.bin", CONTENT), f"{k}.bin") for k in range(3)]
    server.stall("0.bin", 100_000)
    server.stall("1.bin", 100_000)
    server.slow("2.bin", 100_000)
    parts = [tmp_path / f"{k}.bin.part" for k in range(2)]

    def interrupt():
        while not all(part.exists() and part.stat().st_size == 100_000 for part in parts):
            time.sleep(0.01)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    start = time.monotonic()
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            download(files, tmp_path, progress=False)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert time.monotonic() - start < 2
    sizes = {part: part.stat().st_size for part in tmp_path.glob("*.part")}
    time.sleep(0.1)
    assert sizes == {part: part.stat().st_size for part in tmp_path.glob("*.part")}  # no thread goes on
    server.slow("2.bin", 10**9)
    server.requests.clear()
    assert [path.read_bytes() for path in download(files, tmp_path, progress=False)] == [CONTENT] * 3
    assert ranges(server, "0.bin") == ranges(server, "1.bin") == ["bytes=100000-"]


class FullDisk(io.FileIO):
    """A file on a disk that has room for 100,000 bytes more."""

    def write(self, block):
        if self.tell() + len(block) > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(block)


def test_a_full_disk(server, tmp_path, monkeypatch):
    files = [RemoteFile(server.put(f"{k}", CONTENT[: 90_000 * (k + 1)]), f"{k}") for k in range(2)]
    monkeypatch.setattr(module, "open", lambda path, mode: FullDisk(path, mode), raising=False)
    with pytest.raises(OSError) as caught:
        download(files, tmp_path, parallel=1, progress=False)
    needed = 180_000 - (tmp_path / "1.part").stat().st_size
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.strerror == (
        f"The disk is full: {tmp_path / '1'} could not be written (No space left on device). 1 of 2 files are complete "
        f"(0) and stay; the others are continued next time. Fix: free at least {needed:,} bytes on the disk of "
        f"{tmp_path} and call again."
    )
    monkeypatch.undo()
    assert [path.stat().st_size for path in download(files, tmp_path, progress=False)] == [90_000, 180_000]


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        download([RemoteFile(server.put("a", b"a"), "a")], tmp_path / "file", progress=False)


def start(code, *arguments):
    """A process of its own that downloads."""
    imports = "import sys; from rlnb.data.datasets.download import RemoteFile, download\n"
    command = [sys.executable, "-c", imports + code, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_PROXY": "*"})


@pytest.mark.deep
def test_a_process_ends_at_ctrl_c_while_it_waits_for_a_server(server, tmp_path):
    server.put("a.bin", CONTENT)
    server.stall("a.bin", 100_000)
    part = tmp_path / "a.bin.part"
    code = (  # a job in the background ignores Ctrl+C
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "download([RemoteFile(sys.argv[1], 'a.bin')], sys.argv[2])"
    )
    process = start(code, f"{server.url}/a.bin", tmp_path)
    while not part.exists() or part.stat().st_size < 100_000:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    start_of_end = time.monotonic()
    assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
    assert time.monotonic() - start_of_end < 15  # not the 20 seconds of the timeout, on a busy machine either
    assert fetch(server, tmp_path) == CONTENT
    assert ranges(server) == [None, "bytes=100000-"]


@pytest.mark.deep
def test_a_file_that_the_system_does_not_let_grow(server, tmp_path):
    server.put("a.bin", CONTENT)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))\n"
        "download([RemoteFile(sys.argv[1], 'a.bin')], sys.argv[2], progress=False)"
    )
    process = start(code, f"{server.url}/a.bin", tmp_path)
    text = process.communicate(timeout=60)[1]
    assert "The disk is full: " in text and "(File too large). What was received stays" in text
    assert fetch(server, tmp_path) == CONTENT
    assert len(ranges(server)) == 2 and ranges(server)[1].startswith("bytes=")


# Progress -------------------------------------------------------------------------------------------------------------


def test_the_bar_counts_bytes_and_files(server, tmp_path, capsys):
    files = [RemoteFile(server.put(f"{k}", CONTENT), f"{k}") for k in range(2)]
    download(files, tmp_path)
    shown = capsys.readouterr().err
    assert f"Downloading to {tmp_path}: 100%" in shown
    assert "600k/600k" in shown and "2 of 2 files" in shown
    download(files, tmp_path)
    assert capsys.readouterr().err == ""  # all are there


def test_without_tqdm_there_is_one_line(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    server.slow("0", 10_000)
    files = [RemoteFile(server.put(f"{k}", b"x" * 3000), f"{k}") for k in range(2)]
    download(files, tmp_path)
    assert capsys.readouterr().err == f"Downloading 2 files to {tmp_path}\n"
    server.put("a.bin", b"a")
    fetch(server, tmp_path)
    assert capsys.readouterr().err == ""


def test_retry_returns_and_raises_what_the_action_does():
    assert retry(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        retry(lambda: 1 // 0)


# Many faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_faults_gives_the_file_or_an_error(server, tmp_path, seed):
    draw = random.Random(seed)
    versions = [draw.randbytes(draw.randrange(1, 200_000)) for _ in range(2)]
    server.put("a.bin", versions[0])
    for _ in range(30):
        fault = draw.choice([server.cut, server.stall, server.fail, server.put, server.without_if_range])
        if fault in (server.cut, server.stall):
            fault("a.bin", draw.randrange(100_000))
        elif fault == server.fail:
            fault("a.bin", draw.choice([404, 416, 429, 500, 503]))
        elif fault == server.put:
            fault("a.bin", draw.choice(versions))
        else:
            fault("a.bin")
        try:
            content = fetch(server, tmp_path, timeout=0.2)
        except DownloadError:
            continue
        assert content in versions
        (tmp_path / "a.bin").unlink()
