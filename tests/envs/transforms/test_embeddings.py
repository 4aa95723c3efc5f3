"""R3M, VIP and VC-1: the networks, where weights are found and whether they fit, inputs and outputs.

Most tests use small stand-ins for torchvision and timm, see ``conftest.py`` in this folder.
"""

from __future__ import annotations

import doctest
import importlib
import pickle
import sys
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from torch.nn import functional

from rlnb.data import Composite, Unbounded
from rlnb.envs import R3MTransform, TransformedEnv, VC1Transform, VIPRewardTransform, VIPTransform, check_env_specs
from rlnb.envs.transforms import embeddings
from rlnb.envs.transforms.pretrained import RESNET_FEATURES, make_resnet, make_vit
from tests.envs.transforms.cases_images import Pictures

MEAN = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)


def images(*batch, key="pixels"):
    return TensorDict({key: torch.randint(0, 256, (*batch, 30, 20, 3), dtype=torch.uint8)}, batch)


@pytest.fixture
def r18():
    """A ResNet-18 with weights and batch statistics that are not the first ones."""
    torch.manual_seed(5)
    network = make_resnet("resnet18")
    network(torch.rand(4, 3, 32, 32))  # moves the batch statistics
    return network.eval()


def saved(network, file, wrapper=None, prefix="", **more):
    """Save weights as they are published."""
    state = {**{prefix + key: value for key, value in network.state_dict().items()}, **more}
    torch.save({wrapper: state, "global_step": 3} if wrapper else state, file)
    return file


def expected(network, pixels, size):
    """What the network makes of images, step by step."""
    scaled = pixels.movedim(-1, -3).float() / 255
    scaled = functional.interpolate(scaled, size=(size, size), mode="bilinear", antialias=True)
    with torch.no_grad():
        return network((scaled - MEAN) / STD)


# The networks -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("real_networks")
def test_the_networks_of_the_real_torchvision(missing):
    try:
        importlib.import_module("torchvision.models")
    except Exception as error:  # a torchvision for another torch raises RuntimeError
        missing("torchvision", f"it cannot be imported: {error}; pip install 'rlnb[pretrained]'", optional=True)
    counts = {"resnet18": (11_689_512, 122), "resnet34": (21_797_672, 218), "resnet50": (25_557_032, 320)}
    for name, (parameters, entries) in counts.items():
        network = make_resnet(name, n_out=1000)
        assert (sum(p.numel() for p in network.parameters()), len(network.state_dict())) == (parameters, entries)
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert shapes["layer1.0.conv3.weight"] == (256, 64, 1, 1)
    assert shapes["layer4.0.downsample.0.weight"] == (2048, 1024, 1, 1)
    assert shapes["layer3.5.bn2.running_var"] == (256,) and shapes["fc.weight"] == (1000, 2048)
    for name, n_features in RESNET_FEATURES.items():
        assert make_resnet(name).eval()(torch.zeros(1, 3, 64, 64)).shape == (1, n_features)


@pytest.mark.usefixtures("real_networks")
def test_the_networks_of_the_real_timm(missing):
    try:
        importlib.import_module("timm")
    except Exception as error:
        missing("timm", f"it cannot be imported: {error}; pip install 'rlnb[pretrained]'", optional=True)
    base = make_vit("base")
    assert sum(p.numel() for p in base.parameters()) == 85_798_656  # vit_base_patch16_224 without its head
    shapes = {key: tuple(value.shape) for key, value in base.state_dict().items()}
    assert shapes["pos_embed"] == (1, 197, 768) and shapes["blocks.11.attn.qkv.weight"] == (2304, 768)
    assert shapes["patch_embed.proj.weight"] == (768, 3, 16, 16) and shapes["blocks.0.mlp.fc2.weight"] == (768, 3072)
    tiny = make_vit("tiny").eval()
    image = torch.rand(2, 3, 224, 224)
    assert tiny(image).shape == (2, 64)
    torch.testing.assert_close(tiny(image), tiny.forward_features(image)[:, 0])  # the class token


