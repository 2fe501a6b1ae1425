# SPDX-License-Identifier: Apache-2.0
"""Real-time side of a cell: control cycle, loop process, shared memory and safety checks."""
