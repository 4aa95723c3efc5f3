"""OpenXExperienceReplay, from archives on a hub to slices and whole episodes, from disk and from a stream."""

from __future__ import annotations

import io
import os
import pickle
import sys
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from rlnb.data import SamplerWithoutReplacement, check_ted
from rlnb.data.datasets.download import DownloadError, RemoteFile, open_stream
from rlnb.data.datasets.openx import REPO, OpenXExperienceReplay

NAME = "cmu_stretch"
LENGTHS = (5, 8, 12, 3)
TEXTS = ("lift the lid", "open the drawer", "lift the lid", "größer")


def png(array):
    content = io.BytesIO()
    Image.fromarray(array).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": None}


def episode(number, terminal=True):
    """An episode as the archives have them: a list of steps in the way of RLDS."""
    rng = np.random.default_rng(number)
    length = LENGTHS[number]
    return {
        "steps": [
            {
                "observation": {
                    "image": png(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)),
                    "raw": rng.integers(0, 256, (6, 8, 3), dtype=np.uint8),
                    "state": rng.normal(size=4),
                    "depth": rng.integers(0, 9, (2,), dtype=np.uint16),
                    "task": TEXTS[number].encode(),
                    "nothing": None,
                },
                "action": {"arm": rng.normal(size=8), "gripper": np.float32(t)},
                "reward": float(t == length - 1),
                "discount": np.float32(1),
                "is_first": t == 0,
                "is_last": t == length - 1,
                "is_terminal": terminal and t == length - 1,
                "language_instruction": TEXTS[number],
                "language_embedding": rng.normal(size=5).astype(np.float32),
            }
            for t in range(length)
        ]
    }