@pytest.mark.parametrize(
    ("make", "package"),
    [
        (lambda: R3MTransform("resnet18"), "torchvision"),
        (lambda: VIPTransform("resnet50"), "torchvision"),
        (lambda: VIPRewardTransform("resnet50"), "torchvision"),
        (lambda: VC1Transform(["pixels"], ["v"], download=True), "timm"),
    ],
    ids=["R3M", "VIP", "VIP reward", "VC1"],
)
@pytest.mark.parametrize("broken", [False, True], ids=["not installed", "broken"])
def test_without_the_package(make, package, broken, tmp_path, monkeypatch):
    name = {"torchvision": "torchvision.models"}.get(package, package)
    if broken:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('operator does not exist')")
        monkeypatch.syspath_prepend(tmp_path)
    else:
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setattr(importlib, "import_module", refusing(name))
    with pytest.raises(ImportError) as error:
        make()
    kind = str(error.value).partition(" ")[0]
    assert kind in ("R3MTransform", "VIPTransform", "VIPRewardTransform", "VC1Transform")
    assert str(error.value) == (
        f"{kind} needs the package {package}, which is installed but cannot be imported: operator does not exist. "
        f"Fix: install the {package} that was built for torch {torch.__version__}."
        if broken
        else f"{kind} needs the package {package}, which is not installed. Fix: pip install 'rlnb[pretrained]'."
    )


def refusing(package):
    """An ``import_module`` that finds no such package."""
    real = importlib.import_module

    def import_module(name, *args):
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return real(name, *args)

    return import_module


@pytest.mark.parametrize("kind", [R3MTransform, VIPTransform, VIPRewardTransform, VC1Transform])
def test_the_documented_example(kind):
    """Doctests leave these examples out, since they need the packages; here they run with the stand-ins."""
    module = sys.modules[kind.__module__]
    (example,) = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs=dict(vars(module)))
    assert example.examples
    for line in example.examples:
        assert line.options.pop(doctest.SKIP)
    result = doctest.DocTestRunner().run(example)
    assert result.attempted == len(example.examples) and result.failed == 0


# Weights ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrapper", "prefix", "more"),
    [
        (None, "", {}),
        ("r3m", "module.convnet.", {"module.lang_enc.model.weight": torch.zeros(2)}),
        (None, "", {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}),
    ],
    ids=["own", "published", "torchvision"],
)
def test_weights_of_a_file(r18, tmp_path, wrapper, prefix, more):
    file = saved(r18, tmp_path / "weights.pt", wrapper, prefix, **more)
    td = images(4)
    out = R3MTransform("resnet18", ["pixels"], size=40, download_path=file)(td.copy())
    torch.testing.assert_close(out["r3m_vec"], expected(r18, td["pixels"], 40))
    assert list(out.keys()) == ["r3m_vec"], "the image is removed"


def test_weights_kept_in_a_folder_and_fetched_into_it(r18, tmp_path, monkeypatch):
    published, kept = tmp_path / "published", tmp_path / "kept" / "here"
    published.mkdir()
    saved(r18, published / "r3m_18.pt", "r3m", "module.convnet.")
    monkeypatch.setattr(embeddings, "_OWN_URL", published.as_uri() + "/")
    td = images(2)
    first = R3MTransform("resnet18", ["pixels"], size=32, download=True, download_path=kept)
    out = first(td.copy())["r3m_vec"]
    torch.testing.assert_close(out, expected(r18, td["pixels"], 32))
    (published / "r3m_18.pt").unlink()
    for download in (True, False):  # it is there
        again = R3MTransform("resnet18", ["pixels"], size=32, download=download, download_path=str(kept))
        assert torch.equal(again(td.copy())["r3m_vec"], out)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    (tmp_path / "hub" / "hub" / "checkpoints").mkdir(parents=True)
    saved(r18, tmp_path / "hub" / "hub" / "checkpoints" / "r3m_18.pt")
    assert torch.equal(R3MTransform("resnet18", ["pixels"], size=32, download=True)(td.copy())["r3m_vec"], out)


