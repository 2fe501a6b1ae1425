# SPDX-License-Identifier: Apache-2.0
"""Packaging of multipanda_py for colcon and pip."""

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

NAME = "multipanda_py"
# Requirements of every cell. Each extra includes them, so that one extra is enough.
RUN = ["numpy", "PyYAML", "pydantic>=2.7", "typing_extensions", "pin", "coal", "ruckig"]
# Requirements of each extra. A test compares them with the modules in multipanda_py/registry.py.
EXTRAS = {
    "run": [],
    "sim": ["mujoco>=3.2.7", "imageio", "imageio-ffmpeg", "pillow"],
    "real": ["pylibfranka"],
    "bench": ["matplotlib"],
    "logs": ["mcap", "rosbags", "pandas", "pyarrow", "zstandard", "lz4", "matplotlib"],
    "identify": ["scipy", "cvxpy", "clarabel", "joblib"],
    "gym": ["gymnasium>=1.2"],
}
# Extras that are not part of "all".
SEPARATE = {
    # Larger than all other packages together.
    "learn": ["torch>=2.2", "pyarrow", "matplotlib"],
    # Requires older versions of packages of other extras. The version of viser is fixed, because
    # the panel rejects pages of other sites by private attributes of viser.
    "panel": ["viser==1.1.1", "trimesh", "websockets", "mujoco>=3.2.7"],
    # Needed by few cells.
    "teleop": ["pygame>=2.5", "pyspacemouse>=2.1"],
    "cluster": ["dask", "distributed", "joblib"],
    "onnx": ["onnx>=1.16"],
}
# All files of the package that are not code, such as robot descriptions and py.typed.
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
        # All files of these folders.
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
    # rosdep (package.xml) or tools/make_env.py install the requirements. With requirements here,
    # entry points of colcon would fail if rosdep installed another version.
    install_requires=["setuptools"],
    extras_require={
        **{name: [*RUN, *requirements] for name, requirements in {**EXTRAS, **SEPARATE}.items()},
        "all": sorted({*RUN, *(one for requirements in EXTRAS.values() for one in requirements)}),
        # colcon runs pytest only for packages that require it here.
        "test": ["pytest", "hypothesis"],
    },
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "multimode_controller = multipanda_py.apps.start:multimode_controller",
            "multipanda = multipanda_py.apps.start:multipanda",
        ],
        # Plug-ins of other packages register in these groups. The built-in ones are listed in
        # multipanda_py/registry.py.
        #   multipanda_py.controllets, multipanda_py.features, multipanda_py.backends,
        #   multipanda_py.actuators, multipanda_py.robots, multipanda_py.gym_tasks,
        #   multipanda_py.gym_cells
    },
)
