"""The model of a chain: keys, specs, values between the boxes, errors in their box, and an unchanged env."""

from __future__ import annotations

import io

import pytest
import torch
from PIL import Image
from rlnb_widgets import TransformInspector
from rlnb_widgets.transform_inspector import inspector_model
from rlnb_widgets.transform_inspector.values import thumbnail

from rlnb.envs import CartPoleEnv, GymEnv, ParallelEnv, PendulumEnv, SerialEnv
from rlnb.envs.transforms import (
    Compose,
    ExcludeTransform,
    RewardScaling,
    RewardSum,
    StepCounter,
    Transform,
    TransformedEnv,
)


class Halve(Transform):
    def _apply_transform(self, value):
        return value / 2

    def _inv_apply_transform(self, value):
        return value / 2


class Break(Transform):
    def _step(self, tensordict, next_tensordict):
        raise RuntimeError("this box <b>breaks</b>")


class BreakBack(Halve):
    def _inv_apply_transform(self, value):
        raise RuntimeError("no way in")


def chain(*transforms, base=PendulumEnv):
    return TransformedEnv(base(), Compose(*transforms))


def value(stage, key):
    return next(v for v in stage if v.key == key)


def test_boxes_say_what_they_read_and_write_in_nested_chains_too():
    env = chain(StepCounter(), Compose(RewardSum(), Halve("reward", None, "action")))
    boxes = inspector_model(env).boxes
    assert [(box.name, box.code) for box in boxes] == [
        ("StepCounter", "env.transform[0]"),
        ("RewardSum", "env.transform[1][0]"),
        ("Halve", "env.transform[1][1]"),
    ]
    assert [(box.reads, box.inverse_writes, box.invertible) for box in boxes] == [
        ((), (), False),
        (('"reward"',), (), False),
        (('"reward"',), ('"action"',), True),
    ]
    assert '"step_count"' in boxes[0].writes, "a key of the specs that no out_keys name"


def test_specs_before_and_after_each_box():
    model = inspector_model(chain(RewardSum(), ExcludeTransform("thdot"), base=PendulumEnv))
    kinds = [{c.key: c.kind for c in box.output if c.kind != "same"} for box in model.boxes]
    assert kinds == [{'"episode_reward"': "new"}, {'"thdot"': "removed"}]
    new = next(c for c in model.boxes[0].output if c.kind == "new")
    assert (new.before, new.after) == ("", "float32 [1], any float32")
    assert '"thdot"' in {c.key for c in model.given}


def test_a_step_changes_values_box_by_box_and_backwards():
    env = chain(RewardScaling(0.0, 2.0), Halve("reward", None, "action"), RewardSum())
    reset, step = TransformInspector(env, seed=3).model.moments
    assert (reset.label, step.label, step.failed) == ("reset", "step 1", None)
    rewards = [float(value(stage, '"reward"').text) for stage in step.forward]
    assert rewards[1] == pytest.approx(2 * rewards[0], rel=1e-3)
    assert rewards[2:] == pytest.approx([rewards[0]] * 2, rel=1e-3)
    assert [value(stage, '"reward"').kind for stage in step.forward] == ["same", "changed", "changed", "same"]
    actions = [float(value(stage, '"action"').text) for stage in step.inverse]
    assert actions[0] == pytest.approx(actions[3] / 2, rel=1e-3) and actions[1] == actions[0]
    assert [value(stage, '"action"').kind for stage in step.inverse] == ["same", "changed", "same", "same"]
    assert value(step.forward[3], '"episode_reward"').kind == "new"
    assert reset.inverse == (None,) * 4


def test_the_env_and_all_random_numbers_are_left_alone():
    def made():
        env = chain(StepCounter(), RewardSum(), base=CartPoleEnv)
        env.set_seed(5)
        return env

    plain, looked_at = made(), made()
    expected = plain.rollout(6)
    torch.manual_seed(1)
    before, transforms = torch.get_rng_state(), list(looked_at.transform)
    inspector = TransformInspector(looked_at, seed=9, steps=2)
    inspector.run("step")
    assert torch.equal(torch.get_rng_state(), before)
    assert list(looked_at.transform) == transforms and transforms[0].container is looked_at.transform
    assert (looked_at.rollout(6) == expected).all()


@pytest.mark.parametrize("seed", [0, 7])
def test_one_seed_one_text(seed):
    env = chain(StepCounter(), RewardSum(), base=lambda: GymEnv("CartPole-v1"))
    texts = [repr(TransformInspector(env, seed=seed, steps=3)) for _ in range(2)]
    assert texts[0] == texts[1] and f"step 3, seed {seed}" in texts[0]


