"""Files of datasets on the Hugging Face hub, listed through its HTTP interface."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, urljoin

from rlnb.data.datasets.download import RemoteFile
from rlnb.data.datasets.urls import DownloadError, FailedRequest, connection_failure, hub_endpoint, open_url, retry

_LONGEST_PAGE = 2**26  # bytes


def list_files(
    repo: str, pattern: str | Sequence[str] = "*", *, revision: str = "main", timeout: float = 20.0
) -> list[RemoteFile]:
    """List the files of a dataset on the Hugging Face hub.

    The environment variable ``HF_ENDPOINT`` names another server with the same interface (default:
    https://huggingface.co), and ``HF_TOKEN`` a token for datasets that ask for one.

    Args:
        repo: the name of the dataset, such as ``"jxu124/OpenX-Embodiment"``.
        pattern: which files, as a pattern or several in the way of the shell. ``*`` matches ``/``, too.
        revision: a branch, a tag or a commit.
        timeout: seconds without a byte after which the server counts as stalled.

    Returns:
        The files in the order of their paths, with sizes, and checksums where the hub has them (large files).

    Raises:
        DownloadError: If there is no such dataset or revision, no access or no network.
        ValueError: If no file matches the pattern.

    Example:
        >>> list_files("jxu124/OpenX-Embodiment", "bridge/*.tar")  # doctest: +SKIP
        [RemoteFile(url='https://huggingface.co/datasets/jxu124/OpenX-Embodiment/resolve/main/bridge/...', ...), ...]
    """
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    root = f"{hub_endpoint()}/datasets/{quote(repo)}/resolve/{quote(revision, safe='')}"
    files = []
    names = []
    listing = f"{hub_endpoint()}/api/datasets/{quote(repo)}/tree/{quote(revision, safe='')}?recursive=true"
    for entry in _entries(listing, repo, revision, timeout):
        if entry.get("type") != "file":
            continue
        path = str(entry["path"])
        names.append(path)
        if any(fnmatchcase(path, each) for each in patterns):
            large = entry.get("lfs") or {}
            size = large.get("size", entry.get("size"))
            files.append(RemoteFile(f"{root}/{quote(path)}", path, size, large.get("oid")))
    if not files:
        shown = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
        raise ValueError(f"No file of {repo} on the hub matches {pattern!r}. Its files are: {shown or 'none at all'}.")
    return sorted(files, key=lambda file: file.path)


def list_repos(owner: str, *, timeout: float = 20.0) -> list[str]:
    """List the datasets of an owner on the Hugging Face hub, such as ``"farama-minari/D4RL"``.

    Args:
        owner: a user or an organization.
        timeout: seconds without a byte after which the server counts as stalled.

    Raises:
        DownloadError: If there is no access or no network.

    Example:
        >>> list_repos("farama-minari")  # doctest: +SKIP
        ['farama-minari/D4RL', 'farama-minari/atari', ...]
    """
    url = f"{hub_endpoint()}/api/datasets?author={quote(owner, safe='')}"
    return sorted(str(entry["id"]) for entry in _entries(url, owner, "main", timeout))


def _entries(first: str, repo: str, revision: str, timeout: float) -> Iterator[dict[str, Any]]:
    """The entries of all pages of a listing."""
    url: str | None = first
    seen = set[str]()
    while url is not None and url not in seen:
        page = url
        seen.add(page)
        try:
            entries, link = retry(functools.partial(_page, page, timeout))
        except FailedRequest as failure:
            hub = hub_endpoint()
            if failure.code == "RevisionNotFound":
                fix = f"There is no revision {revision!r}. Fix: pass one that is listed at {hub}/datasets/{repo}."
            elif failure.code == "GatedRepo" or failure.status in (401, 403):
                # Without a login, the hub also answers 401 for a dataset that does not exist.
                fix = (
                    "There is no such dataset, or it is private or gated. Fix: check the name, accept the terms at "
                    f"{hub}/datasets/{repo}, and set the environment variable HF_TOKEN to a token from "
                    f"{hub}/settings/tokens."
                )
            elif failure.status == 404:
                fix = f"There is no such dataset. Fix: check the name at {hub}/datasets/{repo}."
            else:
                fix = (
                    "Fix: connect to the internet, or set the environment variable HF_ENDPOINT to a mirror of the hub."
                )
            raise DownloadError(
                f"The files of {repo} could not be listed: {failure.reason}. {fix}", page, failure.status, failure.code
            ) from None
        yield from entries
        following = re.search(r'<([^>]*)>\s*;\s*rel="?next"?', link or "")
        url = urljoin(page, following[1]) if following else None


def _page(url: str, timeout: float) -> tuple[list[dict[str, Any]], str | None]:
    """One page of the listing, and its ``Link`` header, which has the address of the next one."""
    with open_url(url, {"Accept": "application/json"}, timeout) as response:
        try:
            content = response.read(_LONGEST_PAGE)
        except OSError as error:
            raise connection_failure(error, connected=True) from None
        link = response.headers.get("Link")
    try:
        entries = json.loads(content)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError
    except ValueError:
        raise FailedRequest(
            "the server sends something else than a list of files, or half of one", again=True
        ) from None
    return entries, link


class Folders:
    """The folders of a repository on the hub that hold files of a kind, as an attribute of a class.

    The hub is asked when the attribute is read for the first time.

    Args:
        repo: the name of the dataset.
        patterns: of the files.

    Example:
        >>> class Experience:
        ...     available_datasets = Folders("conglu/vd4rl", ("*.npz", "*.hdf5"))
        >>> Experience.available_datasets  # doctest: +SKIP
        ['distracting/...', ..., 'main/walker_walk/random/64px', 'main/walker_walk/random/84px']
    """

    def __init__(self, repo: str, patterns: Sequence[str]) -> None:
        self.repo, self.patterns = repo, patterns
        self._files: list[RemoteFile] | None = None

    def __get__(self, instance: Any, owner: type) -> list[str]:
        return sorted({file.path.rpartition("/")[0] for file in self.files()})

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """List the files of all folders, or of one.

        Raises:
            ValueError: If there is no such folder; near ones are proposed.
        """
        files = self._files = self._files or list_files(self.repo, self.patterns)
        if folder is None:
            return files
        found = [file for file in files if file.path.rpartition("/")[0] == folder]
        if not found:
            names = sorted({file.path.rpartition("/")[0] for file in files})
            near = difflib.get_close_matches(folder, names, n=4, cutoff=0.5) or names[:8]
            raise ValueError(
                f"{self.repo} on the hub has no dataset {folder!r}. Did you mean {', '.join(map(repr, near))}?"
            )
        return found
