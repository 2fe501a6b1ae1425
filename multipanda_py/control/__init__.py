# SPDX-License-Identifier: Apache-2.0
"""The pieces that laws and features are made of."""
