# SPDX-License-Identifier: Apache-2.0
"""Generate the URDF of an arm or a cell.

``python -m multipanda_py.robots.urdf --write urdf/`` updates the files of the repository.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.arm import ArmDescription, Tool
from multipanda_py.robots.geometry import (
    COLORS,
    Block,
    Capsule,
    Point,
    SolidOfRevolution,
    rotation_of_axis,
    rpy_from_rotation,
)
from multipanda_py.robots.parallel_gripper import GripperBody, ParallelGripper

Element = ElementTree.Element
add = ElementTree.SubElement


def numbers(values: Iterable[float], digits: int = 12) -> str:
    """Format numbers for URDF. With up to twelve digits, rounding errors are not visible.

    Args:
        values: Numbers to format.
        digits: Number of significant digits.
    """
    return " ".join(format(float(v), f".{digits}g") if abs(v) > 1e-15 else "0" for v in values)


def add_origin(
    parent: Element,
    position: ArrayLike,
    rotation: NDArray[np.float64] | None = None,
    digits: int = 12,
) -> None:
    """Add the pose of an element.

    Args:
        parent: Element that receives the pose.
        position: Position, (3,) [m].
        rotation: Rotation, (3, 3); None for no rotation.
        digits: Number of significant digits.
    """
    rpy = (0.0, 0.0, 0.0) if rotation is None else rpy_from_rotation(rotation)
    add(parent, "origin", xyz=numbers(np.asarray(position), digits), rpy=numbers(rpy, digits))


def add_joint_origin(
    joint: Element, position: ArrayLike, rotation: NDArray[np.float64] | None = None
) -> None:
    """Add the pose of a joint with 15 digits, since errors of angles add up along the arm.

    Args:
        joint: Joint element.
        position: Position in the parent link, (3,) [m].
        rotation: Rotation, (3, 3); None for no rotation.
    """
    add_origin(joint, position, rotation, digits=15)


def add_inertial(link: Element, mass: float, com: ArrayLike, inertia: NDArray[np.float64]) -> None:
    """Add the inertial properties of a link.

    Args:
        link: Link element.
        mass: Mass [kg].
        com: Centre of mass in the link, (3,) [m].
        inertia: Inertia about the centre of mass, (3, 3) [kg m^2].
    """
    inertial = add(link, "inertial")
    add_origin(inertial, com)
    add(inertial, "mass", value=numbers((mass,)))
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    upper = inertia[np.triu_indices(3)]
    add(inertial, "inertia", {n: numbers((v,)) for n, v in zip(names, upper, strict=True)})


def _add_cylinder(link: Element, kind: str, start: Point, end: Point, radius: float) -> Element:
    element = add(link, kind)
    axis = np.subtract(end, start)
    add_origin(element, np.add(start, end) / 2.0, rotation_of_axis(axis))
    size = {"radius": numbers((radius,)), "length": numbers((float(np.linalg.norm(axis)),))}
    add(add(element, "geometry"), "cylinder", size)
    return element


def _add_sphere(link: Element, kind: str, center: Point, radius: float) -> Element:
    element = add(link, kind)
    add_origin(element, center)
    add(add(element, "geometry"), "sphere", radius=numbers((radius,)))
    return element


def add_capsule(link: Element, capsule: Capsule) -> None:
    """Add a capsule as collision geometry: a cylinder and two spheres, as URDF has no capsule."""
    _add_cylinder(link, "collision", capsule.start, capsule.end, capsule.radius)
    _add_sphere(link, "collision", capsule.start, capsule.radius)
    _add_sphere(link, "collision", capsule.end, capsule.radius)


def add_block(link: Element, kind: str, block: Block) -> Element:
    element = add(link, kind)
    add(element, "origin", xyz=numbers(block.center), rpy=numbers((block.roll, 0.0, 0.0)))
    add(add(element, "geometry"), "box", size=numbers(2.0 * s for s in block.half_size))
    return element


def add_visual(link: Element, shape: SolidOfRevolution | Block) -> None:
    """Add a visual shape: a box, or a cylinder of mean radius with a sphere for each round end."""
    if isinstance(shape, Block):
        elements = [add_block(link, "visual", shape)]
    else:
        unit = np.subtract(shape.end, shape.start) / shape.length
        start, end = np.array(shape.start), np.array(shape.end)
        elements = []
        for center, radius, dome, sign in (
            (start, shape.radius_start, shape.dome_start, -0.5),
            (end, shape.radius_end, shape.dome_end, 0.5),
        ):
            if dome > 0.9 * radius:
                elements.append(_add_sphere(link, "visual", tuple(center), radius))
            else:
                center += sign * dome * unit
        mean = (shape.radius_start + shape.radius_end) / 2.0
        elements.append(_add_cylinder(link, "visual", tuple(start), tuple(end), mean))
    for element in elements:
        material = add(element, "material", name=shape.color)
        add(material, "color", rgba=numbers(COLORS[shape.color]))


_NO_LIMIT = 1e9  # Joint limit in a URDF that stands for infinity [rad].
HEADER = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
    "<!-- Generated by python -m multipanda_py.robots.urdf -->\n"
)


def arm_urdf(arm: ArmDescription, *, plain: bool = False, shapes: bool = True) -> str:
    """Return the URDF of one arm on a fixed joint of the root link ``world``.

    Args:
        arm: Description of the arm.
        plain: See :func:`cell_urdf`.
        shapes: See :func:`cell_urdf`.
    """
    return cell_urdf((arm,), name=arm.name, plain=plain, shapes=shapes)


def cell_urdf(
    arms: Sequence[ArmDescription], name: str = "cell", *, plain: bool = False, shapes: bool = True
) -> str:
    """Return the URDF of several arms in one ``world``.

    Args:
        arms: Arms, each with its base pose; names must differ.
        name: Name of the robot element.
        plain: True to write continuous joints as revolute ones, because pinocchio represents
            continuous joints by cosine and sine.
        shapes: True to include visual and collision geometry.

    Raises:
        ConfigurationError: Two arms have the same name.
    """
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"arms of a cell need different names, got {names}")
    robot = Element("robot", name=name)
    add(robot, "link", name="world")
    for arm in arms:
        _add_arm(robot, arm, plain, shapes)
    ElementTree.indent(robot)
    return HEADER + ElementTree.tostring(robot, encoding="unicode") + "\n"


def _add_joint(robot: Element, kind: str, name: str, parent: str, child: str) -> Element:
    joint = add(robot, "joint", name=name, type=kind)
    add(joint, "parent", link=parent)
    add(joint, "child", link=child)
    return joint


def _add_arm(robot: Element, arm: ArmDescription, plain: bool, shapes: bool) -> None:
    """Add the links and joints of an arm, its gripper and its tool."""
    p, limits, kind = arm.prefix, arm.limits, arm.robot
    base = _add_joint(robot, "fixed", f"{p}base_joint", "world", arm.base_frame)
    add_joint_origin(base, arm.position_base_in_world, arm.rotation_base_in_world)
    for part in kind.links:
        link = add(robot, "link", name=p + part.name)
        if part.inertial.mass > 0.0:
            add_inertial(link, part.inertial.mass, part.inertial.com, part.inertial.inertia)
        if shapes:
            _add_shapes(link, part.visuals, part.capsules)
    for i, own in enumerate(kind.joints):
        before, after = (p + part.name for part in kind.links[i : i + 2])
        is_endless = bool(limits.endless[i]) and not plain
        kind_of = "prismatic" if limits.slides[i] else "continuous" if is_endless else "revolute"
        joint = _add_joint(robot, kind_of, p + own.name, before, after)
        add_joint_origin(joint, own.origin.position, own.origin.rotation)
        add(joint, "axis", xyz=numbers(own.axis, digits=15))
        span = (
            {}
            if is_endless
            else {
                "lower": numbers((max(limits.lower[i], -_NO_LIMIT),)),
                "upper": numbers((min(limits.upper[i], _NO_LIMIT),)),
            }
        )
        rates = {"velocity": limits.velocity[i], "effort": limits.torque[i]}
        add(joint, "limit", span | {key: numbers((value,)) for key, value in rates.items()})
        add(
            joint,
            "dynamics",
            damping=numbers(arm.joint_damping[i : i + 1]),
            friction=numbers(arm.joint_frictionloss[i : i + 1]),
        )
    add(robot, "link", name=arm.flange_frame)
    last = p + kind.links[-1].name
    flange = _add_joint(robot, "fixed", p + kind.flange.joint, last, arm.flange_frame)
    add_joint_origin(flange, kind.flange.origin.position, kind.flange.origin.rotation)
    if arm.gripper is not None:
        _add_hand(robot, p, arm.flange_frame, arm.gripper, shapes)
    if arm.tool is not None:
        _add_tool(robot, p, arm.flange_frame, arm.tool, shapes)


def _add_shapes(
    link: Element, visuals: Iterable[SolidOfRevolution | Block], solids: Iterable[Capsule | Block]
) -> None:
    for shape in visuals:
        add_visual(link, shape)
    for solid in solids:
        if isinstance(solid, Block):
            add_block(link, "collision", solid)
        else:
            add_capsule(link, solid)


def _add_hand(robot: Element, p: str, flange: str, gripper: ParallelGripper, shapes: bool) -> None:
    """Add a gripper, its fingers and its tool centre point; ``p`` is the arm's prefix."""
    _add_gripper_body(robot, f"{p}hand", gripper.body, shapes)
    mount = _add_joint(robot, "fixed", f"{p}hand_joint", flange, f"{p}hand")
    add_joint_origin(mount, gripper.mount.position, gripper.mount.rotation)
    for i, (side, finger) in enumerate(zip(("left", "right"), gripper.fingers), start=1):
        _add_gripper_body(robot, f"{p}{side}finger", finger, shapes)
        joint = _add_joint(
            robot, "prismatic", f"{p}finger_joint{i}", f"{p}hand", f"{p}{side}finger"
        )
        add_joint_origin(joint, finger.origin.position, finger.origin.rotation)
        add(joint, "axis", xyz=numbers(finger.axis, digits=15))
        span = {"lower": numbers((gripper.lower,)), "upper": numbers((gripper.upper,))}
        rates = {"velocity": numbers((gripper.velocity,)), "effort": numbers((gripper.force,))}
        add(joint, "limit", {**span, **rates})
        if i == 2:
            add(joint, "mimic", joint=f"{p}finger_joint1")
    add(robot, "link", name=f"{p}hand_tcp")
    tcp = _add_joint(robot, "fixed", f"{p}hand_tcp_joint", f"{p}hand", f"{p}hand_tcp")
    add_joint_origin(tcp, gripper.tcp.position, gripper.tcp.rotation)