def test_run_goes_on_and_takes_the_users_action():
    env = chain(Halve("reward", None, "action"))
    inspector = TransformInspector(env, seed=0)
    given = env.reset().set("action", torch.tensor([1.5]))
    moment = inspector.run("step", given)
    assert value(moment.inverse[1], '"action"').text == "1.5" and value(moment.inverse[0], '"action"').text == "0.75"
    assert [m.label for m in inspector.model.moments] == ["reset", "step 1", "step 2"] and inspector.moment == 2
    with pytest.raises(ValueError, match=r'^what must be "reset" or "step", got \'jump\'\.$'):
        inspector.run("jump")


def test_after_the_end_of_an_episode_a_step_starts_a_new_one():
    inspector = TransformInspector(chain(StepCounter(2), base=CartPoleEnv), seed=0, steps=3)
    assert [value(m.forward[1], '"step_count"').text for m in inspector.model.moments] == ["0", "1", "2", "0", "1"]
    assert [m.label for m in inspector.model.moments] == ["reset", "step 1", "step 2", "reset", "step 1"]


def test_in_a_batch_the_rows_that_are_over_are_reset_and_the_count_goes_on():
    env = chain(StepCounter(3), base=lambda: CartPoleEnv(batch_size=[2]))
    env.set_seed(0)
    td_ = env.rollout(2)[:, -1]["next"].exclude("reward")
    td_["_reset"] = torch.tensor([[True], [False]])
    inspector = TransformInspector(env, seed=0, steps=0)
    inspector._session._next = env.reset(td_)
    inspector._session._steps = 2
    inspector.run("step")
    inspector.run("step")
    counts = [value(m.forward[1], '"step_count"').text for m in inspector.model.moments[1:]]
    assert counts == ["[1, 3]", "[1, 0]", "[2, 1]"]
    assert [m.label for m in inspector.model.moments[1:]] == ["step 3", "reset", "step 4"]


def test_an_error_is_shown_in_the_box_where_it_arose():
    inspector = TransformInspector(chain(StepCounter(), Break(), RewardSum()), seed=0, steps=2)
    moment = inspector.model.moments[-1]
    assert (moment.failed, moment.backwards, moment.error) == (1, False, "RuntimeError: this box <b>breaks</b>")
    assert [stage is None for stage in moment.forward] == [False, False, True, True]
    assert len(inspector.model.moments) == 2, "nothing is stepped after it"
    assert "  stopped in [1] Break: RuntimeError: this box <b>breaks</b>" in repr(inspector).splitlines()
    assert inspector.run("reset").error == "", "it can be reset and goes on"


def test_an_error_on_the_way_in_is_told_from_one_on_the_way_out():
    moment = TransformInspector(chain(StepCounter(), BreakBack([], None, "action"), RewardSum())).model.moments[-1]
    assert (moment.failed, moment.backwards) == (1, True)
    assert [stage is None for stage in moment.inverse] == [True, True, False, False]


def test_pictures_are_thumbnails():
    small = thumbnail(torch.rand(2, 3, 210, 160), 1)
    assert (small.width, small.height) == (80, 105) and small.data.startswith(b"\x89PNG")
    assert thumbnail(torch.zeros(3, 3, 3), 0) is None and thumbnail(torch.zeros(0, 3, 84, 84), 1) is None


@pytest.mark.parametrize(
    ("channels", "tiles", "newest"),
    [(2, 2, (51,) * 3), (4, 4, (102,) * 3), (5, 4, (127,) * 3), (6, 2, (102, 127, 153)), (12, 4, (255,) * 3)],
)
def test_of_a_stack_the_newest_frames_are_drawn_as_one_reads(channels, tiles, newest):
    frames = torch.arange(channels).float().div(10).reshape(-1, 1, 1).expand(channels, 20, 30) + 0.1
    frames = frames.mul(255).clamp(max=255).to(torch.uint8)
    picture = thumbnail(frames, 0)
    assert (picture.width, picture.height) == (62, 20 if tiles == 2 else 42)
    image = Image.open(io.BytesIO(picture.data))
    assert image.getpixel((30, 5)) == (128, 128, 128), "a gap"
    assert image.getpixel((61, picture.height - 1)) == newest


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_what_cannot_be_copied_is_not_run_and_a_function_helps(batch):
    with batch(2, CartPoleEnv) as base:
        inspector = TransformInspector(TransformedEnv(base, StepCounter()))
        assert inspector.model.moments == () and inspector.model.note == (
            f"Nothing was run: the envs of a {batch.__name__} cannot be copied. Fix: pass a function that makes the "
            "env, TransformInspector(make_env), which gets one of its own."
        )
        assert inspector.model.boxes[0].writes[0] == '"step_count"'
        with pytest.raises(RuntimeError, match=r"^Nothing was run"):
            inspector.run("step")
    owned = TransformInspector(lambda: chain(StepCounter(), base=lambda: SerialEnv(2, CartPoleEnv)), seed=0)
    assert [m.label for m in owned.model.moments] == ["reset", "step 1"]


