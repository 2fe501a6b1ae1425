# SPDX-License-Identifier: Apache-2.0
"""Data of the Franka arms, from which URDF, MJCF and geometry are generated.

Unless a comment names another source, values are those of Franka Robotics' franka_description.
Its files are robots/<model>/{kinematics,inertials,joint_limits}.yaml,
robots/common/franka_arm.xacro and
end_effectors/{franka_hand/inertials.yaml,common/franka_hand.xacro}.
"""

from __future__ import annotations

from math import pi

import numpy as np

from multipanda_py.robots.geometry import Block, Capsule, Origin, Point, SolidOfRevolution
from multipanda_py.robots.inertial import Inertial
from multipanda_py.state import ArmLimits, Vector

JOINTS = 7
"""Number of joints of every model."""


def _limits(
    lower: tuple[float, ...],
    upper: tuple[float, ...],
    velocity: tuple[float, ...],
    acceleration: tuple[float, ...],
    jerk: tuple[float, ...],
) -> ArmLimits:
    return ArmLimits(
        lower=np.array(lower),
        upper=np.array(upper),
        velocity=np.array(velocity),
        acceleration=np.array(acceleration),
        jerk=np.array(jerk),
        torque=np.array((87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)),
        torque_rate=np.full(JOINTS, 1000.0),
    )


