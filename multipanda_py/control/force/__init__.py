# SPDX-License-Identifier: Apache-2.0
"""Contact force control, energy tanks and virtual masses."""
