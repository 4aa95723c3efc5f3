"""Archives and arrays from untrusted sources: valid ones are read, malicious and damaged ones are rejected."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import stat
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from rlnb.data.datasets import archives
from rlnb.data.datasets.archives import (
    ArchiveError,
    default_limit,
    extract,
    iterate,
    iterate_npy,
    load_npy,
    load_npz,
    load_pickle,
    open_gzip,
    read_npy_header,
)

FILES = {"a.txt": b"hello", "folder/b.bin": bytes(range(256)) * 5000, "folder/empty": b""}
SUFFIXES = ["tar", "tar.gz", "tar.xz", "tar.bz2", "zip"]


def member(name, content=b"", type=tarfile.REGTYPE, **fields):
    info = tarfile.TarInfo(name)
    info.type, info.size = type, len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(content)


def make(path, files, folders=()):
    """An archive of the kind that its name says."""
    if path.name.endswith("zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in folders:
                archive.writestr(f"{name}/", b"")
            for name, content in files:
                archive.writestr(name, content)
        return path
    with tarfile.open(path, f"w:{path.name.partition('.tar')[2].lstrip('.')}") as archive:
        for name in folders:
            archive.addfile(*member(name, type=tarfile.DIRTYPE, mode=0o755))
        for name, content in files:
            archive.addfile(*member(name, content))
    return path


def tar_of(path, *members):
    with tarfile.open(path, "w") as archive:
        for info, content in members:
            archive.addfile(info, content)
    return path


def refused(archive, folder, **kwargs):
    """The text with which an archive is refused, by both functions, with nothing left on disk."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(ArchiveError) as caught:
        extract(archive, folder, **kwargs)
    assert sorted(folder.parent.iterdir()) == before
    with pytest.raises(ArchiveError) as again:
        for _, file in iterate(archive, **kwargs):
            file.read()
    assert str(again.value) == str(caught.value)
    return str(caught.value).replace(str(archive), "ARCHIVE")


# What is honest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_extracted_and_iterated(tmp_path, suffix):
    archive = make(tmp_path / f"x.{suffix}", FILES.items(), ["folder", "lonely/inner"])
    paths = extract(archive, tmp_path / "deep" / "out")
    assert paths == [tmp_path / "deep" / "out" / name for name in FILES]
    assert [path.read_bytes() for path in paths] == list(FILES.values())
    assert [(name, file.read()) for name, file in iterate(archive)] == list(FILES.items())
    assert [name for name, _ in iterate(archive)] == list(FILES)  # without reading any
    assert [file.read(3) for _, file in iterate(archive)] == [content[:3] for content in FILES.values()]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("suffix", ["tar", "zip"])
def test_the_kind_is_told_by_the_content(tmp_path, suffix):
    archive = make(tmp_path / f"x.{suffix}", FILES.items()).rename(tmp_path / "x.bin")
    assert len(extract(archive, tmp_path / "out")) == 3


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
def test_from_a_stream(tmp_path, suffix):
    class Forward(io.RawIOBase):
        def __init__(self, content):
            self.file = io.BytesIO(content)

        def readable(self):
            return True

        def readinto(self, buffer):
            return self.file.readinto(memoryview(buffer)[:1000])

    archive = make(tmp_path / f"x.{suffix}", FILES.items())
    content = archive.read_bytes()
    found = [(name, file.read()) for name, file in iterate(io.BufferedReader(Forward(content)))]
    assert found == list(FILES.items())
    for limits in ({"max_bytes": 1000}, {"max_files": 1}):
        with pytest.raises(ArchiveError, match=r"has more|contains more"):
            list(iterate(io.BufferedReader(Forward(content)), **limits))
    with pytest.raises(ArchiveError, match="The archive is damaged or cut off"):
        for _, file in iterate(io.BufferedReader(Forward(content[: -9000 if suffix == "tar" else -4]))):
            file.read()


def test_long_names_and_names_of_pax(tmp_path):
    names = ["a/" * 60 + "b" * 90, "größe/€.txt"]
    for style in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / f"{style}.tar", "w", format=style) as archive:
            for name in names:
                archive.addfile(*member(name, b"x"))
        assert [name for name, _ in iterate(tmp_path / f"{style}.tar")] == names


