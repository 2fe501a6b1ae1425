# SPDX-License-Identifier: Apache-2.0
"""ROS 2 parameter files, compared with rclpy's parser."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from requirements import needs_rclpy

from multipanda_py.config.parameter_file import load, ros_faults

pytestmark = pytest.mark.inline

READ = [
    ("1", 1), ("-2", -2), ("0x10", 16), ("010", 8), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0),
    ("-1E-2", -0.01), ("08", 8.0), ("99999999999999999999", 1e20), ("true", True), ("y", True),
    ("Off", False), ("1_000", "1_000"), ("1:30", "1:30"), ("2020-01-01", "2020-01-01"),
    ("'y'", "y"), ("'1'", "1"), ("!!str 5", "5"), ("word", "word"), ("=", "="), ("''", ""),
    (".inf", math.inf), ("-.inf", -math.inf), ("[1.0, 1e-3]", [1.0, 0.001]),
]  # fmt: skip
REFUSED = [
    ("[1, 2.0]", "write 1 as 1.0"), ("[1, true]", "one kind"), ("[x, y]", "quote words"),
    ("['1', 2]", "one kind"), ("[[1, 2], [3, 4]]", "list of lists"), ("[{b: 1}]", "list of maps"),
    ("[]", "empty list"), ("{}", "empty map"), ("~", "no value"), ("", "no value"),
    ("[~, x]", "empty value"), ("{b: {}}", "a.b: got an empty map"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), READ)
def test_scalars_have_types_of_ros(text: str, value: object) -> None:
    found = load(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)
    assert ros_faults({"a": found}) == []


def test_nan_is_read_as_by_ros() -> None:
    assert math.isnan(load("a: .nan")["a"])


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_values_refused_by_ros_are_refused_with_key_path(text: str, reason: str) -> None:
    (fault,) = ros_faults(load(f"a: {text}"))
    assert fault.startswith("a")
    assert reason in fault


@pytest.mark.parametrize(
    "text",
    ["a: &x 1\nb: *x", "a: 1\na: 2", "[1: 2", "a: !!float x", "a: !!python/name:os.system",
     "? [1, 2]\n: 3", "[" * 5000],
)  # fmt: skip
def test_invalid_parameter_yaml_raises_yaml_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load(text)


def test_every_fault_is_named() -> None:
    faults = ros_faults(load("a: {b: [1, 2.5], c: []}\nd: ~"))
    assert [fault.split(":")[0] for fault in faults] == ["a.b", "a.c", "d"]


def test_keys_are_always_text() -> None:
    assert load("on: 1\n1: 2") == {"on": 1, "1": 2}


_plain = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text("abcdefgh/_ ", min_size=1),
)
_data = st.recursive(
    st.one_of(_plain, st.lists(_plain, min_size=1)),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, min_size=1),
)


@pytest.mark.slow
@given(_data)
def test_data_written_as_yaml_is_read_back(data: object) -> None:
    assert load(yaml.safe_dump(data)) == data
    ros_faults(data)


@given(st.text())
def test_any_text_is_data_or_yaml_error(text: str) -> None:
    try:
        ros_faults(load(text))
    except yaml.YAMLError:
        return


@needs_rclpy
def test_rcl_agrees(tmp_path: Path) -> None:
    """One process tries all refused files, since rclpy starts slowly."""
    texts = [text for text, _ in REFUSED if text not in ("[{b: 1}]", "~", "[~, x]", "[]")]
    files = []
    for number, text in enumerate([*texts, "[1.0, 1e-3]"]):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"/**:\n  ros__parameters:\n    p:\n      a: {text}\n    z: 1\n")
        files.append(str(file))
    code = (
        "import sys, rclpy\n"
        "for file in sys.argv[1:]:\n"
        "    context = rclpy.Context()\n"
        "    try:\n"
        "        context.init(['--ros-args', '--params-file', file])\n"
        "        print('taken')\n"
        "    except Exception:\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["refused"] * len(texts) + ["taken"]
