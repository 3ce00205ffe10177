import hashlib
import io
import json
from itertools import pairwise

import numpy as np
import pytest
from task_checks import check_batch

from chronode.lab.datasets._download import folder
from chronode.lab.tasks import _simulate as simulate
from chronode.lab.tasks import find_task, robots
from chronode.lab.tasks._simulate import ROBOTS, actor, build, roll_out

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")
pytest.importorskip("stable_baselines3")
safetensors = pytest.importorskip("safetensors.torch")
console = pytest.importorskip("rich.console")

SMALL = {"steps": 512, "rollouts": 6, "frames": 90}


def quiet():
    return console.Console(file=io.StringIO())


def contents(folder):
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build("walker2d", **SMALL, output=tmp_path_factory.mktemp("walker2d"), console=quiet())


def test_a_build_holds_policies_and_roll_outs_and_no_drafts(built):
    assert list(contents(built)) == [
        "build.json",
        *(f"policies/age_{age}.safetensors" for age in (1, 2, 3, 4)),
        *(f"trace_{number:04d}.npy" for number in range(6)),
    ]
    for file in built.glob("trace_*.npy"):
        trace = np.load(file, allow_pickle=False)
        assert trace.dtype == np.float32
        assert trace.shape[1] == 17
        assert 2 <= len(trace) <= 90
    assert json.loads((built / "build.json").read_text())["steps"] == 512


def test_a_build_that_was_stopped_resumes_to_the_same_files(built, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    def limited(name, calls):
        real, left = getattr(simulate, name), iter(range(calls))

        def stops(*args):
            if next(left, None) is None:
                raise Stopped
            return real(*args)

        return stops

    for name, calls in (("_grown", 2), ("roll_out", 3)):
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(simulate, name, limited(name, calls))
            build("walker2d", **SMALL, output=tmp_path, console=quiet())
    begun = contents(tmp_path)
    assert 0 < len([name for name in begun if name.startswith("trace")]) < 6
    build("walker2d", **SMALL, output=tmp_path, console=quiet())
    assert contents(tmp_path) == contents(built)
    assert begun.items() <= contents(built).items()


def test_a_finished_build_is_not_done_again(built, monkeypatch):
    monkeypatch.setattr(simulate, "_grown", None)
    monkeypatch.setattr(simulate, "roll_out", None)
    assert build("walker2d", **SMALL, output=built, console=quiet()) == built


def test_policies_learn_from_age_to_age(built):
    policies = [safetensors.load_file(built / "policies" / f"age_{age}.safetensors") for age in (1, 2, 3, 4)]
    weights = [policy["policy.action_net.weight"].numpy() for policy in policies]
    assert all(not np.array_equal(one, other) for one, other in pairwise(weights))
    # Adam counts its steps, and the scales count what was seen, over all ages.
    steps = [float(policy["optimizer.0.step"]) for policy in policies]
    seen = [float(policy["observations.count"]) for policy in policies]
    assert steps == sorted(steps)
    assert seen == sorted(seen)
    assert steps[0] > 0
    assert seen[-1] >= 512


def test_the_actor_is_the_librarys_policy(built):
    import gymnasium
    from stable_baselines3.common.policies import ActorCriticPolicy

    tensors = safetensors.load_file(built / "policies" / "age_4.safetensors")
    world = gymnasium.make("Walker2d-v5")
    theirs = ActorCriticPolicy(world.observation_space, world.action_space, lambda _: 0.0)
    theirs.load_state_dict({name[7:]: value for name, value in tensors.items() if name.startswith("policy.")})
    seen = np.random.default_rng(0).normal(0, 3, (20, 17))
    mean, var = tensors["observations.mean"].numpy(), tensors["observations.var"].numpy()
    scaled = np.clip((seen - mean) / np.sqrt(var + 1e-8), -10, 10)
    expected, _ = theirs.predict(scaled.astype(np.float32), deterministic=True)
    found = np.clip([actor(tensors)(row) for row in seen], world.action_space.low, world.action_space.high)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_roll_outs_differ_and_repeat(built):
    robot = ROBOTS["walker2d"]
    policies = [safetensors.load_file(file) for file in sorted((built / "policies").iterdir())]
    one, same, other = (roll_out(robot, policies, 40, 0, number) for number in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(one, np.load(built / "trace_0000.npy")[:40])
    assert not np.array_equal(one[:5], other[:5])


def test_a_folder_of_something_else_is_refused(built, tmp_path):
    with pytest.raises(ValueError, match="contains a build of .* remove it or choose another output"):
        build("walker2d", **{**SMALL, "steps": 600}, output=built)
    np.save(tmp_path / "trace_0000.npy", np.zeros((2, 17)))
    with pytest.raises(ValueError, match="contains roll-outs that were not built by chronode"):
        build("walker2d", **SMALL, output=tmp_path)
    (tmp_path / "build.json").write_text("{")
    with pytest.raises(ValueError, match="Remove the folder and build again"):
        build("walker2d", **SMALL, output=tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("walker", {}, "name='walker' is not supported.*'walker2d'"),
        ("walker2d", {"steps": 1}, "steps must be at least"),
        ("walker2d", {"rollouts": 0}, "rollouts must be at least 1"),
        ("walker2d", {"frames": 1}, "frames must be at least 2"),
        ("walker2d", {"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_settings_are_reported_before_anything_is_written(tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        build(name, output=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_progress_is_shown(built):
    screen = quiet()
    build("walker2d", **SMALL, output=built, console=screen)
    shown = screen.file.getvalue()
    assert "training" in shown
    assert "roll-outs" in shown
    assert "100%" in shown


def test_the_task_reads_what_was_built(built, monkeypatch):
    monkeypatch.setattr(robots, "folder", lambda name: built)
    monkeypatch.setattr(robots, "WALKER_PARTS", {"train": range(4), "valid": range(4, 5), "test": range(5, 6)})
    parts = find_task("walker2d").load(length=8, stride=8)
    check_batch(parts)
    first = np.load(built / "trace_0000.npy")
    rows = parts.train[0].times.astype(int)
    np.testing.assert_array_equal(parts.train[0].values, first[rows])
    np.testing.assert_array_equal(parts.train[0].target, first[rows + 1])


def test_without_an_output_the_data_set_is_kept_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("CHRONODE_DATA_MIRROR", raising=False)
    monkeypatch.setenv("CHRONODE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="chronode data build walker2d"):
        find_task("walker2d").load()
    top = build("walker2d", steps=64, rollouts=2, frames=10, console=quiet())
    assert top == tmp_path / "walker2d" == folder("walker2d")
    with pytest.raises(ValueError, match="trace_0002.npy: no such roll-out; build them"):
        find_task("walker2d").load()
    build("walker2d", steps=64, rollouts=3, frames=10, console=quiet())
    with pytest.raises(ValueError, match="trace_0003.npy: no such roll-out; build them"):
        find_task("walker2d").load()


def test_a_cheetah_runs_to_the_last_frame(tmp_path):
    top = build("half_cheetah", steps=128, rollouts=2, frames=60, output=tmp_path, console=quiet())
    assert [np.load(top / f"trace_{number:04d}.npy").shape for number in range(2)] == [(60, 17)] * 2
