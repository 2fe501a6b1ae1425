# SPDX-License-Identifier: Apache-2.0
"""Validation experiments of Mengacci et al. with compliant actuators, repeated in simulation.

:data:`EXPERIMENTS` lists them by name. Each returns an :class:`.ExperimentResult` with curves,
figures and checks of statements of the paper (:mod:`multipanda_py.actuator` cites it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np

from multipanda_py import registry
from multipanda_py.identification.actuators.learning_control import (
    learn_and_transfer,
    minimum_jerk,
)
from multipanda_py.identification.actuators.report import Check, Curve, ExperimentResult, Panel
from multipanda_py.identification.actuators.robots import (
    BOX,
    BOX_EDGE,
    FIVE_LINKS,
    GRAVITY_ALONG_AXES,
    GRAVITY_VECTOR,
    PENDULUM,
    PRESETS,
    TIP,
    TWO_LINKS,
    SpringMotion,
    chain_model,
    follow,
    identified,
    offset,
    robot_of,
)
from multipanda_py.simulation.actuators import CompliantRobot, OperationMode
from multipanda_py.state import Matrix, Vector

STEP_ANGLE = 0.8
"""Commanded angle of the step responses [rad]."""
PAPER_PRESETS = {
    "sea": (0.0, 0.0), "awas2": (0.005, 0.04), "bavs": (0.001, 0.22), "qbmove": (0.2, 0.6),
}  # fmt: skip
"""Soft and stiff preset of every actuator type in the paper [m for awas2, else rad]."""
STEP_RESPONSE_TIMES = {"sea": 0.2, "awas2": 0.2, "bavs": 1.0, "qbmove": 1.0}
"""Duration of the step response in the first plot [s]. It is short for stiff actuators, which
oscillate at about 200 Hz."""
SEA_STIFFNESS = (200.0, 400.0)
"""Spring constants of a soft and of a stiff series elastic actuator [Nm/rad]."""
CHIRP_ANGLE, MIN_FREQUENCY, MAX_FREQUENCY = 0.15, 0.5, 6.0
"""Amplitude, first and last frequency of the chirp [rad, Hz, Hz]."""
# Maximum difference between the commanded equilibrium and the one at which the springs carry the
# weight at the rest position of the link [rad].
_EQUILIBRIUM_TOLERANCE = 1e-3
_HALF_POWER = 1.0 / math.sqrt(2.0)


def steps(quick: bool) -> ExperimentResult:
    """Step the equilibrium angle of a pendulum by 0.8 rad, with four types of elastic actuators.

    Each type has soft and then stiff springs.

    Args:
        quick: True to simulate 2 s per step response, False for 4 s.
    """
    seconds = 2.0 if quick else 4.0
    model = chain_model([replace(PENDULUM, damping=0.02, friction=0.0)])
    panels, figures, sags, errors = [], {}, {}, []
    for kind, presets in PAPER_PRESETS.items():
        motions = {}
        for k, (name, preset) in enumerate(zip(PRESETS, presets)):
            params = {"stiffness": SEA_STIFFNESS[k]} if kind == "sea" else None
            springs = registry.find("actuators", kind)(1, params)
            robot = robot_of(model, springs, preset, OperationMode.EQUILIBRIUM)
            motion = follow(robot, lambda _: STEP_ANGLE, seconds)
            last = motion.q[-round(0.2 * len(motion.q)) :, 0]
            rest = 0.5 * float(last.min() + last.max())
            weight = PENDULUM.mass * 9.81 * PENDULUM.centre * math.sin(rest)
            # The link rests correctly if its springs carry its weight at the commanded
            # equilibrium.
            errors.append(abs(springs.equilibrium_for(rest, weight, preset)[0] - STEP_ANGLE))
            sags[kind, name] = STEP_ANGLE - rest
            figures[f"{kind} {name} sag rad"] = STEP_ANGLE - rest
            motions[name] = motion
        for part, start, end in (
            ("step response", 0.0, STEP_RESPONSE_TIMES[kind]), ("at rest", 0.8 * seconds, seconds)
        ):  # fmt: skip
            aim = Curve("commanded", np.array([start, end]), np.full(2, STEP_ANGLE), "k:")
            drawn = [
                Curve(name, *_first_joint_between(motion, motion.q, start, end))
                for name, motion in reversed(motions.items())
            ]
            panels.append(Panel(f"{kind}, {part}", "q [rad]", (*drawn, aim)))
    soft = sorted(PAPER_PRESETS, key=lambda kind: -sags[kind, "soft"])
    stiffer = all(sags[kind, "stiff"] < sags[kind, "soft"] for kind in PAPER_PRESETS)
    checks = (
        Check("soft springs of AwAS-II and qbMove sag most under the weight",
              ", ".join(f"{kind} {sags[kind, 'soft']:.4f} rad" for kind in soft),
              set(soft[:2]) == {"awas2", "qbmove"}),
        Check("each stiff actuator comes closer to 0.8 rad than the soft one",
              ", ".join(f"{kind} {sags[kind, 'stiff']:.4f} rad" for kind in soft), stiffer),
        Check("all links rest within 0.001 rad of the static equilibrium under gravity",
              f"{max(errors):.2g} rad", max(errors) <= _EQUILIBRIUM_TOLERANCE),
    )  # fmt: skip
    return ExperimentResult(
        "steps", "Four actuators, a step of 0.8 rad",
        "0.2 kg at 0.04 m in the vertical plane, mode 3, damping 0.02 Nm s/rad; SEA with 200 and "
        "400 Nm/rad, others with the paper's presets.",
        "The link's regulation is affected by gravity in the soft cases of AwAS-II and qbMove; "
        "it is performed correctly in the stiff cases.",
        checks, tuple(panels), figures,
    )  # fmt: skip


def chirp(quick: bool) -> ExperimentResult:
    """Command a chirp of the equilibrium angle of one joint from 0.5 to 6 Hz.

    The joint has soft and then stiff springs.

    Args:
        quick: True for a chirp of 5 s, False for 20 s.
    """
    seconds = 5.0 if quick else 20.0
    rise = (MAX_FREQUENCY - MIN_FREQUENCY) / seconds
    panels, responses, peaks, bands = [], [], {}, {}
    figures: dict[str, float] = {}
    for name, preset in PRESETS.items():
        springs = identified(1)
        robot = robot_of(chain_model([PENDULUM], step=2e-3), springs, preset)

        def swept(t: float) -> float:
            return CHIRP_ANGLE * math.sin(math.tau * (MIN_FREQUENCY + 0.5 * rise * t) * t)

        motion = follow(robot, swept, seconds, 1.0, offset(springs, preset))
        peaks[name] = float(np.abs(motion.equilibrium - motion.q).max())
        frequency, gain = gains(motion, rise)
        bands[name] = bandwidth(frequency, gain)
        top = int(np.argmax(gain))
        figures |= {
            f"{name} peak deflection rad": peaks[name], f"{name} sweep ends Hz": frequency[-1],
            f"{name} largest gain": gain[top], f"{name} largest gain at Hz": frequency[top],
        }  # fmt: skip
        if bands[name] < math.inf:
            figures[f"{name} bandwidth Hz"] = bands[name]
        panels += [
            Panel(f"{name}, {part}", "angle [rad]", tuple(
                Curve(label, *_first_joint_between(motion, angles, start, end))
                for label, angles in (("equilibrium of the motors", motion.equilibrium),
                                      ("link", motion.q))
            ))
            for part, start, end in (
                ("beginning of the sweep", 0.0, 0.2 * seconds),
                ("end of the sweep", seconds - 1.0, seconds),
            )
        ]  # fmt: skip
        responses.append(
            Panel(f"{name}: ratio of link amplitude to commanded amplitude", "gain", (
                Curve("gain", frequency, gain, ".-"),
                Curve("3 dB below the first gain", frequency[[0, -1]],
                      np.full(2, _HALF_POWER * gain[0]), "k:"),
            ), "frequency [Hz]")
        )  # fmt: skip
    summary = ", ".join(
        f"{name} {band:.2f} Hz" if band < math.inf
        else f"{name} above {figures[f'{name} sweep ends Hz']:.2f} Hz, where the sweep ends"
        for name, band in bands.items()
    )  # fmt: skip
    checks = (
        Check("soft springs deflect more than stiff ones",
              ", ".join(f"{name} {peak:.3f} rad" for name, peak in peaks.items()),
              peaks["soft"] > peaks["stiff"]),
        Check("soft springs have the smaller bandwidth", summary, bands["soft"] < bands["stiff"]),
    )  # fmt: skip
    return ExperimentResult(
        "chirp", "Frequency response of one qbMove",
        f"0.15 rad from 0.5 to 6 Hz in {seconds:g} s, mode 6, springs as identified for the "
        "paper's first joint, damping 0.065 Nm s/rad and friction 0.025 Nm of the link.",
        "Peak deflections are similar in simulation and reality, soft and stiff; bandwidths "
        "differ slightly because damping and friction of the link are not tuned.",
        checks, (*panels, *responses), figures,
    )  # fmt: skip


def gains(motion: SpringMotion, rise: float) -> tuple[Vector, Vector]:
    """Return the ratio of link amplitude to commanded amplitude for each half period of a chirp.

    Args:
        motion: Motion of one joint under a chirp that starts at 0.5 Hz.
        rise: Increase of the chirp frequency per second [Hz/s].

    Returns:
        Frequencies, (k,) [Hz], and amplitude ratios, (k,).
    """
    turning_points = np.flatnonzero(np.diff(np.sign(np.diff(motion.commanded[:, 0])))) + 1
    frequency, gain = [], []
    for start, end in zip(turning_points[:-2], turning_points[2:]):
        swing = np.ptp(motion.q[start:end, 0]) / np.ptp(motion.commanded[start:end, 0])
        frequency.append(MIN_FREQUENCY + rise * 0.5 * (motion.time[start] + motion.time[end]))
        gain.append(swing)
    return np.array(frequency), np.array(gain)


def bandwidth(frequency: Vector, gain: Vector) -> float:
    """Return the frequency [Hz] above which the gain stays 3 dB or more below its first value.

    The result is inf if the gain never decreases by 3 dB.

    Args:
        frequency: Increasing frequencies, (n,) [Hz].
        gain: Gain at each frequency, (n,).
    """
    gain = gain / gain[0]
    last = int(np.flatnonzero(gain >= _HALF_POWER)[-1])
    if last + 1 == len(gain):
        return math.inf
    fraction = (gain[last] - _HALF_POWER) / (gain[last] - gain[last + 1])
    return float(frequency[last] + fraction * (frequency[last + 1] - frequency[last]))


def _first_joint_between(
    motion: SpringMotion, angles: Matrix, start: float, end: float
) -> tuple[Vector, Vector]:
    """Return times [s] and angles [rad] of the first joint, (k,) each."""
    rows = (motion.time >= start) & (motion.time <= end)
    return motion.time[rows], angles[rows, 0]


AMPLITUDE, ANGULAR_FREQUENCY = 0.8, 0.8
"""Amplitude of steps and sinusoid [rad], angular frequency of the sinusoid [rad/s]."""
TIME_STEP = 2e-3
"""Time step of the simulation [s]."""
_REST_TOLERANCE = 0.06
"""Tolerance of the rest position [rad]. Joint friction of 0.025 Nm stops soft
springs within it."""


def horizontal(quick: bool) -> ExperimentResult:
    """Step the equilibrium angles of two joints by 0.8 rad, in a horizontal plane.

    The joints have soft and then stiff springs.

    Args:
        quick: True to simulate 2 s per step response, False for 4 s.
    """
    model = chain_model(TWO_LINKS, GRAVITY_ALONG_AXES, step=TIME_STEP)
    seconds, motions = 2.0 if quick else 4.0, {}
    for name, preset in PRESETS.items():
        springs = identified(2)
        robot = robot_of(model, springs, preset)
        rest_offset = offset(springs, preset)
        follow(robot, lambda _: 0.0, 0.5, rest_offset=rest_offset)
        motions[name] = follow(robot, lambda _: AMPLITUDE, seconds, 0.0, rest_offset)
    rests = {name: float(np.abs(AMPLITUDE - one.q[-1]).max()) for name, one in motions.items()}
    swings = {name: _crossings_of_final_position(motion) for name, motion in motions.items()}
    checks = (
        Check(f"links come to rest at 0.8 rad, within {_REST_TOLERANCE:g} rad",
              ", ".join(f"{name} {rest:.3f} rad" for name, rest in rests.items()),
              max(rests.values()) <= _REST_TOLERANCE),
        Check("stiff links oscillate more often than soft ones with equal damping",
              ", ".join(f"{name} {count} crossings of the rest" for name, count in swings.items()),
              swings["stiff"] > swings["soft"]),
    )  # fmt: skip
    return ExperimentResult(
        "horizontal", "Two joints in a horizontal plane, steps of 0.8 rad",
        "Mode 6, identified springs, damping 0.065 Nm s/rad and friction 0.025 Nm of links. The "
        "paper does not state their masses. The motor commands compensate the deflection of "
        "unequal springs at rest.",
        "Equilibrium and link reach the desired position. In simulation the stiff links oscillate "
        "strongly because their damping does not grow with the preset as in reality.",
        checks, _panels(motions), {f"{name} rest error rad": rest for name, rest in rests.items()},
    )  # fmt: skip


def vertical(quick: bool) -> ExperimentResult:
    """Command sinusoidal equilibrium angles of two joints that move under gravity.

    The joints have soft and then stiff springs.

    Args:
        quick: True to simulate 0.3 periods of the sinusoid, False for 2 periods.
    """
    model, motions = chain_model(TWO_LINKS, GRAVITY_VECTOR, step=TIME_STEP), {}
    seconds = math.tau / ANGULAR_FREQUENCY * (0.3 if quick else 2.0)
    for name, preset in PRESETS.items():
        springs = identified(2)
        robot = robot_of(model, springs, preset)
        rest_offset = offset(springs, preset)
        motions[name] = follow(
            robot, lambda t: AMPLITUDE * math.sin(ANGULAR_FREQUENCY * t), seconds, 1.0, rest_offset
        )
    errors = {name: np.abs(one.commanded - one.q).max(axis=0) for name, one in motions.items()}
    motors = max(np.abs(one.commanded - one.equilibrium).max() for one in motions.values())
    summary = "; ".join(
        f"{name}: joint 1 {error[0]:.3f} rad, joint 2 {error[1]:.3f} rad"
        for name, error in errors.items()
    )
    checks = (
        Check("motors follow the command within 0.05 rad", f"{motors:.3f} rad",
              bool(motors <= 0.05)),
        Check("soft links deviate from the command under gravity, stiff ones less", summary,
              bool((errors["soft"] > errors["stiff"]).all())),
        Check("the deviation of a soft link exceeds 0.1 rad", summary,
              bool(errors["soft"].max() > 0.1)),
    )  # fmt: skip
    figures = {
        f"{name} joint {k + 1} largest error rad": float(value)
        for name, error in errors.items()
        for k, value in enumerate(error)
    }
    return ExperimentResult(
        "vertical", "Two joints in a vertical plane, 0.8 sin(0.8 t) rad",
        "Mode 6, identified springs; links and friction as in the horizontal plane.",
        "The soft link misses the desired position although its equilibrium tracks the reference, "
        "because gravity deflects the springs. The real platform behaves likewise.",
        checks, _panels(motions), figures,
    )  # fmt: skip


def _panels(motions: dict[str, SpringMotion]) -> tuple[Panel, ...]:
    return tuple(
        Panel(f"joint {k + 1}, {name}", "angle [rad]", (
            Curve("commanded", motion.time, motion.commanded[:, k], "k:"),
            Curve("equilibrium of the motors", motion.time, motion.equilibrium[:, k]),
            Curve("link", motion.time, motion.q[:, k]),
        ))
        for k in range(2) for name, motion in motions.items()
    )  # fmt: skip


def _crossings_of_final_position(motion: SpringMotion, noise_band: float = 0.02) -> int:
    away = motion.q[:, 0] - motion.q[-1, 0]
    # Samples within noise_band [rad] of the final position are not counted.
    sides = np.sign(away[np.abs(away) > noise_band])
    return int(np.count_nonzero(np.diff(sides)))


TIP_RADIUS = 0.03
"""Radius of the tip [m]."""
START_CONFIGURATION = (0.2, 0.0, 0.0, -1.2, 0.0)
"""Start configuration with little weight on the shoulder, which would otherwise stiffen its
springs [rad]."""
PATH_LENGTH = 0.11
"""Displacement of the tip along x [m]."""
START_DISTANCE = 0.03
"""Initial distance between tip and box [m]."""
IK_GAIN = 10.0
"""Gain of the inverse kinematics [1/s]."""
MIN_DISPLACEMENT, MAX_DISPLACEMENT = 0.015, 0.01
"""Displacement of the box that the stiff arm has to exceed, and below which the soft arm has to
stay [m]."""


def closed_loop_ik(model: mujoco.MjModel, q: Vector, path: Matrix, step: float) -> Matrix:
    r"""Return joint angles that move the tip along a path, by closed-loop inverse kinematics.

    .. math:: \dot q = J^+ \left(\dot x^* + K (x^* - x(q))\right).

    Symbols: desired tip position :math:`x^*`, actual tip position x(q), pseudoinverse :math:`J^+`
    of its Jacobian, and gain K.

    Args:
        model: Model with a site ``tip``, whose first joints are those of the arm.
        q: Initial joint angles, (n,) [rad].
        path: Tip positions in the world frame, (k, 3) [m].
        step: Time between path points [s].

    Returns:
        Joint angles for each path point, (k, n) [rad].

    Source: Siciliano et al., Robotics: modelling, planning and control, 2010, section 3.7.
    """
    data, site = mujoco.MjData(model), model.site(TIP).id
    jacobian, q = np.empty((3, model.nv)), np.array(q, dtype=np.float64)
    n, result = len(q), np.empty((len(path), len(q)))
    before = path[0]
    for k, desired in enumerate(path):
        data.qpos[:n] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, jacobian, None, site)
        speed = (desired - before) / step + IK_GAIN * (before - data.site_xpos[site])
        q = q + step * np.linalg.pinv(jacobian[:, :n]).dot(speed)
        result[k], before = q, desired
    return result


def tip_at(model: mujoco.MjModel, q: Vector) -> Vector:
    """Return the position of the site ``tip`` in the world frame, (3,) [m]."""
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    result: Vector = data.site(TIP).xpos.copy()
    return result


def weights(model: mujoco.MjModel, q: Matrix) -> Matrix:
    """Return the gravity torques at each joint configuration, (k, n) [Nm]."""
    data, weights = mujoco.MjData(model), np.empty_like(q)
    for k, row in enumerate(q):
        data.qpos[: q.shape[1]] = row
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        weights[k] = data.qfrc_bias[: q.shape[1]]
    return weights


def _push_box(robot: CompliantRobot, equilibrium_angles: Matrix) -> tuple[Vector, Vector]:
    """Return the x positions of tip and box in the world frame after each step, (k,) each [m]."""
    tips, positions = np.empty(len(equilibrium_angles)), np.empty(len(equilibrium_angles))
    for k, aim in enumerate(equilibrium_angles):
        robot.joints.command("equilibrium_position", aim)
        robot.step()
        tips[k] = robot.data.site(TIP).xpos[0]
        positions[k] = robot.data.body(BOX).xpos[0]
    return tips, positions


def push_a_box(quick: bool) -> ExperimentResult:
    """Move the tip of a five-joint arm against a box, with soft and stiff springs.

    Args:
        quick: True for a motion of 2 s and a pause of 1 s, False for 5 s and 2 s.
    """
    seconds, hold = (2.0, 1.0) if quick else (5.0, 2.0)
    start = np.array(START_CONFIGURATION)
    height = 0.5 * BOX_EDGE - float(tip_at(chain_model(FIVE_LINKS, height=0.0), start)[2])
    arm = chain_model(FIVE_LINKS, step=TIME_STEP, height=height)
    tip = tip_at(arm, start)
    face = tip[0] + TIP_RADIUS + START_DISTANCE
    moments: Vector = TIME_STEP * np.arange(1.0, round((seconds + hold) / TIME_STEP) + 1.0)
    path = np.repeat(tip[None], len(moments), axis=0)
    path[:, 0] += PATH_LENGTH * minimum_jerk(moments, seconds)
    angles = closed_loop_ik(arm, start, path, TIME_STEP)
    torques = weights(arm, angles)
    springs = identified(5, joint=1)
    moved, reached, curves, boxes = {}, {}, [], []
    for name, preset in PRESETS.items():
        aims = np.array([
            springs.equilibrium_for(q, torque, preset) for q, torque in zip(angles, torques)
        ])  # fmt: skip
        model = chain_model(
            FIVE_LINKS,
            step=TIME_STEP,
            height=height,
            tip_radius=TIP_RADIUS,
            box_at=face + 0.5 * BOX_EDGE,
        )
        robot = robot_of(model, springs, preset)
        robot.reset(start, torques[0])
        tips, positions = _push_box(robot, aims)
        moved[name] = positions[-1] - positions[0]
        reached[name] = path[-1, 0] - tips[-1]
        curves.append(Curve(name, moments, tips))
        boxes.append(Curve(name, moments, positions - positions[0]))
    checks = (
        Check(f"the box stops the soft arm and moves by {MAX_DISPLACEMENT:g} m or less",
              f"{moved['soft']:.4f} m", moved["soft"] <= MAX_DISPLACEMENT),
        Check(f"the stiff arm pushes the box by {MIN_DISPLACEMENT:g} m or more",
              f"{moved['stiff']:.4f} m", moved["stiff"] >= MIN_DISPLACEMENT),
        Check("the stiff arm comes closer to the desired tip position",
              ", ".join(f"{name} {left:.3f} m error" for name, left in reached.items()),
              abs(reached["stiff"]) < abs(reached["soft"])),
    )  # fmt: skip
    figures = {f"{name} box moved m": float(displacement) for name, displacement in moved.items()}
    figures |= {f"{name} tip left m": float(left) for name, left in reached.items()}
    return ExperimentResult(
        "pushing", "Five joints pushing a box",
        f"Closed-loop inverse kinematics for a straight path of {PATH_LENGTH:g} m, equilibria "
        "that compensate the spring deflection under the weight of the arm, mode 6, springs as "
        "identified for the paper's second joint, and a box of 2 kg and 0.265 m on ground with "
        "friction 0.23. The paper does not state the dimensions of the arm.",
        "The box stops the end effector of the soft arm. The stiff arm moves the box and reaches "
        "the desired position.",
        checks,
        (
            Panel("tip", "x [m]", (Curve("wanted", moments, path[:, 0], "k:"), *curves)),
            Panel("path of the box", "x [m]", tuple(boxes)),
        ),
        figures,
    )  # fmt: skip


EXPERIMENTS: dict[str, Callable[[bool], ExperimentResult]] = {
    "steps": steps, "chirp": chirp, "horizontal": horizontal, "vertical": vertical,
    "pushing": push_a_box, "learning": learn_and_transfer,
}  # fmt: skip
"""Experiments by name. The argument is True to shorten the experiment."""