def test_weights_of_torchvision_by_their_name(r18, tmp_path):
    saved(r18, tmp_path / "resnet18-f37072fd.pth")
    by_name = R3MTransform("resnet18", ["pixels"], size=32, download="IMAGENET1K_V1", download_path=tmp_path)
    td = images(2)
    torch.testing.assert_close(by_name(td.copy())["r3m_vec"], expected(r18, td["pixels"], 32))
    with pytest.raises(ValueError) as error:
        R3MTransform("resnet18", ["pixels"], download="IMAGENET1K_V2")
    assert str(error.value) == (
        "R3MTransform has no weights 'IMAGENET1K_V2' for resnet18. Legal for download: True (those of R3M), "
        "'IMAGENET1K_V1' (those of torchvision), False."
    )
    with pytest.raises(ValueError, match=r"VIPTransform has no weights 'IMAGENET1K_V1'\. Legal for download: True"):
        VIPTransform("resnet50", download="IMAGENET1K_V1")


def test_nothing_happens_before_the_first_image(monkeypatch):
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(embeddings, "make_resnet", lambda *args: calls.append(args) or make_resnet(*args))
        transform = R3MTransform("resnet18", ["pixels"], size=32)
    env = TransformedEnv(Pictures(), transform)
    assert env.observation_spec["r3m_vec"].shape == (512,) and "pixels" not in env.observation_spec
    assert calls == [] and list(transform.parameters()) == []
    env.set_seed(0)
    td = env.reset()
    env.step(env.rand_action(td))
    assert calls == [("resnet18",)], "and it is made once"
    other = R3MTransform("resnet18", ["pixels"], size=32)
    batch = images(2)
    state = torch.get_rng_state()
    assert torch.equal(other(batch.copy())["r3m_vec"], transform.clone()(batch.copy())["r3m_vec"])
    assert torch.equal(torch.get_rng_state(), state), "random weights leave the generator alone"
    assert torch.equal(pickle.loads(pickle.dumps(other))(batch.copy())["r3m_vec"], other(batch.copy())["r3m_vec"])


def test_the_network_is_frozen(r18, tmp_path):
    file = saved(r18, tmp_path / "weights.pt")
    frozen = R3MTransform("resnet18", ["pixels"], size=32, download_path=file).train()
    first = frozen(images(2))
    assert not first["r3m_vec"].requires_grad
    after = dict(frozen.network.network.state_dict())
    assert all(torch.equal(after[key], value) for key, value in r18.state_dict().items())
    free = R3MTransform("resnet18", ["pixels"], size=32, download_path=file, requires_grad=True)
    free(images(2))["r3m_vec"].sum().backward()
    assert free.network.network.conv1.weight.grad.abs().sum() > 0


def refusal(kind, *args, **kwargs):
    with pytest.raises(kind) as error:
        R3MTransform(*args, **kwargs)(images(1))
    return str(error.value)


def test_weights_that_are_not_there(tmp_path):
    folder = str(tmp_path)
    assert refusal(FileNotFoundError, "resnet18", ["pixels"], download_path=folder) == (
        f"download_path={folder!r} must be a file of weights, or a folder with 'r3m_18.pt', and there is no file "
        "'r3m_18.pt'. Fix: download=True downloads it into that folder; without download_path, the weights are random."
    )
    nowhere = str(tmp_path / "none.pt")
    assert "there is neither a file nor a folder" in refusal(
        FileNotFoundError, "resnet18", ["pixels"], download_path=nowhere
    )
    with pytest.raises(FileNotFoundError) as error:
        VC1Transform(["pixels"], ["v"], "small", download=True, download_path=tmp_path)(images(1))
    assert str(error.value) == (
        "Weights 'vc1_vits.pth' are not published, so download=True cannot find them. "
        "Fix: download_path='file of your own weights'."
    )


