# SPDX-License-Identifier: Apache-2.0
"""What clients look for among controllers and is there for good, and types as they know them.

Thread: executor; nothing here keeps anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller_manager_msgs.msg import ControllerState

from multipanda_py.cell import Cell
from multipanda_py.targets import TRAJECTORY_CONTROLLETS

BROADCASTER = "joint_state_broadcaster"
"""What clients spawn to get joint states, which are there anyway."""
GRIPPER = "gripper"
"""By what an arm's hand goes; MoveIt looks for an action of it, ``gripper/gripper_cmd``."""
GRIPPER_TYPE = "position_controllers/GripperActionController"
REPORTED = dict.fromkeys(
    TRAJECTORY_CONTROLLETS, "joint_trajectory_controller/JointTrajectoryController"
)
"""Laws that clients know by the type of the ros2_control controller with the same action. MoveIt
finds the action of a controller by its type: moveit_ros_control_interface, lookup names."""
FOR_GOOD = {
    BROADCASTER: "joint states are always published",
    GRIPPER: "a hand is always commanded",
}


def reported_type(law: str) -> str:
    """Return the type by which clients know a law; its own name, if there is none."""
    return REPORTED.get(law, law)


def why_for_good(name: str) -> str:
    """Return why something cannot be deactivated, or an empty string if it is a law."""
    return FOR_GOOD.get(name.rpartition("/")[2], "")


def standing_controllers(cell: Cell, arms: Sequence[str], is_cell: bool) -> list[ControllerState]:
    """Return the entries that are active for good.

    Args:
        cell: The cell.
        arms: Those whose hands are listed.
        is_cell: Whether hands go by full names, as in the cell's namespace.
    """
    rate, laws = round(cell.config.cell.rate), [info.name for info in cell.controllets()]
    entries = [
        ControllerState(
            name=BROADCASTER, state="active", type=f"{BROADCASTER}/JointStateBroadcaster",
            update_rate=rate,
        )
    ]  # fmt: skip
    for arm in arms:
        fingers = cell.descriptions[arm].finger_joint_names
        full = f"{arm}/{GRIPPER}"
        if fingers and full not in laws:
            entries.append(
                ControllerState(
                    name=full if is_cell else GRIPPER,
                    state="active",
                    type=GRIPPER_TYPE,
                    update_rate=rate,
                    required_command_interfaces=[
                        f"{fingers[0]}/position"
                    ],  # which the other mimics
                )
            )
    return entries