# Position, velocity and torque: franka_description, robots/<model>/joint_limits.yaml.
# Acceleration, jerk and torque rate: Franka Control Interface documentation, "Robot and interface
# specifications", joint space constants. The lower speed limit of the FR3 near its position limits
# is not modelled here.
FR3_LIMITS = _limits(
    lower=(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
    upper=(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159),
    velocity=(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    acceleration=(10.0,) * JOINTS,
    jerk=(5000.0,) * JOINTS,
)
FER_LIMITS = _limits(
    lower=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    upper=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    jerk=(7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
)
LIMITS = {"fr3": FR3_LIMITS, "fer": FER_LIMITS}
"""Limits by robot model."""


LOWER_LIMITS = np.array([-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196])
UPPER_LIMITS = np.array([2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196])
VELOCITY_LIMITS = np.array([2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26])
VELOCITY_OFFSET = np.array([0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35])
# Deceleration towards a position limit [rad/s^2].
DECELERATION = np.array([6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0])


def velocity_towards(distance: Vector, deceleration: Vector = DECELERATION) -> Vector:
    r"""Return the maximum joint speeds at given distances from the position limits, (7,) [rad/s].

    .. math:: v = \min(v_{max}, \max(0, \sqrt{2 a d} - v_0))

    with the distance d and the deceleration a. The velocity limits :math:`v_{max}` and offsets
    :math:`v_0` are Franka's values for the FR3. Source: FCI documentation, position-based velocity
    limits.

    Args:
        distance: Distance to the limit in the direction of motion, (7,) [rad].
        deceleration: Deceleration a, (7,) [rad/s^2].
    """
    reach = np.sqrt(np.maximum(2.0 * deceleration * distance, 0.0)) - VELOCITY_OFFSET
    return np.asarray(np.clip(reach, 0.0, VELOCITY_LIMITS))


JOINT_ORIGINS = (
    Origin((0.0, 0.0, 0.333), (0.0, 0.0, 0.0)),
    Origin((0.0, 0.0, 0.0), (-pi / 2, 0.0, 0.0)),
    Origin((0.0, -0.316, 0.0), (pi / 2, 0.0, 0.0)),
    Origin((0.0825, 0.0, 0.0), (pi / 2, 0.0, 0.0)),
    Origin((-0.0825, 0.384, 0.0), (-pi / 2, 0.0, 0.0)),
    Origin((0.0, 0.0, 0.0), (pi / 2, 0.0, 0.0)),
    Origin((0.088, 0.0, 0.0), (pi / 2, 0.0, 0.0)),
)
FLANGE_HEIGHT = 0.107  # Height of link8 above link7 along z [m].
HAND_YAW = -pi / 4  # Angle of the hand relative to link8, about z [rad].
HAND_TCP_HEIGHT = 0.1034  # Height of hand_tcp above the hand along z [m].
FINGER_HEIGHT = 0.0584  # Height of the finger joints above the hand along z [m].
ELBOW_FLIP = -0.467002423653011  # Angle of joint 4 at which the elbow flips, by Franka [rad].
FINGER_UPPER = 0.04  # Travel of one finger [m].
FINGER_VELOCITY = 0.2  # Maximum speed of one finger [m/s].
FINGER_FORCE = 70.0  # Continuous grasp force of the Franka Hand, by its product sheet [N].

# Apparent inertia of the rotors at the joints while the robot's torque feedback is active [kg
# m^2]: B / (1 + kappa), with the rotor inertia B and the feedback gain kappa of multipanda_ros2.
ARMATURE = np.array([0.6, 0.6, 0.5, 0.5, 0.2, 0.2, 0.2]) / ([2.5] * 6 + [3.5])
ARMATURE.flags.writeable = False

# Start configuration in Franka's own examples, (7,) [rad].
READY_CONFIGURATION = np.array([0.0, -pi / 4, 0.0, -3 * pi / 4, 0.0, pi / 2, pi / 4])
READY_CONFIGURATION.flags.writeable = False

FIGURES: dict[str, tuple[float, ...]] = {
    # Joint springs of controllets [Nm/rad]: default and maximum. A higher stiffness oscillates at
    # the limit of the torque rate if the arm is delayed by some milliseconds.
    "stiffness": (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0),
    "most_stiffness": (1000.0, 1000.0, 1000.0, 1000.0, 330.0, 165.0, 66.0),
    # Distance that the reference of a joint spring may always have from the measured position
    # [rad]. It is the expected deflection of the default stiffness by an unknown payload.
    "lag": (0.0065, 0.0065, 0.0065, 0.0065, 0.01, 0.01, 0.01),
    # External torque at which a motion stops [Nm], four fifths of the robot's default collision
    # threshold.
    "contact_torque": (16.0, 16.0, 14.0, 14.0, 12.0, 11.0, 9.0),
    # Maximum torque of the barrier that repels a joint from its position limit [Nm].
    "barrier_torque": (40.0, 40.0, 40.0, 40.0, 10.0, 10.0, 10.0),
    # Typical torque error of the model [Nm]. It bounds the torques of the features ``nullspace``
    # and ``residual``.
    "lacking_torque": (5.0,) * 7,
    # Stiffness of the nullspace spring [Nm/rad]. It reaches ``lacking_torque`` at half a radian.
    "posture_stiffness": (10.0,) * 7,
    # Dampers of a leader arm, which limit the speed at which an operator moves it [Nm s/rad].
    "leader_damping": (2.0, 2.0, 2.0, 2.0, 0.5, 0.5, 0.5),
    "most_leader_damping": (20.0, 20.0, 20.0, 20.0, 4.0, 4.0, 1.5),
    # Maximum torque offset that a tare may remove [Nm]: errors of sensors and model, and half a
    # kilogram of unknown payload. For a stretched arm it corresponds to 7 N at the end effector.
    "tare_torque": (4.0, 4.0, 4.0, 4.0, 1.5, 1.5, 1.5),
    # Maximum difference of commanded and measured torque that counts as friction and bias [Nm].
    "unmeasured_torque": (8.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0),
    # Fraction of the torque limit with which ``hold`` can stop a slow joint; it thus defines
    # "slow". A slow joint gets a spring to its present position, earlier with a larger fraction.
    # With later springs at the arm or earlier ones at the wrist, an arm with an unknown payload
    # stops later or oscillates.
    "slow": (0.6, 0.6, 0.6, 0.6, 0.35, 0.35, 0.35),
    # Time in which the spring torques of ``hold`` grow to their full value [s]. The decaying
    # torque of the previous controllet may first deflect a joint. With the full spring at once,
    # the joint would return faster than it left.
    "growth": (0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0),
    # Factors on the joint damping in ``hold`` until the joints are at rest. Without them, a
    # payload of 3 kg would oscillate at the wrist, because it has up to ten times the inertia of a
    # wrist. Joints 1 to 4 would not be stable with a factor above 1.
    "settling": (1.0, 1.0, 1.0, 1.0, 1.6, 1.6, 1.6),
    # Friction parameters [Nm], [s/rad] and [rad/s], identified on a Panda by Gaz et al., RA-L
    # 2019.
    "friction_phi_1": (0.54615, 0.87224, 0.64068, 1.2794, 0.83904, 0.30301, 0.56489),
    "friction_phi_2": (5.1181, 9.0657, 10.136, 5.5903, 8.3469, 17.133, 10.336),
    "friction_phi_3": (0.039533, 0.025882, -0.04607, 0.036194, 0.026226, -0.021047, 0.0035526),
}
"""Default values and bounds per joint for parameters of controllets."""

# fmt: off
_BASE = Inertial(2.3966, (-0.0172, 0.0004, 0.0745), (0.0090, 0.0115, 0.0085, 0.0, 0.0020, 0.0))
_FR3_INERTIALS = (
    _BASE,
    Inertial(2.9274653454, (0.0000004128, -0.0181251324, -0.0386035970),
             (0.023927316485107913, 0.0224821613275756, 0.006350098258530016,
              1.3317903455714081e-05, -0.00011404774918616684, -0.0019950320628240115)),
    Inertial(2.9355370338, (0.0031828864, -0.0743221644, 0.0088146084),
             (0.041938946257609425, 0.02514514885014724, 0.06170214472888839,
              0.00020257331521090626, 0.004077784227179924, -0.0042252158006570156)),
    Inertial(2.2449013699, (0.0407015686, -0.0048200565, -0.0289730823),
             (0.02410142547240885, 0.01974053266708178, 0.019044494482244823,
              0.002404694559042109, -0.002856269270114313, -0.002104212683891874)),
    Inertial(2.6155955791, (-0.0459100965, 0.0630492960, -0.0085187868),
             (0.03452998321913202, 0.028881621933049058, 0.04125471171146641,
              0.01322552265982813, 0.01015142998484113, -0.0009762833870704552)),
    Inertial(2.3271207594, (-0.0016039605, 0.0292536262, -0.0972965990),
             (0.051610278463662895, 0.04787729713371481, 0.016423625579357254,
              -0.005715173387783472, -0.0035673167625872135, 0.010673985108535986)),
    Inertial(1.8170376524, (0.0597131221, -0.0410294666, -0.0101692726),
             (0.005412333594383447, 0.014058329545509979, 0.016080817924212554,
              0.006193456360285834, 0.0014219289306117652, -0.0013140753741120031)),
    Inertial(0.6271432862, (0.0045225817, 0.0086261921, -0.0161633251),
             (0.00021092389150104718, 0.00017718568002411474, 5.993190599659971e-05,
              -2.433299114461931e-05, 4.564480393778983e-05, 8.744070223226438e-05)),
)
_FER_INERTIALS = (
    _BASE,
    Inertial(2.7907, (0.00033, -0.02204, -0.04762),
             (0.01564782655, 0.01439883526, 0.00500443991,
              0.00000531236, -0.00003676721, -0.00248480843)),
    Inertial(2.5420, (0.00038, -0.09211, 0.01908),
             (0.01662427728, 0.00462501261, 0.01545124526,
              0.00003086077, 0.00000835940, 0.00355899830)),
    Inertial(2.2513, (0.05152, 0.01696, -0.02971),
             (0.00631741992, 0.00866285493, 0.00657804051,
              0.00097309955, 0.00292525834, 0.00093469224)),
    Inertial(2.2037, (-0.05113, 0.05825, 0.01698),
             (0.00784585566, 0.00649543136, 0.01003079917,
              -0.00339591957, 0.00158704074, -0.00181477884)),
    Inertial(2.2855, (-0.00005, 0.03730, -0.09280),
             (0.02297014781, 0.02095060919, 0.00430606551,
              -0.00000949345, -0.00002063156, 0.00382345782)),
    Inertial(1.353, (0.06572, -0.00371, 0.00153),
             (0.00087964522, 0.00277796968, 0.00286701969,
              -0.00021487814, -0.00011911662, 0.00001274322)),
    Inertial(0.35973, (0.00089, -0.00044, 0.05491),
             (0.00019541063, 0.00019210361, 0.00017936256,
              0.00000165231, 0.00000148826, -0.00000131132)),
)
# fmt: on
HAND_INERTIAL = Inertial(
    0.6544, (-0.0000376, 0.0119128, 0.0207260), (0.00186, 0.00030, 0.00174, 0.0, 0.0, -0.00002)
)
FINGER_INERTIAL = Inertial(
    0.0291,
    (0.0, 0.0152850, 0.0219675),
    (0.00000849, 0.00000853, 0.00000177, 0.0, 0.0, -0.00000106),
)

INERTIALS = {"fr3": _FR3_INERTIALS, "fer": _FER_INERTIALS}
"""Inertial properties of link 0 to link 7, by model."""

# Component of a unit vector along x = y, the direction of the knob of link 7.
_KNOB_DIRECTION = 0.5**0.5

# Capsules of link 0 to link 7, from the robot's own self-collision model. Only links 0 and 1
# differ: the capsule of link 1 ends with the link, and the column below belongs to link 0. The
# collision meshes of the FR3 exceed the capsules by up to 20 mm in the bends, by 46 mm at the foot
# of the base, and by 34 mm at the connector on the back of the hand.
LINK_CAPSULES: tuple[tuple[Capsule, ...], ...] = (
    (
        Capsule((-0.09, 0.0, 0.06), (-0.06, 0.0, 0.06), 0.06),
        Capsule((0.0, 0.0, 0.07), (0.0, 0.0, 0.12), 0.07),
    ),
    (Capsule((0.0, 0.0, -0.19), (0.0, 0.0, -0.05), 0.06),),
    (Capsule((0.0, 0.0, -0.06), (0.0, 0.0, 0.06), 0.06),),
    (Capsule((0.0, 0.0, -0.22), (0.0, 0.0, -0.07), 0.06),),
    (Capsule((0.0, 0.0, -0.06), (0.0, 0.0, 0.06), 0.06),),
    (
        Capsule((0.0, 0.0, -0.31), (0.0, 0.0, -0.21), 0.06),
        Capsule((0.0, 0.08, -0.20), (0.0, 0.08, -0.06), 0.025),
    ),
    (Capsule((0.0, 0.0, -0.07), (0.0, 0.0, 0.01), 0.05),),
    (
        Capsule((0.0, 0.0, -0.06), (0.0, 0.0, 0.08), 0.04),
        Capsule(
            (0.055 * _KNOB_DIRECTION, 0.055 * _KNOB_DIRECTION, 0.082),
            (0.065 * _KNOB_DIRECTION, 0.065 * _KNOB_DIRECTION, 0.082),
            0.03,
        ),
    ),
)
# Capsules of hand and fingers for collision avoidance and planning. They are those of the robot's
# own model, but the hand is 17 mm longer at each end, so that it contains the palm.
HAND_CAPSULES = (
    Capsule((0.0, -0.067, 0.04), (0.0, 0.067, 0.04), 0.04),
    Capsule((0.0, -0.05, 0.10), (0.0, 0.05, 0.10), 0.02),
)
# Contact geometry in simulation: the palm as measured on the collision mesh, and the fingers. The
# capsules above are too large for contacts: one exceeds the palm by 14 mm, and the other fills the
# space between the fingers.
HAND_CONTACT = (Capsule((0.0, -0.067, 0.033), (0.0, 0.067, 0.033), 0.033),)
FINGER_BLOCKS = (
    Block((0.0, 0.0185, 0.011), (0.011, 0.0075, 0.010)),
    Block((0.0, 0.0068, 0.0022), (0.011, 0.0044, 0.0019)),
    Block((0.0, 0.0159, 0.02835), (0.00875, 0.0035, 0.01175), roll=pi / 6),
    Block((0.0, 0.00758, 0.04525), (0.00875, 0.0076, 0.00925), color="rubber"),
)

# Visual geometry of solids of revolution and blocks. Sizes are measured on the published collision
# meshes of the robot.
JOINT_RADIUS = 0.055  # Radius of the large joints [m].


def _tube(
    start: Point, end: Point, radius: float = JOINT_RADIUS, color: str = "shell"
) -> SolidOfRevolution:
    return SolidOfRevolution(start, end, radius, radius, color=color)


def _limb(start: Point, end: Point, radius_start: float, radius_end: float) -> SolidOfRevolution:
    return SolidOfRevolution(start, end, radius_start, radius_end, radius_start, radius_end)


def _joint(
    base: Point, top: Point, radius: float = JOINT_RADIUS, dome: float = 0.022
) -> tuple[SolidOfRevolution, ...]:
    axis = tuple(t - b for b, t in zip(base, top, strict=True))
    length = sum(a * a for a in axis) ** 0.5
    unit = tuple(a / length for a in axis)

    def point_at(height: float) -> Point:
        x, y, z = (b + height * u for b, u in zip(base, unit, strict=True))
        return x, y, z

    return (
        _tube(base, point_at(0.003), radius - 0.0015, "seam"),
        _tube(point_at(0.003), point_at(length - 0.006)),
        _tube(point_at(length - 0.006), point_at(length - 0.003), radius - 0.0015, "seam"),
        SolidOfRevolution(point_at(length - 0.003), top, radius, radius, 0.0, dome, "cap"),
    )


LINK_VISUALS: tuple[tuple[SolidOfRevolution | Block, ...], ...] = (
    (
        Block((-0.040, 0.0, 0.006), (0.108, 0.090, 0.006), color="metal"),
        SolidOfRevolution((0.0, 0.0, 0.012), (0.0, 0.0, 0.110), 0.070, 0.057),
        SolidOfRevolution((-0.095, 0.0, 0.030), (0.0, 0.0, 0.075), 0.045, 0.055, 0.045, 0.055),
        Block((-0.128, 0.0, 0.032), (0.014, 0.045, 0.022), color="dark"),
        _tube((0.0, 0.0, 0.110), (0.0, 0.0, 0.137), 0.057),
    ),
    (
        _tube((0.0, 0.0, -0.196), (0.0, 0.0, -0.190), JOINT_RADIUS - 0.0015, "seam"),
        _tube((0.0, 0.0, -0.190), (0.0, 0.0, -0.110)),
        _limb((0.0, 0.0, -0.110), (0.0, -0.062, -0.006), JOINT_RADIUS, JOINT_RADIUS - 0.001),
        *_joint((0.0, 0.0, 0.0), (0.0, -0.107, 0.0)),
    ),
    (
        *_joint((0.0, 0.0, 0.0), (0.0, 0.0, 0.107)),
        _limb((0.0, -0.006, 0.062), (0.0, -0.115, 0.0), JOINT_RADIUS - 0.001, JOINT_RADIUS),
        _tube((0.0, -0.115, 0.0), (0.0, -0.192, 0.0)),
    ),
    (
        _tube((0.0, 0.0, -0.124), (0.0, 0.0, -0.118), JOINT_RADIUS - 0.0015, "seam"),
        _tube((0.0, 0.0, -0.118), (0.0, 0.0, -0.070)),
        _limb((0.0, 0.0, -0.070), (0.078, 0.050, -0.004), JOINT_RADIUS, JOINT_RADIUS - 0.001),
        *_joint((0.0825, 0.0, 0.0), (0.0825, 0.090, 0.0)),
    ),
    (
        *_joint((0.0, 0.0, 0.0), (0.0, 0.0, 0.090)),
        _limb((-0.004, 0.004, 0.050), (-0.0825, 0.070, 0.0), JOINT_RADIUS - 0.001, JOINT_RADIUS),
        _tube((-0.0825, 0.070, 0.0), (-0.0825, 0.122, 0.0)),
    ),
    (
        _tube((0.0, 0.0, -0.262), (0.0, 0.0, -0.256), JOINT_RADIUS - 0.0015, "seam"),
        _tube((0.0, 0.0, -0.256), (0.0, 0.0, -0.205)),
        _limb((0.0, 0.0, -0.205), (0.0, 0.064, -0.090), JOINT_RADIUS, 0.036),
        _limb((0.0, 0.064, -0.090), (0.0, 0.078, -0.004), 0.036, 0.048),
        *_joint((0.0, 0.047, 0.0), (0.0, 0.112, 0.0), 0.051),
    ),
    (
        *_joint((0.0, 0.0, -0.045), (0.0, 0.0, 0.040), 0.048, 0.016),
        _limb((0.010, 0.0, 0.0), (0.088, 0.010, 0.0), 0.044, 0.046),
        *_joint((0.088, -0.050, 0.0), (0.088, 0.062, 0.0), 0.047, 0.018),
    ),
    (
        _tube((0.0, 0.0, 0.049), (0.0, 0.0, 0.053), 0.043, "seam"),
        SolidOfRevolution((0.0, 0.0, 0.053), (0.0, 0.0, 0.098), 0.044, 0.044),
        SolidOfRevolution((0.020, 0.020, 0.076), (0.045, 0.045, 0.076), 0.024, 0.022, 0.0, 0.015),
        SolidOfRevolution((0.045, 0.045, 0.090), (0.045, 0.045, 0.100), 0.012, 0.010, color="cap"),
        _tube((0.0, 0.0, 0.098), (0.0, 0.0, FLANGE_HEIGHT), 0.032, "metal"),
    ),
)
HAND_VISUALS: tuple[SolidOfRevolution | Block, ...] = (
    SolidOfRevolution((0.0, 0.0, 0.0), (0.0, 0.0, 0.020), 0.034, 0.032, color="dark"),
    SolidOfRevolution(
        (0.0, -0.072, 0.034), (0.0, 0.072, 0.034), 0.028, 0.028, 0.026, 0.026, "dark"
    ),
    Block((0.0, 0.0, 0.048), (0.026, 0.098, 0.016)),
    Block((0.0, 0.0, 0.065), (0.012, 0.090, 0.001), color="metal"),
)
FINGER_VISUALS: tuple[SolidOfRevolution | Block, ...] = tuple(
    Block(block.center, block.half_size, block.roll, color)
    for block, color in zip(FINGER_BLOCKS, ("dark", "metal", "dark", "rubber"), strict=True)
)