def test_weights_that_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "_OWN_URL", (tmp_path / "gone").as_uri() + "/")
    text = refusal(ConnectionError, "resnet18", ["pixels"], download=True, download_path=tmp_path / "kept")
    assert text.startswith(
        f"The weights 'r3m_18.pt' could not be downloaded from {(tmp_path / 'gone').as_uri()}/r3m_18.pt"
    )
    assert text.endswith(
        "Fix: check the connection, or download the file yourself and pass download_path='.../r3m_18.pt'."
    )
    assert list((tmp_path / "kept").iterdir()) == [], "nothing half fetched is left"


def test_weights_that_do_not_fit(r18, tmp_path):
    state = r18.state_dict()
    del state["bn1.weight"]
    state["head.weight"] = torch.zeros(1)
    state["conv1.weight"] = torch.zeros(64, 1, 7, 7)
    torch.save(state, tmp_path / "odd.pt")
    assert refusal(ValueError, "resnet18", ["pixels"], download_path=tmp_path / "odd.pt") == (
        "The weights in 'odd.pt' do not fit this ResNet: missing: bn1.weight; unexpected: head.weight; of another "
        "shape: conv1.weight (64, 1, 7, 7) for (8, 3, 7, 7). Fix: use the file of this model, or the model_name of "
        "this file."
    )
    saved(r18, tmp_path / "r18.pt")
    text = refusal(ValueError, "resnet34", ["pixels"], download_path=tmp_path / "r18.pt")
    assert "missing: layer1.2.conv1.weight, layer1.2.bn1.weight" in text and " more." in text


class Unsafe:
    """What would be run if weights were read as anything but data."""

    def __reduce__(self):
        return (Path.touch, (Path("it_was_run"),))