def tar(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def put(server, episodes, name=NAME):
    """Two archives of two episodes each, as on the hub, and others beside them."""
    packed = [pickle.dumps(each) for each in episodes]
    files = {
        f"{name}/{name}_{k // 2:05}.tar": tar(
            {f"{name}_{n}.data.pickle": packed[n] for n in range(k, min(k + 2, len(packed)))} | {"readme.txt": b"x"}
        )
        for k in range(0, len(packed), 2)
    }
    server.put_hub(REPO, files | {"README.md": b"read me", f"{name}_2/{name}_2_00000.tar": b"another one"})
    return list(files)


@pytest.fixture
def episodes(server):
    made = [episode(number, terminal=number != 2) for number in range(4)]
    put(server, made)
    return made


@pytest.fixture
def open_it(episodes, tmp_path):
    def open_it(*args, **kwargs):
        return OpenXExperienceReplay(NAME, *args, root=tmp_path, allow_pickle=True, **kwargs)

    return open_it


def check_episode(data, number, steps):
    """The data of one episode is that of its steps."""
    check_ted(data).raise_if_broken()
    count = len(steps)
    assert data.batch_size == (count,)
    for t, step in enumerate(steps):
        for place in ("image", "raw"):
            value = step["observation"][place]
            image = np.asarray(Image.open(io.BytesIO(value["bytes"]))) if place == "image" else value
            assert np.array_equal(data["observation", place][t].permute(1, 2, 0).numpy(), image)
        assert np.array_equal(data["observation", "state"][t].numpy(), step["observation"]["state"])
        assert data["observation", "depth"][t].tolist() == step["observation"]["depth"].tolist()
        assert np.array_equal(data["action", "arm"][t].numpy(), step["action"]["arm"])
        assert data["action", "gripper"][t] == step["action"]["gripper"]
        assert data["next", "reward"][t].item() == step["reward"]
    assert data["is_init"].tolist() == [True] + [False] * (count - 1)
    assert data["next", "done"].flatten().tolist() == [False] * (count - 1) + [True]
    assert data["next", "terminated"][-1] == steps[-1]["is_terminal"]
    assert data["next", "truncated"][-1] != steps[-1]["is_terminal"]
    after, now = data["next", "observation"], data["observation"]
    for place in ("image", "raw", "state", "depth"):
        assert torch.equal(after[place][:-1], now[place][1:])
        last = torch.zeros_like(now[place][-1]) if steps[-1]["is_terminal"] else now[place][-1]
        assert torch.equal(after[place][-1], last)
    for key in ("language_instruction", ("observation", "task"), ("next", "observation", "task")):
        found = data.get(key)
        texts = [data[t].get(key).data for t in range(count)]
        assert texts == [TEXTS[number]] * count and found.data == TEXTS[number]


# From disk ------------------------------------------------------------------------------------------------------------


def test_the_whole_path(open_it, episodes, server):
    dataset = open_it(shuffle=False)
    assert len(dataset) == sum(LENGTHS)
    for number, data in enumerate(dataset):
        check_episode(data, number, episodes[number]["steps"])
        assert data["episode"].tolist() == [number] * LENGTHS[number] and data["episode"].dtype == torch.int32
    assert number == 3
    assert data["observation", "image"].shape == (3, 3, 6, 8) and data["observation", "image"].dtype == torch.uint8
    assert data["language_embedding"].dtype == torch.float32 and data["discount"].shape == (3,)
    assert ("observation", "nothing") not in data.keys(True)
    server.requests.clear()
    again = open_it(shuffle=False, download=False)
    assert server.requests == []
    check_episode(list(again)[1], 1, episodes[1]["steps"])


def test_random_steps_with_their_texts(open_it):
    dataset = open_it(64)
    sample = dataset.sample()
    texts = sample.get("language_instruction").tolist()
    assert texts == [TEXTS[number] for number in sample["episode"]]
    assert len(set(texts)) == 3
    assert dataset[5].get("language_instruction").data == TEXTS[1]
    assert dataset[:5].get("language_instruction").data == TEXTS[0]
    assert sample.reshape(8, 8).get("language_instruction").tolist()[0] == texts[:8]


@pytest.mark.parametrize("options", [{"num_slices": 4}, {"slice_len": 3}])
@pytest.mark.parametrize("replacement", [None, False])
def test_slices(open_it, options, replacement):
    dataset = open_it(12, replacement=replacement, **options)
    for _ in range(5):
        sample = dataset.sample()
        sample = sample.reshape(4, 3)
        assert (sample["index"].diff(dim=1) == 1).all()
        assert (sample["episode"] == sample["episode"][:, :1]).all()
        if replacement is False:
            assert sorted(sample["episode"][:, 0].tolist()) == [0, 1, 2, 3]
        assert sample["next", "truncated"][:, -1].all()


@pytest.mark.parametrize(("pad", "value"), [(True, 0), (7, 7)])
def test_padding(open_it, pad, value):
    dataset = open_it(32, num_slices=4, pad=pad, replacement=False)
    sample = dataset.sample().reshape(4, 8)
    mask = sample["collector", "mask"]
    lengths = torch.tensor([min(LENGTHS[number], 8) for number in sample["episode"][:, 0]])
    assert torch.equal(mask, torch.arange(8) < lengths[:, None])
    assert (sample["observation", "image"][~mask] == value).all() and (sample["episode"][~mask] == value).all()
    assert not sample["next", "done"][~mask].any()
    assert mask.any(1).all() and not mask.all()
    assert sample["next", "done"][mask].sum() >= 2


def test_padding_ahead(open_it):
    dataset = open_it(32, num_slices=4, pad=True, prefetch=2)
    for _ in range(5):
        sample = dataset.sample()
        assert sample.batch_size == (32,) and "_slice_len" not in sample.keys()  # noqa: SIM118
    sample, info = dataset.sample(20, return_info=True)
    assert len(sample) == 20 and "_slice_len" not in info


def test_short_episodes(open_it):
    assert {*open_it(60, slice_len=10).sample()["episode"].tolist()} == {2}
    assert len(open_it(40, slice_len=10, strict_length=False, replacement=False).sample()) == 5 + 8 + 10 + 3


def test_episodes_come_in_another_order_and_in_parts(open_it):
    torch.manual_seed(0)
    orders = {tuple(int(data["episode"][0]) for data in open_it()) for _ in range(8)}
    assert len(orders) > 2 and all(sorted(order) == [0, 1, 2, 3] for order in orders)
    parts = list(open_it(slice_len=3, shuffle=False))
    assert [len(part) for part in parts] == [3] * 4
    with pytest.raises(ValueError, match="An episode of 5 steps is shorter than a slice of 6"):
        next(iter(open_it(slice_len=6, shuffle=False)))
    assert [len(part) for part in open_it(slice_len=6, shuffle=False, pad=True)] == [6] * 4
    assert [len(part) for part in open_it(slice_len=6, shuffle=False, strict_length=False)] == [5, 6, 6, 3]


def test_everything_once_in_order(open_it):
    assert torch.cat([data["index"] for data in open_it(5, shuffle=False)]).tolist() == list(range(sum(LENGTHS)))
    mine = open_it(7, sampler=SamplerWithoutReplacement(), slice_len=2, pad=True)
    assert sorted(torch.cat([data["index"] for data in mine]).tolist()) == list(range(sum(LENGTHS)))


def test_whole_trajectories(open_it, episodes):
    dataset = open_it(2, split_trajs=True)
    assert dataset[:]["mask"].sum(-1).tolist() == list(LENGTHS)
    assert dataset.sample()["observation", "image"].shape == (2, 12, 3, 6, 8)
    lengths = []
    for data in open_it(split_trajs=True, shuffle=False):
        lengths.append(int(data["mask"].sum()))
        check_episode(data[: lengths[-1]].exclude("mask"), len(lengths) - 1, episodes[len(lengths) - 1]["steps"])
    assert lengths == list(LENGTHS)


def small(data):
    data["observation", "image"] = data["observation", "image"][..., ::2, ::2]
    data["next", "observation", "image"] = data["next", "observation", "image"][..., ::2, ::2]
    return data


def test_preprocessed(open_it):
    dataset = open_it()
    before = dataset[:]
    dataset.preprocess(small, num_workers=0)
    for found in (dataset, open_it()):
        assert torch.equal(found[:]["observation", "image"], before["observation", "image"][..., ::2, ::2])
        assert found[:].get("language_instruction").tolist() == before.get("language_instruction").tolist()


def test_made_again(open_it, server):
    open_it()
    put(server, [episode(3)])
    texts = open_it(download="force")[:].get("language_instruction")
    assert texts.data == TEXTS[3]


# From a stream --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stream(episodes, tmp_path):
    def stream(*args, **kwargs):
        return OpenXExperienceReplay(NAME, *args, streaming=True, root=tmp_path, allow_pickle=True, **kwargs)

    return stream


def test_a_stream_of_episodes(stream, episodes, tmp_path):
    dataset = stream(shuffle=False)
    for _ in range(2):
        for number, data in enumerate(dataset):
            check_episode(data, number, episodes[number]["steps"])
        assert number == 3
    assert list(tmp_path.iterdir()) == []  # nothing is stored
    torch.manual_seed(0)
    orders = {tuple(int(data["observation", "depth"].sum()) for data in stream()) for _ in range(6)}
    assert len(orders) > 1 and len({tuple(sorted(order)) for order in orders}) == 1


def test_samples_of_a_stream(stream):
    dataset = stream(num_slices=2, shuffle=False)
    for expected in ([0, 1], [2, 3], [0, 1]):
        sample = dataset.sample(6).reshape(2, 3)
        assert sample["episode"].tolist() == [[number] * 3 for number in expected]
        texts = [sample[k, 0].get("language_instruction").data for k in range(2)]
        assert texts == [TEXTS[number] for number in expected]
    assert torch.equal(sample["next", "observation", "state"][:, :-1], sample["observation", "state"][:, 1:])


def test_batches_of_a_stream(stream):
    batches = list(stream(9, slice_len=3, shuffle=False))
    assert [len(batch) for batch in batches] == [9, 3]
    padded = list(stream(8, num_slices=1, shuffle=False, pad=True))
    assert [int(batch["collector", "mask"].sum()) for batch in padded] == [5, 8, 8, 3]
    assert padded[3].get("language_instruction").data == TEXTS[3]  # padding does not change the text
    with pytest.raises(ValueError) as caught:
        list(stream(8, shuffle=False))
    assert str(caught.value) == (
        "An episode of 5 steps is shorter than a slice of 8. Fix: pad=True to pad it, or strict_length=False to take "
        "it whole."
    )
    assert [len(batch) for batch in stream(8, strict_length=False, shuffle=False)] == [5, 8, 8, 3]
    with pytest.raises(ValueError, match="A batch of 7 steps cannot be divided into slices, with num_slices=None and"):
        stream(7, slice_len=2).sample()


def test_a_stream_that_breaks_off_goes_on(stream, server, episodes):
    path = f"datasets/{REPO}/resolve/main/{NAME}/{NAME}_00000.tar"
    server.cut(path, 4000)
    server.cut(path, 3000)
    found = list(stream(shuffle=False))
    check_episode(found[1], 1, episodes[1]["steps"])
    assert [request.headers.get("Range") for request in server.asked(path)] == [None, "bytes=4000-", "bytes=7000-"]


@pytest.mark.parametrize("options", [{"download": True}, {"split_trajs": True}, {"replacement": True}])
def test_what_a_stream_cannot_do(stream, options):
    with pytest.raises(ValueError, match="A stream is read in order and stored nowhere"):
        stream(**options)


def test_remote_files_as_streams(server):
    content = bytes(range(256)) * 1000
    file = RemoteFile(server.put("a.bin", content), "a.bin")
    server.fail("a.bin", 503)
    server.cut("a.bin", 100_000)
    with open_stream(file) as stream:
        assert stream.read() == content
    server.cut("a.bin", 100_000)
    server.without_range("a.bin")
    with open_stream(file) as stream, pytest.raises(DownloadError) as caught:
        stream.read()
    assert str(caught.value) == (
        f"{file.url} could not be read: the server cannot continue where it ended, or the file changed. It was read up "
        "to byte 100,000. Fix: connect to the internet, and begin again."
    )
    with open_stream(file._replace(url=f"{server.url}/none")) as stream, pytest.raises(DownloadError, match="404"):
        stream.read()


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
def test_pickles_are_refused_before_anything_is_downloaded(server, episodes, tmp_path, streaming):
    with pytest.raises(ValueError) as caught:
        OpenXExperienceReplay(NAME, root=tmp_path, streaming=streaming)
    assert str(caught.value) == (
        "The dataset 'cmu_stretch' of jxu124/OpenX-Embodiment holds pickled Python objects. Loading them runs any code "
        "that whoever made the file put there, so it is refused unless you ask for it. Fix: if you trust the source of "
        "the file, pass allow_pickle=True to OpenXExperienceReplay."
    )
    assert server.requests == []


@pytest.mark.parametrize("streaming", [False, True])
def test_names(tmp_path, streaming):
    assert len(OpenXExperienceReplay.available_datasets) == 55
    assert "viola" in OpenXExperienceReplay.available_datasets
    assert "stanford_robocook_converted_externally_to_rlds" in OpenXExperienceReplay.available_datasets
    with pytest.raises(ValueError, match="Did you mean 'cmu_stretch'"):
        OpenXExperienceReplay("cmu_strech", root=tmp_path, streaming=streaming, allow_pickle=True)


def test_arguments_that_contradict_each_other(tmp_path):
    with pytest.raises(ValueError, match="either num_slices or slice_len, got num_slices=2 and slice_len=3"):
        OpenXExperienceReplay(NAME, num_slices=2, slice_len=3)
    with pytest.raises(ValueError, match="split_trajs=True samples whole episodes"):
        OpenXExperienceReplay(NAME, num_slices=2, split_trajs=True)


def changed(change):
    made = episode(0)
    change(made["steps"])
    return made


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([1], "must hold a dictionary with a list of 'steps', got <class 'list'>"),
        ({"steps": [1]}, "must hold a dictionary with a list of 'steps'"),
        (changed(lambda steps: [step.pop("action") for step in steps]), "have no 'action'. They have: observation, "),
        (
            changed(lambda steps: steps[1].pop("action")),
            "The steps of cmu_stretch_0.data.pickle are not alike: 'action'",
        ),
        (changed(lambda steps: steps[1]["observation"].update(image={"bytes": b"no"})), "an image cannot be decoded"),
        (changed(lambda steps: steps[1].update(discount=np.zeros(3))), "are not alike: all input arrays must have"),
    ],
)
def test_episodes_that_are_something_else(server, tmp_path, made, reason):
    put(server, [made])
    with pytest.raises(ValueError) as caught:
        OpenXExperienceReplay(NAME, root=tmp_path, allow_pickle=True)
    assert reason in str(caught.value)


