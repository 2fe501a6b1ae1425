# SPDX-License-Identifier: Apache-2.0
"""Force control: estimation, integrators and energy tanks."""