@pytest.mark.parametrize("what", ["code", "text", "list"])
def test_a_file_is_read_as_data(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bad.pt"
    if what == "text":
        file.write_text("no weights")
    else:
        torch.save({"model": Unsafe()} if what == "code" else {"r3m": [1], "b": torch.ones(1)}, file)
    text = refusal(ValueError, "resnet18", ["pixels"], download_path=file)
    assert not Path("it_was_run").exists()
    if what == "list":
        assert text == (
            "'bad.pt' must hold tensors by name, or such a mapping under one of ['r3m', 'state_dict', 'model'], and "
            "holds a dict of r3m, b. Fix: torch.save(network.state_dict(), file)."
        )
    else:
        assert text.startswith("'bad.pt' is not a file of weights that can be read as plain data: ")
        assert text.endswith("Fix: torch.save(network.state_dict(), file), with nothing but tensors in it.")


# Keys ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [True, False])
def test_several_images(stack):
    td = images(2).update(images(2, key="other"))
    transform = R3MTransform(
        "resnet18", ["pixels", "other"], size=32, stack_images=stack, tensor_pixels_keys=["a", "b"]
    )
    alone = [R3MTransform("resnet18", [key], size=32)(td.select(key))["r3m_vec"] for key in ("pixels", "other")]
    out = transform(td.copy())
    assert torch.equal(out["a"], td["pixels"]) and torch.equal(out["b"], td["other"])
    found = out["r3m_vec"] if stack else torch.cat((out["r3m_vec_0"], out["r3m_vec_1"]), -1)
    torch.testing.assert_close(found, torch.cat(alone, -1))
    assert set(out.keys()) == {"a", "b", *(["r3m_vec"] if stack else ["r3m_vec_0", "r3m_vec_1"])}


def test_defaults():
    transform = VIPTransform("resnet50")
    assert transform.in_keys == ["pixels"] and transform.out_keys == ["vip_vec"] and transform.size == 244
    assert repr(transform) == (
        "VIPTransform(model_name='resnet50', in_keys=['pixels'], out_keys=['vip_vec'], size=244, weights=random)"
    )
    assert R3MTransform("resnet18", ["pixels"]).size == 244
    assert repr(R3MTransform("resnet18", download=True)).endswith("weights=published)")


class TwoRewards(Pictures):
    """:class:`Pictures` with two rewards."""

    def __init__(self):
        super().__init__()
        self.reward_spec = Composite({key: Unbounded(shape=(1,)) for key in ("first", "second")})


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: R3MTransform("resnet19", ["pixels"]),
            NotImplementedError,
            "R3MTransform has no model 'resnet19'. Legal: 'resnet18', 'resnet34', 'resnet50'.",
        ),
        (
            lambda: VIPTransform("resnet18"),
            NotImplementedError,
            "VIPTransform has no model 'resnet18'. Legal: 'resnet50'.",
        ),
        (
            lambda: VC1Transform(["pixels"], ["v"], "huge"),
            NotImplementedError,
            "VC1Transform has no model 'huge'. Legal: 'default', 'small', 'base', 'large', 'vc1_vitb', 'vc1_vitl'.",
        ),
        (
            lambda: R3MTransform("resnet18", ["a", "b"], ["c", "d"]),
            ValueError,
            "R3MTransform with stack_images=True puts the vectors of all images into one entry, and got 2 out_keys. "
            "Fix: one out_key, or stack_images=False.",
        ),
        (
            lambda: R3MTransform("resnet18", ["a", "b"], ["c"], stack_images=False),
            ValueError,
            "R3MTransform got 2 in_keys and 1 out_keys: they must pair up one by one. A nested key is one key: "
            "write [('nested', 'reward')] for a list of one.",
        ),
        (
            lambda: R3MTransform("resnet18", ["pixels"], size=0),
            ValueError,
            "R3MTransform takes size as a positive integer of pixels and got 0.",
        ),
        (
            lambda: R3MTransform("resnet18", ["pixels"], size=32)(TensorDict({"pixels": torch.zeros(1, 9, 9)})),
            ValueError,
            "R3MTransform takes RGB images, (..., H, W, 3) or (..., 3, H, W), and got shape (1, 9, 9) of dtype "
            "torch.float32. Fix: in_keys=[...] names the images.",
        ),
        (
            lambda: VIPRewardTransform("resnet50", ["a", "b"]),
            ValueError,
            "VIPRewardTransform compares one image with the goal, and got in_keys=['a', 'b']. "
            "Fix: VIPRewardTransform(..., in_keys=['pixels']).",
        ),
        (
            lambda: TransformedEnv(TwoRewards(), VIPRewardTransform("resnet50", size=32)),
            ValueError,
            "VIPRewardTransform replaces the only reward of an env, and this env has ['first', 'second'].",
        ),
        (
            lambda: R3MTransform("resnet18", ["a", "b"], tensor_pixels_keys=["kept"]),
            ValueError,
            "R3MTransform got 2 in_keys and 1 tensor_pixels_keys: they must pair up one by one. A nested key is one "
            "key: write [('nested', 'reward')] for a list of one.",
        ),
    ],
    ids=range(10),
)
def test_what_is_refused(make, kind, text):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == text


# VC-1 ---------------------------------------------------------------------------------------------------------------


def test_vc1_takes_the_middle_of_the_image(tmp_path):
    torch.manual_seed(2)
    network = make_vit("tiny").eval()
    state = {**network.state_dict(), "mask_token": torch.zeros(1), "decoder_blocks.0.norm1.weight": torch.zeros(1)}
    torch.save({"model": state}, tmp_path / "vc1.pth")
    transform = VC1Transform(["pixels"], ["v"], del_keys=False, download_path=tmp_path / "vc1.pth")
    td = images(2)
    scaled = functional.interpolate(
        td["pixels"].movedim(-1, -3).float() / 255, size=(384, 256), mode="bicubic", antialias=True
    )
    middle = scaled.clamp(0, 1)[..., 80:304, 16:240]
    out = transform(td.copy())
    torch.testing.assert_close(out["v"], network((middle - MEAN) / STD).detach())
    assert torch.equal(out["pixels"], td["pixels"])
    assert repr(VC1Transform(["a"], ["b"], download_path=tmp_path)) == (
        "VC1Transform(model_name='default', in_keys=['a'], out_keys=['b'], weights=published)"
    )


