# SPDX-License-Identifier: Apache-2.0
"""Optimisation of paths and postures of arms and movable things, by several slices at a time."""
