# SPDX-License-Identifier: Apache-2.0
"""One handle for simulated and real hands."""
