# SPDX-License-Identifier: Apache-2.0
"""Backend for arms of another controller manager, over topics for states and commands."""
