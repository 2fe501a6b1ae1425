# SPDX-License-Identifier: Apache-2.0
"""Paired data sets for learning: the same motions on a twin and on a plant, aligned in time.

The twin is a simulated arm. The plant is a real arm, or a simulated arm unlike the twin.
"""
