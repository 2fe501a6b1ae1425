# SPDX-License-Identifier: Apache-2.0
"""Collision distances, and the forces that keep bodies apart."""