def test_objects_are_read_from_members(tmp_path):
    content = io.BytesIO()
    np.save(content, np.arange(10))
    archive = make(tmp_path / "x.tar.gz", [("a.pkl", pickle.dumps([1, {"b": 2}])), ("b.npy", content.getvalue())])
    found = []
    for name, file in iterate(archive):
        found.append(pickle.load(file) if name == "a.pkl" else load_npy(file).tolist())
    assert found == [[1, {"b": 2}], list(range(10))]


def test_an_empty_folder_may_be_there_and_a_full_one_may_not(tmp_path):
    archive = make(tmp_path / "x.zip", FILES.items())
    (tmp_path / "out").mkdir()
    extract(archive, tmp_path / "out")
    with pytest.raises(FileExistsError) as caught:
        extract(archive, tmp_path / "out")
    folder = tmp_path / "out"
    assert str(caught.value) == (
        f"{archive} is extracted into a new folder, and {folder} exists. Fix: remove it first."
    )


def test_links_in_the_place_of_the_folder_are_not_followed(tmp_path):
    archive = make(tmp_path / "x.zip", FILES.items())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "out").symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        extract(archive, tmp_path / "out")
    (tmp_path / "new.part").symlink_to(elsewhere)
    extract(archive, tmp_path / "new")
    assert list(elsewhere.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / "out.part" / "a.txt").mkdir(parents=True)
    extract(make(tmp_path / "x.zip", FILES.items()), tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"hello" and not (tmp_path / "out.part").exists()


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(archives.shutil, "copyfileobj", interrupt)
    with pytest.raises(KeyboardInterrupt):
        extract(make(tmp_path / "x.zip", FILES.items()), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


def test_extracted_files_are_not_executable(tmp_path):
    archive = tar_of(tmp_path / "x.tar", member("a", b"x", mode=0o6777))
    (path,) = extract(archive, tmp_path / "out")
    assert stat.S_IMODE(path.stat().st_mode) & 0o6111 == 0


# What is not ------------------------------------------------------------------------------------------------------

OUTSIDE = ["../x", "/x", "a/../../x", "C:/x", "C:x", "\\x", "..\\x", "a\\..\\..\\x", "//host/share/x", ".."]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("suffix", ["tar", "zip"])
def test_paths_outside_of_the_folder(tmp_path, name, suffix):
    archive = make(tmp_path / f"x.{suffix}", [("good", b"x"), (name, b"x")])
    text = refused(archive, tmp_path / "out")
    assert text == (
        f"ARCHIVE contains {name!r}, which is outside of the folder that it is extracted to. The archive is hostile, "
        "or was made in a careless way."
    )


@pytest.mark.parametrize("name", ["../x", "/x"])
@pytest.mark.parametrize("suffix", ["tar", "zip"])
def test_folders_outside_of_the_folder(tmp_path, name, suffix):
    assert "outside" in refused(make(tmp_path / f"x.{suffix}", [], [name]), tmp_path / "out")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"]
)
def test_links_and_devices(tmp_path, kind):
    archive = tar_of(tmp_path / "x.tar", member("good", b"x"), member("bad", type=kind, linkname="good"))
    text = refused(archive, tmp_path / "out")
    assert text == "ARCHIVE contains 'bad', which is a link or a device. Only files and folders are allowed."


def test_links_in_zips(tmp_path):
    info = zipfile.ZipInfo("bad")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert "'bad', which is a link or a device" in refused(tmp_path / "x.zip", tmp_path / "out")


@pytest.mark.parametrize("suffix", ["tar", "zip"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a", "a"], "contains 'a' twice."),
        (["a", "./a"], "contains './a' twice."),
        (["a", "a/b"], "contains 'a/b' and another entry that needs the same name."),
        (["a/b", "a"], "contains 'a' and another entry that needs the same name."),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_collide(tmp_path, suffix, names, reason):
    archive = make(tmp_path / f"x.{suffix}", [(name, b"x") for name in names])
    with pytest.raises(ArchiveError) as caught:
        extract(archive, tmp_path / "out")
    assert str(caught.value) == f"{archive} {reason}"
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_more_than_the_limits(tmp_path, suffix):
    archive = make(tmp_path / f"x.{suffix}", [("a", bytes(10**6)), ("b", bytes(10**6))])
    assert len(extract(archive, tmp_path / "out", max_bytes=2 * 10**6, max_files=2)) == 2
    assert refused(archive, tmp_path / "no", max_bytes=2 * 10**6 - 1) == (
        "ARCHIVE contains more than 1,999,999 bytes, which is more than it may. It may be a decompression bomb. Fix: "
        "pass a larger max_bytes if you know that it is as large."
    )
    text = refused(archive, tmp_path / "no", max_files=1)
    assert text == "ARCHIVE has more than 1 files. Fix: pass a larger max_files."


def test_the_default_limit(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    assert default_limit(tmp_path / "a") == 2**32 + 100_000


def test_a_bomb_that_states_its_size_is_not_read(tmp_path):
    info, _ = member("bomb")
    info.size = 10**13
    (tmp_path / "x.tar").write_bytes(info.tobuf() + bytes(10_240))
    assert "more than 4," in refused(tmp_path / "x.tar", tmp_path / "out")


def test_a_bomb_behind_the_end_of_the_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILES", 1)
    with gzip.open(make(tmp_path / "x.tar.gz", FILES.items()), "ab") as file:
        file.write(bytes(10**8))
    assert "decompression bomb" in refused(tmp_path / "x.tar.gz", tmp_path / "out", max_bytes=2 * 10**6, max_files=9)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory(tmp_path, kind):
    info, _ = member("header", type=kind)
    info.size = 2**30
    with lzma.open(tmp_path / "x.tar.xz", "wb", preset=0) as file:
        file.write(info.tobuf() + bytes(10**6))
    text = refused(tmp_path / "x.tar.xz", tmp_path / "out")
    assert text == "ARCHIVE has a header of more than 33,554,432 bytes."


def patched_zip(path, stated):
    """A zip archive of one file of 10**6 zeros that states another size."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10**6))
    content = path.read_bytes().replace(struct.pack("<L", 10**6), struct.pack("<L", stated))
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("stated", [10, 2 * 10**6])
def test_a_zip_that_lies_about_a_size(tmp_path, stated):
    text = refused(patched_zip(tmp_path / "x.zip", stated), tmp_path / "out")
    assert "is damaged or cut off" in text


def test_encrypted_zips(tmp_path):
    make(tmp_path / "x.zip", [("a", b"x")])
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(content)
    assert refused(tmp_path / "x.zip", tmp_path / "out") == "ARCHIVE is encrypted. Fix: extract it yourself."


def test_zips_in_a_way_that_nobody_reads(tmp_path):
    make(tmp_path / "x.zip", [("a", b"x" * 100)])
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[8] = content[content.index(b"PK\x01\x02") + 10] = 99
    (tmp_path / "x.zip").write_bytes(content)
    assert "cannot be read" in refused(tmp_path / "x.zip", tmp_path / "out")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("part", [0.2, 0.6, 0.95])
def test_archives_that_are_cut_off(tmp_path, suffix, part):
    content = np.random.default_rng(0).bytes(20_000)
    archive = make(tmp_path / f"x.{suffix}", [("a", content), ("b", content), ("c", content[:100])])
    whole = archive.read_bytes()
    size = int(len(whole) * part) if suffix != "tar" else int(41_000 * part)
    archive.write_bytes(whole[:size])
    text = refused(archive, tmp_path / "out")
    assert text.startswith("ARCHIVE is damaged or cut off (")
    assert text.endswith("). Fix: remove it, and it is downloaded again.")


def test_a_tar_that_is_cut_off_between_two_files(tmp_path):
    archive = make(tmp_path / "x.tar", [("a", bytes(512)), ("b", b"x")])
    archive.write_bytes(archive.read_bytes()[:1024])
    assert "the end of the archive is missing" in refused(archive, tmp_path / "out")


@pytest.mark.parametrize("suffix", ["tar.gz", "tar.xz", "tar.bz2"])
def test_a_cut_behind_the_last_file_is_noticed(tmp_path, suffix):
    archive = make(tmp_path / f"x.{suffix}", FILES.items())
    archive.write_bytes(archive.read_bytes()[:-4])
    assert "damaged or cut off" in refused(archive, tmp_path / "out")


def test_a_flipped_bit_is_found_by_the_checksum(tmp_path):
    for suffix in ("tar.gz", "zip"):
        content = np.random.default_rng(0).bytes(20_000)
        archive = make(tmp_path / f"x.{suffix}", [("a", content)])
        damaged = bytearray(archive.read_bytes())
        damaged[10_000] ^= 1
        archive.write_bytes(damaged)
        assert "damaged or cut off" in refused(archive, tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"<html>", bytes(600), b"\x7fELF" * 200])
def test_other_files_are_not_archives(tmp_path, content):
    (tmp_path / "x.tar").write_bytes(content)
    text = refused(tmp_path / "x.tar", tmp_path / "out")
    assert text == "ARCHIVE is not a tar, tar.gz, tar.xz, tar.bz2 or zip archive."


def test_compressed_files_are_not_tar_archives(tmp_path):
    for opener in (gzip.open, lzma.open, bz2.open):
        with opener(tmp_path / "x", "wb") as file:
            file.write(b"not a tar" * 100)
        assert "ARCHIVE is damaged or cut off (" in refused(tmp_path / "x", tmp_path / "out")


@pytest.mark.deep
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_random_damage_raises_nothing_else(tmp_path, suffix):
    rng = np.random.default_rng(0)
    archive = make(tmp_path / f"x.{suffix}", [("a", rng.bytes(3000)), ("b/c", bytes(3000))], ["folder"])
    whole = archive.read_bytes()
    for number in range(500):
        damaged = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        archive.write_bytes(damaged[: rng.integers(1, len(damaged) + 1)] if number % 2 else damaged)
        try:
            paths = extract(archive, tmp_path / "out")
        except ArchiveError:
            assert sorted(path.name for path in tmp_path.iterdir()) == [archive.name]
            continue
        assert all(path.resolve().is_relative_to(tmp_path / "out") for path in paths)
        archives.shutil.rmtree(tmp_path / "out")


# gzip -----------------------------------------------------------------------------------------------------------------


def test_gzip_is_read_as_a_stream(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(FILES["folder/b.bin"])
    with open_gzip(tmp_path / "a.gz") as file:
        assert file.read(5) == b"\0\1\2\3\4" and file.read() == FILES["folder/b.bin"][5:]
    with (
        open_gzip(tmp_path / "a.gz", max_bytes=10**6) as file,
        pytest.raises(ArchiveError, match="more than 1,000,000"),
    ):
        file.read()


@pytest.mark.parametrize("damage", [lambda c: c[:-3], lambda c: c[: len(c) // 2], lambda c: b"PK" + c[2:]])
def test_damaged_gzip(tmp_path, damage):
    (tmp_path / "a.gz").write_bytes(damage(gzip.compress(np.random.default_rng(0).bytes(10_000))))
    with open_gzip(tmp_path / "a.gz") as file, pytest.raises(ArchiveError, match="is damaged or cut off"):
        file.read()


# npy and pickles ------------------------------------------------------------------------------------------------------


class Stream:
    """A file that can only be read."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    def read(self, size=-1):
        return self._file.read(min(size, 7) if size > 0 else size)  # fewer than asked for, as sockets do

    def readline(self):
        return self._file.readline()


def npy(array, **kwargs):
    content = io.BytesIO()
    np.save(content, array, **kwargs)
    return content.getvalue()


ARRAYS = [
    np.arange(24, dtype="<f4").reshape(2, 3, 4),
    np.asfortranarray(np.arange(24, dtype=">i2").reshape(2, 3, 4)),
    np.array(3.5),
    np.zeros((0, 3), np.uint8),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array([b"ab", b"c"]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_arrays_are_what_they_were(tmp_path, array):
    (tmp_path / "a.npy").write_bytes(npy(array))
    for found in (load_npy(tmp_path / "a.npy"), load_npy(Stream(npy(array)))):
        assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)


def test_npz_files(tmp_path):
    arrays = {"a": np.arange(3), "b/c": np.zeros((2, 2), np.float32)}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", **arrays)
        found = load_npz(tmp_path / "x.npz")
        assert found.keys() == arrays.keys() and all(np.array_equal(found[key], arrays[key]) for key in arrays)
    content = (tmp_path / "x.npz").read_bytes()
    for part, text in ((content[:-30], "^it is damaged or cut off "), (b"", "^it is damaged or cut off ")):
        with pytest.raises(ArchiveError, match=text):
            load_npz(io.BytesIO(part), name="it")
    np.savez_compressed(tmp_path / "x.npz", bomb=np.zeros(10**6, np.uint8))
    with pytest.raises(ArchiveError, match=r"x\.npz contains more than 1,000,000 bytes, which is more than it may\."):
        load_npz(tmp_path / "x.npz", max_bytes=10**6)
    np.savez(tmp_path / "x.npz", objects=np.array([{}]))
    with pytest.raises(ValueError, match=r"^objects\.npy in .*x\.npz holds pickled Python objects\."):
        load_npz(tmp_path / "x.npz")


def test_rows_in_blocks():
    array = np.arange(35).reshape(7, 5)
    blocks = list(iterate_npy(Stream(npy(array)), 3))
    assert [len(block) for block in blocks] == [3, 3, 1] and np.array_equal(np.concatenate(blocks), array)
    assert list(iterate_npy(Stream(npy(array[:0])), 3)) == []
    for odd in (np.asfortranarray(array), np.array(1)):
        with pytest.raises(ArchiveError, match="cannot be read row by row"):
            list(iterate_npy(Stream(npy(odd)), 3))


class Evil:
    def __reduce__(self):
        return os._exit, (13,)


def test_pickles_are_refused_unless_they_are_allowed(tmp_path):
    objects = np.array([{"a": 1}, None], object)
    (tmp_path / "a.npy").write_bytes(npy(objects))
    with pytest.raises(ValueError) as caught:
        load_npy(tmp_path / "a.npy", needed_by="GenDGRLExperienceReplay")
    assert str(caught.value) == (
        f"{tmp_path / 'a.npy'} holds pickled Python objects. Loading them runs any code that whoever made the file put "
        "there, so it is refused unless you ask for it. Fix: if you trust the source of the file, pass "
        "allow_pickle=True to GenDGRLExperienceReplay."
    )
    assert not isinstance(caught.value, ArchiveError)
    assert load_npy(tmp_path / "a.npy", allow_pickle=True).tolist() == objects.tolist()
    with pytest.raises(ValueError, match="holds pickled Python objects"):
        list(iterate_npy(Stream(npy(objects)), 1))


def test_no_code_of_a_pickle_runs():
    for content in (npy(np.array([Evil()], object)), npy(np.array([(1, Evil())], dtype=[("a", "i4"), ("b", "O")]))):
        with pytest.raises(ValueError, match="allow_pickle=True"):
            load_npy(Stream(content))
    with pytest.raises(ValueError, match=r"allow_pickle=True to X\."):
        load_pickle(Stream(pickle.dumps(Evil())), allow_pickle=False, needed_by="X", name="a.pkl")


def test_pickles_that_are_allowed_and_damaged():
    content = pickle.dumps({"a": [1]})
    arguments = {"allow_pickle": True, "needed_by": "X", "name": "a.pkl"}
    assert load_pickle(io.BytesIO(content), **arguments) == {"a": [1]}
    for damaged in (b"", content[:-1], b"no pickle"):
        with pytest.raises(ArchiveError, match=r"a\.pkl is damaged or cut off"):
            load_pickle(io.BytesIO(damaged), **arguments)


def header(text):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"<html>" * 9,
        npy(np.zeros(3))[:20],
        header("__import__('os')._exit(13)"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
        header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}"),
        header("{'descr': '<f4', 'shape': (1,)}"),
        header("(" * 5000),
        b"\x93NUMPY\x03\x00" + bytes(20),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(20),
    ],
)
def test_headers_that_are_wrong(content):
    with pytest.raises(ArchiveError, match=r"the array is damaged or is not an npy file \("):
        read_npy_header(Stream(content))


def test_arrays_that_are_cut_off():
    with pytest.raises(ArchiveError) as caught:
        load_npy(Stream(npy(np.zeros(3))[:-1]), name="a.npy")
    assert str(caught.value) == "a.npy is cut off: 23 of 24 bytes are there."
    with pytest.raises(ArchiveError, match="is cut off"):
        list(iterate_npy(Stream(npy(np.zeros((5, 3)))[:-1]), 2))


@pytest.mark.parametrize("size", [10**30, 10**18])
def test_arrays_that_state_more_than_the_memory_holds(size):
    text = header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size},)}}")
    with pytest.raises(ArchiveError, match="more than the memory holds"):
        load_npy(Stream(text))


@pytest.mark.deep
def test_random_damage_to_arrays_raises_nothing_else():
    rng = np.random.default_rng(0)
    whole = npy(np.arange(100))
    for _ in range(3000):
        damaged = bytearray(whole)
        damaged[rng.integers(len(damaged) // 3)] = rng.integers(256)
        try:
            load_npy(Stream(damaged))
        except ValueError as error:
            assert isinstance(error, ArchiveError) or "pickled" in str(error)
