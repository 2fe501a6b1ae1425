# SPDX-License-Identifier: Apache-2.0
"""Operating system: real-time settings, child processes, locks and machine checks."""
