"""list_files: listings of the hub, and errors that explain how to get access."""

from __future__ import annotations

import hashlib
import json

import pytest

from rlnb.data.datasets.download import RemoteFile, download
from rlnb.data.datasets.hub import list_files
from rlnb.data.datasets.urls import DownloadError

REPO = "owner/name"
FILES = {f"data/{name}/{k}.bin": bytes([k]) * (200 * k) for name in ("walk", "run fast") for k in range(5)}
FILES["README.md"] = b"# read me"
LISTING = f"api/datasets/{REPO}/tree/main"


@pytest.mark.parametrize("page", [1, 3, 1000])
def test_files_with_addresses_sizes_and_checksums(server, page):
    server.put_hub(REPO, FILES, page=page)
    files = list_files(REPO)
    assert [file.path for file in files] == sorted(FILES)
    assert [file.size for file in files] == [len(FILES[path]) for path in sorted(FILES)]
    for file in files:
        large = len(FILES[file.path]) > 100
        assert file.sha256 == (hashlib.sha256(FILES[file.path]).hexdigest() if large else None)
    root = f"{server.url}/datasets/{REPO}/resolve/main"
    assert files[1] == RemoteFile(f"{root}/data/run%20fast/0.bin", "data/run fast/0.bin", 0, None)
    assert len(server.requests) == -(-13 // page)


def test_what_is_listed_is_downloaded(server, tmp_path):
    server.put_hub(REPO, FILES)
    paths = download(list_files(REPO, "data/run*"), tmp_path, progress=False)
    assert {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in paths} == {
        path: content for path, content in FILES.items() if "run" in path
    }


def test_patterns(server):
    server.put_hub(REPO, FILES)
    assert [file.path for file in list_files(REPO, "*/walk/[12].bin")] == ["data/walk/1.bin", "data/walk/2.bin"]
    assert [file.path for file in list_files(REPO, ["*.md", "*/walk/3.bin"])] == ["README.md", "data/walk/3.bin"]
    with pytest.raises(ValueError) as caught:
        list_files(REPO, "*.h5")
    assert str(caught.value) == (
        "No file of owner/name on the hub matches '*.h5'. Its files are: 'data/walk/0.bin', 'data/walk/1.bin', "
        "'data/walk/2.bin', 'data/walk/3.bin', 'data/walk/4.bin', 'data/run fast/0.bin', 'data/run fast/1.bin', "
        "'data/run fast/2.bin', ...."
    )
    server.put_hub(REPO, {})
    with pytest.raises(ValueError, match="Its files are: none at all"):
        list_files(REPO)


def test_another_revision(server):
    server.put_hub(REPO, FILES, revision="refs/convert/parquet")
    with pytest.raises(DownloadError):
        list_files(REPO)
    server.requests.clear()
    server.put(f"api/datasets/{REPO}/tree/refs/convert/parquet", json.dumps([{"type": "file", "path": "a"}]).encode())
    (file,) = list_files(REPO, revision="refs/convert/parquet")
    assert file == RemoteFile(f"{server.url}/datasets/{REPO}/resolve/refs%2Fconvert%2Fparquet/a", "a", None, None)


def test_the_token_is_sent(server, monkeypatch):
    server.put_hub(REPO, FILES)
    list_files(REPO)
    monkeypatch.setenv("HF_TOKEN", " hf_secret\n")
    list_files(REPO)
    assert [request.headers.get("Authorization") for request in server.requests] == [None, "Bearer hf_secret"]


def test_a_hostile_listing_writes_nothing_outside(server, tmp_path):
    entries = [{"type": "file", "path": "../../a.bin", "size": 1}]
    server.put(LISTING, json.dumps(entries).encode())
    with pytest.raises(ValueError, match="A file must be inside of its folder"):
        download(list_files(REPO), tmp_path / "in", progress=False)


def test_pages_that_go_round(server):
    url = f"{server.url}/{LISTING}?recursive=true"
    server.put(LISTING, b'[{"type": "file", "path": "a"}]', headers={"Link": f'<{url}>; rel="next"'})
    assert [file.path for file in list_files(REPO)] == ["a"]


def test_errors_that_pass(server):
    server.put_hub(REPO, FILES)
    server.fail(LISTING, 503, times=2)
    server.cut(LISTING, 100)
    assert len(list_files(REPO)) == len(FILES)
    assert len(server.requests) == 4


def message(**kwargs):
    with pytest.raises(DownloadError) as caught:
        list_files(REPO, **kwargs)
    return str(caught.value)


def test_no_such_dataset(server):
    assert message() == (
        "The files of owner/name could not be listed: the server has no such file (HTTP 404). There is no such "
        f"dataset. Fix: check the name at {server.url}/datasets/owner/name."
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_dataset_that_needs_a_token(server, status):
    server.fail(LISTING, status, headers={"X-Error-Code": "GatedRepo"})
    assert message() == (
        f"The files of owner/name could not be listed: the server denies access (HTTP {status}). There is no such "
        "dataset, or it is private or gated. Fix: check the name, accept the terms at "
        f"{server.url}/datasets/owner/name, and set the environment variable HF_TOKEN to a token from "
        f"{server.url}/settings/tokens."
    )


def test_no_such_revision(server):
    server.fail(LISTING.replace("main", "v9"), 404, headers={"X-Error-Code": "RevisionNotFound"})
    assert "There is no revision 'v9'. Fix: pass one that is listed at" in message(revision="v9")


def test_no_network(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    text = message()
    assert text.startswith("The files of owner/name could not be listed: there is no connection to the server (")
    assert text.endswith(
        "Fix: connect to the internet, or set the environment variable HF_ENDPOINT to a mirror of the hub."
    )


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[1]", b'[{"type": "file"'])
def test_other_pages_are_not_listings(server, content):
    server.put(LISTING, content)
    assert "the server sends something else than a list of files, or half of one" in message()
