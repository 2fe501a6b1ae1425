# SPDX-License-Identifier: Apache-2.0
"""Joint references: paths, jerk-limited motions and blends."""
