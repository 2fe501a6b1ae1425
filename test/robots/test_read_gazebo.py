# SPDX-License-Identifier: Apache-2.0
"""Plug-ins of the ROS-Gazebo toolbox in a URDF: parsed unchanged, or refused."""

from __future__ import annotations

import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.read_gazebo import read_gazebo

pytestmark = pytest.mark.inline

NEEDED = {
    "joint": "j1", "operation_mode": "6", "pub_eltau": "true", "pub_state": "true",
    "sub_ext_tau": "false",
}  # fmt: skip
BY_ITS_TEMPLATES = {
    "sea": (
        "<spring_k>10.0</spring_k><max_def>0.8</max_def><mot_J>0.0233</mot_J><mot_D>0.0019</mot_D>"
        "<mot_tauMax>6.0</mot_tauMax><mot_maxVel>6.0</mot_maxVel><mot_minPos>-inf</mot_minPos>"
        "<mot_maxPos>inf</mot_maxPos><mot_tauFric>0.5</mot_tauFric><ctrl_P>125</ctrl_P>"
        "<ctrl_I>0</ctrl_I><ctrl_D>4.5</ctrl_D>",
        {"stiffness": 10.0, "max_deflection": 0.8},
    ),
    "bavs": (
        "<spring_a>1.21*pow(10,-6)</spring_a><spring_b>2.38*pow(10,-6)</spring_b>"
        "<spring_k>1.60*pow(10,5)</spring_k><spring_k_e>8.71</spring_k_e><max_def>0.27</max_def>"
        "<mot_1_J>0.0233</mot_1_J><mot_2_J>0.03</mot_2_J><ctrl_2_P>100</ctrl_2_P>",
        {"a": 1.21e-6, "b": 2.38e-6, "k": 1.6e5, "exponent": 8.71, "max_deflection": 0.27},
    ),
    "awas_ii": (
        "<spring_Ks>10.0</spring_Ks><spring_l_0>1</spring_l_0><spring_L>0.05</spring_L>"
        "<spring_r_t>0.015</spring_r_t><max_def>0.3</max_def><ctrl_P>125</ctrl_P>",
        {"spring_stiffness": 10.0, "lever": 0.05, "radius": 0.015, "max_deflection": 0.3},
    ),
    "qbmove": (
        "<spring_a1>8.9992</spring_a1><spring_k1>0.0019</spring_k1><spring_a2>7.0</spring_a2>"
        "<spring_k2>0.002</spring_k2><mot_1_tauFric>0.5</mot_1_tauFric>",
        {"a_1": 8.9992, "k_1": 0.0019, "a_2": 7.0, "k_2": 0.002},
    ),
}


def urdf(tmp_path, *plugins):
    path = tmp_path / "arm.urdf"
    path.write_text(
        f"<robot name='arm'><joint name='j1'/>{''.join(plugins)}</robot>", encoding="utf-8"
    )
    return path


def plugin(filename="libqbmove_plugin.so", more="", **changed):
    tags = {key: value for key, value in {**NEEDED, **changed}.items() if value is not None}
    # The toolbox's templates have such remarks between tags; XML treats them as text.
    inner = "# REQUIRED tags" + "".join(f"<{k}>{v}</{k}> # that is {k}\n" for k, v in tags.items())
    return f"<gazebo><plugin name='p' filename='{filename}'>{inner}{more}</plugin></gazebo>"


@pytest.mark.parametrize("kind", BY_ITS_TEMPLATES)
def test_every_template_of_toolbox_is_read(tmp_path, kind):
    more, params = BY_ITS_TEMPLATES[kind]
    (found,) = read_gazebo(urdf(tmp_path, plugin(f"lib{kind}_plugin.so", more)))
    assert (found.joint, found.mode, found.params) == ("j1", 6, params)
    assert found.type == {"awas_ii": "awas2"}.get(kind, kind)
    assert len(found.motors) == (2 if kind in ("qbmove", "bavs") else 1)


def test_motors_and_controllers_keep_their_sides(tmp_path):
    sides = "<mot_1_J>0.1</mot_1_J><mot_2_J>0.2</mot_2_J><mot_1_minPos>-1</mot_1_minPos>"
    sides += "<mot_2_maxPos>inf</mot_2_maxPos><ctrl_1_P>3</ctrl_1_P><ctrl_2_D>4</ctrl_2_D>"
    (found,) = read_gazebo(urdf(tmp_path, plugin(more=sides)))
    assert found.motors == (
        {"inertia": 0.1, "min_position": -1.0, "p": 3.0},
        {"inertia": 0.2, "d": 4.0},
    )


def test_other_plug_ins_are_ignored(tmp_path):
    other = "<gazebo><plugin filename='libgazebo_ros_control.so'><ns>/a</ns></plugin></gazebo>"
    material = "<gazebo reference='base'><material>Gazebo/Red</material></gazebo>"
    assert [one.joint for one in read_gazebo(urdf(tmp_path, other, plugin(), material))] == ["j1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (plugin(more="<spring_k3>1</spring_k3>"), "spring_k3:.*joint, operat"),
        (plugin(more="<spring_k1>soft</spring_k1>"), "spring_k1:.*'soft'"),
        (plugin(more="<mot_1_J>inf</mot_1_J>"), "mot_1_J:.*'inf'"),
        (plugin(more="<joint>j2</joint>"), r"joint: given twice"),
        (plugin(operation_mode="7"), r"operation_mode:.*'7'.*\b0\b.*\b6\b"),
        (plugin(operation_mode=None), r"operation_mode: missing"),
        (plugin(pub_state="perhaps"), "pub_state:.*'perhaps'.*true, false"),
        (plugin(filename="libspring_plugin.so"), "filename:.*'libspring_plugin.so'"),
        (plugin(joint="elbow"), "plugin p: joint:.*'elbow'.*j1"),
        (plugin(more="<spring_k1>0.0019 Nm</spring_k1>"), "'0.0019 Nm'"),
        (plugin(more="<spring_k1></spring_k1>"), "spring_k1:.*''"),
        (plugin(more="<Spring_k1>1</Spring_k1>"), "Spring_k1: "),
        (plugin() + plugin(), r"joint j1: .*\btwo\b"),
        (plugin("libsea_plugin.so", "<mot_1_J>1</mot_1_J>"), "mot_1_J:"),
    ],
)  # fmt: skip
def test_invalid_plug_in_is_refused(tmp_path, text, message):
    with pytest.raises(ConfigurationError, match=message):
        read_gazebo(urdf(tmp_path, text))
