# SPDX-License-Identifier: Apache-2.0
"""Node ``multimode_controller``: life cycle, executor, participants, parameters, diagnostics."""
