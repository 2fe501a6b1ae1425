# SPDX-License-Identifier: Apache-2.0
"""Every controllet before obstacles, at full speed and on a late arm; distances are MuJoCo's."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from clearance import Clearance
from configurations import READY
from long_form import every_nth

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, TargetRejected
from multipanda_py.pose import Pose

pytestmark = pytest.mark.inline

STRETCHED = np.array([1.0, -0.6, 0, -1.2, 0, 1.8, 0.785])
LATE = {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2}
CLEARANCE = 0.005
ABORTED, BLOCKED = 3.0, 5.0
ALL = {"fixed_objects": "all"}
BOX = {"box": {"shape": "box", "size": [0.1, 0.1, 0.3], "position": [0.2, 0.68, 0.4]}}
SCENE = {
    "box": {"shape": "box", "size": [0.1, 0.25, 0.1], "position": [0.5, 0.3, 0.1]},
    "post": {"shape": "cylinder", "size": [0.05, 0.5], "position": [0.35, 0.75, 0.5]},
}


def obstacle_cell(make_cell, law, perturbation, *, q=READY, params=None, objects=None, **law_keys):
    arms = {
        "left": {"position": [0, 0.3, 0], "q_start": q.tolist(), "perturbation": perturbation},
        "right": {"position": [0, -0.3, 0], "perturbation": perturbation},
    }
    declared = {"type": law, "params": params or {}, **law_keys}
    active = ["law"] if "arms" in law_keys else ["left/law"]
    cell = make_cell(
        arms, {"law": declared}, active, objects=objects or {}, gate={"joint": 7.0, "position": 2}
    )
    return cell, Clearance(cell)


CRASHES = {
    "box": (READY, [1.8, 0, 0, 0, 0, 0, 0], BOX),
    "floor": (STRETCHED, [0, 1.8, 0, 0, 0, 0, 0], {}),
    "arm": (STRETCHED + [0, 1.2, 0, 0, 0, 0, 0], [-2.2, 0, 0, 0, 0, 0, 0], {}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crash", "perturbation"), every_nth(2, [("box", {}), *((crash, LATE) for crash in CRASHES)])
)
def test_joint_velocity_at_full_speed_does_not_penetrate(make_cell, crash, perturbation):
    q, offset, objects = CRASHES[crash]
    cell, clearance = obstacle_cell(
        make_cell,
        "joint_velocity",
        perturbation,
        q=q,
        objects=objects,
        params={"velocity_scaling": 1.0},
    )
    dq = np.sign(offset) * cell.loop.arms[0].state.limits.velocity
    for _ in range(150):
        cell.set_target("left", dq=dq)
        cell.step(10)
        clearance.look()
    stopped = cell.state("left")
    assert clearance.force == 0.0
    assert clearance.minimum > CLEARANCE
    assert np.abs(stopped.q - q).max() > 0.3
    assert np.abs(stopped.dq).max() < 0.5
    for _ in range(30):  # and back
        cell.set_target("left", dq=-0.3 * dq)
        cell.step(10)
    assert np.abs(cell.state("left").q - stopped.q).max() > 0.05
    assert cell.events() == []


@pytest.mark.slow
@pytest.mark.parametrize(("crash", "perturbation"), [("box", {}), ("floor", LATE), ("arm", LATE)])
def test_joint_trajectory_at_full_speed_does_not_penetrate(make_cell, crash, perturbation):
    q, offset, objects = CRASHES[crash]
    cell, clearance = obstacle_cell(
        make_cell,
        "joint_trajectory",
        perturbation,
        q=q,
        objects=objects,
        params={"velocity_scaling": 1.0},
    )
    cell.set_target("left", q=q + offset)
    for _ in range(150):
        cell.step(10)
        clearance.look()
    assert clearance.force == 0.0
    assert clearance.minimum > CLEARANCE
    assert np.abs(cell.state("left").q - q).max() > 0.3
    for _ in range(60):  # a gripper that slides along the box deviates until the motion ends
        cell.step(100)
        if cell.report("left/law")["state"] in (ABORTED, BLOCKED):
            break
    cell.step(300)
    clearance.look()
    assert clearance.force == 0.0
    assert cell.report("left/law")["state"] in (ABORTED, BLOCKED)
    cell.set_target("left", q=q)
    cell.wait(lambda: np.abs(cell.state("left").q - q).max() < 0.05, 2.5)
    assert np.abs(cell.state("left").q - q).max() < 0.05
    assert cell.state("left").owner == "left/law"


LAWS = (
    "joint_velocity", "joint_trajectory", "joint_impedance", "cartesian_impedance",
    "operational_space", "force_impedance", "admittance", "coupled_impedance",
    "coupled_force_impedance", "teleoperation", "gravity_compensation",
)  # fmt: skip


GUIDED = {"teleoperation": "right", "gravity_compensation": "left"}
"""Hand-guided controllets, and the arm whose gripper is pulled."""
PULL = 30.0
"""Pull on that gripper [N]; half of it exceeds the braking of a leader at 1 m/s."""


def pull(cell, arm, goal, speed):
    """Pull a gripper towards a goal in the world, as hard as the speed requires."""
    sim = cell.simulation
    body = sim.model.body(f"{arm}_fr3_hand").id
    offset = goal - sim.data.xpos[body]
    expected = offset / max(np.linalg.norm(offset), 1e-9) * speed
    force = 60.0 * (expected - cell.state(arm).twist_ee_in_base[:3])
    sim.data.xfrc_applied[body, :3] = force * min(1.0, PULL / np.linalg.norm(force))


def hostile(cell, law, rng, clearance, seconds=2.0, speed=1.0):
    """Stream targets through objects at ``speed`` [m/s], as far as controllets accept them."""
    start, state = cell.pose("left"), cell.state("left")
    limits = state.limits if hasattr(state, "limits") else cell.loop.arms[0].state.limits
    reference, goal_rotation, q, goal = start.position.copy(), start.rotation, state.q, None
    for step in range(round(seconds * 100)):
        state = cell.state("left")
        if "law" not in state.owner:
            return
        if step % 60 == 0:
            goal = np.array(
                [rng.uniform(0.1, 0.75), rng.uniform(-0.6, 0.5), rng.uniform(-0.15, 0.8)]
            )
            goal_rotation = pin.exp3(rng.normal(size=3) * 0.8) @ start.rotation
            far = rng.uniform(limits.lower + 0.2, limits.upper - 0.2)
        offset = goal - reference
        reference = reference + offset * min(1.0, 0.01 * speed / max(np.linalg.norm(offset), 1e-9))
        here = state.position_ee_in_base
        reference = here + (reference - here) * min(
            1.0, 0.14 / max(np.linalg.norm(reference - here), 1e-9)
        )
        try:
            if law == "joint_velocity":
                cell.set_target("left", dq=np.sign(far - state.q) * limits.velocity)
            elif law == "joint_trajectory":
                if step % 60 == 0:
                    cell.set_target("left", q=far)
            elif law == "joint_impedance":
                q = q + np.clip(far - q, -0.01 * speed, 0.01 * speed)
                q = np.clip(q, state.q - 0.3, state.q + 0.3)
                cell.set_target("left", q=np.clip(q, limits.lower + 0.02, limits.upper - 0.02))
            elif law in GUIDED:
                aside = [0.0, -0.6, 0.0] if GUIDED[law] == "right" else [0.0, 0.0, 0.0]
                pull(cell, GUIDED[law], goal + [0.0, 0.3, 0.0] + aside, speed)
            elif law.startswith("coupled"):
                report = cell.report("law")
                middle = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
                offset = goal + [0, 0.3, 0] - middle
                offset *= min(1.0, 0.14 / np.linalg.norm(offset))
                cell.set_object_target("law", Pose(middle + offset, np.eye(3)))
            else:
                w = pin.log3(goal_rotation @ state.rotation_ee_in_base.T)
                w *= min(1.0, 0.5 / max(np.linalg.norm(w), 1e-9))
                cell.set_target("left", Pose(reference, pin.exp3(w) @ state.rotation_ee_in_base))
        except TargetRejected:
            pass
        cell.step(10)
        clearance.look()


@pytest.mark.slow
@pytest.mark.robustness
@pytest.mark.parametrize("law", every_nth(4, LAWS))
def test_hostile_streams_stop_before_every_obstacle(make_cell, episodes, law):
    """A controllet that falls back to hold is judged until then."""
    for seed in range(episodes(1, 30)):
        rng = np.random.default_rng([seed, LAWS.index(law)])
        keys = {}
        if law.startswith("coupled"):
            keys = {"arms": ["left", "right"]}
        elif law == "teleoperation":
            keys = {"arms": ["right", "left"]}
        cell, clearance = obstacle_cell(
            make_cell, law, [{}, LATE][seed % 2], objects=SCENE,
            params={"collision_avoidance": ALL}, **keys,
        )  # fmt: skip
        hostile(cell, law, rng, clearance, seconds=episodes(14, 20) / 10)
        assert clearance.minimum > CLEARANCE, f"seed {seed}"
        cell.close()


def test_activation_beside_obstacle_moves_nothing(make_cell):
    """The repulsion of a default feature must not move an arm without a target."""
    cell, clearance = obstacle_cell(make_cell, "joint_impedance", {}, objects={})
    low = cell.loop.arms[0].state.position_ee_in_base[2]
    beside = {"slab": {"shape": "box", "size": [0.2, 0.2, 0.02],
                       "position": [0.35, 0.3, low - 0.04]}}  # fmt: skip
    cell, clearance = obstacle_cell(make_cell, "joint_impedance", {}, objects=beside)
    clearance.look()
    assert clearance.minimum < 0.03
    before = cell.state("left").q
    cell.step(500)
    assert np.abs(cell.state("left").q - before).max() < 1e-4


@pytest.mark.slow
def test_allowed_contacts_permit_contact(make_cell):
    slab = {"slab": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.35, 0.3, 0.3]}}

    def press(collisions):
        cell = make_cell(
            controllets={"law": {"type": "joint_trajectory"}}, active=["left/law"],
            objects=slab, gate={"joint": 7.0}, collisions=collisions,
        )  # fmt: skip
        clearance = Clearance(cell)
        cell.set_target("left", q=READY + [0, 0.5, 0, 0, 0, 0, 0])
        for _ in range(500):
            cell.step(4)
            clearance.feel()
            if clearance.force > 5.0:
                break
        return clearance.force

    assert press({}) == 0.0
    assert press({"allowed_contacts": ["left/gripper slab"]}) > 5.0
    assert press({"allowed_contacts": ["right slab"]}) == 0.0


def test_manipulating_controllets_may_touch_objects_by_default(make_cell):
    slab = {"slab": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.35, 0.3, 0.4]}}
    cell = make_cell(active=["left/cartesian_impedance_controller"], objects=slab)
    clearance, pose = Clearance(cell), cell.pose("left")
    for _ in range(60):
        pose = Pose(pose.position - [0, 0, 0.002], pose.rotation)
        cell.set_target("left", pose)
        cell.step(10)
        clearance.look()
    assert clearance.force > 5.0


@pytest.mark.parametrize(
    ("touching", "words"),
    [
        (["left table"], ["collisions.allowed_contacts[0]", "'table'", "left/gripper", "floor"]),
        (["left/gripper"], ["collisions.allowed_contacts.0", "left/gripper"]),
        (["floor floor"], ["collisions.allowed_contacts[0]", "ARM/gripper"]),
    ],
)
def test_invalid_allowed_contacts_are_refused_with_reason(touching, words):
    cell = {"arms": {"left": {}}, "collisions": {"allowed_contacts": touching}}
    with pytest.raises(ConfigurationError) as error:
        CellConfig.from_dict(cell)
    for word in words:
        assert word in str(error.value)
