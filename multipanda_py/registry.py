# SPDX-License-Identifier: Apache-2.0
"""Registry that finds plug-ins and built-in objects by name, and imports them on first use.

Other Python distributions add controllets, features, backends and actuators by the entry-point
groups ``multipanda_py.controllets``, ``multipanda_py.features``, ``multipanda_py.backends`` and
``multipanda_py.actuators``. For robots, which are data, see :mod:`~multipanda_py.robots.models`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial, reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

from multipanda_py.exceptions import ConfigurationError, MissingExtra, UnknownName

VERSION = "0.1.0"
"""Version of this package."""
EXTRAS = {
    "run": ("numpy", "yaml", "pydantic", "typing_extensions", "pinocchio", "coal", "eigenpy",
            "ruckig"),
    "sim": ("mujoco", "glfw", "imageio", "imageio_ffmpeg", "PIL"),
    "real": ("pylibfranka",),
    "bench": ("matplotlib",),
    "logs": ("mcap", "rosbags", "pandas", "pyarrow", "zstandard", "lz4"),
    "identify": ("scipy", "cvxpy", "clarabel", "joblib"),
    "gym": ("gymnasium",),
}  # fmt: skip
"""Modules by pip extra. Every extra includes those of ``run``, and ``all`` includes every extra in
this table."""
SEPARATE_EXTRAS = {
    "learn": ("torch",),
    "panel": ("viser", "trimesh", "websockets"),
    "teleop": ("pygame", "pyspacemouse"),
    "cluster": ("dask", "distributed"),
    "onnx": ("onnx",),
}
"""Modules by pip extra that ``all`` excludes: ``learn`` is large, ``panel`` requires older
versions of common libraries, and few users need the others."""
_ROS = ("rclpy", "controller_manager_msgs", "control_msgs", "simulation_interfaces")


def require(*modules: str) -> None:
    """Raise :class:`.MissingExtra` if one of several modules is not installed."""
    for module in modules:
        if find_spec(module) is None:
            raise missing(module)


def needed(module: str) -> Any:
    """Import and return an optional module.

    Raises:
        MissingExtra: If it is not installed.
    """
    with extras_named():
        return import_module(module)


def pyplot() -> Any:
    """Return matplotlib's pyplot with the Agg backend, which opens no window.

    Raises:
        MissingExtra: If matplotlib is not installed.
    """
    needed("matplotlib").use("Agg")
    return needed("matplotlib.pyplot")


@contextmanager
def extras_named() -> Iterator[None]:
    """Convert import errors in a ``with`` block to :class:`.MissingExtra`.

    Only errors about modules of pip extras and of ROS 2 are converted. The new message has the
    command that installs the module.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not _sentence(error.name):
            raise
        raise missing(error.name) from error


def missing(module: str) -> MissingExtra:
    """Return the error for a missing module, with the command to install it if this is known."""
    return MissingExtra(_sentence(module) or f"{module} is not installed", module)


def _sentence(module: str) -> str:
    top = module.partition(".")[0]
    for extra, modules in (EXTRAS | SEPARATE_EXTRAS).items():
        if top in modules:
            return f"{top} is not installed. Run: pip install 'multipanda_py[{extra}]'"
    if top in _ROS or top.endswith("_msgs"):
        return (
            f"{top} is not installed. The node needs ROS 2: install it by `make env` or apt "
            "(doc/quick_start.md), or use `multipanda run FILE` without ROS"
        )
    return ""