def test_bad_arguments():
    with pytest.raises(TypeError) as error:
        TransformInspector(CartPoleEnv())
    assert str(error.value) == (
        "TransformInspector takes a TransformedEnv, or a function that makes one, got a CartPoleEnv. "
        "It has no transforms. Fix: TransformInspector(TransformedEnv(env, transform))."
    )
    with pytest.raises(TypeError, match=r"has no argument 'sed'; it takes env, seed, steps\.$"):
        TransformInspector(chain(), sed=1)
    with pytest.raises(ValueError, match=r"^steps must be 0 or more, got -1\.$"):
        TransformInspector(chain(), steps=-1)
    with pytest.raises(ValueError, match=r"^seed must be 0 or more, got -1\.$"):
        TransformInspector(chain(), seed=-1)
    for bad in ("3", 3.0, True):
        with pytest.raises(TypeError, match=rf"^steps must be a whole number, 0 or more, got {bad!r}\.$"):
            TransformInspector(chain(), steps=bad)
        with pytest.raises(TypeError, match=rf"^seed must be a whole number, 0 or more, got {bad!r}\.$"):
            TransformInspector(chain(), seed=bad)


TAKES = "TransformInspector takes a TransformedEnv, or a function that makes one, got "
WRAP = "Fix: TransformInspector(TransformedEnv(base_env, transform))."


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (StepCounter(), f"a StepCounter. {WRAP}"),
        (Compose(StepCounter()), f"a Compose. {WRAP}"),
        (TransformedEnv, f"the class TransformedEnv. {WRAP}"),
        ("Pendulum-v1", f"a str. {WRAP}"),
        (lambda: None, f"a NoneType. {WRAP}"),
        (CartPoleEnv, "a CartPoleEnv. It has no transforms. Fix: TransformInspector(TransformedEnv(env, transform))."),
    ],
)
def test_what_is_no_env_with_transforms_is_refused(env, says):
    with pytest.raises(TypeError) as error:
        TransformInspector(env)
    assert str(error.value) == TAKES + says


def test_where_the_transforms_are_is_said_when_they_are_elsewhere():
    env = chain(StepCounter())
    for transform in (env.transform, env.transform[0]):
        with pytest.raises(TypeError) as error:
            TransformInspector(transform)
        name = type(transform).__name__
        assert str(error.value) == f"{TAKES}a {name}. It is in an env. Fix: TransformInspector(env)."
    with SerialEnv(2, lambda: chain(StepCounter())) as batch, pytest.raises(TypeError) as error:
        TransformInspector(batch)
    assert str(error.value) == (
        f"{TAKES}a SerialEnv. Transforms of the envs in it are not seen from here. Fix: TransformInspector(make_env), "
        "with the function that makes one of them."
    )


def test_what_is_no_tensordict_is_no_moment():
    inspector = TransformInspector(chain(StepCounter()), seed=0)
    with pytest.raises(TypeError) as error:
        inspector.run("step", {"action": 1.0})
    assert str(error.value) == (
        "tensordict must be a TensorDict or None, got a dict. Fix: "
        'inspector.run("step", env.rand_action(env.reset())), or leave it out.'
    )
    assert [moment.label for moment in inspector.model.moments] == ["reset", "step 1"]


@pytest.mark.parametrize("num_envs", [0, 2])
def test_the_copy_gives_what_the_env_would(num_envs):
    env, same = (TransformedEnv(GymEnv("CartPole-v1", num_envs=num_envs), StepCounter()) for _ in range(2))
    same.set_seed(4)
    start = same.reset()
    inspector = TransformInspector(env, seed=4, steps=0)
    given = same.rand_action(start.clone())
    moment = inspector.run("step", given)
    expected = same.step(given)["next", "observation"].flatten()
    shown = value(moment.forward[1], '"observation"').text
    assert shown.startswith("[" + ", ".join(f"{x:.4g}" for x in expected[:4].tolist())), shown
