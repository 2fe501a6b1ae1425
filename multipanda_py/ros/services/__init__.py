# SPDX-License-Identifier: Apache-2.0
"""Services and actions of the node."""
