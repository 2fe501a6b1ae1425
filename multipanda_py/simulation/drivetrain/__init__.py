# SPDX-License-Identifier: Apache-2.0
"""Drive trains: elastic joints, friction and motors."""
