# SPDX-License-Identifier: Apache-2.0
"""Applications: command line, browser panel, teleoperation and benchmarks."""
