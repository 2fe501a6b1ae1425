# SPDX-License-Identifier: Apache-2.0
"""Meshes: search paths, formats and refusals."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.importing.source import find_mesh, link_shapes, read_mesh

pytestmark = pytest.mark.inline

CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 2) for z in (0, 3)], dtype=float)
FACES = ((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
         (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3))  # fmt: skip


def write_stl(path):
    body = b"".join(
        struct.pack("<12fH", 0, 0, 0, *CORNERS[list(face)].ravel(), 0) for face in FACES
    )
    path.write_bytes(bytes(80) + struct.pack("<I", len(FACES)) + body)


def write_obj(path):
    lines = [f"v {x} {y} {z}" for x, y, z in CORNERS]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES]
    path.write_text("\n".join(lines) + "\n")


def write_dae(path):
    numbers = " ".join(map(str, CORNERS.ravel()))
    indices = " ".join(str(i) for face in FACES for i in face)
    path.write_text(
        '<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset>'
        '<unit name="meter" meter="1"/><up_axis>Z_UP</up_axis></asset><library_geometries>'
        '<geometry id="g" name="g"><mesh><source id="p"><float_array id="a" count="24">'
        f'{numbers}</float_array><technique_common><accessor source="#a" count="8" stride="3">'
        '<param name="X" type="float"/><param name="Y" type="float"/>'
        '<param name="Z" type="float"/>'
        '</accessor></technique_common></source><vertices id="v"><input semantic="POSITION" '
        f'source="#p"/></vertices><triangles count="12"><input semantic="VERTEX" source="#v" '
        f'offset="0"/><p>{indices}</p></triangles></mesh></geometry></library_geometries>'
        '<library_visual_scenes><visual_scene id="s"><node id="n"><instance_geometry url="#g"/>'
        '</node></visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/>'
        "</scene></COLLADA>"
    )


@pytest.mark.parametrize("write", [write_stl, write_obj, write_dae])
def test_same_body_is_read_from_any_format(tmp_path, write):
    path = tmp_path / f"body.{write.__name__[-3:]}"
    write(path)
    points, triangles = read_mesh(path, (1.0, 1.0, 0.5))
    np.testing.assert_allclose(np.unique(points, axis=0), np.unique(CORNERS * (1, 1, 0.5), axis=0))
    a, b, c = points[triangles].transpose(1, 0, 2)
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0
    assert volume == pytest.approx(3.0)


def test_packages_are_found_above_description_or_in_given_path(tmp_path):
    mesh = tmp_path / "ws" / "my_arm" / "meshes" / "a.stl"
    mesh.parent.mkdir(parents=True)
    write_stl(mesh)
    inside = tmp_path / "ws" / "my_arm" / "urdf" / "arm.urdf"
    inside.parent.mkdir()
    outside = tmp_path / "elsewhere" / "arm.urdf"
    name = "package://my_arm/meshes/a.stl"
    assert find_mesh(name, inside) == mesh
    assert find_mesh(name, outside, [tmp_path / "ws"]) == mesh
    assert find_mesh(name, outside, [tmp_path / "ws" / "my_arm"]) == mesh
    assert find_mesh("../meshes/a.stl", inside.with_name("x.urdf")).samefile(mesh)
    assert find_mesh(f"file://{mesh}", outside) == mesh
    with pytest.raises(ConfigurationError, match=r"'package://my_arm/.*"
                                                 r"--package-path"):  # fmt: skip
        find_mesh(name, outside)


URDF = '<robot name="r"><link name="l"><collision>{}</collision></link></robot>'


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (
            '<geometry><mesh filename="no.stl"/></geometry>',
            "'no.stl' does not exist",
        ),
        ('<geometry><mesh filename="bad.stl"/></geometry>', "bad.stl: cannot be read as a mesh"),
        ('<geometry><box size="1 2"/></geometry>', "box size: got '1 2', allowed 3 numbers"),
        ('<geometry><box size="1 2 0"/></geometry>', "box: got size 0 m"),
        ('<geometry><sphere radius="x"/></geometry>', "sphere radius: got 'x', allowed a number"),
        (
            "<geometry><cone/></geometry>",
            "link l: collision: got cone, allowed box, sphere, cylin",
        ),
        ("", "link l: collision: got nothing, allowed box"),
    ],
)
def test_invalid_geometry_is_refused_with_its_file(tmp_path, inside, message):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF.format(inside))
    (tmp_path / "bad.stl").write_text("this is no mesh")
    with pytest.raises(ConfigurationError) as refusal:
        [s.cloud() for s in link_shapes(path, ["l"])["l"]["collision"]]
    assert message in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)


@pytest.mark.parametrize(
    ("material", "rgba"),
    [
        ('<material name="blue"/>', (0.0, 0.0, 1.0, 0.5)),
        ('<material name="own"><color rgba="1 0 0 2"/></material>', (1.0, 0.0, 0.0, 1.0)),
        ('<material name="nobody"/>', None),
        ("", None),
    ],
)
def test_colour_is_that_of_element_or_file(tmp_path, material, rgba):
    path = tmp_path / "robot.urdf"
    path.write_text(
        '<robot name="r"><material name="blue"><color rgba="0 0 1 0.5"/></material><link name="l">'
        f'<visual><geometry><sphere radius="1"/></geometry>{material}</visual></link></robot>'
    )
    (shape,) = link_shapes(path, ["l"])["l"]["visual"]
    assert shape.rgba == rgba
