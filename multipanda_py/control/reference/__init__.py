# SPDX-License-Identifier: Apache-2.0
"""Reference governor, trajectory generators and feed-forward."""
