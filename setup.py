# SPDX-License-Identifier: Apache-2.0
"""Packaging of multipanda_py, for colcon and pip alike."""

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

NAME = "multipanda_py"
# What every cell needs; each extra brings it, so that one of them is enough.
RUN = ["numpy", "PyYAML", "pydantic>=2.7", "typing_extensions", "pin", "coal", "ruckig"]
# By what they bring; multipanda_py/registry.py says the same of modules, and a test compares them.
EXTRAS = {
    "run": [],
    "sim": ["mujoco>=3.2.7", "imageio", "imageio-ffmpeg", "pillow"],
    "real": ["pylibfranka"],
    "bench": ["matplotlib"],
    "logs": ["mcap", "rosbags", "pandas", "pyarrow", "zstandard", "lz4", "matplotlib"],
    "identify": ["scipy", "cvxpy", "clarabel", "joblib"],
    "gym": ["gymnasium>=1.2"],
}
# Not part of "all": it is larger than everything else together.
LARGE = {"learn": ["torch>=2.2", "pyarrow", "matplotlib"]}
# Neither: it brings older versions of what others use. It reads what viser has no public name for,
# to let no other site's page in, so that it is one version.
APART = {"panel": ["viser==1.1.1", "trimesh", "websockets", "mujoco>=3.2.7"]}
# Neither: most cells have no such device.
DEVICES = {"teleop": ["pygame>=2.5", "pyspacemouse>=2.1"]}
# Neither: few simulate on other machines.
SELDOM = {"cluster": ["dask", "distributed", "joblib"]}
# Neither: few run networks in other programs.
ELSEWHERE = {"onnx": ["onnx>=1.16"]}
# Robot descriptions, py.typed: whatever lies in the package and is not code.
DATA = [
    str(path.relative_to(NAME))
    for path in sorted(Path(NAME).rglob("*"))
    if path.is_file() and path.suffix not in {".py", ".pyc"}
]

setup(
    name=NAME,
    version="0.1.0",
    description="Compliant multi-arm control of Franka robots in Python and ROS 2",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: DATA},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        # Globbed: a new file in these folders needs no edit here.
        *[
            (f"share/{NAME}/{folder}", sorted(glob(f"{folder}/*.*")))
            for folder in (
                "config",
                "config/compliant",
                "config/layouts",
                "config/residual",
                "config/tasks",
                *sorted(glob("config/crisp/*")),
                *sorted(glob("config/moveit/*")),
                "launch",
                "urdf",
            )
        ],
    ],
    # What runs it comes from rosdep (package.xml) or tools/make_env.py: a pip requirement here
    # would make colcon's entry points fail over a version that rosdep chose on purpose.
    install_requires=["setuptools"],
    extras_require={
        **{
            name: [*RUN, *brings]
            for group in (EXTRAS, LARGE, APART, DEVICES, SELDOM, ELSEWHERE)
            for name, brings in group.items()
        },
        "all": sorted({*RUN, *(one for brings in EXTRAS.values() for one in brings)}),
        # colcon runs pytest only for packages that name it here.
        "test": ["pytest", "hypothesis"],
    },
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "multimode_controller = multipanda_py.apps.start:multimode_controller",
            "multipanda = multipanda_py.apps.start:multipanda",
        ],
        # Other packages add to these groups in their own setup.py; multipanda_py/registry.py names
        # what is built in:
        #   multipanda_py.controllets, multipanda_py.features, multipanda_py.backends,
        #   multipanda_py.actuators, multipanda_py.robots, multipanda_py.gym_tasks,
        #   multipanda_py.gym_cells
    },
)