def test_vc1_needs_weights():  # random vectors in place of those of VC-1 would be a silent mistake
    for model in ("default", "vc1_vitb"):
        with pytest.raises(ImportError, match="the package vc_models, which is not installed"):
            VC1Transform(["pixels"], ["v"], model)


# The reward of VIP --------------------------------------------------------------------------------------------------


def goal(*batch):
    return TensorDict({"goal_image": torch.randint(0, 256, (*batch, 12, 10, 3), dtype=torch.uint8)}, batch)


@pytest.mark.parametrize("batch_size", [(), (3,)], ids=str)
def test_the_reward_is_how_much_nearer_the_goal_has_come(batch_size):
    env = TransformedEnv(Pictures(batch_size), VIPRewardTransform("resnet50", size=32))
    env.set_seed(0)
    image = goal(*batch_size)
    td = env.reset(image.clone())
    network = VIPTransform("resnet50", ["goal_image"], ["vec"], size=32)
    wanted = network(image.clone())["vec"]
    torch.testing.assert_close(td["goal_embedding"], wanted)
    rollout = env.rollout(12, auto_reset=False, tensordict=td, break_when_any_done=False)
    goals = wanted.unsqueeze(-2)
    before = (rollout["vip_vec"] - goals).norm(dim=-1, keepdim=True)
    after = (rollout["next", "vip_vec"] - goals).norm(dim=-1, keepdim=True)
    torch.testing.assert_close(rollout["next", "reward"], before - after)
    assert rollout["next", "reward"].abs().sum() > 0 and rollout.get("pixels", None) is None
    assert rollout["next", "done"].any(), "the goal outlives the episode"
    check_env_specs(env)
    assert env.state_spec["goal_image"].shape == (*batch_size, 12, 10, 3)


def test_a_partial_reset_changes_the_goals_of_its_rows():
    env = TransformedEnv(Pictures((2,)), VIPRewardTransform("resnet50", size=32))
    env.set_seed(0)
    first = env.reset(goal(2))
    td = env._step_mdp(env.rand_step(first.clone()))
    td["goal_image"] = goal(2)["goal_image"]
    td["_reset"] = torch.tensor([[False], [True]])
    after = env.reset(td.clone())
    assert torch.equal(after["goal_embedding"][0], first["goal_embedding"][0])
    assert not torch.equal(after["goal_embedding"][1], first["goal_embedding"][1])


def test_the_first_episode_needs_a_goal():
    env = TransformedEnv(Pictures(), VIPRewardTransform("resnet50", size=32))
    with pytest.raises(KeyError) as error:
        env.reset()
    assert error.value.args[0] == (
        "VIPRewardTransform needs the goal of the first episode, 'goal_image', and the reset got []. Fix: "
        "env.reset(TensorDict({'goal_image': image}, env.batch_size)), an image like those of the env."
    )
    with pytest.raises(NotImplementedError, match="compares each step with the goal of a reset, so it works in an env"):
        VIPRewardTransform("resnet50")(images())


def test_sizes_of_vectors():
    for name, n_features in RESNET_FEATURES.items():
        spec = TransformedEnv(Pictures((2,)), R3MTransform(name)).observation_spec
        assert spec["r3m_vec"].shape == (2, n_features)
    assert TransformedEnv(Pictures(), VIPTransform("resnet50")).observation_spec["vip_vec"].shape == (1024,)
    assert TransformedEnv(Pictures(), VC1Transform(["pixels"], ["v"], "base", download=True)).observation_spec[
        "v"
    ].shape == (768,)
