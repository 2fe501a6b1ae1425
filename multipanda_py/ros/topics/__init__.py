# SPDX-License-Identifier: Apache-2.0
"""Topics: states published by the node, targets received by it."""
