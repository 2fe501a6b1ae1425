# SPDX-License-Identifier: Apache-2.0
"""Paired data sets: the same motions on a twin and on a plant, aligned, for learning."""