def test_a_dataset_that_the_hub_does_not_have(server, tmp_path, episodes):
    with pytest.raises(ValueError, match="No file of jxu124/OpenX-Embodiment on the hub matches 'viola/viola_"):
        OpenXExperienceReplay("viola", root=tmp_path, allow_pickle=True)


class Evil:
    def __reduce__(self):
        return os._exit, (13,)


def test_hostile_archives(server, tmp_path):
    server.put_hub(REPO, {f"{NAME}/{NAME}_00000.tar": tar({"/etc/x.data.pickle": pickle.dumps(Evil())})})
    with pytest.raises(ValueError, match="outside of the folder"):
        OpenXExperienceReplay(NAME, root=tmp_path, allow_pickle=True)


def test_without_pillow(open_it, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError) as caught:
        open_it()
    assert str(caught.value) == (
        "OpenXExperienceReplay needs PIL, which is not installed. Fix: pip install 'rlnb[datasets]'."
    )


def test_steps_with_fewer_entries(server, tmp_path):
    steps = [{"observation": np.float32([t]), "action": np.float32([t])} for t in range(3)]
    put(server, [{"steps": steps}])
    data = OpenXExperienceReplay(NAME, root=tmp_path, allow_pickle=True)[:]
    check_ted(data).raise_if_broken()
    assert data["next", "observation"].flatten().tolist() == [1, 2, 2]
    assert data["next", "truncated"].flatten().tolist() == [False, False, True]
    assert data["next", "reward"].flatten().tolist() == [0, 0, 0]
