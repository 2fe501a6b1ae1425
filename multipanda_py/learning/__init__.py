# SPDX-License-Identifier: Apache-2.0
"""Learning: Gymnasium environments, data sets of episodes, and policies."""
