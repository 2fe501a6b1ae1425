# SPDX-License-Identifier: Apache-2.0
"""Accuracy and speed of compliant joints, compared with independent equations.

    .venv/bin/python benchmarks/actuators.py            # two minutes
    .venv/bin/python benchmarks/actuators.py --quick    # without long runs

Errors are angles of links with an inertia of 0.00232 kg m^2, at time steps of 1 ms. Step times are
processor times: medians and minima over short bursts. The minima approximate an idle machine.
Cells of one and of two arms follow moving targets for ten seconds, in a separate process. The
first line has the load average.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parent.parent / "test" / "helpers"))

import numpy as np
from scipy.optimize import brentq
from spring_links import CASES, GRAVITY, INERTIA, LENGTH, MASS, exact, motors_at, pendulum, run
from spring_motors import MOTIONS, found, motors, reference

from multipanda_py import Cell, Pose, registry
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import TargetRejected
from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Qbmove, Sea
from multipanda_py.state import Vector

JOINTS = 7
BURST, BURSTS, SUBSTEPS = 10, 400, 10
ELASTIC = Path(__file__).resolve().parent.parent / "config" / "elastic_sim.yaml"


def stepped_pendulum(name: str, damping: float = 0.02) -> CompliantRobot:
    """Return a pendulum after a step of its equilibrium position to 0.8 rad."""
    kind, params, preset, _ = CASES[name]
    robot = pendulum(kind, params, damping=damping)
    if kind is not Sea:
        robot.joints.command("stiffness_preset", preset)
    robot.joints.command("equilibrium_position", 0.8)
    return robot


def springs(name: str) -> str:
    """Return the table row with the errors of a step of 0.8 rad in mode 3."""
    kind, _, preset, torque = CASES[name]
    theta, times = motors_at(kind, 0.8, preset), 1e-3 * np.arange(1, 501)
    error = np.abs(run(stepped_pendulum(name), 500)[:, 0] - exact(torque, times, theta)).max()
    weight = MASS * GRAVITY * LENGTH
    rest = brentq(lambda q: torque(q, *theta) - weight * math.sin(q), 0.3, 0.9)
    slope = (torque(rest - 1e-4, *theta) - torque(rest + 1e-4, *theta)) / 2e-4
    omega = math.sqrt((slope + weight * math.cos(rest)) / INERTIA)
    still = run(stepped_pendulum(name, 1.4 * INERTIA * omega), 100 + math.ceil(25e3 / omega))[
        -1, 0
    ]
    return f"| {name} | {error:.1e} | {abs(still - rest):.1e} |"


def energy(stiffness: float, gravity: float, seconds: int) -> str:
    """Return the table row with the maximum energy error of an undamped vibration."""
    robot = pendulum(Sea, {"stiffness": stiffness}, damping=0.0, gravity=gravity)
    robot.joints.command("equilibrium_position", 0.2)
    energies = []
    for _ in range(1000 * seconds):
        robot.step()
        lifted = MASS * gravity * LENGTH * (1.0 - math.cos(robot.q[0]))
        moved = 0.5 * INERTIA * robot.dq[0] ** 2
        energies.append(moved + 0.5 * stiffness * (0.2 - robot.q[0]) ** 2 + lifted)
    drift = np.abs(np.array(energies) / energies[0] - 1.0).max()
    return f"| {stiffness:g} Nm/rad{', with gravity' * (gravity > 0.0)} | {100.0 * drift:.4f} % |"


def microseconds(of: Callable[[], None]) -> Vector:
    """Return median and minimum processor time of a call, over short bursts [us]."""
    times = []
    for _ in range(BURSTS):
        begin = time.process_time()
        for _ in range(BURST):
            of()
        times.append((time.process_time() - begin) / BURST * 1e6)
    return np.array([np.median(times), min(times)])


def cost(kind: str) -> str:
    """Return the table row with the step times of seven joints with motors."""
    groups = [(registry.find("actuators", kind)(JOINTS), range(JOINTS))]
    motors_of_all = Motors.of(groups)
    joints = CompliantJoints(groups, JOINTS, motors_of_all, mode=6)
    low, high = joints.springs.preset_low, joints.springs.preset_high
    zero = np.zeros(JOINTS)
    compliance = np.diag(np.linspace(2.0, 30.0, JOINTS))
    joints.reset(zero, preset=low + 0.3 * (high - low))
    joints.command("equilibrium_position", np.linspace(-0.1, 0.1, JOINTS))
    joints.advance(zero, zero, zero, compliance, 1e-3)
    flow, aim = joints.flow, joints.equations.aim[1:]
    # A step of 10 ns leaves the state unchanged.
    found = [microseconds(lambda: flow.advance(1e-8, SUBSTEPS)) / SUBSTEPS]
    flow.x[1] += 1.0
    flow.v[1:] = np.copysign(motors_of_all.max_velocity, aim - flow.x[1:])
    flow.recheck_limits()
    found.append(microseconds(lambda: flow.advance(1e-8, SUBSTEPS)) / SUBSTEPS)
    joints.reset(zero, preset=low + 0.3 * (high - low))
    found.append(microseconds(lambda: joints.advance(zero, zero, zero, compliance, 1e-4) and None))
    return f"| {kind} | " + " | ".join(f"{one[0]:.1f} | {one[1]:.1f}" for one in found) + " |"


def real_time(seconds: float, step: float = 4e-3) -> str:
    """Return the speed of two links in mode 6, relative to real time."""
    robot = pendulum(Qbmove, mode=6, motors=motors(Qbmove, 2), n=2, damping=0.065, step=step)
    robot.joints.command("stiffness_preset", 0.2)
    steps, bursts = round(seconds / step), []
    begin, used = time.perf_counter(), time.process_time()
    burst = begin
    for i in range(steps):
        fraction = (i + 1) / steps
        robot.joints.command(
            "equilibrium_position", 0.8 * (10 * fraction**3 - 15 * fraction**4 + 6 * fraction**5)
        )
        robot.step()
        if (i + 1) % 25 == 0:
            bursts.append(time.perf_counter() - burst)
            burst = time.perf_counter()
    wall, cpu = time.perf_counter() - begin, time.process_time() - used
    quiet = 25 * step / np.quantile(bursts, 0.1)
    return (
        f"{seconds:g} s: {seconds / wall:.1f} "
        f"(per CPU time {seconds / cpu:.1f}, fastest tenth {quiet:.1f})"
    )


def soft_arms(arms: list[str], seconds: float) -> str:
    """Return the table row with cycle times of moving FR3 arms on soft springs."""
    config = CellConfig.from_yaml(ELASTIC).model_dump()
    config["cell"] |= {"name": f"springs_{os.getpid()}", "placement": "process"}
    config["arms"] = {arm: config["arms"][arm] for arm in arms}
    config["controllets"].pop("lifting")
    config["active"] = [f"{arm}/cartesian_impedance_controller" for arm in arms]
    for arm in arms:
        for group in config["arms"][arm]["actuators"].values():
            group["preset"] = 0.0
    with Cell(CellConfig.from_dict(config)) as cell:
        centres = {arm: cell.pose(arm) for arm in arms}
        begin = now = time.monotonic()
        while now < begin + seconds + 1.0:
            height = 0.03 * math.sin(3.0 * (now - begin))
            for arm, centre in centres.items():
                with contextlib.suppress(TargetRejected):  # the loop may be late on a busy machine
                    pose = Pose(centre.position + [0.0, 0.0, height], centre.rotation)
                    cell.set_target(arm, pose)
            time.sleep(0.02)
            now = time.monotonic()
        found = cell.statistics(round(1000 * seconds))
        faults = [cell.state(arm).fault for arm in arms if cell.state(arm).fault]
    return (
        f"| {len(arms)} | {1e3 * found.compute_p50:.2f} | {1e3 * found.compute_p99:.2f} | "
        f"{found.missed} of {found.cycles} | {found.real_time_factor:.3f} | "
        f"{', '.join(faults) or 'none'} |"
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="without long runs")
    quick = parser.parse_args().quick
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n", flush=True)
    print("| step of 0.8 rad, mode 3 | max error [rad] | error at rest [rad] |\n|---|---|---|")
    for name in CASES:
        print(springs(name), flush=True)
    seconds = 1 if quick else 10
    print(f"\n| undamped vibration, {seconds} s | max energy error |\n|---|---|")
    for stiffness, gravity in ((10.0, 0.0), (400.0, 0.0), (10.0, 9.81), (400.0, 9.81)):
        print(energy(stiffness, gravity, seconds), flush=True)
    step = 4e-5 if quick else 1e-5
    print(f"\n| mode 6, compared with steps of {1e6 * step:.0f} us | max error [rad] |\n|---|---|")
    for name, command in MOTIONS.items():
        error = np.abs(found(command) - reference(command, step)).max()
        print(f"| {name} | {error:.1e} |", flush=True)
    print(
        f"\n| {JOINTS} joints, times in us | inner step: median | min | at limits of motors and",
        end="",
    )
    print(" springs: median | min | step of the world: median | min |\n" + 7 * "|---" + "|")
    for kind in registry.built_in("actuators"):
        print(cost(kind), flush=True)
    print(
        "\n| FR3 arms on soft springs, 1 kHz | cycle: median [ms] | 99 % [ms] | missed cycles |",
        end="",
    )
    print(" times real time | faults |\n" + 6 * "|---" + "|")
    for arms in (["left"], ["left", "right"]):
        print(soft_arms(arms, 2.0 if quick else 10.0), flush=True)
    print(f"\ntimes real time, two links in mode 6, {real_time(2.0 if quick else 20.0)}")


if __name__ == "__main__":
    main()