def _add_gripper_body(robot: Element, name: str, body: GripperBody, shapes: bool) -> None:
    link = add(robot, "link", name=name)
    if body.inertial.mass > 0.0:
        add_inertial(link, body.inertial.mass, body.inertial.com, body.inertial.inertia)
    if shapes:
        _add_shapes(link, body.visuals, body.contact)


def _add_tool(robot: Element, p: str, flange: str, tool: Tool, shapes: bool) -> None:
    """Add the tool and its centre point; ``p`` is the arm's prefix."""
    link = add(robot, "link", name=f"{p}tool")
    if tool.mass > 0.0:
        add_inertial(link, tool.mass, tool.com_in_flange, tool.inertia)
    mount = _add_joint(robot, "fixed", f"{p}tool_joint", flange, f"{p}tool")
    add_joint_origin(mount, np.zeros(3))
    if shapes:
        _add_shapes(link, tool.visual, tool.capsules)
    add(robot, "link", name=f"{p}tool_tcp")
    tcp = _add_joint(robot, "fixed", f"{p}tool_tcp_joint", f"{p}tool", f"{p}tool_tcp")
    add_joint_origin(tcp, tool.pose_tcp_in_flange[:3, 3], tool.pose_tcp_in_flange[:3, :3])


def shipped_files() -> dict[str, str]:
    """Return the contents of the files in the folder ``urdf/``, by file name."""
    pair = (
        ArmDescription("left", position_base_in_world=np.array([0.0, 0.3, 0.0])),
        ArmDescription("right", position_base_in_world=np.array([0.0, -0.3, 0.0])),
    )
    return {
        "fr3.urdf": arm_urdf(ArmDescription("arm", "fr3")),
        "fer.urdf": arm_urdf(ArmDescription("arm", "fer")),
        "dual_fr3.urdf": cell_urdf(pair, name="dual_fr3"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the shipped files into a folder, or print one of them."""
    parser = argparse.ArgumentParser(description="Generate the URDF files of the package.")
    selection = parser.add_mutually_exclusive_group(required=True)
    selection.add_argument("--write", metavar="FOLDER", type=Path, help="folder for all files")
    selection.add_argument("--show", choices=tuple(shipped_files()), help="file to print")
    options = parser.parse_args(arguments)
    if options.show is not None:
        sys.stdout.write(shipped_files()[options.show])
        return 0
    options.write.mkdir(parents=True, exist_ok=True)
    for name, text in shipped_files().items():
        (options.write / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
