# SPDX-License-Identifier: Apache-2.0
"""Springs and dampers in joint and task space."""
