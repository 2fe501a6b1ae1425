# SPDX-License-Identifier: Apache-2.0
"""The node: life cycle, executor, participants, parameters and diagnostics."""