KINDS = ("controllets", "features", "backends", "actuators")
BUILTIN_OBJECTS: Mapping[str, Mapping[str, str]] = {
    "controllets": {
        "actuator_commands": "multipanda_py.controllets.actuator_commands:ActuatorCommands",
        "admittance": "multipanda_py.controllets.admittance:Admittance",
        "cartesian_impedance": "multipanda_py.controllets.cartesian_impedance:CartesianImpedance",
        "cartesian_pose": "multipanda_py.controllets.cartesian_pose:CartesianPose",
        "coupled_force_impedance": (
            "multipanda_py.controllets.coupled_force_impedance:CoupledForceImpedance"
        ),
        "coupled_impedance": "multipanda_py.controllets.coupled_impedance:CoupledImpedance",
        "force_impedance": "multipanda_py.controllets.force_impedance:ForceImpedance",
        "gravity_compensation": (
            "multipanda_py.controllets.gravity_compensation:GravityCompensation"
        ),
        "hold": "multipanda_py.controllets.hold:Hold",
        "joint_impedance": "multipanda_py.controllets.joint_impedance:JointImpedance",
        "joint_position": "multipanda_py.controllets.joint_position:JointPosition",
        "joint_rate": "multipanda_py.controllets.joint_rate:JointRate",
        "joint_trajectory": "multipanda_py.controllets.joint_trajectory:JointTrajectory",
        "joint_velocity": "multipanda_py.controllets.joint_velocity:JointVelocity",
        "operational_space": "multipanda_py.controllets.operational_space:OperationalSpace",
        "optimization_augmented": (
            "multipanda_py.controllets.optimization_augmented:OptimizationAugmented"
        ),
        "teleoperation": "multipanda_py.controllets.teleoperation:Teleoperation",
    },
    "features": {
        "collision_avoidance": (
            "multipanda_py.controllets.features.collision_avoidance:CollisionAvoidance"
        ),
        "coriolis": "multipanda_py.controllets.features.coriolis:Coriolis",
        "feedback_wrench": "multipanda_py.controllets.features.feedback_wrench:FeedbackWrench",
        "friction": "multipanda_py.controllets.features.friction:Friction",
        "governor": "multipanda_py.controllets.features.governor:Governor",
        "joint_limits": "multipanda_py.controllets.features.joint_limits:JointLimits",
        "manipulability": "multipanda_py.controllets.features.singularity:Manipulability",
        "nullspace": "multipanda_py.controllets.features.nullspace:Nullspace",
        "residual": "multipanda_py.controllets.features.residual:Residual",
        "singularity": "multipanda_py.controllets.features.singularity:Singularity",
        "target_filter": "multipanda_py.controllets.features.target_filter:TargetFilter",
        "workspace": "multipanda_py.controllets.features.workspace:Workspace",
        "wrench": "multipanda_py.controllets.features.wrench:Wrench",
    },
    "backends": {
        "franka": "multipanda_py.hardware.franka.backend:Franka",
        "mock": "multipanda_py.hardware.mock:Mock",
        "mujoco": "multipanda_py.simulation.backend:Mujoco",
        "ros2_control": "multipanda_py.hardware.ros2_control.backend:Ros2Control",
    },
    "actuators": {
        "awas2": "multipanda_py.simulation.actuators.compliant_actuators:Awas2",
        "bavs": "multipanda_py.simulation.actuators.compliant_actuators:Bavs",
        "qbmove": "multipanda_py.simulation.actuators.compliant_actuators:Qbmove",
        "sea": "multipanda_py.simulation.actuators.compliant_actuators:Sea",
    },
    "channels": {
        "pose": "multipanda_py.controllets.targets.cartesian:POSE",
        "joint": "multipanda_py.controllets.targets.joint:JOINT",
        "twist": "multipanda_py.controllets.targets.cartesian:TWIST",
        "wrench": "multipanda_py.controllets.targets.cartesian:WRENCH",
        "stiffness": "multipanda_py.controllets.targets.cartesian:STIFFNESS",
        "trajectory": "multipanda_py.controllets.targets.joint:TRAJECTORY",
        "object": "multipanda_py.controllets.targets.cartesian:OBJECT",
        "internal_force": "multipanda_py.controllets.targets.cartesian:INTERNAL_FORCE",
        "feedback_wrench": "multipanda_py.controllets.targets.cartesian:FEEDBACK_WRENCH",
    },
    "gym_cells": {"ros": "multipanda_py.ros.client.cell:RosCell"},
    "gym_sensors": {"topics": "multipanda_py.ros.client.topic_sensors:TopicSensors"},
}
"""Built-in objects by kind and name, as ``module:attribute``."""
_BASES = {
    "controllets": "multipanda_py.controllet:Controllet",
    "features": "multipanda_py.feature:Feature",
    "backends": "multipanda_py.backend:Backend",
    "actuators": "multipanda_py.actuator:Actuator",
}
_TUPLE_ATTRIBUTES = {
    "controllets": {
        "default_features": "names",
        "contact_classes": "names",
        "Target.channels": "names and Channels",
        "Target.internal_channels": "names and Channels",
        "Target.ungated": "names",
    },
    "features": {"requires": "names", "channels": "names and Channels"},
    "backends": {"interfaces": "names"},
    "actuators": {"identified": "names"},
}
"""Class attributes that must be tuples, and the kind of their elements."""


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all objects of a kind, built-in ones first.

    Args:
        kind: Kind of object, such as ``controllets``; a key of :data:`BUILTIN_OBJECTS`.
    """
    return tuple(dict.fromkeys((*built_in(kind), *plug_ins(kind))))


def built_in(kind: str) -> tuple[str, ...]:
    return tuple(BUILTIN_OBJECTS[kind])


def load(kind: str, name: str) -> Any:
    """Import and return an object of this package or of another distribution.

    Args:
        kind: Kind of object, such as ``channels``; a key of :data:`BUILTIN_OBJECTS`.
        name: Name of the object, one of :func:`names`.
    """
    built_ins = BUILTIN_OBJECTS[kind]
    return resolve_name(built_ins[name]) if name in built_ins else plug_ins(kind)[name].load()


@cache
def find(kind: str, name: str) -> type[Any]:
    """Return the class of a plug-in, built-in or of another distribution.

    Args:
        kind: Kind of plug-in: ``controllets``, ``features``, ``backends`` or ``actuators``.
        name: Name of the plug-in in a cell file.

    Raises:
        UnknownName: If the name does not exist; the message lists the known names.
        ConfigurationError: If the class cannot be imported, or a class attribute that must be a
            tuple is a string. The message names the file or distribution.
    """
    description, expected = f"{kind.removesuffix('s')} {name!r}", class_name(name)
    if target := BUILTIN_OBJECTS[kind].get(name):
        module, _, expected = target.partition(":")
        origin = _file_or_name(module)
        import_it: Callable[[], Any] = partial(_attribute, module, expected)
    elif plug_in := plug_ins(kind).get(name):
        origin = plug_in.dist.name if plug_in.dist else plug_in.value
        import_it = plug_in.load
    else:
        raise UnknownName(kind.removesuffix("s"), name, names(kind))
    try:
        with extras_named():
            loaded = import_it()
    except MissingExtra as error:
        raise ConfigurationError(f"{description}: {error}") from error
    except (Exception, SystemExit) as error:
        # Importing a module of another distribution may raise any error.
        reason = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"{description} of {origin} cannot be loaded: {reason}"
        ) from error
    if not isinstance(loaded, type) or not issubclass(loaded, resolve_name(_BASES[kind])):
        got = f"it has no class {expected}" if loaded is None else f"got {loaded!r}"
        raise ConfigurationError(
            f"{description} of {origin} cannot be loaded: {got}, allowed a class derived from "
            f"{_BASES[kind].replace(':', '.')}"
        )
    for path, several in _TUPLE_ATTRIBUTES[kind].items():
        declared = _declared(loaded, path)
        if isinstance(declared, str):  # Iteration would yield its letters.
            raise ConfigurationError(
                f"{description} of {origin} cannot be loaded: {path}: got {declared!r}, allowed "
                f"a tuple "
                f"of {several}: ({declared!r},)"
            )
    return loaded


def _declared(part: object, path: str) -> object:
    return reduce(lambda result, name: getattr(result, name, ()), path.split("."), part)


def _attribute(module: str, name: str) -> Any:
    return getattr(import_module(module), name, None)


def _file_or_name(module: str) -> str:
    try:
        spec = find_spec(module)
    except ImportError:  # A parent package of the module cannot be imported.
        return module
    return str(spec.origin if spec else module)


def default_robot() -> Any:
    """Return the default robot, for arms without ``model`` in the cell file."""
    return resolve_name("multipanda_py.robots.models:default_robot")()


def class_name(name: str) -> str:
    """Return the class name for a plug-in: ``joint_impedance`` becomes ``JointImpedance``."""
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def plug_ins(kind: str) -> dict[str, EntryPoint]:
    """Return the plug-ins of other distributions by name, without importing them.

    Args:
        kind: Kind of plug-in, as for :func:`find`, or ``robots``.
    """
    return {point.name: point for point in entry_points(group=f"multipanda_py.{kind}")}
