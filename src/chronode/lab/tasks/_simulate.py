"""Simulated robot roll-outs: PPO policies are trained in Gymnasium and then run.

A build is a folder: `build.json` describes it, `policies/age_1.safetensors`, ... hold the policies at several ages of
training, and `trace_0000.npy`, ... the roll-outs. Every age starts from the file of the previous one, and every
roll-out has its own seed: an interrupted build resumes and produces the same files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...settings import one_of, whole
from ...storage import read_json, replacing, write_json
from ...system import threads
from ..datasets._download import cache_folder, keep

if TYPE_CHECKING:
    from rich.console import Console

Tensors = dict[str, torch.Tensor]
_HORIZON = 2048  # frames between two updates of a policy
_BATCH = 64
_CLIP = 10.0  # limit of normalized observations


@dataclass(frozen=True)
class Robot:
    """Settings of the simulation for a task.

    Attributes:
        environment: Name of the Gymnasium environment.
        rollouts: Number of roll-outs.
        random_actions: Share of actions that are drawn at random.
        ages: Fractions of training at which a policy is saved; each roll-out draws one of them.
    """

    environment: str
    rollouts: int
    random_actions: float
    ages: tuple[float, ...]


ROBOTS = {
    # The authors of mmRNN saved the policies after 562, 822, 923 and 1104 iterations.
    "walker2d": Robot("Walker2d-v5", 400, 0.01, (562 / 1104, 822 / 1104, 923 / 1104, 1.0)),
    "half_cheetah": Robot("HalfCheetah-v5", 25, 0.05, (1.0,)),
}


def build(
    name: str,
    *,
    steps: int = 2_000_000,
    rollouts: int | None = None,
    frames: int = 1000,
    seed: int = 0,
    output: Path | None = None,
    console: Console | None = None,
) -> Path:
    """Trains the policies, collects the roll-outs and returns the folder. Existing files are not built again.

    Args:
        name: "walker2d" or "half_cheetah".
        steps: Training frames of the oldest policy (rounded up by PPO to a multiple of the 2,048 between two updates).
        rollouts: Number of roll-outs; that of the task if None.
        frames: Maximum frames of a roll-out (Walker2d ends when it falls).
        seed: Random seed.
        output: The folder; None: where `chronode data` stores this data set.
        console: Console for progress; None for the terminal.
    """
    robot = ROBOTS[one_of("name", name, ROBOTS)]
    count = robot.rollouts if rollouts is None else whole("rollouts", rollouts, at_least=1)
    whole("steps", steps, at_least=_BATCH)
    whole("frames", frames, at_least=2)
    whole("seed", seed, at_least=0)
    _need_libraries()
    from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    top = cache_folder() / name if output is None else Path(output)
    _claim(top, {"name": name, "steps": steps, "frames": frames, "seed": seed})
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TimeElapsedColumn())
    # The networks are too small for several threads.
    with threads(1), Progress(TextColumn(name), *columns, console=console) as progress:
        training = progress.add_task("training", total=steps)
        walking = progress.add_task("roll-outs", total=count)
        policies = _train(robot, top, steps, seed, lambda done: progress.update(training, completed=done))
        for number in range(count):
            trace = top / f"trace_{number:04d}.npy"
            if not trace.is_file():
                frames_seen = roll_out(robot, policies, frames, seed, number)
                with replacing(trace) as draft:
                    np.save(draft, frames_seen)
            progress.update(walking, completed=number + 1)
    if output is None:
        keep(name)
    return top


def roll_out(robot: Robot, policies: list[Tensors], frames: int, seed: int, number: int) -> NDArray[np.float32]:
    """Simulates one roll-out `(frames, observations)` until the robot falls or `frames` is reached."""
    import gymnasium

    rng = np.random.default_rng((seed, number))
    act = actor(policies[int(rng.integers(len(policies)))])
    environment = gymnasium.make(robot.environment)
    space: Any = environment.action_space
    observation, _ = environment.reset(seed=int(rng.integers(2**31)))
    shown = [observation]
    while len(shown) < frames:
        at_random = rng.uniform() < robot.random_actions
        action = rng.uniform(space.low, space.high) if at_random else np.clip(act(observation), space.low, space.high)
        observation, _, fallen, _, _ = environment.step(action.astype(np.float32))
        shown.append(observation)
        if fallen:
            break
    environment.close()
    return np.array(shown, dtype=np.float32)


def actor(policy: Tensors) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Returns the policy without its noise, as a function from an observation to an action.

    It is the `MlpPolicy` of Stable-Baselines3 in NumPy: for single frames, the overhead of torch calls would exceed the
    computation itself.
    """
    names = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    layers = [
        tuple(policy[f"policy.{name}.{part}"].numpy().astype(np.float64) for part in ("weight", "bias"))
        for name in names
    ]
    mean, var = policy["observations.mean"].numpy(), policy["observations.var"].numpy()

    def act(observation: NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.clip((observation - mean) / np.sqrt(var + 1e-8), -_CLIP, _CLIP)
        for weight, bias in layers[:-1]:
            values = np.tanh(weight @ values + bias)
        weight, bias = layers[-1]
        return weight @ values + bias

    return act


def _train(robot: Robot, top: Path, steps: int, seed: int, report: Callable[[int], None]) -> list[Tensors]:
    """Returns the policies of all ages; those with existing files are not trained again."""
    from safetensors.torch import load_file, save_file

    policies: list[Tensors] = []
    begin = 0
    for age, fraction in enumerate(robot.ages, start=1):
        end, path = round(fraction * steps), top / "policies" / f"age_{age}.safetensors"
        if not path.is_file():
            before = policies[-1] if policies else None
            policy = _grown(robot, before, end - begin, (seed, age), lambda done, begin=begin: report(begin + done))
            with replacing(path) as draft:
                save_file(policy, draft)
        policies.append(load_file(path))
        report(end)
        begin = end
    return policies


def _grown(
    robot: Robot, before: Tensors | None, steps: int, seed: tuple[int, int], report: Callable[[int], None]
) -> Tensors:
    """Returns the policy after `steps` more training frames with PPO (its authors' settings for MuJoCo)."""
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    class Report(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % 256 == 0:
                report(min(self.num_timesteps, steps))
            return True

    world = VecNormalize(DummyVecEnv([lambda: gymnasium.make(robot.environment)]), clip_obs=_CLIP)
    horizon = min(_HORIZON, steps // _BATCH * _BATCH or steps)
    own_seed = int(np.random.default_rng(seed).integers(2**31))
    ppo = PPO("MlpPolicy", world, n_steps=horizon, batch_size=min(_BATCH, horizon), seed=own_seed, device="cpu")
    ppo.set_logger(Logger(folder=None, output_formats=[]))  # the usual one leaves a folder behind
    if before is not None:
        _restore(ppo.policy, world, before)
    ppo.learn(steps, callback=Report())
    world.close()
    return _stored(ppo.policy, world)


def _stored(policy: Any, world: Any) -> Tensors:
    """Returns everything the next age needs as tensors: weights, optimizer state, scales of the observations."""
    tensors = {f"policy.{name}": value for name, value in policy.state_dict().items()}
    for number, memory in policy.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in memory.items()}
    for name, scale in (("observations", world.obs_rms), ("returns", world.ret_rms)):
        tensors |= {f"{name}.{part}": torch.as_tensor(getattr(scale, part)) for part in ("mean", "var", "count")}
    return {name: value.detach().clone().contiguous() for name, value in tensors.items()}


def _restore(policy: Any, world: Any, before: Tensors) -> None:
    """Restores the state returned by `_stored`."""
    policy.load_state_dict({name[7:]: value for name, value in before.items() if name.startswith("policy.")})
    memory = policy.optimizer.state_dict()
    memory["state"] = {}
    for key, value in before.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            memory["state"].setdefault(int(number), {})[name] = value.clone()
    policy.optimizer.load_state_dict(memory)
    for name, scale in (("observations", world.obs_rms), ("returns", world.ret_rms)):
        for part in ("mean", "var"):
            setattr(scale, part, before[f"{name}.{part}"].numpy().copy())
        scale.count = float(before[f"{name}.count"])


def _claim(top: Path, description: dict[str, Any]) -> None:
    """Writes the description of the build to the folder; rejects a folder with a different build."""
    path = top / "build.json"
    if path.is_file():
        try:
            existing = read_json(path)
        except ValueError as error:
            raise ValueError(f"{error} Remove the folder and build again.") from None
        if existing != description:
            raise ValueError(
                f"{top} contains a build of {existing}, not of {description}; remove it or choose another output."
            )
        return
    if any(top.glob("trace_*.npy")):
        raise ValueError(f"{top} contains roll-outs that were not built by chronode; choose another output.")
    write_json(path, description)


def _need_libraries() -> None:
    try:
        import gymnasium  # noqa: F401
        import mujoco  # noqa: F401
        import rich  # noqa: F401
        import safetensors  # noqa: F401
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise ImportError(f"building roll-outs needs {error.name}: pip install 'chronode[simulate,train]'.") from None
