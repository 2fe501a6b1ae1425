# SPDX-License-Identifier: Apache-2.0
"""Task files: schema, goals, and plans of their subtasks."""
