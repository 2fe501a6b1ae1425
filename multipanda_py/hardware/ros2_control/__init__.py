# SPDX-License-Identifier: Apache-2.0
"""Backend for arms behind an external controller manager, over topics for states and commands."""
