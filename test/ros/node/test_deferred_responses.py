# SPDX-License-Identifier: Apache-2.0
"""Responses to failed requests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multipanda_py.ros.node.deferred_responses import refuse

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("word", ["message", "error"])
def test_franka_msgs_request_was_rejected_without_reason_at_node_end(word):
    response = refuse(SimpleNamespace(success=True, **{word: ""}), "the node ends")
    assert (response.success, getattr(response, word)) == (False, "the node ends")
