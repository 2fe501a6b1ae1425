# SPDX-License-Identifier: Apache-2.0
"""Follow the rows of a running loop from outside, in any process of the same user."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import LoopError
from multipanda_py.loop.mailbox import Mailbox
from multipanda_py.loop.row_reader import RowReader
from multipanda_py.state import Vector


class RowFollower(RowReader):
    """Read every row once, in order; what came too fast is counted.

    The memory is only read: a follower that is slow, stopped or killed costs the loop nothing.
    It begins with the next row, and goes on showing the last ones after the cell has ended.

    Args:
        config: The cell, as its owner has it.
        source: Descriptor of the cell's shared memory, which stays the caller's, or a path as
            :attr:`multipanda_py.cell.Cell.rows_path`.

    Attributes:
        arms: Names of the arms, in the order of a row's ``arms``.
        controllets: Names of the instances, by the index in ``owner`` and ``reports``.
        dtype: Of a row, see ``doc/rows.md``.
        seen: How many rows were before those that :meth:`take` returns next.
        dropped: How many of them were overwritten before they could be copied.

    Raises:
        LoopError: If the memory cannot be read, or is not that of this cell.

    Example, in another process::

        follower = RowFollower(CellConfig.from_yaml("config/dual_sim.yaml"), rows_path)
        while True:
            rows = follower.wait(1.0)  # structured: rows["arms"]["q"] is (n, arms, joints)

    Thread: one at a time.
    """

    def __init__(self, config: CellConfig, source: int | str | Path) -> None:
        self._specs = instance_specs(config)
        self.arms = tuple(config.arms)
        self.controllets = tuple(spec.name for spec in self._specs)
        path = f"/proc/self/fd/{source}" if isinstance(source, int) else str(source)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LoopError(
                f"{path} cannot be read ({error.strerror}): allowed is Cell.rows_path of a cell "
                "that runs, to processes of its user"
            ) from error
        try:
            super().__init__(Mailbox(config, self._specs, fd, read_only=True).ring)
        finally:
            os.close(fd)  # the mapping stays

    def terms(self, row: NDArray[np.void], arm: str) -> dict[str, Vector]:
        """Return what has made up the torque of an arm in one row, by name, each (joints,) [Nm].

        ``law``, its features by their names, ``blend`` (from the owner before) and ``bounds`` (in
        value and rate) add up to ``tau``. Empty while nobody has called
        :meth:`multipanda_py.cell.Cell.trace_torques`.
        """
        record = row["arms"][self.arms.index(arm)]
        traced = int(record["terms_traced"])
        if not traced:
            return {}
        names = ["law", *self._specs[int(record["owner"])].features]
        found = {name: record["terms"][k].copy() for k, name in enumerate(names[:traced])}
        found["blend"] = record["tau_wanted"] - record["terms"][:traced].sum(axis=0)
        found["bounds"] = record["tau"] - record["tau_wanted"]
        return found
