# SPDX-License-Identifier: Apache-2.0
"""What moves arms: one file per kind, found by name."""
