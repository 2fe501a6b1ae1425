# SPDX-License-Identifier: Apache-2.0
"""Tasks: file format, preconditions, and planning of subtasks."""
