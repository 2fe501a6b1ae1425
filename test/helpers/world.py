# SPDX-License-Identifier: Apache-2.0
"""Physics of a simulated inline cell."""

from __future__ import annotations


def world(cell):
    """Return MuJoCo model and data of an inline cell."""
    backend = cell.loop.backends[0]
    return backend.model, backend.data


def compliant(cell):
    """Return springs and motors of all arms, in the order of the arms."""
    return cell.loop.backends[0].compliant
