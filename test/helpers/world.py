# SPDX-License-Identifier: Apache-2.0
"""Physics of a simulated cell in this process."""

from __future__ import annotations


def world(cell):
    """Return MuJoCo's model and data of an inline cell."""
    backend = cell.loop.backends[0]
    return backend.model, backend.data


def compliant(cell):
    """Return springs and motors of all arms; those of the first arm come first."""
    return cell.loop.backends[0].compliant
