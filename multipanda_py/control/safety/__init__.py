# SPDX-License-Identifier: Apache-2.0
"""Distances between solids, and the forces that keep solids apart."""
